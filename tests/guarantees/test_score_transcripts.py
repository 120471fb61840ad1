"""Whole scores of neighbours: the same released numbers lead to the same questions; answers differ by what is paid.

A transcript is what a score has released. It is replayed with one test row more or less: each table must have the same
shape, and the probability of the transcript may differ by a factor of e^ε at most, that is by the sum over tables of
the L1 distance of the true counts times ε/sensitivity.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeClassifier, Domain, Numeric, private_score
from diprime.scoring import intervals
from tests.small_data import TASKS, boost, fit, make

BINARY = Domain({"level": Numeric(0, 10), "side": Categorical([0, 1])}, Categorical(["no", "yes"]))
EPSILON = Fraction(1, 2)


def make_binary(n, seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0, 10, n), rng.integers(0, 2, n)])
    return X, np.where(X[:, 0] + rng.normal(0, 2, n) > 5, "yes", "no")


def models():
    X, y = make_binary(600, 0)
    yield "tree, two", DiPriMeClassifier(3, BINARY, n_estimators=1, n_jobs=1).fit(X, y), make_binary(60, 1)
    yield "forest, two", DiPriMeClassifier(3, BINARY, n_estimators=3, n_jobs=1).fit(X, y), make_binary(60, 1)
    boosted = DiPriMeBoostingClassifier(3, BINARY, n_rounds=10, n_jobs=1)
    yield "boosted, two", boosted.fit(X, y), make_binary(60, 1)
    for task in TASKS:
        for name, learn in (("forest", fit), ("boosted", boost)):
            yield f"{name}, {task}", learn(task, *make(task, 600), epsilon=3), make(task, 60, 1)


MODELS = {name: (model, data) for name, model, data in models()}


def replay(model, X, y, transcript, monkeypatch, **options):
    """Score rows as if the given numbers were released; return the true counts, what they cost and their bounds.

    Without a transcript, the numbers are those that noise gives, and are returned as well.
    """
    true, released = [], []
    original = intervals.discrete_laplace

    def stand_in(values, receipt, sensitivity, streams):
        noisy = original(values, receipt, sensitivity, streams)
        answer = noisy if transcript is None else transcript[len(true)]
        assert answer.shape == values.shape
        true.append((values.copy(), receipt.charge.epsilon, sensitivity))
        released.append(answer)
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(intervals, "discrete_laplace", stand_in)
        score = private_score(model, X, y, EPSILON, **options)
    return true, released, score


def loss(a, b):
    """Return by how much, at most, the logarithm of a transcript's probability differs."""
    total = Fraction(0)
    for (x, epsilon, sensitivity), (other, same_epsilon, same_sensitivity) in zip(a, b, strict=True):
        assert (epsilon, sensitivity) == (same_epsilon, same_sensitivity)
        total += int(np.abs(x - other).sum()) * Fraction(epsilon) / sensitivity
    return total


@pytest.mark.parametrize("name", MODELS)
def test_score_transcript_loss_is_bounded_by_epsilon(name, monkeypatch):
    model, (X, y) = MODELS[name]
    whole, transcript, score = replay(model, X, y, None, monkeypatch)
    losses = []
    for i in range(len(X)):
        without = replay(model, np.delete(X, i, axis=0), np.delete(y, i), transcript, monkeypatch)
        losses.append(loss(whole, without[0]))
        assert without[2] == score  # what is computed from the same released numbers is the same
    beyond = np.append(y, 1e9) if name.endswith("regression") else np.append(y.astype(object), "maybe")
    other = replay(model, np.vstack([X, X[:1]]), beyond, transcript, monkeypatch)
    losses.append(loss(whole, other[0]))
    assert losses[-1] > 0  # a target outside the domain is counted
    assert max(losses) <= EPSILON
    assert max(losses) > EPSILON * Fraction(9, 10)  # a record uses what is charged: the check is tight


@pytest.mark.parametrize("name", MODELS)
def test_row_without_a_valid_target_costs_no_privacy(name, monkeypatch):
    model, (X, y) = MODELS[name]
    unknown = y.astype(object)
    unknown[0] = None
    whole, transcript, _ = replay(model, X[1:], y[1:], None, monkeypatch)
    other, *_ = replay(model, X, unknown, transcript, monkeypatch)
    assert loss(whole, other) == 0


@pytest.mark.parametrize("name", ["forest, two", "forest, classification", "forest, regression"])
def test_all_rows_of_a_person_lose_at_most_epsilon(name, monkeypatch):
    """Everybody has three rows and all are used, so that rows of other people are the same ones in both scores."""
    model, (X, y) = MODELS[name]
    groups = np.arange(len(X)) // 3
    whole, transcript, _ = replay(model, X, y, None, monkeypatch, groups=groups, max_records_per_group=3)
    losses = []
    for person in range(len(X) // 3):
        kept = groups != person
        options = {"groups": groups[kept], "max_records_per_group": 3}
        losses.append(loss(whole, replay(model, X[kept], y[kept], transcript, monkeypatch, **options)[0]))
    assert max(losses) <= EPSILON
    assert max(losses) > EPSILON / 3  # more than one row


def test_record_counted_twice_is_detected(monkeypatch):
    """The check can fail."""
    model, (X, y) = MODELS["forest, two"]
    whole, transcript, _ = replay(model, X, y, None, monkeypatch)
    without, *_ = replay(model, X[2:], y[2:], transcript, monkeypatch)
    assert loss(whole, without) > EPSILON


@pytest.mark.parametrize("name", ["forest, two", "boosted, classification", "boosted, regression"])
def test_bins_and_knots_depend_on_the_model_alone(name, monkeypatch):
    """Quite different rows, the same released numbers: the same score."""
    model, (X, y) = MODELS[name]
    _, transcript, score = replay(model, X, y, None, monkeypatch)
    _, _, other = replay(model, X[:3][::-1], y[:3][::-1], transcript, monkeypatch)
    assert other == score
    assert not math.isnan(score.records.value)
