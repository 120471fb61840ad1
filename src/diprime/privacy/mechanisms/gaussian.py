"""The rounded Gaussian mechanism: normal noise on integer sums, rounded to integers.

gaussian.md has the proof.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.kernels import sampling
from diprime.privacy.charges import Receipt, check_receipt
from diprime.privacy.mechanisms.rounded_normal import draw_rounded_normal
from diprime.privacy.normal import Interval, upper_tail
from diprime.privacy.randomness import STREAM_WORDS, Streams, secret_words

ROUNDED_GAUSSIAN = "rounded Gaussian"

MAX_SIGMA = 1 << 36
"""The largest standard deviation that the sampler takes."""

# Values are clamped before noise is added, which brings neighbours no further apart, and after it, which is
# post-processing. Noise beyond 2^54 leads to the same released number as noise of 2^54.
_MAX_VALUE = 1 << 52
_MAX_RELEASED = 1 << 53
_SATURATED = 1 << 54

# A standard deviation is multiplier·2^(32 - shift); the limits are those of the kernel.
_MULTIPLIER_BITS = 24
_MAX_SHIFT = 63
_WORD_BITS = 32
_N_DIGITS = 8  # of a uniform number in the kernel


def gaussian_sigma(mu_squared: Fraction, squared_sensitivity: int) -> Fraction:
    """Return the standard deviation of the noise: at least the square root of squared_sensitivity/mu_squared.

    It is rounded up to 24 significant bits, or below 2^-8 to a multiple of 2^-31. The first adds about a ten-millionth
    to the noise; neither weakens the guarantee.

    Examples
    --------
    >>> gaussian_sigma(Fraction(1, 4), 25)
    Fraction(10, 1)
    """
    multiplier, shift = _scale(mu_squared, squared_sensitivity)
    return Fraction(multiplier << _WORD_BITS, 1 << shift)


def _scale(mu_squared: Fraction, squared_sensitivity: int) -> tuple[int, int]:
    """Return the multiplier and the shift of the standard deviation."""
    if squared_sensitivity < 1:
        raise ValueError(f"The squared sensitivity must be at least 1, got {squared_sensitivity}.")
    if mu_squared * MAX_SIGMA**2 < squared_sensitivity:
        raise ValueError(
            "mu is too small: the part of the budget that pays for noise must keep its standard deviation, "
            f"sensitivity/mu, within 2^{MAX_SIGMA.bit_length() - 1}."
        )
    variance = squared_sensitivity / mu_squared
    shift = _MAX_SHIFT
    multiplier = _ceil_sqrt(variance * (1 << 2 * (shift - _WORD_BITS)))
    excess = max(0, multiplier.bit_length() - _MULTIPLIER_BITS)
    return -(-multiplier >> excess), shift - excess


def _ceil_sqrt(value: Fraction) -> int:
    """Return the least integer whose square is at least a positive value."""
    return math.isqrt(math.ceil(value) - 1) + 1


def rounded_gaussian(
    values: npt.NDArray[np.int64], receipt: Receipt, squared_sensitivity: int, streams: Streams, times: int = 1
) -> npt.NDArray[np.int64]:
    """Release integers with normal noise that is rounded to integers.

    The noise of each value is round(σ·Z), with independent standard normal Z and σ² >= squared_sensitivity/μ², where μ
    is the receipt's. If one record changes the values by a vector of integers whose squared L2 norm is at most
    ``squared_sensitivity``, the result is μ-Gaussian DP. The sampler is exact (Karney 2016). At μ = inf no noise is
    added.

    Parameters
    ----------
    values : array of shape (n, m)
        The true values.
    receipt : Receipt
        The receipt of the release, which must be charged for this mechanism, in Gaussian DP.
    squared_sensitivity : int
        A bound on how much one record changes the values, as the square of the L2 norm: the one that was charged.
    streams : array of shape (n, STREAM_WORDS)
        The random bits of each row.
    times : int, default=1
        The number of paid releases that this call uses up. One record may change the values that many times, each
        time by at most the sensitivity: where values are about disjoint sets of records, which a record may be in so
        many of.

    Returns
    -------
    released : array of shape (n, m)
        The noisy values, clamped to 2^53.
    """
    check_receipt(receipt)
    mu_squared = receipt.use_gaussian(ROUNDED_GAUSSIAN, times, calibrated_to=squared_sensitivity).mu_squared
    if len(streams) != len(values):  # the kernel checks no bounds
        raise ValueError("There must be one stream for each row of values.")
    if mu_squared == math.inf:
        return np.array(values)
    noise = np.empty_like(values)
    _draw(streams, *_scale(Fraction(mu_squared), squared_sensitivity), noise)
    clamped = np.clip(values, -_MAX_VALUE, _MAX_VALUE)
    return np.asarray(np.clip(clamped + noise, -_MAX_RELEASED, _MAX_RELEASED))


def _draw(
    streams: Streams, multiplier: int, shift: int, noise: npt.NDArray[np.int64], n_digits: int = _N_DIGITS
) -> None:
    """Fill row i with noise from stream i: by the kernel, and where it runs out of digits, without limits."""
    uniforms = np.zeros((3, 1 + n_digits), dtype=np.uint32)
    saved = secret_words(STREAM_WORDS)
    n_drawn = sampling.draw_gaussian(streams, multiplier, shift, uniforms, saved, 0, noise)
    while n_drawn < noise.size:
        row, column = divmod(n_drawn, noise.shape[1])
        drawn = draw_rounded_normal(streams[row], multiplier, shift)
        noise[row, column] = max(-_SATURATED, min(drawn, _SATURATED))
        n_drawn = sampling.draw_gaussian(streams, multiplier, shift, uniforms, saved, n_drawn + 1, noise)


def rounded_gaussian_pmf(x: int, mu_squared: Fraction, squared_sensitivity: int) -> tuple[Fraction, Fraction]:
    """Return lower and upper bounds of Pr[noise = x] = Φ((x + ½)/σ) - Φ((x - ½)/σ), which is irrational."""
    sigma = gaussian_sigma(mu_squared, squared_sensitivity)
    half, magnitude = Fraction(1, 2), abs(x)
    near, far = _tail((magnitude - half) / sigma), _tail((magnitude + half) / sigma)
    low, high = near.minus(far).fractions()
    return max(low, Fraction(0)), high


def _tail(x: Fraction) -> Interval:
    """Return bounds of 1 - Φ(x)."""
    at = Interval.around(x)
    return Interval(upper_tail(at.high).low, upper_tail(at.low).high)
