"""Draws without limits: from the same words they are those of the kernel, however few digits it may use."""

import math
from fractions import Fraction

import numpy as np
import pytest

from diprime.kernels import sampling
from diprime.privacy.mechanisms import gaussian
from diprime.privacy.mechanisms.rounded_normal import _rounded_product, draw_rounded_normal
from diprime.privacy.randomness import STREAM_WORDS, RandomSource

SCALES = [
    pytest.param(gaussian._scale(Fraction(squared).limit_denominator(1 << 80), 1), id=name)
    for name, squared in [
        ("2^-31", Fraction(1 << 80)),
        ("2^-10", Fraction(1 << 20)),
        ("1/3", Fraction(9)),
        ("1", Fraction(1)),
        ("7.07", Fraction(2, 100)),
        ("2^20 + 1/3", Fraction(9, (3 * 2**20 + 1) ** 2)),
        ("2^31", Fraction(1, 1 << 62)),
        ("1.2 * 2^30", Fraction(25, 36 << 60)),
        ("1.2 * 2^32", Fraction(25, 36 << 64)),
        ("2^36", Fraction(1, 1 << 72)),
    ]
]


def reference(streams, multiplier, shift, n):
    return np.array([[draw_rounded_normal(stream, multiplier, shift) for _ in range(n)] for stream in streams])


@pytest.mark.parametrize("n_digits", [8, 3, 2, 1])
@pytest.mark.parametrize("scale", SCALES)
def test_kernel_and_reference_draw_the_same_numbers_from_the_same_words(scale, n_digits):
    n_rows, n_columns = 40, 25
    streams = RandomSource(n_digits).streams(n_rows)
    others, drawn = streams.copy(), np.empty((n_rows, n_columns), dtype=np.int64)
    gaussian._draw(streams, *scale, drawn, n_digits)
    np.testing.assert_array_equal(drawn, reference(others, *scale, n_columns))
    np.testing.assert_array_equal(streams, others)  # and they leave the same words to be drawn next


def stops(scale, n_digits, n_draws=4000):
    """Return which draws the kernel alone does not make, for lack of digits."""
    streams, out = RandomSource(3).streams(n_draws), np.zeros((n_draws, 1), dtype=np.int64)
    scratch = np.zeros((3, 1 + n_digits), dtype=np.uint32), np.zeros(STREAM_WORDS, dtype=np.uint32)
    found, begin = [], 0
    while (at := sampling.draw_gaussian(streams, *scale, *scratch, begin, out)) < n_draws:
        found.append(at)
        begin = at + 1
    return found


@pytest.mark.parametrize("squared", [Fraction(25, 36 << 60), Fraction(1, 1 << 70)])
def test_the_kernel_does_run_out_where_digits_are_few(squared):
    """Without this, the comparison of kernel and reference would not reach the reference."""
    assert len(stops(gaussian._scale(squared, 1), 1)) > 100
    assert stops(gaussian._scale(squared, 1), 8) == []


class Digits:
    """A uniform number with given digits, and zeros after them."""

    def __init__(self, *digits):
        self.digits = digits

    def digit(self, i):
        return self.digits[i] if i < len(self.digits) else 0


@pytest.mark.parametrize("scale", SCALES)
def test_numbers_are_rounded_to_the_nearest_integer(scale):
    """Including those that are a hair below or above the middle of two."""
    multiplier, shift = scale
    sigma = Fraction(multiplier << 32, 1 << shift)
    rng = np.random.default_rng(0)
    for _ in range(200):
        whole = int(rng.integers(0, 5))
        middle = (int(sigma * (whole + rng.random())) + Fraction(1, 2)) / sigma - whole
        near = int(middle * 2**96) + int(rng.integers(-1, 2))
        if not 0 <= near < 2**96:
            near = int(rng.integers(0, 2**62))
        digits = [near >> 64, near >> 32 & 0xFFFFFFFF, near & 0xFFFFFFFF]
        exact = sigma * (whole + Fraction(near, 2**96))
        assert _rounded_product(whole, Digits(*digits), multiplier, shift) == math.floor(exact + Fraction(1, 2))
