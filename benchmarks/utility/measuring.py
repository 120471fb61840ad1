"""The measurements of :mod:`benchmarks.utility`, run in worker processes.

They are not part of ``__main__``: spawned processes do not import the ``__main__`` module of a package, and could not
find functions that are defined there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import lru_cache
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.data import Dataset, load
from benchmarks.utility.contenders import CONTENDERS, Prediction, Task
from benchmarks.utility.results import Key, Results, Score

TRAIN_SHARE = 0.9


class Unit(NamedTuple):
    """A unit of work: one contender on one split, at every epsilon that is missing."""

    contender: str
    data: str
    repeat: int
    epsilons: tuple[float, ...]


@lru_cache(maxsize=1)
def _load(name: str) -> Dataset:
    return load(name)


def split(data: Dataset, repeat: int) -> Task:
    order = np.random.default_rng(repeat).permutation(len(data.X))
    n_train = int(TRAIN_SHARE * len(order))
    return Task(data, order[:n_train], order[n_train:])


def score(task: Task, prediction: Prediction) -> Score:
    truth = task.data.y[task.test]
    if prediction.probabilities is None:
        target = task.data.domain.target
        inside = np.clip(prediction.values, target.low, target.high)  # DP-EBM leaves the public range
        return {"mse": float(np.mean((inside - truth) ** 2))}
    classes = task.classes
    p = prediction.probabilities[:, 1] if len(classes) == 2 else prediction.probabilities
    return {
        "accuracy": float(np.mean(prediction.values == truth)),
        "auc": float(roc_auc_score(truth, p, multi_class="ovr", labels=classes)),
    }


def measure(unit: Unit) -> list[Score]:
    task = split(_load(unit.data), unit.repeat)
    return [score(task, prediction) for prediction in CONTENDERS[unit.contender].learn(task, unit.epsilons)]


def missing(results: Results, contenders: list[str], names: list[str]) -> Iterator[Unit]:
    for name in names:
        data = _load(name)
        for c in contenders:
            contender = CONTENDERS[c]
            if not contender.takes(data):
                continue
            release = contender.release()
            todo: dict[int, list[float]] = {}
            for epsilon in contender.epsilons:
                for repeat in results.missing(Key(c, name, epsilon), release, contender.repeats_on(len(data.y))):
                    todo.setdefault(repeat, []).append(epsilon)
            for repeat in sorted(todo):
                yield Unit(c, name, repeat, tuple(todo[repeat]))


def run(results: Results, units: list[Unit], jobs: int, deadline: float) -> None:
    """Measure units in parallel and save after each; none is started after the deadline."""
    running: dict[Future[list[Score]], Unit] = {}

    def collect() -> None:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            unit = running.pop(future)
            release = CONTENDERS[unit.contender].release()
            for epsilon, of_epsilon in zip(unit.epsilons, future.result(), strict=True):
                results.put(Key(unit.contender, unit.data, epsilon), release, unit.repeat, of_epsilon)
            results.save()

    # Spawn instead of fork, which would copy the state of libraries that have running threads.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for i, unit in enumerate(units):
            if time.monotonic() > deadline:
                print(f"Out of time: {len(units) - i} of {len(units)} are left; run again to go on.")
                break
            if len(running) == jobs:
                collect()
            print(f"{i + 1}/{len(units)} {unit.contender}, {unit.data}, repeat {unit.repeat}", flush=True)
            running[pool.submit(measure, unit)] = unit
        while running:
            collect()
