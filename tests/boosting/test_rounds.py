"""The clip of residuals: a private quantile, looked at as often as was paid for.

Steps of cells: Newton's, shrunk by the noise, and gains that noise does not add to.

The start of boosting follows from what was released; test_whole_fits.py has the rest of the training.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.boosting import defaults, rounds
from diprime.boosting import rounds as clipping
from diprime.boosting.cells import CodeSums
from diprime.boosting.gradients import RANGE_BITS
from diprime.boosting.rounds import EDGES, RoundSums, clip_rounds, integer_steps, release_clip
from diprime.privacy.charges import Mechanism
from diprime.privacy.randomness import RandomSource
from tests.paid import gaussian_receipt


def clip_of(residuals, mu_squared=100, n_rows=None, seed=0):
    """Release the clip of some residuals."""

    def counts(edges):
        return np.bincount(np.searchsorted(edges, residuals, side="right"), minlength=len(edges) + 1)

    receipt = gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN, mu_squared, calibrated_to=1)
    n_rows = len(residuals) if n_rows is None else n_rows
    return release_clip(counts, n_rows, 1, receipt, RandomSource(seed))


@given(st.integers(1, 100_000))
def test_residual_histograms_match_the_charge(n_rounds):
    rounds = clip_rounds(n_rounds)
    assert sum(rounds.values()) == defaults.N_CLIPS
    assert 0 in rounds, "before the first round"
    assert all(0 <= number < n_rounds for number in rounds)


def test_residual_histograms_are_more_frequent_at_the_beginning():
    rounds = sorted(clip_rounds(400))
    assert np.all(np.diff(rounds, n=2) >= 0)
    assert rounds[-1] < 400


def test_edges_lead_up_to_the_whole_range():
    assert (np.diff(EDGES) > 0).all()
    assert EDGES[0] > 0
    assert EDGES[-1] == 1 << RANGE_BITS


@pytest.mark.parametrize("scale", [2**10, 2**14, 2**20])
def test_clip_is_just_above_the_quantile(scale):
    residuals = np.abs(np.random.default_rng(0).normal(0, scale, 20_000)).astype(np.int64)
    quantile = np.quantile(residuals, defaults.CLIP_QUANTILE)
    clip = clip_of(residuals)
    assert quantile <= 1.02 * clip
    assert clip <= 1.5 * quantile


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_clip_is_an_edge_for_any_release(n, seed):
    residuals = np.random.default_rng(seed).integers(0, 1 << 25, n)
    for mu_squared, n_rows in [(1, None), (1e-12, -1000.0), (1e-12, 1e12)]:
        assert clip_of(residuals, mu_squared, n_rows, seed) in EDGES


def test_residuals_beyond_the_range_lead_to_the_whole_range():
    assert clip_of(np.full(1000, 1 << 27)) == EDGES[-1]


def test_no_residuals_lead_to_the_least_clip_and_none_to_zero():
    assert clip_of(np.zeros(1000, dtype=np.int64)) == EDGES[0]
    assert EDGES[0] >= 1


@pytest.mark.parametrize("at", [0, 7, 20, len(EDGES) - 1])
def test_clip_follows_from_released_counts(at, monkeypatch):
    released = np.zeros((1, len(EDGES) + 1), dtype=np.int64)
    released[0, at] = 1000  # all of them right below one edge
    monkeypatch.setattr(clipping, "rounded_gaussian", lambda *arguments: released)
    for scale in (0, 2**10, 2**25):
        assert clip_of(np.full(1000, scale)) == EDGES[at]


numbers = st.floats(-1e9, 1e9)


def test_without_noise_steps_are_newtons_up_to_the_least_ridge():
    sums = RoundSums(np.array([[50.0], [-30.0]]), np.array([[100.0], [20.0]]), 0.0, 0.0)
    expected = [[50 / (100 + defaults.LEAST_RIDGE)], [-30 / (20 + defaults.LEAST_RIDGE)]]
    assert sums.steps(defaults.RIDGE) == pytest.approx(np.array(expected))


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8), st.floats(0, 1e6), st.floats(0, 1e6))
@settings(deadline=None, max_examples=100)
def test_steps_are_finite_and_never_against_the_gradient(cells, gradient_noise, weight_noise):
    gradients, weights = np.array(cells).T[:, :, None]
    sums = RoundSums(gradients, weights, gradient_noise, weight_noise)
    steps = sums.steps(2.0)
    assert np.isfinite(steps).all()
    assert (steps * gradients >= 0).all()
    assert (np.abs(steps) <= np.abs(gradients) / (2 * sums.ridge(2.0)) * (1 + 1e-9)).all()
    assert np.isfinite(sums.gain(2.0))
    assert sums.interaction_gain(2.0, (len(cells),)) == 0.0, "of one feature"


def test_ridge_is_the_larger_of_noise_and_minimum():
    sums = RoundSums(np.zeros((1, 1)), np.zeros((1, 1)), 3.0, 1.0)
    assert sums.ridge(2.0) == defaults.LEAST_RIDGE
    assert sums.ridge(20.0) == 60.0


def test_larger_ridge_shrinks_more():
    sums = RoundSums(np.array([[50.0]]), np.array([[100.0]]), 3.0, 1.0)
    steps = [float(sums.steps(factor)[0, 0]) for factor in (0.0, 5.0, 20.0, 100.0)]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] / steps[-1] > 5


def draw_sums(rng, shape, signal=0.0, noise=20.0):
    true = signal * np.broadcast_to(np.ones(shape), shape).reshape(-1, 1)
    weights = np.full((int(np.prod(shape)), 1), 500.0)
    return RoundSums(true + rng.normal(0, noise, true.shape), weights, noise, 1.0)


@pytest.mark.parametrize("shape", [(4,), (4, 4)])
def test_noise_alone_gains_nothing_on_average(shape):
    rng = np.random.default_rng(0)
    found = [draw_sums(rng, shape) for _ in range(4000)]
    for gains in ([s.gain(1.0) for s in found], [s.interaction_gain(1.0, shape) for s in found]):
        error = np.std(gains) / np.sqrt(len(gains))
        assert abs(np.mean(gains)) <= 4 * error
    without = np.mean([(s.gradients**2 / s.safe_weights(1.0)).sum() for s in found])
    assert without > 5 * np.std([s.gain(1.0) for s in found]) / np.sqrt(4000), "or nothing was taken off"


def test_sum_of_functions_of_single_features_is_no_interaction():
    rows, columns = np.array([3.0, -1.0, 5.0, 0.0]), np.array([2.0, -7.0, 1.0, 4.0])
    weights = np.full((16, 1), 100.0)

    def interaction(table):
        return RoundSums(100 * table.reshape(-1, 1), weights, 0.0, 0.0).interaction_gain(0.0, (4, 4))

    assert interaction(rows[:, None] + columns[None, :]) == pytest.approx(0.0, abs=1e-9)
    crossed = np.outer([1, 1, -1, -1], [1, -1, 1, -1])
    assert interaction(rows[:, None] + columns[None, :] + crossed) == pytest.approx(16 * 100)


@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=9), st.integers(1, 100_000))
@settings(deadline=None, max_examples=100)
def test_scores_fit_in_32_bits_for_any_steps(steps, n_rounds):
    moved = integer_steps(np.array(steps)[:, None], 2.0**20, n_rounds)
    assert moved.dtype == np.int32
    assert np.abs(moved.astype(np.int64)).max() * n_rounds <= 1 << 30


def test_steps_are_rounded_to_units():
    moved = integer_steps(np.array([[0.5], [-0.26], [1e-9]]), 1024.0, 10)
    assert moved.tolist() == [[512], [-266], [0]]


@pytest.mark.parametrize("weight", [1, 4])
@pytest.mark.parametrize(("start", "size"), [(rounds._class_start, 3), (rounds._numeric_start, defaults.N_TARGET_BINS)])
def test_start_follows_from_released_counts(start, size, weight, monkeypatch):
    released = np.full((1, size), 100 * weight)
    monkeypatch.setattr(rounds, "rounded_gaussian", lambda *arguments: released)
    starts = [
        start(lambda true=true: np.array([true] + [0] * (size - 1)), weight, 1.0, None, RandomSource(0))
        for true in (0, 1, 10**6)
    ]
    assert [counts.tolist() for _, counts in starts] == 3 * [[100.0] * size]
    assert all(np.array_equal(offset, starts[0][0]) for offset, _ in starts)


def test_start_is_shrunk_to_equal_classes_and_the_middle_where_noise_drowns_the_counts(monkeypatch):
    monkeypatch.setattr(rounds, "rounded_gaussian", lambda sums, *arguments: np.asarray(sums))
    classes, numbers = np.array([900, 100]), np.array([300] + [0] * (defaults.N_TARGET_BINS - 1))
    for noise, log_odds, place in ((0.5, np.log(1 / 9), 0.5 / 64), (1e5, 0.0, 0.5)):
        scores, _ = rounds._class_start(lambda: classes, 1, noise, None, RandomSource(0))
        median, _ = rounds._numeric_start(lambda: numbers, 1, noise, None, RandomSource(0))
        assert scores[0] / 2**20 == pytest.approx(log_odds, abs=0.02)
        assert median[0] / 2**24 == pytest.approx(place, abs=1 / 64)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_number_of_records_has_the_stated_noise(n_classes):
    """Each mean of 2000 squares is within 6 standard deviations of 1: false alarms of 4e-9."""
    rng = np.random.default_rng(0)
    squares = []
    for _ in range(2000):
        counts = np.full(n_classes, 500.0) + rng.normal(0, 20, n_classes)
        sums = rng.normal(0, 3, (4, 256, n_classes))
        sums[:, 0] += 500
        of_rounds = [(500 * n_classes + rng.normal(0, noise), noise) for noise in (20.0, 40.0)]
        found, noise = rounds._number_of_records(counts, 20.0, CodeSums(sums, 3.0), of_rounds)
        squares.append(((found - 500 * n_classes) / noise) ** 2)
    assert np.mean(squares) == pytest.approx(1, abs=6 * np.sqrt(2 / 2000))
    assert noise < 15
