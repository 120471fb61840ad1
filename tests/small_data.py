"""Small synthetic data with every kind of column, and its public domain, for tests of whole fits."""

from dataclasses import fields

import numpy as np

from diprime import (
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Numeric,
)
from diprime.paper import PaperDiPriMeClassifier, PaperDiPriMeRegressor

METHODS = ("joint", "diprime", "diprime-exp", "diprime-flip", "random")
TASKS = ("classification", "regression")
ESTIMATORS = {"classification": DiPriMeClassifier, "regression": DiPriMeRegressor}
PAPER = {"classification": PaperDiPriMeClassifier, "regression": PaperDiPriMeRegressor}
BOOSTERS = {"classification": DiPriMeBoostingClassifier, "regression": DiPriMeBoostingRegressor}

FEATURES = {
    "level": Numeric(0, 10),
    "size": Numeric(1, 1000, scale="log"),
    "kind": Categorical(range(12)),
    "side": Categorical([0, 1]),
}
TARGETS = {"classification": Categorical(["a", "b", "c"]), "regression": Numeric(0, 10)}
DOMAINS = {task: Domain(FEATURES, target) for task, target in TARGETS.items()}


def make(task, n, seed=0):
    """Return n rows of numbers, some missing or out of range, and a target that depends on "level"."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0, 10, n), rng.lognormal(3, 2, n), rng.integers(0, 14, n), rng.integers(0, 2, n)])
    signal = np.clip(X[:, 0] + rng.normal(0, 0.5, n), 0, 10)
    X[rng.random(X.shape) < 0.05] = np.nan
    if task == "regression":
        return X, signal
    return X, np.array(["a", "b", "c"])[np.digitize(signal, [3, 7])]


def fit(task, X, y, *, estimators=ESTIMATORS, **parameters):
    """Fit with the public domain, by default on one thread."""
    return estimators[task](**{"domain": DOMAINS[task], "n_jobs": 1, **parameters}).fit(X, y)


def boost(task, X, y, **parameters):
    """Fit a boosted model of few rounds with the public domain, by default on one thread."""
    return BOOSTERS[task](**{"domain": DOMAINS[task], "n_rounds": 20, "n_jobs": 1, **parameters}).fit(X, y)


def forest_arrays(model):
    """Return all arrays of a fitted forest by name."""
    forest = model.forest_
    values = {field.name: getattr(forest, field.name) for field in fields(forest) if field.name != "link"}
    if steps := values.pop("steps", None):
        values |= {"table": steps.table, "sizes": steps.sizes}
        values |= {f"curve_noise {i}": noise for i, noise in enumerate(steps.curve_noise)}
    return {name: np.asarray(value) for name, value in values.items()}


def assert_same_forest(a, b):
    """Assert that the forests of two fitted models are bit-identical."""
    for name, array in forest_arrays(a).items():
        other = forest_arrays(b)[name]
        assert array.dtype == other.dtype, name
        assert array.tobytes() == other.tobytes(), name
