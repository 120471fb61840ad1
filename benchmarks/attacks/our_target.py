"""Forests of this library, as targets of the attacks on seeds and positions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.attacks.positions import N_TREES
from benchmarks.attacks.protocol import HIGH, Classes, Floats
from diprime import Categorical, DiPriMeClassifier, Domain, Numeric


class OurForest:
    """A partitioned forest of random trees, the settings nearest to those of diffprivlib's forest.

    Random trees spend all of epsilon on leaves, so that an attack sees the most of it.

    Parameters
    ----------
    epsilon : float
        The budget of a fit.
    max_depth : int
        The depth of its trees.
    random_state : int, optional
        A seed, which voids the guarantee, as the ledger says.
    """

    def __init__(self, epsilon: float, max_depth: int, random_state: int | None = None) -> None:
        self.epsilon = epsilon
        self.max_depth = max_depth
        self.random_state = random_state

    def fit(self, X: Floats, y: Classes) -> DiPriMeClassifier:
        """Fit a model; without a seed, its random bits come from the operating system and are not kept."""
        domain = Domain({f"x{i}": Numeric(0, HIGH) for i in range(X.shape[1])}, target=Categorical([0, 1]))
        return DiPriMeClassifier(
            self.epsilon,
            domain,
            method="random",
            n_estimators=N_TREES,
            max_depth=self.max_depth,
            n_jobs=1,
            random_state=self.random_state,
        ).fit(X, y)

    def replay(self, model: Any, seeds: list[int], X: Floats, y: Classes) -> DiPriMeClassifier:
        """Fit again with the first seed that was found."""
        return clone(model).set_params(random_state=seeds[0]).fit(X, y)

    def tree_values(self, model: Any, row: Floats) -> Floats:
        """Return the estimates of the leaves that the row reaches."""
        forest = model.forest_
        return np.asarray(forest.values[forest.first_leaves[:-1] + model.apply(row)[0], 1])
