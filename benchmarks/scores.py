"""How often the intervals of private scores cover the truth, and how wide they are: ``python -m benchmarks.scores``.

Test rows are drawn from made-up populations whose scores are known. Each is scored many times, with new rows and new
noise. ROC curve, calibration and confusion matrix count with the mean over their points.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.paths import RESULTS
from diprime.domain.codes import TARGET_UNITS
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import exact_epsilon
from diprime.privacy.randomness import RandomSource
from diprime.scoring.bins import Reference
from diprime.scoring.classes import CLIP, ClassScores, plan_of_classes, score_classes
from diprime.scoring.intervals import Estimate
from diprime.scoring.numbers import NumberFacts, NumberScores, plan_of_numbers, score_numbers
from diprime.scoring.records import Records, shares
from diprime.scoring.release import Tables

CONFIDENCE = 0.95
Rng = np.random.Generator
Compared = Iterator[tuple[str, Estimate, float]]
"""Names of scores, their estimates and the true scores."""


@dataclass(frozen=True)
class Population:
    """People whom a model is tested on.

    Attributes
    ----------
    draw : callable
        Draws so many records.
    score : callable
        Scores records with a given epsilon and seed.
    compare : callable
        Compares the estimates of a score with the truth.
    """

    draw: Callable[[int, Rng], Records]
    score: Callable[[Records, float, int], Any]
    compare: Callable[[Any], Compared]


def _tables(plan: Any, epsilon: float, seed: int) -> Tables:
    exact = exact_epsilon(epsilon)
    return Tables(plan(exact), Ledger(exact), RandomSource(seed))


# -- two classes -------------------------------------------------------------------------------------------------------


def two_classes(prior: float = 0.0, spread: float = 1.5, slope: float = 0.8) -> Population:
    """Return people with log-odds from a normal distribution; the model exaggerates them, unless ``slope`` is 1."""

    def draw(n: int, rng: Rng) -> Records:
        scores = rng.normal(prior, spread, n)
        targets = rng.random(n) < _sigmoid(slope * scores)
        return Records(targets.astype(np.int64), (scores > 0).astype(np.int64), scores[:, None])

    made_up = np.random.default_rng(1).normal(prior + 0.1, 1.1 * spread, 4000)  # the model does not know exactly
    reference = ((made_up > 0).astype(np.int64), [Reference(made_up, np.ones(4000), False, True)])

    def score(records: Records, epsilon: float, seed: int) -> ClassScores:
        tables = _tables(lambda exact: plan_of_classes(2, exact), epsilon, seed)
        return score_classes(records, 2, reference, tables, CONFIDENCE)

    truth = _Truth(prior, spread, slope)
    return Population(draw, score, lambda found: _compare_two(found, truth))


def _sigmoid(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-x)))


class _Truth:
    """The distribution of log-odds among people of two classes, on a fine grid."""

    def __init__(self, prior: float, spread: float, slope: float) -> None:
        self.grid = prior + spread * np.linspace(-8, 8, 200_001)
        weights = np.exp(-0.5 * ((self.grid - prior) / spread) ** 2)
        weights /= weights.sum()
        positive = weights * _sigmoid(slope * self.grid)
        negative = weights - positive
        # The shares of people of either class whose log-odds are below each place of the grid.
        self.below = [np.concatenate([[0.0], np.cumsum(part)]) for part in (negative, positive)]
        self.sizes = [float(part.sum()) for part in (negative, positive)]
        clipped = np.clip(_sigmoid(self.grid), CLIP, 1 - CLIP)
        self.log_loss = float(-positive @ np.log(clipped) - negative @ np.log(1 - clipped))
        ranks = np.cumsum(negative) - negative / 2
        self.roc_auc = float(positive @ ranks / positive.sum() / negative.sum())

    def share(self, k: int, low: float, high: float) -> float:
        """Return the share of people of a class with a probability from ``low`` to below ``high``."""
        ends = [-math.inf if p <= 0 else math.inf if p >= 1 else math.log(p / (1 - p)) for p in (low, high)]
        begin, end = np.searchsorted(self.grid, ends)
        return float(self.below[k][end] - self.below[k][begin])


def _compare_two(found: ClassScores, truth: _Truth) -> Compared:
    cells = [[truth.share(k, 0, 0.5), truth.share(k, 0.5, 1)] for k in (0, 1)]
    yield "accuracy", found.accuracy, cells[0][0] + cells[1][1]
    yield "balanced accuracy", found.balanced_accuracy, sum(cells[k][k] / truth.sizes[k] for k in (0, 1)) / 2
    assert found.log_loss is not None
    assert found.roc_auc is not None
    yield "log loss", found.log_loss, truth.log_loss
    yield "ROC AUC", found.roc_auc, truth.roc_auc
    for k in (0, 1):
        for d in (0, 1):
            yield "confusion matrix", found.confusion_matrix[k][d], cells[k][d]
    (curves,) = found.curves
    for point in curves.roc_curve:
        yield "ROC curve", point.true_positive_rate, truth.share(1, point.threshold, 1) / truth.sizes[1]
        yield "ROC curve", point.false_positive_rate, truth.share(0, point.threshold, 1) / truth.sizes[0]
    for bin_ in curves.calibration:
        shares_here = [truth.share(k, bin_.low, bin_.high) for k in (0, 1)]
        if sum(shares_here) > 0:
            yield "calibration", bin_.observed, shares_here[1] / sum(shares_here)


# -- three classes -----------------------------------------------------------------------------------------------------


def three_classes(draws: int = 1_000_000) -> Population:
    """Return people of three classes with the scores of a softmax; the truth is that of many draws.

    Their classes are not drawn for the truth: each counts by its probability. With drawn ones, it would be no more
    exact than ten scores of 100,000 rows together, and their intervals would seem to cover it less often than they do.
    """
    shift, slope = np.array([0.5, 0.0, -0.8]), 0.9

    def draw_logits(n: int, rng: Rng) -> npt.NDArray[np.float64]:
        return rng.normal(0, 1.5, (n, 3)) + shift

    def draw(n: int, rng: Rng) -> Records:
        logits = draw_logits(n, rng)
        gumbel = slope * logits - np.log(-np.log(rng.random((n, 3))))
        scores = shares(logits)
        return Records(gumbel.argmax(axis=1), scores.argmax(axis=1), scores)

    made_up = shares(np.random.default_rng(2).normal(0, 1.6, (4000, 3)) + shift)
    reference = (made_up.argmax(axis=1), [Reference(column, np.ones(4000), False) for column in made_up.T])

    def score(records: Records, epsilon: float, seed: int) -> ClassScores:
        tables = _tables(lambda exact: plan_of_classes(3, exact), epsilon, seed)
        return score_classes(records, 3, reference, tables, CONFIDENCE)

    logits = draw_logits(draws, np.random.default_rng(3))
    truth = _truth_of_many(shares(logits), shares(slope * logits))
    return Population(draw, score, lambda found: _compare_many(found, truth))


def _truth_of_many(scores: npt.NDArray[np.float64], chances: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return the true scores of people of whom the scores and the probabilities of their classes are known."""
    n, decisions = len(scores), scores.argmax(axis=1)
    cells = np.array([[chances[decisions == d, k].sum() for d in range(3)] for k in range(3)]) / n
    log_loss = float(-(chances * np.log(np.clip(scores, CLIP, 1 - CLIP))).sum() / n)
    areas, sorted_scores = [], []
    for k in range(3):
        order = np.argsort(scores[:, k])
        own, other = chances[order, k], 1 - chances[order, k]
        ranks = np.cumsum(other) - other / 2
        areas.append(float(own @ ranks / own.sum() / other.sum()))
        sorted_scores.append((scores[order, k], np.concatenate([[0], np.cumsum(own)])))
    return {"scores": sorted_scores, "cells": cells, "log loss": log_loss, "areas": areas}


def _compare_many(found: ClassScores, truth: dict[str, Any]) -> Compared:
    cells = truth["cells"]
    assert found.log_loss is not None
    assert found.roc_auc is not None
    yield "accuracy", found.accuracy, float(np.trace(cells))
    yield "balanced accuracy", found.balanced_accuracy, float(np.mean(np.diag(cells) / cells.sum(axis=1)))
    yield "log loss", found.log_loss, truth["log loss"]
    yield "ROC AUC", found.roc_auc, float(np.mean(truth["areas"]))
    for k in range(3):
        yield "ROC AUC of a class", found.curves[k].roc_auc, truth["areas"][k]
        for d in range(3):
            yield "confusion matrix", found.confusion_matrix[k][d], float(cells[k, d])
        scores, below = truth["scores"][k]
        for bin_ in found.curves[k].calibration:
            begin, end = np.searchsorted(scores, [bin_.low, bin_.high])
            if end - begin > 1000:
                yield "calibration", bin_.observed, float(below[end] - below[begin]) / (end - begin)


# -- numbers -----------------------------------------------------------------------------------------------------------


def numbers(error: float = 0.08, draws: int = 2_000_000) -> Population:
    """Return people with a skewed target from 0 to 10 and errors with heavy tails; the truth is that of many draws."""

    def draw(n: int, rng: Rng) -> Records:
        signal = rng.beta(2, 4, n)
        targets = np.clip(signal + error * rng.standard_t(4, n), 0, 1)
        predicted = np.clip(0.9 * signal + 0.05, 0.05, 0.95)
        return Records(
            np.rint(targets * TARGET_UNITS).astype(np.int64), np.zeros(n, dtype=np.int64), 10 * predicted[:, None]
        )

    facts = NumberFacts(0.0, 10.0, (0.5, 9.5), 3.6)

    def score(records: Records, epsilon: float, seed: int) -> NumberScores:
        return score_numbers(records, facts, _tables(plan_of_numbers, epsilon, seed), CONFIDENCE)

    everyone = draw(draws, np.random.default_rng(4))
    targets = everyone.targets * 10 / TARGET_UNITS
    errors = targets - everyone.scores[:, 0]
    mse, mae, r2 = np.mean(errors**2), np.mean(np.abs(errors)), 1 - np.mean(errors**2) / np.var(targets)

    def compare(found: NumberScores) -> Compared:
        yield "mean squared error", found.mse, float(mse)
        yield "mean absolute error", found.mae, float(mae)
        yield "R²", found.r2, float(r2)

    return Population(draw, score, compare)


# -- the table ---------------------------------------------------------------------------------------------------------

POPULATIONS: dict[str, Callable[[], Population]] = {
    "two classes": two_classes,
    "two classes, one of them rare": lambda: two_classes(-2.5, 1.2, 1.0),
    "two classes, easy": lambda: two_classes(0.0, 5.0, 1.0),
    "three classes": three_classes,
    "numbers": numbers,
    "numbers, small errors": lambda: numbers(0.01),
}
SETTINGS = [(300, 0.1), (1000, 0.1), (1000, 1.0), (10_000, 0.1), (10_000, 1.0), (100_000, 1.0), (1000, math.inf)]


@dataclass
class Coverage:
    """How many intervals cover the truth, and how wide they are together."""

    n: int = 0
    covering: int = 0
    width: float = 0.0

    def add(self, estimate: Estimate, truth: float) -> None:
        """Add an interval."""
        self.n += 1
        self.covering += estimate.low <= truth <= estimate.high
        self.width += estimate.high - estimate.low

    @property
    def share(self) -> float:
        """The share of intervals that cover the truth."""
        return self.covering / self.n

    @property
    def mean_width(self) -> float:
        """The mean width of the intervals."""
        return self.width / self.n


def simulate(population: Population, n: int, epsilon: float, repeats: int, seed: int = 0) -> dict[str, Coverage]:
    """Score new rows with new noise, as often as told, and return the coverage of each score's interval."""
    rng = np.random.default_rng(seed)
    found: dict[str, Coverage] = {}
    for repeat in range(repeats):
        score = population.score(population.draw(n, rng), epsilon, repeat)
        for name, estimate, truth in population.compare(score):
            found.setdefault(name, Coverage()).add(estimate, truth)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.scores")
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument(
        "--populations", nargs="+", choices=list(POPULATIONS), default=list(POPULATIONS), metavar="NAME"
    )
    parser.add_argument("--write", action="store_true", help="keep the table in benchmarks/results")
    options = parser.parse_args()
    lines = [
        "# Coverage of the intervals of private scores",
        "",
        f"`python -m benchmarks.scores`: {options.repeats} times each, intervals of {CONFIDENCE:.0%}. A cell says how "
        "many of them cover the truth, and their mean width. So many repeats tell a coverage of 95 % to a standard "
        f"error of {math.sqrt(0.95 * 0.05 / options.repeats):.1%}: single cells a few of these off are chance.",
    ]
    for name in options.populations:
        population = POPULATIONS[name]()
        columns = [simulate(population, n, epsilon, options.repeats) for n, epsilon in SETTINGS]
        heads = [f"n = {n:,}, ε = {'∞' if epsilon == math.inf else f'{epsilon:g}'}" for n, epsilon in SETTINGS]
        lines += [
            "",
            f"## {name[0].upper()}{name[1:]}",
            "",
            f"| | {' | '.join(heads)} |",
            "|---" * (len(heads) + 1) + "|",
        ]
        for metric in columns[0]:
            cells = [f"{c[metric].share:.1%}, {c[metric].mean_width:.3g}" if metric in c else "–" for c in columns]
            lines.append(f"| {metric} | {' | '.join(cells)} |")
        print("\n".join(lines[-len(columns[0]) - 5 :]), flush=True)
    if options.write:
        (RESULTS / "scores.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
