"""Scores, verdicts and tables: what the parts of the report of :mod:`benchmarks.utility` have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.data import NAMES, Dataset
from benchmarks.utility.contenders import CONTENDERS, EPSILONS
from benchmarks.utility.results import Results

REPEATS = CONTENDERS["ours"].repeats
EBM_EPSILONS = tuple(epsilon for epsilon in EPSILONS if epsilon >= 0.5)
MIN_EPSILON_OF_BAR = 1.0
PUC = "puc"


@dataclass(frozen=True)
class Facts:
    """What the report says about a data set."""

    name: str
    title: str
    metric: str
    epsilon: float
    n_rows: int
    n_features: int
    note: str

    @classmethod
    def of(cls, data: Dataset) -> Facts:
        """Return the facts about a data set."""
        metric = "mse" if data.task == "regression" else "accuracy"
        return cls(data.name, data.title, metric, data.epsilon, *data.X.shape, data.note)


@dataclass(frozen=True)
class Verdict:
    """Whether a bar is met; None if results are missing."""

    bar: str
    met: bool | None
    seen: str

    def row(self) -> str:
        """Return the row of the table."""
        word = {True: "met", False: "**MISSED**", None: "not measured in full"}[self.met]
        return f"| {self.bar} | {word} | {self.seen} |"


@dataclass(frozen=True)
class Scores:
    """Results in the form that the report needs."""

    results: Results
    facts: dict[str, Facts]

    def all(self, contender: str, name: str, epsilon: float, metric: str | None = None) -> npt.NDArray[np.float64]:
        """Return the scores of all repeats."""
        return self.results.of(contender, name, epsilon, metric or self.facts[name].metric)

    def repeats(self, contender: str, name: str) -> int:
        """Return the number of splits that a contender is measured on."""
        return CONTENDERS[contender].repeats_on(self.facts[name].n_rows)

    def mean(self, contender: str, name: str, epsilon: float, metric: str | None = None) -> float:
        """Return the mean score; NaN unless all repeats have been measured."""
        scores = self.all(contender, name, epsilon, metric)
        return float(scores.mean()) if len(scores) >= self.repeats(contender, name) else math.nan

    def errors(self, contender: str, name: str, epsilon: float) -> npt.NDArray[np.float64]:
        """Return the mean squared error, or the error rate, of each repeat."""
        scores = self.all(contender, name, epsilon)
        return scores if self.facts[name].metric == "mse" else 1 - scores

    def error(self, contender: str, name: str, epsilon: float) -> float:
        """Return the mean error; NaN unless all repeats have been measured."""
        mean = self.mean(contender, name, epsilon)
        return mean if self.facts[name].metric == "mse" else 1 - mean

    def show(self, contender: str, name: str, epsilon: float, metric: str | None = None) -> str:
        """Return the mean with the half width of its 95 % confidence interval (Student's t)."""
        scores = self.all(contender, name, epsilon, metric)
        if len(scores) < 2:
            return "–"
        half = stats.t.ppf(0.975, len(scores) - 1) * scores.std(ddof=1) / math.sqrt(len(scores))
        return f"{number(scores.mean(), metric or self.facts[name].metric)} ± {half:.1g}"


def number(value: float, metric: str) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:.3g}" if metric == "mse" else f"{value:.4f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def yes(value: bool, error: float) -> str:
    return "–" if math.isnan(error) else "yes" if value else "no"


def known(values: Iterable[float]) -> bool:
    return not any(math.isnan(value) for value in values)


def sets_of(scores: Scores, metric: str) -> list[str]:
    """Return the paper's data sets that have this metric."""
    return [name for name in NAMES if scores.facts[name].metric == metric]
