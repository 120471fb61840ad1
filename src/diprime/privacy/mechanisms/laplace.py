"""The discrete Laplace mechanism: integer noise on integer sums, and on counts that are compared with a threshold.

laplace.md and threshold.md contain the proofs. Thresholded counts show which values are frequent if the possible values
are not public.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from diprime.kernels import sampling
from diprime.privacy.charges import Bound, BoundKind, Mechanism, Receipt, check_receipt
from diprime.privacy.measures import Epsilon
from diprime.privacy.mechanisms.selection import exp_upper
from diprime.privacy.randomness import Streams, integer_below

# True values are at most 2^52, and released values are clipped to 2^53, which is post-processing. Noise beyond 2^54
# therefore gives the same released number as noise of 2^54.
_MAX_RELEASED = 1 << 53
_SATURATED = 1 << 54
# The kernel stops before its integers overflow, at noise of at least 2^42, and returns this larger number instead.
MAX_WHOLES_PRODUCT = 1 << 62
_STOPPED = 1 << 62
_EPSILON_BITS = 20
_MIN_EPSILON_BITS = 40
MIN_EPSILON = Fraction(1, 1 << _MIN_EPSILON_BITS)
"""Smallest epsilon of a release."""


def laplace_scale(epsilon: Fraction, sensitivity: int) -> tuple[int, int]:
    """Return the numerator and denominator of a noise scale of at least sensitivity/epsilon that fits the sampler.

    Epsilon is rounded down to 20 significant bits, or below 2^-21 to a multiple of 2^-40. Neither weakens the
    guarantee; the former increases the noise by about a millionth.
    """
    if sensitivity < 1:
        raise ValueError(f"The sensitivity must be at least 1, got {sensitivity}.")
    if epsilon < MIN_EPSILON:
        raise ValueError("epsilon is too small: each release needs an epsilon of at least 2^-40. Use a larger epsilon.")
    rounded = min(epsilon, Fraction((1 << _EPSILON_BITS) - 1))
    bits = min(_MIN_EPSILON_BITS, _EPSILON_BITS - math.floor(rounded).bit_length())
    while rounded * (1 << bits) < 1 << (_EPSILON_BITS - 1) and bits < _MIN_EPSILON_BITS:
        bits += 1
    scale = Fraction(sensitivity << bits, math.floor(rounded * (1 << bits)))
    return scale.numerator, scale.denominator


def laplace_variance(epsilon: Epsilon, sensitivity: int) -> float:
    """Return the variance of the noise that :func:`discrete_laplace` adds."""
    if epsilon == math.inf:
        return 0.0
    numerator, denominator = laplace_scale(Fraction(epsilon), sensitivity)
    q = math.exp(-denominator / numerator)
    return 2 * q / math.expm1(-denominator / numerator) ** 2


def discrete_laplace(
    values: npt.NDArray[np.int64], receipt: Receipt, sensitivity: int, streams: Streams, times: int = 1
) -> npt.NDArray[np.int64]:
    """Release values with discrete Laplace noise of scale sensitivity/epsilon, where epsilon is the receipt's.

    The noise of each value is independent, with Pr[x] proportional to e^(-|x|·epsilon/sensitivity). If one record
    changes the values by at most ``sensitivity`` in L1 norm, the result is epsilon-DP. The sampler is exact (Canonne,
    Kamath and Steinke 2020). At epsilon = inf, no noise is added.

    Shapes: values (n, m), streams (n, STREAM_WORDS), result (n, m). ``times``: number of paid releases that this call
    uses up. One record may change the values that many times, each time by at most ``sensitivity``.
    """
    check_receipt(receipt)
    epsilon = receipt.use(Mechanism.DISCRETE_LAPLACE, times, bound=Bound(BoundKind.L1, sensitivity)).epsilon
    if len(streams) != len(values):  # the kernel checks no bounds
        raise ValueError("There must be one stream for each row of values.")
    if epsilon == math.inf:
        return np.array(values)
    noise = np.empty_like(values)
    _draw(streams, *laplace_scale(Fraction(epsilon), sensitivity), noise)
    return np.asarray(np.clip(values + noise, -_MAX_RELEASED, _MAX_RELEASED))


def _draw(streams: Streams, numerator: int, denominator: int, noise: npt.NDArray[np.int64]) -> None:
    """Fill row i with noise from stream i: in the kernel, or in Python where the kernel stops."""
    max_wholes = MAX_WHOLES_PRODUCT // numerator
    sampling.draw_laplace(streams, numerator, denominator, max_wholes, _STOPPED, noise)
    for row, column in np.argwhere(np.abs(noise) == _STOPPED).tolist():
        magnitude = min(_magnitude_beyond(streams[row], numerator, denominator, max_wholes), _SATURATED)
        noise[row, column] = magnitude if noise[row, column] > 0 else -magnitude


def _magnitude_beyond(stream: npt.NDArray[np.uint32], numerator: int, denominator: int, max_wholes: int) -> int:
    """Draw the magnitude of noise, given that its geometric part is at least ``max_wholes``; see laplace.md."""
    part = integer_below(stream, numerator)
    while not _accepts(stream, part, numerator):
        part = integer_below(stream, numerator)
    wholes = max_wholes
    while _accepts(stream, 1, 1):
        wholes += 1
    return (part + numerator * wholes) // denominator


def _accepts(stream: npt.NDArray[np.uint32], numerator: int, denominator: int) -> bool:
    """Return true with probability exp(-numerator/denominator), like the kernel."""
    k = 1
    while integer_below(stream, denominator) < numerator and integer_below(stream, k) == 0:
        k += 1
    return k % 2 == 1


def discrete_laplace_pmf(x: int, epsilon: Fraction, sensitivity: int, bits: int = 120) -> tuple[Fraction, Fraction]:
    """Return lower and upper bounds of the irrational Pr[noise = x] = (1 - q)/(1 + q)·q^|x|, with q = e^(-1/scale)."""
    numerator, denominator = laplace_scale(epsilon, sensitivity)
    above = Fraction(exp_upper(Fraction(denominator, numerator), bits), 1 << bits)
    below = max(above - Fraction(2, 1 << bits), Fraction(0))
    return (1 - above) / (1 + above) * below ** abs(x), (1 - below) / (1 + below) * above ** abs(x)


_THRESHOLD_BITS = 256
_MAX_THRESHOLD = 1 << 40
_STOPPED_COUNT = 1 << 42  # if the sampler stops, noise has at least this magnitude, which decides for any count


@lru_cache(maxsize=64)
def count_threshold(epsilon: Epsilon, delta: Fraction) -> int:
    """Return the smallest threshold that a noisy count of one reaches with probability at most delta."""
    if epsilon == math.inf:
        return 1
    low, high = 1, 2
    while tail_upper_bound(Fraction(epsilon), high - 1) > delta:
        low, high = high, 2 * high
        if high > _MAX_THRESHOLD:
            raise ValueError("epsilon and delta are too small: no count could reach the threshold. Use larger values.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tail_upper_bound(Fraction(epsilon), middle - 1) > delta else (low, middle)
    return high


def tail_upper_bound(epsilon: Fraction, x: int) -> Fraction:
    """Return an upper bound of Pr[noise >= x] = q^x/(1 + q), q = e^(-1/scale), for x >= 1, in integers rounded up."""
    numerator, denominator = laplace_scale(epsilon, 1)
    q = exp_upper(Fraction(denominator, numerator), _THRESHOLD_BITS)
    power, base, exponent = 1 << _THRESHOLD_BITS, q, x
    while exponent:
        if exponent & 1:
            power = -(-(power * base) >> _THRESHOLD_BITS)
        base = -(-(base * base) >> _THRESHOLD_BITS)
        exponent >>= 1
    return Fraction(power, (1 << _THRESHOLD_BITS) + q - 2)  # q exceeds 2^bits·e^(-1/scale) by less than two


def frequent(
    counts: npt.NDArray[np.int64], receipt: Receipt, streams: Streams, times: int = 1
) -> npt.NDArray[np.bool_]:
    """Release which values of several columns are frequent, meaning that their noisy counts reach the threshold.

    ``counts`` contains only values that occur. If a record adds one to at most one count of each column, the results
    for ``times`` columns cost ``times`` releases of the receipt, whose measure is (epsilon, delta).

    Shapes: counts (n,), streams (1, STREAM_WORDS).
    """
    check_receipt(receipt)
    measure = receipt.use_approximate(Mechanism.THRESHOLDED_LAPLACE, times, bound=Bound(BoundKind.L1, 1))
    if len(streams) != 1:  # the kernel checks no bounds
        raise ValueError("There must be one stream.")
    threshold = count_threshold(measure.epsilon, measure.delta)
    if measure.epsilon == math.inf:
        return counts >= threshold
    numerator, denominator = laplace_scale(Fraction(measure.epsilon), 1)
    noise = np.empty((1, len(counts)), dtype=np.int64)
    sampling.draw_laplace(streams, numerator, denominator, MAX_WHOLES_PRODUCT // numerator, _STOPPED_COUNT, noise)
    return np.asarray(counts + noise[0] >= threshold)


def frequent_pmf(count: int, epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    """Return lower and upper bounds of the probability that a value with a count of at least one is released."""
    lacking = count_threshold(epsilon, delta) - count
    tail = lacking if lacking >= 1 else 1 - lacking
    numerator, denominator = laplace_scale(epsilon, 1)
    q = Fraction(exp_upper(Fraction(denominator, numerator), _THRESHOLD_BITS), 1 << _THRESHOLD_BITS)
    below = q - Fraction(2, 1 << _THRESHOLD_BITS)
    low, high = below**tail / (1 + q), q**tail / (1 + below)
    return (low, high) if lacking >= 1 else (1 - high, 1 - low)
