"""Sums of private records: a histogram for each node, kept by whoever holds the rows.

Growth asks an engine for histograms and tells it the splits; it never sees a row. Here the engine is this process
with its threads. All sums are of integers, so they do not depend on how the rows are sharded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diprime.kernels import histogram
from diprime.kernels.constants import N_CODES as N_CODES
from diprime.parallel import Threads

Bins = npt.NDArray[np.uint64]
CHUNK_BYTES = 32 << 20
BLOCK_ROWS = 1 << 13


@dataclass(frozen=True)
class Windows:
    """For each node a part of a numeric target's range, in its integer units: what lies outside counts as its end.

    Attributes
    ----------
    low, high : arrays of shape (n_nodes,)
        Its ends, ``low < high``.
    """

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.low)

    def widened(self, by: npt.NDArray[np.int64], units: int) -> Windows:
        """Return windows that are wider on both sides, as far as the target's range goes."""
        return Windows(np.maximum(self.low - by, 0), np.minimum(self.high + by, units))


@dataclass(frozen=True)
class Contributions:
    """What every encoded target adds to its bins: public tables, one entry for each value of the target.

    Attributes
    ----------
    columns : array of shape (n_targets,)
        The column that a target adds to.
    amounts : array of shape (n_windows, n_targets)
        One row and a value, as bins hold them, for each window that the target may be seen through.
    """

    columns: npt.NDArray[np.uint16]
    amounts: npt.NDArray[np.uint64]


@dataclass(frozen=True)
class TargetLayout:
    """How a target becomes integers: every record contributes a vector of ``n_outputs`` entries that sum to ``units``.

    Attributes
    ----------
    n_outputs : int
        Entries of a record's vector: the classes, or two for a number (v and units - v).
    units : int
        What the entries of one record add up to: 1 for classes, a power of two for numbers.
    shift : int
        Bits of a bin that hold the sum of values; the count of rows is above them.
    """

    n_outputs: int
    units: int
    shift: int

    @classmethod
    def of_classes(cls, n_classes: int) -> TargetLayout:
        """Return the layout of a class: one-hot."""
        if n_classes > 1000:
            raise ValueError(f"The target has {n_classes} classes; at most 1000 are supported.")
        return cls(n_classes, 1, 32)

    @classmethod
    def of_number(cls, units: int) -> TargetLayout:
        """Return the layout of a number in [0, units]: the two-class point (units - v, v)."""
        return cls(2, units, 26 + units.bit_length() - 1)

    @property
    def n_columns(self) -> int:
        """Bins a cell needs: one where a vector of two entries follows from the count and one of them."""
        return 1 if self.n_outputs <= 2 else self.n_outputs

    @property
    def column_weight(self) -> float:
        """Weight of a column's S² in the sum of squared errors ½·Σ‖t - t̄‖²: both entries of two vary alike."""
        return 1.0 if self.n_outputs <= 2 else 0.5

    @property
    def most_rows(self) -> int:
        """Rows that a bin can count."""
        return (1 << min(31, 64 - self.shift)) - 1

    @property
    def n_targets(self) -> int:
        """How many values an encoded target may have."""
        return self.n_outputs if self.units == 1 else self.units + 1

    @property
    def whole(self) -> Windows:
        """The window of a numeric target that leaves it as it is."""
        return Windows(np.array([0]), np.array([self.units]))

    def contributions(self, windows: Windows) -> Contributions:
        """Return what targets add; numbers are first brought from a window to the whole range, classes never are."""
        targets = np.arange(self.n_targets)
        columns = np.zeros_like(targets)
        if self.units > 1:
            width = (windows.high - windows.low)[:, None]
            places = np.clip(targets - windows.low[:, None], 0, width)
            values = (2 * places * self.units + width) // (2 * width)  # rounded
        elif self.n_columns > 1:
            columns, values = targets, np.ones((len(windows), self.n_targets), dtype=np.int64)
        else:
            values = np.tile(targets, (len(windows), 1))
        amounts = (np.uint64(1) << np.uint64(self.shift)) + values.astype(np.uint64)
        return Contributions(columns.astype(np.uint16), amounts)

    def vectors(self, bins: Bins) -> npt.NDArray[np.int64]:
        """Return the sums of the records' vectors from bins whose last axis is the columns."""
        sums = (bins & np.uint64((1 << self.shift) - 1)).astype(np.int64)
        if self.n_columns > 1:
            return np.asarray(sums)
        rest = (bins >> np.uint64(self.shift)).astype(np.int64) * self.units - sums
        return np.asarray(np.concatenate([rest, sums], axis=-1)[..., : self.n_outputs])


class Engine(Protocol):
    """Whoever holds the rows. Nodes of a level are numbered from left to right, tree after tree."""

    layout: TargetLayout

    def start(self) -> None:
        """Put every row at the root of its tree."""

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Cut the nodes of the level into ranges whose histograms fit in memory together."""

    def histograms(self, begin: int, end: int) -> Bins:
        """Return the histograms of a chunk, a row each: bin (feature·256 + code)·columns + column."""

    def route(self, features: npt.NDArray[np.int32], masks: npt.NDArray[np.uint8]) -> None:
        """Send the rows of every node to its children: right, if the bit of their code is set in its mask."""

    def targets(self) -> npt.NDArray[np.int64]:
        """Return how many records of every node have each value of the target."""

    def look_through(self, windows: Windows) -> None:
        """From now on, histograms see the target of each node's records, and of its descendants', through a window."""

    def sums(self) -> npt.NDArray[np.int64]:
        """Return the sum of the records' vectors at every node."""


class Rows(Protocol):
    """Encoded rows, read a block at a time; :class:`diprime.domain.RowReader` is one."""

    n_rows: int
    n_features: int
    numbers: npt.NDArray[Any] | None  # the rows themselves, if they are nothing but numbers that kernels can read

    def thresholds(self) -> Sequence[npt.NDArray[np.float64]]:
        """Return the thresholds of every feature, where there are ``numbers``."""

    def read(self, start: int, stop: int, out: npt.NDArray[np.uint8]) -> None:
        """Write the codes of the rows from ``start`` to ``stop``."""


class LocalHistograms:
    """Rows in this process.

    Parameters
    ----------
    rows : Rows
        The features, read once.
    target : array of shape (n,)
        The encoded target; rows where it is negative are left out.
    parts : array of shape (n,)
        The tree of each row.
    n_parts : int
        How many trees share the rows.
    layout : TargetLayout
        How the target becomes sums.
    threads : Threads
        Who does the work.
    for_splits, for_leaves : Windows or None
        The one window through which the histograms of all roots see a numeric target, and the one of leaf sums; None is
        its whole range.
    """

    def __init__(
        self,
        rows: Rows,
        target: npt.NDArray[np.int32],
        parts: npt.NDArray[np.uint16],
        n_parts: int,
        layout: TargetLayout,
        threads: Threads,
        for_splits: Windows | None = None,
        for_leaves: Windows | None = None,
    ) -> None:
        if len(target) > layout.most_rows:
            raise ValueError(f"There are more rows than the {layout.most_rows:,} that are supported.")
        self.layout = layout
        self._for_roots = layout.contributions(for_splits or layout.whole)
        self._for_leaves = layout.contributions(for_leaves or layout.whole)
        self._threads = threads
        self._width = rows.n_features * N_CODES * layout.n_columns
        self._nodes_per_chunk = max(2, CHUNK_BYTES // (8 * self._width) // 2 * 2)
        self._buffers: list[Bins | None] = [None, None]
        self._deal(rows, target, np.where(target < 0, np.uint16(n_parts), parts), n_parts)
        self.start()

    def _deal(self, rows: Rows, target: npt.NDArray[np.int32], parts: npt.NDArray[np.uint16], n_parts: int) -> None:
        """Encode the rows block by block, straight to where their trees' records are; part ``n_parts`` is left out."""
        n_blocks = -(-rows.n_rows // BLOCK_ROWS)
        blocks = [slice(i * BLOCK_ROWS, min((i + 1) * BLOCK_ROWS, rows.n_rows)) for i in range(n_blocks)]
        sizes = np.array([np.bincount(parts[b], minlength=n_parts)[:n_parts] for b in blocks], dtype=np.int64)
        sizes = sizes.reshape(n_blocks, n_parts)
        self._root_bounds = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))]).astype(np.int64)
        ends = self._root_bounds[:-1] + np.cumsum(sizes, axis=0) - sizes
        # Whole words of eight bytes: swapping two records takes few steps.
        self._words = np.empty((self._root_bounds[-1], -(-(rows.n_features + 2) // 8)), dtype=np.uint64)
        self._records = self._words.view(np.uint8)

        def deal(first: int, last: int) -> None:
            codes = np.empty((BLOCK_ROWS, rows.n_features), dtype=np.uint8)
            for i in range(first, last):
                b = blocks[i]
                rows.read(b.start, b.stop, codes[: b.stop - b.start])
                histogram.scatter(codes, target[b], parts[b], ends[i], self._records)

        self._threads.run(deal, n_blocks)

    def start(self) -> None:
        """Put every row at the root of its tree."""
        self._bounds = self._root_bounds
        self._for_splits = self._for_roots
        self._tables: npt.NDArray[np.int64] = np.zeros(len(self._bounds) - 1, dtype=np.int64)
        self._parents: Bins | None = None
        self._next_parents: Bins | None = None

    def look_through(self, windows: Windows) -> None:
        """From now on, histograms see the target of each node's records, and of its descendants', through a window.

        Those of the parents, seen through another, are of no more use.
        """
        self._for_splits = self.layout.contributions(windows)
        self._tables = np.arange(len(windows), dtype=np.int64)
        self._parents = self._next_parents = None

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
        adds = self._for_splits
        sizes = last - first
        ahead = np.concatenate([[0], np.cumsum(sizes)])  # rows of the segments before
        n_shards = max(1, min(self._threads.n_shards, int(ahead[-1]) // 4096))
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
            histogram.accumulate(
                self._records, begins, ends, into, tables[a:b], adds.columns, adds.amounts, self.layout.n_columns, bins
            )

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

    def sums(self) -> npt.NDArray[np.int64]:
        """Return the sum of the records' vectors at every node."""
        return self.layout.vectors(self._add_up(self._for_leaves, self.layout.n_columns))

    def targets(self) -> npt.NDArray[np.int64]:
        """Return how many records of every node have each value of the target."""
        n = self.layout.n_targets
        each_in_its_column = Contributions(np.arange(n, dtype=np.uint16), np.ones((1, n), dtype=np.uint64))
        return self._add_up(each_in_its_column, n).astype(np.int64)

    def _add_up(self, adds: Contributions, n_columns: int) -> Bins:
        """Return the sums of what the records of every node add to each column."""
        first, last = self._bounds[:-1].copy(), self._bounds[1:].copy()
        bins = np.zeros((len(first), n_columns), dtype=np.uint64)

        def add_up(a: int, b: int) -> None:
            histogram.node_sums(self._records, first[a:b], last[a:b], adds.columns, adds.amounts[0], bins[a:b])

        self._threads.run_between(add_up, self._even_bounds())
        return bins
