"""Exact bounds on e^x, and the exact privacy loss of pairs of distributions.

Numbers such as e^epsilon are bounded by fractions from the Taylor series with its remainder, without rounding errors.
"""

import math
from fractions import Fraction
from functools import cache

TOO_LITTLE_NOISE = Fraction(143, 100)  # factor of epsilon that reduces noise by 30 %
EPSILONS = [Fraction(1, 10**6), Fraction(1, 7), Fraction(1), Fraction(9, 2), Fraction(60)]


@cache
def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Return fractions below and above e^x, for x >= 0, with a relative difference below 2^-300."""
    halvings = max(0, math.ceil(x).bit_length())
    small = x / 2**halvings
    low, term, i = Fraction(1), Fraction(1), 1
    while term > Fraction(1, 2**420):
        term = Fraction(math.ceil(term * small / i * 2**500), 2**500)
        low += term - Fraction(1, 2**499)  # a lower bound, although terms are rounded up
        i += 1
    high = low + Fraction(1, 2**400)
    for _ in range(halvings):
        low = Fraction(math.floor(low * low * 2**600), 2**600)
        high = Fraction(math.ceil(high * high * 2**600), 2**600)
    assert high / low < 1 + Fraction(1, 2**300)
    return low, high


def largest_ratio(pairs):
    """Return the largest ratio of probabilities over pairs of distributions, in both directions."""
    worst = Fraction(0)
    for p, q in pairs:
        for a, b in zip(p, q, strict=True):
            if a or b:
                assert a > 0, "an outcome is possible for one of two neighbours only"
                assert b > 0, "an outcome is possible for one of two neighbours only"
                worst = max(worst, a / b, b / a)
    return worst
