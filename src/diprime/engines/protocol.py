"""What training asks of whoever holds the private rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import Bins, TargetLayout, Windows


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

    def set_windows(self, windows: Windows) -> None:
        """From now on, histograms see the target of each node's records, and of its descendants', through a window."""

    def sums(self) -> npt.NDArray[np.int64]:
        """Return the sum of the records' vectors at every node."""
