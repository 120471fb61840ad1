"""The boosting estimators: what users call, and what they are told."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from diprime import (
    AdditiveForest,
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeClassifier,
    Domain,
    Ledger,
    Numeric,
    PrivacyWarning,
    load,
    merge,
)
from diprime.privacy.gaussian_dp import gaussian_budget
from tests.estimators.domains import ABC, YES_NO
from tests.small_data import BOOSTERS, TASKS, assert_same_forest, boost, fit, make

not_private = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")


@pytest.fixture(scope="module")
def models():
    return {task: boost(task, *make(task, 3000), epsilon=5, n_rounds=60) for task in TASKS}


def output_of(model, X):
    return model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)


# -- privacy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-3), (Fraction(1, 3), Fraction(1, 10**9))])
def test_ledger_spends_epsilon_and_delta(task, epsilon, delta):
    model = boost(task, *make(task, 300), epsilon=epsilon, delta=delta, n_rounds=5)
    ledger = model.privacy_
    assert ledger.total == ledger.epsilon == Fraction(str(epsilon))
    assert ledger.total_delta == ledger.delta == Fraction(str(delta))
    assert ledger.loss.mu_squared == gaussian_budget(ledger.epsilon, ledger.delta)
    assert ledger.is_private
    assert Ledger.from_json(ledger.to_json()) == ledger


@pytest.mark.parametrize("task", TASKS)
def test_fits_that_are_not_private_warn(task):
    X, y = make(task, 100)
    with pytest.warns(PrivacyWarning, match="random_state is set"):
        assert not boost(task, X, y, random_state=0).privacy_.is_private
    with pytest.warns(PrivacyWarning, match="inferred"):
        boost(task, X, y, domain="infer")
    assert boost(task, X, y, epsilon=math.inf).privacy_.reasons_not_private == [
        "epsilon is infinite, so no noise was added."
    ]


# -- use --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_model_is_a_sum_of_trees_of_one_or_two_features(task, models):
    model, X = models[task], make(task, 500, seed=1)[0]
    forest = model.forest_
    assert isinstance(forest, AdditiveForest)
    leaves = model.apply(X)
    assert leaves.shape == (500, 60)
    scores = forest.offset + forest.values[leaves + forest.first_leaves[:-1]].sum(axis=1)
    if task == "classification":
        assert np.array_equal(model.decision_function(X), scores)
        exps = np.exp(scores - scores.max(axis=1, keepdims=True))
        assert model.predict_proba(X) == pytest.approx(exps / exps.sum(axis=1, keepdims=True))
        assert np.array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
        assert np.exp(model.predict_log_proba(X)) == pytest.approx(model.predict_proba(X))
    else:
        assert np.array_equal(model.predict(X), np.clip(scores[:, 0], 0, 10))
    trees = np.split(forest.features, forest.first_splits[1:-1])
    assert {len(set(tree.tolist())) for tree in trees} == {1, 2}


@not_private
def test_decision_function_of_two_classes_is_log_odds(X, y):
    model = DiPriMeBoostingClassifier(50, YES_NO, n_rounds=40, random_state=0).fit(X, y)
    scores, p = model.decision_function(X), model.predict_proba(X)
    assert scores.shape == (len(X),)
    assert p[:, 1] == pytest.approx(1 / (1 + np.exp(-scores)))
    assert np.array_equal(model.predict(X), np.where(scores > 0, "yes", "no"))
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("task", TASKS)
def test_contributions_add_up_exactly_to_the_scores(task, models):
    model, X = models[task], make(task, 300, seed=2)[0]
    explanation = model.explain(X)
    assert np.array_equal(explanation.offset + explanation.contributions.sum(axis=1), explanation.scores)
    scores = explanation.scores
    if task == "classification":
        assert np.array_equal(model.decision_function(X), scores)
    else:
        assert np.array_equal(model.predict(X), np.clip(scores.reshape(300), 0, 10))


@pytest.mark.parametrize("task", TASKS)
def test_importances_find_the_feature_that_matters(task, models):
    importances = models[task].feature_importances_
    assert importances.shape == (4,)
    assert (importances >= 0).all()
    assert importances.sum() == pytest.approx(1)
    assert importances.argmax() == 0
    assert importances[0] > 0.5


# -- files and copies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_loaded_model_is_bit_identical(task, models, tmp_path):
    model, X = models[task], make(task, 300, seed=2)[0]
    model.save(tmp_path / "model.diprime")
    for copy in (load(tmp_path / "model.diprime"), pickle.loads(pickle.dumps(model))):
        assert type(copy) is BOOSTERS[task]
        assert_same_forest(copy, model)
        assert np.array_equal(output_of(copy, X), output_of(model, X))
        assert np.array_equal(copy.explain(X).contributions, model.explain(X).contributions)
        assert copy.privacy_ == model.privacy_
        assert copy.domain_ == model.domain_
    parameters = {**model.get_params(), "n_jobs": None}
    assert load(tmp_path / "model.diprime").get_params() == parameters
    load(tmp_path / "model.diprime").save(tmp_path / "again.diprime")
    assert (tmp_path / "again.diprime").read_bytes() == (tmp_path / "model.diprime").read_bytes()


# -- merging ----------------------------------------------------------------------------------------------------------


def unclipped_scores(model, X):
    explanation = model.explain(X)
    return explanation.offset + sum(
        explanation.contributions[:, i] for i, term in enumerate(explanation.terms) if term != ()
    )


@pytest.mark.parametrize("task", TASKS)
def test_merged_models_have_the_mean_of_the_scores(task):
    X, y = make(task, 3000)
    parts = [slice(0, 500), slice(500, 3000)]
    budgets = [(2, 1e-6), (1, 1e-6)]
    models = [
        boost(task, X[part], y[part], epsilon=epsilon, delta=delta, n_rounds=20)
        for part, (epsilon, delta) in zip(parts, budgets, strict=True)
    ]
    merged = merge(models, disjoint=True)
    assert type(merged) is BOOSTERS[task]
    assert merged.forest_.n_trees == sum(model.forest_.n_trees for model in models)
    assert merged.privacy_.total == 2
    assert merged.privacy_.delta == Fraction(1, 10**6)
    assert merged.privacy_.is_private
    assert merged.epsilon == 2
    sizes = np.array([max(model.forest_.n_records, 1) for model in models])
    expected = sum(
        size * unclipped_scores(model, X[:200]) for size, model in zip(sizes / sizes.sum(), models, strict=True)
    )
    assert unclipped_scores(merged, X[:200]) == pytest.approx(expected, abs=1e-9)
    assert Ledger.from_json(merged.privacy_.to_json()) == merged.privacy_


def test_models_of_different_deltas_are_not_merged(X, y):
    """The parameters of the merged model could not say its budget: epsilons at different deltas do not compare."""
    models = [DiPriMeBoostingClassifier(domain=YES_NO, delta=delta, n_rounds=3).fit(X, y) for delta in (1e-6, 1e-3)]
    with pytest.raises(ValueError, match="different delta"):
        merge(models, disjoint=True)


def test_boosted_model_and_forest_are_not_merged(X, y):
    boosted = DiPriMeBoostingClassifier(domain=YES_NO, n_rounds=3).fit(X, y)
    forest = DiPriMeClassifier(domain=YES_NO).fit(X, y)
    with pytest.raises(ValueError, match="Cannot merge DiPriMeBoostingClassifier and DiPriMeClassifier"):
        merge([boosted, forest], disjoint=True)
    other = Domain({**ABC, "a": Numeric(0, 11)}, Categorical(["no", "yes"]))
    with pytest.raises(ValueError, match="models with different domains"):
        merge([boosted, DiPriMeBoostingClassifier(domain=other, n_rounds=3).fit(X, y)], disjoint=True)


# -- against the forest -----------------------------------------------------------------------------------------------


@not_private
@pytest.mark.parametrize("task", TASKS)
def test_boosting_is_as_accurate_as_a_forest_on_many_records(task):
    X, y = make(task, 20_000)
    boosted = boost(task, X[5000:], y[5000:], n_rounds=150, random_state=0).score(X[:5000], y[:5000])
    forest = fit(task, X[5000:], y[5000:], random_state=0).score(X[:5000], y[:5000])
    assert boosted > forest - 0.02
