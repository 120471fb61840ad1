"""Whole fits from outside: what they spend, what they warn of, and that the same bits give the same model."""

import itertools
import json
import math
import tracemalloc
import warnings
from fractions import Fraction

import numpy as np
import pytest

from diprime import Domain, Ledger, Numeric, PrivacyWarning
from diprime._util import resources
from diprime.forest import defaults
from diprime.forest.splitters import JointSplitter
from diprime.forest.train import train
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, ReleaseKind
from diprime.privacy.measures import PureEpsilon
from tests.paid import open_account
from tests.small_data import DOMAINS, METHODS, PAPER, TASKS, assert_same_forest, fit, make

EPSILONS = {
    1: Fraction(1),
    0.1: Fraction(1, 10),
    2.5: Fraction(5, 2),
    Fraction(1, 3): Fraction(1, 3),
    1e-3: Fraction(1, 1000),
    math.inf: math.inf,
}
SHAPES = {
    "auto": {},
    "explicit": {"n_estimators": 3, "max_depth": 3},
    "shares": {"n_estimators": 7, "max_depth": 2, "split_share": 0.3, "balance": 0.07},
    "depth": {"max_depth": 3},
    "trees": {"n_estimators": 2},
}


@pytest.fixture(scope="module")
def small():
    return {task: make(task, 80) for task in TASKS}


# -- the ledger -------------------------------------------------------------------------------------------------------


def assert_exact(ledger, epsilon):
    """Check that a ledger adds up to epsilon without rounding, and survives being written and read."""
    assert ledger.total == epsilon
    assert ledger.epsilon == epsilon
    assert sum((charge.epsilon * charge.n_releases for charge in ledger.charges), Fraction(0)) == epsilon
    assert all(charge.epsilon > 0 for charge in ledger.charges)
    if epsilon != math.inf:
        assert all(isinstance(charge.epsilon, Fraction) for charge in ledger.charges)
    assert ledger.is_private == (epsilon != math.inf)
    assert Ledger.from_json(ledger.to_json()) == ledger


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_ledger_adds_up_to_epsilon_exactly(small, method, task, shape):
    for (epsilon, exact), disjoint_rows in zip(EPSILONS.items(), itertools.cycle([True, False]), strict=False):
        model = fit(task, *small[task], epsilon=epsilon, method=method, disjoint_rows=disjoint_rows, **SHAPES[shape])
        assert_exact(model.privacy_, exact)
        leaves = [charge for charge in model.privacy_.charges if charge.description == "leaf sums"]
        assert [charge.n_releases for charge in leaves] == [1 if disjoint_rows else model.forest_.n_trees]


def window_levels(model):
    """Return the levels whose nodes' windows a model's ledger has charges of."""
    return [charge.level for charge in model.privacy_.charges if charge.kind == ReleaseKind.NODE_WINDOWS]


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize(("n_trees", "depth", "levels"), [(1, 13, [2, 4, 6, 8, 10]), (250, 5, [2]), (257, 5, [])])
def test_clipping_ranges_use_bounded_memory_for_any_number_of_nodes(small, monkeypatch, n_trees, depth, levels):
    """A table for each of the nodes of 250 trees at level four would take 130 MB, and several are made at a time."""
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", Fraction(1, 10**6))
    monkeypatch.setattr(resources, "TRAINING_BYTES", 0)  # memory that is checked for, and not kept
    tracemalloc.start()
    try:
        model = fit("regression", *small["regression"], n_estimators=n_trees, max_depth=depth, random_state=1)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert window_levels(model) == levels
    assert most < 300 << 20


def test_ledger_that_does_not_add_up_stops_the_fit(small, monkeypatch):
    def spends_more(engine, domain, settings, plan, account, *rest):
        account.pay(Charge(ReleaseKind.NOTHING, Mechanism.NONE, Bound(BoundKind.NONE), PureEpsilon(Fraction(1, 2))))
        return train(engine, domain, settings, plan, account, *rest)

    def spends_nothing(engine, domain, settings, plan, account, *rest):
        return train(engine, domain, settings, plan, open_account(settings.epsilon), *rest)

    monkeypatch.setattr("diprime.estimators.forest.train", spends_more)
    with pytest.raises(ValueError, match=r"epsilon = 1 .*already"):
        fit("classification", *small["classification"])
    monkeypatch.setattr("diprime.estimators.forest.train", spends_nothing)
    with pytest.raises(AssertionError, match=r"total, 0, .*epsilon, 1\."):
        fit("classification", *small["classification"])


def test_fit_that_costs_more_than_its_budget_charge_is_stopped(small, monkeypatch):
    monkeypatch.setattr("diprime.estimators.trees.PrivateTrees._loss", lambda *_: PureEpsilon(Fraction(1, 2)).loss(1))
    with pytest.raises(AssertionError, match=r"ledger's loss, .*charged, "):
        fit("classification", *small["classification"])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_published_accounting_is_not_private(small, method, task):
    with pytest.warns(PrivacyWarning, match="DiPriMe paper") as caught:
        ledger = fit(task, *small[task], method=method, estimators=PAPER).privacy_
    assert len(caught) == 1
    assert ledger.total == 1
    assert not ledger.is_private
    assert "NOT PRIVATE" in str(ledger)
    assert "'paper'" in repr(ledger)
    assert json.loads(ledger.to_json())["private"] is False


@pytest.mark.parametrize("random_state", [0, np.random.RandomState(0)])
def test_seed_voids_the_guarantee_with_a_warning(small, random_state):
    with pytest.warns(PrivacyWarning, match="random_state is set") as caught:
        ledger = fit("regression", *small["regression"], random_state=random_state).privacy_
    assert [w.filename for w in caught] == [fit.__code__.co_filename]  # the line that calls fit
    assert len(ledger.voided_by) == 1
    assert not ledger.is_private
    assert "NOT PRIVATE: random_state is set" in str(ledger)
    assert json.loads(ledger.to_json())["private"] is False


def test_inferred_domain_voids_the_guarantee_with_a_warning(small):
    with pytest.warns(PrivacyWarning, match=r"domain .*inferred") as caught:
        ledger = fit("classification", *small["classification"], domain="infer").privacy_
    assert [w.filename for w in caught] == [fit.__code__.co_filename]
    assert not ledger.is_private
    assert "NOT PRIVATE: The domain was inferred" in str(ledger)


@pytest.mark.parametrize("task", TASKS)
def test_private_fit_does_not_warn(small, task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(task, *small[task])
        model.predict(small[task][0])
    assert model.privacy_.is_private
    assert model.privacy_.voided_by == ()
    assert "NOT PRIVATE" not in str(model.privacy_)


# -- the same bits, the same model ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    return {task: make(task, 13_001) for task in TASKS}  # three threads have rows enough to share nodes


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_model_for_any_number_of_threads(many, method, task, disjoint_rows, monkeypatch):
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", 100)
    settings = {"method": method, "disjoint_rows": disjoint_rows, "n_estimators": 3, "max_depth": 4}
    one = fit(task, *many[task], random_state=7, **settings)
    assert window_levels(one) == ([2] if method == "joint" and task == "regression" else [])
    X = many[task][0]
    for n_jobs in (1, 2, 3):
        other = fit(task, *many[task], random_state=7, n_jobs=n_jobs, **settings)
        assert_same_forest(one, other)
        assert other.privacy_ == one.privacy_
        assert np.array_equal(one.predict(X), other.predict(X))
        assert np.array_equal(one.apply(X), other.apply(X))
    different = fit(task, *many[task], random_state=8, **settings)
    assert not np.array_equal(one.forest_.counts, different.forest_.counts)


@pytest.mark.parametrize("task", TASKS)
def test_without_a_seed_no_two_models_are_alike(small, task):
    a, b = (fit(task, *small[task], n_estimators=3, max_depth=3) for _ in range(2))
    assert not np.array_equal(a.forest_.counts, b.forest_.counts)


# -- what a fit does with its rows ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_impurity_of_a_fit_has_the_linear_tail_of_its_released_counts(small, monkeypatch):
    asked = []
    original = JointSplitter.level

    def spy(splitter, *arguments):
        asked.append(splitter.linear_tail)
        return original(splitter, *arguments)

    monkeypatch.setattr(JointSplitter, "level", spy)
    monkeypatch.setattr(defaults, "linear_tail", lambda counts, epsilon: Fraction(len(counts) + 4 * epsilon, 64))
    for task, expected in (("classification", Fraction(7, 64)), ("regression", Fraction(5, 64))):
        asked.clear()
        fit(task, *small[task], n_estimators=1, max_depth=2, random_state=0)
        assert asked == [expected] * 2


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("epsilon", [1, math.inf])
@pytest.mark.parametrize(("task", "missing"), [("regression", np.nan), ("classification", None), ("classification", 7)])
def test_rows_without_a_target_do_not_affect_the_model(task, missing, epsilon):
    X, y = make(task, 500)
    kept = np.arange(500) % 3 != 0
    holed = np.where(kept, y.astype(object), missing)
    settings = {"epsilon": epsilon, "n_estimators": 1, "random_state": 0}
    a = fit(task, X, holed, **settings)
    b = fit(task, X[kept], y[kept], **settings)
    assert_same_forest(a, b)
    if epsilon == math.inf:
        assert a.forest_.counts.sum() == kept.sum()


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_targets_out_of_range_count_as_the_nearest_in_range():
    X, y = make("regression", 500)
    domain = Domain(dict(DOMAINS["regression"].features), Numeric(2, 6))
    settings = {"domain": domain, "random_state": 0}
    a = fit("regression", X, np.where(y > 9, np.inf, y), **settings)
    b = fit("regression", X, np.clip(y, 2, 6), **settings)
    assert_same_forest(a, b)
    assert a.predict(X).min() >= 2
    assert a.predict(X).max() <= 6
