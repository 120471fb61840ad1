"""Draws without limits: from the same words they are those of the kernel, however few digits it may use.

Rounded Gaussian noise: its exact privacy loss, and a sampler that follows its distribution.
"""

import itertools
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime.kernels import sampling
from diprime.privacy.charges import Mechanism, UnpaidReleaseError
from diprime.privacy.gaussian_dp import delta_upper_bound
from diprime.privacy.mechanisms import gaussian
from diprime.privacy.mechanisms.gaussian import (
    _rounded_product,
    draw_rounded_normal,
    gaussian_sigma,
    rounded_gaussian_pmf,
)
from diprime.privacy.randomness import STREAM_WORDS, RandomSource
from tests.exact_exp import exp_bounds
from tests.goodness import fits
from tests.paid import gaussian_receipt, rounded_gaussian
from tests.spies import Draws

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


DRAWS = 40_000
GAUSSIAN = [
    (Fraction(1), 1),
    (Fraction(16), 1),  # a quarter of an integer
    (Fraction(1, 5), 3),
    (Fraction(3, 10_000), 2),
    (Fraction(1, 100), 1 << 22),
    (Fraction(1, 1 << 70), 1),
]
TOO_LITTLE_NOISE = Fraction(100, 49)  # a μ² that is this much larger has 30 % less noise


# The distribution ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mu_squared", "squared_sensitivity"), GAUSSIAN)
def test_bounds_of_the_distribution_contain_it(mu_squared, squared_sensitivity):
    sigma = float(gaussian_sigma(mu_squared, squared_sensitivity))
    for x in (0, 1, -1, 2, round(sigma), -round(2.5 * sigma)):
        low, high = rounded_gaussian_pmf(x, mu_squared, squared_sensitivity)
        assert 0 <= low <= high <= low + Fraction(1, 1 << 250)
        near, far = (math.erfc((abs(x) + by) / sigma / math.sqrt(2)) / 2 for by in (-0.5, 0.5))
        assert float(low) == pytest.approx(near - far, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize(("mu_squared", "squared_sensitivity", "reach"), [(Fraction(1), 1, 20), (Fraction(16), 1, 9)])
def test_the_distribution_adds_up_to_one(mu_squared, squared_sensitivity, reach):
    bounds = [rounded_gaussian_pmf(x, mu_squared, squared_sensitivity) for x in range(-reach, reach + 1)]
    assert 1 - Fraction(1, 10**60) < sum(low for low, _ in bounds) <= 1
    assert 1 - Fraction(1, 10**60) < sum(high for _, high in bounds)


def excess(mu_squared, squared_sensitivity, difference, epsilon, reach):
    """Return bounds of Σ max(0, p - e^ε·q) over all outputs, for two neighbours whose values differ by a vector.

    It is computed coordinate by coordinate: outputs are tuples of integers, and their probabilities products.
    """
    pmf = {x: rounded_gaussian_pmf(x, mu_squared, squared_sensitivity) for x in range(-reach - 9, reach + 10)}
    e_low, e_high = exp_bounds(epsilon)
    low = high = Fraction(0)
    for output in itertools.product(range(-reach, reach + 1), repeat=len(difference)):
        p_low, p_high = (math.prod(pmf[x][side] for x in output) for side in (0, 1))
        moved = [pmf[x - d] for x, d in zip(output, difference, strict=True)]
        q_low, q_high = (math.prod(bounds[side] for bounds in moved) for side in (0, 1))
        low += max(Fraction(0), p_low - e_high * q_high)
        high += max(Fraction(0), p_high - e_low * q_low)
    outside = 1 - math.prod([sum(pmf[x][0] for x in range(-reach, reach + 1))] * len(difference))
    return low, high + outside


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 2), Fraction(3)])
@pytest.mark.parametrize(
    ("mu_squared", "difference", "reach"),
    [
        (Fraction(1), (1,), 25),
        (Fraction(1), (-1,), 25),
        (Fraction(9), (1,), 12),
        (Fraction(1, 4), (3,), 150),
        (Fraction(4), (1, 1), 18),
        (Fraction(1), (2, -1), 32),
        (Fraction(4), (1, 0, -1), 9),
    ],
)
def test_neighbours_differ_by_at_most_delta_of_mu(mu_squared, difference, reach, epsilon):
    squared_sensitivity = sum(d**2 for d in difference)
    low, high = excess(mu_squared, squared_sensitivity, difference, epsilon, reach)
    delta = delta_upper_bound(mu_squared, epsilon)
    assert high <= delta + Fraction(1, 10**60)  # the bounds are that wide; where rounding loses nothing, both are equal
    assert high - low < Fraction(1, 10**8)
    # The test has power: with 30 % too little noise it fails, wherever rounding leaves a trace of the difference.
    if gaussian_sigma(mu_squared, squared_sensitivity) >= 1:
        too_much, _ = excess(mu_squared * TOO_LITTLE_NOISE, squared_sensitivity, difference, epsilon, reach)
        assert too_much > delta


# The scale -----------------------------------------------------------------------------------------------------------

mus_squared = st.builds(Fraction, st.integers(1, 2**60), st.integers(1, 2**60))


@given(mus_squared, st.integers(1, 1 << 26))
@example(Fraction(1, 1 << 72), 1)
@example(Fraction(1, 1 << 72), 2)
@example(Fraction(1 << 200), 1)
@example(Fraction(3, 1 << 62), (1 << 24) - 1)
@settings(deadline=None, max_examples=300)
def test_the_scale_of_the_noise_is_never_too_small_and_fits_the_sampler(mu_squared, squared_sensitivity):
    if mu_squared * 2**72 < squared_sensitivity:
        with pytest.raises(ValueError, match="mu is too small"):
            gaussian_sigma(mu_squared, squared_sensitivity)
        return
    sigma, variance = gaussian_sigma(mu_squared, squared_sensitivity), squared_sensitivity / mu_squared
    assert sigma**2 >= variance
    if sigma > Fraction(1, 1 << 8):
        assert sigma**2 <= variance * (1 + Fraction(1, 1 << 22)) ** 2
    assert (sigma - Fraction(1, 1 << 31)) ** 2 <= variance or sigma > Fraction(1, 1 << 8)
    multiplier, shift = gaussian._scale(mu_squared, squared_sensitivity)
    assert Fraction(multiplier << 32, 1 << shift) == sigma
    assert 1 <= multiplier <= 1 << 24
    assert 19 <= shift <= 63  # the largest numbers of the kernel are below 2^64:
    assert multiplier * (64 << 32) + (1 << shift) < 1 << 64
    assert multiplier <= 1 << shift or ((1 << shift) << 32) + (multiplier << 32) < 1 << 64


@pytest.mark.parametrize(("mu_squared", "squared_sensitivity"), [(Fraction(0), 1), (Fraction(1, 1 << 73), 1)])
def test_a_mu_too_small_for_noise_is_refused(mu_squared, squared_sensitivity):
    with pytest.raises(ValueError, match=r"exceeds 2\^36"):
        gaussian_sigma(mu_squared, squared_sensitivity)


@pytest.mark.parametrize("squared_sensitivity", [0, -1])
def test_a_sensitivity_that_needs_no_noise_is_refused(squared_sensitivity):
    with pytest.raises(ValueError, match="at least 1"):
        gaussian_sigma(Fraction(1), squared_sensitivity)


# The sampler ---------------------------------------------------------------------------------------------------------


def cells(mu_squared, squared_sensitivity):
    """Return the upper ends of some 40 cells of integers, the last one open, and their probabilities."""
    sigma = float(gaussian_sigma(mu_squared, squared_sensitivity))
    ends = sorted({math.floor(sigma * z) for z in np.linspace(-3, 3, 40)} | {-2, -1, 0, 1})
    return ends, np.diff([0.0, *(NormalDist().cdf((x + 0.5) / sigma) for x in ends), 1.0])


def draw(mu_squared, squared_sensitivity, seed):
    values = np.full((DRAWS // 4, 4), 1000, dtype=np.int64)
    return rounded_gaussian(values, mu_squared, squared_sensitivity, RandomSource(seed).streams(len(values))) - 1000


@pytest.mark.parametrize(("mu_squared", "squared_sensitivity"), GAUSSIAN)
def test_noise_follows_its_distribution_and_less_noise_is_noticed(mu_squared, squared_sensitivity):
    ends, p = cells(mu_squared, squared_sensitivity)

    def frequencies(noise):
        return np.bincount(np.searchsorted(ends, noise.ravel(), side="left"), minlength=len(p))

    assert fits(frequencies(draw(mu_squared, squared_sensitivity, 7)), p)
    assert not fits(frequencies(draw(mu_squared * TOO_LITTLE_NOISE, squared_sensitivity, 8)), p)
    if gaussian_sigma(mu_squared, squared_sensitivity) < 8:  # the cells agree with the exact distribution
        low, high = rounded_gaussian_pmf(0, mu_squared, squared_sensitivity)
        assert float(low) == pytest.approx(p[ends.index(0)], rel=1e-12)
        assert float(high) == pytest.approx(p[ends.index(0)], rel=1e-12)


@pytest.mark.parametrize(("mu_squared", "squared_sensitivity"), GAUSSIAN[:3])
def test_other_roundings_are_noticed(mu_squared, squared_sensitivity):
    """Rounded down, or towards zero, from noise of the same standard deviation."""
    ends, p = cells(mu_squared, squared_sensitivity)
    normal = np.random.default_rng(0).normal(0, float(gaussian_sigma(mu_squared, squared_sensitivity)), DRAWS)

    def fit(noise):
        return fits(np.bincount(np.searchsorted(ends, noise, side="left"), minlength=len(p)), p)

    assert fit(np.rint(normal))
    for rounding in (np.floor, np.ceil, np.trunc):
        assert not fit(rounding(normal))


def test_every_integer_has_its_probability():
    """One by one, so that no pattern within a cell escapes."""
    sigma_squared, reach = 9, 12
    p = [float(rounded_gaussian_pmf(x, Fraction(1, sigma_squared), 1)[0]) for x in range(-reach, reach + 1)]
    noise = draw(Fraction(1, sigma_squared), 1, 11).ravel()
    inside = np.abs(noise) <= reach
    counts = [*np.bincount(noise[inside] + reach, minlength=len(p)).tolist(), int((~inside).sum())]
    assert fits(counts, [*p, 1 - sum(p)])


def test_noise_is_independent_from_value_to_value():
    values = np.zeros((DRAWS // 2, 2), dtype=np.int64)
    drawn = rounded_gaussian(values, Fraction(1), 1, RandomSource(9).streams(len(values)))
    zero = float(rounded_gaussian_pmf(0, Fraction(1), 1)[0])
    both = np.bincount(2 * (drawn[:, 0] == 0) + (drawn[:, 1] == 0), minlength=4)
    assert fits(both, [(1 - zero) ** 2, (1 - zero) * zero, zero * (1 - zero), zero**2])
    signs = np.bincount(2 * (drawn[:, 0] > 0) + (drawn[:, 1] > 0), minlength=4)
    above = (1 - zero) / 2
    assert fits(signs, [(1 - above) ** 2, (1 - above) * above, above * (1 - above), above**2])


@pytest.mark.parametrize("n_digits", [8, 1])
def test_each_word_of_a_stream_is_used_once(monkeypatch, n_digits):
    """Also where the kernel gives a draw back, to be made without limits."""
    draws = Draws(monkeypatch)
    streams, noise = RandomSource(4).streams(50), np.empty((50, 4), dtype=np.int64)
    scale = gaussian._scale(Fraction(25, 36 << 60), 1)
    for _ in range(2):
        gaussian._draw(streams, *scale, noise, n_digits)
    draws.assert_each_bit_is_used_once()
    assert len(draws.spans) == 50


def test_values_are_clamped_before_noise_and_releases_after_it(monkeypatch):
    values = np.array([[2**62, -(2**62), 0, 5, 2**60, 2**59]])

    def made_noise(streams, multiplier, shift, noise):
        noise[:] = [[1, -1, 2**62, -(2**62), -(2**62), 2**60]]

    monkeypatch.setattr(gaussian, "_draw", made_noise)
    released = rounded_gaussian(values, Fraction(1), 1, RandomSource(0).streams(1))
    assert released.tolist() == [[2**60 + 1, -(2**60) - 1, 2**61, -(2**61), -(2**61), 2**60 + 2**59]]


@pytest.mark.parametrize(("drawn", "kept"), [(10**30, 2**62), (-(10**30), -(2**62)), (7, 7)])
def test_draws_without_limits_are_cut_off_where_clamping_hides_it(drawn, kept, monkeypatch):
    monkeypatch.setattr(gaussian, "draw_rounded_normal", lambda stream, multiplier, shift: drawn)
    monkeypatch.setattr(gaussian.sampling, "draw_gaussian", lambda *arguments: arguments[-2])
    noise = np.zeros((2, 3), dtype=np.int64)
    gaussian._draw(RandomSource(0).streams(2), 1 << 23, 55, noise)
    np.testing.assert_array_equal(noise, kept)


def test_largest_noise_does_not_overflow():
    """Clamped values and saturated noise add up to less than 2^63."""
    assert gaussian._MAX_VALUE + gaussian._SATURATED < 1 << 63
    assert gaussian._SATURATED - gaussian._MAX_VALUE >= gaussian._MAX_RELEASED, "or saturation would show"


def test_no_noise_at_infinity_and_a_copy_is_returned():
    values = np.array([[1, 2], [3, 4]])
    released = rounded_gaussian(values, math.inf, 1, RandomSource(0).streams(2))
    np.testing.assert_array_equal(released, values)
    assert not np.shares_memory(released, values)


# Payment -------------------------------------------------------------------------------------------------------------


def release(paid, times=1, n_rows=2):
    values = np.array([[1, 2], [3, 4]])
    return gaussian.rounded_gaussian(values, paid, 3, RandomSource(0).streams(n_rows), times)


@pytest.mark.parametrize(("mu_squared", "squared_sensitivity"), GAUSSIAN)
def test_noise_scale_follows_from_the_receipt(mu_squared, squared_sensitivity, monkeypatch):
    """However many releases were paid for."""
    scales = []
    monkeypatch.setattr(gaussian, "_draw", lambda _, *scale: scales.append(scale[:2]) or scale[-1].fill(0))
    for times in (1, 4):
        paid = gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN, mu_squared, times, calibrated_to=squared_sensitivity)
        values, streams = np.zeros((1, 2), dtype=np.int64), RandomSource(0).streams(1)
        gaussian.rounded_gaussian(values, paid, squared_sensitivity, streams, times)
    assert scales == [gaussian._scale(mu_squared, squared_sensitivity)] * 2


@pytest.mark.parametrize("n_rows", [0, 1, 3])
def test_every_row_of_values_has_a_stream(n_rows):
    with pytest.raises(ValueError, match=r"one stream .*each row"):
        release(gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN, calibrated_to=3), n_rows=n_rows)


# Shares --------------------------------------------------------------------------------------------------------------


def release_share(share, n=DRAWS, mu_squared=Fraction(1, 4), times=1, seed=5):
    paid = gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN, mu_squared, times=times, calibrated_to=9)
    values = np.full((1, n), 1000, dtype=np.int64)
    noise = gaussian.rounded_gaussian(values, paid, 9, RandomSource(seed).streams(1), times, share) - 1000
    return noise, paid


@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 3), Fraction(1, 50)])
def test_noise_of_a_share_is_that_of_its_part_of_mu_squared_and_other_noise_is_noticed(share):
    noise, paid = release_share(share)
    assert paid.unused == 1 - share
    sigma = float(gaussian_sigma(share / 4, 9))
    assert sigma == pytest.approx(6 / math.sqrt(share), rel=1e-6)

    def is_noise_of(mu_squared):
        ends, p = cells(mu_squared, 9)
        return fits(np.bincount(np.searchsorted(ends, noise.ravel(), side="left"), minlength=len(p)), p)

    assert is_noise_of(share / 4)
    assert not is_noise_of(share / 4 * Fraction(11, 10))
    assert not is_noise_of(share / 4 * Fraction(10, 11))
    assert share == 1 or not is_noise_of(share**2 / 4)


def test_shares_of_several_releases_use_up_as_many_times_the_share():
    noise, paid = release_share(Fraction(1, 4), n=10_000, times=3)
    assert paid.unused == Fraction(9, 4)
    assert noise.std() / (6 * 2) == pytest.approx(1, abs=0.05), "each release has the share's noise"


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1, 2), Fraction(11, 10)])
def test_shares_that_were_not_charged_are_refused(share):
    with pytest.raises(UnpaidReleaseError, match=f"{share} releases"):
        release_share(share, n=1)


def test_share_too_small_for_the_sampler_is_refused():
    with pytest.raises(ValueError, match=r"2\^36"):
        release_share(Fraction(1, 1 << 80), n=1)
