"""Coverage and width of the intervals of private scores: ``python -m benchmarks.scores``.

Test rows are sampled from synthetic populations with known scores. Each population is scored many times, with new rows
and new noise. For ROC curves, calibration and confusion matrices, the table shows means over their points.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.accounts import open_account
from benchmarks.paths import RESULTS
from diprime.domain.features import TARGET_UNITS
from diprime.privacy.measures import exact_epsilon
from diprime.privacy.randomness import RandomSource
from diprime.scoring.classes import CLIP, ClassScores, plan_of_classes, score_classes
from diprime.scoring.intervals import Estimate, Reference, TableReleases
from diprime.scoring.numbers import NumberFacts, NumberScores, plan_of_numbers, score_numbers
from diprime.scoring.rows import N_NUMBERS, ScoredRows, shares

CONFIDENCE = 0.95
Rng = np.random.Generator
Compared = Iterator[tuple[str, Estimate, float]]
"""Triples of the name of a score, its estimate and the true score."""


@dataclass(frozen=True)
class Population:
    """Population on which a model is tested.

    Attributes
    ----------
    draw : callable
        Function that samples n records.
    score : callable
        Function that scores records with a given epsilon and seed.
    compare : callable
        Function that pairs the estimates of a score with the truth.
    """

    draw: Callable[[int, Rng], ScoredRows]
    score: Callable[[ScoredRows, float, int], Any]
    compare: Callable[[Any], Compared]


def _tables(plan: Any, epsilon: float, seed: int) -> TableReleases:
    exact = exact_epsilon(epsilon)
    return TableReleases(plan(exact), open_account(exact), RandomSource(seed))


# -- two classes -------------------------------------------------------------------------------------------------------


def two_classes(prior: float = 0.0, spread: float = 1.5, slope: float = 0.8, shift: float = 0.0) -> Population:
    """Return a population whose log-odds have a normal distribution.

    The true log-odds are ``slope`` times those of the model, plus ``shift``. With slope 0, the model is useless; with a
    very large slope, it is perfect.
    """

    def draw(n: int, rng: Rng) -> ScoredRows:
        scores = rng.normal(prior, spread, n)
        targets = rng.random(n) < _sigmoid(slope * scores + shift)
        return ScoredRows(targets.astype(np.int64), (scores > 0).astype(np.int64), scores[:, None])

    made_up = np.random.default_rng(1).normal(prior + 0.1, 1.1 * spread, 4000)  # an inexact reference distribution
    reference = ((made_up > 0).astype(np.int64), [Reference(made_up, np.ones(4000), False, True)])

    def score(records: ScoredRows, epsilon: float, seed: int) -> ClassScores:
        tables = _tables(lambda exact: plan_of_classes(2, exact), epsilon, seed)
        return score_classes(records, 2, reference, tables, CONFIDENCE)

    truth = _Truth(prior, spread, slope, shift)
    return Population(draw, score, lambda found: _compare_two(found, truth))


def _sigmoid(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -700, 700))))


class _Truth:
    """Distribution of the log-odds of two classes, on a fine grid."""

    def __init__(self, prior: float, spread: float, slope: float, shift: float) -> None:
        self.grid = prior + spread * np.linspace(-8, 8, 200_001)
        weights = np.exp(-0.5 * ((self.grid - prior) / spread) ** 2)
        weights /= weights.sum()
        positive = weights * _sigmoid(slope * self.grid + shift)
        negative = weights - positive
        # For each class, the share of all people with this class and with log-odds below each point of the grid.
        self.below = [np.concatenate([[0.0], np.cumsum(part)]) for part in (negative, positive)]
        self.sizes = [float(part.sum()) for part in (negative, positive)]
        clipped = np.clip(_sigmoid(self.grid), CLIP, 1 - CLIP)
        self.log_loss = float(-positive @ np.log(clipped) - negative @ np.log(1 - clipped))
        ranks = np.cumsum(negative) - negative / 2
        self.roc_auc = float(positive @ ranks / positive.sum() / negative.sum())

    def share(self, k: int, low: float, high: float) -> float:
        """Return the share of people in class k with a predicted probability from ``low`` to below ``high``."""
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


# -- several classes ---------------------------------------------------------------------------------------------------


def several_classes(
    priors: npt.NDArray[np.float64],
    slope: float = 0.9,
    spread: float = 1.5,
    outside: float = 0.0,
    draws: int = 1_000_000,
) -> Population:
    """Return a population of several classes with softmax scores; the truth is estimated from many samples.

    The true logits are ``slope`` times those of the model. With an infinite slope, the model is perfect; with slope 0,
    it is useless. A share ``outside`` of the people belongs to unlisted classes.

    The truth is computed from class probabilities instead of sampled classes. With sampled classes, it would be as
    inexact as the mean of ten scores of 100,000 rows, and the measured coverage would be too low.
    """
    k, shift = len(priors), np.log(priors)

    def draw_logits(n: int, rng: Rng) -> npt.NDArray[np.float64]:
        return rng.normal(0, spread, (n, k)) + shift

    def chances(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if slope == math.inf:
            return np.eye(k)[logits.argmax(axis=1)]
        return shares(slope * (logits - shift) + shift)

    def draw(n: int, rng: Rng) -> ScoredRows:
        logits = draw_logits(n, rng)
        with np.errstate(divide="ignore"):
            targets = (np.log(chances(logits)) - np.log(-np.log(rng.random((n, k))))).argmax(axis=1)
        scores = shares(logits)
        return ScoredRows(np.where(rng.random(n) < outside, k, targets), scores.argmax(axis=1), scores)

    made_up = shares(np.random.default_rng(2).normal(0, 1.1 * spread, (4000, k)) + shift)
    reference = (made_up.argmax(axis=1), [Reference(column, np.ones(4000), False) for column in made_up.T])

    def score(records: ScoredRows, epsilon: float, seed: int) -> ClassScores:
        tables = _tables(lambda exact: plan_of_classes(k, exact), epsilon, seed)
        return score_classes(records, k, reference, tables, CONFIDENCE)

    logits = draw_logits(draws, np.random.default_rng(3))
    truth = _truth_of_many(shares(logits), chances(logits), outside)
    return Population(draw, score, lambda found: _compare_many(found, truth))


def three_classes(draws: int = 1_000_000) -> Population:
    """Return a population of three classes, for which the model is slightly overconfident."""
    priors = np.exp([0.5, 0.0, -0.8])
    return several_classes(priors / priors.sum(), draws=draws)


def equal(k: int) -> npt.NDArray[np.float64]:
    """Return equal shares of k classes."""
    return np.full(k, 1 / k)


def skewed(k: int) -> npt.NDArray[np.float64]:
    """Return shares of k classes, most of which are rare."""
    shares_of_classes = np.arange(1, k + 1) ** -1.5
    return np.asarray(shares_of_classes / shares_of_classes.sum())


def _truth_of_many(scores: npt.NDArray[np.float64], chances: npt.NDArray[np.float64], outside: float) -> dict[str, Any]:
    """Return the true scores, given the predicted scores and the true class probabilities of people."""
    (n, k), decisions = scores.shape, scores.argmax(axis=1)
    cells = np.array([np.bincount(decisions, chances[:, c], k) for c in range(k)]) / n
    log_loss = float(-(chances * np.log(np.clip(scores, CLIP, 1 - CLIP))).sum() / n)
    areas, sorted_scores = [], []
    for c in range(k):
        order = np.argsort(scores[:, c])
        own, other = chances[order, c], 1 - chances[order, c]
        ranks = np.cumsum(other) - other / 2
        areas.append(float(own @ ranks / own.sum() / other.sum()))
        sorted_scores.append((scores[order, c], np.concatenate([[0], np.cumsum(own)])))
    return {
        "scores": sorted_scores,
        "cells": (1 - outside) * cells,
        "log loss": (1 - outside) * log_loss - outside * math.log(CLIP),
        "areas": areas,
        "outside": outside,
    }


def _compare_many(found: ClassScores, truth: dict[str, Any]) -> Compared:
    cells = truth["cells"]
    assert found.log_loss is not None
    assert found.roc_auc is not None
    recalls = np.diag(cells) / cells.sum(axis=1)
    yield "accuracy", found.accuracy, float(np.trace(cells))
    yield "balanced accuracy", found.balanced_accuracy, float(recalls.mean())
    yield "log loss", found.log_loss, truth["log loss"]
    yield "ROC AUC", found.roc_auc, float(np.mean(truth["areas"]))
    if truth["outside"]:
        yield "not in the domain", found.outside_domain, truth["outside"]
    for c in range(len(cells)):
        yield "ROC AUC of a class", found.curves[c].roc_auc, truth["areas"][c]
        for d in range(len(cells)):
            yield "confusion matrix", found.confusion_matrix[c][d], float(cells[c, d])
        scores, below = truth["scores"][c]
        for bin_ in found.curves[c].calibration:
            begin, end = np.searchsorted(scores, [bin_.low, bin_.high])
            if end - begin > 1000:
                yield "calibration", bin_.observed, float(below[end] - below[begin]) / (end - begin)


# -- numbers -----------------------------------------------------------------------------------------------------------


def numbers(error: float = 0.08, draws: int = 2_000_000) -> Population:
    """Return a population with a skewed target, mostly from 0 to 10, and errors with heavy tails.

    Targets are clipped to this range. The truth is estimated from many samples.
    """

    def draw(n: int, rng: Rng) -> ScoredRows:
        signal = rng.beta(2, 4, n)
        targets = signal + error * rng.standard_t(4, n)
        units = np.rint(np.clip(targets, 0, 1) * TARGET_UNITS) + N_NUMBERS * ((targets < 0) | (targets > 1))
        predicted = np.clip(0.9 * signal + 0.05, 0.05, 0.95)
        return ScoredRows(units.astype(np.int64), np.zeros(n, dtype=np.int64), 10 * predicted[:, None])

    facts = NumberFacts(0.0, 10.0, (0.5, 9.5), 3.6)

    def score(records: ScoredRows, epsilon: float, seed: int) -> NumberScores:
        return score_numbers(records, facts, _tables(plan_of_numbers, epsilon, seed), CONFIDENCE)

    everyone = draw(draws, np.random.default_rng(4))
    targets = everyone.targets % N_NUMBERS * 10 / TARGET_UNITS
    outside = float(np.mean(everyone.targets >= N_NUMBERS))
    errors = targets - everyone.scores[:, 0]
    mse, mae, r2 = np.mean(errors**2), np.mean(np.abs(errors)), 1 - np.mean(errors**2) / np.var(targets)

    def compare(found: NumberScores) -> Compared:
        yield "mean squared error", found.mse, float(mse)
        yield "mean absolute error", found.mae, float(mae)
        yield "R²", found.r2, float(r2)
        yield "outside the range", found.outside_domain, outside

    return Population(draw, score, compare)


# -- the table ---------------------------------------------------------------------------------------------------------

POPULATIONS: dict[str, Callable[[], Population]] = {
    "two classes": two_classes,
    "two classes, one of them rare": lambda: two_classes(-2.5, 1.2, 1.0),
    "two classes, easy": lambda: two_classes(0.0, 5.0, 1.0),
    "1 % positives, perfect model": lambda: two_classes(-2.326 * 3, 3.0, 1e9),
    "1 % positives, ordinary model": lambda: two_classes(-6.0, 1.7, 1.0),
    "1 % positives, useless model": lambda: two_classes(-4.6, 0.5, 0.0, -4.6),
    "three classes": three_classes,
    "four classes, 5 % of rows with an unknown class": lambda: several_classes(equal(4), 1.0, 3.0, 0.05),
    "ten equal classes, perfect model": lambda: several_classes(equal(10), math.inf, 4.0),
    "ten equal classes, ordinary model": lambda: several_classes(equal(10), 1.0, 5.0),
    "ten equal classes, useless model": lambda: several_classes(equal(10), 0.0, 0.2),
    "ten skewed classes, perfect model": lambda: several_classes(skewed(10), math.inf, 4.0),
    "ten skewed classes, ordinary model": lambda: several_classes(skewed(10), 1.0, 3.0),
    "ten skewed classes, useless model": lambda: several_classes(skewed(10), 0.0, 0.2),
    "26 skewed classes, ordinary model": lambda: several_classes(skewed(26), 1.0, 4.0, draws=400_000),
    "26 equal classes, perfect model": lambda: several_classes(equal(26), math.inf, 4.0, draws=400_000),
    "regression": numbers,
    "regression, small errors": lambda: numbers(0.01),
}
SETTINGS = [
    (200, 0.05),
    (200, 1.0),
    (1000, 0.1),
    (1000, 1.0),
    (20_000, 0.05),
    (20_000, 1.0),
    (1000, math.inf),
]


MANY_TIMES = 4
"""Factor by which populations of many classes are scored less often."""


@dataclass
class Coverage:
    """Number of intervals, number that cover the truth, and total width."""

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
    """Repeatedly score new rows with new noise, and return the coverage of the interval of each score."""
    rng = np.random.default_rng(seed)
    found: dict[str, Coverage] = {}
    for repeat in range(repeats):
        score = population.score(population.draw(n, rng), epsilon, repeat)
        for name, estimate, truth in population.compare(score):
            found.setdefault(name, Coverage()).add(estimate, truth)
    return found


def standard_error(repeats: int) -> float:
    """Return the standard error of a measured coverage of 95 %."""
    return math.sqrt(0.95 * 0.05 / repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.scores")
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument(
        "--populations", nargs="+", choices=list(POPULATIONS), default=list(POPULATIONS), metavar="NAME"
    )
    parser.add_argument("--write", action="store_true", help="keep the table in benchmarks/results")
    options = parser.parse_args()
    lines = [
        "# Coverage of the confidence intervals of private scores",
        "",
        f"`python -m benchmarks.scores --repeats {options.repeats}` prints this report.",
        f"A cell contains the share of {CONFIDENCE:.0%} intervals that cover the true score, and their mean width.",
        f"Populations with up to four classes are scored {options.repeats} times, and the others "
        f"{options.repeats // MANY_TIMES} times.",
        f"The standard error of a coverage of 95 % is {standard_error(options.repeats):.1%} and "
        f"{standard_error(options.repeats // MANY_TIMES):.1%}.",
        "In single cells, chance may explain differences of a few standard errors.",
    ]
    for name in options.populations:
        population = POPULATIONS[name]()
        repeats = options.repeats // (MANY_TIMES if name.startswith(("ten", "26")) else 1)
        columns = [simulate(population, n, epsilon, repeats) for n, epsilon in SETTINGS]
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
