"""Membership is found where a learner gives it away, and bounded where it is private."""

import numpy as np
import pytest

from benchmarks.attacks.evidence import count_guesses
from benchmarks.attacks.membership.learners import RandomForest, RandomTree
from benchmarks.attacks.membership.measuring import FALSE_RATE, _typical_guesses, power, worst_case


@pytest.mark.audit
def test_attack_identifies_the_canary_in_a_forest_without_privacy():
    assert count_guesses(*worst_case(RandomForest(), 12)).advantage == 1


@pytest.mark.audit
def test_attack_detects_missing_noise():
    # The advantage against one noisy count is tanh(ε/2): 0.905 at ε = 3, 0.462 at 1, 0.05 at 0.1. With 120 models of
    # each side, its standard deviation is 0.03 at 3 and 0.065 at 0.1: each line fails once in 10⁶ at most.
    assert count_guesses(*worst_case(RandomTree(3.0), 120)).advantage > RandomTree(1.0).largest_advantage() + 0.1
    assert count_guesses(*worst_case(RandomTree(0.1), 120)).advantage < 0.4


def test_advantage_and_its_interval_of_typical_records():
    rng = np.random.default_rng(0)
    is_in = rng.random((200, 10)) < 0.5
    guesses, (low, high) = _typical_guesses(np.where(rng.random(is_in.shape) < 0.75, 1, -1) * (2 * is_in - 1), is_in)
    assert low < 0.5 < high
    assert guesses.advantage == pytest.approx(0.5, abs=0.1)
    assert high - low < 0.2


def test_true_positives_are_counted_at_the_false_positive_rate():
    outside = np.arange(100.0)
    assert power(np.arange(100.0), outside) == pytest.approx(FALSE_RATE, abs=0.011)
    assert power(np.full(10, 1000.0), outside) == 1
