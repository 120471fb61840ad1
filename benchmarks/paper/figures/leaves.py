"""The number of rows in the leaves and nodes of fitted trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.data import Dataset
from benchmarks.paper.fits import BASELINES, Fit

Counts = npt.NDArray[np.int64]


def left_fractions(leaf_counts: Counts) -> npt.NDArray[np.float64]:
    """Return the share of its rows that each non-empty node of a complete binary tree sends left."""
    fractions = []
    while len(leaf_counts) > 1:
        children = leaf_counts.reshape(-1, 2)
        leaf_counts = children.sum(axis=1)
        fractions.append(children[leaf_counts > 0, 0] / leaf_counts[leaf_counts > 0])
    return np.concatenate(fractions)


def leaves_of_multiway_trees(forest: Any) -> list[Counts]:
    """Return the leaves of each tree of a baseline's forest, without nodes that were pruned away."""
    found = []
    for root in forest.roots:
        leaves, open_nodes = [], [root]
        while open_nodes:
            node = open_nodes.pop()
            feature = forest.features[node]
            if feature < 0:
                leaves.append(node - root)
            else:
                first = forest.first_children[node]
                open_nodes.extend(range(first, first + forest.branches.n_branches[feature]))
        found.append(np.sort(leaves))
    return found


def leaf_counts(fit: Fit, data: Dataset) -> list[Counts]:
    """Fit to all rows of a data set, and return the number of rows in each leaf of each tree."""
    model = fit.fitted(data, data.X, data.y, 0)
    reached = model.apply(data.X).T
    if fit.method not in BASELINES:
        return [np.bincount(rows, minlength=2**fit.depth) for rows in reached]
    leaves = leaves_of_multiway_trees(model.forest_)
    return [np.bincount(rows, minlength=int(nodes[-1]) + 1)[nodes] for rows, nodes in zip(reached, leaves, strict=True)]
