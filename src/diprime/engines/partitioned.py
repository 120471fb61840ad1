"""The engine of forests: partitions count and move their rows, and what they answer is added up here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain.target_layout import Bins, TargetLayout, Windows
from diprime.engines.assignment import TreeAssignment
from diprime.engines.executor import Executor, Step
from diprime.engines.partition import total_weight
from diprime.engines.protocol import Histograms
from diprime.engines.tree_partition import (
    AssignTrees,
    CountNodes,
    NodeSums,
    Route,
    TargetCounts,
    TargetView,
    begin_trees,
    start_at_roots,
)
from diprime.engines.weights import check_sizes, check_weight
from diprime.kernels import histogram
from diprime.kernels.constants import N_CODES
from diprime.privacy.randomness import RandomSource

CHUNK_BYTES = 32 << 20


@dataclass(frozen=True)
class Parents:
    """The nodes of the level above.

    Attributes
    ----------
    histograms : Histograms
        Their histograms.
    right_is_smaller : array of shape (n_nodes,)
        Whether fewer records go right than left.
    """

    histograms: Histograms
    right_is_smaller: npt.NDArray[np.bool_]


class PartitionedEngine:
    """The engine whose rows are in the partitions of an executor; a fit in memory has one.

    Parameters
    ----------
    executor : Executor
        The owner of the partitions.
    n_features : int
        The number of features.
    layout : TargetLayout
        How the target becomes sums.
    threads : Threads
        The threads that subtract histograms.
    """

    def __init__(self, executor: Executor, n_features: int, layout: TargetLayout, threads: Threads) -> None:
        check_sizes(executor.sizes)
        self._executor = executor
        self._advance(begin_trees)
        weight = int(executor.ask(total_weight))  # so there is room for the records before anything is paid for
        check_weight(weight)
        self._wide = weight > layout.max_rows
        self._layout = layout
        self._threads = threads
        self._width = n_features * N_CODES * layout.n_columns
        self._nodes_per_chunk = max(2, CHUNK_BYTES // (8 * self._width) // 2 * 2)
        self._buffers: list[Bins | None] = [None, None]

    def _advance(self, step: Step) -> None:
        """Let every partition take the same step."""
        self._executor.advance([step] * len(self._executor.sizes))

    def target_counts(self) -> npt.NDArray[np.int64]:
        """Return how many of all records have each value of the target."""
        return self._executor.ask(TargetCounts(self._layout.n_targets))

    def assign_trees(self, assignment: TreeAssignment, source: RandomSource) -> None:
        """Draw the tree of each row, for :meth:`start` to put it at the root of."""
        self._n_trees = n_trees = assignment.n_trees
        self._executor.advance([AssignTrees(d, n_trees) for d in assignment.draws(self._executor.sizes, source)])

    def start(self) -> None:
        """Put every row at the root of its tree, and see numeric targets in their whole range."""
        self._advance(start_at_roots)
        self._n_nodes = self._n_trees
        self.set_windows(self._layout.whole_range)

    def set_windows(self, windows: Windows) -> None:
        """From now on, histograms see the targets of each node and its descendants through a window.

        This discards cached parent histograms, which saw the targets through other windows.
        """
        n_nodes = self._n_nodes
        self._view = TargetView(self._layout, windows)
        self._windows: npt.NDArray[np.int64] = np.zeros(n_nodes, dtype=np.int64)  # the window of each node
        if len(windows) > 1:
            self._windows = np.arange(n_nodes, dtype=np.int64)
        self._parents: Parents | None = None
        self._found: Histograms | None = None

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Cut the nodes of the level into ranges whose histograms fit in memory together; siblings stay together."""
        for begin in range(0, self._n_nodes, self._nodes_per_chunk):
            yield begin, min(begin + self._nodes_per_chunk, self._n_nodes)

    def _buffer(self) -> Bins:
        """Return memory for a chunk of histograms, and for one more a shard, that does not hold the parents'.

        It is reserved once and used level after level; what is never written takes no memory. It has one plane, of
        packed bins, or if they are wide, a plane of counts and one of values.
        """
        shape = (1 + self._wide, self._nodes_per_chunk + self._threads.n_shards, self._width)
        for i, buffer in enumerate(self._buffers):
            if buffer is None:
                self._buffers[i] = buffer = np.empty(shape, dtype=np.uint64)
            if self._parents is None or not np.may_share_memory(buffer, self._parents.histograms.bins):
                return buffer
        raise AssertionError("one of two buffers is always free")

    def histograms(self, begin: int, end: int) -> Histograms:
        """Return the histograms of a chunk: counted, or the parent's less the sibling's for the larger of two."""
        planes = self._buffer()
        if self._parents is None:
            self._count(np.arange(begin, end, dtype=np.int64), planes)
            rows = np.arange(end - begin, dtype=np.int64)
        else:
            rows = self._subtract(self._parents, begin, end, planes)
        found = Histograms(planes[0], rows, planes[1] if self._wide else None)
        whole_level = end - begin == self._n_nodes
        self._found = found if whole_level else None
        return found

    def _count(self, nodes: npt.NDArray[np.int64], planes: Bins) -> None:
        """Let the partitions count the records of nodes, into the first rows of each plane."""
        counted = self._executor.ask(CountNodes(nodes, self._view, self._windows[nodes], self._wide), planes)
        if not np.may_share_memory(counted, planes):
            planes[:, : len(nodes)] = counted

    def _subtract(self, parents: Parents, begin: int, end: int, planes: Bins) -> npt.NDArray[np.int64]:
        """Let the partitions count the smaller of two siblings, by the sizes of all partitions together.

        Those that are counted come first, and those that are subtracted follow. Return the row of each node.
        """
        n_pairs = (end - begin) // 2
        pairs = np.arange(n_pairs, dtype=np.int64)
        second = parents.right_is_smaller[begin // 2 : end // 2]
        self._count(begin + 2 * pairs + second, planes)
        above = parents.histograms
        rows_above = above.rows[begin // 2 : end // 2]
        larger = n_pairs + pairs

        def subtract(a: int, b: int) -> None:
            for of_parents, bins in zip((above.bins, above.values), planes, strict=False):
                histogram.subtract(of_parents, rows_above[a:b], pairs[a:b], larger[a:b], bins)

        self._threads.run(subtract, n_pairs)
        rows = np.stack([pairs + n_pairs * second, pairs + n_pairs * ~second], axis=1)
        return rows.reshape(-1)

    def route(self, features: npt.NDArray[np.int32], masks: npt.NDArray[np.uint8]) -> None:
        """Send the rows of every node to its children."""
        self._advance(Route(features, masks))
        self._n_nodes *= 2
        self._windows = np.repeat(self._windows, 2)
        found, self._found = self._found, None
        self._parents = None if found is None else Parents(found, self._right_is_smaller(found, features, masks))

    def _right_is_smaller(
        self, found: Histograms, features: npt.NDArray[np.int32], masks: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.bool_]:
        """Return whether the right child of every node is the smaller one: the node's histogram says so.

        The partitions could say it too, but then they would have to be asked before they count.
        """
        bins = found.bins.reshape(len(found.bins), -1, N_CODES, self._layout.n_columns)[found.rows, features]
        counts = bins if self._wide else self._layout.unpacked(bins)[0]
        sizes = counts.sum(axis=-1, dtype=np.int64)
        goes_right = np.unpackbits(masks, axis=1, bitorder="little").astype(np.bool_)
        right = np.where(goes_right, sizes, 0).sum(axis=1)
        return np.asarray(right < sizes.sum(axis=1) - right)

    def node_target_counts(self) -> npt.NDArray[np.int64]:
        """Return how many records of every node have each value of the target."""
        view = TargetView(self._layout, self._layout.whole_range)
        return self._executor.ask(NodeSums(view, by_target=True))

    def node_sums(self, window: Windows) -> npt.NDArray[np.int64]:
        """Return the sum of the records' vectors at every node, with numeric targets seen through one window."""
        return self._executor.ask(NodeSums(TargetView(self._layout, window)))
