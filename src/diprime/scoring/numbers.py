"""Scores of regressors, estimated from noisy tables of errors and of targets.

Errors and targets are integers in units of 1/``TARGET_UNITS`` of the target's range. Each record divides its weight
between the two nearest knots so that the weighted mean of their squares is its own square, up to rounding. Knots are
dense near zero, because the noise of a knot is multiplied by its square, so only the few largest knots matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from diprime.domain.features import TARGET_UNITS
from diprime.privacy.charges import Charge, ReleaseKind
from diprime.privacy.measures import Epsilon
from diprime.scoring.intervals import (
    Cells,
    Covariance,
    Estimate,
    Floats,
    Ratio,
    Sum,
    TableReleases,
    ratio,
    table_charge,
    total,
)
from diprime.scoring.rows import N_NUMBERS, Counted, Integers, ScoredRows

WEIGHT = 4096
"""Integer weight that each record divides between its two knots."""
KNOTS_PER_OCTAVE = 2
ERROR_SHARE = Fraction(3, 4)


@dataclass(frozen=True)
class NumberScores:
    """All scores of a regressor; see :class:`~diprime.scoring.PrivateScore`."""

    records: Estimate
    outside_domain: Estimate
    mse: Estimate
    mae: Estimate
    r2: Estimate


def plan_of_numbers(epsilon: Epsilon, max_records: int = 1) -> list[Charge]:
    """Return the charges of the tables of a regressor's score, with up to ``max_records`` records per person."""
    why = "Each record adds one unit of weight to each table, so each table is charged once."
    return [
        table_charge(ReleaseKind.ERRORS, epsilon, ERROR_SHARE, WEIGHT, why, max_records),
        table_charge(ReleaseKind.TARGETS, epsilon, 1 - ERROR_SHARE, WEIGHT, why, max_records),
    ]


@dataclass(frozen=True)
class NumberFacts:
    """Public facts about the targets and the predictions of a regressor."""

    low: float  # range of the target
    high: float
    predicted: tuple[float, float]  # bounds on all predictions
    centre: float  # expected mean of the targets

    def units(self, values: Floats) -> Integers:
        """Encode numbers like targets, each independently of the others."""
        units = np.rint((values - self.low) / (self.high - self.low) * TARGET_UNITS)
        return np.clip(units, 0, TARGET_UNITS).astype(np.int64)

    @property
    def largest_error(self) -> int:
        """The largest possible error, in units."""
        lowest, highest = self.units(np.array(self.predicted)).tolist()
        return int(min(max(highest, TARGET_UNITS - lowest) + 1, TARGET_UNITS))  # plus one for rounding


def score_numbers(records: Counted, facts: NumberFacts, tables: TableReleases, confidence: float) -> NumberScores:
    """Release the tables of a score and estimate all scores from them."""
    epsilon = tables.epsilon_of_next()
    knots = make_knots(facts.largest_error, epsilon)
    middle = int(facts.units(np.array([facts.centre]))[0])
    below, above = make_knots(middle, epsilon), make_knots(TARGET_UNITS - middle, epsilon)
    errors, noise = tables.release(records.count(weigh_errors, facts, knots), WEIGHT)
    error_cells = Cells.of_counts(errors, noise)
    targets, noise = tables.release(records.count(weigh_targets, middle, below, above), WEIGHT)
    target_cells = Cells.of_counts(targets, noise)
    unit = (facts.high - facts.low) / TARGET_UNITS
    signed = np.concatenate([-below, above, [-middle, TARGET_UNITS - middle]]).astype(float)
    unseen = np.concatenate([unseen_magnitude(below), unseen_magnitude(above), [0.0, 0.0]])
    return NumberScores(
        total(error_cells, confidence),
        _share_outside(target_cells, confidence),
        _mean_square(error_cells, knots, confidence).scaled(unit * unit),
        _mean_magnitude(error_cells, knots, confidence).scaled(unit),
        _r2((error_cells, knots), (target_cells, signed, unseen), confidence),
    )


def make_knots(largest: int, epsilon: Epsilon) -> Integers:
    """Return knots from 0 to the largest magnitude: all integers without noise, otherwise a geometric series."""
    largest = max(largest, 1)
    if epsilon == math.inf:
        return np.arange(largest + 1)
    steps = np.arange(math.ceil(math.log2(largest) * KNOTS_PER_OCTAVE) + 1) / KNOTS_PER_OCTAVE
    return np.unique(np.concatenate([[0, 1], np.rint(largest / 2.0**steps)])).astype(np.int64)


def weigh(magnitudes: Integers, knots: Integers) -> Integers:
    """Return the total weight of each knot. A record adds non-negative integers that sum to `WEIGHT`."""
    magnitudes = np.minimum(magnitudes, knots[-1])
    left = np.minimum(np.searchsorted(knots, magnitudes, side="right") - 1, len(knots) - 2)
    a, b = knots[left] ** 2, knots[left + 1] ** 2
    upper = (2 * WEIGHT * (magnitudes**2 - a) + (b - a)) // (2 * (b - a))  # rounded to nearest
    table = np.zeros(len(knots), dtype=np.int64)
    np.add.at(table, left, WEIGHT - upper)
    np.add.at(table, left + 1, upper)
    return table


def weigh_errors(records: ScoredRows, facts: NumberFacts, knots: Integers) -> Integers:
    """Return the weight of each error knot."""
    clipped = records.targets % N_NUMBERS
    return weigh(np.abs(clipped - facts.units(records.scores[:, 0])), knots)


def weigh_targets(records: ScoredRows, middle: int, below: Integers, above: Integers) -> Integers:
    """Return the weights of the target knots, first those below the middle, then of two cells for targets out of range.

    A target out of range adds all of its weight to the cell of its side, and none to the knots.
    """
    targets = records.targets
    within = targets[targets < N_NUMBERS] - middle
    outside = targets[targets >= N_NUMBERS] - N_NUMBERS
    sides = np.array([np.sum(outside == 0), np.sum(outside > 0)], dtype=np.int64)
    is_negative = within < 0
    knots = weigh(-within[is_negative], below), weigh(within[~is_negative], above)
    return np.concatenate([*knots, WEIGHT * sides])


# -- estimates ---------------------------------------------------------------------------------------------------------


def _share_outside(cells: Cells, confidence: float) -> Estimate:
    is_outside = (np.arange(len(cells.counts)) >= len(cells.counts) - 2).astype(float)
    everything = Sum.of(cells, np.ones(len(is_outside)))
    return ratio(cells, Sum.of(cells, is_outside), everything, confidence, is_share=True)


def _mean_square(cells: Cells, knots: Integers, confidence: float) -> Estimate:
    n = Sum.of(cells, np.ones(len(knots)))
    return ratio(cells, Sum.of(cells, knots.astype(float) ** 2), n, confidence, (0.0, float(TARGET_UNITS**2)))


def unseen_magnitude(knots: Integers) -> Floats:
    """Return by how much a magnitude next to each knot may exceed the weighted mean of its knots.

    The weights preserve squares, not magnitudes. Between knots a < b, a magnitude e exceeds the mean of the knots by
    (e - a)(b - e)/(a + b), at most (b - a)²/(4(a + b)).
    """
    gaps = np.diff(knots) ** 2 / (4 * (knots[1:] + knots[:-1]))
    gaps[np.diff(knots) == 1] = 0.0  # there is no integer in between
    return np.asarray(np.maximum(np.append(gaps, 0.0), np.append(0.0, gaps)))


def _mean_magnitude(cells: Cells, knots: Integers, confidence: float) -> Estimate:
    n = Sum.of(cells, np.ones(len(knots)))
    bounds = (0.0, float(TARGET_UNITS))
    unseen = unseen_magnitude(knots)
    low, middle, high = (
        ratio(cells, Sum.of(cells, knots + share * unseen), n, confidence, bounds) for share in (0.0, 0.5, 1.0)
    )
    return Estimate.within(middle.value, low.low, high.high, bounds)


def _r2(of_errors: tuple[Cells, Integers], of_targets: tuple[Cells, Floats, Floats], confidence: float) -> Estimate:
    """Return R² = 1 - ρ, where ρ is the sum of squared errors divided by that of squared deviations from the mean.

    The two tables have independent noise but the same records. The sampling correlation of the two sums is unknown, so
    their sampling standard deviations are added up, as in the worst case.
    """
    (errors, knots), (targets, signed, gaps) = of_errors, of_targets
    squares = knots.astype(float) ** 2
    n = max(float(targets.counts.sum()), 1.0)
    mean = float(signed @ targets.counts) / n
    deviations = signed**2 - 2 * mean * signed + mean**2
    a, b = Sum.of(errors, squares), Sum.of(targets, deviations)
    spread_a, spread_b = errors.spread(a.weights), targets.spread(b.weights)
    noise = Covariance(float(spread_a @ spread_a), 0.0, float(spread_b @ spread_b))
    of_a, of_b = _sampling_variance(errors, squares), _sampling_variance(targets, deviations)
    sampling = Covariance(of_a, -math.sqrt(of_a * of_b), of_b)
    theta = max(a.value, 0.0) / b.value if b.value > 0 else 0.0
    fourth = float((spread_a**4).sum() + theta**4 * (spread_b**4).sum()) * max(errors.kurtosis, targets.kurtosis)
    unseen = 2 * abs(mean) * float(gaps @ np.maximum(targets.counts, 0.0))
    rho, low, high = (
        Ratio(a.value, max(b.value + slack, 0.0), noise, sampling, fourth).estimate(confidence, (0.0, math.inf))
        for slack in (0.0, unseen, -unseen)
    )
    ends = min(1 - high.high, 1 - rho.high), max(1 - low.low, 1 - rho.low)
    return Estimate.within(None if rho.value is None else 1 - rho.value, *ends, (-math.inf, 1.0))


def _sampling_variance(cells: Cells, weights: Floats) -> float:
    """Return the sampling variance of a sum of weights, given the number of records."""
    counts = np.maximum(cells.counts, 0.0)
    n = max(float(counts.sum()), 1.0)
    return max(float(counts @ weights**2) - float(counts @ weights) ** 2 / n, 0.0) * cells.max_records
