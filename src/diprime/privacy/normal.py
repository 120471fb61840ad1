"""Proven bounds of the normal distribution, in integers.

A number is an integer in units of 2^-`BITS`. Every function rounds its lower bound down and its upper bound up at each
step, so that the true value is between them whatever the rounding. No float takes part.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import NamedTuple

BITS = 320
ONE = 1 << BITS
_HALF = ONE >> 1

# Beyond this, Mills' ratio comes from its continued fraction; up to it, from the series of the distribution function.
_SERIES_END = 8 * ONE
# A power series of an argument below 2^-8 gains eight bits a term.
_SMALL_BITS = BITS - 8


class Interval(NamedTuple):
    """Lower and upper bounds of a number, both in units of 2^-`BITS`."""

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
        """Return bounds of the product of two numbers that are not negative."""
        return Interval(self.low * other.low >> BITS, -(-self.high * other.high >> BITS))

    def over(self, other: Interval) -> Interval:
        """Return bounds of the quotient of two numbers, the first not negative and the second positive."""
        return Interval((self.low << BITS) // other.high, -((-self.high << BITS) // other.low))

    def fractions(self) -> tuple[Fraction, Fraction]:
        """Return the bounds as fractions."""
        return Fraction(self.low, ONE), Fraction(self.high, ONE)


def square_root(value: Fraction) -> Interval:
    """Return bounds of the square root of a fraction that is not negative."""
    squared = Interval.around(value)
    return Interval(math.isqrt(squared.low << BITS), math.isqrt(squared.high << BITS) + 1)


def exp_of_minus(exponent: Fraction) -> Interval:
    """Return bounds of e^(-exponent), for an exponent that is not negative.

    The exponent is halved until it is below 2^-8, and the result of the power series squared as often.
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
    """Return bounds of e^-x from its power series: terms alternate and fall, so the next bounds what is left out."""
    result, term, n = Interval(ONE, ONE), Interval(ONE, ONE), 0
    while term.high > 1:
        n += 1
        term = term.times(x)
        term = Interval(term.low // n, -(-term.high // n))
        result = result.plus(Interval(-term.high, -term.low)) if n % 2 else result.plus(term)
    return Interval(result.low - term.high, result.high + term.high)


@cache
def _inverse_root_of_two_pi() -> Interval:
    """Return bounds of 1/√(2π), π by Machin's formula: 16·arctan(1/5) - 4·arctan(1/239)."""
    first, second = _arctan_of_inverse(5), _arctan_of_inverse(239)
    two_pi = Interval(32 * first.low - 8 * second.high, 32 * first.high - 8 * second.low)
    root = Interval(math.isqrt(two_pi.low << BITS), math.isqrt(two_pi.high << BITS) + 1)
    return Interval(ONE, ONE).over(root)


def _arctan_of_inverse(n: int) -> Interval:
    """Return bounds of arctan(1/n) from its power series, whose terms alternate and fall."""
    low = high = 0
    power, k = ONE // n, 0  # n^-(2k+1), rounded down: each is too small by less than two units
    while power:
        below, above = power // (2 * k + 1), (power + 2) // (2 * k + 1) + 1
        low, high = (low - above, high - below) if k % 2 else (low + below, high + above)
        power //= n * n
        k += 1
    return Interval(low - 2, high + 2)


def density(half_square: Fraction) -> Interval:
    """Return bounds of φ(x) = e^(-x²/2)/√(2π), from x²/2."""
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
    # From odd > 2·x² on, terms at least halve: all that is left out is at most the last term.
    while term.high > 1 or odd * ONE <= 2 * square.high:
        odd += 2
        term = term.times(square)
        term = Interval(term.low // odd, -(-term.high // odd))
        total = total.plus(term)
    below = phi.times(Interval(total.low, total.high + term.high))
    return Interval(max(_HALF - below.high, 0), _HALF - below.low)


def _mills_ratio_by_fraction(x: int) -> Interval:
    """Return bounds of Mills' ratio 1/(x + 1/(x + 2/(x + 3/(x + ···)))), for x > 8.

    The rest of the fraction from the n-th denominator on is between 0 and n/x; going backwards, bounds of a rest give
    bounds of the one before it.
    """
    whole = x >> BITS
    n = 8 + 8000 // whole**2
    rest = Interval(0, -((-n << 2 * BITS) // x))
    for k in range(n - 1, -1, -1):
        numerator = max(k, 1) << 2 * BITS
        rest = Interval(numerator // (x + rest.high), -(-numerator // (x + rest.low)))
    return rest
