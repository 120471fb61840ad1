"""Plans: what every release gets is decided before a row is read, and adds up to epsilon exactly."""

import itertools
import math
from dataclasses import FrozenInstanceError, fields, replace
from fractions import Fraction

import pytest

from diprime.privacy.charges import Charge
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import PureEpsilon, share_of
from diprime.privacy.randomness import RandomSource
from diprime.training import defaults, plan
from diprime.training.plan import BudgetPlan, ForestShape, TreePlan
from diprime.training.splitting.factory import make_splitter
from tests.training.made_fits import AUTO, DOMAINS, METHODS, POLICIES, TASKS, settings_of

EPSILONS = [Fraction(1), Fraction(1, 1000), Fraction(1, 3), Fraction(8), math.inf]
SIZES = {"given": {}, "depth": {"n_estimators": None}, "trees": {"max_depth": None}, "auto": AUTO}
MANY = 10**7  # records, so that several levels have windows


def exact(epsilon):
    return isinstance(epsilon, Fraction) or epsilon == math.inf


def planned(method, task, counts=(MANY, MANY), **changes):
    """Return all plans of a fit, with released counts that the test has chosen."""
    settings, domain = settings_of(method, **changes), DOMAINS[task]
    budget = BudgetPlan.make(settings, domain)
    shape = ForestShape.make(settings, domain, counts if budget.counts is not None else ())
    splitter = make_splitter(domain, settings, shape.linear_tail, RandomSource(0))
    return budget, shape, TreePlan.make(budget, settings, domain, shape, splitter)


def charges_of(budget, trees):
    """Return the charges of both plans, in the order in which they are paid."""
    before = [charge for charge in (budget.counts, budget.window) if charge is not None]
    return [*before, *trees.node_windows.values(), *(c for level in trees.levels for c in level), trees.leaves]


def a_charge(epsilon, times=1):
    return Charge("a look", "none", "", PureEpsilon(epsilon), times)


# -- sums --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accounting", POLICIES)
@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_plans_add_up_to_epsilon_exactly(method, task, partition, accounting):
    for epsilon, sizes, share in itertools.product(EPSILONS, SIZES.values(), [None, Fraction(1, 3)]):
        changes = {"partition": partition, "policy": POLICIES[accounting], "split_share": share, **sizes}
        budget, shape, trees = planned(method, task, epsilon=epsilon, **changes)
        charges = charges_of(budget, trees)
        assert budget.epsilon == sum((charge.total for charge in charges), Fraction(0)) == epsilon
        assert all(exact(charge.epsilon) and charge.epsilon > 0 and charge.times >= 1 for charge in charges)
        assert trees.budget == budget.trees
        assert (trees.n_rounds, trees.n_trees) == ((1, shape.n_trees) if partition else (shape.n_trees, 1))
        assert trees.depth == shape.depth


def test_a_budget_that_does_not_add_up_is_refused():
    half, quarter = Fraction(1, 2), Fraction(1, 4)
    BudgetPlan(Fraction(1), a_charge(half), a_charge(quarter / 2, 2), quarter)
    BudgetPlan(Fraction(1), None, None, Fraction(1))
    for counts, window, trees in [
        (a_charge(half), a_charge(quarter, 2), quarter),
        (a_charge(half), a_charge(quarter), quarter / 2),
        (a_charge(half), None, quarter),
        (None, None, half),
        (None, None, math.inf),
        (None, None, Fraction(1) + Fraction(1, 10**30)),
    ]:
        with pytest.raises(AssertionError, match=r"The plan of the fit spends .*, and its budget is 1\."):
            BudgetPlan(Fraction(1), counts, window, trees)


@pytest.mark.parametrize("what", ["node_windows", "levels", "leaves"])
@pytest.mark.parametrize("task", ["number", "binary"])
def test_trees_that_do_not_add_up_are_refused(task, what):
    _, _, trees = planned("joint", task, max_depth=5)
    more = a_charge(Fraction(1, 10**30))
    changed = {
        "node_windows": {**trees.node_windows, 4: more},
        "levels": [*trees.levels[:-1], (*trees.levels[-1], more)],
        "leaves": replace(trees.leaves, times=2),
    }
    with pytest.raises(AssertionError, match=f"The plan of the trees spends .*, and its budget is {trees.budget}"):
        replace(trees, **{what: changed[what]})
    with pytest.raises(AssertionError, match="The plan of the trees spends"):
        replace(trees, budget=trees.budget - Fraction(1, 10**30))


@pytest.mark.parametrize("of", [0, 1, 2])
def test_plans_cannot_be_changed(of):
    made = planned("joint", "number")[of]
    for field in fields(made):
        with pytest.raises(FrozenInstanceError):
            setattr(made, field.name, getattr(made, field.name))


# -- the budget --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_counts_are_released_where_anything_depends_on_them(method, task, sizes):
    for epsilon in EPSILONS:
        budget = BudgetPlan.make(settings_of(method, epsilon=epsilon, **SIZES[sizes]), DOMAINS[task])
        if method == "joint" or sizes != "given":
            assert budget.counts.what == ("row count" if task == "number" else "class counts")
            assert budget.counts.total == share_of(epsilon, defaults.COUNTS_SHARE)
        else:
            assert budget.counts is None


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_joint_splits_of_numbers_have_a_window_where_there_is_noise(method, task):
    for epsilon in EPSILONS:
        budget = BudgetPlan.make(settings_of(method, epsilon=epsilon), DOMAINS[task])
        if method == "joint" and task == "number" and epsilon != math.inf:
            assert budget.window.what == "target window"
            assert (budget.window.epsilon, budget.window.times) == (epsilon * defaults.QUANTILE_SHARE, 2)
        else:
            assert budget.window is None


# -- the shape ---------------------------------------------------------------------------------------------------------


def test_the_shape_is_that_of_the_settings_and_otherwise_of_the_rules(monkeypatch):
    asked = []
    monkeypatch.setattr(defaults, "n_estimators", lambda *a, **k: asked.append((*a, k)) or 7)
    monkeypatch.setattr(defaults, "max_depth", lambda *a: asked.append(a) or 5)
    monkeypatch.setattr(defaults, "linear_tail", lambda *a: asked.append(a) or Fraction(1, 64))
    domain, epsilon, counts = DOMAINS["classes"], Fraction(3), [5, -1, 2, 0]
    tail = (counts, epsilon)
    for sizes, expected, questions in [
        ({}, (3, 2), [tail]),
        ({"n_estimators": None}, (7, 2), [("joint", 6, epsilon, {"classification": True}), tail]),
        ({"max_depth": None}, (3, 5), [(6, epsilon, 3, 4), tail]),
        (AUTO, (7, 5), [("joint", 6, epsilon, {"classification": True}), (6, epsilon, 7, 4), tail]),
    ]:
        asked.clear()
        shape = ForestShape.make(settings_of("joint", **sizes), domain, counts)
        assert (shape.n_trees, shape.depth) == expected
        assert (shape.linear_tail, shape.n_rows) == (Fraction(1, 64), 6), "noise may take counts below zero"
        assert asked == questions
    asked.clear()
    ForestShape.make(settings_of("diprime", **AUTO), DOMAINS["number"], [6])
    assert asked[0] == ("diprime", 6, epsilon, {"classification": False})


def test_without_counts_the_shape_is_that_of_the_settings():
    assert ForestShape.make(settings_of("diprime"), DOMAINS["binary"], []) == ForestShape(3, 2, Fraction(0), 0)


# -- the trees ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", [True, False])
def test_levels_with_windows_are_the_rule_s_and_trees_that_see_the_same_records_share_their_cost(
    monkeypatch, partition
):
    asked = []
    monkeypatch.setattr(defaults, "window_levels", lambda *public: asked.append(public) or [1, 3])
    budget, _, trees = planned("joint", "number", counts=[1234], partition=partition, max_depth=4)
    assert asked == [(1234, Fraction(3), 3, 4)]
    n_rounds = 1 if partition else 3
    assert [(level, c.what, c.epsilon, c.times) for level, c in trees.node_windows.items()] == [
        (level, f"target windows of level {level}", 3 * defaults.QUANTILE_SHARE / n_rounds, 2 * n_rounds)
        for level in (1, 3)
    ]
    share = 1 - defaults.COUNTS_SHARE - (2 + 4) * defaults.QUANTILE_SHARE
    assert trees.leaves.total == 3 * share * (1 - defaults.split_share("joint"))
    assert sum(charge.total for level in trees.levels for charge in level) == 3 * share * defaults.split_share("joint")
    assert budget.trees == 3 * (share + 4 * defaults.QUANTILE_SHARE)


def test_no_other_trees_have_windows(monkeypatch):
    monkeypatch.setattr(defaults, "window_levels", lambda *_: [1, 3])
    others = [*itertools.product(METHODS[1:], TASKS), ("joint", "binary"), ("joint", "classes")]
    for (method, task), partition in itertools.product(others, [True, False]):
        assert planned(method, task, partition=partition, max_depth=4)[2].node_windows == {}
    assert planned("joint", "number", epsilon=math.inf, max_depth=4)[2].node_windows == {}


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_levels_have_their_weights_of_the_share_for_splits(method, partition):
    budget, _, trees = planned(method, "classes", partition=partition, split_share=Fraction(3, 5), max_depth=3)
    weights = [4, 5, 6] if method == "joint" else [1, 1, 1]
    share = Fraction(3, 5) if method != "random" else 0
    assert [sum(charge.total for charge in level) for level in trees.levels] == [
        budget.trees * share * Fraction(w, sum(weights)) for w in weights
    ]
    assert trees.leaves.total == budget.trees * (1 - share)
    n_rounds = 1 if partition else 3
    assert trees.leaves.times == n_rounds
    assert {charge.times % n_rounds for level in trees.levels for charge in level} <= {0}


def test_the_share_for_splits_is_the_method_s_own_unless_it_is_set():
    for method in METHODS[:-1]:
        budget, _, trees = planned(method, "binary")
        assert trees.leaves.total == budget.trees * (1 - defaults.split_share(method))


@pytest.mark.parametrize("k", [2, 4])
def test_each_of_k_medians_pays_for_itself(k):
    budget, _, trees = planned("diprime-exp", "binary", max_features=k, max_depth=5)
    for medians, choices in trees.levels:
        assert k * medians.epsilon + choices.epsilon == budget.trees / 2 / 5
        assert (medians.times, choices.times) == (k, 1)


@pytest.mark.parametrize(
    ("partition", "words"),
    [(True, "trees, and nodes of a level, hold disjoint records"), (False, "every tree sees all records")],
)
def test_every_charge_of_trees_says_why_it_counts_as_often_as_it_does(partition, words):
    for method, task in itertools.product(METHODS, TASKS):
        budget, _, trees = planned(method, task, partition=partition, max_depth=5)
        for charge in charges_of(replace(budget, counts=None, window=None, epsilon=budget.trees), trees):
            assert words in charge.composition


# -- payment -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_all_of_a_plan_is_paid_in_its_order_and_every_receipt_is_where_its_charge_was(method, task, partition):
    budget, _, trees = planned(method, task, partition=partition, max_depth=5)
    ledger = Ledger(budget.trees)
    receipts = trees.pay(ledger)
    assert ledger.charges == charges_of(replace(budget, counts=None, window=None, epsilon=budget.trees), trees)
    assert ledger.total == budget.trees
    assert {level: receipt.charge for level, receipt in receipts.node_windows.items()} == trees.node_windows
    assert [[r.charge for r in level] for level in receipts.levels] == [list(level) for level in trees.levels]
    assert receipts.leaves.charge == trees.leaves
    every = [*receipts.node_windows.values(), *(r for level in receipts.levels for r in level), receipts.leaves]
    assert all(receipt.unused == receipt.charge.times for receipt in every), "nothing is released by planning"


def test_a_plan_beyond_the_ledger_s_budget_is_not_paid():
    _, _, trees = planned("diprime", "binary")
    with pytest.raises(ValueError, match="does not cover leaf sums"):
        trees.pay(Ledger(trees.budget - Fraction(1, 10**30)))


def test_checks_of_sums_are_what_refuses(monkeypatch):
    """Without them, a plan that spends twice as much on counts would be made."""
    double = plan.counts_charge
    monkeypatch.setattr(plan, "counts_charge", lambda layout, epsilon: double(layout, 2 * epsilon))
    with pytest.raises(AssertionError, match="The plan of the fit spends 153/50, and its budget is 3"):
        BudgetPlan.make(settings_of("joint"), DOMAINS["binary"])
    monkeypatch.setattr(plan, "check_sum", lambda *_: None)
    assert BudgetPlan.make(settings_of("joint"), DOMAINS["binary"]).counts.total == Fraction(3, 25)


@pytest.mark.parametrize("task", TASKS)
def test_trees_of_a_random_forest_without_noise_do_not_become_shallow_if_there_are_many(task):
    of_forest = {"epsilon": math.inf, "partition": False, "max_depth": None}
    shapes = [planned("joint", task, (2000, 2000), n_estimators=n, **of_forest)[1] for n in (1, 30, None)]
    assert [(shape.n_trees, shape.depth) for shape in shapes] == [(1, 12), (30, 12), (30, 12)]
    parts = planned("joint", task, (2000, 2000), n_estimators=30, **{**of_forest, "partition": True})[1]
    assert parts.depth < 6
