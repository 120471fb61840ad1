"""Fitted forests of multi-way trees: flat arrays of released numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.domain import RowReader
from diprime.paper.baselines.branches import Branches

LEAF = -1


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree. Nodes are in level order, and the children of a split are next to each other.

    Attributes
    ----------
    features : array of shape (n_nodes,)
        The feature that a node splits on; -1 for a leaf.
    first_children : array of shape (n_nodes,)
        The first child of a node. It has one child for each branch of the feature.
    shares : array of shape (n_nodes, n_outputs)
        The share of each class, or of the low and the high end of a numeric target, from released sums.
    sizes : array of shape (n_nodes,)
        The number of records, from released sums.
    """

    features: npt.NDArray[np.int32]
    first_children: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class MultiwayForest:
    """A forest of trees whose splits have one branch for each bin or level.

    Attributes
    ----------
    branches : Branches
        The branches of the splits.
    roots : array of shape (n_trees,)
        The root of each tree. The other nodes of the tree follow it.
    features, first_children : arrays of shape (n_nodes,)
        The feature that a node splits on, or -1 for a leaf, and the first child of the node.
    values : array of shape (n_nodes, n_outputs)
        The prediction of each node.
    """

    branches: Branches
    roots: npt.NDArray[np.int64]
    features: npt.NDArray[np.int32]
    first_children: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]

    @classmethod
    def of_trees(
        cls, branches: Branches, trees: Sequence[Tree], values: Sequence[npt.NDArray[np.float64]]
    ) -> MultiwayForest:
        """Return a forest of trees, given the predictions of their nodes."""
        sizes = [len(tree.features) for tree in trees]
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        return cls(
            branches,
            roots,
            np.concatenate([tree.features for tree in trees]),
            np.concatenate([tree.first_children + root for tree, root in zip(trees, roots, strict=True)]),
            np.concatenate(values),
        )

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return len(self.roots)

    def __repr__(self) -> str:
        return f"MultiwayForest({self.n_trees} trees, {len(self.features)} nodes)"

    def _leaves(self, rows: RowReader) -> npt.NDArray[np.int64]:
        """Return an array of shape (n_trees, n_rows): the leaf of each row, as an index of all nodes of the forest."""
        branches = self.branches.read(rows)
        nodes = np.repeat(self.roots[:, None], rows.n_rows, axis=1)
        for node in nodes:
            going = np.arange(rows.n_rows)
            while len(going):
                features = self.features[node[going]]
                going, features = going[features != LEAF], features[features != LEAF]
                node[going] = self.first_children[node[going]] + branches[features, going]
        return nodes

    def apply(self, rows: RowReader) -> npt.NDArray[np.int64]:
        """Return an array of shape (n_rows, n_trees): the leaf of each row, as an index of the nodes of its tree."""
        return np.ascontiguousarray((self._leaves(rows) - self.roots[:, None]).T)

    def predict(self, rows: RowReader) -> npt.NDArray[np.float64]:
        """Return the mean prediction of the trees."""
        total = np.zeros((rows.n_rows, self.values.shape[1]))
        for leaves in self._leaves(rows):
            total += self.values[leaves]
        return total / self.n_trees
