"""Steps of cells, shrunk by their noise, and gains without noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.boosting import defaults
from diprime.boosting.rounds import RoundSums, integer_steps

RIDGE = defaults.RIDGE["classification"]
numbers = st.floats(-1e9, 1e9)


def test_without_noise_steps_are_newtons_up_to_the_least_ridge():
    sums = RoundSums(np.array([[50.0], [-30.0]]), np.array([[100.0], [20.0]]), 0.0, 0.0)
    expected = [[50 / (100 + defaults.LEAST_RIDGE)], [-30 / (20 + defaults.LEAST_RIDGE)]]
    assert sums.steps(RIDGE) == pytest.approx(np.array(expected))


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
