"""The forest engine: all sums over records that training can query, added up over partitions.

It also assigns rows to trees. A row's tree depends only on random bits and the row's number, not on the partitions. A
partition receives only the streams of its own rows. The streams of other rows, and noise, cannot be computed from them,
unless the fit has a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads
from diprime.domain.encoding import Bins, ClippingRanges, TargetLayout
from diprime.execution.executor import Executor, StateUpdate
from diprime.execution.partition import TargetCountsQuery, check_sizes, check_weight, total_weight
from diprime.forest.rows import (
    ROWS_PER_STREAM,
    AssignTrees,
    BagDraws,
    HistogramQuery,
    IndependentDraws,
    NodeSumsQuery,
    RouteUpdate,
    SingleTree,
    TreeDraws,
    WindowedTarget,
    begin_trees,
    start_at_roots,
)
from diprime.kernels import histogram, split_costs
from diprime.kernels.constants import N_CODES
from diprime.privacy.randomness import RandomSource


class TreeAssignment(Protocol):
    """Assignment of rows to trees that does not depend on any record."""

    @property
    def n_trees(self) -> int:
        """Number of trees that share the rows."""

    def draws(self, sizes: Sequence[int], source: RandomSource) -> Sequence[TreeDraws]:
        """Return the draws for partitions of the given sizes. Rows assigned to tree ``n_trees`` are not used."""


@dataclass(frozen=True)
class IndependentAssignment:
    """Assignment that draws each row's tree from fresh randomness, independently of all other rows.

    Adding or removing a row does not move any other row, so it affects only one tree.
    """

    n_trees: int

    def draws(self, sizes: Sequence[int], source: RandomSource) -> Sequence[TreeDraws]:
        """Return the draws for partitions of the given sizes."""
        if self.n_trees == 1:
            return [SingleTree(n_rows) for n_rows in sizes]
        streams = source.streams(-(-sum(sizes) // ROWS_PER_STREAM))
        draws, begin = [], 0
        for n_rows in sizes:
            first, skipped = divmod(begin, ROWS_PER_STREAM)
            last = -(-(begin + n_rows) // ROWS_PER_STREAM) if n_rows else first
            draws.append(IndependentDraws(streams[first:last], skipped if n_rows else 0, n_rows, self.n_trees))
            begin += n_rows
        return draws


@dataclass(frozen=True)
class BagAssignment:
    """Assignment of a random bag of the rows to one tree: 63.2 %, the distinct rows of a bootstrap sample."""

    n_trees: int = 1

    def draws(self, sizes: Sequence[int], source: RandomSource) -> Sequence[TreeDraws]:
        """Return the draws for partitions of the given sizes."""
        draws = [BagDraws(source.streams(1), sizes[0])]
        for n_rows in sizes[1:]:
            draws.append(BagDraws(draws[-1].after(), n_rows))
        return draws


@dataclass(frozen=True)
class NodeHistograms:
    """Histograms of consecutive nodes of a level. The engine's next histograms overwrite them."""

    bins: Bins  # shape (n_rows, n_features·256·n_columns): index (feature·256 + code)·n_columns + column in each row
    layout: TargetLayout  # layout of counts and target sums in the bins
    first_node: int
    row_of_node: npt.NDArray[np.int64]  # shape (n_nodes,): row of each node
    values: Bins | None = None  # sums of values, if packed bins are too small; ``bins`` then contains the counts

    @classmethod
    def empty(cls, n_nodes: int, n_features: int, layout: TargetLayout) -> NodeHistograms:
        """Return empty histograms, for splits that do not depend on data. All nodes share one row."""
        bins = np.zeros((1, n_features * N_CODES * layout.n_columns), dtype=np.uint64)
        return cls(bins, layout, 0, np.zeros(n_nodes, dtype=np.int64))

    @property
    def view(self) -> Any:
        """The bins as a ``BinsView`` for the scoring kernels."""
        return split_costs.BinsView(self.bins, self.layout.n_columns, self.layout.shift, self.values)

    @property
    def scratch(self) -> Any:
        """Scratch memory of one thread for the scoring kernels."""
        thresholds, codes = np.empty((4, N_CODES)), np.empty((3, N_CODES), dtype=np.int64)
        return split_costs.Scratch(thresholds, np.empty((N_CODES + 1, self.layout.n_columns), dtype=np.uint64), codes)

    def rows(self, nodes: npt.NDArray[np.int64] | int) -> npt.NDArray[np.int64]:
        """Return the rows of some nodes in the bins."""
        return self.row_of_node[nodes - self.first_node]

    def counts(
        self, nodes: npt.NDArray[np.int64] | int, features: npt.NDArray[np.integer[Any]] | int
    ) -> npt.NDArray[np.int64]:
        """Return the number of records with each code, for each pair of a node and a feature."""
        bins = self.bins.reshape(len(self.bins), -1, N_CODES, self.layout.n_columns)[self.rows(nodes), features]
        counts = bins if self.values is not None else self.layout.unpacked(bins)[0]
        return np.asarray(counts.sum(axis=-1, dtype=np.int64))


CHUNK_BYTES = 32 << 20


@dataclass(frozen=True)
class Parents:
    """Nodes of the previous level."""

    histograms: NodeHistograms
    right_is_smaller: npt.NDArray[np.bool_]  # shape (n_nodes,): whether fewer records go right than left


class ForestEngine:
    """Owner of the rows, in the partitions of an executor. A fit in memory has one partition.

    The nodes of a level are numbered from left to right, tree after tree.
    """

    def __init__(self, executor: Executor, n_features: int, layout: TargetLayout, threads: Threads) -> None:
        check_sizes(executor.sizes)
        self._executor = executor
        self._advance(begin_trees)
        weight = int(executor.sum(total_weight))  # this allocates memory for the records before anything is charged
        check_weight(weight)
        self._wide = weight > layout.max_rows
        self._layout = layout
        self._threads = threads
        self._width = n_features * N_CODES * layout.n_columns
        self._nodes_per_chunk = max(2, CHUNK_BYTES // (8 * self._width) // 2 * 2)
        # Two chunks of histograms, with one extra row per shard. Each has a plane of packed bins or, for wide bins, a
        # plane of counts and a plane of values. They are allocated before anything is charged.
        shape = (1 + self._wide, self._nodes_per_chunk + threads.n_shards, self._width)
        self._buffers: list[Bins] = [np.empty(shape, dtype=np.uint64) for _ in range(2)]

    def _advance(self, step: StateUpdate) -> None:
        """Apply the same update to every partition."""
        self._executor.apply([step] * len(self._executor.sizes))

    def target_counts(self) -> npt.NDArray[np.int64]:
        """Return the number of records with each value of the target."""
        return self._executor.sum(TargetCountsQuery(self._layout.n_targets))

    def assign_trees(self, assignment: TreeAssignment, source: RandomSource) -> None:
        """Draw the tree of each row."""
        self._n_trees = n_trees = assignment.n_trees
        self._executor.apply([AssignTrees(d, n_trees) for d in assignment.draws(self._executor.sizes, source)])

    def start(self) -> None:
        """Put every row at the root of its tree, and do not clip numeric targets."""
        self._advance(start_at_roots)
        self._n_nodes = self._n_trees
        self.set_windows(self._layout.whole_range)

    def set_windows(self, windows: ClippingRanges) -> None:
        """Set the clipping ranges of targets, one per node or one for all, for the nodes and their descendants.

        The parents' histograms are discarded, because they used other ranges.
        """
        n_nodes = self._n_nodes
        self._view = WindowedTarget(self._layout, windows)
        self._windows: npt.NDArray[np.int64] = np.zeros(n_nodes, dtype=np.int64)  # index of each node's range
        if len(windows) > 1:
            self._windows = np.arange(n_nodes, dtype=np.int64)
        self._parents: Parents | None = None
        self._found: NodeHistograms | None = None

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of nodes whose histograms fit in a buffer. Siblings stay together."""
        for begin in range(0, self._n_nodes, self._nodes_per_chunk):
            yield begin, min(begin + self._nodes_per_chunk, self._n_nodes)

    def _buffer(self) -> Bins:
        """Return the buffer that does not contain the parents' histograms."""
        first, second = self._buffers
        return second if self._parents and np.may_share_memory(first, self._parents.histograms.bins) else first

    def histograms(self, begin: int, end: int) -> NodeHistograms:
        """Return the histograms of a chunk. Those of larger siblings are the parents' minus the smaller siblings'."""
        planes = self._buffer()
        if self._parents is None:
            self._count(np.arange(begin, end, dtype=np.int64), planes)
            rows = np.arange(end - begin, dtype=np.int64)
        else:
            rows = self._subtract(self._parents, begin, end, planes)
        found = NodeHistograms(planes[0], self._layout, begin, rows, planes[1] if self._wide else None)
        whole_level = end - begin == self._n_nodes
        self._found = found if whole_level else None
        return found

    def _count(self, nodes: npt.NDArray[np.int64], planes: Bins) -> None:
        """Count the records of nodes in all partitions, in the first rows of each plane."""
        counted = self._executor.sum(HistogramQuery(nodes, self._view, self._windows[nodes], self._wide), planes)
        if not np.may_share_memory(counted, planes):
            planes[:, : len(nodes)] = counted

    def _subtract(self, parents: Parents, begin: int, end: int, planes: Bins) -> npt.NDArray[np.int64]:
        """Count the smaller sibling of each pair, subtract it from the parent, and return the row of each node."""
        n_pairs = (end - begin) // 2
        pairs = np.arange(n_pairs, dtype=np.int64)
        second = parents.right_is_smaller[begin // 2 : end // 2]
        self._count(begin + 2 * pairs + second, planes)
        above = parents.histograms
        rows_above = above.row_of_node[begin // 2 : end // 2]
        larger = n_pairs + pairs

        def subtract(a: int, b: int) -> None:
            for of_parents, bins in zip((above.bins, above.values), planes, strict=False):
                histogram.subtract(of_parents, rows_above[a:b], pairs[a:b], larger[a:b], bins)

        self._threads.run(subtract, n_pairs)
        rows = np.stack([pairs + n_pairs * second, pairs + n_pairs * ~second], axis=1)
        return rows.reshape(-1)

    def route(self, features: npt.NDArray[np.int32], masks: npt.NDArray[np.uint8]) -> None:
        """Send the rows of every node to its children. A row goes right if the bit of its code is set in the mask."""
        self._advance(RouteUpdate(features, masks))
        self._n_nodes *= 2
        self._windows = np.repeat(self._windows, 2)
        found, self._found = self._found, None
        self._parents = None if found is None else Parents(found, self._right_is_smaller(found, features, masks))

    @staticmethod
    def _right_is_smaller(
        found: NodeHistograms, features: npt.NDArray[np.int32], masks: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.bool_]:
        """Return whether the right child of each node is the smaller child, by the node's histogram."""
        sizes = found.counts(np.arange(len(features)), features)
        goes_right = np.unpackbits(masks, axis=1, bitorder="little").astype(np.bool_)
        right = np.where(goes_right, sizes, 0).sum(axis=1)
        return np.asarray(right < sizes.sum(axis=1) - right)

    def node_target_counts(self) -> npt.NDArray[np.int64]:
        """Return the number of records of each node with each value of the target."""
        view = WindowedTarget(self._layout, self._layout.whole_range)
        return self._executor.sum(NodeSumsQuery(view, by_target=True))

    def node_sums(self, window: ClippingRanges) -> npt.NDArray[np.int64]:
        """Return the sum of the records' vectors at each node, with numeric targets clipped to one range."""
        return self._executor.sum(NodeSumsQuery(WindowedTarget(self._layout, window)))
