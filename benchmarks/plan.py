"""Planned and real costs of noise: ``python -m benchmarks.plan``.

The cost of noise is what a model without noise, of as many trees of the same depth, scores above the private one. It is
planned by `diprime.plan`, from the domain and the number of rows alone, and measured on rows that no model was fitted
to.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import diprime
from benchmarks.data import NAMES, Dataset, load
from benchmarks.paths import RESULTS
from diprime.estimators.models import estimator
from diprime.planning.rehearsal import same_trees

EPSILONS = (0.3, 1.0, 3.0)
KINDS = ("forest", "boosting")
TEST_SHARE = 0.1
TOLERANCE = 0.005
"""Differences of scores up to this are not told apart."""


class Case(NamedTuple):
    """Planned and real costs of noise of one model."""

    name: str
    kind: str
    epsilon: float
    measure: str
    least: float
    most: float
    real: float

    @property
    def verdict(self) -> str:
        """Where the real cost is: within the planned range, or how many times below or above it."""
        if self.real > self.most + TOLERANCE:
            return f"{self.real / max(self.most, TOLERANCE):.1f} times above"
        if self.real < self.least - TOLERANCE:
            return f"{self.least / max(self.real, TOLERANCE):.1f} times below"
        return "within"

    def row(self) -> str:
        """Return a row of the table."""
        costs = f"{self.least:.3f} to {self.most:.3f} | {self.real:.3f}"
        return f"| {self.name} | {self.kind} | {self.epsilon:g} | {self.measure} | {costs} | {self.verdict} |"


def score(data: Dataset, model: Any, test: np.ndarray) -> float:
    """Return the accuracy or R² of a model on test rows."""
    predicted, truth = model.predict(data.X.iloc[test]), data.y[test]
    if data.task == "classification":
        return float(np.mean(predicted == truth))
    numbers = truth.astype(np.float64)
    return float(1 - np.mean((predicted - numbers) ** 2) / np.var(numbers))


def real_cost(data: Dataset, kind: str, epsilon: float, repeats: int) -> float:
    """Return the mean cost of noise on a data set."""
    boost, costs = kind == "boosting", []
    for repeat in range(repeats):
        order = np.random.default_rng(repeat).permutation(len(data.X))
        test, train = np.split(order, [int(TEST_SHARE * len(order))])
        rows, target = data.X.iloc[train], data.y[train]
        model = estimator(data.domain, epsilon, boost=boost).fit(rows, target)
        noiseless = estimator(data.domain, math.inf, boost=boost, **same_trees(model)).fit(rows, target)
        costs.append(score(data, noiseless, test) - score(data, model, test))
    return float(np.mean(costs))


def compare(data: Dataset, kind: str, epsilon: float, repeats: int) -> Case:
    """Plan a fit to a data set, fit it, and return both costs."""
    n_train = len(data.X) - int(TEST_SHARE * len(data.X))
    planned = diprime.plan(data.domain, n_train, epsilon, boost=kind == "boosting")
    real = max(real_cost(data, kind, epsilon, repeats), 0.0)
    return Case(data.title, kind, epsilon, planned.measure, *planned.lost_to_noise, real)


def report(cases: Sequence[Case], repeats: int) -> str:
    """Return the table, as Markdown."""
    verdicts = [case.verdict for case in cases]
    below, above = (
        [float(verdict.split()[0]) for verdict in verdicts if verdict.endswith(side)] for side in ("below", "above")
    )
    lines = [
        "# Planned and real costs of noise",
        "",
        "Written by `python -m benchmarks.plan`. The cost of noise is what a model without noise, of as many trees of "
        "the same depth, scores above the private one: in accuracy for classes, in R² for numbers. It is planned by "
        "`diprime.plan` from the domain and the number of rows alone, as the range of three kinds of made-up data, "
        f"and measured on the ten sets: means of {repeats} splits, a tenth of the rows for testing. Boosting: "
        f"δ = 1e-6. Costs that differ by no more than {TOLERANCE:g} count as equal, and "
        "smaller ones as that much where costs are divided.",
        "",
        f"Of {len(cases)} real costs, {verdicts.count('within')} are within the planned range, {len(above)} above "
        f"(by up to {max(above, default=1):.1f} times) and {len(below)} below (by up to {max(below, default=1):.1f} "
        "times). The range is wide: a table is simple, smooth or rough, and a plan does not know which.",
        "",
        "| data | model | ε | measure | planned cost | real cost | real cost is |",
        "|---|---|---|---|---|---|---|",
        *(case.row() for case in cases),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m benchmarks.plan"
    )
    parser.add_argument("--sets", nargs="+", choices=NAMES, default=NAMES, metavar="SET")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", help="the directory of Parquet files (default: see benchmarks.data)")
    options = parser.parse_args()
    if options.data:
        os.environ["DIPRIME_DATA"] = options.data
    cases = []
    for name in options.sets:
        data = load(name)
        for kind in KINDS:
            for epsilon in EPSILONS:
                cases.append(compare(data, kind, epsilon, options.repeats))
                print(cases[-1].row(), flush=True)
    text = report(cases, options.repeats)
    print(text)
    if tuple(options.sets) == NAMES:  # not a part of the table
        (RESULTS / "plan.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
