"""The growth of one multi-way tree, level by level: release sums, choose splits, send rows to the children."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout
from diprime.kernels.constants import ABSENT_COST
from diprime.paper.baselines.forest import LEAF, Tree
from diprime.paper.baselines.recipes import MAX_ROWS, Receipts, Recipe, explained
from diprime.privacy.mechanisms.selection import Costs
from diprime.privacy.randomness import RandomSource


@dataclass(frozen=True)
class Records:
    """The records whose target is known, as growth reads them.

    Attributes
    ----------
    branches : array of shape (n_features, n_rows)
        The branch that each row takes at a split on each feature.
    target : array of shape (n_rows,)
        The encoded target.
    layout : TargetLayout
        How a target becomes a vector.
    """

    branches: npt.NDArray[np.uint8]
    target: npt.NDArray[np.int32]
    layout: TargetLayout

    def __post_init__(self) -> None:
        if len(self.target) > MAX_ROWS:
            raise ValueError(f"There are more rows than the {MAX_ROWS:,} that are supported.")

    def only(self, kept: npt.NDArray[np.bool_]) -> Records:
        """Return the records that are kept."""
        return self if kept.all() else replace(self, branches=self.branches[:, kept], target=self.target[kept])

    def sums(self, cells: npt.NDArray[np.int64], n_cells: int) -> npt.NDArray[np.int64]:
        """Return the exact sum of the records' vectors in each cell."""
        n_outputs, units = self.layout.n_outputs, self.layout.units
        if units == 1:
            counts = np.bincount(cells * n_outputs + self.target, minlength=n_cells * n_outputs)
            return np.asarray(counts.reshape(n_cells, n_outputs), dtype=np.int64)
        high = np.bincount(cells, self.target, n_cells).astype(np.int64)  # whole numbers below 2^53: no rounding
        return np.stack([np.bincount(cells, minlength=n_cells) * units - high, high], axis=1)

    def squares(self, cells: npt.NDArray[np.int64], n_cells: int) -> npt.NDArray[np.float64]:
        """Return ½·Σ‖t‖² over the records of each cell, with vectors t that sum to one."""
        if self.layout.task == "classification":
            return np.asarray(np.bincount(cells, minlength=n_cells) / 2)
        high = self.target / self.layout.units
        return np.asarray(np.bincount(cells, (high**2 + (1 - high) ** 2) / 2, n_cells))


def split_costs(
    records: Records,
    node: npt.NDArray[np.int64],
    n_branches: npt.NDArray[np.int64],
    recipe: Recipe,
    sums: npt.NDArray[np.int64],
    released: npt.NDArray[np.int64],
) -> Costs:
    """Return the cost of splitting each node on each feature, given the true and the released sums of the nodes."""
    n_nodes = len(sums)
    scores = np.empty((n_nodes, len(n_branches)), dtype=np.int64)
    for j, n in enumerate(n_branches):
        cells = records.sums(node * n + records.branches[j], n_nodes * n)
        scores[:, j] = explained(cells, records.layout, recipe.units).reshape(n_nodes, n).sum(axis=1)
    return recipe.costs(scores, recipe.units * records.squares(node, n_nodes), sums, released)


def grow(
    records: Records,
    n_branches: npt.NDArray[np.int64],
    recipe: Recipe,
    receipts: Receipts,
    source: RandomSource,
    closed_to_root: Collection[int] = (),
) -> Tree:
    """Grow one tree.

    The nodes of a level hold disjoint records. All branches of a split become nodes, empty or not, and a feature is
    used at most once on a path. Except with a recipe that is not private, which nodes there are and which features they
    can split on depends on released numbers only.

    Parameters
    ----------
    records : Records
        The records.
    n_branches : array of shape (n_features,)
        The number of branches of each feature.
    recipe : Recipe
        What is released, and how splits are chosen.
    receipts : Receipts
        What pays: one release of sums for each level, and one of splits for each level but the last.
    source : RandomSource
        The random bits.
    closed_to_root : collection of int, default=()
        Features that the root does not split on.

    Returns
    -------
    tree : Tree
        The tree.
    """
    n_features = len(n_branches)
    node: npt.NDArray[np.int64] = np.zeros(len(records.target), dtype=np.int64)  # of each row, within the level
    used: npt.NDArray[np.bool_] = np.zeros((1, n_features), dtype=bool)
    parents: npt.NDArray[np.float64] = np.full((1, records.layout.n_outputs), 1 / records.layout.n_outputs)
    features, first_children, shares, sizes = [], [], [], []
    n_before = 0
    for level in range(recipe.depth + 1):
        n_nodes = len(used)
        sums = records.sums(node, n_nodes)
        released = recipe.release(sums, receipts.sums, source)
        shares.append(recipe.shares(released, parents))
        sizes.append(recipe.sizes(released))
        features.append(np.full(n_nodes, LEAF, dtype=np.int32))
        first_children.append(np.zeros(n_nodes, dtype=np.int64))
        if level == recipe.depth:
            break
        goes_on = recipe.goes_on(sums, released)
        inner = np.flatnonzero(goes_on)
        if not len(inner):
            break
        kept = goes_on[node]
        records, node = records.only(kept), (np.cumsum(goes_on) - 1)[node[kept]]
        used = used[inner]

        costs = split_costs(records, node, n_branches, recipe, sums[inner], released[inner])
        costs[used] = ABSENT_COST
        if level == 0:
            costs[:, list(closed_to_root)] = ABSENT_COST
        picks = recipe.select(costs, receipts.splits, source)

        n_children = n_branches[picks]
        offsets = np.cumsum(n_children) - n_children
        n_before += n_nodes
        features[-1][inner] = picks
        first_children[-1][inner] = n_before + offsets
        used[np.arange(len(inner)), picks] = True
        used = np.repeat(used, n_children, axis=0)
        parents = np.repeat(shares[-1][inner], n_children, axis=0)
        node = offsets[node] + records.branches[picks[node], np.arange(len(node))]
    return Tree(np.concatenate(features), np.concatenate(first_children), np.concatenate(shares), np.concatenate(sizes))


def prune(tree: Tree, n_branches: npt.NDArray[np.int64]) -> Tree:
    """Undo, from the leaves up, splits whose leaves are no purer than the node; the root keeps its split.

    Purity is the Gini index of the released shares, and leaves are weighted by their released sizes, so pruning is
    post-processing.
    """
    features = tree.features.copy()
    impurity = 1 - (tree.shares**2).sum(axis=1)
    for node in np.flatnonzero(features != LEAF)[:0:-1]:
        children = slice(tree.first_children[node], tree.first_children[node] + n_branches[features[node]])
        if np.all(features[children] == LEAF):
            below = impurity[children] @ tree.sizes[children]
            if below >= impurity[node] * tree.sizes[node]:
                features[node] = LEAF
    return replace(tree, features=features)
