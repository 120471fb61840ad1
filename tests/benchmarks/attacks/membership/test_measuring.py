"""Membership is found where a learner gives it away, and bounded where it is private."""

import numpy as np
import pytest

from benchmarks.attacks.evidence import count_guesses
from benchmarks.attacks.membership.learners import Boosting, Forest, RandomForest, RandomTree
from benchmarks.attacks.membership.measuring import FALSE_RATE, _table, _typical_guesses, power, typical, worst_case


def test_a_forest_that_is_not_private_gives_the_worst_case_away():
    assert count_guesses(*worst_case(RandomForest(), 12)).advantage == 1


def test_the_attack_sees_that_less_noise_was_added_than_was_paid_for():
    # The advantage against one noisy count is tanh(ε/2): 0.905 at ε = 3, 0.462 at 1, 0.05 at 0.1. With 120 models of
    # each side, its standard deviation is 0.03 at 3 and 0.065 at 0.1: each line fails once in 10⁶ at most.
    assert count_guesses(*worst_case(RandomTree(3.0), 120)).advantage > RandomTree(1.0).largest_advantage() + 0.1
    assert count_guesses(*worst_case(RandomTree(0.1), 120)).advantage < 0.4


def test_typical_records_are_scored_in_every_model_under_attack():
    scores, is_in = typical(Forest(1.0), 15)
    assert scores.shape == is_in.shape == (30, 40)
    assert np.isfinite(scores).all()
    assert is_in.any()
    assert not is_in.all()


def test_what_is_read_off_a_boosted_model_are_its_confidence_and_its_released_weights():
    X, y, domain = _table()
    learner = Boosting(50.0)
    confidence, of_codes, weights = learner.statistics(learner.fit(X, y, domain), X[:3], y[:3]).T
    assert np.isfinite(confidence).all()
    assert (of_codes > 0).all()  # hardly any noise: the record itself has each of its codes
    assert (weights > 0).all()


def test_advantage_and_its_interval_of_typical_records():
    rng = np.random.default_rng(0)
    is_in = rng.random((200, 10)) < 0.5
    guesses, (low, high) = _typical_guesses(np.where(rng.random(is_in.shape) < 0.75, 1, -1) * (2 * is_in - 1), is_in)
    assert low < 0.5 < high
    assert guesses.advantage == pytest.approx(0.5, abs=0.1)
    assert high - low < 0.2


def test_true_hits_are_counted_at_the_false_rate():
    outside = np.arange(100.0)
    assert power(np.arange(100.0), outside) == pytest.approx(FALSE_RATE, abs=0.011)
    assert power(np.full(10, 1000.0), outside) == 1
