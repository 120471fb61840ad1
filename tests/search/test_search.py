"""The estimator that chooses: parameters, fitted attributes, prediction, files, and scikit-learn's checks."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.estimator_checks import check_estimator

import diprime
from diprime import Budget, BudgetError, Domain, Numeric, PrivacyWarning, PrivateSearch, merge, sources
from diprime.report import render
from diprime.search import choosing
from tests.small_data import BOOSTERS, DOMAINS, ESTIMATORS, FEATURES, PAPER, TASKS, make

INF = float("inf")
not_private = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
KINDS = [(ESTIMATORS, {"max_depth": [1, "auto"]}), (BOOSTERS, {"n_rounds": [1, 100]})]
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
def test_better_of_two_settings_is_chosen_and_predicts(task, kinds, grid):
    X, y = make(task, 6000)
    if kinds is BOOSTERS:  # level counts upwards or downwards: only rounds can learn this
        X[:, 0] = np.where(X[:, 3] == 1, X[:, 0], 10 - X[:, 0])
    search = search_of(task, grid, kinds, random_state=0).fit(X, y)
    ((name, values),) = grid.items()
    assert search.best_params_ == {name: values[1]}
    assert getattr(search.best_estimator_, name) == values[1]
    assert search.score(X, y) == search.best_estimator_.score(X, y) > 0.6
    assert np.array_equal(search.predict(X), search.best_estimator_.predict(X))
    assert search.privacy_.total == 20
    assert search_of(task, grid, kinds).fit(X, y).privacy_.is_private
    assert search.best_estimator_.privacy_ is search.privacy_
    assert search.feature_importances_.argmax() in ((0, 3) if kinds is BOOSTERS else (0,))


def test_forests_with_published_accounting_are_refused(task):
    with pytest.raises(ValueError, match=rf"PrivateSearch .*{PAPER[task].__name__}, .*not private"):
        search_of(task, kinds=PAPER).fit(*make(task, 100))


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
def test_rule_by_default(n, kinds, epsilon, expected):
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


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("grid", [None, EIGHT])
def test_few_records_are_no_error(task, n, grid):
    X, y = make(task, n)
    assert search_of(task, grid).fit(X, y).privacy_.is_private


def test_best_estimator_has_the_column_names_of_the_search(task):
    X, y = make(task, 60)
    frame = pd.DataFrame(X, columns=list(FEATURES))
    of_frame, of_batches = search_of(task).fit(frame, y), search_of(task).fit(sources.batches([(frame, y), (frame, y)]))
    for search in (of_frame, of_batches):
        assert search.best_estimator_.feature_names_in_.tolist() == list(FEATURES)
        assert search.best_estimator_.n_features_in_ == search.n_features_in_ == 4
        search.predict(frame)
    again = of_frame.fit(X, y)
    assert not hasattr(again.best_estimator_, "feature_names_in_")
    again.predict(X)


# -- the guarantee -----------------------------------------------------------------------------------------------------


def test_seed_voids_the_guarantee_and_makes_the_search_reproducible(task):
    X, y = make(task, 300)
    results = []
    for _ in range(2):
        with pytest.warns(PrivacyWarning, match="random_state is set"):
            results.append(search_of(task, EIGHT, random_state=3, rule="stopping", refit=False).fit(X, y))
    assert results[0].best_params_ == results[1].best_params_
    assert np.array_equal(results[0].predict(X), results[1].predict(X))
    assert not results[0].privacy_.is_private
    assert results[0].privacy_.merged[0].voided_by == results[0].privacy_.voided_by


def test_inferred_domain_voids_the_guarantee_with_one_warning(task):
    X, y = make(task, 300)
    with pytest.warns(PrivacyWarning) as warned:
        search = search_of(task, domain="infer").fit(X, y)
    assert len(warned) == 1
    assert not search.best_estimator_.privacy_.is_private
    assert search.best_estimator_.domain == "infer"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rule": "best"}, "^rule .*got 'best'"),
        ({"refit": 1}, "^refit .*got 1"),
        ({"max_fits": 0}, "^max_fits .*got 0"),
        ({"holdout": 0}, "^holdout .*between 0 and 1, got 0"),
        ({"holdout": 1.0}, "^holdout .*between 0 and 1, got 1.0"),
        ({"holdout": "half"}, "^holdout .*between 0 and 1, got 'half'"),
        ({"epsilon": 0}, "^epsilon .*positive number.*got 0"),
        ({"grid": {"max_depth": [1, -1]}}, "^max_depth .*got -1"),
        ({"grid": {"depth": [1]}}, "Invalid parameter 'depth'"),
        ({"grid": {"n_rounds": [1]}, "kinds": BOOSTERS, "rule": "stopping"}, 'rule="stopping" .*pure epsilon'),
    ],
)
def test_invalid_parameters_raise_before_rows_are_read(parameters, message):
    class Unreadable:
        shape = (5, 4)

        def __array__(self, *_):
            raise AssertionError("rows were read")

    with pytest.raises(ValueError, match=message):
        search_of("regression", **parameters).fit(Unreadable(), Unreadable())


# -- files and tools ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kinds", "grid"), [*KINDS, (ESTIMATORS, EIGHT)])
def test_saved_model_has_the_ledger_of_the_search(task, kinds, grid, tmp_path):
    X, y = make(task, 500)
    search = search_of(task, grid, kinds, epsilon=2).fit(X, y)
    search.save(tmp_path / "model.diprime")
    model = diprime.load(tmp_path / "model.diprime")
    assert model.privacy_ == search.privacy_
    assert model.privacy_.total == model.epsilon == 2
    assert np.array_equal(model.predict(X), search.predict(X))
    page = render(model)
    assert "; the ledger contains its cost" in page
    assert search.privacy_.charges[0].description in page
    merged = merge([search.best_estimator_, model], disjoint=True)
    assert merged.privacy_.total == 2
    assert [part.charges[0].description for part in merged.privacy_.merged] == [
        search.privacy_.charges[0].description
    ] * 2


def test_searches_can_be_cloned_copied_and_pickled(task):
    X, y = make(task, 200)
    search = search_of(task, EIGHT).fit(X, y)
    for copied in (pickle.loads(pickle.dumps(search)), copy.deepcopy(search)):
        assert np.array_equal(copied.predict(X), search.predict(X))
    assert clone(search).get_params()["estimator__max_depth"] == "auto"
    assert not hasattr(clone(search), "privacy_")


@not_private
@pytest.mark.parametrize("kinds", [ESTIMATORS, BOOSTERS])
def test_scikit_learn_checks(task, kinds):
    grid = {"max_depth": [2, 4]} if kinds is ESTIMATORS else {"n_rounds": [10, 20]}
    search = PrivateSearch(kinds[task](domain="infer", n_jobs=1), grid, epsilon=1000, random_state=0)
    results = check_estimator(search, on_fail=None, on_skip=None)
    assert {r["check_name"] for r in results if r["status"] == "failed"} == set()
    assert len(results) > 45


@pytest.mark.parametrize("rule", ["all", "stopping"])
def test_chosen_setting_is_fitted_again_to_all_records(task, rule, monkeypatch):
    X, y = make(task, 300)
    fitted = []

    def refit(model, fit, part, *more):
        fitted.append(sum(part.executor(None).sizes))
        return choosing.fit_candidate(model, fit, part, *more)

    monkeypatch.setattr("diprime.search.fit_candidate", refit)
    search_of(task, rule=rule, refit=True, max_fits=2).fit(X, y)
    assert fitted == [300]


@pytest.mark.parametrize(("rule", "refit"), [("all", False), ("stopping", True)])
def test_search_protects_people(task, rule, refit):
    X, y = make(task, 900)
    people = np.random.default_rng(2).integers(0, 300, 900)
    model = ESTIMATORS[task](domain=DOMAINS[task], n_jobs=1, max_records_per_group=4)
    search = PrivateSearch(model, {"max_depth": [1, 3]}, epsilon=5, rule=rule, refit=refit, max_fits=3)
    with Budget(epsilon=5) as budget:
        search.fit(X, y, groups=people)
    assert (search.privacy_.max_records_per_group, search.privacy_.total) == (4, 5)
    assert [entry.unit for entry in budget.entries] == ["person"]
    assert all(part.max_records_per_group == 4 for part in search.privacy_.merged)
    with pytest.raises(ValueError, match="max_records_per_group=4 requires groups"):
        search.fit(X, y)


def test_boosted_search_is_charged_its_two_measures():
    X, y = make("classification", 500)
    model = BOOSTERS["classification"](domain=DOMAINS["classification"], n_jobs=1)
    with Budget(epsilon=3, delta=1e-5) as budget:
        search = PrivateSearch(model, {"n_rounds": [1, 5]}, epsilon=1).fit(X, y)
    assert budget.spent == search.privacy_.loss
    assert budget.spent.epsilon == Fraction(1, 10)
    assert search.privacy_.studies == [budget.study]
    with Budget(epsilon=Fraction(1, 2), delta=1e-5), pytest.raises(BudgetError, match="not cover PrivateSearch"):
        PrivateSearch(model, {"n_rounds": [1, 5]}, epsilon=1).fit(X, y)


def test_open_domain_is_refused():
    X, y = make("regression", 50)
    model = ESTIMATORS["regression"](domain=Domain({f"x{i}": Numeric() for i in range(X.shape[1])}, Numeric(0, 1)))
    with pytest.raises(ValueError, match=r"complete domain\. .*Domain\.learn"):
        PrivateSearch(model, {"max_depth": [1, 2]}).fit(X, y)
