"""Bins of scores: of about equal frequency, with bounds that hold."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from diprime.privacy.mechanisms.laplace import discrete_laplace_pmf
from diprime.privacy.randomness import RandomSource
from diprime.scoring.classes import plan_of_classes
from diprime.scoring.intervals import (
    Cells,
    Covariance,
    Estimate,
    Part,
    Ratio,
    Reference,
    Sum,
    TableNoise,
    TableReleases,
    adding_up_to_one,
    corrected_quantile,
    make_bins,
    mean_of_shares,
    normal_quantile,
    ratio,
    table_charge,
)
from diprime.scoring.numbers import plan_of_numbers
from tests.exact_exp import TOO_LITTLE_NOISE
from tests.goodness import fits
from tests.paid import discrete_laplace, open_account, so_far

SCORES = np.random.default_rng(0).normal(0, 2, 5000)


def test_bins_hold_about_as_many_records_each():
    bins = make_bins(Reference(SCORES, np.ones(5000), False, True), 20)
    counts = np.bincount(bins.place(SCORES), minlength=20)
    assert len(bins) == 20
    assert counts.max() < 1.3 * counts.min()


@pytest.mark.parametrize("is_log_odds", [True, False])
def test_probabilities_of_records_are_within_the_bounds_of_their_bin(is_log_odds):
    scores = SCORES if is_log_odds else 1 / (1 + np.exp(-SCORES))
    reference = Reference(scores[:2000], np.ones(2000), False, is_log_odds)
    bins = make_bins(reference, 30)
    places, p = bins.place(scores), reference.probabilities(scores)
    assert np.all(bins.low[places] <= p)
    assert np.all(p <= bins.high[places])
    assert np.all((bins.low <= bins.middle) & (bins.middle <= bins.high))
    assert (bins.low[0], bins.high[-1]) == (0, 1)
    assert not bins.is_exact.any()


def test_complete_list_of_few_scores_gives_exact_bins():
    reference = Reference(np.array([0.3, 0.1, 0.3, 0.8]), np.array([1.0, -2.0, 3.0, 0.0]), True)
    bins = make_bins(reference, 10)
    assert bins.is_exact.all()
    assert bins.low.tolist() == bins.middle.tolist() == [0.1, 0.3, 0.8]
    assert bins.place(np.array([0.1, 0.3, 0.8])).tolist() == [0, 1, 2]
    merged = make_bins(reference, 2)
    assert merged.is_exact.sum() == 1
    assert len(merged) == 2


GROUPS = np.array([0, 0, 0, 1, 1, 1, 1])
TRUE = np.array([10.0, 20, 30, 5, 6, 7, 8])
EPSILON, EPSILON_OF_TOTALS = Fraction(1, 2), Fraction(1, 3)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(Fraction(1, 2), 1), (Fraction(3), 1), (Fraction(1), 7)])
def test_noise_has_the_moments_of_its_distribution(epsilon, sensitivity):
    x = np.arange(-400, 401)
    p = np.array([float(discrete_laplace_pmf(int(i), epsilon, sensitivity)[0]) for i in x])
    variance, fourth = p @ x**2, p @ x.astype(float) ** 4
    noise = TableNoise.of_release(epsilon, sensitivity)
    assert noise.variance == pytest.approx(variance, rel=1e-6)
    assert noise.kurtosis == pytest.approx(fourth / variance**2 - 3, rel=1e-6)
    assert TableNoise.of_release(epsilon, sensitivity, 4).variance == pytest.approx(variance / 16)


def combined(seed, n=1):
    """Return cells combined with totals, of n draws."""
    source = RandomSource(seed)
    values = np.tile(TRUE.astype(np.int64), (n, 1))
    sums = np.tile(np.bincount(GROUPS, TRUE).astype(np.int64), (n, 1))
    cells = discrete_laplace(values, EPSILON, 1, source.streams(n))
    totals = discrete_laplace(sums, EPSILON_OF_TOTALS, 1, source.streams(n))
    noise, of_totals = TableNoise.of_release(EPSILON, 1), TableNoise.of_release(EPSILON_OF_TOTALS, 1)
    return [
        Cells.of_counts(c, noise).with_totals(GROUPS, t, [of_totals] * 2) for c, t in zip(cells, totals, strict=True)
    ]


@pytest.mark.parametrize("weights", [np.ones(7), np.arange(7.0), np.eye(7)[0], np.eye(7)[5] - np.eye(7)[4]])
def test_spread_is_that_of_the_noise(weights):
    """The variance of twenty thousand draws is known to about two per cent; seven standard errors are allowed."""
    draws = combined(1, 20_000)
    sums = np.array([weights @ cells.counts for cells in draws])
    expected = float((draws[0].spread(weights) ** 2).sum())
    assert np.var(sums) == pytest.approx(expected, rel=0.14)
    assert sums.mean() == pytest.approx(weights @ TRUE, abs=7 * math.sqrt(expected / 20_000))


def test_totals_make_sums_more_accurate_than_either_release_is():
    (cells,) = combined(2)
    variance = (cells.spread((GROUPS == 1).astype(float)) ** 2).sum()
    own, other = (
        4 * TableNoise.of_release(EPSILON, 1).variance,
        TableNoise.of_release(EPSILON_OF_TOTALS, 1).variance,
    )
    assert variance == pytest.approx(1 / (1 / own + 1 / other))


def test_cells_of_a_group_keep_their_noise():
    (cells,) = combined(3)
    kept = cells.among(GROUPS == 0)
    weights = np.array([1.0, 2.0, 4.0])
    alone, among_all = kept.spread(weights), cells.spread(np.append(weights, np.zeros(4)))
    assert (alone**2).sum() == pytest.approx((among_all**2).sum())


EXACT, LAPLACE = TableNoise(0.0, 0.0), TableNoise(200.0, 3.0)


def share(right, wrong, noise=EXACT, confidence=0.95):
    cells = Cells.of_counts(np.array([right, wrong]), noise)
    a, b = Sum.of(cells, np.array([1.0, 0.0])), Sum.of(cells, np.ones(2))
    return ratio(cells, a, b, confidence, is_share=True)


@pytest.mark.parametrize(("right", "n"), [(0, 20), (7, 20), (20, 20), (812, 1000)])
def test_exact_share_has_the_wilson_interval(right, n):
    expected = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
    found = share(right, n - right)
    assert (found.value, found.low, found.high) == pytest.approx((right / n, expected.low, expected.high))


@pytest.mark.parametrize(("right", "wrong"), [(10, 5), (-5, 2), (0, 0), (30, -30)])
def test_share_lost_in_noise_has_the_whole_range_as_interval(right, wrong):
    found = share(right, wrong, LAPLACE)
    assert found == Estimate(None, 0.0, 1.0)
    assert str(found) == "not known (0 to 1)"


def test_estimate_beyond_its_bounds_keeps_the_width_of_its_interval():
    """A model without errors and negative noise: the interval must not shrink to a point."""
    within, beyond = share(1000, 0, LAPLACE), share(1000, -40, LAPLACE)
    assert beyond.value == beyond.high == 1
    assert 1 - beyond.low > 0.5 * (within.high - within.low)


def test_mean_of_a_sample_has_the_interval_of_a_normal_distribution():
    rng = np.random.default_rng(0)
    values = np.array([0.0, 1.0, 3.0])
    counts = rng.multinomial(5000, [0.5, 0.3, 0.2])
    cells = Cells.of_counts(counts, EXACT)
    found = ratio(cells, Sum.of(cells, values), Sum.of(cells, np.ones(3)), 0.95, (0.0, 3.0))
    sample = np.repeat(values, counts)
    reach = 1.96 * sample.std() / math.sqrt(5000)
    assert found.value == pytest.approx(sample.mean())
    assert (found.low, found.high) == pytest.approx((found.value - reach, found.value + reach), abs=0.003)


def test_quantile_of_one_laplace_variable_is_on_the_safe_side():
    exact = stats.laplace.ppf(0.975) / stats.laplace.std()
    assert exact <= corrected_quantile(0.95, 1.0, 3.0) < 1.03 * exact
    assert corrected_quantile(0.95, 1.0, 0.0) == corrected_quantile(0.95, 0.0, 0.0) == normal_quantile(0.95)
    assert normal_quantile(0.95) == pytest.approx(1.959964)


def share_part(right, n, deviation=0.0):
    """Return a share without sampling, whose denominator is exact or has independent noise."""
    return Part(Ratio(right, n, Covariance(deviation**2, 0.0, 0.0), Covariance(0, 0, 0), 0.0))


def test_sides_of_well_known_shares_add_up_as_squares():
    found = mean_of_shares([share_part(60, 100, 3), share_part(140, 200, 8)], 0.95)
    assert found.value == pytest.approx(0.65)
    reach = normal_quantile(0.95) * math.hypot(0.03, 0.04) / 2
    assert (found.low, found.high) == pytest.approx((0.65 - reach, 0.65 + reach))


def test_shares_with_doubtful_denominators_add_up_and_unknown_ones_may_be_anything():
    sure = share_part(60, 100, 3)
    doubtful = Part(Ratio(30.0, 50.0, Covariance(0, 0, 10.0**2), Covariance(0, 0, 0), 0.0))
    nothing = Part(Ratio(3.0, 5.0, Covariance(0, 0, 10.0**2), Covariance(0, 0, 0), 0.0))
    found = mean_of_shares([sure, doubtful], 0.95)
    low, high = doubtful.ratio.limits(0.6, 1 - 0.05 / 4)
    reach = normal_quantile(0.975) * 0.03
    assert found.value == pytest.approx(0.6)
    assert (found.low, found.high) == pytest.approx(((0.6 - reach + low) / 2, (0.6 + reach + high) / 2))
    found = mean_of_shares([sure, nothing], 0.95)
    assert found.value is None
    assert (found.low, found.high) == pytest.approx(((0.6 - reach) / 2, (0.6 + reach + 1) / 2))
    assert mean_of_shares([nothing, nothing], 0.95) == Estimate(None, 0.0, 1.0)


def test_projected_shares_add_up_to_one_within_their_intervals():
    shares = [Estimate(0.9, 0.8, 1.0), Estimate(0.3, 0.2, 0.4), Estimate(0.01, 0.0, 0.1)]
    found = adding_up_to_one(shares)
    assert [e.value for e in found] == pytest.approx([0.8, 0.2, 0.0])
    assert all(e.low <= e.value <= e.high for e in found)
    unknown = [Estimate(None, 0.0, 1.0), shares[0]]
    assert adding_up_to_one(unknown) == unknown


def test_intervals_allow_for_dependent_records_of_a_person():
    one, many = (Cells.of_counts(np.array([6000, 4000]), TableNoise(0.0, 0.0, k)) for k in (1, 9))
    sums = [(Sum.of(c, np.array([1.0, 0.0])), Sum.of(c, np.ones(2))) for c in (one, many)]
    for is_share in (True, False):
        narrow, wide = (ratio(c, *s, 0.95, is_share=is_share) for c, s in zip((one, many), sums, strict=True))
        assert wide.high - wide.low == pytest.approx(3 * (narrow.high - narrow.low), rel=0.2)


def test_estimate_is_unknown_where_its_interval_has_all_values():
    bounds = (0.0, 9.0)
    assert Estimate.within(1.5, 0, 4, bounds) == Estimate(1.5, 0, 4)
    assert Estimate.within(1.5, 0, 9, bounds) == Estimate(None, 0, 9)


PLANS = {
    "one class": lambda epsilon: plan_of_classes(1, epsilon),
    "two classes": lambda epsilon: plan_of_classes(2, epsilon),
    "five classes": lambda epsilon: plan_of_classes(5, epsilon),
    "numbers": plan_of_numbers,
}


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(7, 3), math.inf])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_every_plan_adds_up_to_epsilon(plan, epsilon):
    assert sum(charge.total for charge in plan(epsilon)) == epsilon
    assert all(str(charge.sensitivity) == f"L1 sensitivity {charge.sensitivity.n}" for charge in plan(epsilon))


def test_each_table_is_charged_when_it_is_released_and_once():
    account = open_account(Fraction(1))
    tables = TableReleases(plan_of_classes(2, Fraction(1)), account, RandomSource(0))
    assert tables.epsilon_of_next() == Fraction(1, 3)
    tables.release(np.zeros(4, dtype=np.int64))
    assert so_far(account).total == Fraction(1, 3)
    tables.release(np.zeros((2, 9), dtype=np.int64))
    assert so_far(account).total == 1
    with pytest.raises(IndexError):
        tables.release(np.zeros(4, dtype=np.int64))


def released(epsilon, sensitivity, draws=40_000):
    charge = table_charge("a table", epsilon, Fraction(1), sensitivity, "")
    tables = TableReleases([charge], open_account(epsilon), RandomSource(5))
    return tables.release(np.full(draws, 7, dtype=np.int64), sensitivity)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(Fraction(1, 3), 1), (Fraction(2), 4)])
def test_tables_have_the_noise_that_was_charged(epsilon, sensitivity):
    counts, noise = released(epsilon, sensitivity)
    drawn = np.rint(counts * sensitivity).astype(int) - 7
    values = np.arange(-40, 41)
    assert np.var(counts) == pytest.approx(noise.variance, rel=0.1)

    def follows(epsilon):
        inner = [float(discrete_laplace_pmf(int(x), epsilon, sensitivity)[0]) for x in values]
        found = [int((drawn == x).sum()) for x in values]
        return fits([*found, len(drawn) - sum(found)], [*inner, 1 - sum(inner)])

    assert follows(epsilon)
    assert not follows(epsilon / TOO_LITTLE_NOISE)


def test_without_noise_a_table_is_exact():
    counts, noise = released(math.inf, 2, 10)
    assert counts.tolist() == [3.5] * 10
    assert noise.variance == 0
