"""Accuracy per epsilon, beside peers and the paper, untuned: ``python -m benchmarks.utility``.

Every contender learns from the same random nine tenths of the rows and is scored on the rest, once for each repeat.
Ours runs with its defaults and no seed. Scores are kept in ``benchmarks/results/utility.json`` and only those that are
missing are measured, so a run may be stopped at any time; the report and the figure are drawn from what is there.
Peers come with ``pip install diprime[benchmark]``; diffprivlib, which needs an old scikit-learn, gets an environment of
its own.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import lru_cache
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.contenders import CONTENDERS, Prediction, Task, old_python
from benchmarks.data import MULTICLASS, NAMES, ROOT, Dataset, load
from benchmarks.utility_figure import draw
from benchmarks.utility_report import Facts, report
from benchmarks.utility_results import Key, Results, Score

RESULTS = ROOT / "benchmarks" / "results"
FIGURE = ROOT / "docs" / "figures" / "utility.svg"
TRAIN_SHARE = 0.9


class Unit(NamedTuple):
    """What one process does at a time: one split, at every epsilon that is missing."""

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
        inside = np.clip(prediction.values, target.low, target.high)  # DP-EBM leaves the range, which is public
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
                for repeat in results.missing(Key(c, name, epsilon), release, contender.repeats):
                    todo.setdefault(repeat, []).append(epsilon)
            for repeat in sorted(todo):
                yield Unit(c, name, repeat, tuple(todo[repeat]))


def run(results: Results, units: list[Unit], jobs: int, deadline: float) -> None:
    """Measure, several at a time, and save after each; none is begun after the deadline."""
    running: dict[Future[list[Score]], Unit] = {}

    def collect() -> None:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            unit = running.pop(future)
            release = CONTENDERS[unit.contender].release()
            for epsilon, of_epsilon in zip(unit.epsilons, future.result(), strict=True):
                results.put(Key(unit.contender, unit.data, epsilon), release, unit.repeat, of_epsilon)
            results.save()

    # Processes that begin afresh: a fork would share the state of libraries that have threads.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*NAMES, *MULTICLASS]
    parser.add_argument("--methods", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS), metavar="METHOD")
    parser.add_argument("--sets", nargs="+", choices=names, default=names, metavar="SET")
    parser.add_argument("--data", help="the directory of Parquet files (default: see benchmarks.data)")
    parser.add_argument("--fresh", action="store_true", help="measure the methods anew, whatever is kept of them")
    parser.add_argument("--report", action="store_true", help="measure nothing; write the report and draw the figure")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes (default: all cores)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so many minutes")
    options = parser.parse_args()
    if options.data:
        os.environ["DIPRIME_DATA"] = options.data  # for the processes too
    start = time.monotonic()
    results = Results(RESULTS / "utility.json")
    if not options.report:
        if options.fresh:
            for contender in options.methods:
                results.drop(contender)
        units = list(missing(results, options.methods, options.sets))
        if any(unit.contender == "diffprivlib" for unit in units):
            old_python()  # once, before several processes would
        run(results, units, options.jobs, start + 60 * options.minutes)
        print(f"{time.monotonic() - start:.0f} s.")
    facts = [Facts.of(load(name)) for name in names]
    text = report(results, facts)
    print(text)
    (RESULTS / "utility.md").write_text(text, encoding="utf-8")
    draw(results, facts, FIGURE)


if __name__ == "__main__":
    main()
