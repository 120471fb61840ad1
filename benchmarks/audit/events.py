"""The search for an event that tells two sides apart, on fits that do not test it.

A fit is a row of numbers: what it released, and statistics of that. An event is that one of them is at least, or at
most, some threshold. Some statistics are learnt: by logistic regression and by boosted trees, from fits that are not
used to choose among the events either.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.audit.bounds import Seen

Floats = npt.NDArray[np.float64]
Objective = Callable[[Seen], Any]

N_THRESHOLDS = 64
MAX_COLUMNS = 64  # of single numbers that are looked at; learnt statistics see twice as many


@dataclass(frozen=True)
class Statistic:
    """A number for each fit of either side.

    Attributes
    ----------
    name : str
        What it is.
    without, with_it : arrays
        Its values, in fits without the canary and with it.
    """

    name: str
    without: Floats
    with_it: Floats


@dataclass(frozen=True)
class Event:
    """That a statistic is on one side of a threshold.

    Attributes
    ----------
    statistic : str
        The name of the statistic.
    threshold : float
        The threshold.
    at_least : bool
        Whether the statistic is at least the threshold, or else below it.
    with_canary : bool
        Whether it is likelier with the canary, or else without.
    """

    statistic: str
    threshold: float
    at_least: bool
    with_canary: bool

    def seen(self, statistic: Statistic) -> Seen:
        """Return how often it happened."""
        sides = [statistic.without, statistic.with_it]
        counts = [int(np.sum((side >= self.threshold) == self.at_least)) for side in sides]
        first = int(self.with_canary)
        return Seen(counts[first], len(sides[first]), counts[1 - first], len(sides[1 - first]))

    def __str__(self) -> str:
        return f"{self.statistic} {'≥' if self.at_least else '<'} {self.threshold:.4g}"


def _thresholds(values: Floats) -> Floats:
    """Return thresholds at the values if there are few, or at quantiles, more of them in the tails."""
    distinct: Floats = np.unique(values)
    if len(distinct) <= N_THRESHOLDS:
        return distinct
    half = np.geomspace(2 / len(values), 0.5, N_THRESHOLDS // 2)
    at = np.concatenate([half, 1 - half])
    quantiles: Floats = np.unique(np.quantile(values, at, method="nearest"))
    return quantiles


def best_event(statistics: Sequence[Statistic], objective: Objective) -> Event:
    """Return the event with the largest value of an objective, a function of how often an event was seen."""
    best, found = -1.0, Event(statistics[0].name, 0.0, True, True)
    for statistic in statistics:
        thresholds = _thresholds(np.concatenate([statistic.without, statistic.with_it]))
        n = [len(statistic.without), len(statistic.with_it)]
        at_least = [
            len(side) - np.searchsorted(np.sort(side), thresholds) for side in (statistic.without, statistic.with_it)
        ]
        for is_at_least in (True, False):
            counts = at_least if is_at_least else [m - c for m, c in zip(n, at_least, strict=True)]
            for first in (0, 1):
                values = objective(Seen(counts[first], n[first], counts[1 - first], n[1 - first]))
                at = int(np.argmax(values))
                if values[at] > best:
                    best = float(values[at])
                    found = Event(statistic.name, float(thresholds[at]), is_at_least, bool(first))
    return found


# -- statistics of released numbers ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """Makes statistics of the numbers of fits, as it learnt from fits of both sides.

    Attributes
    ----------
    name : str
        What the numbers are of.
    columns : array
        Which numbers are looked at, the most telling ones first.
    learners : mapping of str to classifiers
        The learnt statistics.
    """

    name: str
    columns: npt.NDArray[np.intp]
    learners: dict[str, Any]

    @classmethod
    def learn(cls, name: str, without: Floats, with_it: Floats) -> Reader:
        """Learn from fits of both sides."""
        numbers, labels = np.vstack([without, with_it]), np.repeat([0, 1], [len(without), len(with_it)])
        columns = _telling(_filled(without), _filled(with_it))
        if not len(columns):
            return cls(name, columns, {})
        seen = _filled(numbers[:, columns[: 2 * MAX_COLUMNS]])
        learners = {
            "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=100)),
            "boosted trees": HistGradientBoostingClassifier(
                max_iter=30, max_depth=3, learning_rate=0.25, min_samples_leaf=10, early_stopping=False, random_state=0
            ),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it did not converge: it need not
            return cls(name, columns, {title: learner.fit(seen, labels) for title, learner in learners.items()})

    def statistics(self, without: Floats, with_it: Floats) -> list[Statistic]:
        """Return the statistics of other fits."""
        sides = [_filled(without), _filled(with_it)]
        found = []
        for column in self.columns[:MAX_COLUMNS].tolist():
            found.append(Statistic(f"{self.name}, number {column}", *(side[:, column] for side in sides)))
        seen = [side[:, self.columns[: 2 * MAX_COLUMNS]] for side in sides]
        for title, learner in self.learners.items():
            scores = [np.log(np.maximum(learner.predict_proba(side)[:, 1], 1e-12)) for side in seen]
            found.append(Statistic(f"{self.name}, {title}", *scores))
        return found


def _filled(numbers: Floats) -> Floats:
    """Return numbers among which missing ones are less than all others, and none is too large for learners."""
    return np.nan_to_num(np.clip(numbers, -1e15, 1e15), nan=-1e6)


def _telling(without: Floats, with_it: Floats) -> npt.NDArray[np.intp]:
    """Return the numbers that vary at all, those first whose distributions differ most (Kolmogorov and Smirnov)."""
    both = np.vstack([without, with_it])
    varying = np.flatnonzero((both != both[:1]).any(axis=0))
    if len(varying) > 4 * MAX_COLUMNS:
        means = np.abs(without[:, varying].mean(axis=0) - with_it[:, varying].mean(axis=0))
        varying = varying[np.argsort(-means / both[:, varying].std(axis=0), kind="stable")[: 4 * MAX_COLUMNS]]
    distances = [_distance(without[:, j], with_it[:, j]) for j in varying]
    order: npt.NDArray[np.intp] = varying[np.argsort(distances, kind="stable")[::-1]]
    return order


def _distance(a: Floats, b: Floats) -> float:
    points = np.unique(np.concatenate([a, b]))
    shares = [np.searchsorted(np.sort(side), points, side="right") / len(side) for side in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())
