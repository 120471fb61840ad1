"""The engine of forests: partitions count and move their rows, and what they answer is added up here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain.target_layout import Bins, TargetLayout, Windows
from diprime.engines.assignment import TreeAssignment
from diprime.engines.executor import Answer, Executor, Step
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
from diprime.engines.weights import check_size
from diprime.kernels import histogram
from diprime.kernels.constants import N_CODES
from diprime.privacy.randomness import RandomSource

CHUNK_BYTES = 32 << 20


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
        weight = int(executor.ask(total_weight))
        check_size(weight, executor.sizes)
        self._wide = weight > layout.max_rows
        self._executor = executor
        self._layout = layout
        self._threads = threads
        self._width = n_features * N_CODES * layout.n_columns
        self._nodes_per_chunk = max(2, CHUNK_BYTES // (8 * self._width) // 2 * 2)
        self._buffers: list[Bins | None] = [None, None]
        self._advance(begin_trees)

    def _advance(self, step: Step) -> Answer:
        """Let every partition take the same step."""
        return self._executor.advance([step] * len(self._executor.sizes))

    def target_counts(self) -> npt.NDArray[np.int64]:
        """Return how many of all records have each value of the target."""
        return self._executor.ask(TargetCounts(self._layout.n_targets))

    def assign_trees(self, assignment: TreeAssignment, source: RandomSource) -> None:
        """Draw the tree of each row, for :meth:`start` to put it at the root of."""
        n_trees = assignment.n_trees
        self._executor.advance([AssignTrees(d, n_trees) for d in assignment.draws(self._executor.sizes, source)])

    def start(self) -> None:
        """Put every row at the root of its tree, and see numeric targets in their whole range."""
        self._sizes: npt.NDArray[np.int64] = self._advance(start_at_roots)
        self.set_windows(self._layout.whole_range)

    def set_windows(self, windows: Windows) -> None:
        """From now on, histograms see the targets of each node and its descendants through a window.

        This discards cached parent histograms, which saw the targets through other windows.
        """
        n_nodes = len(self._sizes)
        self._view = TargetView(self._layout, windows)
        self._windows: npt.NDArray[np.int64] = np.zeros(n_nodes, dtype=np.int64)  # the window of each node
        if len(windows) > 1:
            self._windows = np.arange(n_nodes, dtype=np.int64)
        self._parents: Histograms | None = None
        self._next_parents: Histograms | None = None

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Cut the nodes of the level into ranges whose histograms fit in memory together; siblings stay together."""
        n_nodes = len(self._sizes)
        for begin in range(0, n_nodes, self._nodes_per_chunk):
            yield begin, min(begin + self._nodes_per_chunk, n_nodes)

    def _buffer(self) -> Bins:
        """Return memory for a chunk of histograms, and for one more a shard, that does not hold the parents'.

        It is reserved once and used level after level; what is never written takes no memory. It has one plane, of
        packed bins, or if they are wide, a plane of counts and one of values.
        """
        shape = (1 + self._wide, self._nodes_per_chunk + self._threads.n_shards, self._width)
        for i, buffer in enumerate(self._buffers):
            if buffer is None:
                self._buffers[i] = buffer = np.empty(shape, dtype=np.uint64)
            if self._parents is None or not np.may_share_memory(buffer, self._parents.bins):
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
        whole_level = end - begin == len(self._sizes)
        self._next_parents = found if whole_level else None
        return found

    def _count(self, nodes: npt.NDArray[np.int64], planes: Bins) -> None:
        """Let the partitions count the records of nodes, into the first rows of each plane."""
        counted = self._executor.ask(CountNodes(nodes, self._view, self._windows[nodes], self._wide), planes)
        if not np.may_share_memory(counted, planes):
            planes[:, : len(nodes)] = counted

    def _subtract(self, parents: Histograms, begin: int, end: int, planes: Bins) -> npt.NDArray[np.int64]:
        """Let the partitions count the smaller of two siblings, by the sizes of all partitions together.

        Those that are counted come first, and those that are subtracted follow. Return the row of each node.
        """
        n_pairs = (end - begin) // 2
        sizes = self._sizes[begin:end]
        pairs = np.arange(n_pairs, dtype=np.int64)
        second = sizes[1::2] < sizes[::2]  # whether the second of two siblings is the smaller one
        self._count(begin + 2 * pairs + second, planes)
        above = parents.rows[begin // 2 : end // 2]
        larger = n_pairs + pairs

        def subtract(a: int, b: int) -> None:
            for of_parents, bins in zip((parents.bins, parents.values), planes, strict=False):
                histogram.subtract(of_parents, above[a:b], pairs[a:b], larger[a:b], bins)

        self._threads.run(subtract, n_pairs)
        rows = np.stack([pairs + n_pairs * second, pairs + n_pairs * ~second], axis=1)
        return rows.reshape(-1)

    def route(self, features: npt.NDArray[np.int32], masks: npt.NDArray[np.uint8]) -> None:
        """Send the rows of every node to its children."""
        self._sizes = self._advance(Route(features, masks))
        self._windows = np.repeat(self._windows, 2)
        self._parents, self._next_parents = self._next_parents, None

    def node_target_counts(self) -> npt.NDArray[np.int64]:
        """Return how many records of every node have each value of the target."""
        view = TargetView(self._layout, self._layout.whole_range)
        return self._executor.ask(NodeSums(view, by_target=True))

    def node_sums(self, window: Windows) -> npt.NDArray[np.int64]:
        """Return the sum of the records' vectors at every node, with numeric targets seen through one window."""
        return self._executor.ask(NodeSums(TargetView(self._layout, window)))
