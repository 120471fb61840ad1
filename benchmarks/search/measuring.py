"""The measurements of :mod:`benchmarks.search`: ways to spend one budget on a choice among settings, and its fit.

Each returns the setting that it chose and the model that it releases. They spend the same total, and are
compared by the error of that model on rows that none of them saw.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import ParameterGrid

from benchmarks.data import Dataset, load
from diprime import DiPriMeClassifier, DiPriMeRegressor, PrivateSearch

TRAIN_SHARE = 0.9
EPSILON_OF_FIT = 1.0
EPSILON = 3 * EPSILON_OF_FIT
MAX_FITS = 40  # of random stopping among eight settings, as by default
PAIR = {"max_depth": [1, "auto"]}
EIGHT = {"max_depth": [1, 3, 5, "auto"], "n_estimators": [10, "auto"]}
HOLDOUT = 0.2
RESIDUAL_CLIP = 0.25  # as in the library, but in units of the range

Rows = npt.NDArray[np.intp]
Choice = tuple[int | None, Any]


@dataclass(frozen=True)
class Task:
    """The rows that one run learns from."""

    data: Dataset
    train: Rows
    test: Rows
    rng: np.random.Generator

    def estimator(self, **parameters: Any) -> Any:
        """Return an unfitted forest for the data."""
        kind = DiPriMeRegressor if self.data.task == "regression" else DiPriMeClassifier
        return kind(domain=self.data.domain, n_jobs=1, **parameters)

    def fit(self, rows: Rows, **parameters: Any) -> Any:
        """Fit a forest to some of the rows."""
        return self.estimator(**parameters).fit(self.data.X.iloc[rows], self.data.y[rows])

    def losses(self, model: Any, rows: Rows, clip: float = np.inf) -> npt.NDArray[np.float64]:
        """Return the squared error of each row, or whether its class is wrong."""
        predicted, truth = model.predict(self.data.X.iloc[rows]), self.data.y[rows]
        if self.data.task == "classification":
            return np.asarray(predicted != truth, dtype=np.float64)
        return np.asarray(np.minimum(np.abs(predicted - truth), clip) ** 2)


def _one_fit(epsilon: float, **setting: Any) -> Callable[[Task, dict[str, Any]], Choice]:
    return lambda task, grid: (None, task.fit(task.train, epsilon=epsilon, **setting))


def _search(task: Task, grid: dict[str, Any], epsilon: float, rule: str) -> tuple[int, PrivateSearch]:
    search = PrivateSearch(task.estimator(), grid, epsilon=epsilon, rule=rule, holdout=HOLDOUT, refit=False)
    search.fit(task.data.X.iloc[task.train], task.data.y[task.train])
    assert search.privacy_.is_private
    assert search.privacy_.total == epsilon
    return list(ParameterGrid(grid)).index(search.best_params_), search


def _by_rule(rule: str) -> Callable[[Task, dict[str, Any]], Choice]:
    return lambda task, grid: _search(task, grid, EPSILON, rule)


def _refitted(rule: str) -> Callable[[Task, dict[str, Any]], Choice]:
    """Choose with half of the budget, and fit the choice to all rows with the other half, as ``refit=True`` does."""

    def choose(task: Task, grid: dict[str, Any]) -> Choice:
        chosen, search = _search(task, grid, EPSILON / 2, rule)
        return chosen, task.fit(task.train, epsilon=EPSILON / 2, **search.best_params_)

    return choose


def _harmonic(task: Task, grid: dict[str, Any]) -> Choice:
    """Stop at n with a probability proportional to 1/n, which costs twice one fit; noise is float, for comparison."""
    settings, epsilon = list(ParameterGrid(grid)), EPSILON / 2
    chances = 1 / np.arange(1, MAX_FITS + 1)
    chooses = task.rng.random(len(task.train)) < HOLDOUT
    best: tuple[float, int, Any] | None = None
    for _ in range(1 + task.rng.choice(MAX_FITS, p=chances / chances.sum())):
        drawn = int(task.rng.integers(len(settings)))
        model = task.fit(task.train[~chooses], epsilon=epsilon, **settings[drawn])
        largest = RESIDUAL_CLIP**2 if task.data.task == "regression" else 1.0
        errors = task.losses(model, task.train[chooses], RESIDUAL_CLIP).sum() / largest
        noisy = float(errors + task.rng.laplace(0, 1 / epsilon))
        if best is None or noisy < best[0]:
            best = noisy, drawn, model
    assert best is not None
    return best[1], best[2]


@dataclass(frozen=True)
class Contender:
    """A way to spend the budget."""

    title: str
    grid: dict[str, Any]
    choose: Callable[[Task, dict[str, Any]], Choice]
    repeats: int


CONTENDERS = {
    "depth 1": Contender("`max_depth=1`, ε = 1", PAIR, _one_fit(EPSILON_OF_FIT, max_depth=1), 10),
    "depth auto": Contender('`max_depth="auto"`, ε = 1', PAIR, _one_fit(EPSILON_OF_FIT), 10),
    "default": Contender("no search: defaults, ε = 3", PAIR, _one_fit(EPSILON), 10),
    "pair, all": Contender('rule="all"', PAIR, _by_rule("all"), 20),
    "pair, stopping": Contender('rule="stopping"', PAIR, _by_rule("stopping"), 10),
    "eight, all": Contender('rule="all"', EIGHT, _by_rule("all"), 5),
    "eight, stopping": Contender('rule="stopping"', EIGHT, _by_rule("stopping"), 5),
    "eight, harmonic": Contender("harmonic number of fits", EIGHT, _harmonic, 5),
    "eight, all, refitted": Contender('rule="all", refit on all rows', EIGHT, _refitted("all"), 5),
    "eight, stopping, refitted": Contender('rule="stopping", refit on all rows', EIGHT, _refitted("stopping"), 5),
}


@dataclass(frozen=True)
class Run:
    """One run of one contender, and its result."""

    contender: str
    data: str
    repeat: int
    chosen: int | None = None
    error: float = np.nan

    @property
    def key(self) -> tuple[str, str, int]:
        """What distinguishes it from other runs."""
        return self.contender, self.data, self.repeat


@lru_cache(maxsize=1)
def _load(name: str) -> Dataset:
    return load(name)


def measure(run: Run) -> Run:
    """Return a run with its result."""
    data, contender = _load(run.data), CONTENDERS[run.contender]
    rng = np.random.default_rng(run.repeat)
    order = rng.permutation(len(data.X))
    n_train = int(TRAIN_SHARE * len(order))
    task = Task(data, order[:n_train], order[n_train:], rng)
    chosen, model = contender.choose(task, contender.grid)
    return Run(*run.key, chosen, float(task.losses(model, task.test).mean()))


class Results:
    """Runs that have been measured, in a file with a line for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.runs = {run.key: run for run in (Run(**json.loads(line)) for line in lines)}

    def put(self, run: Run) -> None:
        """Keep a run, and write the file."""
        self.runs[run.key] = run
        ordered = [self.runs[key] for key in sorted(self.runs)]
        self.path.write_text("".join(json.dumps(asdict(r)) + "\n" for r in ordered), encoding="utf-8")

    def of(self, contender: str, data: str) -> list[Run]:
        """Return the runs of a contender on a data set."""
        repeats = range(CONTENDERS[contender].repeats)
        return [self.runs[contender, data, i] for i in repeats if (contender, data, i) in self.runs]

    def missing(self, names: Sequence[str]) -> Iterator[Run]:
        """Yield what has not been measured; what the bar needs comes first."""
        for grid, name in itertools.product((PAIR, EIGHT), names):
            for title, contender in CONTENDERS.items():
                if contender.grid is grid:
                    todo = (Run(title, name, repeat) for repeat in range(contender.repeats))
                    yield from (run for run in todo if run.key not in self.runs)


def measure_all(results: Results, runs: Sequence[Run], jobs: int, deadline: float) -> None:
    """Measure in parallel, and keep each result; nothing is started after the deadline."""
    running: set[Future[Run]] = set()

    def collect() -> None:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            running.remove(future)
            results.put(future.result())

    # Spawn instead of fork, which would copy the state of libraries that have running threads.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for i, run in enumerate(runs):
            if time.monotonic() > deadline:
                print(f"Out of time: {len(runs) - i} of {len(runs)} are left; run again to go on.")
                break
            if len(running) == jobs:
                collect()
            running.add(pool.submit(measure, run))
        while running:
            collect()
