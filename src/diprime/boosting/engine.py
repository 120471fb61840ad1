"""The boosting engine: all sums over records that training can query, added up over partitions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime.boosting.gradients import CellGrid, CurveGrid, Gradients, Sums, gradients_of
from diprime.boosting.rows import (
    BeginScores,
    CodeSumsQuery,
    CurveSumsQuery,
    ResidualCountsQuery,
    RoundUpdate,
    StartScores,
    gradient_sums,
)
from diprime.domain.encoding import TargetLayout
from diprime.execution.executor import Executor, StateUpdate
from diprime.execution.partition import TargetCountsQuery, check_sizes, check_weight, total_weight


class BoostingEngine:
    """Owner of the rows and their scores, in the partitions of an executor. A fit in memory has one partition."""

    def __init__(self, executor: Executor, layout: TargetLayout) -> None:
        check_sizes(executor.sizes)
        self._executor = executor
        self._layout = layout
        self._advance(BeginScores(gradients_of(layout).n_scores))
        weight = int(executor.sum(total_weight))  # this allocates memory for the records before anything is charged
        check_weight(weight)  # a sum of 2^40 vectors of norm 2^20 is at most 2^60

    def _advance(self, step: StateUpdate) -> None:
        """Apply the same update to every partition."""
        self._executor.apply([step] * len(self._executor.sizes))

    def target_counts(self) -> npt.NDArray[np.int64]:
        """Return the number of records with each value of the target."""
        return self._executor.sum(TargetCountsQuery(self._layout.n_targets))

    def code_sums(self) -> npt.NDArray[np.int64]:
        """Return the sum of the records' vectors for each code of each feature: (n_features, 256, n_outputs)."""
        return self._executor.sum(CodeSumsQuery(self._layout))

    def curve_sums(self, grid: CurveGrid, gradients: Gradients) -> Sums:
        """Return the sums of the shortened gradients for the codes of the curves' features."""
        return self._executor.sum(CurveSumsQuery(grid, gradients))

    def start(self, grid: CurveGrid) -> None:
        """Set the scores of every record to those of curves."""
        self._advance(StartScores(grid))
        self._steps: npt.NDArray[np.int32] = np.zeros((1, len(grid.offset)), dtype=np.int32)

    def gradient_sums(self, grid: CellGrid, gradients: Gradients) -> Sums:
        """Assign the records to new cells and return the sums of their gradients: (n_cells, n_columns)."""
        self._advance(RoundUpdate(self._steps, grid, gradients))
        self._steps = np.zeros((grid.n_cells, gradients.n_scores), dtype=np.int32)
        return self._executor.sum(gradient_sums)

    def move_scores(self, steps: npt.NDArray[np.int32]) -> None:
        """Add the step of its cell to the scores of every record, in the next round's pass over the records."""
        self._steps = steps

    def residual_counts(self, scale: int, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the number of records with |scale·target - score| below each edge and not below the previous edge.

        The last entry counts the records at or above all edges.
        """
        return self._executor.sum(ResidualCountsQuery(self._steps, scale, edges))
