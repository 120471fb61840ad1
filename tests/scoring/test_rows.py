"""What a model says of records: each by itself, whatever the others are, and as its own methods say."""

import math

import numpy as np
import pytest

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeClassifier, Domain, Numeric, merge
from diprime._util.resources import Threads
from diprime.execution.partition import LocalPartitions, UpdatedPartitions, encode_batches
from diprime.scoring.rows import (
    N_MADE_UP,
    N_NUMBERS,
    ScoredPartitions,
    count_records,
    reference_scores,
    score_ranges,
)
from tests.scoring.made_rows import read_records
from tests.small_data import TASKS, boost, fit, make

BINARY = Domain({"x": Numeric(0, 10), "kind": Categorical(range(5))}, Categorical(["yes", "no"]))


def make_binary(n, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0, 10, n), rng.integers(0, 5, n)])
    return X, np.where(X[:, 0] + rng.normal(0, 2, n) > 5, "yes", "no")


@pytest.fixture(scope="module")
def models():
    """Return models of all kinds, by name, each with test rows."""
    X, y = make_binary(2000)
    found = {
        "tree, two": (DiPriMeClassifier(5, BINARY, n_estimators=1).fit(X, y), make_binary(300, 1)),
        "forest, two": (DiPriMeClassifier(5, BINARY, n_estimators=3).fit(X, y), make_binary(300, 1)),
        "boosted, two": (DiPriMeBoostingClassifier(5, BINARY, n_rounds=20).fit(X, y), make_binary(300, 1)),
    }
    for task in TASKS:
        X, y = make(task, 2000)
        forest = fit(task, X, y, epsilon=5, n_estimators=2)
        found[f"forest, {task}"] = forest, make(task, 300, 1)
        found[f"boosted, {task}"] = boost(task, X, y, epsilon=5), make(task, 300, 1)
        found[f"merged, {task}"] = merge([forest, fit(task, X, y, epsilon=5)], disjoint=True), make(task, 300, 1)
    return found


KINDS = [f"{kind}, {task}" for task in TASKS for kind in ("forest", "boosted", "merged")]
KINDS += ["tree, two", "forest, two", "boosted, two"]


@pytest.mark.parametrize("kind", KINDS)
def test_scored_rows_match_the_predictions_of_the_model(models, kind):
    model, (X, y) = models[kind]
    records = read_records(model, [(X, y)])
    if kind.endswith("regression"):
        np.testing.assert_array_equal(records.scores[:, 0], model.predict(X))
        np.testing.assert_array_equal(records.targets, model.domain_.encode_target(y))
        return
    np.testing.assert_array_equal(model.classes_[records.targets], y)
    np.testing.assert_array_equal(model.classes_[records.decisions], model.predict(X))
    expected = model.predict_proba(X)[:, 1:] if kind.endswith("two") else model.predict_proba(X)
    found = 1 / (1 + np.exp(-records.scores)) if kind == "boosted, two" else records.scores
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("classes", [["b", "c", "a"], ["c", "a", "b"]])
def test_targets_index_classes_in_any_order_of_the_domain(classes):
    X = np.repeat([1.0, 5.0, 9.0], 100)[:, None]
    y = np.repeat(["a", "b", "c"], 100)
    model = DiPriMeClassifier(20, Domain({"x": Numeric(0, 10)}, Categorical(classes)), n_estimators=1).fit(X, y)
    records = read_records(model, [(X, y)])
    np.testing.assert_array_equal(model.classes_[records.targets], y)
    np.testing.assert_array_equal(model.classes_[records.decisions], model.predict(X))


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_ties_of_two_classes_are_decided_as_by_the_model():
    X, y = np.ones((200, 1)), np.repeat(["no", "yes"], 100)
    domain = Domain({"x": Numeric(0, 10)}, Categorical(["no", "yes"]))
    model = DiPriMeClassifier(float("inf"), domain, n_estimators=1).fit(X, y)
    records = read_records(model, [(X, y)])
    assert set(records.scores[:, 0]) == {0.5}
    np.testing.assert_array_equal(model.classes_[records.decisions], model.predict(X))


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_of_a_row_do_not_depend_on_other_rows(models, kind):
    model, (X, y) = models[kind]
    together = read_records(model, [(X, y)])
    for batches in (
        [(X[i : i + 1], y[i : i + 1]) for i in range(len(X))],
        [(X[:7], y[:7]), (X[7:8], y[7:8]), (X[8:], y[8:])],
    ):
        apart = read_records(model, batches)
        for name in ("targets", "decisions", "scores"):
            assert getattr(apart, name).tobytes() == getattr(together, name).tobytes()


def test_targets_outside_the_domain_have_codes_of_their_own(models):
    model, (X, y) = models["forest, two"]
    y = y.astype(object)
    y[1::3] = "maybe"
    expected = model.domain_.encode_target(y)
    found = read_records(model, [(X, y)]).targets
    assert np.array_equal(found == 2, expected == -1)
    np.testing.assert_array_equal(model.classes_[found[found < 2]], y[found < 2])
    model, (X, y) = models["forest, regression"]
    target = model.domain_.target
    y = y.copy()
    y[:4] = target.low - 1, target.high + 1, math.inf, target.high
    targets = read_records(model, [(X, y)]).targets
    assert targets[:4].tolist() == [N_NUMBERS, 2 * N_NUMBERS - 1, 2 * N_NUMBERS - 1, N_NUMBERS - 1]
    np.testing.assert_array_equal(targets % N_NUMBERS, model.domain_.encode_target(y))


def test_records_without_a_target_are_left_out(models):
    model, (X, y) = models["forest, two"]
    y = y.astype(object)
    y[::3] = None
    records = read_records(model, [(X, y)])
    kept = np.arange(len(y)) % 3 > 0
    np.testing.assert_array_equal(records.scores, read_records(model, [(X[kept], y[kept])]).scores)
    model, (X, y) = models["forest, regression"]
    y = y.copy()
    y[:100] = np.nan
    assert len(read_records(model, [(X, y)]).targets) == 200


@pytest.mark.parametrize("kind", KINDS)
def test_reference_is_a_function_of_the_model_and_like_the_records(models, kind):
    model, (X, y) = models[kind]
    decisions, references = reference_scores(model)
    records = read_records(model, [(X, y)])
    assert len(references) == records.scores.shape[1]
    for again, reference, column in zip(reference_scores(model)[1], references, records.scores.T, strict=True):
        assert np.array_equal(again.scores, reference.scores)
        assert len(reference.scores) == len(decisions) == (N_MADE_UP if kind != "tree, two" else len(decisions))
        weights = np.maximum(reference.weights, 0)
        below = weights[reference.scores <= np.median(column)].sum() / weights.sum()
        assert 0.2 < below < 0.8
        if reference.is_complete:
            assert set(column) <= set(reference.scores)
    assert [r.is_complete for r in references] == [kind == "tree, two"] * len(references)


@pytest.mark.parametrize("kind", KINDS)
def test_ranges_hold_all_scores(models, kind):
    model, (X, y) = models[kind]
    scores = read_records(model, [(X, y)]).scores
    for (low, high), column in zip(score_ranges(model), scores.T, strict=True):
        assert low - 1e-9 <= column.min()
        assert column.max() <= high + 1e-9


@pytest.mark.parametrize("kind", ["forest, regression", "forest, two"])
def test_scores_take_as_many_rows_as_fits(models, kind):
    model, (X, y) = models[kind]
    rows = encode_batches([(X, y)], model.domain_, 1, mark_outside=True)
    rows = LocalPartitions([*rows.parts] * 3)

    def scored(*sizes):
        with Threads(1) as threads:
            return ScoredPartitions(model, UpdatedPartitions(rows, [], sizes), threads)

    assert scored(2**31, 2**31, 2**30).count(count_records) == 3 * len(y)
    with pytest.raises(ValueError, match="1,099,511,627,776 rows"):
        scored(*[2**31] * 512, 1)
