"""The methods that :mod:`benchmarks.utility` compares, behind a common interface.

All contenders get the same rows and the same public information about them: ranges, levels, classes and the range of
the target. Each returns predictions for the test rows, one for each epsilon.
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

import diprime
from benchmarks.data import Dataset
from benchmarks.paths import CACHE
from diprime import Categorical, DiPriMeClassifier, DiPriMeRegressor

# For the comparisons with peers and for every curve in the figure.
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
# Ours is also measured along a sweep, and at a tenth of the paper's 2.
SWEEP = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
OUR_EPSILONS = tuple(sorted({*EPSILONS, *SWEEP, 0.2}))
# Hardly any noise, and none. Their errors are so close, on some sets a matter of few rows, that it takes more repeats.
LIMIT = (1000.0, math.inf)
REPEATS_AT_LIMIT = 60
DELTA_OF_EBM = 1e-6
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
        return sorted(self.data.domain.target.levels)


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
        Identifies the code; results are kept as long as it stays the same.
    epsilons : tuple of float
        The budgets that it is measured at; infinite if it is not private.
    repeats : int
        The number of splits that it is measured on.
    """

    title: str
    learn: Learn
    takes: Callable[[Dataset], bool]
    release: Callable[[], str]
    epsilons: tuple[float, ...] = EPSILONS
    repeats: int = 10


def is_binary(data: Dataset) -> bool:
    return isinstance(data.domain.target, Categorical) and len(data.domain.target.levels) == 2


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


def _diprime(task: Task, epsilon: float, **settings: Any) -> Any:
    estimator = DiPriMeRegressor if task.data.task == "regression" else DiPriMeClassifier
    return estimator(epsilon, task.data.domain, n_jobs=1, **settings)


def _depth(task: Task, leaf: int) -> int:
    """Return the depth at which a leaf of a balanced tree has ``leaf`` rows, which is the paper's rule."""
    return int(math.log2(len(task.train) / leaf))


def _flip(task: Task, epsilon: float) -> Any:
    return _diprime(
        task,
        epsilon,
        method="diprime-flip",
        n_estimators=N_TREES_OF_PAPER,
        max_depth=_depth(task, N_TREES_OF_PAPER * task.data.min_leaf),
        max_features=task.data.max_features,
        split_share=SPLIT_SHARE_OF_PAPER,
    )


def _random_trees(task: Task, epsilon: float) -> Any:
    return _diprime(
        task,
        epsilon,
        method="random",
        n_estimators=N_TREES_OF_PAPER,
        max_depth=_depth(task, task.data.min_leaf),
        partition=False,
    )


@cache
def _source() -> str:
    """Return a digest of the library's source: after any change to it, its results are measured again.

    It covers the contents of all modules in the order of their paths, so that a renamed module or an edited comment
    counts as a change, too.
    """
    package = Path(diprime.__file__).parent
    files = sorted(package.rglob("*.py"))
    digest = hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files))
    return f"diprime {diprime.__version__}, source {digest.hexdigest()[:12]}"


# -- peers -------------------------------------------------------------------------------------------------------------


def _ebm(task: Task, epsilon: float) -> Any:
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    features = task.data.domain.features
    public = {
        "feature_names": list(features),
        "feature_types": ["nominal" if isinstance(f, Categorical) else "continuous" for f in features.values()],
        "privacy_bounds": {n: (f.low, f.high) for n, f in features.items() if not isinstance(f, Categorical)},
        "epsilon": epsilon,
        "delta": DELTA_OF_EBM,
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


def _forest(task: Task, epsilons: Sequence[float]) -> Iterator[Prediction]:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    X, y = task.data.numbers().astype(np.float32), task.data.y
    estimator = RandomForestRegressor if task.data.task == "regression" else RandomForestClassifier
    for _ in epsilons:
        yield _predict(estimator(**FOREST).fit(X[task.train], y[task.train]), X[task.test])


CONTENDERS = {
    "ours": Contender("diprime, defaults", _each_epsilon(_diprime), lambda data: True, _source, OUR_EPSILONS),
    "ours-limit": Contender(
        "diprime, defaults, hardly any noise",
        _each_epsilon(_diprime),
        lambda data: True,
        _source,
        LIMIT,
        REPEATS_AT_LIMIT,
    ),
    "dp-ebm": Contender(
        "DP-EBM (δ = 1e-6)",
        _each_epsilon(_ebm),
        lambda data: data.task == "regression" or is_binary(data),
        lambda: f"interpret-core {version('interpret-core')}",
    ),
    "diprime-flip": Contender(
        "DiPriMeFlip (paper's settings, strict)", _each_epsilon(_flip), lambda data: True, _source, (*EPSILONS, 10.0)
    ),
    "dp-ert": Contender("DP-ERT", _each_epsilon(_random_trees), lambda data: True, _source, (*EPSILONS, 10.0)),
    "diffprivlib": Contender(
        "diffprivlib's forest",
        _diffprivlib,
        lambda data: data.task == "classification",
        lambda: ", ".join(OLD_ENVIRONMENT),
    ),
    "forest": Contender(
        "random forest, not private",
        _forest,
        lambda data: True,
        lambda: f"scikit-learn {version('scikit-learn')}",
        epsilons=(math.inf,),
        repeats=3,
    ),
}
