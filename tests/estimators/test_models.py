"""Fitted models: merged ones, ledgers that match their parameters, and parameters that are changed later."""

import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError

from diprime import (
    Categorical,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Ledger,
    Numeric,
    PrivateSearch,
    load,
    merge,
)
from diprime.estimators.models import check_ledger_matches_parameters
from diprime.model.files import to_bytes
from diprime.paper import PaperDiPriMeClassifier
from diprime.report import render
from tests.estimators.domains import ABC, NUMBER, YES_NO
from tests.small_data import BOOSTERS, DOMAINS, ESTIMATORS, TASKS, fit, make

not_private = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")


@pytest.mark.parametrize("task", TASKS)
def test_merged_models_average_trees_and_cost_the_largest_epsilon(task):
    rows, target = make(task, 3000)
    sizes = {"a": slice(0, 500), "b": slice(500, 1000), "c": slice(1000, 3000)}
    epsilons = {"a": 0.5, "b": 3, "c": 1}
    models = [
        fit(task, rows[part], target[part], epsilon=epsilons[name], n_estimators=2, max_depth=3 + (name == "c"))
        for name, part in sizes.items()
    ]
    merged = merge(models, disjoint=True)
    assert type(merged) is ESTIMATORS[task]
    assert merged.forest_.depths.tolist() == [3, 3, 3, 3, 4, 4]
    assert merged.privacy_.total == 3
    assert merged.epsilon == 3
    assert merged.privacy_.is_private
    assert [ledger.total for ledger in merged.privacy_.merged] == [Fraction(1, 2), 3, 1]
    assert Ledger.from_json(merged.privacy_.to_json()) == merged.privacy_
    output = "predict_proba" if task == "classification" else "predict"
    weights = [np.maximum(m.forest_.counts.reshape(2, -1).sum(axis=1), 1).sum() for m in models]
    expected = sum(w * getattr(m, output)(rows) for w, m in zip(weights, models, strict=True)) / sum(weights)
    assert getattr(merged, output)(rows) == pytest.approx(expected)
    assert np.array_equal(merged.apply(rows), np.hstack([m.apply(rows) for m in models]))

    twice = merge([merge(models[:2], disjoint=True), models[2]], disjoint=True)
    assert twice.privacy_.total == 3
    assert [ledger.total for ledger in twice.privacy_.merged] == [3, 1]
    assert np.array_equal(twice.predict(rows), merged.predict(rows))
    assert np.array_equal(pickle.loads(pickle.dumps(twice)).predict(rows), merged.predict(rows))
    assert models[0].forest_.n_trees == 2  # the parts stay as they were


@not_private
def test_merged_ledger_has_the_waivers_of_all_models(X, y):
    private = DiPriMeClassifier(domain=YES_NO).fit(X, y)
    seeded = DiPriMeClassifier(domain=YES_NO, random_state=0).fit(X, y)
    paper = PaperDiPriMeClassifier(domain=YES_NO).fit(X, y)
    assert merge([private, private], disjoint=True).privacy_.is_private
    for one, other in ((private, seeded), (paper, paper)):
        merged = merge([one, other], disjoint=True)
        assert not merged.privacy_.is_private
        assert "NOT PRIVATE" in str(merged.privacy_)


def test_merging_requires_the_assertion_of_disjoint_populations(X, y, tmp_path):
    models = [DiPriMeClassifier(epsilon, YES_NO).fit(X, y) for epsilon in (1, 2)]
    for options in ({}, {"disjoint": False}, {"disjoint": "no"}):
        with pytest.raises(ValueError, match="disjoint=True"):
            merge(models, **options)
    merged = merge(models, disjoint=True)
    assertion = "The caller asserts that no person is in the data of two of the models"
    merged.save(tmp_path / "merged.diprime")
    for model in (merged, load(tmp_path / "merged.diprime")):
        assert assertion in str(model.privacy_)
        assert assertion in render(model)


def test_incompatible_models_are_not_merged(X, y):
    classifier = DiPriMeClassifier(domain=YES_NO).fit(X, y)
    regressor = DiPriMeRegressor(domain=NUMBER).fit(X, X[:, 0])
    wider = Domain({**ABC, "a": Numeric(0, 11)}, Categorical(["no", "yes"]))
    for models, kind, message in [
        ([], ValueError, "^models .*at least one"),
        (classifier, TypeError, "^models .*list .*single model"),
        ([classifier, regressor], ValueError, "merge DiPriMeClassifier and DiPriMeRegressor"),
        (
            [classifier, DiPriMeClassifier(domain=wider).fit(X, y)],
            ValueError,
            "different domains",
        ),
        ([classifier, DiPriMeClassifier(domain=YES_NO)], NotFittedError, "DiPriMeClassifier .*not fitted"),
        ([classifier, RandomForestClassifier()], TypeError, "merged, got RandomForestClassifier"),
    ]:
        with pytest.raises(kind, match=message):
            merge(models, disjoint=True)
    assert merge([classifier], disjoint=True).privacy_.total == 1


X, Y = make("regression", 5000)
OPEN = Domain({f"x{i}": Numeric() for i in range(X.shape[1])}, target=Numeric(-5, 5))
CLOSED = Domain({f"x{i}": Numeric(-5, 5) for i in range(X.shape[1])}, target=Numeric(-5, 5))
SMALL = {DiPriMeRegressor: {"n_estimators": 2}, DiPriMeBoostingRegressor: {"n_rounds": 3}}


@pytest.mark.parametrize("estimator", SMALL)
@pytest.mark.parametrize(
    "domain", [CLOSED, OPEN, OPEN.learn(X, Y, epsilon=1, task="regression")], ids=["closed", "open", "learnt"]
)
def test_fits_and_merged_fits_agree_with_their_ledgers(tmp_path, estimator, domain):
    persons = range(len(X))
    models = [estimator(e, domain, **SMALL[estimator]).fit(X, Y) for e in (1, 0.5)]
    more = estimator(0.5, CLOSED, **SMALL[estimator], max_records_per_group=3).fit(X, Y, groups=persons)
    fewer = estimator(1, CLOSED, **SMALL[estimator], max_records_per_group=2).fit(X, Y, groups=persons)
    same_domain = models if domain is not OPEN else models[:1]
    for model in (*models, merge(same_domain, disjoint=True), more, merge([more, fewer], disjoint=True)):
        check_ledger_matches_parameters(model)
        model.save(tmp_path / "m")
        check_ledger_matches_parameters(load(tmp_path / "m"))


@pytest.mark.parametrize(
    ("estimator", "name", "value"),
    [
        (DiPriMeRegressor, "epsilon", 2.0),
        (DiPriMeRegressor, "max_records_per_group", 2),
        (DiPriMeBoostingRegressor, "delta", 1e-7),
    ],
)
def test_parameters_of_another_ledger_are_refused(estimator, name, value):
    model = estimator(1.0, CLOSED, **SMALL[estimator]).fit(X, Y).set_params(**{name: value})
    with pytest.raises(ValueError, match=rf"^{name} .*match .*ledger"):
        check_ledger_matches_parameters(model)


def test_ledger_that_spends_more_than_its_epsilon_is_refused():
    model = DiPriMeRegressor(1.0, CLOSED, n_estimators=2).fit(X, Y)
    model.privacy_ = replace(model.privacy_, charges=model.privacy_.charges * 2)
    with pytest.raises(ValueError, match=r"ledger spends .*epsilon"):
        check_ledger_matches_parameters(model)


@pytest.mark.parametrize("estimator", SMALL)
def test_fit_at_the_largest_epsilon_is_saved_and_reported(tmp_path, estimator):
    estimator(1e200, CLOSED, **SMALL[estimator]).fit(X, Y).save(tmp_path / "m")
    model = load(tmp_path / "m")
    assert "epsilon = 1e+200" in str(model.privacy_)
    assert "1e+200" in render(model)
    with pytest.raises(ValueError, match="from 1e-200 to 1e200"):
        estimator(1e308, CLOSED, **SMALL[estimator]).fit(X, Y)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", ["forest", "boosted"])
@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_files_merged_models_and_reports_state_fitted_parameters(task, kind, tmp_path):
    kinds = ESTIMATORS if kind == "forest" else BOOSTERS
    shape = {"max_depth": 2} if kind == "forest" else {"n_rounds": 3}
    model = kinds[task](1.0, "infer", **shape).fit(*make(task, 200))
    page, data = render(model), to_bytes(model._to_content())
    other = dict.fromkeys(shape, 4)
    model.set_params(epsilon=0.01, domain=DOMAINS[task], random_state=1, **other)
    assert render(model) == page
    assert to_bytes(model._to_content()) == data
    merged = merge([model], disjoint=True)
    assert merged.get_params(deep=False) | {"random_state": None} == model.get_params(deep=False) | {
        "epsilon": 1.0, "domain": "infer", "random_state": None, **shape
    }  # fmt: skip
    model.save(tmp_path / "model.diprime")
    back = load(tmp_path / "model.diprime")
    assert (back.epsilon, back.domain, back.random_state) == (1.0, "infer", None)
    assert back.fitted_params_ == model.fitted_params_
    assert "random_state" not in model.fitted_params_


def test_model_of_a_search_has_the_epsilon_of_the_search():
    model = ESTIMATORS["regression"](domain=DOMAINS["regression"], max_depth=2)
    search = PrivateSearch(model, {"balance": [0, 1]}, epsilon=3.0).fit(*make("regression", 200))
    best = search.best_estimator_
    assert (best.epsilon, best.fitted_params_["epsilon"], best.privacy_.total) == (3.0, 3.0, 3)
    assert best.fitted_params_["balance"] == search.best_params_["balance"]
