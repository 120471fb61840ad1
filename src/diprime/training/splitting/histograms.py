"""The histograms of some nodes, as the scoring kernels read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import Bins, TargetLayout
from diprime.kernels import scoring
from diprime.kernels.constants import N_CODES


@dataclass(frozen=True)
class NodeHistograms:
    """The histograms of consecutive nodes of a level.

    Attributes
    ----------
    bins : array of shape (n_nodes, n_features·256·n_columns)
        What an engine has counted.
    layout : TargetLayout
        What the bins hold.
    first_node : int
        The node that row 0 is about.
    """

    bins: Bins
    layout: TargetLayout
    first_node: int

    @property
    def view(self) -> Any:
        """The bins as a ``BinsView`` of the kernels."""
        return scoring.BinsView(self.bins, self.layout.n_columns, self.layout.shift)

    def rows(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the rows of the bins that hold some nodes."""
        return nodes - self.first_node

    def counts(self, node: int, feature: int) -> npt.NDArray[np.int64]:
        """Return how many records of a node have each code of a feature."""
        (row,) = self.rows(np.array([node]))
        packed = self.bins[row].reshape(-1, N_CODES, self.layout.n_columns)[feature]
        return np.asarray((packed >> np.uint64(self.layout.shift)).sum(axis=1).astype(np.int64))


class EmptyHistograms(NodeHistograms):
    """The histograms of nodes without records, for splits that do not look at data: one row serves every node."""

    @classmethod
    def of(cls, n_features: int, layout: TargetLayout) -> EmptyHistograms:
        """Return them for a number of features."""
        return cls(np.zeros((1, n_features * N_CODES * layout.n_columns), dtype=np.uint64), layout, 0)

    def rows(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the one row, for every node."""
        return np.zeros_like(nodes)
