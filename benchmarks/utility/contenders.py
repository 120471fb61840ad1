"""The methods that :mod:`benchmarks.utility` compares, behind a common interface.

All contenders get the same rows and the same public information about them: ranges, categories, classes and the range
of the target. Each returns predictions for the test rows, one for each epsilon.
"""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import tempfile
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.data import NOT_IN_PAPER, Dataset
from benchmarks.paths import CACHE
from benchmarks.utility import rivals
from benchmarks.utility.fingerprint import fingerprint
from diprime import (
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
)

# For the comparisons with peers and for every curve in the figure.
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
# Ours is also measured along a sweep, and at a tenth of the paper's 2.
SWEEP = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
OUR_EPSILONS = tuple(sorted({*EPSILONS, *SWEEP, 0.2}))
# Hardly any noise, and none. Their errors are so close, on some sets a matter of few rows, that it takes more repeats.
LIMIT = (1000.0, math.inf)
REPEATS_AT_LIMIT = 60
REPEATS_OF_BOOSTING_AT_LIMIT, ON_SMALL_DATA = 10, 20  # its fits take longer there
SMALL_DATA = 10_000  # rows
DELTA = 1e-6  # of the methods that need one
RIVAL_EPSILONS = (0.1, 0.2, 0.5, 1.0, 4.0)
RIVAL_REPEATS = 5
# What S-BDT's authors published: the test score by epsilon. See the report for its source and protocol.
S_BDT = {
    "adult": {0.01: 0.787, 0.03: 0.849, 0.1: 0.876, 0.5: 0.893},  # AUC
    "abalone": {0.05: 2.92, 0.1: 2.75, 0.2: 2.66, 0.3: 2.62, 0.5: 2.58},  # root of the mean squared error, in rings
}
S_BDT_DELTA = 5e-8
RANKED = ("higgs", "credit")  # where boosting is compared with what is possible without privacy
N_TREES_OF_PAPER = 10
SPLIT_SHARE_OF_PAPER = 0.5
# The non-private forest: leaves as in the paper, and fewer trees than scikit-learn's default of 100 to save time.
FOREST = {"n_estimators": 30, "min_samples_leaf": 5}
OLD_ENVIRONMENT = ("diffprivlib==0.6.6", "scikit-learn==1.5.2")


@dataclass(frozen=True)
class Prediction:
    """Predictions for the test rows: numbers, or classes with the probability of each class in sorted order."""

    values: npt.NDArray[Any]
    probabilities: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Task:
    """One split of one data set."""

    data: Dataset
    train: npt.NDArray[np.intp]
    test: npt.NDArray[np.intp]

    @property
    def classes(self) -> list[Any]:
        """The public list of classes, sorted."""
        assert isinstance(self.data.domain.target, Categorical)
        return sorted(self.data.domain.target.categories)


Learn = Callable[[Task, Sequence[float]], Iterator[Prediction]]


@dataclass(frozen=True)
class Contender:
    """A learning method.

    Attributes
    ----------
    title : str
        The name in tables and in the figure.
    learn : callable
        Yields a prediction for each epsilon.
    takes : callable
        Whether it can learn from a data set.
    release : callable
        Identifies what was measured: a version, or the fits. Results are kept as long as it stays the same.
    epsilons : tuple of float
        The budgets that it is measured at; infinite if it is not private.
    repeats : int
        The number of splits that it is measured on.
    repeats_on_small_data : int, optional
        The number where rows are few, so that a single one moves the error of a split; by default the same.
    """

    title: str
    learn: Learn
    takes: Callable[[Dataset], bool]
    release: Callable[[], str]
    epsilons: tuple[float, ...] = EPSILONS
    repeats: int = 10
    repeats_on_small_data: int | None = None

    def repeats_on(self, n_rows: int) -> int:
        """Return the number of splits of a data set with so many rows."""
        return (self.repeats_on_small_data if n_rows < SMALL_DATA else None) or self.repeats

    def repeats_text(self) -> str:
        """Return the number of splits, by the size of the data set."""
        small = self.repeats_on_small_data
        return f"{self.repeats} splits" + (f", or {small} for fewer than {SMALL_DATA:,} rows" if small else "")


def is_binary(data: Dataset) -> bool:
    return isinstance(data.domain.target, Categorical) and len(data.domain.target.categories) == 2


def _predict(model: Any, X: Any) -> Prediction:
    return Prediction(model.predict(X), model.predict_proba(X) if hasattr(model, "predict_proba") else None)


def _each_epsilon(make: Callable[[Task, float], Any]) -> Learn:
    """Return the ``learn`` function of an estimator that takes data frames and one epsilon."""

    def learn(task: Task, epsilons: Sequence[float]) -> Iterator[Prediction]:
        X, y = task.data.X, task.data.y
        for epsilon in epsilons:
            model = make(task, epsilon).fit(X.iloc[task.train], y[task.train])
            yield _predict(model, X.iloc[task.test])

    return learn


# -- diprime -----------------------------------------------------------------------------------------------------------


def _forest_of(epsilon: float, domain: Domain, task: str, **settings: Any) -> Any:
    estimator = DiPriMeRegressor if task == "regression" else DiPriMeClassifier
    return estimator(epsilon, domain, n_jobs=1, **settings)


def _boosting_of(epsilon: float, domain: Domain, task: str, delta: float = DELTA) -> Any:
    estimator = DiPriMeBoostingRegressor if task == "regression" else DiPriMeBoostingClassifier
    return estimator(epsilon, domain, delta=delta, n_jobs=1)


def _diprime(task: Task, epsilon: float) -> Any:
    return _forest_of(epsilon, task.data.domain, task.data.task)


def _boosting(task: Task, epsilon: float) -> Any:
    return _boosting_of(epsilon, task.data.domain, task.data.task)


def _boosting_beside_s_bdt(task: Task, epsilon: float) -> Any:
    return _boosting_of(epsilon, task.data.domain, task.data.task, S_BDT_DELTA)


def _depth(n_rows: int, leaf: int) -> int:
    """Return the depth at which a leaf of a balanced tree has ``leaf`` rows, which is the paper's rule."""
    return int(math.log2(n_rows / leaf))


def _flip_of(epsilon: float, domain: Domain, task: str, depth: int = 5, max_features: int = 3) -> Any:
    return _forest_of(
        epsilon,
        domain,
        task,
        method="diprime-flip",
        n_estimators=N_TREES_OF_PAPER,
        max_depth=depth,
        max_features=max_features,
        split_share=SPLIT_SHARE_OF_PAPER,
    )


def _flip(task: Task, epsilon: float) -> Any:
    depth = _depth(len(task.train), N_TREES_OF_PAPER * task.data.min_leaf)
    return _flip_of(epsilon, task.data.domain, task.data.task, depth, task.data.max_features)


def _random_trees_of(epsilon: float, domain: Domain, task: str, depth: int = 5) -> Any:
    return _forest_of(
        epsilon, domain, task, method="random", n_estimators=N_TREES_OF_PAPER, max_depth=depth, disjoint_rows=False
    )


def _random_trees(task: Task, epsilon: float) -> Any:
    depth = _depth(len(task.train), task.data.min_leaf)
    return _random_trees_of(epsilon, task.data.domain, task.data.task, depth)


def _fits(make: Callable[[float, Domain, str], Any]) -> Callable[[], str]:
    """Return the ``release`` function of an estimator of this library: what it learns, computed once."""
    return cache(lambda: fingerprint(make))


# -- peers -------------------------------------------------------------------------------------------------------------


def _ebm(task: Task, epsilon: float) -> Any:
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    features = task.data.domain.features
    public = {
        "feature_names": list(features),
        "feature_types": ["nominal" if isinstance(f, Categorical) else "continuous" for f in features.values()],
        "privacy_bounds": {n: (f.low, f.high) for n, f in features.items() if not isinstance(f, Categorical)},
        "epsilon": epsilon,
        "delta": DELTA,
        "n_jobs": 1,
    }
    if task.data.task == "classification":
        return DPExplainableBoostingClassifier(**public)
    target = task.data.domain.target
    return DPExplainableBoostingRegressor(privacy_target_min=target.low, privacy_target_max=target.high, **public)


def old_python() -> Path:
    """Return the interpreter of a separate environment for diffprivlib, created at first use."""
    digest = hashlib.sha256(" ".join(OLD_ENVIRONMENT).encode()).hexdigest()[:8]
    directory = CACHE / f"diffprivlib-{digest}"
    python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    complete = directory / "complete"
    if not complete.exists():
        print(f"Making an environment for {' and '.join(OLD_ENVIRONMENT)} ...", flush=True)
        venv.create(directory, with_pip=True, clear=True)
        subprocess.run(
            [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *OLD_ENVIRONMENT],
            check=True,
            stderr=subprocess.PIPE,
            text=True,
        )
        complete.touch()
    return python


def _diffprivlib(task: Task, epsilons: Sequence[float]) -> Iterator[Prediction]:
    """Learn in a process of the other environment, exchanging arrays through files."""
    X, classes = task.data.numbers(), task.classes
    y = np.searchsorted(classes, task.data.y)
    with tempfile.TemporaryDirectory() as directory:
        request, answer = Path(directory) / "request.npz", Path(directory) / "answer.npz"
        np.savez(
            request,
            X_train=X[task.train],
            y_train=y[task.train],
            X_test=X[task.test],
            low=X.min(axis=0),
            high=X.max(axis=0),
            n_classes=len(classes),
            epsilons=epsilons,
        )
        worker = Path(__file__).with_name("diffprivlib_worker.py")
        subprocess.run([old_python(), worker, request, answer], check=True)
        with np.load(answer) as arrays:
            probabilities = arrays["probabilities"]
    for of_epsilon in probabilities:
        yield Prediction(np.array(classes)[of_epsilon.argmax(axis=1)], of_epsilon)


def _without_privacy(task: Task, model: Any) -> Prediction:
    X, y = task.data.numbers().astype(np.float32), task.data.y
    return _predict(model.fit(X[task.train], y[task.train]), X[task.test])


def _forest(task: Task, epsilons: Sequence[float]) -> Iterator[Prediction]:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    estimator = RandomForestRegressor if task.data.task == "regression" else RandomForestClassifier
    for _ in epsilons:
        yield _without_privacy(task, estimator(**FOREST))


def _hist_boosting(**settings: Any) -> Learn:
    def learn(task: Task, epsilons: Sequence[float]) -> Iterator[Prediction]:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        estimator = HistGradientBoostingRegressor if task.data.task == "regression" else HistGradientBoostingClassifier
        for _ in epsilons:
            yield _without_privacy(task, estimator(**settings))

    return learn


def _scikit_learn() -> str:
    return f"scikit-learn {version('scikit-learn')}"


def _rival(
    title: str,
    make: Callable[[float, Domain, float], Any],
    settings: str = "no settings",
    takes: Callable[[Dataset], bool] = lambda data: True,
) -> Contender:
    """Return a contender of :mod:`benchmarks.utility.rivals`."""

    def release() -> str:
        return f"{settings}; dp-accounting {version('dp-accounting')}"

    learn = _each_epsilon(lambda task, epsilon: make(epsilon, task.data.domain, DELTA))
    return Contender(f"{title} (δ = 1e-6)", learn, takes, release, RIVAL_EPSILONS, RIVAL_REPEATS)


def _descent(title: str, recipes: tuple[rivals.Recipe, ...]) -> Contender:
    """Return a contender that learns by gradient descent, with one recipe for classes and perhaps one for numbers."""
    return _rival(
        title,
        lambda epsilon, domain, delta: rivals.descent(epsilon, domain, delta, recipes),
        " / ".join(map(str, recipes)),
        lambda data: data.task == "classification" or len(recipes) > 1,
    )


FOREST_FITS, BOOSTING_FITS = _fits(_forest_of), _fits(_boosting_of)

CONTENDERS = {
    "ours": Contender(
        "diprime forest, defaults", _each_epsilon(_diprime), lambda data: True, FOREST_FITS, OUR_EPSILONS
    ),
    "ours-limit": Contender(
        "diprime forest, defaults, little or no noise",
        _each_epsilon(_diprime),
        lambda data: True,
        FOREST_FITS,
        LIMIT,
        REPEATS_AT_LIMIT,
    ),
    "boosting": Contender(
        "diprime boosting, defaults (δ = 1e-6)",
        _each_epsilon(_boosting),
        lambda data: True,
        BOOSTING_FITS,
        OUR_EPSILONS,
    ),
    "boosting-limit": Contender(
        "diprime boosting, defaults, little or no noise",
        _each_epsilon(_boosting),
        lambda data: True,
        BOOSTING_FITS,
        LIMIT,
        REPEATS_OF_BOOSTING_AT_LIMIT,
        ON_SMALL_DATA,
    ),
    "boosting-s-bdt": Contender(
        "diprime boosting, defaults (δ = 5e-8)",
        _each_epsilon(_boosting_beside_s_bdt),
        lambda data: data.name in NOT_IN_PAPER,
        BOOSTING_FITS,
        tuple(sorted({epsilon for published in S_BDT.values() for epsilon in published})),
    ),
    "dp-ebm": Contender(
        "DP-EBM (δ = 1e-6)",
        _each_epsilon(_ebm),
        lambda data: data.task == "regression" or is_binary(data),
        lambda: f"interpret-core {version('interpret-core')}",
    ),
    "diprime-flip": Contender(
        "DiPriMeFlip (paper's settings, strict accounting)",
        _each_epsilon(_flip),
        lambda data: True,
        _fits(_flip_of),
        (*EPSILONS, 10.0),
    ),
    "dp-ert": Contender(
        "DP-ERT", _each_epsilon(_random_trees), lambda data: True, _fits(_random_trees_of), (*EPSILONS, 10.0)
    ),
    "diffprivlib": Contender(
        "diffprivlib's forest",
        _diffprivlib,
        lambda data: data.task == "classification",
        lambda: ", ".join(OLD_ENVIRONMENT),
    ),
    "dp-sgd-linear": _descent("DP-SGD, linear model", rivals.SGD_LINEAR),
    "dp-sgd-network": _descent("DP-SGD, network", rivals.SGD_NETWORK),
    "dp-gd-linear": _descent("noisy gradient descent, linear model", (rivals.FULL_BATCH,)),
    "adassp": _rival("AdaSSP", rivals.AdaSSP, takes=lambda data: data.task == "regression"),
    "forest": Contender(
        "random forest, not private",
        _forest,
        lambda data: True,
        _scikit_learn,
        epsilons=(math.inf,),
        repeats=3,
    ),
    "hist-boosting": Contender(
        "HistGradientBoosting, not private",
        _hist_boosting(),
        lambda data: data.task == "regression" or is_binary(data),  # several classes take it minutes
        _scikit_learn,
        epsilons=(math.inf,),
    ),
    # As our boosting is: a sum of functions of at most two features.
    "hist-boosting-pairs": Contender(
        "HistGradientBoosting with pairs of features, not private",
        _hist_boosting(interaction_cst="pairwise"),
        lambda data: data.name in RANKED,
        _scikit_learn,
        epsilons=(math.inf,),
    ),
}
