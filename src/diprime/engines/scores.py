"""What boosting asks of whoever owns the private rows and their scores: sums of gradients in cells.

Where records have weights, a record of weight w counts as w equal records, in every count and every sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from diprime.engines.gradients import Gradients, Sums

MAX_CELLS = 256
"""The largest number of cells of a round: a cell is one byte."""


@dataclass(frozen=True)
class CellGrid:
    """The cells of a round: the product of the cells of one or two features.

    Attributes
    ----------
    features : array of shape (1,) or (2,)
        The features.
    cells : array of shape (1, 256) or (2, 256)
        The cell of each code of each feature. The cell of a record is their sum: those of the first of two features are
        multiples of the number of cells of the second.
    n_cells : int
        The number of cells, at most 256.
    """

    features: npt.NDArray[np.int32]
    cells: npt.NDArray[np.uint8]
    n_cells: int

    def __post_init__(self) -> None:
        if not 1 <= self.n_cells <= MAX_CELLS or self.cells.max(axis=1).sum(dtype=np.int64) >= self.n_cells:
            raise ValueError("The cells of a round are more than their number.")


class ScoreEngine(Protocol):
    """The owner of the rows and of their scores, for boosting."""

    def target_counts(self) -> npt.NDArray[np.int64]:
        """Return how many of all records have each value of the target."""

    def code_sums(self) -> npt.NDArray[np.int64]:
        """Return the sum of the records' vectors for each code of each feature: (n_features, 256, n_outputs)."""

    def start(self, offset: npt.NDArray[np.int32]) -> None:
        """Give every record the scores ``offset``."""

    def gradient_sums(self, grid: CellGrid, gradients: Gradients) -> Sums:
        """Sort the records into new cells and return the sums of their gradients: (n_cells, n_columns)."""

    def move_scores(self, steps: npt.NDArray[np.int32]) -> None:
        """Add to the scores of every record the step of its cell: (n_cells, n_scores)."""

    def residual_counts(self, scale: int, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many records have |scale·target - score| below each edge, and not below the one before.

        The last entry is that of records at or above all edges.
        """
