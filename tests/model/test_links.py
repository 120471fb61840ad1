"""Links: scores become probabilities that sum to one, or numbers within the range."""

import math

import numpy as np
import pytest

from diprime import Categorical, Domain, Numeric
from diprime.model.links import Clip, Logistic, Softmax, link_of

SCORES = np.array([-1e300, -800.0, -3.0, -1e-9, 0.0, 1e-9, 2.0, 800.0, 1e300])


def domain(target):
    return Domain({"a": Numeric(0, 1)}, target)


def test_the_target_has_its_link():
    assert link_of(domain(Categorical(["a", "b"])), 1.0) == Logistic()
    assert link_of(domain(Categorical(["a", "b", "c"])), 1.0) == Softmax(3)
    assert link_of(domain(Categorical(["a"])), 1.0) == Softmax(1)
    assert link_of(domain(Numeric(0.1, 2)), 0.5) == Clip(0.1, 2, 0.5)
    assert [link_of(domain(Categorical(range(n))), 1.0).n_scores for n in (1, 2, 3)] == [1, 1, 3]


def test_log_odds_become_probabilities():
    probabilities = Logistic().predict(SCORES[:, None])
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert probabilities[:, 1] == pytest.approx(
        [0, 0, 1 / (1 + math.exp(3)), 0.5, 0.5, 0.5, 1 / (1 + math.exp(-2)), 1, 1]
    )
    assert (np.diff(probabilities[:, 1]) >= 0).all()
    assert np.array_equal(Logistic().predict(-SCORES[:, None]), probabilities[:, ::-1])
    assert Logistic().decide(SCORES[:, None]).tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]


def test_scores_of_classes_become_probabilities():
    scores = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [-1e300, 1e300, 0.0], [5.0, 5.0, -800.0]])
    probabilities = Softmax(3).predict(scores)
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert probabilities[1] == pytest.approx(np.exp([1, 2, 3]) / np.exp([1, 2, 3]).sum())
    assert Softmax(3).decide(scores).tolist() == [0, 2, 1, 0]
    assert Softmax(1).predict(np.array([[3.0]])).tolist() == [[1.0]]


def test_numbers_are_clipped_to_multiples_of_the_quantum_within_the_range():
    link = Clip(0.3, 1.7, 0.25)
    assert link.limits == (0.5, 1.5)
    assert link.predict(np.array([[-1e300], [0.25], [0.75], [1.75]])).tolist() == [[0.5], [0.5], [0.75], [1.5]]
    assert link.in_quanta_of(0.125).limits == (0.375, 1.625)
    assert link.magnitude == 1.7
    assert Clip(-3.0, 1.0, 0.25).magnitude == 3
    assert Logistic().in_quanta_of(0.5) == Logistic()
