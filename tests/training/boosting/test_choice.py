"""Which features rounds cut: all of them now and then, those that gained most of the time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.training.boosting import defaults
from diprime.training.boosting.choice import FeatureChoice

uniform = st.floats(0, 1, exclude_max=True)
AFTER_EXPLORING = 0.999  # a draw that is not for exploring


def trained(gains, n_rounds=10):
    """Return a choice that has seen every feature as often, with these gains."""
    choice = FeatureChoice(len(gains))
    for _ in range(n_rounds):
        for feature, gain in enumerate(gains):
            choice.learn([feature], gain, 0.0)
    return choice


def shares(choice, first, n=1, n_features=4):
    """Return how often each feature is drawn first, over a grid of the other random numbers."""
    drawn = [choice.draw(n, [first, u, v])[0] for u in np.linspace(0, 0.9999, 400) for v in (0.3,)]
    return np.bincount(drawn, minlength=n_features) / len(drawn)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), st.integers(1, 2), uniform, uniform, uniform)
@settings(deadline=None, max_examples=100)
def test_features_drawn_together_are_different(gains, n, first, second, third):
    n = min(n, len(gains))
    drawn = trained(gains).draw(n, [first, second, third])
    assert len(drawn) == n == len(set(drawn))
    assert all(0 <= feature < len(gains) for feature in drawn)


def test_at_first_all_features_are_as_likely():
    choice = FeatureChoice(4)
    assert shares(choice, AFTER_EXPLORING) == pytest.approx([0.25] * 4, abs=0.01)
    choice.learn([2], 100.0, 0.0)
    assert shares(choice, AFTER_EXPLORING) == pytest.approx([0.25] * 4, abs=0.01), "one gain says little"


def test_later_features_are_drawn_by_their_gains():
    choice = trained([3.0, 1.0, 0.0, -5.0])
    assert shares(choice, AFTER_EXPLORING) == pytest.approx([0.75, 0.25, 0, 0], abs=0.01)
    assert shares(choice, 0.99 * defaults.EXPLORE) == pytest.approx([0.25] * 4, abs=0.01)


def test_gains_that_are_noise_lead_to_uniform_draws():
    assert shares(trained([-1.0, -2.0, 0.0, -3.0]), AFTER_EXPLORING) == pytest.approx([0.25] * 4, abs=0.01)


def test_what_was_long_ago_is_forgotten():
    choice = FeatureChoice(2)
    for gain in [100.0] * 30 + [0.0] * 60:
        choice.learn([0], gain, 0.0)
        choice.learn([1], 1.0, 0.0)
    assert shares(choice, AFTER_EXPLORING, n_features=2)[1] > 0.8


def test_every_feature_keeps_a_chance():
    choice = trained([1000.0, 0.0, 0.0, 0.0])
    assert choice.draw(1, [AFTER_EXPLORING, 0.9999, 0.0]) == [3]


def test_interactions_are_means_over_the_rounds_of_their_features():
    choice = FeatureChoice(3)
    assert choice.mean_interaction([0, 1]) == 0.0
    choice.learn([0, 1], 5.0, 8.0)
    choice.learn([1, 2], 5.0, 2.0)
    choice.learn([0], 5.0, 99.0)
    assert choice.mean_interaction([0]) == 8.0
    assert choice.mean_interaction([1]) == 5.0
    assert choice.mean_interaction([0, 1]) == pytest.approx(18 / 3)
