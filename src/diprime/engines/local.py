"""Rows in this process: encoded once into compact records, which its threads count and move from node to node."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain.encoding import Rows
from diprime.domain.target_layout import Bins, Contributions, TargetLayout, Windows
from diprime.engines.assignment import TreeAssignment, Trees
from diprime.engines.weights import NO_WEIGHTS, Weights, check_size, weighted_counts
from diprime.kernels import histogram
from diprime.kernels.constants import N_CODES
from diprime.privacy.randomness import RandomSource

CHUNK_BYTES = 32 << 20
BLOCK_ROWS = 1 << 13
MIN_SHARD_ROWS = 1 << 12  # a thread's start costs as much as counting about so many rows


class LocalEngine:
    """The engine whose rows are in this process.

    Parameters
    ----------
    rows : Rows
        The features.
    target : array of shape (n,)
        The encoded target; rows where it is negative are left out.
    layout : TargetLayout
        How the target becomes sums.
    threads : Threads
        The threads that count and route.
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
        check_size(target, weights, layout.max_rows)
        self._layout = layout
        self._weights = NO_WEIGHTS if weights is None else weights
        self._weighted = weights is not None
        self._rows = rows
        self._target = target
        self._threads = threads
        self._width = rows.n_features * N_CODES * layout.n_columns
        self._nodes_per_chunk = max(2, CHUNK_BYTES // (8 * self._width) // 2 * 2)
        self._buffers: list[Bins | None] = [None, None]

    def target_counts(self) -> npt.NDArray[np.int64]:
        """Return how many of all records have each value of the target."""
        known = self._target >= 0
        weights = self._weights[known] if self._weighted else None
        return weighted_counts(self._target[known], weights, self._layout.n_targets)

    def assign_trees(self, assignment: TreeAssignment, source: RandomSource) -> None:
        """Draw the tree of each row, for :meth:`start` to put it at the root of."""
        trees = assignment.draw(self._rows.n_rows, source, self._threads)
        left_out = np.uint16(assignment.n_trees)
        self._scatter(np.where(self._target < 0, left_out, trees), assignment.n_trees)

    def _scatter(self, trees: Trees, n_trees: int) -> None:
        """Encode the rows block by block, straight to where their trees' records are; tree ``n_trees`` is left out."""
        rows, target = self._rows, self._target
        n_blocks = -(-rows.n_rows // BLOCK_ROWS)
        blocks = [slice(i * BLOCK_ROWS, min((i + 1) * BLOCK_ROWS, rows.n_rows)) for i in range(n_blocks)]
        sizes = np.array([np.bincount(trees[b], minlength=n_trees)[:n_trees] for b in blocks], dtype=np.int64)
        sizes = sizes.reshape(n_blocks, n_trees)
        self._root_bounds = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))]).astype(np.int64)
        ends = self._root_bounds[:-1] + np.cumsum(sizes, axis=0) - sizes
        # Whole words of eight bytes: swapping two records takes few steps.
        n_bytes = rows.n_features + 2 + self._weighted
        self._words = np.empty((self._root_bounds[-1], -(-n_bytes // 8)), dtype=np.uint64)
        self._records = self._words.view(np.uint8)

        def scatter(first: int, last: int) -> None:
            codes = np.empty((BLOCK_ROWS, rows.n_features), dtype=np.uint8)
            for i in range(first, last):
                b = blocks[i]
                rows.read(b.start, b.stop, codes[: b.stop - b.start])
                histogram.scatter(codes, target[b], trees[b], self._weights[b], ends[i], self._records)

        self._threads.run(scatter, n_blocks)

    def start(self) -> None:
        """Put every row at the root of its tree, and see numeric targets in their whole range."""
        self._bounds = self._root_bounds
        self.set_windows(self._layout.whole_range)

    def set_windows(self, windows: Windows) -> None:
        """From now on, histograms see the targets of each node and its descendants through a window.

        This discards cached parent histograms, which saw the targets through other windows.
        """
        n_nodes = len(self._bounds) - 1
        self._contributions = self._layout.contributions(windows)
        self._tables: npt.NDArray[np.int64] = np.zeros(n_nodes, dtype=np.int64)  # the window of each node
        if len(windows) > 1:
            self._tables = np.arange(n_nodes, dtype=np.int64)
        self._parents: Bins | None = None
        self._next_parents: Bins | None = None

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Cut the nodes of the level into ranges whose histograms fit in memory together; siblings stay together."""
        n_nodes = len(self._bounds) - 1
        for begin in range(0, n_nodes, self._nodes_per_chunk):
            yield begin, min(begin + self._nodes_per_chunk, n_nodes)

    def _buffer(self) -> Bins:
        """Return memory for a chunk of histograms, and for one more a shard, that does not hold the parents'.

        It is reserved once and used level after level; what is never written takes no memory.
        """
        shape = (self._nodes_per_chunk + self._threads.n_shards, self._width)
        for i, buffer in enumerate(self._buffers):
            if buffer is None:
                self._buffers[i] = buffer = np.empty(shape, dtype=np.uint64)
            if self._parents is None or not np.shares_memory(buffer, self._parents):
                return buffer
        raise AssertionError("one of two buffers is always free")

    def histograms(self, begin: int, end: int) -> Bins:
        """Return the histograms of a chunk: counted, or the parent's less the sibling's for the larger of two."""
        bins = self._buffer()
        first, last = self._bounds[begin:end], self._bounds[begin + 1 : end + 1]
        if self._parents is None:
            self._count(first, last, np.arange(end - begin, dtype=np.int64), self._tables[begin:end], end - begin, bins)
        else:
            n_pairs = (end - begin) // 2
            size = last - first
            smaller = 2 * np.arange(n_pairs, dtype=np.int64) + (size[1::2] < size[::2])
            larger = smaller ^ 1
            tables = self._tables[begin:end][smaller]
            self._count(first[smaller], last[smaller], smaller, tables, end - begin, bins)
            rows = begin // 2 + np.arange(n_pairs, dtype=np.int64)
            parents = self._parents

            def subtract(a: int, b: int) -> None:
                histogram.subtract(parents, rows[a:b], smaller[a:b], larger[a:b], bins)

            self._threads.run(subtract, n_pairs)
        whole_level = end - begin == len(self._bounds) - 1
        self._next_parents = bins[: end - begin] if whole_level else None
        return bins[: end - begin]

    def _count(
        self,
        first: npt.NDArray[np.int64],
        last: npt.NDArray[np.int64],
        slots: npt.NDArray[np.int64],
        tables: npt.NDArray[np.int64],
        n_slots: int,
        bins: Bins,
    ) -> None:
        """Count segments of rows into slots, the same number of rows to each thread.

        A segment that two threads share is counted in its slot by the first and in a spare slot by the second, which
        is then added.
        """
        adds = self._contributions
        sizes = last - first
        ahead = np.concatenate([[0], np.cumsum(sizes)])  # rows of the segments before
        n_shards = max(1, min(self._threads.n_shards, int(ahead[-1]) // MIN_SHARD_ROWS))
        cuts = np.linspace(0, ahead[-1], n_shards + 1).astype(np.int64)
        shared: list[tuple[int, int]] = []

        def count(shard: int, _: int) -> None:
            low, high = cuts[shard], cuts[shard + 1]
            a = int(np.searchsorted(ahead[:-1], low, side="left"))
            if a == len(sizes) or ahead[a] > low:
                a -= 1
            b = int(np.searchsorted(ahead[:-1], high, side="left")) if shard + 1 < n_shards else len(sizes)
            begins = first[a:b] + np.maximum(low - ahead[a:b], 0)
            ends = np.minimum(last[a:b], first[a:b] + (high - ahead[a:b]))
            into = slots[a:b].copy()
            if ahead[a] < low:
                shared.append((int(into[0]), n_slots + shard))
                into[0] = n_slots + shard
            of_all = (adds.columns, adds.amounts, self._layout.n_columns, self._weighted)
            histogram.accumulate(self._records, begins, ends, into, tables[a:b], *of_all, bins)

        self._threads.run_between(count, list(range(n_shards + 1)))
        for slot, spare in shared:
            bins[slot] += bins[spare]

    def route(self, features: npt.NDArray[np.int32], masks: npt.NDArray[np.uint8]) -> None:
        """Send the rows of every node to its children."""
        n_nodes = len(features)
        first, last = self._bounds[:-1].copy(), self._bounds[1:].copy()
        middles = np.empty(n_nodes, dtype=np.int64)

        def partition(a: int, b: int) -> None:
            histogram.partition(
                self._words, self._records, first[a:b], last[a:b], features[a:b], masks[a:b], middles[a:b]
            )

        self._threads.run_between(partition, self._even_bounds())
        bounds = np.empty(2 * n_nodes + 1, dtype=np.int64)
        bounds[0::2] = self._bounds
        bounds[1::2] = middles
        self._bounds = bounds
        self._tables = np.repeat(self._tables, 2)
        self._parents, self._next_parents = self._next_parents, None

    def _even_bounds(self) -> list[int]:
        """Return node numbers that cut the level into shards of about as many rows."""
        rows = np.linspace(0, self._bounds[-1], self._threads.n_shards + 1)[1:-1]
        return [0, *np.searchsorted(self._bounds[:-1], rows).tolist(), len(self._bounds) - 1]

    def node_target_counts(self) -> npt.NDArray[np.int64]:
        """Return how many records of every node have each value of the target."""
        return self._node_sums(self._layout.count_contributions(), self._layout.n_targets).astype(np.int64)

    def node_sums(self, window: Windows) -> npt.NDArray[np.int64]:
        """Return the sum of the records' vectors at every node, with numeric targets seen through one window."""
        return self._layout.vectors(self._node_sums(self._layout.contributions(window), self._layout.n_columns))

    def _node_sums(self, adds: Contributions, n_columns: int) -> Bins:
        """Return the sums of what the records of every node add to each column."""
        first, last = self._bounds[:-1].copy(), self._bounds[1:].copy()
        bins = np.zeros((len(first), n_columns), dtype=np.uint64)

        def add(a: int, b: int) -> None:
            of_all = (adds.columns, adds.amounts[0], self._weighted)
            histogram.node_sums(self._records, first[a:b], last[a:b], *of_all, bins[a:b])

        self._threads.run_between(add, self._even_bounds())
        return bins
