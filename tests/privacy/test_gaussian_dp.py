"""Bounds of the normal distribution: they contain it, they are tight, and no rounding goes the wrong way.

Gaussian DP and (epsilon, delta): bounds on the safe side, tight, and the same as other accountants'.
"""

import math
from fractions import Fraction
from statistics import NormalDist

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime.privacy import gaussian_dp
from diprime.privacy.gaussian_dp import (
    BITS,
    ONE,
    Interval,
    covers,
    delta_upper_bound,
    epsilon_below,
    epsilon_of_loss,
    epsilon_upper_bound,
    exp_of_minus,
    gaussian_as_pure,
    gaussian_budget,
    is_covered_by_some_epsilon,
    is_proven,
    mills_ratio,
    pure_as_gaussian,
    pure_is_gaussian,
    square_root,
    upper_tail,
)
from diprime.privacy.measures import PrivacyLoss
from tests.exact_exp import exp_bounds

mpmath.mp.prec = 1200
few = settings(deadline=None, max_examples=40)


def exactly(x):
    """Return a fraction as a number of mpmath, which has 1200 bits here."""
    return mpmath.mpf(x.numerator) / x.denominator


def assert_tight(interval, true_value, *, lost_bits):
    """Check that an interval contains a number, and that it has lost no more than some bits."""
    low, high = (exactly(bound) for bound in interval.fractions())
    assert low <= true_value <= high
    assert interval.high - interval.low < 1 << lost_bits


def tail(x):
    return mpmath.erfc(exactly(x) / mpmath.sqrt(2)) / 2


positive = st.fractions(0, 1000) | st.fractions(0, 8) | st.fractions(0, Fraction(1, 10**6))


@given(positive, positive)
@few
def test_arithmetic_rounds_outwards(a, b):
    x, y = Interval.around(a), Interval.around(b)
    for interval, expected in [(x.plus(y), a + b), (x.minus(y), a - b), (x.times(y), a * b), (x, a)]:
        low, high = interval.fractions()
        assert low <= expected <= high
        assert interval.high - interval.low < 4 + 2 * (a + b)
    if b > Fraction(1, 10**9):
        low, high = x.over(y).fractions()
        assert low <= a / b <= high
        assert high - low < Fraction(1, 1 << 200)


@given(positive)
@example(Fraction(0))
@example(Fraction(2))
@few
def test_square_roots_are_between_their_bounds(value):
    low, high = square_root(value).fractions()
    assert low**2 <= value <= high**2
    assert high - low <= Fraction(1, 1 << (BITS // 2 - 2))


@given(positive | st.fractions(0, 250))
@example(Fraction(0))
@example(Fraction(BITS))
@example(Fraction(BITS) + Fraction(1, 10**9))
@few
def test_exponentials_are_between_their_bounds(exponent):
    assert_tight(exp_of_minus(exponent), mpmath.exp(-exactly(exponent)), lost_bits=16)
    low, high = exp_bounds(exponent)  # and between bounds that no library took part in
    assert exp_of_minus(exponent).fractions()[0] <= 1 / low
    assert exp_of_minus(exponent).fractions()[1] >= 1 / high


EDGES = [
    Fraction(x) for x in ("0", "1/1000000", "1/2", "1", "5", "79/10", "8", "8.0000001", "81/10", "12", "21", "400")
]


@pytest.mark.parametrize("x", EDGES)
def test_tails_at_the_edges(x):
    at = math.floor(x * ONE)
    x = Fraction(at, ONE)
    assert_tight(upper_tail(at), tail(x), lost_bits=60)
    assert_tight(upper_tail(-at), tail(-x), lost_bits=60)
    ratio = mills_ratio(at)
    low, high = (exactly(bound) for bound in ratio.fractions())
    true_ratio = tail(x) / mpmath.npdf(exactly(x))
    assert low <= true_ratio <= high
    assert (high - low) / true_ratio < mpmath.mpf(2) ** -80


@given(st.fractions(-40, 40) | st.fractions(-3, 3))
@few
def test_tails_are_between_their_bounds(x):
    at = math.floor(x * ONE)
    assert_tight(upper_tail(at), tail(Fraction(at, ONE)), lost_bits=60)
    low, high = upper_tail(at).fractions()
    assert float(low) == pytest.approx(NormalDist().cdf(-float(x)), rel=1e-9, abs=1e-15)
    assert low >= 0
    assert high <= 1


MILLIONTH = Fraction(1, 10**6)
fewer = settings(deadline=None, max_examples=30)


def powers(low, high):
    """Return fractions that are spread evenly over powers of ten."""
    return st.builds(
        lambda digits, exponent: Fraction(digits, 1000) * Fraction(10) ** exponent,
        st.integers(1000, 9999),
        st.integers(low, high),
    )


epsilons = powers(-6, 3)
mus_squared = powers(-12, 4)
deltas = powers(-30, -2)


def exact_delta(mu_squared, epsilon):
    """Return delta with 1500 bits, by the published formula as it stands."""
    with mpmath.workprec(1500):
        mu = mpmath.sqrt(mpmath.mpf(mu_squared.numerator) / mu_squared.denominator)
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        return mpmath.ncdf(-e / mu + mu / 2) - mpmath.exp(e) * mpmath.ncdf(-e / mu - mu / 2)


def assert_bounds(mu_squared, epsilon):
    bound, true_delta = delta_upper_bound(mu_squared, epsilon), exact_delta(mu_squared, epsilon)
    with mpmath.workprec(1500):
        excess = mpmath.mpf(bound.numerator) / bound.denominator - true_delta
        assert 0 <= excess <= true_delta * mpmath.mpf(2) ** -50 + mpmath.mpf(2) ** -250


@given(mus_squared, epsilons)
@settings(deadline=None, max_examples=50)
def test_delta_is_bounded_from_above_and_closely(mu_squared, epsilon):
    assert_bounds(mu_squared, epsilon)


@given(deltas, epsilons)
@fewer
def test_delta_is_bounded_closely_where_budgets_are_looked_for(delta, epsilon):
    assert_bounds(gaussian_budget(epsilon, delta), epsilon)


@pytest.mark.parametrize(
    "mu_squared", [Fraction(1, 10**12), Fraction(1, 100), Fraction(1), Fraction(16), Fraction(10**5)]
)
@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 10**6), Fraction(1), Fraction(40), Fraction(5000)])
def test_delta_at_the_edges_of_the_ranges(mu_squared, epsilon):
    assert_bounds(mu_squared, epsilon)


@given(mus_squared, epsilons, st.fractions(1, 3))
@fewer
def test_delta_grows_with_mu_and_falls_with_epsilon(mu_squared, epsilon, factor):
    slack = 1 + Fraction(1, 1 << 50), Fraction(1, 1 << 240)
    delta = delta_upper_bound(mu_squared, epsilon)
    assert delta <= delta_upper_bound(mu_squared * factor, epsilon) * slack[0] + slack[1]
    assert delta_upper_bound(mu_squared, epsilon * factor) <= delta * slack[0] + slack[1]
    assert 0 <= delta <= 1


def test_no_loss_has_no_delta_and_an_infinite_loss_has_delta_one():
    assert delta_upper_bound(Fraction(0), Fraction(0)) == 0
    assert delta_upper_bound(math.inf, Fraction(5)) == 1
    assert delta_upper_bound(Fraction(3), math.inf) == 0
    assert delta_upper_bound(Fraction(1 << 24), Fraction(1)) == 1
    for negative in [(Fraction(-1), Fraction(1)), (Fraction(1), Fraction(-1))]:
        with pytest.raises(ValueError, match="negative"):
            delta_upper_bound(*negative)


@given(st.sampled_from([Fraction(1, 10**60), Fraction(3, 10**300)]), epsilons)
@fewer
def test_a_tiny_loss_is_rounded_to_the_safe_side(mu_squared, epsilon):
    assert delta_upper_bound(mu_squared, epsilon) >= exact_delta(mu_squared, epsilon)


@pytest.mark.parametrize("epsilon", [Fraction(1 << 20) + 1, Fraction(10**9), Fraction(10**300)])
def test_a_huge_epsilon_is_taken_for_a_smaller_one(epsilon):
    for mu_squared in (Fraction(1), Fraction(1 << 21)):
        assert delta_upper_bound(mu_squared, epsilon) == delta_upper_bound(mu_squared, Fraction(1 << 20))


# Budgets -------------------------------------------------------------------------------------------------------------


def test_the_budget_of_the_design():
    assert float(gaussian_budget(Fraction(1), MILLIONTH)) / 2 == pytest.approx(0.02801, abs=5e-6)


@given(epsilons | powers(4, 5), deltas)
@fewer
def test_a_budget_is_the_largest_that_is_proven(epsilon, delta):
    budget = gaussian_budget(epsilon, delta)
    assert delta_upper_bound(budget, epsilon) <= delta
    assert delta_upper_bound(budget * (1 + Fraction(1, 1 << 28)), epsilon) > delta
    significant = budget.numerator // (budget.numerator & -budget.numerator)
    assert significant.bit_length() <= gaussian_dp.BUDGET_BITS
    assert budget.denominator & (budget.denominator - 1) == 0


def test_budgets_at_the_ends():
    assert gaussian_budget(math.inf, Fraction(0)) == math.inf
    assert gaussian_budget(math.inf, MILLIONTH) == math.inf
    assert gaussian_budget(Fraction(1), Fraction(0)) == 0
    assert gaussian_budget(Fraction(0), Fraction(1, 10**40)) == 0  # not even 2^-160 has so small a delta
    assert 0 < gaussian_budget(Fraction(0), MILLIONTH) < MILLIONTH
    assert gaussian_budget(Fraction(10**9), MILLIONTH) == gaussian_budget(Fraction(1 << 20), MILLIONTH)


@given(mus_squared, deltas)
@fewer
def test_the_epsilon_of_a_loss_is_proven_and_close(mu_squared, delta):
    epsilon = epsilon_upper_bound(mu_squared, delta)
    assert delta_upper_bound(mu_squared, epsilon) <= delta
    if epsilon > Fraction(1, 1 << 58):
        assert delta_upper_bound(mu_squared, epsilon * (1 - Fraction(1, 1 << 18))) > delta


def test_epsilons_at_the_ends():
    assert epsilon_upper_bound(Fraction(0), Fraction(0)) == 0
    assert epsilon_upper_bound(Fraction(1), Fraction(0)) == math.inf
    assert epsilon_upper_bound(math.inf, MILLIONTH) == math.inf
    assert epsilon_upper_bound(Fraction(1, 10**20), MILLIONTH) == 0  # delta(0) is smaller than that
    assert epsilon_upper_bound(Fraction(1 << 22), MILLIONTH) == math.inf
    assert epsilon_upper_bound(Fraction(1 << 20), MILLIONTH) < 1 << 20


def test_fractions_of_a_thousand_digits_are_rounded_first(monkeypatch):
    """To the safe side, so that a file with such fractions makes no more work than others."""
    exponents, density = [], gaussian_dp.density
    monkeypatch.setattr(gaussian_dp, "density", lambda exponent: exponents.append(exponent) or density(exponent))
    long = Fraction(10**999 + 7, 3**2094 + 1), Fraction(10**999 + 9, 10**998 + 1)
    assert_bounds(*long)
    assert exponents
    for exponent in exponents:
        assert exponent.numerator.bit_length() < 3000
        assert exponent.denominator.bit_length() < 3000


# Mixed losses --------------------------------------------------------------------------------------------------------


@given(epsilons, deltas, st.fractions(0, 1))
@fewer
def test_budget_covers_pure_charges_and_gaussian_ones_of_the_rest(epsilon, delta, share):
    pure = epsilon * share
    rest = gaussian_budget(epsilon - pure, delta)
    assert covers(epsilon, delta, PrivacyLoss(pure, rest))
    assert is_proven(epsilon, delta, PrivacyLoss(pure, rest))
    more = PrivacyLoss(pure, rest * (1 + Fraction(1, 1 << 28)) + Fraction(1, 1 << 158))
    assert not covers(epsilon, delta, more)
    assert not is_proven(epsilon, delta, more)
    assert covers(epsilon, delta, PrivacyLoss(epsilon))
    assert not covers(epsilon, delta, PrivacyLoss(epsilon + Fraction(1, 10**30)))
    assert not is_proven(epsilon, delta, PrivacyLoss(epsilon + Fraction(1, 10**30)))
    assert epsilon_of_loss(PrivacyLoss(pure, rest), epsilon, delta) == (epsilon if rest else pure)


def test_infinite_losses_and_budgets():
    infinite = [PrivacyLoss(math.inf), PrivacyLoss(Fraction(1), math.inf), PrivacyLoss(math.inf, math.inf)]
    for loss in infinite:
        assert covers(math.inf, Fraction(0), loss)
        assert is_proven(math.inf, Fraction(0), loss)
        assert not covers(Fraction(10**9), MILLIONTH, loss)
        assert epsilon_of_loss(loss, math.inf, MILLIONTH) == math.inf
        assert not is_covered_by_some_epsilon(loss, MILLIONTH)
    assert not is_covered_by_some_epsilon(PrivacyLoss(Fraction(0), Fraction(1)), Fraction(0))
    assert is_covered_by_some_epsilon(PrivacyLoss(Fraction(10**30)), Fraction(0))
    assert is_covered_by_some_epsilon(PrivacyLoss(Fraction(1), Fraction(1)), MILLIONTH)


def test_the_epsilon_of_a_loss_does_not_exceed_a_budget_that_covers_it():
    loss = PrivacyLoss(Fraction(1, 3), gaussian_budget(Fraction(1), MILLIONTH) * Fraction(99, 100))
    found = epsilon_of_loss(loss, Fraction(4, 3), MILLIONTH)
    assert Fraction(1, 3) + Fraction(99, 100) < found < Fraction(4, 3)
    assert found == epsilon_of_loss(loss, math.inf, MILLIONTH) == epsilon_of_loss(loss, Fraction(1, 2), MILLIONTH)
    assert is_proven(found, MILLIONTH, loss)


# Other accountants ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_delta_is_that_of_google_s_accounting(sigma, epsilon):
    accounting = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    expected = accounting.GaussianPrivacyLoss(sigma).get_delta_for_epsilon(epsilon)
    assert float(delta_upper_bound(1 / Fraction(sigma) ** 2, Fraction(epsilon))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_budgets_are_those_of_google_s_accounting(epsilon, delta):
    dp_accounting = pytest.importorskip("dp_accounting")
    sigma = dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert float(gaussian_budget(Fraction(epsilon), Fraction(delta))) == pytest.approx(1 / sigma**2, rel=1e-4)


def test_composition_matches_google_accounting():
    """Ten releases of different noise, by convolution of their losses, against one sum of μ²."""
    dp_accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    sigmas = [8 + i for i in range(10)]
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for sigma in sigmas:
        accountant.compose(dp_accounting.GaussianDpEvent(sigma))
    mu_squared = sum((Fraction(1, sigma**2) for sigma in sigmas), Fraction(0))
    expected = accountant.get_epsilon(1e-6)
    assert float(epsilon_upper_bound(mu_squared, MILLIONTH)) == pytest.approx(expected, rel=2e-3)


# -- pure releases as Gaussian ones ------------------------------------------------------------------------------------

pure_epsilons = powers(-4, 0)


def exact_mu_squared(epsilon):
    """Return the μ² at which the best tests for randomised response and for N(0, 1) against N(μ, 1) err alike."""
    with mpmath.workprec(1500):
        error = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator))
        half = mpmath.findroot(lambda x: mpmath.ncdf(-x) - error, float(mpmath.sqrt(epsilon)))
        return 4 * half**2


@given(pure_epsilons)
@fewer
def test_the_mu_of_a_pure_release_is_bounded_from_above_and_closely(epsilon):
    bound, exact = pure_as_gaussian(epsilon), exact_mu_squared(epsilon)
    with mpmath.workprec(1500):
        excess = mpmath.mpf(bound.numerator) / bound.denominator - exact
        assert 0 <= excess <= exact * mpmath.mpf(2) ** -28


@given(pure_epsilons, st.fractions(0, 3))
@fewer
def test_randomised_response_has_no_more_delta_than_its_mu_at_any_epsilon(epsilon, share):
    """Pure DP is randomised response at worst: its hockey-stick divergence must be below that of the Gaussian."""
    at = epsilon * share
    delta = max(0.0, math.exp(epsilon) - math.exp(at)) / (1 + math.exp(epsilon))
    assert delta <= float(delta_upper_bound(pure_as_gaussian(epsilon), at)) * (1 + 1e-9)


def test_three_quarters_of_the_mu_of_a_pure_release_would_not_do():
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(3)):
        mu_squared = pure_as_gaussian(epsilon) * Fraction(9, 16)
        assert not pure_is_gaussian(epsilon, mu_squared)
        shares = [i / 200 for i in range(200)]
        pairs = [(epsilon * Fraction(share).limit_denominator(200), share) for share in shares]
        assert any(
            (math.exp(epsilon) - math.exp(at)) / (1 + math.exp(epsilon)) > float(delta_upper_bound(mu_squared, at))
            for at, _ in pairs
        )


@given(pure_epsilons)
@fewer
def test_the_epsilon_of_a_mu_is_covered_by_it_and_close(epsilon):
    mu_squared = pure_as_gaussian(epsilon)
    back = gaussian_as_pure(mu_squared)
    assert pure_is_gaussian(back, mu_squared)
    assert epsilon * (1 - Fraction(1, 1 << 18)) <= back <= epsilon * (1 + Fraction(1, 1 << 18))


@given(mus_squared, deltas)
@fewer
def test_the_budget_just_below_a_mu_is_below_it(mu_squared, delta):
    below = epsilon_below(mu_squared, delta)
    if below:
        assert gaussian_budget(below, delta) < mu_squared
        if below < 1 << 20:
            assert delta_upper_bound(mu_squared, below * (1 + Fraction(1, 1 << 19))) <= delta
