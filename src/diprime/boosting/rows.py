"""Updates and queries of boosting, on partitions with an array of codes per feature and scores per record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads, check_room
from diprime.boosting.gradients import CellGrid, Cells, CurveGrid, Gradients, Scores, Sums, Targets
from diprime.domain.encoding import TargetLayout
from diprime.execution.executor import PartialSum
from diprime.execution.partition import (
    NO_WEIGHTS,
    ArrayStorage,
    Partition,
    Weights,
    blocks_of,
    total_of,
    weighted_counts,
)
from diprime.kernels import boosting
from diprime.kernels.constants import N_CODES

BLOCK_ROWS = 1 << 13
"""Number of rows that are encoded together."""
ROUND_BLOCK_ROWS = 1 << 13
"""Number of records processed together: few enough for the processor's cache, many enough to need few calls."""
CURVE_BLOCK_ROWS = 1 << 12

_MIN_SHARD_ROWS = 1 << 14

Steps = npt.NDArray[np.int32]


@dataclass(frozen=True)
class BoostingRows:
    """Records of a partition that have a valid target."""

    columns: npt.NDArray[np.uint8]  # shape (n_features, n): codes of each feature
    targets: Targets  # shape (n,): encoded targets
    weights: Weights | None  # shape (n,): weights of the records; None if all are one
    memory: ArrayStorage  # storage of scores and cells
    scores: Scores  # shape (n, n_scores): scores before the steps of the last round
    cells: Cells  # shape (n,): cells of the last round
    sums: Sums  # shape (n_cells, n_columns): gradient sums of these cells; empty before the first round

    def copy(self) -> BoostingRows:
        """Return a copy that an update may overwrite."""
        scores = self.memory.empty(self.scores.shape, np.int32)
        cells = self.memory.empty(self.cells.shape, np.uint8)
        scores[:], cells[:] = self.scores, self.cells
        return replace(self, scores=scores, cells=cells)

    @property
    def total_weight(self) -> int:
        """Number of records, or the sum of their weights."""
        return total_of(self.weights, len(self.targets))


@dataclass(frozen=True)
class BeginScores:
    """Update that encodes the rows as columns and allocates the scores."""

    n_scores: int  # number of scores of a record

    def __call__(self, state: Partition, threads: Threads) -> BoostingRows:
        """Allocate all arrays and encode the rows."""
        used, memory = state.records, state.memory
        kept = used.target >= 0
        n = int(kept.sum())
        targets = memory.empty((n,), np.uint16)
        targets[:] = used.target[kept]
        columns = memory.empty((state.rows.n_features, n), np.uint8)
        scores, cells = memory.empty((n, self.n_scores), np.int32), memory.empty((n,), np.uint8)
        _read_columns(state, kept, columns, threads)
        weights = None if used.weights is None else used.weights[kept]
        check_room(_curve_bytes(len(columns), self.n_scores, threads.n))
        no_sums = np.zeros((0, 0), dtype=np.int64)
        return BoostingRows(columns, targets, weights, memory, scores, cells, no_sums)


def _curve_bytes(n_features: int, n_scores: int, n_threads: int) -> int:
    """Return the memory for curves: sums of each thread, about eight tables like them, and basis functions."""
    return N_CODES * n_features * (8 * n_scores * (n_threads + 8) + 128)


def _read_columns(
    state: Partition, kept: npt.NDArray[np.bool_], columns: npt.NDArray[np.uint8], threads: Threads
) -> None:
    """Encode the kept rows block by block."""
    rows = state.rows
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
            columns[:, begins[i] : begins[i + 1]] = block.T

    threads.run(read, n_blocks)


@dataclass(frozen=True)
class CodeSumsQuery:
    """Query for the sum of the records' vectors for each code of each feature."""

    layout: TargetLayout  # encoding of the target in sums

    def __call__(self, state: BoostingRows, threads: Threads, out: PartialSum | None = None) -> PartialSum:
        """Return the sums, shape (n_features, 256, n_outputs)."""
        n_features = len(state.columns)
        sums = np.zeros((n_features, N_CODES, self.layout.n_outputs), dtype=np.int64)

        def count(first: int, last: int) -> None:
            for j in range(first, last):
                for block in blocks_of(len(state.targets)):
                    sums[j] += self._of_block(state, state.columns[j, block], block)

        threads.run(count, n_features)
        return sums

    def _of_block(self, state: BoostingRows, codes: npt.NDArray[np.uint8], block: slice) -> npt.NDArray[np.int64]:
        n_outputs, targets = self.layout.n_outputs, state.targets[block]
        weights = None if state.weights is None else state.weights[block]
        if self.layout.task == "classification":
            places = codes.astype(np.int64) * n_outputs + targets
            return weighted_counts(places, weights, N_CODES * n_outputs).reshape(N_CODES, n_outputs)
        # Float64 adds integers exactly up to 2^53. The 2^18 targets of a block, below 2^16 and with weights below 2^8,
        # add up to less than 2^42.
        weighted = targets if weights is None else targets * weights.astype(np.int64)
        totals = np.bincount(codes, weights=weighted, minlength=N_CODES).astype(np.int64)
        counts = weighted_counts(codes, weights, N_CODES)
        return np.stack([counts * self.layout.units - totals, totals], axis=1)


@dataclass(frozen=True)
class CurveSumsQuery:
    """Query for the sum of the shortened gradients for each code of some features, at the scores of their curves."""

    grid: CurveGrid
    gradients: Gradients

    def __call__(self, state: BoostingRows, threads: Threads, out: PartialSum | None = None) -> PartialSum:
        """Return the sums, shape (n_features, 256, n_scores)."""
        grid, gradients = self.grid, self.gradients
        n_scores = gradients.n_scores
        total = np.zeros((len(grid.features), N_CODES, n_scores), dtype=np.int64)
        adding = Lock()

        def add(begin: int, end: int) -> None:
            sums = np.zeros_like(total)
            vectors = np.empty((CURVE_BLOCK_ROWS, gradients.n_columns), dtype=np.int64)
            for first in range(begin, end, CURVE_BLOCK_ROWS):
                last = min(first + CURVE_BLOCK_ROWS, end)
                block = vectors[: last - first]
                scores, squares = grid.look_up(state.columns, first, last)
                gradients.write(scores, state.targets[first:last], 0, last - first, block)
                shortened = grid.shorten(block[:, :n_scores], squares)
                if state.weights is not None:
                    shortened *= state.weights[first:last, None]
                boosting.add_to_codes(state.columns, grid.features, shortened, first, last, sums)
            with adding:
                np.add(total, sums, out=total)

        threads.run(add, len(state.targets), at_least=_MIN_SHARD_ROWS)
        return total


@dataclass(frozen=True)
class StartScores:
    """Update that sets the scores of all records to those of curves."""

    grid: CurveGrid

    def __call__(self, state: BoostingRows, threads: Threads) -> BoostingRows:
        """Set the scores, and put all records into one cell."""
        for begin in range(0, len(state.targets), CURVE_BLOCK_ROWS):
            end = min(begin + CURVE_BLOCK_ROWS, len(state.targets))
            state.scores[begin:end] = self.grid.look_up(state.columns, begin, end)[0]
        state.cells[:] = 0
        return state


@dataclass(frozen=True)
class RoundUpdate:
    """Update that applies the steps of the last round, assigns records to new cells, and sums their gradients."""

    steps: Steps  # shape (n_cells, n_scores): steps of the last round's cells
    grid: CellGrid  # cells of this round
    gradients: Gradients

    def __call__(self, state: BoostingRows, threads: Threads) -> BoostingRows:
        """Update the records, and sum their gradients while they are in the processor's cache."""
        parts: list[Sums] = []
        weights = NO_WEIGHTS if state.weights is None else state.weights
        grid, gradients = self.grid, self.gradients

        def add(begin: int, end: int) -> None:
            sums = np.zeros((grid.n_cells, gradients.n_columns), dtype=np.int64)
            vectors = np.empty((ROUND_BLOCK_ROWS, gradients.n_columns), dtype=np.int64)
            for first in range(begin, end, ROUND_BLOCK_ROWS):
                last = min(first + ROUND_BLOCK_ROWS, end)
                moved = (self.steps, first, last, state.cells, state.scores)
                boosting.move(state.columns, grid.features, grid.cells, *moved)
                gradients.write(state.scores, state.targets, first, last, vectors)
                boosting.add_to_cells(vectors, state.cells, first, last, weights, sums)
            parts.append(sums)

        threads.run(add, len(state.targets), at_least=_MIN_SHARD_ROWS)
        return replace(state, sums=np.asarray(np.sum(parts, axis=0, dtype=np.int64)))


def gradient_sums(state: BoostingRows, threads: Threads, out: PartialSum | None = None) -> Sums:
    """Return a copy of the gradient sums of the last round."""
    return np.array(state.sums)


@dataclass(frozen=True)
class ResidualCountsQuery:
    """Query for the number of records with a residual between each two consecutive edges."""

    steps: Steps  # shape (n_cells, 1): steps of the last round's cells, not yet added to the scores
    scale: int  # number of score units in one unit of the target
    edges: npt.NDArray[np.int64]  # shape (n_edges,)

    def __call__(self, state: BoostingRows, threads: Threads, out: PartialSum | None = None) -> PartialSum:
        """Return the counts, shape (n_edges + 1,)."""
        counts = np.zeros(len(self.edges) + 1, dtype=np.int64)
        for begin in range(0, len(state.targets), BLOCK_ROWS):
            block = slice(begin, begin + BLOCK_ROWS)
            scores = state.scores[block, 0].astype(np.int64) + self.steps[state.cells[block], 0]
            residuals = np.abs(state.targets[block].astype(np.int64) * self.scale - scores)
            weights = None if state.weights is None else state.weights[block]
            counts += weighted_counts(np.searchsorted(self.edges, residuals, side="right"), weights, len(counts))
        return counts
