"""Rows in this process, for boosting: an array of codes for each feature, and a score for every record."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain.encoding import Rows
from diprime.domain.target_layout import TargetLayout
from diprime.engines.gradients import Gradients, ScoredRecords, Sums
from diprime.engines.scores import CellGrid
from diprime.engines.weights import NO_WEIGHTS, Weights, check_size, weighted_counts
from diprime.kernels import boosting
from diprime.kernels.constants import N_CODES

BLOCK_ROWS = 1 << 13
"""How many rows are encoded together."""
ROUND_BLOCK_ROWS = 1 << 16
"""How many records are moved and summed together. They stay in the processor's cache, and calls are few."""

_MIN_SHARD_ROWS = 1 << 14
_MAX_ROWS = (1 << 31) - 1  # a sum of so many gradients of 2^11 is below 2^42


class LocalScoreEngine:
    """The engine whose rows are in this process, one array of codes for each feature: a round reads those of its own.

    Parameters
    ----------
    rows : Rows
        The features.
    target : array of shape (n,)
        The encoded target; rows where it is negative are left out.
    layout : TargetLayout
        How the target becomes sums.
    threads : Threads
        The threads that do the work.
    weights : array of shape (n,), optional
        How many equal records each row counts as; one, if not given.
    """

    def __init__(
        self,
        rows: Rows,
        target: npt.NDArray[np.int32],
        layout: TargetLayout,
        threads: Threads,
        weights: Weights | None = None,
    ) -> None:
        check_size(target, weights, _MAX_ROWS)
        self._layout = layout
        self._threads = threads
        kept = target >= 0
        self._weights = None if weights is None else weights[kept]
        self._targets = target[kept].astype(np.uint16)
        self._n_rows = len(self._targets)
        self._columns = np.empty((rows.n_features, self._n_rows), dtype=np.uint8)
        self._read(rows, kept)

    def _read(self, rows: Rows, kept: npt.NDArray[np.bool_]) -> None:
        """Encode the rows block by block."""
        n_blocks = -(-rows.n_rows // BLOCK_ROWS)
        sizes = [int(kept[i * BLOCK_ROWS : (i + 1) * BLOCK_ROWS].sum()) for i in range(n_blocks)]
        begins = [0, *np.cumsum(sizes).tolist()]

        def read(first: int, last: int) -> None:
            codes = np.empty((BLOCK_ROWS, rows.n_features), dtype=np.uint8)
            for i in range(first, last):
                begin, end = i * BLOCK_ROWS, min((i + 1) * BLOCK_ROWS, rows.n_rows)
                block = codes[: end - begin]
                rows.read(begin, end, block)
                if begins[i + 1] - begins[i] < end - begin:
                    block = block[kept[begin:end]]
                self._columns[:, begins[i] : begins[i + 1]] = block.T

        self._threads.run(read, n_blocks)

    def target_counts(self) -> npt.NDArray[np.int64]:
        """Return how many of all records have each value of the target."""
        return weighted_counts(self._targets, self._weights, self._layout.n_targets)

    def code_sums(self) -> npt.NDArray[np.int64]:
        """Return the sum of the records' vectors for each code of each feature."""
        n_features = len(self._columns)
        sums = np.zeros((n_features, N_CODES, self._layout.n_outputs), dtype=np.int64)

        def count(first: int, last: int) -> None:
            for j in range(first, last):
                sums[j] = self._sums_of_column(self._columns[j])

        self._threads.run(count, n_features)
        return sums

    def _sums_of_column(self, codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        n_outputs = self._layout.n_outputs
        if self._layout.task == "classification":
            places = codes.astype(np.int64) * n_outputs + self._targets
            return weighted_counts(places, self._weights, N_CODES * n_outputs).reshape(N_CODES, n_outputs)
        # Float64 adds integers exactly up to 2^53, which 2^31 targets of at most 2^16 stay below, by weight as well.
        targets = self._targets if self._weights is None else self._targets * self._weights.astype(np.int64)
        totals = np.bincount(codes, weights=targets, minlength=N_CODES).astype(np.int64)
        counts = weighted_counts(codes, self._weights, N_CODES)
        return np.stack([counts * self._layout.units - totals, totals], axis=1)

    def start(self, offset: npt.NDArray[np.int32]) -> None:
        """Give every record the scores ``offset``."""
        self._scores = np.tile(offset, (self._n_rows, 1))
        self._cells = np.zeros(self._n_rows, dtype=np.uint8)
        self._steps = np.zeros((1, len(offset)), dtype=np.int32)

    def gradient_sums(self, grid: CellGrid, gradients: Gradients) -> Sums:
        """Sort the records into new cells and return the sums of their gradients."""
        parts: list[Sums] = []
        weights = NO_WEIGHTS if self._weights is None else self._weights
        records = ScoredRecords(self._scores, self._targets, self._cells, weights)

        def add(begin: int, end: int) -> None:
            sums = np.zeros((grid.n_cells, gradients.n_columns), dtype=np.int64)
            for first in range(begin, end, ROUND_BLOCK_ROWS):
                last = min(first + ROUND_BLOCK_ROWS, end)
                self._move(grid, first, last)
                gradients.add(records, first, last, sums)
            parts.append(sums)

        self._threads.run(add, self._n_rows, at_least=_MIN_SHARD_ROWS)
        self._steps = np.zeros((grid.n_cells, gradients.n_scores), dtype=np.int32)
        return np.asarray(np.sum(parts, axis=0, dtype=np.int64))

    def _move(self, grid: CellGrid, begin: int, end: int) -> None:
        boosting.move(self._columns, grid.features, grid.cells, self._steps, begin, end, self._cells, self._scores)

    def move_scores(self, steps: npt.NDArray[np.int32]) -> None:
        """Add to the scores of every record the step of its cell; the next round does it in its own pass."""
        self._steps = steps

    def residual_counts(self, scale: int, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many records have a residual between each two edges."""
        counts = np.zeros(len(edges) + 1, dtype=np.int64)
        for begin in range(0, self._n_rows, BLOCK_ROWS):
            block = slice(begin, begin + BLOCK_ROWS)
            scores = self._scores[block, 0].astype(np.int64) + self._steps[self._cells[block], 0]
            residuals = np.abs(self._targets[block].astype(np.int64) * scale - scores)
            weights = None if self._weights is None else self._weights[block]
            counts += weighted_counts(np.searchsorted(edges, residuals, side="right"), weights, len(counts))
        return counts
