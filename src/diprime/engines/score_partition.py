"""A partition in boosting: an array of codes for each feature, and scores for every record.

The steps and questions of :class:`~diprime.engines.partitioned_scores.PartitionedScoreEngine`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain.target_layout import TargetLayout
from diprime.engines.executor import Answer
from diprime.engines.gradients import Cells, Gradients, ScoredRecords, Scores, Sums, Targets
from diprime.engines.memory import Memory
from diprime.engines.partition import Partition
from diprime.engines.scores import CellGrid
from diprime.engines.weights import NO_WEIGHTS, Weights, total_of, weighted_counts
from diprime.kernels import boosting
from diprime.kernels.constants import N_CODES

BLOCK_ROWS = 1 << 13
"""How many rows are encoded together."""
ROUND_BLOCK_ROWS = 1 << 16
"""How many records are moved and summed together. They stay in the processor's cache, and calls are few."""

_MIN_SHARD_ROWS = 1 << 14

Steps = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ScorePartition:
    """The records of a partition that have a valid target; a round reads the codes of its own features.

    Attributes
    ----------
    columns : array of shape (n_features, n)
        The codes of each feature.
    targets : array of shape (n,)
        The encoded targets.
    weights : array of shape (n,) or None
        The weights of the records; None if all weigh one.
    memory : Memory
        Where scores and cells are kept.
    scores : array of shape (n, n_scores)
        The scores, before the steps of the last round.
    cells : array of shape (n,)
        The cells of the last round.
    sums : array of shape (n_cells, n_columns)
        The sums of the gradients in these cells; of no cells before the first round.
    """

    columns: npt.NDArray[np.uint8]
    targets: Targets
    weights: Weights | None
    memory: Memory
    scores: Scores
    cells: Cells
    sums: Sums

    def copy(self) -> ScorePartition:
        """Return an equal state, which a step may use up while this one stays as it is."""
        scores = self.memory.empty(self.scores.shape, np.int32)
        cells = self.memory.empty(self.cells.shape, np.uint8)
        scores[:], cells[:] = self.scores, self.cells
        return replace(self, scores=scores, cells=cells)

    @property
    def total_weight(self) -> int:
        """The number of records, or the sum of their weights."""
        return total_of(self.weights, len(self.targets))


@dataclass(frozen=True)
class BeginScores:
    """The step that makes columns of the rows.

    Attributes
    ----------
    n_scores : int
        The number of scores of a record.
    """

    n_scores: int

    def __call__(self, state: Partition, threads: Threads) -> ScorePartition:
        """Take the room for everything, and encode the rows."""
        used, memory = state.records, state.memory
        kept = used.target >= 0
        n = int(kept.sum())
        targets = memory.empty((n,), np.uint16)
        targets[:] = used.target[kept]
        columns = memory.empty((state.rows.n_features, n), np.uint8)
        scores, cells = memory.empty((n, self.n_scores), np.int32), memory.empty((n,), np.uint8)
        _read_columns(state, kept, columns, threads)
        weights = None if used.weights is None else used.weights[kept]
        no_sums = np.zeros((0, 0), dtype=np.int64)
        return ScorePartition(columns, targets, weights, memory, scores, cells, no_sums)


def _read_columns(
    state: Partition, kept: npt.NDArray[np.bool_], columns: npt.NDArray[np.uint8], threads: Threads
) -> None:
    """Encode the rows that are kept, block by block."""
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
class TargetCounts:
    """The question how many of all records have each value of the target.

    Attributes
    ----------
    n_targets : int
        The number of values.
    """

    n_targets: int

    def __call__(self, state: ScorePartition, threads: Threads, out: Answer | None = None) -> Answer:
        """Count."""
        return weighted_counts(state.targets, state.weights, self.n_targets)


@dataclass(frozen=True)
class CodeSums:
    """The question for the sum of the records' vectors for each code of each feature.

    Attributes
    ----------
    layout : TargetLayout
        How the target becomes sums.
    """

    layout: TargetLayout

    def __call__(self, state: ScorePartition, threads: Threads, out: Answer | None = None) -> Answer:
        """Add up, feature by feature."""
        n_features = len(state.columns)
        sums = np.zeros((n_features, N_CODES, self.layout.n_outputs), dtype=np.int64)

        def count(first: int, last: int) -> None:
            for j in range(first, last):
                sums[j] = self._of_column(state, state.columns[j])

        threads.run(count, n_features)
        return sums

    def _of_column(self, state: ScorePartition, codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        n_outputs, targets, weights = self.layout.n_outputs, state.targets, state.weights
        if self.layout.task == "classification":
            places = codes.astype(np.int64) * n_outputs + targets
            return weighted_counts(places, weights, N_CODES * n_outputs).reshape(N_CODES, n_outputs)
        # Float64 adds integers exactly up to 2^53, which 2^31 targets of at most 2^16 stay below, by weight as well.
        weighted = targets if weights is None else targets * weights.astype(np.int64)
        totals = np.bincount(codes, weights=weighted, minlength=N_CODES).astype(np.int64)
        counts = weighted_counts(codes, weights, N_CODES)
        return np.stack([counts * self.layout.units - totals, totals], axis=1)


@dataclass(frozen=True)
class StartScores:
    """The step that gives every record the same scores.

    Attributes
    ----------
    offset : array of shape (n_scores,)
        The scores.
    """

    offset: npt.NDArray[np.int32]

    def __call__(self, state: ScorePartition, threads: Threads) -> ScorePartition:
        """Put all records into one cell as well."""
        state.scores[:] = self.offset
        state.cells[:] = 0
        return state


@dataclass(frozen=True)
class Round:
    """The step of a round: scores move by the steps of the last round, records go to new cells, gradients are summed.

    Attributes
    ----------
    steps : array of shape (n_cells, n_scores)
        The steps of the last round's cells.
    grid : CellGrid
        The cells of this round.
    gradients : Gradients
        What a record adds to the sums of its cell.
    """

    steps: Steps
    grid: CellGrid
    gradients: Gradients

    def __call__(self, state: ScorePartition, threads: Threads) -> ScorePartition:
        """Move the records, and sum their gradients while the processor has them at hand."""
        parts: list[Sums] = []
        weights = NO_WEIGHTS if state.weights is None else state.weights
        records = ScoredRecords(state.scores, state.targets, state.cells, weights)
        grid, gradients = self.grid, self.gradients

        def add(begin: int, end: int) -> None:
            sums = np.zeros((grid.n_cells, gradients.n_columns), dtype=np.int64)
            for first in range(begin, end, ROUND_BLOCK_ROWS):
                last = min(first + ROUND_BLOCK_ROWS, end)
                moved = (self.steps, first, last, state.cells, state.scores)
                boosting.move(state.columns, grid.features, grid.cells, *moved)
                gradients.add(records, first, last, sums)
            parts.append(sums)

        threads.run(add, len(state.targets), at_least=_MIN_SHARD_ROWS)
        return replace(state, sums=np.asarray(np.sum(parts, axis=0, dtype=np.int64)))


def gradient_sums(state: ScorePartition, threads: Threads, out: Answer | None = None) -> Sums:
    """Answer the question for the sums of the gradients of the last round."""
    return np.array(state.sums)


@dataclass(frozen=True)
class ResidualCounts:
    """The question how many records have a residual between each two edges.

    Attributes
    ----------
    steps : array of shape (n_cells, 1)
        The steps of the last round's cells, which scores are yet to be moved by.
    scale : int
        The units of a score in one unit of the target.
    edges : array of shape (n_edges,)
        The edges.
    """

    steps: Steps
    scale: int
    edges: npt.NDArray[np.int64]

    def __call__(self, state: ScorePartition, threads: Threads, out: Answer | None = None) -> Answer:
        """Count."""
        counts = np.zeros(len(self.edges) + 1, dtype=np.int64)
        for begin in range(0, len(state.targets), BLOCK_ROWS):
            block = slice(begin, begin + BLOCK_ROWS)
            scores = state.scores[block, 0].astype(np.int64) + self.steps[state.cells[block], 0]
            residuals = np.abs(state.targets[block].astype(np.int64) * self.scale - scores)
            weights = None if state.weights is None else state.weights[block]
            counts += weighted_counts(np.searchsorted(self.edges, residuals, side="right"), weights, len(counts))
        return counts
