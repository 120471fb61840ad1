"""The rounded Gaussian mechanism: normal noise on integer sums, rounded to integers.

The kernel keeps a few digits of each uniform number. Rare samples that need more digits are drawn here, from the same
words in the same order, so every sample has exactly its distribution. gaussian.md contains the algorithm and its proof.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.kernels import sampling
from diprime.privacy.charges import Bound, BoundKind, Mechanism, Receipt, check_receipt
from diprime.privacy.gaussian_dp import Interval, upper_tail
from diprime.privacy.randomness import STREAM_WORDS, Streams, integer_below, secret_words

Stream = npt.NDArray[np.uint32]

_WORD_BITS = 32


class _Uniform:
    """A uniform number in [0, 1), whose 32-bit digits are drawn on demand."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._digits: list[int] = []

    def digit(self, i: int) -> int:
        """Return digit i, which must be known or the next one."""
        if i == len(self._digits):
            word = np.empty(1, dtype=np.uint32)
            sampling.draw_words(self._stream, word)
            self._digits.append(int(word[0]))
        return self._digits[i]

    def is_below(self, other: _Uniform) -> bool:
        """Return whether this number is below another one."""
        i = 0
        while True:
            theirs, ours = other.digit(i), self.digit(i)
            if ours != theirs:
                return ours < theirs
            i += 1


def draw_rounded_normal(stream: Stream, multiplier: int, shift: int) -> int:
    """Return a normal number with standard deviation multiplier·2^(32 - shift), rounded to the nearest integer."""
    whole, fraction = _magnitude(stream)
    rounded = _rounded_product(whole, fraction, multiplier, shift)
    sign = np.empty(1, dtype=np.uint32)
    sampling.draw_words(stream, sign)
    return -rounded if sign[0] & 1 else rounded


def _magnitude(stream: Stream) -> tuple[int, _Uniform]:
    """Draw the magnitude of a standard normal number and return its whole part and its fraction."""
    while True:
        whole = 0
        while _accepts_half(stream):
            whole += 1
        if not all(_accepts_half(stream) for _ in range(whole * (whole - 1))):
            continue
        fraction = _Uniform(stream)
        if all(_accepts_fraction(stream, fraction, whole) for _ in range(whole + 1)):
            return whole, fraction


def _accepts_half(stream: Stream) -> bool:
    """Return true with probability exp(-1/2)."""
    k = 1
    while integer_below(stream, 2) == 0 and integer_below(stream, k) == 0:
        k += 1
    return k % 2 == 1


def _accepts_fraction(stream: Stream, fraction: _Uniform, whole: int) -> bool:
    """Return true with probability exp(-x·(2k + x)/(2k + 2)), for the fraction x and the whole part k."""
    last, is_even = fraction, True
    while True:
        new = _Uniform(stream)
        if not new.is_below(last):
            return is_even
        side = integer_below(stream, 2 * whole + 2) - 2 * whole
        if side > 0 or (side == 0 and not _Uniform(stream).is_below(fraction)):
            return is_even
        last, is_even = new, not is_even


def _rounded_product(whole: int, fraction: _Uniform, multiplier: int, shift: int) -> int:
    """Return the integer nearest to (k + x)·multiplier·2^(32 - shift), drawing as many digits of x as needed."""
    known, n_digits = whole, 0
    while True:
        known = (known << _WORD_BITS) + fraction.digit(n_digits)
        n_digits += 1
        # k + x is at least known/2^(32·n_digits), and less than the next such number.
        bits = shift + _WORD_BITS * (n_digits - 1)
        half = 1 << (bits - 1)
        lowest = (multiplier * known + half) >> bits
        highest = (multiplier * (known + 1) + half - 1) >> bits
        if lowest == highest:
            return lowest


MAX_SIGMA = 1 << 36
"""Largest standard deviation that the sampler supports."""

# Values are clipped before noise is added, which does not increase the distance between neighbouring data sets, and
# after it, which is post-processing. Noise beyond 2^62 gives the same released number as noise of 2^62.
_MAX_VALUE = 1 << 60
_MAX_RELEASED = 1 << 61
_SATURATED = 1 << 62

# A standard deviation is multiplier·2^(32 - shift), within the limits of the kernel.
_MULTIPLIER_BITS = 24
_MAX_SHIFT = 63
_N_DIGITS = 8  # of a uniform number in the kernel


def gaussian_sigma(mu_squared: Fraction, squared_sensitivity: int) -> Fraction:
    """Return the standard deviation of the noise: at least the square root of squared_sensitivity/mu_squared.

    It is rounded up to 24 significant bits, or below 2^-8 to a multiple of 2^-31. Neither weakens the guarantee;
    the former increases the noise by about a ten-millionth.
    """
    multiplier, shift = _scale(mu_squared, squared_sensitivity)
    return Fraction(multiplier << _WORD_BITS, 1 << shift)


def _scale(mu_squared: Fraction, squared_sensitivity: int) -> tuple[int, int]:
    """Return the multiplier and shift of the standard deviation."""
    if squared_sensitivity < 1:
        raise ValueError(f"The squared sensitivity must be at least 1, got {squared_sensitivity}.")
    if mu_squared * MAX_SIGMA**2 < squared_sensitivity:
        raise ValueError(
            "mu is too small: the standard deviation of the noise, sensitivity/mu, exceeds "
            f"2^{MAX_SIGMA.bit_length() - 1}. Use a larger epsilon or delta."
        )
    variance = squared_sensitivity / mu_squared
    shift = _MAX_SHIFT
    multiplier = _ceil_sqrt(variance * (1 << 2 * (shift - _WORD_BITS)))
    excess = max(0, multiplier.bit_length() - _MULTIPLIER_BITS)
    return -(-multiplier >> excess), shift - excess


def _ceil_sqrt(value: Fraction) -> int:
    """Return the smallest integer whose square is at least a positive value."""
    return math.isqrt(math.ceil(value) - 1) + 1


def rounded_gaussian(
    values: npt.NDArray[np.int64],
    receipt: Receipt,
    squared_sensitivity: int,
    streams: Streams,
    times: int = 1,
    share: Fraction = Fraction(1),
) -> npt.NDArray[np.int64]:
    """Release integers with normal noise that is rounded to integers.

    The noise of each value is round(σ·Z), with independent standard normal Z and σ² >= squared_sensitivity/μ², where μ
    is the receipt's. If one record changes the values by a vector of integers whose squared L2 norm is at most
    ``squared_sensitivity``, the result is μ-Gaussian DP. The sampler is exact (Karney 2016). At μ = inf, no noise is
    added.

    Shapes: values (n, m), streams (n, STREAM_WORDS), result (n, m). ``squared_sensitivity``: the squared L2
    sensitivity, which must be the charged one. ``times``: number of paid releases that this call uses up. One record
    may change the values that many times, each time by at most the sensitivity, for example if values are about
    disjoint sets of records and a record may be in that many sets. ``share``: the fraction of these releases that this
    call uses up. Its cost, share·μ², replaces μ² in σ².
    """
    check_receipt(receipt)
    bound = Bound(BoundKind.SQUARED_L2, squared_sensitivity)
    mu_squared = receipt.use_gaussian(Mechanism.ROUNDED_GAUSSIAN, operator.index(times) * share, bound=bound).mu_squared
    if len(streams) != len(values):  # the kernel checks no bounds
        raise ValueError("There must be one stream for each row of values.")
    if mu_squared == math.inf:
        return np.array(values)
    noise = np.empty_like(values)
    _draw(streams, *_scale(Fraction(mu_squared) * share, squared_sensitivity), noise)
    clamped = np.clip(values, -_MAX_VALUE, _MAX_VALUE)
    return np.asarray(np.clip(clamped + noise, -_MAX_RELEASED, _MAX_RELEASED))


def _draw(
    streams: Streams, multiplier: int, shift: int, noise: npt.NDArray[np.int64], n_digits: int = _N_DIGITS
) -> None:
    """Fill row i with noise from stream i: in the kernel, or in Python where the kernel runs out of digits."""
    uniforms = np.zeros((3, 1 + n_digits), dtype=np.uint32)
    saved = secret_words(STREAM_WORDS)
    n_drawn = sampling.draw_gaussian(streams, multiplier, shift, uniforms, saved, 0, noise)
    while n_drawn < noise.size:
        row, column = divmod(n_drawn, noise.shape[1])
        drawn = draw_rounded_normal(streams[row], multiplier, shift)
        noise[row, column] = max(-_SATURATED, min(drawn, _SATURATED))
        n_drawn = sampling.draw_gaussian(streams, multiplier, shift, uniforms, saved, n_drawn + 1, noise)


def rounded_gaussian_pmf(x: int, mu_squared: Fraction, squared_sensitivity: int) -> tuple[Fraction, Fraction]:
    """Return lower and upper bounds of the irrational Pr[noise = x] = Φ((x + ½)/σ) - Φ((x - ½)/σ)."""
    sigma = gaussian_sigma(mu_squared, squared_sensitivity)
    half, magnitude = Fraction(1, 2), abs(x)
    near, far = _tail((magnitude - half) / sigma), _tail((magnitude + half) / sigma)
    low, high = near.minus(far).fractions()
    return max(low, Fraction(0)), high


def _tail(x: Fraction) -> Interval:
    """Return bounds of 1 - Φ(x)."""
    at = Interval.around(x)
    return Interval(upper_tail(at.high).low, upper_tail(at.low).high)
