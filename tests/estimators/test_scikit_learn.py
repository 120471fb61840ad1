"""The estimators under scikit-learn's own checks and in its tools."""

import math
import pickle
from dataclasses import replace

import joblib
import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import ClassifierTags, RegressorTags, get_tags
from sklearn.utils.estimator_checks import (
    check_classifiers_train,
    check_estimator,
    check_regressors_train,
    parametrize_with_checks,
)

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeClassifier, DiPriMeRegressor, Domain
from tests.estimators.domains import ABC, NUMBER, YES_NO
from tests.small_data import BOOSTERS, ESTIMATORS, TASKS, assert_same_forest, fit, make

not_private = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")


# -- scikit-learn's checks --------------------------------------------------------------------------------------------


@not_private
@parametrize_with_checks(
    [
        *(estimator(1000, "infer", random_state=0) for estimator in ESTIMATORS.values()),
        *(estimator(1000, "infer", random_state=0, n_rounds=100) for estimator in BOOSTERS.values()),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.audit  # test_scikit_learn_checks passes the same checks with little noise
@not_private
@pytest.mark.parametrize("estimator", [*ESTIMATORS.values(), *BOOSTERS.values()])
def test_scikit_learn_checks_with_default_parameters(estimator):
    results = check_estimator(estimator(domain="infer", random_state=0), on_fail=None, on_skip=None)
    assert {result["check_name"] for result in results if result["status"] == "failed"} == set()
    assert len(results) > 45


@not_private
@pytest.mark.audit
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("epsilon", [1000, math.inf])
def test_scores_on_few_rows_are_good_with_little_noise(task, epsilon, monkeypatch):
    check = {"classification": check_classifiers_train, "regression": check_regressors_train}[task]
    for kind in (ESTIMATORS[task], BOOSTERS[task]):
        model = kind(epsilon, "infer", random_state=0)
        tags = get_tags(model)
        assert (tags.classifier_tags or tags.regressor_tags).poor_score == (epsilon < math.inf)
        strict = {"classifier_tags": ClassifierTags(), "regressor_tags": RegressorTags()}
        found = replace(tags, **{name: strict[name] for name in strict if getattr(tags, name) is not None})
        monkeypatch.setattr(kind, "__sklearn_tags__", lambda self, found=found: found)
        for options in ({}, {"X_dtype": "float32"}, {"readonly_memmap": True}):
            check(kind.__name__, model, **options)


# -- scikit-learn's tools ---------------------------------------------------------------------------------------------


@not_private
def test_pipelines_searches_and_cross_validation_accept_estimators(X, y):
    model = DiPriMeClassifier(20, YES_NO, random_state=0)
    pipeline = make_pipeline(StandardScaler(), DiPriMeClassifier(20, "infer", random_state=0)).fit(X, y)
    assert pipeline.score(X, y) > 0.85
    with pytest.raises(ValueError, match=r"^DiPriMeClassifier .*sample_weight"):
        pipeline.fit(X, y, diprimeclassifier__sample_weight=np.ones(len(y)))
    assert cross_val_score(model, X, y, cv=3).mean() > 0.85
    grid = {"max_depth": [1, 3], "epsilon": np.array([0.01, 50]), "disjoint_rows": np.array([True, False])}
    search = GridSearchCV(model, {**grid, "method": np.array(["joint", "random"])}, cv=3).fit(X, y)
    assert search.best_params_["epsilon"] == 50
    assert search.best_params_["method"] == "joint"
    assert search.score(X, y) > 0.9
    numbers = GridSearchCV(DiPriMeRegressor(50, NUMBER, random_state=0), {"max_depth": [1, 4]}, cv=3).fit(X, X[:, 1])
    assert numbers.best_params_ == {"max_depth": 4}
    assert numbers.best_score_ > 0.8


@not_private
def test_weighting_ensembles_fit_without_weights(X, y):
    y = (y == "yes").astype(int)  # they number the classes, so the domain has to list numbers
    model = DiPriMeClassifier(50, Domain(ABC, Categorical([0, 1])), random_state=0)
    assert BaggingClassifier(model, 3, random_state=0).fit(X, y).score(X, y) > 0.85
    assert (
        VotingClassifier([("a", model), ("b", RandomForestClassifier(5))], voting="soft").fit(X, y).score(X, y) > 0.85
    )


def voting(model):
    return VotingClassifier([("a", model), ("b", model)])


def stacking(model):
    return StackingClassifier([("a", model)], cv=3)


CLASSIFIERS = [DiPriMeClassifier, DiPriMeBoostingClassifier]
META_ESTIMATORS = {voting: 3, stacking: 3, BaggingClassifier: 3, OneVsRestClassifier: 2, OneVsOneClassifier: 2}
"""Those that number the classes, and how many classes each of the estimators inside sees of three."""


@not_private
@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("meta", META_ESTIMATORS)
def test_meta_estimators_with_encoded_classes_raise_a_remedy(X, meta, classifier):
    few = {"n_rounds": 30} if classifier is DiPriMeBoostingClassifier else {}
    y = np.array(["low", "middle", "top"])[np.digitize(X[:, 1], [3, 6])]
    declared = Domain(ABC, Categorical(["low", "middle", "top"]))
    with pytest.raises(TypeError, match=r"Categorical\(range\(3\)\).*Categorical\(\[0, 1\]\) \(one-vs-rest\)"):
        meta(classifier(50, declared, **few)).fit(X, y)
    numbered = Domain(ABC, Categorical(range(META_ESTIMATORS[meta])))
    model = meta(classifier(50, numbered, **few)).fit(X, y)
    assert set(model.predict(X)) == {"low", "middle", "top"}
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("y", [[0, 1], [0, 0], [7, -5]])
def test_error_about_numbers_depends_only_on_the_dtype(y, classifier):
    model = classifier(1.0, YES_NO)
    with pytest.raises(TypeError, match=r"^y has dtype int64, .*classes .*text\."):
        model.fit(np.zeros((2, 3)), np.array(y))
    model.fit(np.zeros((2, 3)), np.array(y, dtype=object))  # objects may be of any type: these are no classes


@pytest.mark.parametrize("task", TASKS)
def test_pickled_models_predict_the_same(task, tmp_path):
    rows, target = make(task, 500)
    model = fit(task, rows, target)
    joblib.dump(model, tmp_path / "model")
    copies = [pickle.loads(pickle.dumps(model, protocol)) for protocol in (2, pickle.HIGHEST_PROTOCOL)]
    copies += [joblib.load(tmp_path / "model"), joblib.load(tmp_path / "model", mmap_mode="r")]
    for copy in copies:
        assert_same_forest(copy, model)
        assert np.array_equal(copy.predict(rows), model.predict(rows))
        assert np.array_equal(copy.apply(rows), model.apply(rows))
        assert copy.privacy_ == model.privacy_
        assert copy.domain_ == model.domain_


def test_read_only_data_are_read(X, y, tmp_path):
    frozen, target = X.copy(), X[:, 0].copy()
    frozen.flags.writeable = target.flags.writeable = False
    DiPriMeRegressor(domain=NUMBER).fit(frozen, target).predict(frozen)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    DiPriMeClassifier(domain=YES_NO).fit(mapped, y).predict(mapped)


def test_fit_changes_neither_rows_nor_parameters(X, y):
    before, parameters = X.copy(), DiPriMeClassifier(domain=YES_NO).get_params()
    model = DiPriMeClassifier(domain=YES_NO).fit(X, y)
    assert np.array_equal(X, before)
    assert model.get_params() == parameters
