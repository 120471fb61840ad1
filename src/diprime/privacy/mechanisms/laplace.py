"""The discrete Laplace mechanism: integer noise on integer sums.

laplace.md has the proof.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.kernels import sampling
from diprime.privacy.charges import Receipt, check_receipt
from diprime.privacy.measures import Epsilon
from diprime.privacy.mechanisms.weights import exp_upper
from diprime.privacy.randomness import Streams

DISCRETE_LAPLACE = "discrete Laplace"

# Released values are clamped to 2^53, which is post-processing, and true values are at most 2^52. So noise beyond 2^54
# leads to the same released number as noise of 2^54.
_MAX_RELEASED = 1 << 53
_SATURATED = 1 << 54
# The kernel stops where its integers end, at noise of 2^42 or more, and marks the draw: no noise below is as large.
MAX_WHOLES_PRODUCT = 1 << 62
_STOPPED = 1 << 62
_EPSILON_BITS = 20
_MIN_EPSILON_BITS = 40
MIN_EPSILON = Fraction(1, 1 << _MIN_EPSILON_BITS)
"""The smallest epsilon of a release."""


def laplace_scale(epsilon: Fraction, sensitivity: int) -> tuple[int, int]:
    """Return numerator and denominator of a noise scale of at least sensitivity/epsilon that fits the sampler.

    Epsilon is rounded down to 20 significant bits, or below 2^-21 to a multiple of 2^-40. The first adds about a
    millionth to the noise; neither weakens the guarantee.
    """
    if sensitivity < 1:
        raise ValueError(f"The sensitivity must be at least 1, got {sensitivity}.")
    if epsilon < MIN_EPSILON:
        raise ValueError("epsilon is too small: the part of it that pays for noise must be at least 2^-40.")
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
    Kamath and Steinke 2020). At epsilon = inf no noise is added.

    Parameters
    ----------
    values : array of shape (n, m)
        The true values.
    receipt : Receipt
        The receipt of the release, which must be charged for this mechanism.
    sensitivity : int
        A bound on how much one record changes the values, in L1 norm: the one that was charged.
    streams : array of shape (n, STREAM_WORDS)
        The random bits of each row.
    times : int, default=1
        The number of paid releases that this call uses up. One record may change the values that many times, each
        time by at most ``sensitivity``.

    Returns
    -------
    released : array of shape (n, m)
        The noisy values, clamped to 2^53.
    """
    check_receipt(receipt)
    epsilon = receipt.use(DISCRETE_LAPLACE, times, calibrated_to=sensitivity).epsilon
    if len(streams) != len(values):  # the kernel checks no bounds
        raise ValueError("There must be one stream for each row of values.")
    if epsilon == math.inf:
        return np.array(values)
    noise = np.empty_like(values)
    _draw(streams, *laplace_scale(Fraction(epsilon), sensitivity), noise)
    return np.asarray(np.clip(values + noise, -_MAX_RELEASED, _MAX_RELEASED))


def _draw(streams: Streams, numerator: int, denominator: int, noise: npt.NDArray[np.int64]) -> None:
    """Fill row i with noise from stream i: by the kernel, and where it stops, without limits."""
    max_wholes = MAX_WHOLES_PRODUCT // numerator
    sampling.draw_laplace(streams, numerator, denominator, max_wholes, _STOPPED, noise)
    for row, column in np.argwhere(np.abs(noise) == _STOPPED).tolist():
        magnitude = min(_magnitude_beyond(streams[row], numerator, denominator, max_wholes), _SATURATED)
        noise[row, column] = magnitude if noise[row, column] > 0 else -magnitude


def _magnitude_beyond(stream: npt.NDArray[np.uint32], numerator: int, denominator: int, max_wholes: int) -> int:
    """Draw the magnitude of noise, given that its geometric part is at least ``max_wholes``; see laplace.md."""
    part = _below(stream, numerator)
    while not _accepts(stream, part, numerator):
        part = _below(stream, numerator)
    wholes = max_wholes
    while _accepts(stream, 1, 1):
        wholes += 1
    return (part + numerator * wholes) // denominator


def _accepts(stream: npt.NDArray[np.uint32], numerator: int, denominator: int) -> bool:
    """Return true with probability exp(-numerator/denominator), as the kernel does."""
    k = 1
    while _below(stream, denominator) < numerator and _below(stream, k) == 0:
        k += 1
    return k % 2 == 1


def _below(stream: npt.NDArray[np.uint32], bound: int) -> int:
    draw = np.empty(1, dtype=np.uint64)
    sampling.draw_below(stream, bound, draw)
    return int(draw[0])


def discrete_laplace_pmf(x: int, epsilon: Fraction, sensitivity: int, bits: int = 120) -> tuple[Fraction, Fraction]:
    """Return lower and upper bounds of Pr[noise = x] = (1 - q)/(1 + q)·q^|x|, q = e^(-1/scale), which is irrational."""
    numerator, denominator = laplace_scale(epsilon, sensitivity)
    above = Fraction(exp_upper(Fraction(denominator, numerator), bits), 1 << bits)
    below = max(above - Fraction(2, 1 << bits), Fraction(0))
    return (1 - above) / (1 + above) * below ** abs(x), (1 - below) / (1 + below) * above ** abs(x)
