"""Released counts: combining them with totals, and how much noise moves their sums."""

import math
from fractions import Fraction

import numpy as np
import pytest

from diprime.privacy.mechanisms.laplace import discrete_laplace_pmf
from diprime.privacy.randomness import RandomSource
from diprime.scoring.cells import Cells, Noise
from tests.paid import discrete_laplace

GROUPS = np.array([0, 0, 0, 1, 1, 1, 1])
TRUE = np.array([10.0, 20, 30, 5, 6, 7, 8])
EPSILON, EPSILON_OF_TOTALS = Fraction(1, 2), Fraction(1, 3)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(Fraction(1, 2), 1), (Fraction(3), 1), (Fraction(1), 7)])
def test_noise_has_the_moments_of_its_distribution(epsilon, sensitivity):
    x = np.arange(-400, 401)
    p = np.array([float(discrete_laplace_pmf(int(i), epsilon, sensitivity)[0]) for i in x])
    variance, fourth = p @ x**2, p @ x.astype(float) ** 4
    noise = Noise.of_release(epsilon, sensitivity)
    assert noise.variance == pytest.approx(variance, rel=1e-6)
    assert noise.kurtosis == pytest.approx(fourth / variance**2 - 3, rel=1e-6)
    assert Noise.of_release(epsilon, sensitivity, 4).variance == pytest.approx(variance / 16)


def test_there_is_no_noise_at_infinity():
    assert Noise.of_release(math.inf, 1) == Noise(0.0, 0.0)


def combined(seed, n=1):
    """Return cells combined with totals, of n draws."""
    source = RandomSource(seed)
    values = np.tile(TRUE.astype(np.int64), (n, 1))
    sums = np.tile(np.bincount(GROUPS, TRUE).astype(np.int64), (n, 1))
    cells = discrete_laplace(values, EPSILON, 1, source.streams(n))
    totals = discrete_laplace(sums, EPSILON_OF_TOTALS, 1, source.streams(n))
    noise, of_totals = Noise.of_release(EPSILON, 1), Noise.of_release(EPSILON_OF_TOTALS, 1)
    return [
        Cells.of_counts(c, noise).with_totals(GROUPS, t, [of_totals] * 2) for c, t in zip(cells, totals, strict=True)
    ]


@pytest.mark.parametrize("weights", [np.ones(7), np.arange(7.0), np.eye(7)[0], np.eye(7)[5] - np.eye(7)[4]])
def test_the_spread_is_that_of_the_noise(weights):
    """The variance of twenty thousand draws is known to about two per cent; seven standard errors are allowed."""
    draws = combined(1, 20_000)
    sums = np.array([weights @ cells.counts for cells in draws])
    expected = float((draws[0].spread(weights) ** 2).sum())
    assert np.var(sums) == pytest.approx(expected, rel=0.14)
    assert sums.mean() == pytest.approx(weights @ TRUE, abs=7 * math.sqrt(expected / 20_000))


def test_totals_make_sums_more_accurate_than_either_release_is():
    (cells,) = combined(2)
    variance = (cells.spread((GROUPS == 1).astype(float)) ** 2).sum()
    own, other = 4 * Noise.of_release(EPSILON, 1).variance, Noise.of_release(EPSILON_OF_TOTALS, 1).variance
    assert variance == pytest.approx(1 / (1 / own + 1 / other))


def test_without_noise_totals_change_nothing():
    none = Noise(0.0, 0.0)
    cells = Cells.of_counts(TRUE, none).with_totals(GROUPS, np.bincount(GROUPS, TRUE), [none] * 2)
    assert np.array_equal(cells.counts, TRUE)
    assert not cells.spread(np.ones(7)).any()


def test_cells_of_a_group_keep_their_noise():
    (cells,) = combined(3)
    kept = cells.among(GROUPS == 0)
    weights = np.array([1.0, 2.0, 4.0])
    alone, among_all = kept.spread(weights), cells.spread(np.append(weights, np.zeros(4)))
    assert (alone**2).sum() == pytest.approx((among_all**2).sum())
