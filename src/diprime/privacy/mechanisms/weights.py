"""Integer weight tables: the weight of a candidate in a selection, by its cost.

weights.md has the proof of the inequality that selections rely on.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from diprime.kernels import sampling
from diprime.privacy.measures import Epsilon

Weights = npt.NDArray[np.uint64]

MAX_WEIGHT_BITS = 46
MAX_TABLE_LENGTH = 1 << 20
_FACTOR_BITS = 60
_GUARD_DIGITS = 40


def exp_upper(x: Fraction, bits: int = _FACTOR_BITS) -> int:
    """Return an integer that is at least 2^bits·e^(-x) and exceeds it by less than two, for x > 0."""
    # The exponent is too small by less than x·10^(1 - digits). As x·e^(-x) < 1, the power is too large by less than
    # 10^(2 - digits), which times 2^bits < 10^(bits/3 + 1) is far below one.
    digits = _GUARD_DIGITS + bits // 3
    exponent = decimal_below(x, digits)
    with localcontext(Context(prec=digits, rounding=ROUND_CEILING)):
        # Decimal.exp is correctly rounded, so the next larger number is an upper bound.
        bound = (-exponent).exp().next_plus()
        return int((bound * Decimal(2**bits)).to_integral_value(ROUND_CEILING))


def decimal_below(x: Fraction, digits: int) -> Decimal:
    """Return the largest decimal number of so many digits that is at most x."""
    with localcontext(Context(prec=digits, rounding=ROUND_FLOOR)):
        return Decimal(x.numerator) / Decimal(x.denominator)


@lru_cache(maxsize=64)
def weight_table(epsilon: Epsilon, cost_range: int, n_candidates: int) -> Weights:
    """Return W with W[0] a power of two and W[k+1] = max(1, ceil(W[k]·e^(-epsilon/cost_range))), rounded up throughout.

    Hence e^(-j·epsilon/cost_range) <= W[k+j]/W[k] <= 1 for all k and j, which is all that the privacy proofs use. The
    last entry also applies to all larger costs, so the inequality holds past the end, wherever the table is cut. W[0]
    is small enough for the weights of all candidates to add up to less than 2^63. At epsilon = inf only the least cost
    has a positive weight; at epsilon = 0 all weights are equal.

    Examples
    --------
    >>> from fractions import Fraction
    >>> weight_table(Fraction(2), 2, 2)[:3] / 2.0**46
    array([1.        , 0.36787944, 0.13533528])
    """
    if epsilon == math.inf:
        return _frozen(np.array([1, 0], dtype=np.uint64))
    first_bits = min(MAX_WEIGHT_BITS, 63 - n_candidates.bit_length())
    if first_bits < 1:
        raise ValueError(f"{n_candidates} candidates are too many for one selection.")
    factor = min(exp_upper(Fraction(epsilon) / cost_range), (1 << _FACTOR_BITS) - 1)
    table = np.zeros(MAX_TABLE_LENGTH, dtype=np.uint64)
    table[0] = 1 << first_bits
    length = sampling.fill_table(factor >> 30, factor & ((1 << 30) - 1), table)
    return _frozen(table[:length].copy())


def _frozen(table: Weights) -> Weights:
    table.flags.writeable = False
    return table
