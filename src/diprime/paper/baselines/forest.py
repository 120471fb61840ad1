"""A fitted forest of multi-way trees: flat arrays of released numbers, and nothing else."""

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
    """One tree, its nodes level by level from the root, the children of a split next to each other.

    Attributes
    ----------
    features : array of shape (n_nodes,)
        The feature that a node splits on, -1 for a leaf.
    first_children : array of shape (n_nodes,)
        The first of its children, one for each branch of the feature.
    shares : array of shape (n_nodes, n_outputs)
        The released share of each class, or of the low and the high end of a numeric target.
    sizes : array of shape (n_nodes,)
        The released number of records.
    """

    features: npt.NDArray[np.int32]
    first_children: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class MultiwayForest:
    """Trees whose splits have a branch for each bin or level.

    Attributes
    ----------
    branches : Branches
        Which branch of a split a record takes.
    roots : array of shape (n_trees,)
        The root of each tree; its nodes follow.
    features, first_children : arrays of shape (n_nodes,)
        The feature that a node splits on, -1 for a leaf, and the first of its children.
    values : array of shape (n_nodes, n_outputs)
        What a node predicts.
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
        """Put trees together, with what their nodes predict."""
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
        """Return the leaf that each row reaches in each tree, numbered among all nodes, a row for each tree."""
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
        """Return the leaf that each row reaches in each tree, numbered among the nodes of its tree."""
        return np.ascontiguousarray((self._leaves(rows) - self.roots[:, None]).T)

    def predict(self, rows: RowReader) -> npt.NDArray[np.float64]:
        """Return the mean of what the trees predict."""
        total = np.zeros((rows.n_rows, self.values.shape[1]))
        for leaves in self._leaves(rows):
            total += self.values[leaves]
        return total / self.n_trees
