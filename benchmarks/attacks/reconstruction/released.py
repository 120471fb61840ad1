"""What forests publish of the rows that they were fitted to: numbers of records of each class in each leaf."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestClassifier

from benchmarks.attacks.reconstruction.tables import Rows, possible_rows
from diprime import DiPriMeClassifier
from diprime.domain import Domain
from diprime.forest.plan import ForestSettings
from diprime.model.estimates import LeafSums
from diprime.privacy.charges import ReleaseKind


@dataclass(frozen=True)
class Released:
    """The leaves of a forest, as an attacker sees them.

    Attributes
    ----------
    leaf_of : array of shape (n_trees, n_cells)
        The leaf that each possible row, without its class, reaches in each tree.
    sums : array of shape (n_trees, n_leaves, n_classes)
        The published number of records of each class in each leaf.
    epsilon : float
        The numbers have discrete Laplace noise: an error of k has a probability proportional to exp(-k·epsilon).
        Infinite if they are exact.
    """

    leaf_of: npt.NDArray[np.int64]
    sums: npt.NDArray[np.int64]
    epsilon: float


class WatchedForest(DiPriMeClassifier):
    """A forest that keeps the noisy sums from which its leaf values are computed.

    The model has their totals (``forest_.counts``) and shrunken means of them, which tell less: an attack on the sums
    is at least as strong as one on the model, and the guarantee covers both.
    """

    leaf_sums: LeafSums

    def _leaf_values(self, leaves: LeafSums, domain: Domain, settings: ForestSettings) -> npt.NDArray[np.float64]:
        self.leaf_sums = leaves
        return super()._leaf_values(leaves, domain, settings)


def of_ours(model: WatchedForest, n_features: int) -> Released:
    """Return what a forest of this library released."""
    epsilon = next(charge.epsilon for charge in model.privacy_.charges if charge.kind == ReleaseKind.LEAF_SUMS)
    sums = np.rint(model.leaf_sums.sums).astype(np.int64)
    return Released(model.apply(possible_rows(n_features)).T.astype(np.int64), sums, float(epsilon))


def of_random_forest(model: RandomForestClassifier, n_features: int) -> Released:
    """Return the exact counts of a forest of scikit-learn whose trees see all rows (``bootstrap=False``)."""
    nodes = model.apply(possible_rows(n_features)).T
    n_nodes = max(tree.tree_.node_count for tree in model.estimators_)
    sums = np.zeros((len(nodes), n_nodes, len(model.classes_)), dtype=np.int64)
    for of_tree, estimator in zip(sums, model.estimators_, strict=True):
        tree = estimator.tree_
        shares = tree.value[:, 0, :]
        counts = np.rint(shares * tree.n_node_samples[:, None])
        is_leaf = tree.children_left < 0
        of_tree[np.flatnonzero(is_leaf)] = counts[is_leaf]
    return Released(nodes.astype(np.int64), sums, math.inf)


def fit_ours(rows: Rows, domain: Domain, epsilon: float, **settings: Any) -> Released:
    """Fit a forest of this library and return what it released."""
    model = WatchedForest(epsilon, domain, n_jobs=1, **settings).fit(rows[:, :-1], rows[:, -1])
    return of_ours(model, rows.shape[1] - 1)


def fit_random_forest(rows: Rows, n_trees: int, seed: int) -> Released:
    """Fit scikit-learn's forest, which is not private, to all rows and return its counts."""
    model = RandomForestClassifier(n_trees, bootstrap=False, random_state=seed, n_jobs=1)
    return of_random_forest(model.fit(rows[:, :-1], rows[:, -1]), rows.shape[1] - 1)
