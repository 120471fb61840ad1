"""A partition while trees grow: compact records, sorted by node, which are counted and moved from node to node.

The steps and questions of :class:`~diprime.engines.partitioned.PartitionedEngine`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain.target_layout import Bins, Contributions, TargetLayout, Windows
from diprime.engines.assignment import TreeDraws, Trees
from diprime.engines.executor import Answer
from diprime.engines.partition import Partition
from diprime.engines.weights import MAX_WEIGHT, NO_WEIGHTS, weighted_counts
from diprime.kernels import histogram
from diprime.kernels.constants import N_CODES

BLOCK_ROWS = 1 << 13
MIN_SHARD_ROWS = 1 << 12  # a thread's start costs as much as counting about so many rows

_Integers = npt.NDArray[np.int64]
_NO_NODES: _Integers = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class TreePartition:
    """The records of a partition, node after node.

    Attributes
    ----------
    partition : Partition
        The rows as they are encoded.
    words : array of shape (n_rows, n_words)
        The records, in whole words of eight bytes: swapping two records takes few steps. Those after the last node are
        not used.
    root_bounds, bounds : arrays of shape (n_trees + 1,) and (n_nodes + 1,)
        Where the records of each tree begin, and those of each node of the level.
    """

    partition: Partition
    words: npt.NDArray[np.uint64]
    root_bounds: _Integers
    bounds: _Integers

    def copy(self) -> TreePartition:
        """Return an equal state, which a step may use up while this one stays as it is."""
        words = self.partition.memory.empty(self.words.shape, np.uint64)
        words[:] = self.words
        return replace(self, words=words)

    @property
    def records(self) -> npt.NDArray[np.uint8]:
        """The records as bytes."""
        return self.words.view(np.uint8)

    @property
    def total_weight(self) -> int:
        """The number of rows, or the sum of their weights."""
        return self.partition.total_weight

    @property
    def weighted(self) -> bool:
        """Whether records have weights."""
        return self.partition.records.weights is not None

    def pieces(self, first: _Integers, last: _Integers, max_weight: int) -> Iterator[tuple[_Integers, _Integers]]:
        """Cut segments of records into pieces whose records weigh at most so much together."""
        size = max_weight // (MAX_WEIGHT if self.weighted else 1)
        for begin in range(0, max(int(self.bounds[-1]), 1), size):
            yield np.clip(first, begin, begin + size), np.clip(last, begin, begin + size)

    def even_bounds(self, n_shards: int) -> list[int]:
        """Return node numbers that cut the level into shards of about as many records."""
        cuts = np.linspace(0, self.bounds[-1], n_shards + 1)[1:-1]
        return [0, *np.searchsorted(self.bounds[:-1], cuts).tolist(), len(self.bounds) - 1]


def begin_trees(state: Partition, threads: Threads) -> TreePartition:
    """Take the room for the records."""
    n_bytes = state.rows.n_features + 2 + (state.records.weights is not None)
    words = state.memory.empty((state.rows.n_rows, -(-n_bytes // 8)), np.uint64)
    return TreePartition(state, words, _NO_NODES, _NO_NODES)


@dataclass(frozen=True)
class TargetCounts:
    """The question how many of all records have each value of the target.

    Attributes
    ----------
    n_targets : int
        The number of values.
    """

    n_targets: int

    def __call__(self, state: TreePartition, threads: Threads, out: Answer | None = None) -> Answer:
        """Count."""
        used = state.partition.records
        known = used.target >= 0
        weights = None if used.weights is None else used.weights[known]
        return weighted_counts(used.target[known], weights, self.n_targets)


@dataclass(frozen=True)
class AssignTrees:
    """The step that puts each record where those of its tree are.

    Attributes
    ----------
    draws : TreeDraws
        The trees of the rows of this partition; rows of tree ``n_trees`` are left out.
    n_trees : int
        How many trees share the rows.
    """

    draws: TreeDraws
    n_trees: int

    def __call__(self, state: TreePartition, threads: Threads) -> TreePartition:
        """Draw the trees, and encode the rows block by block, straight to where their trees' records are."""
        left_out = np.uint16(self.n_trees)
        trees = np.where(state.partition.records.target < 0, left_out, self.draws.draw(threads))
        return replace(state, root_bounds=self._scatter(state, trees, threads), bounds=_NO_NODES)

    def _scatter(self, state: TreePartition, trees: Trees, threads: Threads) -> _Integers:
        rows, used, records = state.partition.rows, state.partition.records, state.records
        weights = NO_WEIGHTS if used.weights is None else used.weights
        n_blocks, n_trees = -(-rows.n_rows // BLOCK_ROWS), self.n_trees
        blocks = [slice(i * BLOCK_ROWS, min((i + 1) * BLOCK_ROWS, rows.n_rows)) for i in range(n_blocks)]
        sizes = np.array([np.bincount(trees[b], minlength=n_trees)[:n_trees] for b in blocks], dtype=np.int64)
        sizes = sizes.reshape(n_blocks, n_trees)
        bounds = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))]).astype(np.int64)
        ends = bounds[:-1] + np.cumsum(sizes, axis=0) - sizes

        def scatter(first: int, last: int) -> None:
            codes = np.empty((BLOCK_ROWS, rows.n_features), dtype=np.uint8)
            for i in range(first, last):
                b = blocks[i]
                rows.read(b.start, b.stop, codes[: b.stop - b.start])
                histogram.scatter(codes, used.target[b], trees[b], weights[b], ends[i], records)

        threads.run(scatter, n_blocks)
        return bounds


def start_at_roots(state: TreePartition, threads: Threads) -> TreePartition:
    """Put every record at the root of its tree."""
    return replace(state, bounds=state.root_bounds)


@dataclass(frozen=True)
class Route:
    """The step that sends the records of every node to its children.

    Attributes
    ----------
    features : array of shape (n_nodes,)
        The feature of each node's split.
    masks : array of shape (n_nodes, 32)
        The codes that go right.
    """

    features: npt.NDArray[np.int32]
    masks: npt.NDArray[np.uint8]

    def __call__(self, state: TreePartition, threads: Threads) -> TreePartition:
        """Sort the records of each node."""
        first, last = state.bounds[:-1].copy(), state.bounds[1:].copy()
        middles = np.empty(len(first), dtype=np.int64)
        words, records = state.words, state.records

        def partition(a: int, b: int) -> None:
            splits = self.features[a:b], self.masks[a:b]
            histogram.partition(words, records, first[a:b], last[a:b], *splits, middles[a:b])

        threads.run_between(partition, state.even_bounds(threads.n_shards))
        bounds = np.empty(2 * len(first) + 1, dtype=np.int64)
        bounds[0::2] = state.bounds
        bounds[1::2] = middles
        return replace(state, bounds=bounds)


@dataclass(frozen=True)
class TargetView:
    """How histograms see the target: its layout, and a window for every node or one for all.

    What follows from them is large, and is computed where it is used.
    """

    layout: TargetLayout
    windows: Windows

    @cached_property
    def contributions(self) -> Contributions:
        """What every target adds to a bin."""
        return self.layout.contributions(self.windows)

    def __getstate__(self) -> dict[str, Any]:
        return {"layout": self.layout, "windows": self.windows}


@dataclass(frozen=True)
class CountNodes:
    """The question for the histograms of some nodes, a row of bins for each.

    Attributes
    ----------
    nodes : array of shape (n,)
        The nodes.
    view : TargetView
        How the target is seen.
    windows : array of shape (n,)
        Which window of the view is that of each node.
    wide : bool, default=False
        Whether counts and values are answered apart, in two planes, because a packed bin cannot hold their sums over
        all partitions.
    """

    nodes: _Integers
    view: TargetView
    windows: _Integers
    wide: bool = False

    def __call__(self, state: TreePartition, threads: Threads, out: Bins | None = None) -> Bins:
        """Count the records of the nodes, in the first rows of each plane of ``out`` if it has enough of them."""
        layout, n = self.view.layout, len(self.nodes)
        shape = n + threads.n_shards, state.partition.rows.n_features * N_CODES * layout.n_columns
        planes = out if out is not None and out.shape[1] >= shape[0] else np.empty((1 + self.wide, *shape), np.uint64)
        first, last = state.bounds[self.nodes], state.bounds[self.nodes + 1]
        if not self.wide:
            self._count(state, first, last, threads, planes[0])
            return planes[:, :n]
        planes[:, :n] = 0
        packed = np.empty(shape, dtype=np.uint64)
        for piece in state.pieces(first, last, layout.max_rows):
            self._count(state, *piece, threads, packed)
            counts, values = layout.unpacked(packed[:n])
            planes[0, :n] += counts
            planes[1, :n] += values
        return planes[:, :n]

    def _count(self, state: TreePartition, first: _Integers, last: _Integers, threads: Threads, bins: Bins) -> None:
        """Count segments of records into rows of bins, the same number of records to each thread.

        A segment that two threads share is counted in its row by the first and in a spare row by the second, which is
        then added.
        """
        adds, n_columns = self.view.contributions, self.view.layout.n_columns
        sizes, records, n = last - first, state.records, len(first)
        ahead = np.concatenate([[0], np.cumsum(sizes)])  # records of the segments before
        n_shards = max(1, min(threads.n_shards, int(ahead[-1]) // MIN_SHARD_ROWS))
        cuts = np.linspace(0, ahead[-1], n_shards + 1).astype(np.int64)
        shared: list[tuple[int, int]] = []

        def count(shard: int, _: int) -> None:
            low, high = cuts[shard], cuts[shard + 1]
            a = int(np.searchsorted(ahead[:-1], low, side="left"))
            if a == n or ahead[a] > low:
                a -= 1
            b = int(np.searchsorted(ahead[:-1], high, side="left")) if shard + 1 < n_shards else n
            begins = first[a:b] + np.maximum(low - ahead[a:b], 0)
            ends = np.minimum(last[a:b], first[a:b] + (high - ahead[a:b]))
            into = np.arange(a, b, dtype=np.int64)
            if ahead[a] < low:
                shared.append((a, n + shard))
                into[0] = n + shard
            of_all = (adds.columns, adds.amounts, n_columns, state.weighted)
            histogram.accumulate(records, begins, ends, into, self.windows[a:b], *of_all, bins)

        threads.run_between(count, list(range(n_shards + 1)))
        for row, spare in shared:
            bins[row] += bins[spare]


@dataclass(frozen=True)
class NodeSums:
    """The question for the sums of the records' vectors at every node.

    Attributes
    ----------
    view : TargetView
        How the target is seen, through one window.
    by_target : bool, default=False
        Whether records are counted instead, in a column for each value of the target.
    """

    view: TargetView
    by_target: bool = False

    def __call__(self, state: TreePartition, threads: Threads, out: Answer | None = None) -> Answer:
        """Add up."""
        layout = self.view.layout
        if self.by_target:
            adds, n_columns = layout.count_contributions(), layout.n_targets
            return self._add(state, state.bounds[:-1], state.bounds[1:], adds, n_columns, threads).astype(np.int64)
        sums = np.zeros((len(state.bounds) - 1, layout.n_outputs), dtype=np.int64)
        for first, last in state.pieces(state.bounds[:-1], state.bounds[1:], layout.max_rows):
            adds = self.view.contributions
            sums += layout.vectors(self._add(state, first, last, adds, layout.n_columns, threads))
        return sums

    @staticmethod
    def _add(
        state: TreePartition,
        first: _Integers,
        last: _Integers,
        adds: Contributions,
        n_columns: int,
        threads: Threads,
    ) -> Bins:
        first, last, records = first.copy(), last.copy(), state.records  # the kernel reads them in order
        bins = np.zeros((len(first), n_columns), dtype=np.uint64)

        def add(a: int, b: int) -> None:
            of_all = (adds.columns, adds.amounts[0], state.weighted)
            histogram.node_sums(records, first[a:b], last[a:b], *of_all, bins[a:b])

        threads.run_between(add, state.even_bounds(threads.n_shards))
        return bins
