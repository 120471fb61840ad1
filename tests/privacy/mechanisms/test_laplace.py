"""Discrete Laplace noise: its exact privacy loss, and a sampler that follows its distribution."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime.kernels import sampling
from diprime.privacy.charges import Mechanism
from diprime.privacy.mechanisms import laplace
from diprime.privacy.mechanisms.laplace import discrete_laplace_pmf, laplace_scale, laplace_variance
from diprime.privacy.randomness import RandomSource
from tests.exact_exp import TOO_LITTLE_NOISE, exp_bounds
from tests.goodness import fits
from tests.paid import discrete_laplace, receipt

DRAWS = 40_000
LAPLACE = [(Fraction(1), 1), (Fraction(1, 3), 1), (Fraction(5), 4), (Fraction(1, 100), 1), (Fraction(2), 4096)]


def laplace_q(epsilon, sensitivity):
    """Return bounds of q = e^(-1/scale) for the scale that is used."""
    numerator, denominator = laplace_scale(epsilon, sensitivity)
    low, high = exp_bounds(Fraction(denominator, numerator))
    return 1 / high, 1 / low


@pytest.mark.parametrize(("epsilon", "sensitivity"), [*LAPLACE, (Fraction(40), 1), (Fraction(100), 1)])
def test_bounds_of_the_laplace_distribution_contain_it(epsilon, sensitivity):
    low_q, high_q = laplace_q(epsilon, sensitivity)
    for x in (0, 1, -1, 2, 3, 10, -17):
        below, above = discrete_laplace_pmf(x, epsilon, sensitivity)
        assert 0 <= below <= (1 - high_q) / (1 + high_q) * low_q ** abs(x)
        assert above >= (1 - low_q) / (1 + low_q) * high_q ** abs(x)
        assert above - below < Fraction(1, 2**100)


@pytest.mark.parametrize(("epsilon", "sensitivity"), LAPLACE)
def test_laplace_sums_to_one_and_neighbours_differ_by_at_most_epsilon(epsilon, sensitivity):
    reach = 60
    bounds = {x: discrete_laplace_pmf(x, epsilon, sensitivity) for x in range(-reach, reach + 1)}
    low_q, high_q = laplace_q(epsilon, sensitivity)
    tail = 2 * high_q ** (reach + 1) / (1 + high_q)
    assert sum(below for below, _ in bounds.values()) <= 1
    assert sum(above for _, above in bounds.values()) + tail >= 1
    slack = 1 + Fraction(1, 2**60)  # the bounds are that wide; the scale itself is exact
    limit = exp_bounds(epsilon / sensitivity)[0] * slack
    for x in range(-reach, reach):
        if min(bounds[x][0], bounds[x + 1][0]) > Fraction(1, 2**50):
            assert bounds[x][1] <= bounds[x + 1][0] * limit
            assert bounds[x + 1][1] <= bounds[x][0] * limit
    for x in (0, -sensitivity, -(sensitivity // 3)):
        (low, high), (low_moved, high_moved) = (
            discrete_laplace_pmf(at, epsilon, sensitivity) for at in (x, x + sensitivity)
        )
        assert high <= low_moved * exp_bounds(epsilon)[0] * slack
        assert high_moved <= low * exp_bounds(epsilon)[0] * slack
    assert low_q >= 1 / exp_bounds(epsilon / sensitivity)[1]  # and in exact arithmetic: q >= e^(-epsilon/sensitivity)


epsilons = st.builds(Fraction, st.integers(1, 2**60), st.integers(1, 2**60)).filter(lambda e: e >= Fraction(1, 2**40))


@given(epsilons | st.fractions(Fraction(1, 2**40), 2**21), st.sampled_from([1, 2, 3, 4096, 65535]))
@example(Fraction(1, 2**40), 4096)
@example(Fraction(2**20 - 1), 1)
@example(Fraction(2**30), 1)
@example(Fraction(2**20) - Fraction(1, 3), 1)
@settings(deadline=None)
def test_the_scale_of_the_noise_is_never_too_small_and_fits_the_sampler(epsilon, sensitivity):
    numerator, denominator = laplace_scale(epsilon, sensitivity)
    scale, asked = Fraction(numerator, denominator), sensitivity / epsilon
    assert scale >= asked
    if Fraction(1, 2**20) <= epsilon <= 2**20 - 1:
        assert scale <= asked * (1 + Fraction(1, 2**18))
    assert 1 <= denominator < 2**20
    assert 1 <= numerator <= 2**56
    # The mark of a draw that was stopped is no noise, and no intermediate number reaches 2^63.
    most_wholes = laplace.MAX_WHOLES_PRODUCT // numerator
    assert numerator * most_wholes <= laplace._STOPPED
    assert numerator * most_wholes // denominator >= 2**41
    assert numerator * most_wholes + numerator < 2**63
    assert most_wholes >= 2**6


def test_an_epsilon_too_small_for_noise_is_refused():
    with pytest.raises(ValueError, match=r"^epsilon .*too small: .*2\^-40"):
        laplace_scale(Fraction(1, 2**41), 1)


def laplace_cells(epsilon, sensitivity):
    """Return the upper ends of 40 cells of integers, the last one open, and their probabilities."""
    numerator, denominator = laplace_scale(epsilon, sensitivity)
    scale = numerator / denominator
    ends = sorted({math.floor(scale * z) for z in np.linspace(-4, 4, 40)} | {-2, -1, 0, 1})
    q = math.exp(-1 / scale)

    def up_to(x):
        return q**-x / (1 + q) if x < 0 else 1 - q ** (x + 1) / (1 + q)

    below = [up_to(x) for x in ends]
    return ends, np.diff([0.0, *below, 1.0])


@pytest.mark.parametrize(("epsilon", "sensitivity"), [*LAPLACE, (Fraction(1, 10**9), 1)])
def test_laplace_follows_its_distribution_and_less_noise_is_noticed(epsilon, sensitivity):
    ends, p = laplace_cells(epsilon, sensitivity)
    values = np.full((DRAWS // 4, 4), 1000, dtype=np.int64)

    def counts(noise_epsilon, seed):
        drawn = discrete_laplace(values, noise_epsilon, sensitivity, RandomSource(seed).streams(len(values))) - 1000
        return np.bincount(np.searchsorted(ends, drawn.ravel(), side="left"), minlength=len(p))

    assert fits(counts(epsilon, 7), p)
    assert not fits(counts(epsilon * TOO_LITTLE_NOISE, 8), p)
    if sensitivity == 1 and epsilon >= Fraction(1, 3):  # the cells agree with the exact distribution
        below, above = discrete_laplace_pmf(0, epsilon, sensitivity)
        assert below <= p[ends.index(0)] * (1 + 1e-12)
        assert above >= p[ends.index(0)] * (1 - 1e-12)


@pytest.mark.parametrize(("epsilon", "sensitivity"), LAPLACE)
def test_the_variance_is_that_of_the_noise(epsilon, sensitivity):
    numerator, denominator = laplace_scale(epsilon, sensitivity)
    q = math.exp(-denominator / numerator)
    reach = np.arange(1, 60 * (numerator // denominator + 1))
    expected = 2 * (1 - q) / (1 + q) * np.sum(reach.astype(float) ** 2 * q**reach)
    assert laplace_variance(epsilon, sensitivity) == pytest.approx(expected, rel=1e-6)
    assert laplace_variance(math.inf, sensitivity) == 0


def test_noise_is_independent_from_value_to_value():
    values = np.zeros((DRAWS // 2, 2), dtype=np.int64)
    drawn = discrete_laplace(values, Fraction(1), 1, RandomSource(9).streams(len(values)))
    q = math.exp(-1)
    zero = (1 - q) / (1 + q)
    both = np.bincount(2 * (drawn[:, 0] == 0) + (drawn[:, 1] == 0), minlength=4)
    assert fits(both, [(1 - zero) ** 2, (1 - zero) * zero, zero * (1 - zero), zero**2])


def test_releases_are_clamped_where_noise_is_cut_off(monkeypatch):
    values = np.array([[2**52, -(2**52), 0, 5, 2**52]])

    def draw(streams, numerator, denominator, most_wholes, stopped, out):
        out[:] = [[stopped, -stopped, 2**61, -(2**61), -(2**54)]]

    monkeypatch.setattr(laplace.sampling, "draw_laplace", draw)
    monkeypatch.setattr(laplace, "_magnitude_beyond", lambda *_: 10**30)
    released = discrete_laplace(values, Fraction(1), 1, RandomSource(0).streams(1))
    assert released.tolist() == [[2**53, -(2**53), 2**53, -(2**53), -(2**53)]]


@pytest.mark.parametrize(("numerator", "denominator"), [(10, 1), (7, 3), (40, 7)])
@pytest.mark.parametrize("most_wholes", [1, 2])
def test_noise_is_the_same_wherever_the_kernel_stops(most_wholes, numerator, denominator, monkeypatch):
    """A stop after few wholes is met often: what is drawn without limits has to go on where the kernel stopped."""
    monkeypatch.setattr(laplace, "MAX_WHOLES_PRODUCT", most_wholes * numerator)
    noise = np.empty((1, 20_000), dtype=np.int64)
    laplace._draw(RandomSource(3).streams(1), numerator, denominator, noise)
    q = math.exp(-denominator / numerator)
    shares = [(1 - q) / (1 + q) * q ** abs(x) for x in range(-40, 41)]
    counts = [int((noise == x).sum()) for x in range(-40, 41)]
    rest = noise.size - sum(counts)
    assert fits([*counts, rest], [*shares, 1 - sum(shares)])
    cut = np.clip(noise, -(most_wholes * numerator // denominator), most_wholes * numerator // denominator)
    counts = [int((cut == x).sum()) for x in range(-40, 41)]
    assert not fits([*counts, cut.size - sum(counts)], [*shares, 1 - sum(shares)])


def test_no_noise_at_infinity_and_a_copy_is_returned():
    values = np.array([[1, 2], [3, 4]])
    released = discrete_laplace(values, math.inf, 1, RandomSource(0).streams(2))
    np.testing.assert_array_equal(released, values)
    assert not np.shares_memory(released, values)


# Payment -------------------------------------------------------------------------------------------------------------


def release(paid, times=1, n_rows=2, seed=0):
    values = np.array([[1, 2], [3, 4]])
    return laplace.discrete_laplace(values, paid, 3, RandomSource(seed).streams(n_rows), times)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [*LAPLACE, (Fraction(22, 7), 3)])
def test_noise_scale_follows_from_the_receipt(epsilon, sensitivity, monkeypatch):
    """Whatever else was in the ledger, and however many releases were paid for."""
    scales = []
    monkeypatch.setattr(
        laplace.sampling, "draw_laplace", lambda _, *scale: scales.append(scale[:2]) or scale[-1].fill(0)
    )
    for times in (1, 4):
        paid = receipt(Mechanism.DISCRETE_LAPLACE, epsilon, times, calibrated_to=sensitivity)
        laplace.discrete_laplace(np.zeros((1, 2), dtype=np.int64), paid, sensitivity, RandomSource(0).streams(1), times)
    assert scales == [laplace_scale(epsilon, sensitivity)] * 2


def test_released_noise_equals_the_sampled_noise():
    epsilon, noise = Fraction(22, 7), np.empty((2, 2), dtype=np.int64)
    numerator, denominator = laplace_scale(epsilon, 3)
    most_wholes = laplace.MAX_WHOLES_PRODUCT // numerator
    sampling.draw_laplace(RandomSource(0).streams(2), numerator, denominator, most_wholes, 1 << 42, noise)
    released = release(receipt(Mechanism.DISCRETE_LAPLACE, epsilon, calibrated_to=3))
    np.testing.assert_array_equal(released - [[1, 2], [3, 4]], noise)
    assert noise.any()


@pytest.mark.parametrize("n_rows", [0, 1, 3])
def test_every_row_of_values_has_a_stream(n_rows):
    """The kernel would go on to read random bits past the end of those that it was given."""
    with pytest.raises(ValueError, match=r"one stream .*each row"):
        release(receipt(Mechanism.DISCRETE_LAPLACE, calibrated_to=3), n_rows=n_rows)


@pytest.mark.parametrize("sensitivity", [0, -1])
def test_a_sensitivity_that_needs_no_noise_is_refused(sensitivity):
    with pytest.raises(ValueError, match=rf"^The sensitivity .*least 1, got {sensitivity}"):
        laplace_scale(Fraction(1), sensitivity)
