"""The estimator that chooses: parameters, fitted attributes, prediction, files, and scikit-learn's checks."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import diprime
from diprime import Budget, BudgetError, Domain, Numeric, PrivacyWarning, PrivateSearch, merge
from diprime.report import render
from tests.small_data import BOOSTERS, DOMAINS, ESTIMATORS, FEATURES, TASKS, make

INF = float("inf")
not_private = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
KINDS = [(ESTIMATORS, {"max_depth": [1, "auto"]}), (BOOSTERS, {"n_rounds": [1, 20]})]
EIGHT = {"max_depth": [1, 2, 3, "auto"], "balance": [0, 1]}


def search_of(task, grid=None, kinds=ESTIMATORS, domain=None, **parameters):
    model = kinds[task](domain=domain or DOMAINS[task], n_jobs=1)
    return PrivateSearch(model, grid or {"max_depth": [1, "auto"]}, **{"epsilon": 20, **parameters})


@pytest.fixture(params=TASKS)
def task(request):
    return request.param


# -- fitted searches ---------------------------------------------------------------------------------------------------


@not_private
@pytest.mark.parametrize(("kinds", "grid"), KINDS)
def test_the_better_of_two_settings_is_chosen_and_predicts(task, kinds, grid):
    X, y = make(task, 3000)
    search = search_of(task, grid, kinds, random_state=0).fit(X, y)
    ((name, values),) = grid.items()
    assert search.best_params_ == {name: values[1]}
    assert getattr(search.best_estimator_, name) == values[1]
    assert search.score(X, y) == search.best_estimator_.score(X, y) > 0.6
    assert np.array_equal(search.predict(X), search.best_estimator_.predict(X))
    assert search.privacy_.total == 20
    assert search_of(task, grid, kinds).fit(X, y).privacy_.is_private
    assert search.best_estimator_.privacy_ is search.privacy_
    assert search.feature_importances_.argmax() == 0


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("rule", ["all", "stopping"])
def test_every_rule_chooses_among_many(task, rule, refit):
    X, y = make(task, 3000)
    search = search_of(task, EIGHT, rule=rule, refit=refit, epsilon=60).fit(X, y)
    assert search.best_params_ in [{"max_depth": d, "balance": b} for d in EIGHT["max_depth"] for b in (0, 1)]
    assert search.privacy_.total == 60
    assert search.score(X, y) > 0.3
    assert [len(ledger.charges) for ledger in search.privacy_.merged] == [] if refit else [1]


@pytest.mark.parametrize(
    ("n", "kinds", "epsilon", "expected"),
    [
        (3, ESTIMATORS, 1, ("all", False)),
        (4, ESTIMATORS, 1, ("stopping", True)),
        (4, ESTIMATORS, INF, ("all", False)),
        (4, BOOSTERS, 1, ("all", False)),
    ],
)
def test_the_rule_by_default(n, kinds, epsilon, expected):
    name = "max_depth" if kinds is ESTIMATORS else "n_rounds"
    search = search_of("regression", {name: list(range(1, n + 1))}, kinds, epsilon=epsilon)
    settings = search._check_settings(4)
    assert (settings.rule, settings.refit) == expected
    assert settings.max_fits == 5 * n


def test_classifiers_have_classes_and_probabilities_and_regressors_do_not():
    X, y = make("classification", 200)
    search = search_of("classification").fit(X, y)
    assert search.classes_.tolist() == ["a", "b", "c"]
    assert search.predict_proba(X).shape == (200, 3)
    assert np.array_equal(search.predict_log_proba(X), search.best_estimator_.predict_log_proba(X))
    assert is_classifier(search)
    assert not hasattr(search, "decision_function")
    assert hasattr(search_of("classification", {"n_rounds": [1]}, BOOSTERS), "decision_function")
    regressor = search_of("regression")
    assert is_regressor(regressor)
    assert not hasattr(regressor, "predict_proba")


def test_attributes_of_a_fitted_search(task):
    search = search_of(task).fit(*make(task, 100))
    expected = {"best_estimator_", "best_params_", "privacy_", "domain_", "n_features_in_"}
    expected |= {"classes_"} if task == "classification" else set()
    assert set(vars(search)) - set(search.get_params(deep=False)) == expected
    with pytest.raises(NotFittedError):
        search_of(task).predict(make(task, 5)[0])


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("grid", [None, EIGHT])
def test_few_records_are_no_error(task, n, grid):
    X, y = make(task, n)
    assert search_of(task, grid).fit(X, y).privacy_.is_private


def test_names_of_columns_are_known_to_the_model_however_it_was_fitted(task):
    X, y = make(task, 60)
    frame = pd.DataFrame(X, columns=list(FEATURES))
    of_frame, of_batches = search_of(task).fit(frame, y), search_of(task).fit_batches([(frame, y), (frame, y)])
    for search in (of_frame, of_batches):
        assert search.best_estimator_.feature_names_in_.tolist() == list(FEATURES)
        assert search.best_estimator_.n_features_in_ == search.n_features_in_ == 4
        search.predict(frame)
    again = of_frame.fit(X, y)
    assert not hasattr(again.best_estimator_, "feature_names_in_")
    again.predict(X)


# -- the guarantee -----------------------------------------------------------------------------------------------------


def test_a_seed_waives_the_guarantee_and_makes_the_search_reproducible(task):
    X, y = make(task, 300)
    results = []
    for _ in range(2):
        with pytest.warns(PrivacyWarning, match="random_state was set"):
            results.append(search_of(task, EIGHT, random_state=3, rule="stopping", refit=False).fit(X, y))
    assert results[0].best_params_ == results[1].best_params_
    assert np.array_equal(results[0].predict(X), results[1].predict(X))
    assert not results[0].privacy_.is_private
    assert results[0].privacy_.merged[0].waivers == results[0].privacy_.waivers


def test_a_domain_that_was_read_from_the_data_waives_the_guarantee_once(task):
    X, y = make(task, 300)
    with pytest.warns(PrivacyWarning) as warned:
        search = search_of(task, domain="infer").fit(X, y)
    assert len(warned) == 1
    assert not search.best_estimator_.privacy_.is_private
    assert search.best_estimator_.domain == "infer"


def test_infinite_epsilon_is_not_private(task):
    search = search_of(task, epsilon=INF).fit(*make(task, 500))
    assert search.privacy_.total == INF
    assert not search.privacy_.is_private
    assert search.best_params_ == {"max_depth": "auto"}


def test_epsilon_of_the_model_is_that_of_the_search(task):
    search = search_of(task, epsilon=0.7).fit(*make(task, 100))
    assert search.best_estimator_.epsilon == 0.7
    assert search.privacy_.total == Fraction(7, 10)


def test_a_missing_or_unfit_domain_is_a_mistake_of_the_estimator(task):
    X, y = make(task, 10)
    model = ESTIMATORS[task]()
    with pytest.raises(ValueError, match=f"{type(model).__name__} needs to know what is public"):
        PrivateSearch(model, {"max_depth": [1]}).fit(X, y)
    other = DOMAINS[next(t for t in TASKS if t != task)]
    with pytest.raises(ValueError, match=f"{type(model).__name__} needs a domain whose target is"):
        search_of(task, domain=other).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rule": "best"}, "rule must be one of"),
        ({"refit": 1}, "refit must be one of"),
        ({"max_fits": 0}, "max_fits must be"),
        ({"holdout": 0}, "holdout must be a number between 0 and 1"),
        ({"holdout": 1.0}, "holdout must be a number between 0 and 1"),
        ({"holdout": "half"}, "holdout must be a number between 0 and 1"),
        ({"epsilon": 0}, "epsilon must be a positive number"),
        ({"grid": {"max_depth": [1, 0]}}, "max_depth must be"),
        ({"grid": {"depth": [1]}}, "Invalid parameter 'depth'"),
        ({"grid": {"n_rounds": [1]}, "kinds": BOOSTERS, "rule": "stopping"}, "needs fits of pure epsilon"),
    ],
)
def test_mistakes_are_found_before_rows_are_read(parameters, message):
    class Unreadable:
        shape = (5, 4)

        def __array__(self, *_):
            raise AssertionError("rows were read")

    with pytest.raises(ValueError, match=message):
        search_of("regression", **parameters).fit(Unreadable(), Unreadable())


# -- files and tools ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kinds", "grid"), [*KINDS, (ESTIMATORS, EIGHT)])
def test_a_saved_model_has_the_ledger_of_the_search(task, kinds, grid, tmp_path):
    X, y = make(task, 500)
    search = search_of(task, grid, kinds, epsilon=2).fit(X, y)
    search.save(tmp_path / "model.diprime")
    model = diprime.load(tmp_path / "model.diprime")
    assert model.privacy_ == search.privacy_
    assert model.privacy_.total == model.epsilon == 2
    assert np.array_equal(model.predict(X), search.predict(X))
    page = render(model)
    assert "chosen by a private search" in page
    assert search.privacy_.charges[0].what in page
    merged = merge([search.best_estimator_, model])
    assert merged.privacy_.total == 2
    assert [part.charges[0].what for part in merged.privacy_.merged] == [search.privacy_.charges[0].what] * 2


def test_a_ledger_says_how_the_model_was_chosen(task):
    ledger = search_of(task).fit(*make(task, 300)).privacy_
    assert "fits of 2 settings" in str(ledger)
    assert "\n\nThe model alone. Privacy ledger: epsilon = 10 of 10" in str(ledger)


def test_searches_can_be_cloned_copied_and_pickled(task):
    X, y = make(task, 200)
    search = search_of(task, EIGHT).fit(X, y)
    for copied in (pickle.loads(pickle.dumps(search)), copy.deepcopy(search)):
        assert np.array_equal(copied.predict(X), search.predict(X))
    assert clone(search).get_params()["estimator__max_depth"] == "auto"
    assert not hasattr(clone(search), "privacy_")


def test_a_search_can_be_cross_validated(task):
    X, y = make(task, 1500)
    assert cross_val_score(search_of(task), X, y, cv=3).mean() > 0.5


@not_private
@pytest.mark.parametrize("kinds", [ESTIMATORS, BOOSTERS])
def test_scikit_learn_checks(task, kinds):
    grid = {"max_depth": [2, 4]} if kinds is ESTIMATORS else {"n_rounds": [50, 100]}
    search = PrivateSearch(kinds[task](domain="infer", n_jobs=1), grid, epsilon=1000, random_state=0)
    results = check_estimator(search, on_fail=None, on_skip=None)
    assert {r["check_name"] for r in results if r["status"] == "failed"} == set()
    assert len(results) > 45


@pytest.mark.parametrize(("rule", "refit"), [("all", False), ("stopping", True)])
def test_persons_are_protected_by_a_search(task, rule, refit):
    X, y = make(task, 900)
    people = np.random.default_rng(2).integers(0, 300, 900)
    model = ESTIMATORS[task](domain=DOMAINS[task], n_jobs=1, max_records_per_group=4)
    search = PrivateSearch(model, {"max_depth": [1, 3]}, epsilon=5, rule=rule, refit=refit, max_fits=3)
    with Budget(epsilon=5) as budget:
        search.fit(X, y, groups=people)
    assert (search.privacy_.unit_records, search.privacy_.total) == (4, 5)
    assert [entry.unit for entry in budget.entries] == ["person"]
    assert all(part.unit_records == 4 for part in search.privacy_.merged)
    with pytest.raises(ValueError, match="no groups are given"):
        search.fit(X, y)


def test_a_boosted_search_is_charged_its_two_measures():
    X, y = make("classification", 500)
    model = BOOSTERS["classification"](domain=DOMAINS["classification"], n_jobs=1)
    with Budget(epsilon=3, delta=1e-5) as budget:
        search = PrivateSearch(model, {"n_rounds": [1, 5]}, epsilon=1).fit(X, y)
    assert budget.spent == search.privacy_.loss
    assert budget.spent.epsilon == Fraction(1, 10)
    assert search.privacy_.studies == [budget.study]
    with Budget(epsilon=Fraction(1, 2), delta=1e-5), pytest.raises(BudgetError, match="does not cover PrivateSearch"):
        PrivateSearch(model, {"n_rounds": [1, 5]}, epsilon=1).fit(X, y)


def test_an_open_domain_is_refused():
    X, y = make("regression", 50)
    model = ESTIMATORS["regression"](domain=Domain({f"x{i}": Numeric() for i in range(X.shape[1])}, Numeric(0, 1)))
    with pytest.raises(ValueError, match=r"use Domain\.learn before"):
        PrivateSearch(model, {"max_depth": [1, 2]}).fit(X, y)
