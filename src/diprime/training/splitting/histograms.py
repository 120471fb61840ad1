"""The histograms that costs are computed from."""

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
    bins : array of shape (n_rows, n_features·256·n_columns)
        The bins, as an engine returns them.
    layout : TargetLayout
        How the bins hold counts and sums of the target.
    first_node : int
        The first node.
    row_of_node : array of shape (n_nodes,), optional
        The row of each node; by default, they are in order.
    values : array of the shape of bins, optional
        The sums of values; the bins have the counts then.
    """

    bins: Bins
    layout: TargetLayout
    first_node: int
    row_of_node: npt.NDArray[np.int64] | None = None
    values: Bins | None = None

    @property
    def view(self) -> Any:
        """The bins as a ``BinsView``, which the scoring kernels read."""
        return scoring.BinsView(self.bins, self.layout.n_columns, self.layout.shift, self.values)

    def rows(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the rows of the bins that belong to some nodes."""
        nodes = nodes - self.first_node
        return nodes if self.row_of_node is None else self.row_of_node[nodes]

    def counts(self, node: int, feature: int) -> npt.NDArray[np.int64]:
        """Return the number of records of a node with each code of a feature."""
        (row,) = self.rows(np.array([node]))
        bins = self.bins[row].reshape(-1, N_CODES, self.layout.n_columns)[feature]
        counts = bins if self.values is not None else self.layout.unpacked(bins)[0]
        return np.asarray(counts.sum(axis=1).astype(np.int64))


class EmptyHistograms(NodeHistograms):
    """Empty histograms, for splits that do not look at data. One row is shared by all nodes."""

    @classmethod
    def of(cls, n_features: int, layout: TargetLayout) -> EmptyHistograms:
        """Return empty histograms of ``n_features`` features."""
        return cls(np.zeros((1, n_features * N_CODES * layout.n_columns), dtype=np.uint64), layout, 0)

    def rows(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return row 0 for every node."""
        return np.zeros_like(nodes)
