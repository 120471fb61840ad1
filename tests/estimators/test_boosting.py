"""The boosting estimators: what users call, and what they are told."""

import math
import pickle
import re
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
from diprime.inspection.views import read_tree
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.report import render
from tests.estimators.domains import ABC, YES_NO
from tests.small_data import BOOSTERS, TASKS, assert_same_forest, boost, fit, make

not_private = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")


@pytest.fixture(scope="module")
def models():
    """Return models with curves and rounds."""
    return {task: boost(task, *make(task, 3000), epsilon=5, n_rounds=60) for task in TASKS}


@pytest.fixture(scope="module")
def more_models(models):
    """Return models of each task with curves and rounds, with curves only, and with neither."""
    n_rows = {"classification": 1000, "regression": 400}
    return {task: [models[task], boost(task, *make(task, n_rows[task])), constant(task)] for task in TASKS}


def constant(task):
    """Return a model without curves, as which nearly all fits to 20 records end."""
    fits = (boost(task, *make(task, 20)) for _ in range(20))
    return next(model for model in fits if not model.forest_.curves)


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
    assert leaves.shape == (500, 4 + 60)  # the curves of all features, and the rounds
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
def test_contributions_add_up_exactly_to_the_scores(task, more_models):
    X = make(task, 300, seed=2)[0]
    for model in more_models[task]:
        explanation = model.explain(X)
        assert np.array_equal(explanation.offset + explanation.contributions.sum(axis=1), explanation.scores)
        scores = explanation.scores
        if task == "classification":
            assert np.array_equal(model.decision_function(X), scores)
        else:
            assert np.array_equal(model.predict(X), np.clip(scores.reshape(300), 0, 10))


@pytest.mark.parametrize("task", TASKS)
def test_released_counts_decide_on_curves_and_rounds(task, more_models):
    shapes = [(len(model.forest_.curves), len(model.forest_.rounds)) for model in more_models[task]]
    assert shapes == [(4, 60), (4, 0), (0, 0)]
    for model, (_, n_rounds) in zip(more_models[task], shapes, strict=True):
        assert read_tree(model, n_rounds - 1).depth > 0 if n_rounds else not model.forest_.rounds
        for index in (n_rounds, -1):
            with pytest.raises(ValueError, match=rf"got {index}" if n_rounds else "no rounds"):
                read_tree(model, index)
        assert re.search(rf"rounds\W.*{n_rounds or 0}[,<]", render(model))


@pytest.mark.parametrize("n_categories", [100, 254, 300])
def test_unlisted_categories_have_a_value_of_their_own(n_categories):
    """With 254 categories, no code is left between those of listed and of unlisted categories."""
    rng = np.random.default_rng(0)
    listed = [f"c{i}" for i in range(n_categories)]
    domain = Domain({"c": Categorical(listed)}, Categorical(["no", "yes"]))
    X = np.where(rng.random(4000) < 0.5, "other", rng.choice(listed, 4000))[:, None]
    model = DiPriMeBoostingClassifier(1.0, domain, n_jobs=1).fit(X, np.where(X[:, 0] == "other", "yes", "no"))
    assert model.predict([["other"], ["c0"]]).tolist() == ["yes", "no"]


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
@pytest.mark.parametrize("index", range(3))
def test_loaded_model_is_bit_identical(task, index, more_models, tmp_path):
    model, X = more_models[task][index], make(task, 300, seed=2)[0]
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
    """The models are a constant, a model of curves, and one of curves and rounds."""
    X, y = make(task, 12_000)
    curves = boost(task, X[:400], y[:400])
    models = [constant(task), curves, boost(task, X[400:], y[400:], epsilon=2)]
    merged = merge(models, disjoint=True)
    assert type(merged) is BOOSTERS[task]
    assert [(len(m.forest_.curves), len(m.forest_.rounds)) for m in models] == [(0, 0), (4, 0), (4, 20)]
    assert (len(merged.forest_.curves), len(merged.forest_.rounds)) == (8, 20)
    assert read_tree(merged, 19).depth > 0
    assert merged.importances().above_noise[0]
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
