"""Planned and real costs of noise and of privacy: ``python -m benchmarks.plan``.

The private model is compared with a model of the same size without noise, and with the default model without privacy.
Both costs are planned by `diprime.plan`, which uses only the domain and the number of rows, and measured on test rows.
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
from diprime.estimators.models import make_estimator
from diprime.planning import same_trees

EPSILONS = (0.3, 1.0, 3.0)
KINDS = ("forest", "boosting")
COSTS = ("noise", "privacy")
TEST_SHARE = 0.1
TOLERANCE = 0.005
"""Differences of scores up to this count as zero."""


class Case(NamedTuple):
    """Planned and real cost of one model."""

    cost: str
    name: str
    kind: str
    epsilon: float
    measure: str
    least: float
    most: float
    real: float

    @property
    def verdict(self) -> str:
        """The position of the real cost: within the planned range, or a number of times below or above it."""
        if self.real > self.most + TOLERANCE:
            return f"{self.real / max(self.most, TOLERANCE):.1f} times above"
        if self.real < self.least - TOLERANCE:
            return f"{self.least / max(self.real, TOLERANCE):.1f} times below"
        return "within"

    def row(self) -> str:
        """Return a row of the table."""
        costs = f"{self.least:.3f} to {self.most:.3f} | {self.real:.3f}"
        columns = (self.cost, self.name, self.kind, f"{self.epsilon:g}", self.measure, costs, self.verdict)
        return f"| {' | '.join(columns)} |"


def score(data: Dataset, model: Any, test: np.ndarray) -> float:
    """Return the accuracy or R² of a model on test rows."""
    predicted, truth = model.predict(data.X.iloc[test]), data.y[test]
    if data.task == "classification":
        return float(np.mean(predicted == truth))
    numbers = truth.astype(np.float64)
    return float(1 - np.mean((predicted - numbers) ** 2) / np.var(numbers))


def real_costs(data: Dataset, kind: str, epsilon: float, repeats: int) -> tuple[float, float]:
    """Return the mean costs of noise and of privacy on a data set."""
    boost, costs = kind == "boosting", []
    for repeat in range(repeats):
        order = np.random.default_rng(repeat).permutation(len(data.X))
        test, train = np.split(order, [int(TEST_SHARE * len(order))])
        rows, target = data.X.iloc[train], data.y[train]
        model = make_estimator(data.domain, epsilon, boost=boost).fit(rows, target)
        others = [make_estimator(data.domain, math.inf, boost=boost, **options) for options in (same_trees(model), {})]
        costs.append([score(data, other.fit(rows, target), test) - score(data, model, test) for other in others])
    of_noise, of_privacy = np.mean(costs, axis=0).tolist()
    return of_noise, of_privacy


def compare(data: Dataset, kind: str, epsilon: float, repeats: int) -> list[Case]:
    """Plan a fit to a data set, fit a model, and return the costs of noise and of privacy."""
    n_train = len(data.X) - int(TEST_SHARE * len(data.X))
    planned = diprime.plan(data.domain, n_train, epsilon, boost=kind == "boosting")
    ranges = {"noise": planned.noise_cost, "privacy": planned.privacy_cost}
    real = real_costs(data, kind, epsilon, repeats)
    return [
        Case(cost, data.title, kind, epsilon, planned.measure, *ranges[cost], max(found, 0.0))
        for cost, found in zip(COSTS, real, strict=True)
    ]


def summary(cases: Sequence[Case]) -> str:
    """Return the numbers of real costs within, above and below the planned range."""
    verdicts = [case.verdict for case in cases]
    below, above = (
        [float(verdict.split()[0]) for verdict in verdicts if verdict.endswith(side)] for side in ("below", "above")
    )
    return (
        f"Of {len(cases)} real costs of {cases[0].cost}, {verdicts.count('within')} are within the planned range, "
        f"{len(above)} above (by up to {max(above, default=1):.1f} times) and {len(below)} below (by up to "
        f"{max(below, default=1):.1f} times)."
    )


def report(cases: Sequence[Case], repeats: int) -> str:
    """Return the table, as Markdown."""
    ordered = [case for cost in COSTS for case in cases if case.cost == cost]
    lines = [
        "# Planned and real costs of noise and of privacy",
        "",
        "`python -m benchmarks.plan` writes this report.",
        "",
        "* **Cost of noise**: the score of a model without noise minus that of the private model.",
        "  The model without noise has the same number of trees and the same depth.",
        "* **Cost of privacy**: the score of diprime's default model with ε = ∞ minus that of the private model.",
        "* **Scores** are accuracy for classification and R² for regression.",
        "  Boosting has δ = 1e-6.",
        "* **Planned costs** are ranges over three kinds of synthetic data.",
        "  `diprime.plan` computes them from the domain and the number of rows alone.",
        f"* **Real costs** are means of {repeats} splits of the ten data sets, with a tenth of the rows for testing.",
        f"* **Ratios**: costs that differ by at most {TOLERANCE:g} count as equal.",
        f"  In ratios, smaller costs count as {TOLERANCE:g}.",
        "",
        *(summary([case for case in cases if case.cost == cost]) for cost in COSTS),
        "The ranges are wide, because a plan cannot know whether a table is simple, smooth or rough.",
        "",
        "| cost of | data set | model | ε | score | planned cost | real cost | position of the real cost |",
        "|---|---|---|---|---|---|---|---|",
        *(case.row() for case in ordered),
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
                cases += compare(data, kind, epsilon, options.repeats)
                print(cases[-2].row(), cases[-1].row(), sep="\n", flush=True)
    text = report(cases, options.repeats)
    print(text)
    if tuple(options.sets) == NAMES:  # write complete tables only
        (RESULTS / "plan.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
