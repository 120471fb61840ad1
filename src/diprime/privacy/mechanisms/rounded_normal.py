"""Rounded normal noise from one stream, without a limit on digits: what the kernel's draws are by definition.

The kernel has room for a few digits of each uniform number. A draw that needs more is made here, from the same words in
the same order, so that every draw has exactly its distribution. gaussian.md has the algorithm and its proof.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime.kernels import sampling

Stream = npt.NDArray[np.uint32]

_WORD_BITS = 32


class _Uniform:
    """A uniform number in [0, 1), whose 32-bit digits are drawn when they are needed."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._digits: list[int] = []

    def digit(self, i: int) -> int:
        """Return digit i, which is known or the next."""
        if i == len(self._digits):
            word = np.empty(1, dtype=np.uint32)
            sampling.draw_words(self._stream, word)
            self._digits.append(int(word[0]))
        return self._digits[i]

    def is_below(self, other: _Uniform) -> bool:
        """Return whether it is below another one."""
        i = 0
        while True:
            theirs, ours = other.digit(i), self.digit(i)
            if ours != theirs:
                return ours < theirs
            i += 1


def draw_rounded_normal(stream: Stream, multiplier: int, shift: int) -> int:
    """Return a normal number of standard deviation multiplier·2^(32 - shift), rounded to the nearest integer."""
    whole, fraction = _magnitude(stream)
    rounded = _rounded_product(whole, fraction, multiplier, shift)
    sign = np.empty(1, dtype=np.uint32)
    sampling.draw_words(stream, sign)
    return -rounded if sign[0] & 1 else rounded


def _magnitude(stream: Stream) -> tuple[int, _Uniform]:
    """Draw the magnitude of a standard normal number: its whole part and its fraction."""
    while True:
        whole = 0
        while _accepts_half(stream):
            whole += 1
        if not all(_accepts_half(stream) for _ in range(whole * (whole - 1))):
            continue
        fraction = _Uniform(stream)
        if all(_accepts_fraction(stream, fraction, whole) for _ in range(whole + 1)):
            return whole, fraction


def _below(stream: Stream, bound: int) -> int:
    draw = np.empty(1, dtype=np.uint64)
    sampling.draw_below(stream, bound, draw)
    return int(draw[0])


def _accepts_half(stream: Stream) -> bool:
    """Return true with probability exp(-1/2)."""
    k = 1
    while _below(stream, 2) == 0 and _below(stream, k) == 0:
        k += 1
    return k % 2 == 1


def _accepts_fraction(stream: Stream, fraction: _Uniform, whole: int) -> bool:
    """Return true with probability exp(-x·(2k + x)/(2k + 2)), for the fraction x and the whole part k."""
    last, is_even = fraction, True
    while True:
        new = _Uniform(stream)
        if not new.is_below(last):
            return is_even
        side = _below(stream, 2 * whole + 2) - 2 * whole
        if side > 0 or (side == 0 and not _Uniform(stream).is_below(fraction)):
            return is_even
        last, is_even = new, not is_even


def _rounded_product(whole: int, fraction: _Uniform, multiplier: int, shift: int) -> int:
    """Return the integer nearest to (k + x)·multiplier·2^(32 - shift), from as many digits of x as it takes."""
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
