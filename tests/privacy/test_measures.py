"""Measures: an epsilon is the fraction that its digits say, and adds up exactly."""

import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.privacy.measures import (
    ApproximateDP,
    GaussianDP,
    PrivacyLoss,
    PureEpsilon,
    epsilon_from_text,
    exact_delta,
    exact_epsilon,
    exact_text,
    exp_upper_bound,
    rounded_text,
    share_of,
)
from tests.exact_exp import exp_bounds

positive = st.fractions(min_value=Fraction(1, 10**6), max_value=100)


@pytest.mark.parametrize(
    ("given_epsilon", "expected"),
    [
        (0.1, Fraction(1, 10)),
        (0.3, Fraction(3, 10)),
        (1e-9, Fraction(1, 10**9)),
        (1e22, Fraction(10**22)),
        (3, Fraction(3)),
        (2.5, Fraction(5, 2)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Fraction(10**40, 3), Fraction(10**40, 3)),
        (Decimal("0.1"), Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int64(4), Fraction(4)),
        (1e-200, Fraction(1, 10**200)),
        pytest.param(10**200, Fraction(10**200), id="10^200"),
    ],
)
def test_epsilon_is_the_fraction_that_its_digits_say(given_epsilon, expected):
    exact = exact_epsilon(given_epsilon)
    assert exact == expected
    assert isinstance(exact, Fraction)


@pytest.mark.parametrize(
    "extreme",
    [
        pytest.param(10**400, id="10^400"),
        Fraction(1, 10**400),
        1e201,
        5e-324,
        Decimal("1e400"),
        Decimal("1e-400"),
        Decimal("1e999999999"),
        Decimal("1e-999999999"),
        np.longdouble("1e300"),
    ],
)
def test_an_epsilon_that_floats_cannot_compute_with_is_refused(extreme):
    """It must not become infinite, or zero, without a word."""
    with pytest.raises(ValueError, match=r"^epsilon .*1e-200 to 1e200, or infinity"):
        exact_epsilon(extreme)


@pytest.mark.parametrize("infinite", [math.inf, np.inf, np.float32("inf"), Decimal("Infinity")])
def test_infinity_means_no_privacy(infinite):
    assert exact_epsilon(infinite) == math.inf
    assert not isinstance(exact_epsilon(infinite), Fraction)


@pytest.mark.parametrize(
    "bad", [0, 0.0, -0.0, -1, -math.inf, math.nan, Fraction(0), Fraction(-1, 2), np.float64("nan"), Decimal("NaN")]
)
def test_an_epsilon_that_is_not_positive_is_refused(bad):
    with pytest.raises(ValueError, match=rf"^epsilon .*positive number.*got {re.escape(repr(bad))}"):
        exact_epsilon(bad)


@pytest.mark.parametrize("bad", [True, False, np.True_, "1", b"1", None, [1.0], {}, 1j, object()])
def test_an_epsilon_that_is_no_number_is_refused(bad):
    with pytest.raises(TypeError, match=rf"^epsilon .*positive number.*got {re.escape(repr(bad))}"):
        exact_epsilon(bad)


@given(positive, st.fractions(0, 1))
@settings(deadline=None)
def test_shares_are_exact(epsilon, share):
    assert share_of(epsilon, share) + share_of(epsilon, 1 - share) == epsilon


# Pure epsilon --------------------------------------------------------------------------------------------------------


@given(positive, st.integers(0, 100))
@settings(deadline=None)
def test_the_epsilons_of_releases_add_up(epsilon, n):
    assert PureEpsilon(epsilon).times(n) == sum([epsilon] * n)


def test_releases_without_noise_cost_infinity_and_no_release_costs_nothing():
    assert PureEpsilon(math.inf).times(3) == math.inf
    for epsilon in (Fraction(0), Fraction(1), math.inf):
        assert PureEpsilon(epsilon).times(0) == 0


@pytest.mark.parametrize("given_epsilon", [1, 0, 0.1, Fraction(1, 3), math.inf, Decimal("0.1"), np.float64(0.1)])
def test_costs_are_fractions_or_infinity(given_epsilon):
    epsilon = PureEpsilon(given_epsilon).epsilon
    assert isinstance(epsilon, Fraction) or epsilon == math.inf
    assert float(epsilon) == float(given_epsilon)
    assert epsilon_from_text(exact_text(epsilon), "it") == epsilon


@pytest.mark.parametrize("bad", [-1, Fraction(-1, 2), -math.inf, math.nan, Decimal("NaN")])
def test_a_cost_that_no_budget_could_refuse_is_an_error(bad):
    """A negative cost would give budget back; a comparison with NaN is never true."""
    with pytest.raises(ValueError, match="positive"):
        PureEpsilon(bad)


# Gaussian DP ---------------------------------------------------------------------------------------------------------


@given(positive, st.integers(0, 100))
@settings(deadline=None)
def test_the_squares_of_mu_add_up(mu_squared, n):
    assert GaussianDP(mu_squared).times(n) == sum([mu_squared] * n)
    assert GaussianDP(mu_squared).loss(n) == PrivacyLoss(Fraction(0), mu_squared * n)
    assert PureEpsilon(mu_squared).loss(n) == PrivacyLoss(mu_squared * n, Fraction(0))


def test_gaussian_releases_without_noise_cost_infinity_and_no_release_costs_nothing():
    assert GaussianDP(math.inf).times(3) == math.inf
    for mu_squared in (Fraction(0), Fraction(1), math.inf):
        assert GaussianDP(mu_squared).times(0) == 0
        assert GaussianDP(mu_squared).loss(0) == PrivacyLoss()


@pytest.mark.parametrize("bad", [-1, Fraction(-1, 2), -math.inf, math.nan, Decimal("NaN")])
def test_a_mu_that_no_budget_could_refuse_is_an_error(bad):
    with pytest.raises(ValueError, match="positive"):
        GaussianDP(bad)


def test_a_mu_is_the_fraction_that_its_digits_say_and_does_not_change():
    assert GaussianDP(0.1).mu_squared == GaussianDP(0.1).cost == Fraction(1, 10)
    with pytest.raises(AttributeError):
        GaussianDP(1).mu_squared = Fraction(0)
    assert GaussianDP(1) != PureEpsilon(1)


# Losses --------------------------------------------------------------------------------------------------------------


def test_losses_add_up_by_measure_and_the_larger_bounds_both():
    first, second = PrivacyLoss(Fraction(1), Fraction(1, 3)), PrivacyLoss(Fraction(1, 2), Fraction(2))
    assert first + second == PrivacyLoss(Fraction(3, 2), Fraction(7, 3))
    assert first.or_larger(second) == PrivacyLoss(Fraction(1), Fraction(2))
    assert first + PrivacyLoss(mu_squared=math.inf) == PrivacyLoss(Fraction(1), math.inf)


def test_a_group_costs_its_size_in_epsilon_and_in_mu():
    assert PrivacyLoss(Fraction(1), Fraction(1, 3)).for_units(2) == PrivacyLoss(Fraction(2), Fraction(4, 3))
    assert PrivacyLoss(Fraction(1), Fraction(1, 3)).for_units(5) == PrivacyLoss(Fraction(5), Fraction(25, 3))


def test_the_delta_of_a_group_grows_with_e_to_the_epsilon():
    tiny = Fraction(1, 10**9)
    loss = PrivacyLoss(Fraction(1), delta=tiny)
    assert loss.for_units(1) == loss
    assert float(loss.for_units(3).delta) == pytest.approx(1e-9 * (1 + math.e + math.e**2))
    assert float(PrivacyLoss(delta=tiny).for_units(4).delta) == pytest.approx(4e-9)
    assert PrivacyLoss(math.inf, delta=tiny).for_units(2) == PrivacyLoss(math.inf, delta=Fraction(1))


# Delta ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_delta", "expected"),
    [
        (1e-6, Fraction(1, 10**6)),
        (0, Fraction(0)),
        (0.0, Fraction(0)),
        (np.float64(0.1), Fraction(1, 10)),
        (Decimal("1e-30"), Fraction(1, 10**30)),
        (Fraction(1, 3), Fraction(1, 3)),
    ],
)
def test_delta_is_the_fraction_that_its_digits_say(given_delta, expected):
    assert exact_delta(given_delta) == expected
    assert isinstance(exact_delta(given_delta), Fraction)


@pytest.mark.parametrize("bad", [1, 1.0, -1e-9, math.nan, math.inf, Fraction(3, 2), Decimal("NaN")])
def test_a_delta_that_is_no_probability_is_refused(bad):
    with pytest.raises(ValueError, match=rf"^delta .*0 to below 1, got {re.escape(repr(bad))}"):
        exact_delta(bad)


@pytest.mark.parametrize("bad", [True, "1e-6", None, [0.1]])
def test_a_delta_that_is_no_number_is_refused(bad):
    with pytest.raises(TypeError, match=rf"^delta .*0 to below 1, got {re.escape(repr(bad))}"):
        exact_delta(bad)


@pytest.mark.parametrize("bad", ["", "-1", "1/0", "1e999999999", "0.1", " 1", "1/-2", "nan", "infinity", "1" * 1001])
def test_text_that_is_no_fraction_is_refused(bad):
    with pytest.raises(ValueError, match=r"^it .*fraction"):
        epsilon_from_text(bad, "it")


def test_releases_with_a_delta_add_up():
    assert ApproximateDP(0.5, 1e-6).loss(3) == PrivacyLoss(Fraction(3, 2), Fraction(0), Fraction(3, 10**6))
    loss = ApproximateDP(1, 0.25).loss(1) + PureEpsilon(Fraction(2)).loss(1) + GaussianDP(Fraction(3)).loss(1)
    assert loss == PrivacyLoss(Fraction(3), Fraction(3), Fraction(1, 4))
    assert loss.or_larger(PrivacyLoss(Fraction(9), Fraction(0), Fraction(1, 2))) == PrivacyLoss(
        Fraction(9), Fraction(3), Fraction(1, 2)
    )


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 7), Fraction(3), Fraction(100)])
def test_the_delta_of_a_group_is_bounded_from_above(epsilon):
    low, high = exp_bounds(epsilon)
    assert low <= exp_upper_bound(epsilon) <= high * (1 + Fraction(1, 10**30))
    of_two = PrivacyLoss(epsilon, delta=Fraction(1, 10**60)).for_units(2)
    assert of_two.epsilon == 2 * epsilon
    assert (1 + low) / 10**60 <= of_two.delta <= (1 + high) * (1 + Fraction(1, 10**30)) / 10**60
    assert PrivacyLoss(Fraction(5000), delta=Fraction(1, 10)).for_units(3).delta == 1


# Texts ---------------------------------------------------------------------------------------------------------------


@given(positive, st.integers(1, 8))
def test_costs_are_never_shown_smaller_than_they_are(cost, digits):
    shown = Fraction(rounded_text(cost, digits))
    assert cost <= shown <= cost * (1 + Fraction(1, 10 ** (digits - 1)))
