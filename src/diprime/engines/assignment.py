"""Which tree a record is in, drawn without looking at any record.

A row's tree depends on the random bits and on the number of the row alone, so that it is the same however the rows are
cut into partitions. What a partition gets is :class:`TreeDraws`: the streams of its own rows, and nothing of which
those of other rows, or any noise, could be computed, unless the fit has a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.kernels import sampling
from diprime.privacy.randomness import RandomSource, Streams, secret_copy

Trees = npt.NDArray[np.uint16]

_ROWS_PER_STREAM = 1 << 16
_BAG_PER_MILLE = 632  # the share of distinct rows in a bootstrap sample, 1 - 1/e


class TreeDraws(Protocol):
    """The trees of the rows of one partition, yet to be drawn."""

    def draw(self, threads: Threads) -> Trees:
        """Return the tree of each row; the same ones each time."""


class TreeAssignment(Protocol):
    """A way of assigning rows to trees.

    Attributes
    ----------
    n_trees : int
        How many trees share the rows.
    """

    @property
    def n_trees(self) -> int:
        """How many trees share the rows."""

    def draws(self, sizes: Sequence[int], source: RandomSource) -> Sequence[TreeDraws]:
        """Return the draws of each partition, of which the sizes are given; rows of tree ``n_trees`` are left out."""


@dataclass(frozen=True)
class DrawnTrees:
    """Trees that are drawn already."""

    trees: Trees

    def draw(self, threads: Threads) -> Trees:
        """Return the tree of each row."""
        return self.trees


@dataclass(frozen=True)
class SingleTree:
    """The trees of rows that are all in one tree."""

    n_rows: int

    def draw(self, threads: Threads) -> Trees:
        """Return zero for each row."""
        return np.zeros(self.n_rows, dtype=np.uint16)


class _OfStreams:
    """Draws that carry streams, which are copied only into memory that is overwritten after use."""

    streams: Streams

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"streams": secret_copy(state["streams"])})


@dataclass(frozen=True)
class IndependentDraws(_OfStreams):
    """Trees that are drawn independently, 2^16 rows from each stream.

    Attributes
    ----------
    streams : array of shape (n_streams, 33)
        The streams of the rows.
    skipped : int
        How many rows of the first stream are in partitions before.
    n_rows : int
        The number of rows.
    n_trees : int
        The number of trees.
    """

    streams: Streams
    skipped: int
    n_rows: int
    n_trees: int

    def draw(self, threads: Threads) -> Trees:
        """Return the tree of each row."""
        trees = np.empty(self.skipped + self.n_rows, dtype=np.uint16)
        streams = secret_copy(self.streams)

        def draw(begin: int, end: int) -> None:
            for i in range(begin, end):
                here = slice(i * _ROWS_PER_STREAM, (i + 1) * _ROWS_PER_STREAM)
                sampling.draw_trees(streams[i], self.n_trees, trees[here])

        threads.run(draw, len(streams))
        return trees[self.skipped :]


@dataclass(frozen=True)
class IndependentAssignment:
    """Each row's tree is drawn from fresh bits, independently of all other rows.

    Adding or removing a row leaves every other row where it is, so that one tree alone sees the difference.
    """

    n_trees: int

    def draws(self, sizes: Sequence[int], source: RandomSource) -> Sequence[TreeDraws]:
        """Return the draws of each partition."""
        if self.n_trees == 1:
            return [SingleTree(n_rows) for n_rows in sizes]
        streams = source.streams(-(-sum(sizes) // _ROWS_PER_STREAM))
        draws, begin = [], 0
        for n_rows in sizes:
            first, skipped = divmod(begin, _ROWS_PER_STREAM)
            last = -(-(begin + n_rows) // _ROWS_PER_STREAM) if n_rows else first
            draws.append(IndependentDraws(streams[first:last], skipped if n_rows else 0, n_rows, self.n_trees))
            begin += n_rows
        return draws


@dataclass(frozen=True)
class BagDraws(_OfStreams):
    """A bag of the rows.

    Attributes
    ----------
    streams : array of shape (1, 33)
        The stream, at the place of the first row.
    n_rows : int
        The number of rows.
    """

    streams: Streams
    n_rows: int

    def draw(self, threads: Threads) -> Trees:
        """Return 0 for the rows of the bag and 1 for the others."""
        return self._next(secret_copy(self.streams))

    def _next(self, streams: Streams) -> Trees:
        """Draw from a stream, a block at a time, and move it on."""
        trees = np.empty(self.n_rows, dtype=np.uint16)
        numbers = np.empty(_ROWS_PER_STREAM, dtype=np.uint64)
        for begin in range(0, self.n_rows, _ROWS_PER_STREAM):
            block = numbers[: self.n_rows - begin]
            sampling.draw_below(streams[0], 1000, block)
            trees[begin : begin + len(block)] = block >= _BAG_PER_MILLE
        return trees

    def after(self) -> Streams:
        """Return the stream at the place after the last row."""
        streams = secret_copy(self.streams)
        self._next(streams)
        return streams


@dataclass(frozen=True)
class BagAssignment:
    """One tree gets a random bag of the rows: 63.2 % of them, as many as are in a bootstrap sample."""

    n_trees: int = 1

    def draws(self, sizes: Sequence[int], source: RandomSource) -> Sequence[TreeDraws]:
        """Return the draws of each partition."""
        draws = [BagDraws(source.streams(1), sizes[0])]
        for n_rows in sizes[1:]:
            draws.append(BagDraws(draws[-1].after(), n_rows))
        return draws
