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
TEST_TO_TRAIN = 1 / 9
PUC = "puc"
METRIC_TITLES = {"accuracy": "accuracy", "auc": "AUC", "mse": "MSE"}
TALLY = "ahead / level / behind"


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

    def row(self) -> list[str]:
        """Return the row of the table."""
        return [self.bar, {True: "met", False: "**MISSED**", None: "not measured in full"}[self.met], self.seen]


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

    def mean(
        self, contender: str, name: str, epsilon: float, metric: str | None = None, splits: int | None = None
    ) -> float:
        """Return the mean score, of the first splits only if given; NaN unless all repeats have been measured."""
        scores = self.all(contender, name, epsilon, metric)
        return float(scores[:splits].mean()) if len(scores) >= self.repeats(contender, name) else math.nan

    def errors(self, contender: str, name: str, epsilon: float) -> npt.NDArray[np.float64]:
        """Return the mean squared error, or the error rate, of each repeat."""
        scores = self.all(contender, name, epsilon)
        return scores if self.facts[name].metric == "mse" else 1 - scores

    def error(self, contender: str, name: str, epsilon: float) -> float:
        """Return the mean error; NaN unless all repeats have been measured."""
        mean = self.mean(contender, name, epsilon)
        return mean if self.facts[name].metric == "mse" else 1 - mean

    def lead(self, contender: str, peer: str, name: str, epsilon: float, metric: str) -> int | None:
        """Return 1 if a contender is ahead of a peer on the same splits, -1 if it is behind, 0 if it is level.

        None if scores are missing. A two-sided paired t test at 5 % decides, with the standard error of splits that
        share rows. If one has more splits than the other, the test uses those of both.
        """
        ours, theirs = (self.all(c, name, epsilon, metric) for c in (contender, peer))
        if len(ours) < self.repeats(contender, name) or len(theirs) < self.repeats(peer, name):
            return None
        n_common = min(len(ours), len(theirs))
        gains = ours[:n_common] - theirs[:n_common]
        if metric == "mse":
            gains = -gains
        limit = stats.t.ppf(0.975, len(gains) - 1) * standard_error(gains)
        return int(np.sign(gains.mean())) if abs(gains.mean()) > limit else 0

    def show(self, contender: str, name: str, epsilon: float, metric: str | None = None) -> str:
        """Return the mean with the half width of its 95 % confidence interval (Student's t)."""
        scores = self.all(contender, name, epsilon, metric)
        if len(scores) < 2:
            return "–"
        half = stats.t.ppf(0.975, len(scores) - 1) * standard_error(scores)
        return f"{number(scores.mean(), metric or self.facts[name].metric)} ± {half:.1g}"


def standard_error(scores: npt.ArrayLike, test_to_train: float = TEST_TO_TRAIN) -> float:
    """Return the standard error of a mean over random splits of one table.

    Splits share rows, so scores vary together. Nadeau and Bengio (2003) add the ratio of test rows to training rows to
    one over the number of splits. Without such overlap, the ratio is 0.
    """
    return float(np.std(scores, ddof=1) * math.sqrt(1 / np.size(scores) + test_to_train))


def tally(leads: Iterable[int | None]) -> str:
    """Return on how many sets a contender is ahead, level and behind."""
    found = list(leads)
    return "–" if None in found else " / ".join(str(found.count(lead)) for lead in (1, 0, -1))


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
