"""Updates and queries of forests, on partitions with compact records sorted by node; random draws of trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads, check_room
from diprime.domain.encoding import Bins, ClippingRanges, Contributions, TargetLayout
from diprime.execution.executor import PartialSum
from diprime.execution.partition import MAX_WEIGHT, NO_WEIGHTS, Partition, Target, Weights, blocks_of, stored
from diprime.kernels import histogram, sampling
from diprime.kernels.constants import N_CODES
from diprime.privacy.randomness import StreamCarrier, Streams, secret_copy

BLOCK_ROWS = 1 << 13
MIN_SHARD_ROWS = 1 << 12  # starting a thread takes about as long as counting this many rows

_Integers = npt.NDArray[np.int64]
_NO_NODES: _Integers = np.zeros(1, dtype=np.int64)


Trees = npt.NDArray[np.uint16]

ROWS_PER_STREAM = 1 << 16
_BAG_PER_MILLE = 632  # fraction of distinct rows in a bootstrap sample, 1 - 1/e, per mille


class TreeDraws(Protocol):
    """Random draws of the trees of one partition's rows."""

    def draw(self, threads: Threads) -> Trees:
        """Return the tree of each row in a new array. Every call returns the same trees."""


@dataclass(frozen=True)
class DrawnTrees:
    """Trees that have already been drawn."""

    trees: Trees

    def draw(self, threads: Threads) -> Trees:
        """Return the tree of each row."""
        return np.array(self.trees)


@dataclass(frozen=True)
class SingleTree:
    """Assignment of all rows to a single tree."""

    n_rows: int

    def draw(self, threads: Threads) -> Trees:
        """Return zero for each row."""
        return np.zeros(self.n_rows, dtype=np.uint16)


@dataclass(frozen=True)
class IndependentDraws(StreamCarrier):
    """Independent draws of trees, with 2^16 rows per stream."""

    streams: Streams  # shape (n_streams, 33): streams of the rows
    skipped: int  # number of rows of the first stream that are in earlier partitions
    n_rows: int
    n_trees: int

    def draw(self, threads: Threads) -> Trees:
        """Return the tree of each row."""
        trees = np.empty(self.skipped + self.n_rows, dtype=np.uint16)
        streams = secret_copy(self.streams)

        def draw(begin: int, end: int) -> None:
            for i in range(begin, end):
                here = slice(i * ROWS_PER_STREAM, (i + 1) * ROWS_PER_STREAM)
                sampling.draw_trees(streams[i], self.n_trees, trees[here])

        threads.run(draw, len(streams))
        return trees[self.skipped :]


@dataclass(frozen=True)
class BagDraws(StreamCarrier):
    """Random bag of the rows."""

    streams: Streams  # shape (1, 33): stream, at the position of the first row
    n_rows: int

    def draw(self, threads: Threads) -> Trees:
        """Return 0 for the rows of the bag and 1 for the others."""
        return self._next(secret_copy(self.streams))

    def _next(self, streams: Streams) -> Trees:
        """Draw from a stream, a block at a time, and advance it."""
        trees = np.empty(self.n_rows, dtype=np.uint16)
        numbers = np.empty(ROWS_PER_STREAM, dtype=np.uint64)
        for begin in range(0, self.n_rows, ROWS_PER_STREAM):
            block = numbers[: self.n_rows - begin]
            sampling.draw_below(streams[0], 1000, block)
            trees[begin : begin + len(block)] = block >= _BAG_PER_MILLE
        return trees

    def after(self) -> Streams:
        """Return the stream at the position after the last row."""
        streams = secret_copy(self.streams)
        self._next(streams)
        return streams


@dataclass(frozen=True)
class ForestRows:
    """Records of a partition, sorted by node.

    ``words`` (n_rows, n_words): records, padded to words of eight bytes so that swapping two records is fast. Records
    after the last node are not used.
    """

    partition: Partition  # encoded rows
    words: npt.NDArray[np.uint64]
    root_bounds: _Integers  # shape (n_trees + 1,): first record of each tree, and the end of the last
    bounds: _Integers  # shape (n_nodes + 1,): first record of each node of the level, and the end of the last

    def copy(self) -> ForestRows:
        """Return a copy that an update may overwrite."""
        return replace(self, words=stored(self.words, self.partition.memory, np.uint64))

    @property
    def records(self) -> npt.NDArray[np.uint8]:
        """The records as bytes."""
        return self.words.view(np.uint8)

    @property
    def total_weight(self) -> int:
        """Number of rows, or the sum of their weights."""
        return self.partition.total_weight

    @property
    def targets(self) -> Target:
        """Encoded targets of all rows, negative for dropped rows."""
        return self.partition.records.target

    @property
    def weights(self) -> Weights | None:
        """Weights of all rows; None if all are one."""
        return self.partition.records.weights

    def pieces(self, first: _Integers, last: _Integers, max_weight: int) -> Iterator[tuple[_Integers, _Integers]]:
        """Yield pieces of all segments, with a total weight of at most ``max_weight`` per piece."""
        size = max_weight // (1 if self.weights is None else MAX_WEIGHT)
        for begin in range(0, max(int(self.bounds[-1]), 1), size):
            yield np.clip(first, begin, begin + size), np.clip(last, begin, begin + size)

    def even_bounds(self, n_shards: int) -> list[int]:
        """Return node numbers that divide the level into shards with about the same number of records."""
        cuts = np.linspace(0, self.bounds[-1], n_shards + 1)[1:-1]
        return [0, *np.searchsorted(self.bounds[:-1], cuts).tolist(), len(self.bounds) - 1]


def begin_trees(state: Partition, threads: Threads) -> ForestRows:
    """Allocate the records, and check that memory is left for the rows' trees and for training."""
    n_bytes = state.rows.n_features + 2 + (state.records.weights is not None)
    words = state.memory.empty((state.rows.n_rows, -(-n_bytes // 8)), np.uint64)
    check_room(np.dtype(np.uint16).itemsize * state.rows.n_rows)
    return ForestRows(state, words, _NO_NODES, _NO_NODES)


@dataclass(frozen=True)
class AssignTrees:
    """Update that sorts the records by tree."""

    draws: TreeDraws  # draws of this partition's trees; rows assigned to tree ``n_trees`` are not used
    n_trees: int  # number of trees that share the rows

    def __call__(self, state: ForestRows, threads: Threads) -> ForestRows:
        """Draw the trees, and encode the rows block by block into the records of their trees."""
        trees, target = self.draws.draw(threads), state.partition.records.target
        for block in blocks_of(len(target)):
            trees[block][target[block] < 0] = self.n_trees
        return replace(state, root_bounds=self._scatter(state, trees, threads), bounds=_NO_NODES)

    def _scatter(self, state: ForestRows, trees: Trees, threads: Threads) -> _Integers:
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


def start_at_roots(state: ForestRows, threads: Threads) -> ForestRows:
    """Put every record at the root of its tree."""
    return replace(state, bounds=state.root_bounds)


@dataclass(frozen=True)
class RouteUpdate:
    """Update that sends the records of every node to its children."""

    features: npt.NDArray[np.int32]  # shape (n_nodes,): feature of each node's split
    masks: npt.NDArray[np.uint8]  # shape (n_nodes, 32): codes that go right

    def __call__(self, state: ForestRows, threads: Threads) -> ForestRows:
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
class WindowedTarget:
    """Layout of the target in histograms, with a clipping range for each node or one for all."""

    layout: TargetLayout
    windows: ClippingRanges

    @cached_property
    def contributions(self) -> Contributions:
        """Contribution of every target value to a bin."""
        return self.layout.contributions(self.windows)

    def __getstate__(self) -> dict[str, Any]:
        return {"layout": self.layout, "windows": self.windows}  # without the contributions, which are large


@dataclass(frozen=True)
class HistogramQuery:
    """Query for the histograms of some nodes, with one row of bins per node."""

    nodes: _Integers  # shape (n,)
    view: WindowedTarget  # layout and clipping ranges of the target
    windows: _Integers  # shape (n,): index of each node's clipping range in ``view``
    wide: bool = False  # whether counts and values are in two planes, because packed bins cannot hold all sums

    def __call__(self, state: ForestRows, threads: Threads, out: Bins | None = None) -> Bins:
        """Return the histograms, in the first rows of each plane of ``out`` if it has enough rows."""
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

    def _count(self, state: ForestRows, first: _Integers, last: _Integers, threads: Threads, bins: Bins) -> None:
        """Count segments of records into rows of bins, with the same number of records per thread.

        If two threads share a segment, the second counts its part in a spare row, which is then added.
        """
        adds, n_columns = self.view.contributions, self.view.layout.n_columns
        sizes, records, n = last - first, state.records, len(first)
        ahead = np.concatenate([[0], np.cumsum(sizes)])  # number of records in earlier segments
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
            of_all = (adds.columns, adds.amounts, n_columns, state.weights is not None)
            histogram.accumulate(records, begins, ends, into, self.windows[a:b], *of_all, bins)

        threads.run_between(count, list(range(n_shards + 1)))
        for row, spare in shared:
            bins[row] += bins[spare]


@dataclass(frozen=True)
class NodeSumsQuery:
    """Query for the sums of the records' vectors at each node."""

    view: WindowedTarget  # layout of the target, with one clipping range
    by_target: bool = False  # whether to count the records with each value of the target instead

    def __call__(self, state: ForestRows, threads: Threads, out: PartialSum | None = None) -> PartialSum:
        """Return the sums, one row per node."""
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
        state: ForestRows,
        first: _Integers,
        last: _Integers,
        adds: Contributions,
        n_columns: int,
        threads: Threads,
    ) -> Bins:
        first, last, records = first.copy(), last.copy(), state.records  # contiguous for the kernel
        bins = np.zeros((len(first), n_columns), dtype=np.uint64)

        def add(a: int, b: int) -> None:
            of_all = (adds.columns, adds.amounts[0], state.weights is not None)
            histogram.node_sums(records, first[a:b], last[a:b], *of_all, bins[a:b])

        threads.run_between(add, state.even_bounds(threads.n_shards))
        return bins
