"""Intervals of ratios: textbook cases without noise, and what noise does to them."""

import math

import numpy as np
import pytest
from scipy import stats

from diprime.scoring.cells import Cells, Noise
from diprime.scoring.intervals import (
    Estimate,
    Moments,
    Sum,
    between,
    corrected_quantile,
    fieller,
    mean_of_independent,
    normal_quantile,
    ratio,
    total,
)

EXACT, LAPLACE = Noise(0.0, 0.0), Noise(200.0, 3.0)


def share(right, wrong, noise=EXACT, confidence=0.95):
    cells = Cells.of_counts(np.array([right, wrong]), noise)
    a, b = Sum.of(cells, np.array([1.0, 0.0])), Sum.of(cells, np.ones(2))
    return ratio(cells, a, b, confidence, is_share=True)


@pytest.mark.parametrize(("right", "n"), [(0, 20), (7, 20), (20, 20), (812, 1000)])
def test_without_noise_the_interval_of_a_share_is_wilsons(right, n):
    expected = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
    found = share(right, n - right)
    assert (found.value, found.low, found.high) == pytest.approx((right / n, expected.low, expected.high))


def test_noise_widens_intervals():
    exact, noisy = share(800, 200), share(800, 200, LAPLACE)
    assert noisy.low < exact.low < exact.value == noisy.value < exact.high < noisy.high


@pytest.mark.parametrize(("right", "wrong"), [(10, 5), (-5, 2), (0, 0), (30, -30)])
def test_where_all_may_be_noise_the_interval_is_the_whole_range(right, wrong):
    found = share(right, wrong, LAPLACE)
    assert (found.low, found.high) == (0, 1)
    assert 0 <= found.value <= 1


def test_an_estimate_beyond_its_bounds_keeps_the_width_of_its_interval():
    """A model without errors and negative noise: the interval must not shrink to a point."""
    within, beyond = share(1000, 0, LAPLACE), share(1000, -40, LAPLACE)
    assert beyond.value == beyond.high == 1
    assert 1 - beyond.low > 0.5 * (within.high - within.low)


def test_the_mean_of_a_sample_has_the_interval_of_a_normal_distribution():
    rng = np.random.default_rng(0)
    values = np.array([0.0, 1.0, 3.0])
    counts = rng.multinomial(5000, [0.5, 0.3, 0.2])
    cells = Cells.of_counts(counts, EXACT)
    found = ratio(cells, Sum.of(cells, values), Sum.of(cells, np.ones(3)), 0.95, (0.0, 3.0))
    sample = np.repeat(values, counts)
    reach = 1.96 * sample.std() / math.sqrt(5000)
    assert found.value == pytest.approx(sample.mean())
    assert (found.low, found.high) == pytest.approx((found.value - reach, found.value + reach), abs=0.003)


def test_the_quantile_of_one_laplace_variable_is_on_the_safe_side():
    exact = stats.laplace.ppf(0.975) / stats.laplace.std()
    assert exact <= corrected_quantile(0.95, 1.0, 3.0) < 1.03 * exact
    assert corrected_quantile(0.95, 1.0, 0.0) == corrected_quantile(0.95, 0.0, 0.0) == normal_quantile(0.95)
    assert normal_quantile(0.95) == pytest.approx(1.959964)


def test_a_total_has_the_interval_of_its_noise():
    found = total(Cells.of_counts(np.array([100]), LAPLACE), 0.95)
    assert found.value == 100
    assert found.high - 100 == 100 - found.low == pytest.approx(corrected_quantile(0.95, 1, 3) * math.sqrt(200))
    assert total(Cells.of_counts(np.array([-3]), LAPLACE), 0.95).low == 0


def test_an_unbounded_ratio_may_have_an_unbounded_interval():
    found = fieller(1.0, 0.1, Moments(1, 0, 1), Moments(0, 0, 0), 0.0, 0.95, (0.0, math.inf))
    assert (found.low, found.high) == (0, math.inf)
    found = fieller(1.0, -0.1, Moments(1, 0, 1), Moments(0, 0, 0), 0.0, 0.95, (0.0, math.inf))
    assert found == Estimate(1.0, 0.0, math.inf)


def test_sides_of_independent_intervals_add_up_as_squares():
    found = mean_of_independent([Estimate(0.5, 0.2, 0.6), Estimate(0.7, 0.3, 0.9)])
    assert found.value == pytest.approx(0.6)
    assert found.low == pytest.approx(0.6 - 0.25)
    assert found.high == pytest.approx(0.6 + math.hypot(0.1, 0.2) / 2)


def test_an_interval_between_two():
    assert between(Estimate(1, 0, 2), 1.5, Estimate(3, 2, 4)) == Estimate(1.5, 0, 4)
