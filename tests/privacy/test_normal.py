"""Bounds of the normal distribution: they contain it, they are tight, and no rounding goes the wrong way."""

import math
from fractions import Fraction
from statistics import NormalDist

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime.privacy.normal import (
    BITS,
    ONE,
    Interval,
    _inverse_root_of_two_pi,
    density,
    exp_of_minus,
    mills_ratio,
    square_root,
    upper_tail,
)
from tests.exact_exp import exp_bounds

mpmath.mp.prec = 1200
few = settings(deadline=None, max_examples=60)


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


@pytest.mark.parametrize("wide", [Interval(3 * ONE, 5 * ONE)])
def test_arithmetic_takes_the_worst_of_what_is_between_bounds(wide):
    other = Interval(2 * ONE, 4 * ONE)
    assert wide.plus(other) == Interval(5 * ONE, 9 * ONE)
    assert wide.minus(other) == Interval(-ONE, 3 * ONE)
    assert wide.times(other) == Interval(6 * ONE, 20 * ONE)
    assert wide.over(other) == Interval(3 * ONE // 4, 5 * ONE // 2)


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


def test_the_constant_of_the_density():
    assert_tight(_inverse_root_of_two_pi(), 1 / mpmath.sqrt(2 * mpmath.pi), lost_bits=10)


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


@given(st.fractions(0, 20))
@few
def test_densities_are_between_their_bounds(x):
    assert_tight(density(x**2 / 2), mpmath.npdf(exactly(x)), lost_bits=16)
