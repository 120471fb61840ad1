"""Proven conversions between Gaussian differential privacy and (epsilon, delta), in integer arithmetic.

A release is μ-Gaussian DP if distinguishing neighbouring data sets by it is at least as hard as distinguishing N(0, 1)
from N(μ, 1) by one sample (Dong, Roth and Su 2019). This is equivalent to (ε, δ)-DP for all ε >= 0 at once, with

    δ(ε) = Φ(-ε/μ + μ/2) - e^ε·Φ(-ε/μ - μ/2).

δ decreases in ε and increases in μ. It is therefore safe to compute δ for a smaller ε and a larger μ, as is done for
inputs beyond the ranges below.

Numbers are integers in units of 2^-`BITS`. Every step rounds lower bounds down and upper bounds up, so the true value
is between them. No floats are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import NamedTuple

from diprime.privacy.measures import Epsilon, PrivacyLoss

BITS = 320
ONE = 1 << BITS
_HALF = ONE >> 1

# Above this, Mills' ratio is computed from its continued fraction, and otherwise from the series of the tail.
_SERIES_END = 8 * ONE
# A power series of an argument below 2^-8 gains eight bits per term.
_SMALL_BITS = BITS - 8


class Interval(NamedTuple):
    """Lower and upper bounds of a number, in units of 2^-`BITS`."""

    low: int
    high: int

    @classmethod
    def around(cls, value: Fraction) -> Interval:
        """Return the tightest bounds of a fraction."""
        scaled = value.numerator << BITS
        return cls(scaled // value.denominator, -(-scaled // value.denominator))

    def plus(self, other: Interval) -> Interval:
        """Return bounds of the sum."""
        return Interval(self.low + other.low, self.high + other.high)

    def minus(self, other: Interval) -> Interval:
        """Return bounds of the difference."""
        return Interval(self.low - other.high, self.high - other.low)

    def times(self, other: Interval) -> Interval:
        """Return bounds of the product of two non-negative numbers."""
        return Interval(self.low * other.low >> BITS, -(-self.high * other.high >> BITS))

    def over(self, other: Interval) -> Interval:
        """Return bounds of the quotient of a non-negative and a positive number."""
        return Interval((self.low << BITS) // other.high, -((-self.high << BITS) // other.low))

    def fractions(self) -> tuple[Fraction, Fraction]:
        """Return the bounds as fractions."""
        return Fraction(self.low, ONE), Fraction(self.high, ONE)


def square_root(value: Fraction) -> Interval:
    """Return bounds of the square root of a non-negative fraction."""
    squared = Interval.around(value)
    return Interval(math.isqrt(squared.low << BITS), math.isqrt(squared.high << BITS) + 1)


def exp_of_minus(exponent: Fraction) -> Interval:
    """Return bounds of e^(-exponent), for a non-negative exponent.

    The exponent is halved until it is below 2^-8, and the result of the power series is squared as many times.
    """
    if exponent > BITS:  # e^-320 < 2^-320
        return Interval(0, 1)
    x = Interval.around(exponent)
    halvings = max(0, x.high.bit_length() - _SMALL_BITS)
    x = Interval(x.low >> halvings, -(-x.high >> halvings))
    result = _exp_of_small_minus(x)
    for _ in range(halvings):
        result = result.times(result)
    return result


def _exp_of_small_minus(x: Interval) -> Interval:
    """Return bounds of e^-x from its power series. Terms alternate and decrease, so the next term bounds the error."""
    result, term, n = Interval(ONE, ONE), Interval(ONE, ONE), 0
    while term.high > 1:
        n += 1
        term = term.times(x)
        term = Interval(term.low // n, -(-term.high // n))
        result = result.plus(Interval(-term.high, -term.low)) if n % 2 else result.plus(term)
    return Interval(result.low - term.high, result.high + term.high)


@cache
def _inverse_root_of_two_pi() -> Interval:
    """Return bounds of 1/√(2π), with π from Machin's formula, 16·arctan(1/5) - 4·arctan(1/239)."""
    first, second = _arctan_of_inverse(5), _arctan_of_inverse(239)
    two_pi = Interval(32 * first.low - 8 * second.high, 32 * first.high - 8 * second.low)
    root = Interval(math.isqrt(two_pi.low << BITS), math.isqrt(two_pi.high << BITS) + 1)
    return Interval(ONE, ONE).over(root)


def _arctan_of_inverse(n: int) -> Interval:
    """Return bounds of arctan(1/n) from its power series, whose terms alternate and decrease."""
    low = high = 0
    power, k = ONE // n, 0  # n^-(2k+1), rounded down, too small by less than two units
    while power:
        below, above = power // (2 * k + 1), (power + 2) // (2 * k + 1) + 1
        low, high = (low - above, high - below) if k % 2 else (low + below, high + above)
        power //= n * n
        k += 1
    return Interval(low - 2, high + 2)


def density(half_square: Fraction) -> Interval:
    """Return bounds of φ(x) = e^(-x²/2)/√(2π), given x²/2."""
    return exp_of_minus(half_square).times(_inverse_root_of_two_pi())


def mills_ratio(x: int) -> Interval:
    """Return bounds of (1 - Φ(x))/φ(x), for x >= 0 in units of 2^-`BITS`."""
    if x > _SERIES_END:
        return _mills_ratio_by_fraction(x)
    phi = density(_half_square(x))
    return _tail_by_series(x, phi).over(phi)


def upper_tail(x: int) -> Interval:
    """Return bounds of 1 - Φ(x), for x in units of 2^-`BITS`."""
    magnitude = abs(x)
    phi = density(_half_square(x))
    if magnitude > _SERIES_END:
        tail = phi.times(_mills_ratio_by_fraction(magnitude))
    else:
        tail = _tail_by_series(magnitude, phi)
    return tail if x >= 0 else Interval(ONE, ONE).minus(tail)


def _half_square(x: int) -> Fraction:
    return Fraction(x * x, 2 * ONE * ONE)


def _tail_by_series(x: int, phi: Interval) -> Interval:
    """Return bounds of 1 - Φ(x) = ½ - φ(x)·Σ_k x^(2k+1)/(1·3·5···(2k+1)), for 0 <= x <= 8."""
    square = Interval(x * x >> BITS, -(-x * x >> BITS))
    term, odd = Interval(x, x), 1
    total = term
    # Once odd > 2·x², each term is at most half of the previous one, so the rest is at most the last term.
    while term.high > 1 or odd * ONE <= 2 * square.high:
        odd += 2
        term = term.times(square)
        term = Interval(term.low // odd, -(-term.high // odd))
        total = total.plus(term)
    below = phi.times(Interval(total.low, total.high + term.high))
    return Interval(max(_HALF - below.high, 0), _HALF - below.low)


def _mills_ratio_by_fraction(x: int) -> Interval:
    """Return bounds of Mills' ratio 1/(x + 1/(x + 2/(x + 3/(x + ···)))), for x > 8.

    The tail of the fraction from the n-th denominator on is between 0 and n/x. Going backwards, bounds of each tail
    follow from bounds of the next.
    """
    whole = x >> BITS
    n = 8 + 8000 // whole**2
    rest = Interval(0, -((-n << 2 * BITS) // x))
    for k in range(n - 1, -1, -1):
        numerator = max(k, 1) << 2 * BITS
        rest = Interval(numerator // (x + rest.high), -(-numerator // (x + rest.low)))
    return rest


BUDGET_BITS = 30
"""Number of significant bits of the μ² of a budget."""
EPSILON_BITS = 20
"""Number of significant bits of a reported ε."""

MAX_EPSILON_BITS = 20
"""For ε above 2^20, the δ of 2^20 is used."""
_MAX_EPSILON = Fraction(1 << MAX_EPSILON_BITS)
_MIN_EPSILON_BITS = -60
_MAX_PURE = Fraction(BITS // 2)  # e^-160 still has half of the bits
# At μ² = 2^23 and ε = 2^20, 1 - δ is less than 2^-1000.
_MAX_MU_SQUARED_BITS = 23
_MIN_MU_SQUARED_BITS = -160
_MAX_MU_SQUARED = Fraction(1 << _MAX_MU_SQUARED_BITS)
_MIN_MU_SQUARED = Fraction(1, 1 << -_MIN_MU_SQUARED_BITS)


@lru_cache(maxsize=1024)
def delta_upper_bound(mu_squared: Epsilon, epsilon: Epsilon) -> Fraction:
    """Return an upper bound of the delta of μ-Gaussian DP at epsilon.

    If delta is above 2^-200, the bound exceeds it by less than a factor of 1 + 2^-50.
    """
    if epsilon < 0 or mu_squared < 0:
        raise ValueError("Neither epsilon nor the square of mu can be negative.")
    if epsilon == math.inf or mu_squared == 0:
        return Fraction(0)
    if mu_squared > _MAX_MU_SQUARED:
        return Fraction(1)
    # Round long fractions to the safe side, so that no input takes long.
    square = _round_up(max(Fraction(mu_squared), _MIN_MU_SQUARED), BITS)
    epsilon = _round_down(min(Fraction(epsilon), _MAX_EPSILON), BITS)
    mu = square_root(square)
    quotient = Interval.around(epsilon).over(mu)
    low = quotient.low - -(-mu.high >> 1)  # of ε/μ - μ/2; δ decreases in it
    high = quotient.high + -(-mu.high >> 1)  # of ε/μ + μ/2
    # e^ε·Φ(-ε/μ - μ/2) = φ(ε/μ - μ/2)·(1 - Φ(b))/φ(b) with b = ε/μ + μ/2 avoids large numbers. The exponent is exact.
    subtracted = density((epsilon - square / 2) ** 2 / (2 * square)).times(mills_ratio(high))
    return Fraction(min(upper_tail(low).high - subtracted.low, ONE), ONE)


@lru_cache(maxsize=1024)
def gaussian_budget(epsilon: Epsilon, delta: Fraction) -> Epsilon:
    """Return the largest μ² of 30 significant bits that is (epsilon, delta)-DP, or inf at epsilon = inf.

    The result is zero if delta is zero or if even 2^-160 is too large. An epsilon above 2^20 is replaced by 2^20.
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

    The result is inf if no epsilon below 2^20 suffices.
    """
    if delta_upper_bound(mu_squared, Fraction(0)) <= delta:
        return Fraction(0)
    if delta_upper_bound(mu_squared, _MAX_EPSILON) > delta:
        return math.inf
    below = epsilon_below(mu_squared, delta)  # the largest that does not suffice, so the next one does
    return _next_up(below, EPSILON_BITS) if below else Fraction(2) ** _MIN_EPSILON_BITS


def is_proven(epsilon: Epsilon, delta: Fraction, loss: PrivacyLoss) -> bool:
    """Return whether releases of this loss are provably (epsilon, delta)-DP, from one bound of delta.

    With E and D the sums of the other epsilons and deltas, this holds if μ is (epsilon - E, delta - D)-DP.
    """
    if epsilon == math.inf or loss.epsilon > epsilon:
        return epsilon == math.inf
    return delta_upper_bound(loss.mu_squared, epsilon - loss.epsilon) <= delta - loss.delta


def covers(epsilon: Epsilon, delta: Fraction, loss: PrivacyLoss) -> bool:
    """Return whether a budget covers a loss: whether μ² is at most the :func:`gaussian_budget` of epsilon - E.

    That budget is cached for each E, so checking many charges is fast.
    """
    if epsilon == math.inf or loss.epsilon > epsilon:
        return epsilon == math.inf
    rest = delta - loss.delta
    return rest >= 0 and (not loss.mu_squared or loss.mu_squared <= gaussian_budget(epsilon - loss.epsilon, rest))


def is_covered_by_some_epsilon(loss: PrivacyLoss, delta: Fraction) -> bool:
    """Return whether :func:`epsilon_of_loss` is finite, without computing it."""
    return loss.epsilon < math.inf and delta_upper_bound(loss.mu_squared, _MAX_EPSILON) <= delta - loss.delta


def epsilon_of_loss(loss: PrivacyLoss, budget: Epsilon, delta: Fraction) -> Epsilon:
    """Return an epsilon at which releases of this loss are (epsilon, delta)-DP.

    Without Gaussian releases, it is the sum of their epsilons. Otherwise it is an upper bound. If ``budget`` covers the
    loss, the result is at most the budget, and equal to it if nothing of it is left.
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
    """Return whether every epsilon-DP release is provably μ-Gaussian DP.

    This is so if Φ(-μ/2) is at most 1/(1 + e^ε). The latter is the error, of either kind, of the best test between the
    two answers of randomised response, which is at least as revealing as any epsilon-DP release. Φ(-μ/2) is that of the
    best test between N(0, 1) and N(μ, 1). The least error of one kind is a convex function of the error of the other
    kind, and for randomised response consists of two straight lines that meet at this point (docs/privacy.md).
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
    """Return a μ², rounded up to 30 significant bits, for which every epsilon-DP release is μ-Gaussian DP, or inf."""
    if not epsilon:
        return Fraction(0)
    if not pure_is_gaussian(epsilon, _MAX_MU_SQUARED):
        return math.inf
    # The largest μ² that does not suffice, so the next one does.
    below = _largest(
        lambda mu_squared: not pure_is_gaussian(epsilon, mu_squared),
        BUDGET_BITS,
        range(_MIN_MU_SQUARED_BITS, _MAX_MU_SQUARED_BITS),
    )
    return _next_up(below, BUDGET_BITS) if below else _MIN_MU_SQUARED


@lru_cache(maxsize=1024)
def gaussian_as_pure(mu_squared: Epsilon) -> Epsilon:
    """Return the largest epsilon of 20 significant bits for which every epsilon-DP release is μ-Gaussian DP."""
    return _largest(
        lambda epsilon: pure_is_gaussian(epsilon, mu_squared),
        EPSILON_BITS,
        range(_MIN_EPSILON_BITS, MAX_EPSILON_BITS),
    )


def epsilon_below(mu_squared: Epsilon, delta: Fraction) -> Fraction:
    """Return the largest epsilon of 20 significant bits whose :func:`gaussian_budget` at this delta is below μ².

    The result is zero if μ² has at most this delta at every epsilon.
    """
    if mu_squared == math.inf or delta_upper_bound(mu_squared, _MAX_EPSILON) > delta:
        return _MAX_EPSILON
    return _largest(
        lambda epsilon: delta_upper_bound(mu_squared, epsilon) > delta,
        EPSILON_BITS,
        range(_MIN_EPSILON_BITS, MAX_EPSILON_BITS),
    )


def _largest(holds: Callable[[Fraction], bool], bits: int, exponents: range) -> Fraction:
    """Return the largest number, in a range of exponents, for which ``holds``, or zero if there is none.

    The number has the given number of significant bits. If ``holds`` for a number, it must hold for all smaller ones.
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
    """Return the next larger number with the given number of significant bits."""
    return value + _unit(value, bits)


def _unit(value: Fraction, bits: int) -> Fraction:
    """Return the weight of the last significant bit of a positive number with the given number of them."""
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
