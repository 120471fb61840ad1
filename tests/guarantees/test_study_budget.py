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
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

import diprime.estimators.base
from diprime import Budget, BudgetError, Ledger, load, merge
from diprime.baselines import DPDecisionForestClassifier, DPRandomForestClassifier, DPRandomForestRegressor
from diprime.engines import memory
from diprime.privacy.measures import PrivacyLoss
from tests.small_data import BOOSTERS, DOMAINS, ESTIMATORS, METHODS, TASKS, make

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
def test_a_fit_is_charged_what_its_ledger_says(kind, task, parameters):
    X, y = make(task, 300)
    model, budget = made(kind, task, parameters), Budget(3, 1e-5)
    with budget:
        model.fit(X, y)
        model.fit_batches([(X[:100], y[:100]), (X[100:190], y[100:190])])
    model.fit(X, y)
    assert [entry.loss for entry in budget.entries] == [model.privacy_.loss] * 2
    first, second = (entry.what for entry in budget.entries)
    assert first.startswith(f"{kind.__name__} with epsilon = 1")
    assert first == second, "whatever the data, the log says the same"
    assert model.privacy_.studies == [], "the last fit was charged to no study"


@pytest.mark.parametrize(("kind", "task", "parameters"), OF_EACH_KIND)
def test_the_ledger_names_the_study_wherever_it_goes(kind, task, parameters, tmp_path):
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
def test_what_does_not_fit_is_refused_before_any_data_are_read(kind, task, parameters):
    with Budget(0.5, 1e-7) as budget:
        for epsilon in (1.0, float("inf")):
            model = made(kind, task, parameters, epsilon)
            with pytest.raises(BudgetError, match=f"does not cover {kind.__name__}"):
                model.fit(Unreadable(), Unreadable())
            with pytest.raises(BudgetError, match="does not cover"):
                model.fit_batches(unreadable_batches())
        assert not hasattr(model, "privacy_")
    assert budget.entries == ()
    with pytest.raises(AssertionError, match="the data were read"):
        made(kind, task, parameters).fit_batches(unreadable_batches())
    with pytest.raises(AssertionError, match="the data were read"):
        made(kind, task, parameters).fit(Unreadable(), Unreadable())


@pytest.mark.parametrize(("kind", "task", "parameters"), OF_EACH_KIND)
def test_what_is_not_private_is_refused_before_any_data_are_read(kind, task, parameters):
    with Budget(5, 1e-5) as budget:
        for waived in ({"random_state": 0}, {"domain": "infer"}):
            with pytest.raises(BudgetError, match=f"No budget covers a fit of {kind.__name__}"):
                made(kind, task, parameters).set_params(**waived).fit(Unreadable(), Unreadable())
        if kind in (DPRandomForestRegressor, ESTIMATORS[CLASSES]):
            with pytest.raises(BudgetError, match="accounting='paper' counts less than is spent"):
                made(kind, task, parameters).set_params(accounting="paper").fit(Unreadable(), Unreadable())
    assert budget.entries == ()


def test_published_accounting_that_is_private_is_charged():
    X, y = make(CLASSES, 300)
    with Budget(1) as budget:
        DPRandomForestClassifier(1.0, DOMAINS[CLASSES], accounting="paper", max_depth=2).fit(X, y)
    assert budget.spent == PrivacyLoss(Fraction(1))


@pytest.mark.parametrize(("kind", "task", "parameters"), OF_EACH_KIND)
def test_a_mistake_costs_nothing(kind, task, parameters):
    X, y = make(task, 300)
    with Budget(5, 1e-5) as budget:
        for wrong in ((X, y[:-1]), (X[:, :-1], y), (X, None)):
            with pytest.raises((ValueError, TypeError)):
                made(kind, task, parameters).fit(*wrong)
        with pytest.raises(ValueError, match="epsilon"):
            made(kind, task, parameters, -1).fit(X, y)
    assert budget.entries == ()


@pytest.mark.parametrize("kind", [ESTIMATORS[CLASSES], BOOSTERS[CLASSES]])
def test_room_that_lacks_costs_nothing(kind, monkeypatch, tmp_path):
    """Wherever the disk is full: all files that a fit makes are made before it is charged."""
    X, y = make(CLASSES, 300)
    take_room, n_files = memory._take_room, []

    def full(file, n_bytes):
        if len(n_files) == n_free:
            raise OSError(errno.ENOSPC, "full")
        n_files.append(n_bytes)
        take_room(file, n_bytes)

    def fit():
        n_files.clear()
        kind(1.0, DOMAINS[CLASSES], n_jobs=1).fit_batches([(X, y)], scratch=tmp_path)

    monkeypatch.setattr(memory, "_take_room", full)
    n_free = None
    fit()
    n_needed = len(n_files)
    assert n_needed >= 2, "of the codes, and of what learns"
    for n_free in range(n_needed):
        with Budget(5, 1e-5) as budget, pytest.raises(OSError, match="no room left"):
            fit()
        assert budget.entries == (), n_free


@pytest.mark.parametrize(("kind", "task", "parameters"), OF_EACH_KIND)
def test_what_fails_while_it_is_prepared_costs_nothing(kind, task, parameters, monkeypatch):
    X, y = make(task, 300)
    prepare = kind._prepare

    def fail(self, *arguments):
        prepare(self, *arguments)
        raise MemoryError

    monkeypatch.setattr(kind, "_prepare", fail)
    with Budget(5, 1e-5) as budget, pytest.raises(MemoryError):
        made(kind, task, parameters).fit(X, y)
    assert budget.entries == ()


@pytest.mark.parametrize("kind", [ESTIMATORS[CLASSES], BOOSTERS[CLASSES]])
def test_what_fails_after_the_charge_has_cost_it(kind, monkeypatch):
    X, y = make(CLASSES, 300)
    seen = []

    def fail(*arguments):
        seen.append(len(budget.entries))
        raise MemoryError

    monkeypatch.setattr(kind, "_learn", fail)
    with Budget(5, 1e-5) as budget, pytest.raises(MemoryError):
        kind(1.0, DOMAINS[CLASSES]).fit(X, y)
    assert seen == [1], "the charge precedes the first release"
    assert len(budget.entries) == 1


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes cannot be killed here")
def test_a_process_that_is_killed_during_a_fit_has_spent_it(tmp_path):
    script = """
import os, signal, sys
from diprime import Budget
from diprime.privacy.ledger import Ledger
from tests.small_data import DOMAINS, ESTIMATORS, make
X, y = make("regression", 100)
Ledger.pay = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with Budget.open(sys.argv[1]):
    ESTIMATORS["regression"](1.0, DOMAINS["regression"]).fit(X, y)
"""
    budget = Budget.create(tmp_path / "study.budget", 3)
    assert subprocess.run([sys.executable, "-c", script, budget.path], check=False).returncode == -signal.SIGKILL
    assert budget.spent == PrivacyLoss(Fraction(1))


def test_two_fits_at_once_cannot_both_have_the_last_part(monkeypatch):
    """Both are told before reading that they fit; the charge tells again."""
    X, y = make(NUMBERS, 200)
    both, outcomes = threading.Barrier(2), []
    reading = diprime.estimators.base.PrivateEstimator._check_budget

    def check_and_wait(self, *arguments):
        reading(self, *arguments)
        both.wait(60)

    monkeypatch.setattr(diprime.estimators.base.PrivateEstimator, "_check_budget", check_and_wait)

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


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("kind", "parameters"), [(ESTIMATORS[NUMBERS], {}), (BOOSTERS[NUMBERS], {"n_rounds": 3})])
def test_cross_validation_is_charged_for_every_fit(kind, parameters, n_jobs, tmp_path):
    X, y = make(NUMBERS, 200)
    model, budget = made(kind, NUMBERS, parameters, 0.25), Budget.create(tmp_path / "study.budget", 3, 1e-5)
    with budget:
        cross_val_score(model, X, y, cv=3, n_jobs=n_jobs)
        GridSearchCV(model, {"epsilon": [0.1, 0.2]}, cv=2, n_jobs=n_jobs).fit(X, y)
    assert len(budget.entries) == 3 + 2 * 2 + 1
    assert not hasattr(model, "_budgets") or model._budgets == ()
    cross_val_score(model, X, y, cv=3, n_jobs=n_jobs)
    assert len(budget.entries) == 8, "after the block, nothing is charged"


def test_cross_validation_beyond_the_budget_fails_for_every_further_fit(tmp_path):
    X, y = make(NUMBERS, 200)
    with Budget(0.5) as budget, pytest.warns(FitFailedWarning, match="does not cover DiPriMeRegressor"):
        scores = cross_val_score(made(ESTIMATORS[NUMBERS], NUMBERS, {}, 0.25), X, y, cv=4)
    assert np.isnan(scores).tolist() == [False, False, True, True]
    assert len(budget.entries) == 2


def test_workers_cannot_charge_a_budget_in_memory():
    X, y = make(NUMBERS, 200)
    with Budget(5) as budget, pytest.raises(ValueError, match=r"(?s)in the memory of process .* Budget\.create"):
        cross_val_score(made(ESTIMATORS[NUMBERS], NUMBERS, {}), X, y, cv=3, n_jobs=2)
    assert budget.entries == ()


def test_threads_of_joblib_are_charged():
    X, y = make(NUMBERS, 200)
    model = made(ESTIMATORS[NUMBERS], NUMBERS, {}, 0.25)
    with Budget(5) as budget, joblib.parallel_config("threading"):
        cross_val_score(model, X, y, cv=3, n_jobs=2)
    assert len(budget.entries) == 3


@pytest.mark.parametrize("copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, copy.copy])
@pytest.mark.parametrize("fitted", [False, True])
def test_copies_made_under_a_budget_charge_it_for_ever(copied, fitted):
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
def test_fits_in_forks_are_charged_to_the_file_and_refused_by_memory(tmp_path):
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
def test_models_of_one_study_cannot_be_merged_and_models_of_different_people_can(kinds):
    X, y = make(NUMBERS, 200)
    parameters = {"n_rounds": 3} if kinds is BOOSTERS else {}
    model = made(kinds[NUMBERS], NUMBERS, parameters)
    with Budget(2, 1e-5) as north:
        a, b = clone(model).fit(X[:50], y[:50]), clone(model).fit(X[50:100], y[50:100])
    with Budget(1, 1e-5) as south:
        c = clone(model).fit(X[100:], y[100:])
    with pytest.raises(ValueError, match=f"study {north.study}, so they are about the same people"):
        merge([a, b])
    merged = merge([a, c, clone(model).fit(X, y)])
    assert merged.privacy_.total == 1
    assert merged.privacy_.studies == [north.study, south.study]
    with pytest.raises(ValueError, match="same people"):
        merge([merged, b])
    with Budget(1) as idle:
        merge([a, c])
        merged.predict(X)
    assert idle.entries == (), "post-processing costs nothing"


# -- where parts of a study meet ---------------------------------------------------------------------------------------


def test_a_score_is_charged_to_the_budgets_that_its_model_carries(tmp_path):
    X, y = make(NUMBERS, 200)
    with Budget.create(tmp_path / "study.budget", 1) as budget:
        model = pickle.loads(pickle.dumps(ESTIMATORS[NUMBERS](0.5, DOMAINS[NUMBERS]).fit(X, y)))
    merged = diprime.merge([model])
    for carrying in (model, merged):
        with pytest.raises(BudgetError, match="does not cover a score"):
            diprime.private_score(carrying, X, y, 5.0)
    diprime.private_score(model, X, y, 0.5)
    assert budget.spent == PrivacyLoss(Fraction(1))


def test_a_search_is_charged_to_the_budgets_that_its_estimator_carries():
    X, y = make(NUMBERS, 200)
    with Budget(1) as budget:
        carrying = pickle.loads(pickle.dumps(ESTIMATORS[NUMBERS](domain=DOMAINS[NUMBERS])))
    search = diprime.PrivateSearch(carrying, {"max_depth": [1, 2]}, epsilon=1).fit(X, y)
    assert search.privacy_.studies == [budget.study]
    with pytest.raises(BudgetError, match="does not cover"):
        diprime.private_score(search.best_estimator_, X, y, 0.1)
    assert budget.spent == PrivacyLoss(Fraction(1))


def test_a_ledger_names_a_study_only_if_the_model_was_charged_to_it():
    X, y = make(NUMBERS, 200)
    with Budget(3) as budget:
        domain = diprime.Domain.learn(X, y, 0.5, task="regression")
        inside = ESTIMATORS[NUMBERS](1.0, domain).fit(X, y)
    outside = [ESTIMATORS[NUMBERS](1.0, domain).fit(X, y) for _ in range(2)]
    assert (inside.privacy_.studies, outside[0].privacy_.studies) == ([budget.study], [])
    assert budget.spent == PrivacyLoss(Fraction(3, 2)), "the domain once"
    assert diprime.merge(outside).privacy_.total == Fraction(3, 2)
    with Budget(3) as other:
        ESTIMATORS[NUMBERS](1.0, domain).fit(X, y)
    assert other.spent == PrivacyLoss(Fraction(3, 2)), "it was learnt outside of this one"


@pytest.mark.parametrize("kind", ["learnt before", "open"])
def test_each_of_nested_budgets_counts_a_learnt_domain_once(kind):
    X, y = make(NUMBERS, 200)
    half, one = Fraction(1, 2), Fraction(1)
    with Budget(3) as outer:
        if kind == "open":
            domain = diprime.Domain({name: diprime.Numeric() for name in DOMAINS[NUMBERS].names}, diprime.Numeric())
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


def test_a_budget_that_does_not_cover_a_learnt_domain_refuses_before_data_are_read():
    """The outer budget has counted the domain and could go on; the inner one has not, and has no room for both."""
    X, y = make(NUMBERS, 200)
    with Budget(2) as outer:
        domain = diprime.Domain.learn(X, y, 0.5, task="regression")
        words = (
            r"does not cover .* with epsilon = 1, and its domain with epsilon = 0\.5: what is left is epsilon = 1\.25 "
        )
        with Budget(1.25) as inner, pytest.raises(BudgetError, match=words):
            ESTIMATORS[NUMBERS](1.0, domain).fit(None, y)
        assert inner.entries == ()
        ESTIMATORS[NUMBERS](1.0, domain).fit(X, y)
    assert outer.spent == PrivacyLoss(Fraction(3, 2))


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_a_block_that_is_left_while_data_are_read_pays_and_one_that_is_entered_covers_nothing_waived():
    X, y = make(NUMBERS, 200)
    left, entered = Budget(3), Budget(3)

    def leaving():
        left.__exit__(None, None, None)
        yield X, y

    def entering():
        entered.__enter__()
        yield X, y

    left.__enter__()
    model = ESTIMATORS[NUMBERS](1.0, DOMAINS[NUMBERS]).fit_batches(leaving())
    assert (left.spent, model.privacy_.studies) == (PrivacyLoss(Fraction(1)), [left.study])
    try:
        with pytest.raises(BudgetError, match="would not be private"):
            ESTIMATORS[NUMBERS](1.0, DOMAINS[NUMBERS], random_state=1).fit_batches(entering())
    finally:
        entered.__exit__(None, None, None)
    assert entered.spent == PrivacyLoss()
