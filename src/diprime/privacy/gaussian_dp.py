"""Gaussian differential privacy and (epsilon, delta): proven conversions, in integers.

A release is μ-Gaussian DP if telling neighbours apart by it is at least as hard as telling N(0, 1) from N(μ, 1) by one
draw (Dong, Roth and Su 2019). This is the same as being (ε, δ)-DP for all ε >= 0 at once, with

    δ(ε) = Φ(-ε/μ + μ/2) - e^ε·Φ(-ε/μ - μ/2).

δ falls as ε grows, and grows with μ. So it is safe to compute it for a smaller ε and for a larger μ, as is done with
inputs beyond the ranges below. All bounds come from :mod:`~diprime.privacy.normal`: no float decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from diprime.privacy.measures import Epsilon, PrivacyLoss
from diprime.privacy.normal import BITS, ONE, Interval, density, exp_of_minus, mills_ratio, square_root, upper_tail

BUDGET_BITS = 30
"""How many significant bits the μ² of a budget has."""
EPSILON_BITS = 20
"""How many significant bits the ε of a report has."""

MAX_EPSILON_BITS = 20
"""From ε = 2^20 on, δ is that of 2^20."""
_MAX_EPSILON = Fraction(1 << MAX_EPSILON_BITS)
_MIN_EPSILON_BITS = -60
_MAX_PURE = Fraction(BITS // 2)  # e^-160 has half of the bits left
# At μ² = 2^23 and ε = 2^20, δ differs from one by less than 2^-1000.
_MAX_MU_SQUARED_BITS = 23
_MIN_MU_SQUARED_BITS = -160
_MAX_MU_SQUARED = Fraction(1 << _MAX_MU_SQUARED_BITS)
_MIN_MU_SQUARED = Fraction(1, 1 << -_MIN_MU_SQUARED_BITS)


@lru_cache(maxsize=1024)
def delta_upper_bound(mu_squared: Epsilon, epsilon: Epsilon) -> Fraction:
    """Return an upper bound of the delta at epsilon of μ-Gaussian DP.

    Where delta is above 2^-200, it exceeds delta by less than 2^-50 of it.

    Parameters
    ----------
    mu_squared : Fraction or inf
        The loss, μ². Below 2^-160 it is taken to be 2^-160; above 2^23 the bound is one.
    epsilon : Fraction or inf
        The epsilon, from 0 on. Above 2^20 it is taken to be 2^20.

    Examples
    --------
    >>> round(float(delta_upper_bound(Fraction(1), Fraction(1))), 6)
    0.126937
    """
    if epsilon < 0 or mu_squared < 0:
        raise ValueError("Neither epsilon nor the square of mu can be negative.")
    if epsilon == math.inf or mu_squared == 0:
        return Fraction(0)
    if mu_squared > _MAX_MU_SQUARED:
        return Fraction(1)
    # Fractions of any length become short ones, rounded to the safe side, so that no input takes long.
    square = _round_up(max(Fraction(mu_squared), _MIN_MU_SQUARED), BITS)
    epsilon = _round_down(min(Fraction(epsilon), _MAX_EPSILON), BITS)
    mu = square_root(square)
    quotient = Interval.around(epsilon).over(mu)
    low = quotient.low - -(-mu.high >> 1)  # of ε/μ - μ/2, which is the larger the smaller δ
    high = quotient.high + -(-mu.high >> 1)  # of ε/μ + μ/2
    # e^ε·Φ(-ε/μ - μ/2) = φ(ε/μ - μ/2)·(1 - Φ(b))/φ(b) with b = ε/μ + μ/2: no large numbers, and an exact exponent.
    subtracted = density((epsilon - square / 2) ** 2 / (2 * square)).times(mills_ratio(high))
    return Fraction(min(upper_tail(low).high - subtracted.low, ONE), ONE)


@lru_cache(maxsize=1024)
def gaussian_budget(epsilon: Epsilon, delta: Fraction) -> Epsilon:
    """Return the largest μ² of 30 significant bits that is (epsilon, delta)-DP; inf at epsilon = inf.

    It is zero if delta is, and where not even 2^-160 is. Above 2^20, epsilon is taken to be 2^20.

    Examples
    --------
    >>> round(float(gaussian_budget(Fraction(1), Fraction(1, 10**6))), 6)
    0.056029
    """
    if epsilon == math.inf:
        return math.inf
    return _largest(
        lambda mu_squared: delta_upper_bound(mu_squared, epsilon) <= delta,
        BUDGET_BITS,
        range(_MIN_MU_SQUARED_BITS, _MAX_MU_SQUARED_BITS),
    )


@lru_cache(maxsize=1024)
def epsilon_upper_bound(mu_squared: Epsilon, delta: Fraction) -> Epsilon:
    """Return an epsilon, rounded up to 20 significant bits, at which μ-Gaussian DP has at most this delta.

    It is inf where no epsilon below 2^20 suffices.

    Examples
    --------
    >>> round(float(epsilon_upper_bound(Fraction(1), Fraction(1, 10**6))), 4)
    4.8866
    """
    if delta_upper_bound(mu_squared, Fraction(0)) <= delta:
        return Fraction(0)
    if delta_upper_bound(mu_squared, _MAX_EPSILON) > delta:
        return math.inf
    below = epsilon_below(mu_squared, delta)  # the largest epsilon that does not suffice; the next one does
    return _next_up(below, EPSILON_BITS) if below else Fraction(2) ** _MIN_EPSILON_BITS


def is_proven(epsilon: Epsilon, delta: Fraction, loss: PrivacyLoss) -> bool:
    """Return whether releases of this loss are provably (epsilon, delta)-DP, by one bound of delta.

    With E and D the sums of the other epsilons and deltas, this holds if μ is (epsilon - E, delta - D)-DP.
    """
    if epsilon == math.inf or loss.epsilon > epsilon:
        return epsilon == math.inf
    return delta_upper_bound(loss.mu_squared, epsilon - loss.epsilon) <= delta - loss.delta


def covers(epsilon: Epsilon, delta: Fraction, loss: PrivacyLoss) -> bool:
    """Return whether a budget covers a loss: whether μ² is within what :func:`gaussian_budget` says of epsilon - E.

    The budget is computed once for each E, so this is fast for many charges.
    """
    if epsilon == math.inf or loss.epsilon > epsilon:
        return epsilon == math.inf
    rest = delta - loss.delta
    return rest >= 0 and (not loss.mu_squared or loss.mu_squared <= gaussian_budget(epsilon - loss.epsilon, rest))


def is_covered_by_some_epsilon(loss: PrivacyLoss, delta: Fraction) -> bool:
    """Return whether :func:`epsilon_of_loss` is finite, which is faster to tell than the epsilon."""
    return loss.epsilon < math.inf and delta_upper_bound(loss.mu_squared, _MAX_EPSILON) <= delta - loss.delta


def epsilon_of_loss(loss: PrivacyLoss, budget: Epsilon, delta: Fraction) -> Epsilon:
    """Return an epsilon at which releases of this loss are (epsilon, delta)-DP.

    Without Gaussian releases it is the sum of their epsilons. Otherwise it is an upper bound, which does not exceed an
    epsilon that covers them, the ``budget``, and which is the budget itself if nothing is left of that.
    """
    rest = delta - loss.delta
    if rest < 0:
        return math.inf
    if not loss.mu_squared or loss.epsilon == math.inf:
        return loss.epsilon
    if budget == math.inf or not covers(budget, delta, loss):
        return loss.epsilon + epsilon_upper_bound(loss.mu_squared, rest)
    if loss.mu_squared == gaussian_budget(budget - loss.epsilon, rest):
        return budget
    return min(budget, loss.epsilon + epsilon_upper_bound(loss.mu_squared, rest))


def pure_is_gaussian(epsilon: Epsilon, mu_squared: Epsilon) -> bool:
    """Return whether whatever is epsilon-DP is provably μ-Gaussian DP.

    It is if Φ(-μ/2) is at most 1/(1 + e^ε). That is the error, of either kind, of the best test between the two answers
    of randomised response, to which pure DP is equivalent, and Φ(-μ/2) is that of the best test between N(0, 1) and
    N(μ, 1). The error of the one kind that a test must have, given that of the other, is convex for both, and for
    randomised response consists of two straight lines that meet there (docs/privacy.md).

    Examples
    --------
    >>> pure_is_gaussian(Fraction(1), Fraction(3, 2)), pure_is_gaussian(Fraction(1), Fraction(8, 5))
    (False, True)
    """
    if not epsilon or mu_squared == math.inf:
        return True
    if epsilon > _MAX_PURE or mu_squared > _MAX_MU_SQUARED or not mu_squared:
        return False
    odds = exp_of_minus(_round_up(Fraction(epsilon), BITS))
    half_mu = square_root(_round_down(Fraction(mu_squared), BITS) / 4)
    # Φ(-μ/2) <= odds/(1 + odds), without the division
    return upper_tail(half_mu.low).high * (ONE + odds.low) <= odds.low * ONE


@lru_cache(maxsize=1024)
def pure_as_gaussian(epsilon: Epsilon) -> Epsilon:
    """Return a μ², rounded up to 30 significant bits, of which whatever is epsilon-DP is μ-Gaussian DP; inf if none is.

    Examples
    --------
    >>> round(float(pure_as_gaussian(Fraction(1, 10))), 6)
    0.015702
    """
    if not epsilon:
        return Fraction(0)
    if not pure_is_gaussian(epsilon, _MAX_MU_SQUARED):
        return math.inf
    # The largest μ² that does not suffice; the next one does.
    below = _largest(
        lambda mu_squared: not pure_is_gaussian(epsilon, mu_squared),
        BUDGET_BITS,
        range(_MIN_MU_SQUARED_BITS, _MAX_MU_SQUARED_BITS),
    )
    return _next_up(below, BUDGET_BITS) if below else _MIN_MU_SQUARED


@lru_cache(maxsize=1024)
def gaussian_as_pure(mu_squared: Epsilon) -> Epsilon:
    """Return the largest epsilon, of 20 significant bits, of which whatever is epsilon-DP is μ-Gaussian DP.

    Examples
    --------
    >>> round(float(gaussian_as_pure(Fraction(1, 100))), 4)
    0.0798
    """
    return _largest(
        lambda epsilon: pure_is_gaussian(epsilon, mu_squared),
        EPSILON_BITS,
        range(_MIN_EPSILON_BITS, MAX_EPSILON_BITS),
    )


def epsilon_below(mu_squared: Epsilon, delta: Fraction) -> Fraction:
    """Return an epsilon, 20 significant bits long, whose :func:`gaussian_budget` at this delta is below μ².

    It is the largest such number; there is none, and zero is returned, where μ² has at most this delta at once.

    Examples
    --------
    >>> round(float(epsilon_below(Fraction(1), Fraction(1, 10**6))), 4)
    4.8866
    """
    if mu_squared == math.inf or delta_upper_bound(mu_squared, _MAX_EPSILON) > delta:
        return _MAX_EPSILON
    return _largest(
        lambda epsilon: delta_upper_bound(mu_squared, epsilon) > delta,
        EPSILON_BITS,
        range(_MIN_EPSILON_BITS, MAX_EPSILON_BITS),
    )


def _largest(holds: Callable[[Fraction], bool], bits: int, exponents: range) -> Fraction:
    """Return the largest number of so many significant bits, of a range of exponents, for which ``holds``; else zero.

    What holds for a number must hold for all below.
    """
    low, high = exponents.start - 1, exponents.stop - 1  # 2^low holds (or stands for zero)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(Fraction(2) ** middle) else (low, middle - 1)
    if low < exponents.start:
        return Fraction(0)
    unit = Fraction(2) ** (low - bits + 1)
    mantissa = 1 << (bits - 1)
    for bit in range(bits - 2, -1, -1):
        if holds((mantissa | 1 << bit) * unit):
            mantissa |= 1 << bit
    return mantissa * unit


def _next_up(value: Fraction, bits: int) -> Fraction:
    """Return the number after one of so many significant bits."""
    return value + _unit(value, bits)


def _unit(value: Fraction, bits: int) -> Fraction:
    """Return the weight of the last of so many significant bits of a positive number."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2) ** exponent:
        exponent -= 1
    return Fraction(2) ** (exponent - bits + 1)


def _round_up(value: Fraction, bits: int) -> Fraction:
    unit = _unit(value, bits)
    return math.ceil(value / unit) * unit


def _round_down(value: Fraction, bits: int) -> Fraction:
    if not value:
        return value
    unit = _unit(value, bits)
    return math.floor(value / unit) * unit
