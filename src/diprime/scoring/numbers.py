"""The scores of regressors, from noisy tables of errors and of targets.

Errors and targets are integers in units of the target's range. Each record gives one unit of weight to the two
knots next to it, so that the weighted mean of the squares of the knots is exactly its own square. Knots become
dense towards zero: the noise of a knot counts by its square, so that only the few largest ones matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.domain.codes import TARGET_UNITS
from diprime.privacy.charges import Charge
from diprime.privacy.measures import Epsilon
from diprime.scoring.cells import Cells, Floats
from diprime.scoring.intervals import Estimate, Moments, Sum, between, fieller, ratio, total
from diprime.scoring.records import Records
from diprime.scoring.release import Tables, table_charge

WEIGHT = 4096
"""The weight that a record divides among its two knots, in integers."""
KNOTS_PER_OCTAVE = 2
ERROR_SHARE = Fraction(3, 4)

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NumberScores:
    """All scores of a regressor; :class:`~diprime.scoring.score.PrivateScore` says what they are."""

    records: Estimate
    mse: Estimate
    mae: Estimate
    r2: Estimate


def plan_of_numbers(epsilon: Epsilon) -> list[Charge]:
    """Return the charges of the tables of a regressor's score."""
    why = "each record divides one unit of weight in each table, and the tables add up"
    return [
        table_charge("errors", epsilon, ERROR_SHARE, WEIGHT, why),
        table_charge("targets", epsilon, 1 - ERROR_SHARE, WEIGHT, why),
    ]


@dataclass(frozen=True)
class NumberFacts:
    """What is public about the targets and the predictions of a regressor.

    Attributes
    ----------
    low, high : float
        The range of the target.
    predicted : pair of float
        Bounds of all predictions.
    centre : float
        About what the mean of the targets should be.
    """

    low: float
    high: float
    predicted: tuple[float, float]
    centre: float

    def units(self, values: Floats) -> Integers:
        """Return numbers as a target is encoded, each by itself."""
        units = np.rint((values - self.low) / (self.high - self.low) * TARGET_UNITS)
        return np.clip(units, 0, TARGET_UNITS).astype(np.int64)

    @property
    def largest_error(self) -> int:
        """The largest error that there can be, in units."""
        lowest, highest = self.units(np.array(self.predicted)).tolist()
        return int(min(max(highest, TARGET_UNITS - lowest) + 1, TARGET_UNITS))  # one more, for rounding


def score_numbers(records: Records, facts: NumberFacts, tables: Tables, confidence: float) -> NumberScores:
    """Release the tables of a score, and estimate all scores from them."""
    epsilon = tables.epsilon_of_next()
    knots = make_knots(facts.largest_error, epsilon)
    middle = int(facts.units(np.array([facts.centre]))[0])
    below, above = make_knots(middle, epsilon), make_knots(TARGET_UNITS - middle, epsilon)
    errors, noise = tables.release(weigh(np.abs(records.targets - facts.units(records.scores[:, 0])), knots), WEIGHT)
    error_cells = Cells.of_counts(errors, noise)
    targets, noise = tables.release(weigh_signed(records.targets - middle, below, above), WEIGHT)
    target_cells = Cells.of_counts(targets, noise)
    unit = (facts.high - facts.low) / TARGET_UNITS
    return NumberScores(
        total(error_cells, confidence),
        _scaled(_mean_square(error_cells, knots, confidence), unit * unit),
        _scaled(_mean_magnitude(error_cells, knots, confidence), unit),
        _r2((error_cells, knots), (target_cells, below, above), confidence),
    )


def make_knots(largest: int, epsilon: Epsilon) -> Integers:
    """Return knots from 0 to the largest magnitude: all integers without noise, else a geometric series of them."""
    largest = max(largest, 1)
    if epsilon == math.inf:
        return np.arange(largest + 1)
    steps = np.arange(math.ceil(math.log2(largest) * KNOTS_PER_OCTAVE) + 1) / KNOTS_PER_OCTAVE
    return np.unique(np.concatenate([[0, 1], np.rint(largest / 2.0**steps)])).astype(np.int64)


def weigh(magnitudes: Integers, knots: Integers) -> Integers:
    """Return the weight of each knot. A record adds non-negative integers that sum to `WEIGHT`."""
    magnitudes = np.minimum(magnitudes, knots[-1])
    left = np.minimum(np.searchsorted(knots, magnitudes, side="right") - 1, len(knots) - 2)
    a, b = knots[left] ** 2, knots[left + 1] ** 2
    upper = (2 * WEIGHT * (magnitudes**2 - a) + (b - a)) // (2 * (b - a))  # rounded
    table = np.zeros(len(knots), dtype=np.int64)
    np.add.at(table, left, WEIGHT - upper)
    np.add.at(table, left + 1, upper)
    return table


def weigh_signed(differences: Integers, below: Integers, above: Integers) -> Integers:
    """Return the weight of each knot, those of negative differences first, one table after the other."""
    is_negative = differences < 0
    return np.concatenate([weigh(-differences[is_negative], below), weigh(differences[~is_negative], above)])


# -- estimates ---------------------------------------------------------------------------------------------------------


def _scaled(estimate: Estimate, unit: float) -> Estimate:
    return Estimate(estimate.value * unit, estimate.low * unit, estimate.high * unit)


def _mean_square(cells: Cells, knots: Integers, confidence: float) -> Estimate:
    n = Sum.of(cells, np.ones(len(knots)))
    return ratio(cells, Sum.of(cells, knots.astype(float) ** 2), n, confidence, (0.0, float(TARGET_UNITS**2)))


def unseen_magnitude(knots: Integers) -> Floats:
    """Return by how much a record next to a knot may be larger than its weights say: their squares are exact.

    Between knots a < b, e exceeds the mean of the knots by (e - a)(b - e)/(a + b), at most (b - a)²/(4(a + b)).
    """
    gaps = np.diff(knots) ** 2 / (4 * (knots[1:] + knots[:-1]))
    gaps[np.diff(knots) == 1] = 0.0  # there is no integer between
    return np.asarray(np.maximum(np.append(gaps, 0.0), np.append(0.0, gaps)))


def _mean_magnitude(cells: Cells, knots: Integers, confidence: float) -> Estimate:
    n = Sum.of(cells, np.ones(len(knots)))
    bounds = (0.0, float(TARGET_UNITS))
    unseen = unseen_magnitude(knots)
    low, middle, high = (
        ratio(cells, Sum.of(cells, knots + share * unseen), n, confidence, bounds) for share in (0.0, 0.5, 1.0)
    )
    return between(low, middle.value, high)


def _r2(of_errors: tuple[Cells, Integers], of_targets: tuple[Cells, Integers, Integers], confidence: float) -> Estimate:
    """Return 1 - ρ, where ρ is the sum of squared errors divided by that of squared deviations from the mean.

    The two tables have independent noise and the same records. How the two sums are correlated over records is not
    known, so that their standard deviations by sampling add up in the worst case.
    """
    (errors, knots), (targets, below, above) = of_errors, of_targets
    squares = knots.astype(float) ** 2
    n = max(float(targets.counts.sum()), 1.0)
    signed = np.concatenate([-below, above]).astype(float)
    mean = float(signed @ targets.counts) / n
    deviations = signed**2 - 2 * mean * signed + mean**2
    a, b = Sum.of(errors, squares), Sum.of(targets, deviations)
    spread_a, spread_b = errors.spread(a.weights), targets.spread(b.weights)
    noise = Moments(float(spread_a @ spread_a), 0.0, float(spread_b @ spread_b))
    of_a, of_b = _sampling_variance(errors, squares), _sampling_variance(targets, deviations)
    sampling = Moments(of_a, -math.sqrt(of_a * of_b), of_b)
    theta = max(a.value, 0.0) / b.value if b.value > 0 else 0.0
    fourth = float((spread_a**4).sum() + theta**4 * (spread_b**4).sum()) * max(errors.kurtosis, targets.kurtosis)
    gaps = np.concatenate([unseen_magnitude(below), unseen_magnitude(above)])
    unseen = 2 * abs(mean) * float(gaps @ np.maximum(targets.counts, 0.0))
    rho, low, high = (
        fieller(a.value, max(b.value + slack, 0.0), noise, sampling, fourth, confidence, (0.0, math.inf))
        for slack in (0.0, unseen, -unseen)
    )
    value = 1 - rho.value
    return Estimate(value, min(1 - high.high, value), max(1 - low.low, value))


def _sampling_variance(cells: Cells, weights: Floats) -> float:
    """Return the variance of a sum of weights over a sample of as many records."""
    counts = np.maximum(cells.counts, 0.0)
    n = max(float(counts.sum()), 1.0)
    return max(float(counts @ weights**2) - float(counts @ weights) ** 2 / n, 0.0)
