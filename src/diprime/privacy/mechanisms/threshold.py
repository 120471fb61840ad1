"""Thresholded counts: which values are frequent, where the possible values are not public.

threshold.md has the proof.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from diprime.kernels import sampling
from diprime.privacy.charges import Receipt, check_receipt
from diprime.privacy.measures import Epsilon
from diprime.privacy.mechanisms.laplace import MAX_WHOLES_PRODUCT, laplace_scale
from diprime.privacy.mechanisms.weights import exp_upper
from diprime.privacy.randomness import Streams

THRESHOLDED_LAPLACE = "thresholded Laplace"

_BITS = 256
_MAX_THRESHOLD = 1 << 40
_STOPPED = 1 << 42  # where the sampler stops, noise is at least that, which decides whatever the count is


@lru_cache(maxsize=64)
def count_threshold(epsilon: Epsilon, delta: Fraction) -> int:
    """Return the least threshold that a count of one, with its noise, reaches with probability at most delta.

    Examples
    --------
    >>> count_threshold(Fraction(1), Fraction(1, 10**6))
    15
    """
    if epsilon == math.inf:
        return 1
    low, high = 1, 2
    while tail_upper_bound(Fraction(epsilon), high - 1) > delta:
        low, high = high, 2 * high
        if high > _MAX_THRESHOLD:
            raise ValueError("epsilon and delta are too small: no count could reach the threshold.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tail_upper_bound(Fraction(epsilon), middle - 1) > delta else (low, middle)
    return high


def tail_upper_bound(epsilon: Fraction, x: int) -> Fraction:
    """Return an upper bound of Pr[noise >= x] = q^x/(1 + q), q = e^(-1/scale), for x >= 1, in integers rounded up."""
    numerator, denominator = laplace_scale(epsilon, 1)
    q = exp_upper(Fraction(denominator, numerator), _BITS)
    power, base, exponent = 1 << _BITS, q, x
    while exponent:
        if exponent & 1:
            power = -(-(power * base) >> _BITS)
        base = -(-(base * base) >> _BITS)
        exponent >>= 1
    return Fraction(power, (1 << _BITS) + q - 2)  # q exceeds 2^bits·e^(-1/scale) by less than two


def frequent(
    counts: npt.NDArray[np.int64], receipt: Receipt, streams: Streams, times: int = 1
) -> npt.NDArray[np.bool_]:
    """Release which values of several columns are frequent: whose counts, with noise, reach the threshold.

    Only values that occur have a count. If a record adds one to at most one count of each column, the answers for
    ``times`` columns cost ``times`` releases of the receipt, whose measure is (epsilon, delta).

    Parameters
    ----------
    counts : array of shape (n,)
        How often each value occurs, at least once.
    receipt : Receipt
        The receipt of the release, which must be charged for this mechanism.
    streams : array of shape (1, STREAM_WORDS)
        The random bits.
    times : int, default=1
        The number of paid releases that this call uses up.

    Returns
    -------
    frequent : array of bool, shape (n,)
        Whether each value is released.
    """
    check_receipt(receipt)
    measure = receipt.use_approximate(THRESHOLDED_LAPLACE, times, calibrated_to=1)
    if len(streams) != 1:  # the kernel checks no bounds
        raise ValueError("There must be one stream.")
    threshold = count_threshold(measure.epsilon, measure.delta)
    if measure.epsilon == math.inf:
        return counts >= threshold
    numerator, denominator = laplace_scale(Fraction(measure.epsilon), 1)
    noise = np.empty((1, len(counts)), dtype=np.int64)
    sampling.draw_laplace(streams, numerator, denominator, MAX_WHOLES_PRODUCT // numerator, _STOPPED, noise)
    return np.asarray(counts + noise[0] >= threshold)


def frequent_pmf(count: int, epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    """Return lower and upper bounds of the probability that a value with this count, of one or more, is released."""
    lacking = count_threshold(epsilon, delta) - count
    tail = lacking if lacking >= 1 else 1 - lacking
    numerator, denominator = laplace_scale(epsilon, 1)
    q = Fraction(exp_upper(Fraction(denominator, numerator), _BITS), 1 << _BITS)
    below = q - Fraction(2, 1 << _BITS)
    low, high = below**tail / (1 + q), q**tail / (1 + below)
    return (low, high) if lacking >= 1 else (1 - high, 1 - low)
