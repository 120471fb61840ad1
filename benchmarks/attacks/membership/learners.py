"""The learners under attack, and the numbers that an attacker reads off their models."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from threadpoolctl import threadpool_limits

from benchmarks.attacks.evidence import gaussian_advantage, gaussian_power, pure_advantage, pure_power
from benchmarks.attacks.reconstruction.released import WatchedForest
from diprime import DiPriMeBoostingClassifier, Domain
from diprime.privacy.gaussian_dp import gaussian_budget

Floats = npt.NDArray[np.float64]
Classes = npt.NDArray[np.int64]

DELTA = 1e-6
N_ROUNDS = 100  # a quarter of the default, for the sake of time; μ² is the same whatever their number
CLIP = 1e-6


def confidence(model: Any, X: Floats, y: Classes) -> Floats:
    """Return the logit of the probability that a model gives the class of each record: what the published attack reads.

    A model that does not know the class gives it none.
    """
    classes = list(model.classes_)
    probabilities = model.predict_proba(X)
    own = [row[classes.index(c)] if c in classes else 0.0 for row, c in zip(probabilities, y.tolist(), strict=True)]
    p = np.clip(own, CLIP, 1 - CLIP)
    return np.asarray(np.log(p / (1 - p)))


class Learner(ABC):
    """A learner under attack.

    Attributes
    ----------
    name : str
        What it is called in the report.
    epsilon : float
        Its budget; infinite if it is not private.
    """

    name: str
    epsilon: float = math.inf

    @abstractmethod
    def fit(self, X: Floats, y: Classes, domain: Domain) -> Any:
        """Fit a model."""

    def statistics(self, model: Any, X: Floats, y: Classes) -> Floats:
        """Return what an attacker reads off a model about each record, of shape (n_records, n_statistics)."""
        return confidence(model, X, y)[:, None]

    def largest_advantage(self) -> float:
        """Return the largest advantage that the guarantee allows."""
        return 1.0

    def largest_power(self, false_rate: float) -> float:
        """Return the largest rate of true hits that the guarantee allows at a rate of false ones."""
        return 1.0


class Forest(Learner):
    """Our forest with its defaults."""

    name = "forest"

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def fit(self, X: Floats, y: Classes, domain: Domain) -> WatchedForest:
        """Fit a forest that keeps its noisy sums."""
        return WatchedForest(self.epsilon, domain, n_jobs=1).fit(X, y)

    def statistics(self, model: WatchedForest, X: Floats, y: Classes) -> Floats:
        """Add the noisy numbers of records: in the leaf, of the class in the leaf, and of the class in all leaves."""
        sums = model.leaf_sums.sums
        leaves = model.apply(X)
        at_leaf = sums[np.arange(len(sums))[None, :], leaves].sum(axis=1)
        of_class = sums.sum(axis=(0, 1))
        rows = np.arange(len(X))
        return np.column_stack([confidence(model, X, y), at_leaf.sum(axis=1), at_leaf[rows, y], of_class[y]])

    def largest_advantage(self) -> float:
        """Return (e^ε - 1)/(e^ε + 1)."""
        return pure_advantage(self.epsilon)

    def largest_power(self, false_rate: float) -> float:
        """Return what pure epsilon allows."""
        return pure_power(self.epsilon, false_rate)


class RandomTree(Forest):
    """One random tree of depth 1, which spends all of epsilon on its leaves, where the attack sees it."""

    name = "one random tree"

    def fit(self, X: Floats, y: Classes, domain: Domain) -> WatchedForest:
        """Fit a tree that keeps its noisy sums."""
        return WatchedForest(self.epsilon, domain, method="random", n_estimators=1, max_depth=1, n_jobs=1).fit(X, y)


class Boosting(Learner):
    """Our boosting with its defaults, but for the number of rounds."""

    name = "boosting"

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon
        self.mu = math.sqrt(gaussian_budget(Fraction(epsilon), Fraction(DELTA)))

    def fit(self, X: Floats, y: Classes, domain: Domain) -> DiPriMeBoostingClassifier:
        """Fit a model."""
        return DiPriMeBoostingClassifier(self.epsilon, domain, delta=DELTA, n_rounds=N_ROUNDS, n_jobs=1).fit(X, y)

    def statistics(self, model: Any, X: Floats, y: Classes) -> Floats:
        """Add the released numbers of records that have the codes of the record, and the weights of its leaves."""
        forest, codes = model.forest_, _codes(model, X)
        of_codes = forest.code_weights[np.arange(codes.shape[1])[None, :], codes].sum(axis=1)
        weights = forest.counts[forest.first_leaves[:-1][None, :] + model.apply(X)].sum(axis=1)
        return np.column_stack([confidence(model, X, y), of_codes, weights])

    def largest_advantage(self) -> float:
        """Return 2Φ(μ/2) - 1."""
        return gaussian_advantage(self.mu)

    def largest_power(self, false_rate: float) -> float:
        """Return what μ-Gaussian DP allows."""
        return gaussian_power(self.mu, false_rate)


class RandomForest(Learner):
    """scikit-learn's random forest, which is not private."""

    name = "random forest, not private"

    def fit(self, X: Floats, y: Classes, domain: Domain) -> RandomForestClassifier:
        """Fit a forest of fewer trees than its default."""
        return RandomForestClassifier(20, n_jobs=1).fit(X, y)


class HistBoosting(Learner):
    """scikit-learn's boosting, which is not private."""

    name = "HistGradientBoosting, not private"

    def fit(self, X: Floats, y: Classes, domain: Domain) -> HistGradientBoostingClassifier:
        """Fit with fewer iterations than the default."""
        with threadpool_limits(1):
            return HistGradientBoostingClassifier(max_iter=20).fit(X, y)


def _codes(model: Any, X: Floats) -> npt.NDArray[np.uint8]:
    codes = np.empty((len(X), model.domain_.n_features), dtype=np.uint8)
    model.domain_.reader(X).read(0, len(X), codes)
    return codes
