"""Which tree a record is in, drawn without looking at any record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.kernels import sampling
from diprime.privacy.randomness import RandomSource

Trees = npt.NDArray[np.uint16]

_ROWS_PER_STREAM = 1 << 16
_BAG_PER_MILLE = 632  # the share of distinct rows in a bootstrap sample, 1 - 1/e


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

    def draw(self, n_rows: int, source: RandomSource, threads: Threads) -> Trees:
        """Return the tree of each row; rows of tree ``n_trees`` are left out."""


@dataclass(frozen=True)
class IndependentAssignment:
    """Each row's tree is drawn from fresh bits, independently of all other rows.

    Adding or removing a row leaves every other row where it is, so that one tree alone sees the difference.
    """

    n_trees: int

    def draw(self, n_rows: int, source: RandomSource, threads: Threads) -> Trees:
        """Return the tree of each row."""
        trees = np.zeros(n_rows, dtype=np.uint16)
        if self.n_trees == 1:
            return trees
        n_streams = -(-n_rows // _ROWS_PER_STREAM)
        streams = source.streams(n_streams)

        def draw(begin: int, end: int) -> None:
            for i in range(begin, end):
                here = slice(i * _ROWS_PER_STREAM, (i + 1) * _ROWS_PER_STREAM)
                sampling.draw_trees(streams[i], self.n_trees, trees[here])

        threads.run(draw, n_streams)
        return trees


@dataclass(frozen=True)
class BagAssignment:
    """One tree gets a random bag of the rows: 63.2 % of them, as many as are in a bootstrap sample."""

    n_trees: int = 1

    def draw(self, n_rows: int, source: RandomSource, threads: Threads) -> Trees:
        """Return 0 for the rows of the bag and 1 for the others."""
        return (source.integers(1000, n_rows) >= _BAG_PER_MILLE).astype(np.uint16)
