"""What training asks of whoever owns the private rows.

Training asks for sums and tells an engine the splits that were released; it never sees a row. All sums are of integers,
so they do not depend on how the rows are stored, sharded or ordered. Where records have weights, a record of weight w
counts as w equal records, in every count and every sum. What an engine returns is exact and private: only a mechanism
may release it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import Bins, Windows
from diprime.engines.assignment import TreeAssignment
from diprime.privacy.randomness import RandomSource


@dataclass(frozen=True)
class Histograms:
    """The histograms of consecutive nodes of a level, valid until the engine is asked for others.

    Attributes
    ----------
    bins : array of shape (n_rows, n_features·256·n_columns)
        Rows of bins: bin (feature·256 + code)·n_columns + column.
    rows : array of shape (n_nodes,)
        The row of each node.
    values : array of the shape of bins, optional
        The sums of values. Where there are more rows than a packed bin can count, they are apart, and ``bins`` has the
        counts.
    """

    bins: Bins
    rows: npt.NDArray[np.int64]
    values: Bins | None = None


class Engine(Protocol):
    """The owner of the rows. Nodes of a level are numbered from left to right, tree after tree."""

    def target_counts(self) -> npt.NDArray[np.int64]:
        """Return how many of all records have each value of the target."""

    def assign_trees(self, assignment: TreeAssignment, source: RandomSource) -> None:
        """Draw the tree of each row, for :meth:`start` to put it at the root of."""

    def start(self) -> None:
        """Put every row at the root of its tree, and see numeric targets in their whole range."""

    def set_windows(self, windows: Windows) -> None:
        """From now on, histograms see the targets of each node and its descendants through a window.

        There is one window for each node, or one for all.
        """

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Cut the nodes of the level into ranges whose histograms fit in memory together."""

    def histograms(self, begin: int, end: int) -> Histograms:
        """Return the histograms of a chunk."""

    def route(self, features: npt.NDArray[np.int32], masks: npt.NDArray[np.uint8]) -> None:
        """Send the rows of every node to its children: right, if the bit of their code is set in its mask."""

    def node_target_counts(self) -> npt.NDArray[np.int64]:
        """Return how many records of every node have each value of the target."""

    def node_sums(self, window: Windows) -> npt.NDArray[np.int64]:
        """Return the sum of the records' vectors at every node, with numeric targets seen through one window."""
