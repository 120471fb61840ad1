"""Private linear models and networks in NumPy: DP-SGD, gradient descent on all rows, and AdaSSP.

All are (ε, δ)-private if one record is added or removed. They treat the number of records n as public, which favours
them: diprime does not. Features are numbers scaled linearly to [-1, 1] by their public ranges, one-hot categories and a
constant. A missing value is zero. With F features, no row has a norm above √(F + 1).

Recipes were chosen on one data set per task, without privacy: those of classes on Adult, with 27,000 and 1,400 of its
rows, and those of numbers on Abalone. This used other splits than the benchmark, but the same rows, so it favours the
rivals on these two. All others get the same recipes, without tuning. AdaSSP has no settings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from diprime import Categorical, Domain, Numeric

Floats = npt.NDArray[np.floating[Any]]
MOMENTUM = 0.9
FAILURE = 0.05  # AdaSSP's ρ: how likely its ridge may be too small


@dataclass(frozen=True)
class Recipe:
    """Settings of gradient descent.

    Attributes
    ----------
    rate : float
        Probability of a record to be in a batch. At 1, each step uses all records.
    steps : int
        Number of steps.
    clip : float
        Largest norm of the gradient of a record, in multiples of √(F + 1).
    gain : float
        Step size by nε, in multiples of 1 / (F + 1): with less noise, larger steps pay.
    hidden : int
        Number of tanh units between features and scores, or 0 for a linear model.
    """

    rate: float
    steps: int
    clip: float
    gain: float
    hidden: int = 0

    def __str__(self) -> str:
        return f"rate {self.rate:g}, {self.steps} steps, clip {self.clip:g}, gain {self.gain:.2g}, {self.hidden} units"


# For classes and for numbers.
SGD_LINEAR = Recipe(0.05, 600, 0.5, 1 / 6000), Recipe(0.05, 600, 0.03, 1 / 3000)
SGD_NETWORK = Recipe(0.05, 600, 0.5, 1 / 15000, 64), Recipe(0.05, 600, 0.03, 1 / 3000, 64)
FULL_BATCH = Recipe(1, 300, 0.5, 1 / 6000)


# -- privacy -----------------------------------------------------------------------------------------------------------


def gaussian_noise(epsilon: float, delta: float) -> float:
    """Return the noise of one Gaussian mechanism of sensitivity 1: 1/μ, exactly."""
    import dp_accounting

    return 0.0 if math.isinf(epsilon) else float(dp_accounting.get_sigma_gaussian(epsilon, delta))


@cache
def noise_multiplier(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """Return the standard deviation of the noise of a step, in multiples of the clipping norm.

    Without sampling, μ² adds up exactly. With Poisson sampling, the privacy loss distributions of the steps are
    composed numerically and rounded up.
    """
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    exact = math.sqrt(steps) * gaussian_noise(epsilon, delta)
    if rate == 1 or exact == 0:
        return exact

    def event(multiplier: float) -> dp_accounting.DpEvent:
        step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier))
        return dp_accounting.SelfComposedDpEvent(step, steps)

    def accountant() -> PLDAccountant:
        return PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)

    bracket = dp_accounting.ExplicitBracketInterval(0.9 * rate * exact, exact)
    return float(dp_accounting.calibrate_dp_mechanism(accountant, event, epsilon, delta, bracket, tol=1e-4))


# -- gradient descent --------------------------------------------------------------------------------------------------


def encode(X: pd.DataFrame, domain: Domain) -> Floats:
    """Return the features as numbers, with a constant as the last column."""
    columns: list[Floats] = []
    for name, feature in domain.features.items():
        values = X[name].to_numpy()
        if isinstance(feature, Categorical):
            columns += [values == category for category in feature.categories]
        else:
            scaled = 2 * (values.astype(float) - feature.low) / (feature.high - feature.low) - 1
            columns.append(np.nan_to_num(np.clip(scaled, -1, 1)))
    return np.column_stack([*columns, np.ones(len(X))]).astype(np.float32)


def _scaled(y: npt.NDArray[Any], target: Numeric) -> Floats:
    """Return numbers in [-½, ½]."""
    return (y - target.low) / (target.high - target.low) - 0.5


def _unscaled(scores: Floats, target: Numeric) -> Floats:
    """Return numbers within the target's range."""
    return target.low + (target.high - target.low) * np.clip(scores + 0.5, 0, 1)


def _squares(rows: Floats) -> Floats:
    return np.einsum("ij,ij->i", rows, rows)


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def forward(layers: list[Floats], X: Floats) -> tuple[list[Floats], Floats]:
    """Return the inputs of each layer, and the scores."""
    inputs = [X]
    for weights in layers[:-1]:
        inputs.append(np.column_stack([np.tanh(inputs[-1] @ weights), np.ones(len(X), X.dtype)]))
    return inputs, inputs[-1] @ layers[-1]


def clipped_gradients(layers: list[Floats], X: Floats, target: Floats, clip: float, classes: bool) -> list[Floats]:
    """Return the sum over records of gradients that are scaled to a norm of at most ``clip``, for each layer.

    The gradient of a record in a layer is the outer product of the layer's input and error. Norms follow from those of
    the two. The loss is the cross-entropy, or half the squared error.
    """
    inputs, scores = forward(layers, X)
    errors = [(_softmax(scores) if classes else scores) - target]
    for weights, outputs in zip(layers[:0:-1], inputs[:0:-1], strict=True):
        errors.insert(0, (errors[0] @ weights.T * (1 - outputs**2))[:, :-1])
    squares = sum(_squares(i) * _squares(e) for i, e in zip(inputs, errors, strict=True))
    factors = np.minimum(1, clip / np.sqrt(np.maximum(squares, 1e-30)))[:, None]
    return [i.T @ (e * factors) for i, e in zip(inputs, errors, strict=True)]


class Descent:
    """Model of layers, learnt by noisy gradient descent. The result is the mean of the last half of its steps."""

    def __init__(self, epsilon: float, domain: Domain, delta: float, recipe: Recipe) -> None:
        self.epsilon, self.domain, self.delta, self.recipe = epsilon, domain, delta, recipe
        self.classes = isinstance(domain.target, Categorical)

    def _targets(self, y: npt.NDArray[Any]) -> Floats:
        """Return a column for each class, or one of numbers in [-½, ½]."""
        target = self.domain.target
        if isinstance(target, Categorical):
            return (y[:, None] == np.array(sorted(target.categories))).astype(np.float32)
        return _scaled(y[:, None], target).astype(np.float32)

    def _start(self, n_inputs: int, n_outputs: int, rng: np.random.Generator) -> list[Floats]:
        hidden = self.recipe.hidden
        if not hidden:
            return [np.zeros((n_inputs, n_outputs), np.float32)]
        first = rng.normal(0, 1 / math.sqrt(n_inputs), (n_inputs, hidden)).astype(np.float32)
        return [first, np.zeros((hidden + 1, n_outputs), np.float32)]

    def fit(self, X: pd.DataFrame, y: npt.NDArray[Any]) -> Descent:
        """Learn from the rows."""
        recipe, rng, n, size = self.recipe, np.random.default_rng(), len(X), len(self.domain.features) + 1
        features, targets = encode(X, self.domain), self._targets(y)
        clip = recipe.clip * math.sqrt(size)
        noise = clip * noise_multiplier(self.epsilon, self.delta, recipe.rate, recipe.steps)
        # Without noise, a linear model is stable below 2 (1 + momentum) / curvature. The curvature is at most F + 1 for
        # squares, and half of that for softmax.
        limit = 2 * (1 + MOMENTUM) * (2 if self.classes else 1)
        step_size = min(limit, recipe.gain * n * self.epsilon) / size
        layers = self._start(features.shape[1], targets.shape[1], rng)
        velocities = [np.zeros_like(weights) for weights in layers]
        means = [np.zeros_like(weights) for weights in layers]
        for step in range(recipe.steps):
            batch: Any = slice(None)
            if recipe.rate < 1:  # a Poisson sample
                batch = rng.choice(n, rng.binomial(n, recipe.rate), replace=False, shuffle=False)
            sums = clipped_gradients(layers, features[batch], targets[batch], clip, self.classes)
            for weights, velocity, mean, total in zip(layers, velocities, means, sums, strict=True):
                noisy = total + noise * rng.standard_normal(total.shape, np.float32)
                velocity *= MOMENTUM
                velocity += noisy / (recipe.rate * n)
                weights -= step_size * velocity
                if 2 * step >= recipe.steps:
                    mean += weights / (recipe.steps - recipe.steps // 2)
        self.layers_ = means
        return self

    def _scores(self, X: pd.DataFrame) -> Floats:
        return forward(self.layers_, encode(X, self.domain))[1].astype(np.float64)


class DescentClassifier(Descent):
    """Softmax regression or classifying network."""

    def predict_proba(self, X: pd.DataFrame) -> Floats:
        """Return the probability of each class, in sorted order."""
        return _softmax(self._scores(X))

    def predict(self, X: pd.DataFrame) -> npt.NDArray[Any]:
        """Return the most likely classes."""
        return np.array(sorted(self.domain.target.categories))[self.predict_proba(X).argmax(axis=1)]


class DescentRegressor(Descent):
    """Linear regression or network for numbers."""

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return numbers within the target's range."""
        return _unscaled(self._scores(X)[:, 0], self.domain.target)


def descent(epsilon: float, domain: Domain, delta: float, recipes: tuple[Recipe, ...]) -> Descent:
    """Return a classifier or regressor, with the recipe of its task."""
    if isinstance(domain.target, Categorical):
        return DescentClassifier(epsilon, domain, delta, recipes[0])
    return DescentRegressor(epsilon, domain, delta, recipes[1])


# -- AdaSSP ------------------------------------------------------------------------------------------------------------


class AdaSSP:
    """Linear regression from noisy sufficient statistics, with a private ridge (Wang 2018, algorithm 2).

    The three releases are Gaussian mechanisms with a third of μ² each. This is exact, and needs less noise than the
    paper's division of ε and δ.
    """

    def __init__(self, epsilon: float, domain: Domain, delta: float) -> None:
        self.epsilon, self.domain, self.delta = epsilon, domain, delta

    def fit(self, X: pd.DataFrame, y: npt.NDArray[np.float64]) -> AdaSSP:
        """Learn from the rows."""
        rng, numbers = np.random.default_rng(), _scaled(y, self.domain.target)
        rows = encode(X, self.domain).astype(np.float64)
        square, n_columns = len(self.domain.features) + 1, rows.shape[1]  # the largest square of a row's norm
        noise = square * math.sqrt(3) * gaussian_noise(self.epsilon, self.delta)
        gram = rows.T @ rows
        least = np.linalg.eigvalsh(gram)[0] + noise * (rng.standard_normal() - math.sqrt(math.log(6 / self.delta)))
        ridge = noise * math.sqrt(n_columns * math.log(2 * n_columns**2 / FAILURE)) - max(0.0, least)
        upper = np.triu(rng.standard_normal(gram.shape))
        noisy_gram = gram + noise * (upper + np.triu(upper, 1).T)
        half = noise / math.sqrt(square) / 2  # a row times a number of at most ½
        moments = rows.T @ numbers + half * rng.standard_normal(n_columns)
        self.weights_ = np.linalg.lstsq(noisy_gram + max(0.0, ridge) * np.eye(n_columns), moments)[0]
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return numbers within the target's range."""
        return _unscaled(encode(X, self.domain) @ self.weights_, self.domain.target)
