"""What a model says of records: each by itself, whatever the others are, and as its own methods say."""

import numpy as np
import pytest

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeClassifier, Domain, Numeric, merge
from diprime.scoring.records import N_MADE_UP, read_records, reference_scores, score_ranges, shares
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
        found[f"merged, {task}"] = merge([forest, fit(task, X, y, epsilon=5)]), make(task, 300, 1)
    return found


KINDS = [f"{kind}, {task}" for task in TASKS for kind in ("forest", "boosted", "merged")]
KINDS += ["tree, two", "forest, two", "boosted, two"]


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_what_the_model_predicts(models, kind):
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


@pytest.mark.parametrize("kind", KINDS)
def test_no_record_depends_on_another(models, kind):
    model, (X, y) = models[kind]
    together = read_records(model, [(X, y)])
    for batches in (
        [(X[i : i + 1], y[i : i + 1]) for i in range(len(X))],
        [(X[:7], y[:7]), (X[7:8], y[7:8]), (X[8:], y[8:])],
    ):
        apart = read_records(model, batches)
        for name in ("targets", "decisions", "scores"):
            assert getattr(apart, name).tobytes() == getattr(together, name).tobytes()


def test_records_without_a_known_target_are_left_out(models):
    model, (X, y) = models["forest, two"]
    y = y.astype(object)
    y[::3] = None
    y[1::3] = "maybe"
    records = read_records(model, [(X, y)])
    kept = read_records(model, [(X[2::3], y[2::3])])
    np.testing.assert_array_equal(records.scores, kept.scores)
    model, (X, y) = models["forest, regression"]
    y = y.copy()
    y[:100] = np.nan
    assert len(read_records(model, [(X, y)]).targets) == 200


@pytest.mark.parametrize("kind", KINDS)
def test_no_batches_are_no_records(models, kind):
    model, (X, y) = models[kind]
    none, some = read_records(model, []), read_records(model, [(X, y)])
    assert (len(none.targets), none.scores.shape[1]) == (0, some.scores.shape[1])


def test_rows_and_targets_must_be_as_many(models):
    model, (X, y) = models["forest, two"]
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[300, 299\]"):
        read_records(model, [(X, y[1:])])


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_is_a_function_of_the_model_and_like_the_records(models, kind):
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


def test_more_rows_than_a_fit_takes_are_refused(models, monkeypatch):
    model, (X, y) = models["forest, regression"]
    y = np.full(len(y), np.nan)  # whether targets are valid must not matter
    monkeypatch.setattr(type(model.domain_.layout), "max_rows", 300)
    assert len(read_records(model, [(X, y)]).targets) == 0
    with pytest.raises(ValueError, match="more rows than the 300 that are supported"):
        read_records(model, [(X, y), (X[:1], y[:1])])


def test_shares_are_proportional_to_exponentials():
    scores = np.array([[0.0, np.log(3), -np.inf], [800.0, 0.0, 800.0]])
    assert shares(scores) == pytest.approx(np.array([[0.25, 0.75, 0], [0.5, 0, 0.5]]))
