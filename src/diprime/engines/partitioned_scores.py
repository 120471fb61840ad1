"""The engine of boosting: partitions keep the scores of their records, and what they answer is added up here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout
from diprime.engines.executor import Executor, Step
from diprime.engines.gradients import Gradients, Sums, gradients_of
from diprime.engines.partition import total_weight
from diprime.engines.score_partition import (
    BeginScores,
    CodeSums,
    ResidualCounts,
    Round,
    StartScores,
    TargetCounts,
    gradient_sums,
)
from diprime.engines.scores import CellGrid
from diprime.engines.weights import check_sizes, check_weight


class PartitionedScoreEngine:
    """The engine whose rows are in the partitions of an executor; a fit in memory has one.

    Parameters
    ----------
    executor : Executor
        The owner of the partitions.
    layout : TargetLayout
        How the target becomes sums.
    """

    def __init__(self, executor: Executor, layout: TargetLayout) -> None:
        check_sizes(executor.sizes)
        self._executor = executor
        self._layout = layout
        self._advance(BeginScores(gradients_of(layout).n_scores))
        weight = int(executor.ask(total_weight))  # so there is room for the records before anything is paid for
        check_weight(weight)  # a sum of 2^40 gradients of 2^11 is below 2^52

    def _advance(self, step: Step) -> None:
        """Let every partition take the same step."""
        self._executor.advance([step] * len(self._executor.sizes))

    def target_counts(self) -> npt.NDArray[np.int64]:
        """Return how many of all records have each value of the target."""
        return self._executor.ask(TargetCounts(self._layout.n_targets))

    def code_sums(self) -> npt.NDArray[np.int64]:
        """Return the sum of the records' vectors for each code of each feature."""
        return self._executor.ask(CodeSums(self._layout))

    def start(self, offset: npt.NDArray[np.int32]) -> None:
        """Give every record the scores ``offset``."""
        self._advance(StartScores(offset))
        self._steps: npt.NDArray[np.int32] = np.zeros((1, len(offset)), dtype=np.int32)

    def gradient_sums(self, grid: CellGrid, gradients: Gradients) -> Sums:
        """Sort the records into new cells and return the sums of their gradients."""
        self._advance(Round(self._steps, grid, gradients))
        self._steps = np.zeros((grid.n_cells, gradients.n_scores), dtype=np.int32)
        return self._executor.ask(gradient_sums)

    def move_scores(self, steps: npt.NDArray[np.int32]) -> None:
        """Add to the scores of every record the step of its cell; the next round does it in its own pass."""
        self._steps = steps

    def residual_counts(self, scale: int, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many records have a residual between each two edges."""
        return self._executor.ask(ResidualCounts(self._steps, scale, edges))
