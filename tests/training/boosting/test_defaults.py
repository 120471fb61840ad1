"""Rules that choose the numbers of boosting: what they tend to with little noise and with little information."""

import pytest

from diprime.training.boosting import defaults
from diprime.training.boosting.steps import RoundSums


def added_weight(task, noise, signal=1e5):
    """Return the weight that a fit adds to every cell."""
    factor = defaults.ridge(task, noise, signal, 20, 400, 0.25)
    return RoundSums(0.0, 0.0, noise, 0.0).ridge(factor)


def test_the_ridge_of_classes_is_a_multiple_of_large_noise():
    assert added_weight("classification", 87.0) == defaults.RIDGE * 87.0 + defaults.MIN_WEIGHT


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.8, 3.0])
def test_the_ridge_of_classes_is_at_most_the_variance_of_little_noise(noise):
    assert added_weight("classification", noise) == pytest.approx(noise**2 + defaults.MIN_WEIGHT)


def test_the_ridge_of_classes_never_falls_with_the_noise():
    weights = [added_weight("classification", noise / 10) for noise in range(200)]
    assert weights == sorted(weights)


def test_the_ridge_of_numbers_is_larger_where_records_are_few_for_their_features():
    scarce, plenty = (added_weight("regression", 87.0, signal) for signal in (1e2, 1e6))
    assert plenty == defaults.RIDGE * 87.0 + defaults.MIN_WEIGHT
    assert scarce > 5 * plenty
