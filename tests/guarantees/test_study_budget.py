"""Every fit under a budget is charged to it, exactly, before its first release and after its last mistake."""

import copy
import errno
import os
import pickle
import signal
import subprocess
import sys
import threading
from fractions import Fraction

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

import diprime
from diprime import (
    Budget,
    BudgetError,
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeClassifier,
    Domain,
    Ledger,
    Numeric,
    PrivateSearch,
    load,
    merge,
    sources,
)
from diprime.execution import partition
from diprime.paper import DPDecisionForestClassifier, DPRandomForestClassifier, DPRandomForestRegressor
from diprime.privacy.measures import PrivacyLoss
from diprime.privacy.session import Session
from tests.small_data import BOOSTERS, DOMAINS, ESTIMATORS, METHODS, PAPER, TASKS, make

CLASSES, NUMBERS = TASKS
BASELINES = [
    (DPDecisionForestClassifier, CLASSES),
    (DPRandomForestClassifier, CLASSES),
    (DPRandomForestRegressor, NUMBERS),
]
ALL = [
    *((ESTIMATORS[task], task, {"method": method}) for task in TASKS for method in METHODS),
    *((BOOSTERS[task], task, {"n_rounds": 5}) for task in TASKS),
    *((baseline, task, {"n_estimators": 2, "max_depth": 2}) for baseline, task in BASELINES),
]
OF_EACH_KIND = [ALL[0], *ALL[-5:]]


def made(kind, task, parameters, epsilon=1.0):
    return kind(epsilon=epsilon, domain=DOMAINS[task], n_jobs=1, **parameters)


@pytest.mark.parametrize(("kind", "task", "parameters"), ALL)
def test_fit_is_charged_the_total_of_its_ledger(kind, task, parameters):
    X, y = make(task, 300)
    model, budget = made(kind, task, parameters), Budget(3, 1e-5)
    with budget:
        model.fit(X, y)
        model.fit(sources.batches([(X[:100], y[:100]), (X[100:190], y[100:190])]))
    model.fit(X, y)
    assert [entry.loss for entry in budget.entries] == [model.privacy_.loss] * 2
    first, second = (entry.description for entry in budget.entries)
    assert first.startswith(f"{kind.__name__} with epsilon = 1")
    assert first == second, "whatever the data, the log says the same"
    assert model.privacy_.studies == [], "the last fit was charged to no study"


@pytest.mark.parametrize(("kind", "task", "parameters"), OF_EACH_KIND)
def test_ledger_names_the_study_in_all_formats(kind, task, parameters, tmp_path):
    X, y = make(task, 300)
    with Budget(3, 1e-5) as budget, Budget(2, 1e-5) as other:
        model = made(kind, task, parameters).fit(X, y)
        assert sorted(model.privacy_.studies) == sorted([budget.study, other.study])
    assert f"Charged to the budget of study {budget.study}." in str(model.privacy_)
    assert Ledger.from_json(model.privacy_.to_json()) == model.privacy_
    if hasattr(model, "save"):
        model.save(tmp_path / "model")
        assert load(tmp_path / "model").privacy_ == model.privacy_


class Unreadable:
    """Data that nobody may look at."""

    def __getattribute__(self, name):
        if name.startswith("__") and name != "__array__":
            return super().__getattribute__(name)
        raise AssertionError(f"the data were read: {name}")


def unreadable_batches():
    raise AssertionError("the data were read")
    yield


@pytest.mark.parametrize(("kind", "task", "parameters"), OF_EACH_KIND)
def test_request_beyond_the_budget_is_refused_before_data_are_read(kind, task, parameters):
    with Budget(0.5, 1e-7) as budget:
        for epsilon in (1.0, float("inf")):
            model = made(kind, task, parameters, epsilon)
            with pytest.raises(BudgetError, match=f"not cover {kind.__name__}"):
                model.fit(Unreadable(), Unreadable())
            with pytest.raises(BudgetError, match=f"not cover {kind.__name__}"):
                model.fit(sources.batches(unreadable_batches()))
        assert not hasattr(model, "privacy_")
    assert budget.entries == ()
    with pytest.raises(AssertionError, match="the data were read"):
        made(kind, task, parameters).fit(sources.batches(unreadable_batches()))
    with pytest.raises(AssertionError, match="the data were read"):
        made(kind, task, parameters).fit(Unreadable(), Unreadable())


@pytest.mark.parametrize(("kind", "task", "parameters"), OF_EACH_KIND)
def test_request_without_privacy_is_refused_before_data_are_read(kind, task, parameters):
    with Budget(5, 1e-5) as budget:
        for waived in ({"random_state": 0}, {"domain": "infer"}):
            with pytest.raises(BudgetError, match=rf"fit of {kind.__name__} .*not private"):
                made(kind, task, parameters).set_params(**waived).fit(Unreadable(), Unreadable())
        if kind in (DPRandomForestRegressor, ESTIMATORS[CLASSES]):
            published = {"accounting": "paper"} if kind is DPRandomForestRegressor else {}
            kind = PAPER.get(CLASSES) if kind is ESTIMATORS[CLASSES] else kind
            with pytest.raises(BudgetError, match="DiPriMe paper"):
                made(kind, task, {**parameters, **published}).fit(Unreadable(), Unreadable())
    assert budget.entries == ()


def test_private_published_accounting_is_charged():
    X, y = make(CLASSES, 300)
    with Budget(1) as budget:
        DPRandomForestClassifier(1.0, DOMAINS[CLASSES], accounting="paper", max_depth=2).fit(X, y)
    assert budget.spent == PrivacyLoss(Fraction(1))


@pytest.mark.parametrize(("kind", "task", "parameters"), OF_EACH_KIND)
def test_invalid_input_is_not_charged(kind, task, parameters):
    X, y = make(task, 300)
    with Budget(5, 1e-5) as budget:
        for wrong in ((X, y[:-1]), (X[:, :-1], y), (X, None)):
            with pytest.raises((ValueError, TypeError)):
                made(kind, task, parameters).fit(*wrong)
        with pytest.raises(ValueError, match="epsilon"):
            made(kind, task, parameters, -1).fit(X, y)
    assert budget.entries == ()


@pytest.mark.parametrize(
    ("kind", "varied"), [(DiPriMeClassifier, "max_depth"), (DiPriMeBoostingClassifier, "n_rounds")]
)
def test_invalid_feature_names_are_not_charged(kind, varied):
    """pandas has names that are numbers, which the domain matches as text."""
    domain = Domain({"a": Numeric(0, 1), "1": Numeric(0, 1)}, target=Categorical([0, 1]))
    X, y = pd.DataFrame({"a": [0.0] * 60, 1: [1.0] * 60}), [0, 1] * 30
    model = kind(1.0, domain)
    with Budget(3, 1e-5) as budget:
        for fit in (
            lambda: model.fit(X, y),
            lambda: model.fit(X, y, groups=range(60)),
            lambda: model.fit(sources.batches([(X, y)])),
            lambda: PrivateSearch(model, {varied: [1, 2]}, epsilon=3.0).fit(X, y),
        ):
            with pytest.raises(TypeError, match="Feature names are only supported if all input features have string"):
                fit()
    assert not budget.entries


@pytest.mark.parametrize("kind", [ESTIMATORS[CLASSES], BOOSTERS[CLASSES]])
def test_missing_disk_space_is_not_charged(kind, monkeypatch, tmp_path):
    """Wherever the disk is full: all files that a fit makes are made before it is charged."""
    X, y = make(CLASSES, 300)
    take_room, n_files = partition._preallocate, []

    def full(file, n_bytes):
        if len(n_files) == n_free:
            raise OSError(errno.ENOSPC, "full")
        n_files.append(n_bytes)
        take_room(file, n_bytes)

    def fit():
        n_files.clear()
        kind(1.0, DOMAINS[CLASSES], n_jobs=1).fit(sources.batches([(X, y)], scratch=tmp_path))

    monkeypatch.setattr(partition, "_preallocate", full)
    n_free = None
    fit()
    n_needed = len(n_files)
    assert n_needed >= 2, "of the codes, and of what learns"
    for n_free in range(n_needed):
        with Budget(5, 1e-5) as budget, pytest.raises(OSError, match=r"No space .*scratch"):
            fit()
        assert budget.entries == (), n_free


@pytest.mark.parametrize(("kind", "task", "parameters"), OF_EACH_KIND)
def test_failure_before_the_charge_is_not_charged(kind, task, parameters, monkeypatch):
    X, y = make(task, 300)
    prepare = kind._build_engine

    def fail(self, *arguments):
        prepare(self, *arguments)
        raise MemoryError

    monkeypatch.setattr(kind, "_build_engine", fail)
    with Budget(5, 1e-5) as budget, pytest.raises(MemoryError):
        made(kind, task, parameters).fit(X, y)
    assert budget.entries == ()


@pytest.mark.parametrize("kind", [ESTIMATORS[CLASSES], BOOSTERS[CLASSES]])
def test_failure_after_the_charge_stays_charged(kind, monkeypatch):
    X, y = make(CLASSES, 300)
    seen = []

    def fail(*arguments):
        seen.append(len(budget.entries))
        raise MemoryError

    monkeypatch.setattr(kind, "_train", fail)
    with Budget(5, 1e-5) as budget, pytest.raises(MemoryError):
        kind(1.0, DOMAINS[CLASSES]).fit(X, y)
    assert seen == [1], "the charge precedes the first release"
    assert len(budget.entries) == 1


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes cannot be killed here")
def test_killed_fit_stays_charged(tmp_path):
    script = """
import os, signal, sys
from diprime import Budget
from diprime.privacy.session import Account
from tests.small_data import DOMAINS, ESTIMATORS, make
X, y = make("regression", 100)
Account.pay = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with Budget.open(sys.argv[1]):
    ESTIMATORS["regression"](1.0, DOMAINS["regression"]).fit(X, y)
"""
    budget = Budget.create(tmp_path / "study.budget", 3)
    assert subprocess.run([sys.executable, "-c", script, budget.path], check=False).returncode == -signal.SIGKILL
    assert budget.spent == PrivacyLoss(Fraction(1))


def test_concurrent_fits_cannot_overspend(monkeypatch):
    """Both are told before reading that they fit; the charge tells again."""
    X, y = make(NUMBERS, 200)
    both, outcomes = threading.Barrier(2), []
    check = Session.check

    def check_and_wait(self, *arguments):
        check(self, *arguments)
        both.wait(60)

    monkeypatch.setattr(Session, "check", check_and_wait)

    def fit():
        try:
            outcomes.append(ESTIMATORS[NUMBERS](1.0, DOMAINS[NUMBERS], n_jobs=1).fit(X, y).privacy_.is_private)
        except BudgetError:
            outcomes.append(False)

    with Budget(1.5) as budget:
        threads = [threading.Thread(target=fit) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(outcomes) == [False, True]
    assert budget.spent == PrivacyLoss(Fraction(1))


# -- copies ------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:GridSearchCV reads private rows:diprime.PrivacyWarning")
@pytest.mark.parametrize(
    ("kind", "parameters", "n_jobs"),
    [
        (ESTIMATORS[NUMBERS], {}, 1),
        (ESTIMATORS[NUMBERS], {}, 2),
        (BOOSTERS[NUMBERS], {"n_rounds": 3}, 1),
        pytest.param(BOOSTERS[NUMBERS], {"n_rounds": 3}, 2, marks=pytest.mark.audit),
    ],
)
def test_cross_validation_charges_every_fit(kind, parameters, n_jobs, tmp_path):
    X, y = make(NUMBERS, 200)
    model, budget = made(kind, NUMBERS, parameters, 0.25), Budget.create(tmp_path / "study.budget", 3, 1e-5)
    with budget:
        cross_val_score(model, X, y, cv=3, n_jobs=n_jobs)
        GridSearchCV(model, {"epsilon": [0.1, 0.2]}, cv=2, n_jobs=n_jobs).fit(X, y)
    assert len(budget.entries) == 3 + 2 * 2 + 1
    assert not hasattr(model, "_budgets") or model._budgets == ()
    cross_val_score(model, X, y, cv=3, n_jobs=n_jobs)
    assert len(budget.entries) == 8, "after the block, nothing is charged"


def test_cross_validation_beyond_the_budget_fails_every_further_fit(tmp_path):
    X, y = make(NUMBERS, 200)
    with Budget(0.5) as budget, pytest.warns(FitFailedWarning, match="not cover DiPriMeRegressor"):
        scores = cross_val_score(made(ESTIMATORS[NUMBERS], NUMBERS, {}, 0.25), X, y, cv=4)
    assert np.isnan(scores).tolist() == [False, False, True, True]
    assert len(budget.entries) == 2


def test_workers_cannot_charge_a_budget_in_memory():
    X, y = make(NUMBERS, 200)
    with Budget(5) as budget, pytest.raises(ValueError, match=r"(?s)memory of process .* Budget\.create"):
        cross_val_score(made(ESTIMATORS[NUMBERS], NUMBERS, {}), X, y, cv=3, n_jobs=2)
    assert budget.entries == ()


def test_joblib_threads_are_charged():
    X, y = make(NUMBERS, 200)
    model = made(ESTIMATORS[NUMBERS], NUMBERS, {}, 0.25)
    with Budget(5) as budget, joblib.parallel_config("threading"):
        cross_val_score(model, X, y, cv=3, n_jobs=2)
    assert len(budget.entries) == 3


@pytest.mark.parametrize("copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, copy.copy])
@pytest.mark.parametrize("fitted", [False, True])
def test_copies_made_under_a_budget_keep_charging_it(copied, fitted):
    X, y = make(NUMBERS, 200)
    model = made(ESTIMATORS[NUMBERS], NUMBERS, {})
    with Budget(5) as budget:
        if fitted:
            model.fit(X, y)
        other = copied(model)
    before = len(budget.entries)
    clone(copied(other)).fit(X, y)
    assert len(budget.entries) == before + 1
    with budget:
        other.fit(X, y)
    assert len(budget.entries) == before + 2, "once, although it is in force as well"
    model.fit(X, y)
    clone(model).fit(X, y)
    assert len(budget.entries) == before + 2, "the original is free again"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_fits_charge_a_file_budget_and_are_refused_by_a_memory_budget(tmp_path):
    X, y = make(NUMBERS, 100)
    for budget, n_charged in ((Budget(3), 0), (Budget.create(tmp_path / "study.budget", 3), 1)):
        with budget:
            child = os.fork()
            if not child:
                try:
                    ESTIMATORS[NUMBERS](1.0, DOMAINS[NUMBERS], n_jobs=1).fit(X, y)
                    os._exit(0)
                except BudgetError:
                    os._exit(1)
                finally:
                    os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1 - n_charged
        assert len(budget.entries) == n_charged


# -- different people --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [ESTIMATORS, BOOSTERS])
def test_merge_refuses_models_of_the_same_study(kinds):
    X, y = make(NUMBERS, 200)
    parameters = {"n_rounds": 3} if kinds is BOOSTERS else {}
    model = made(kinds[NUMBERS], NUMBERS, parameters)
    with Budget(2, 1e-5) as north:
        a, b = clone(model).fit(X[:50], y[:50]), clone(model).fit(X[50:100], y[50:100])
    with Budget(1, 1e-5) as south:
        c = clone(model).fit(X[100:], y[100:])
    with pytest.raises(ValueError, match=rf"study {north.study}\), .*same people"):
        merge([a, b], disjoint=True)
    merged = merge([a, c, clone(model).fit(X, y)], disjoint=True)
    assert merged.privacy_.total == 1
    assert merged.privacy_.studies == [north.study, south.study]
    with pytest.raises(ValueError, match="same people"):
        merge([merged, b], disjoint=True)
    with Budget(1) as idle:
        merge([a, c], disjoint=True)
        merged.predict(X)
    assert idle.entries == (), "post-processing costs nothing"


# -- where parts of a study meet ---------------------------------------------------------------------------------------


def test_score_is_charged_to_the_budgets_of_its_model(tmp_path):
    X, y = make(NUMBERS, 200)
    with Budget.create(tmp_path / "study.budget", 1) as budget:
        model = pickle.loads(pickle.dumps(ESTIMATORS[NUMBERS](0.5, DOMAINS[NUMBERS]).fit(X, y)))
    merged = diprime.merge([model], disjoint=True)
    for carrying in (model, merged):
        with pytest.raises(BudgetError, match=r"not cover .*score of DiPriMe"):
            diprime.private_score(carrying, X, y, 5.0)
    diprime.private_score(model, X, y, 0.5)
    assert budget.spent == PrivacyLoss(Fraction(1))


def test_search_is_charged_to_the_budgets_of_its_estimator():
    X, y = make(NUMBERS, 200)
    with Budget(1) as budget:
        carrying = pickle.loads(pickle.dumps(ESTIMATORS[NUMBERS](domain=DOMAINS[NUMBERS])))
    search = diprime.PrivateSearch(carrying, {"max_depth": [1, 2]}, epsilon=1).fit(X, y)
    assert search.privacy_.studies == [budget.study]
    with pytest.raises(BudgetError, match=r"not cover .*score of DiPriMe"):
        diprime.private_score(search.best_estimator_, X, y, 0.1)
    assert budget.spent == PrivacyLoss(Fraction(1))


def test_ledger_names_a_study_only_if_charged_to_it():
    X, y = make(NUMBERS, 8000)
    with Budget(3) as budget:
        domain = diprime.Domain.learn(X, y, 0.5, task="regression")
        inside = ESTIMATORS[NUMBERS](1.0, domain).fit(X, y)
    outside = [ESTIMATORS[NUMBERS](1.0, domain).fit(X, y) for _ in range(2)]
    assert (inside.privacy_.studies, outside[0].privacy_.studies) == ([budget.study], [])
    assert budget.spent == PrivacyLoss(Fraction(3, 2)), "the domain once"
    assert diprime.merge(outside, disjoint=True).privacy_.total == Fraction(3, 2)
    with Budget(3) as other:
        ESTIMATORS[NUMBERS](1.0, domain).fit(X, y)
    assert other.spent == PrivacyLoss(Fraction(3, 2)), "it was learnt outside of this one"


@pytest.mark.parametrize("kind", ["learnt before", "open"])
def test_nested_budgets_each_charge_a_learnt_domain_once(kind):
    X, y = make(NUMBERS, 8000)
    half, one = Fraction(1, 2), Fraction(1)
    with Budget(3) as outer:
        if kind == "open":
            domain = diprime.Domain(
                {name: diprime.Numeric() for name in DOMAINS[NUMBERS].encoded_feature_names}, diprime.Numeric()
            )
        else:
            domain = diprime.Domain.learn(X, y, 0.5, task="regression")
        with Budget(3) as inner:
            model = ESTIMATORS[NUMBERS](1.0, domain).fit(X, y)
    learnt = kind == "learnt before"  # and charged to the outer one alone
    assert outer.spent == PrivacyLoss(one + half if learnt else one)
    assert inner.spent == PrivacyLoss(one + half if learnt else one)
    assert len(inner.entries) == (1 if learnt else 2)
    assert set(model.privacy_.studies) == {outer.study, inner.study}
    assert model.privacy_.total == (one + half if learnt else one)


def test_budget_below_the_cost_of_a_learnt_domain_refuses_before_data_are_read():
    """The outer budget has counted the domain and could go on; the inner one has not, and has no room for both."""
    X, y = make(NUMBERS, 8000)
    with Budget(2) as outer:
        domain = diprime.Domain.learn(X, y, 0.5, task="regression")
        words = r"not cover .* epsilon = 1, .*epsilon = 0\.5 .*domain\. .*epsilon = 1\.25 "
        with Budget(1.25) as inner, pytest.raises(BudgetError, match=words):
            ESTIMATORS[NUMBERS](1.0, domain).fit(None, y)
        assert inner.entries == ()
        ESTIMATORS[NUMBERS](1.0, domain).fit(X, y)
    assert outer.spent == PrivacyLoss(Fraction(3, 2))


def test_budget_below_the_cost_of_domain_learning_refuses_before_data_are_read():
    X, _ = make(NUMBERS, 200)
    domain = diprime.Domain({f"x{i}": diprime.Numeric() for i in range(X.shape[1])}, DOMAINS[NUMBERS].target)
    model = ESTIMATORS[NUMBERS](1.0, domain)
    with Budget(Fraction(19, 20)) as budget, pytest.raises(BudgetError, match="not cover DiPriMeRegressor"):
        model.fit(Unreadable(), Unreadable())
    assert budget.entries == ()


class LeavingBudget:
    """Records that leave the block of a budget when they are read."""

    def __init__(self, X, budget):
        self._X = X
        self._budget = budget

    def __array__(self, *arguments, **options):
        budget, self._budget = self._budget, None
        if budget is not None:
            budget.__exit__(None, None, None)
        return self._X


def test_budget_context_exited_while_a_table_is_read_is_charged():
    X, y = make(NUMBERS, 200)
    budget = Budget(3)
    budget.__enter__()
    model = ESTIMATORS[NUMBERS](1.0, DOMAINS[NUMBERS]).fit(LeavingBudget(X, budget), y)
    assert (budget.spent, model.privacy_.studies) == (PrivacyLoss(Fraction(1)), [budget.study])


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_budget_contexts_are_those_active_when_the_fit_starts():
    X, y = make(NUMBERS, 200)
    left, entered = Budget(3), Budget(3)

    def leaving():
        left.__exit__(None, None, None)
        yield X, y

    def entering():
        entered.__enter__()
        yield X, y

    left.__enter__()
    model = ESTIMATORS[NUMBERS](1.0, DOMAINS[NUMBERS]).fit(sources.batches(leaving()))
    assert (left.spent, model.privacy_.studies) == (PrivacyLoss(Fraction(1)), [left.study])
    try:
        with pytest.raises(BudgetError, match=r"DiPriMeRegressor .*not private\. random_state "):
            ESTIMATORS[NUMBERS](1.0, DOMAINS[NUMBERS], random_state=1).fit(sources.batches(entering()))
    finally:
        entered.__exit__(None, None, None)
    assert entered.spent == PrivacyLoss()
