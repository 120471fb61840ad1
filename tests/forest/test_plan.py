"""Plans: what every release gets is decided before a row is read, and adds up to epsilon exactly."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest

from diprime.forest import defaults, plan
from diprime.forest.plan import BudgetPlan, TreePlan, TreeShape
from diprime.forest.splitters import make_splitter
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, ReleaseKind
from diprime.privacy.measures import PureEpsilon, share_of
from diprime.privacy.randomness import RandomSource
from tests.forest.made_fits import AUTO, DOMAINS, METHODS, POLICIES, TASKS, settings_of
from tests.paid import open_account, so_far

EPSILONS = [Fraction(1), Fraction(1, 1000), Fraction(1, 3), Fraction(8), math.inf]
SIZES = {"given": {}, "depth": {"n_estimators": None}, "trees": {"max_depth": None}, "auto": AUTO}
MANY = 10**7  # records, so that several levels have windows


def exact(epsilon):
    return isinstance(epsilon, Fraction) or epsilon == math.inf


def planned(method, task, counts=(MANY, MANY), **changes):
    """Return all plans of a fit, with released counts that the test has chosen."""
    settings, domain = settings_of(method, **changes), DOMAINS[task]
    budget = BudgetPlan.make(settings, domain)
    shape = TreeShape.make(settings, domain, counts if budget.counts is not None else ())
    splitter = make_splitter(domain, settings, shape.linear_tail, RandomSource(0))
    return budget, shape, TreePlan.make(budget, settings, domain, shape, splitter)


def charges_of(budget, trees):
    """Return the charges of both plans, in the order in which they are paid."""
    before = [charge for charge in (budget.counts, budget.window) if charge is not None]
    return [*before, *trees.node_windows.values(), *(c for level in trees.levels for c in level), trees.leaves]


def a_charge(epsilon, times=1):
    return Charge(ReleaseKind.NOTHING, Mechanism.NONE, Bound(BoundKind.NONE), PureEpsilon(epsilon), times)


# -- sums --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accounting", POLICIES)
@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_plans_add_up_to_epsilon_exactly(method, task, disjoint_rows, accounting):
    for epsilon, sizes, share in itertools.product(EPSILONS, SIZES.values(), [None, Fraction(1, 3)]):
        changes = {"disjoint_rows": disjoint_rows, "policy": POLICIES[accounting], "split_share": share, **sizes}
        budget, shape, trees = planned(method, task, epsilon=epsilon, **changes)
        charges = charges_of(budget, trees)
        assert budget.epsilon == sum((charge.total for charge in charges), Fraction(0)) == epsilon
        assert all(exact(charge.epsilon) and charge.epsilon > 0 and charge.n_releases >= 1 for charge in charges)
        assert trees.budget == budget.trees
        assert (trees.n_rounds, trees.n_trees) == ((1, shape.n_trees) if disjoint_rows else (shape.n_trees, 1))
        assert trees.depth == shape.depth


def test_budget_that_does_not_add_up_is_refused():
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
        with pytest.raises(AssertionError, match=r"the fit .*budget is 1\."):
            BudgetPlan(Fraction(1), counts, window, trees)


@pytest.mark.parametrize("what", ["node_windows", "levels", "leaves"])
@pytest.mark.parametrize("task", ["number", "binary"])
def test_trees_that_do_not_add_up_are_refused(task, what):
    _, _, trees = planned("joint", task, max_depth=5)
    more = a_charge(Fraction(1, 10**30))
    changed = {
        "node_windows": {**trees.node_windows, 4: more},
        "levels": [*trees.levels[:-1], (*trees.levels[-1], more)],
        "leaves": replace(trees.leaves, n_releases=2),
    }
    with pytest.raises(AssertionError, match=rf"the trees .*budget is {trees.budget}\."):
        replace(trees, **{what: changed[what]})
    with pytest.raises(AssertionError, match=r"the trees .*budget is "):
        replace(trees, budget=trees.budget - Fraction(1, 10**30))


# -- the budget --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_counts_are_released_where_anything_depends_on_them(method, task, sizes):
    for epsilon in EPSILONS:
        budget = BudgetPlan.make(settings_of(method, epsilon=epsilon, **SIZES[sizes]), DOMAINS[task])
        if method == "joint" or sizes != "given":
            assert budget.counts.description == ("row count" if task == "number" else "class counts")
            assert budget.counts.total == share_of(epsilon, defaults.COUNTS_SHARE)
        else:
            assert budget.counts is None


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_joint_splits_of_numbers_have_a_window_where_there_is_noise(method, task):
    for epsilon in EPSILONS:
        budget = BudgetPlan.make(settings_of(method, epsilon=epsilon), DOMAINS[task])
        if method == "joint" and task == "number" and epsilon != math.inf:
            assert budget.window.description == "target clipping range"
            assert (budget.window.epsilon, budget.window.n_releases) == (epsilon * defaults.QUANTILE_SHARE, 2)
        else:
            assert budget.window is None


# -- the shape ---------------------------------------------------------------------------------------------------------


def test_tree_shape_follows_from_settings_or_defaults(monkeypatch):
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
        shape = TreeShape.make(settings_of("joint", **sizes), domain, counts)
        assert (shape.n_trees, shape.depth) == expected
        assert (shape.linear_tail, shape.n_rows) == (Fraction(1, 64), 6), "noise may take counts below zero"
        assert asked == questions
    asked.clear()
    TreeShape.make(settings_of("diprime", **AUTO), DOMAINS["number"], [6])
    assert asked[0] == ("diprime", 6, epsilon, {"classification": False})


# -- the trees ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disjoint_rows", [True, False])
def test_trees_on_the_same_records_share_the_cost_of_clipping_ranges(monkeypatch, disjoint_rows):
    asked = []
    monkeypatch.setattr(defaults, "window_levels", lambda *public: asked.append(public) or [1, 3])
    budget, _, trees = planned("joint", "number", counts=[1234], disjoint_rows=disjoint_rows, max_depth=4)
    assert asked == [(1234, Fraction(3), 3, 4)]
    n_rounds = 1 if disjoint_rows else 3
    assert [(level, c.description, c.epsilon, c.n_releases) for level, c in trees.node_windows.items()] == [
        (level, f"target clipping ranges of level {level}", 3 * defaults.QUANTILE_SHARE / n_rounds, 2 * n_rounds)
        for level in (1, 3)
    ]
    share = 1 - defaults.COUNTS_SHARE - (2 + 4) * defaults.QUANTILE_SHARE
    assert trees.leaves.total == 3 * share * (1 - defaults.MAX_SPLIT_SHARE)
    assert sum(charge.total for level in trees.levels for charge in level) == 3 * share * defaults.MAX_SPLIT_SHARE
    assert budget.trees == 3 * (share + 4 * defaults.QUANTILE_SHARE)


@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_levels_have_their_weights_of_the_share_for_splits(method, disjoint_rows):
    budget, _, trees = planned(method, "classes", disjoint_rows=disjoint_rows, split_share=Fraction(3, 5), max_depth=3)
    weights = [4, 5, 6] if method == "joint" else [1, 1, 1]
    share = Fraction(3, 5) if method != "random" else 0
    assert [sum(charge.total for charge in level) for level in trees.levels] == [
        budget.trees * share * Fraction(w, sum(weights)) for w in weights
    ]
    assert trees.leaves.total == budget.trees * (1 - share)
    n_rounds = 1 if disjoint_rows else 3
    assert trees.leaves.n_releases == n_rounds
    assert {charge.n_releases % n_rounds for level in trees.levels for charge in level} <= {0}


@pytest.mark.parametrize(
    ("disjoint_rows", "words"),
    [(True, "Each record is in one tree, and in one node per level"), (False, "Every tree uses all records")],
)
def test_charges_of_trees_state_their_composition(disjoint_rows, words):
    for method, task in itertools.product(METHODS, TASKS):
        budget, _, trees = planned(method, task, disjoint_rows=disjoint_rows, max_depth=5)
        for charge in charges_of(replace(budget, counts=None, window=None, epsilon=budget.trees), trees):
            assert words in charge.composition


# -- payment -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_plan_is_paid_in_order_with_matching_receipts(method, task, disjoint_rows):
    budget, _, trees = planned(method, task, disjoint_rows=disjoint_rows, max_depth=5)
    account = open_account(budget.trees)
    receipts = trees.pay(account)
    ledger = so_far(account)
    assert [*ledger.charges] == charges_of(replace(budget, counts=None, window=None, epsilon=budget.trees), trees)
    assert ledger.total == budget.trees
    assert {level: receipt.charge for level, receipt in receipts.node_windows.items()} == trees.node_windows
    assert [[r.charge for r in level] for level in receipts.levels] == [list(level) for level in trees.levels]
    assert receipts.leaves.charge == trees.leaves
    every = [*receipts.node_windows.values(), *(r for level in receipts.levels for r in level), receipts.leaves]
    assert all(receipt.unused == receipt.charge.n_releases for receipt in every), "nothing is released by planning"


def test_plan_beyond_the_budget_is_refused():
    _, _, trees = planned("diprime", "binary")
    with pytest.raises(ValueError, match="not cover leaf sums"):
        trees.pay(open_account(trees.budget - Fraction(1, 10**30)))


def test_plans_are_refused_by_their_sum(monkeypatch):
    """Without them, a plan that spends twice as much on counts would be made."""
    double = plan.counts_charge
    monkeypatch.setattr(plan, "counts_charge", lambda layout, epsilon: double(layout, 2 * epsilon))
    with pytest.raises(AssertionError, match=r"the fit .*153/50, .*budget is 3\."):
        BudgetPlan.make(settings_of("joint"), DOMAINS["binary"])
    monkeypatch.setattr(plan, "check_sum", lambda *_: None)
    assert BudgetPlan.make(settings_of("joint"), DOMAINS["binary"]).counts.total == Fraction(3, 25)


@pytest.mark.parametrize("task", TASKS)
def test_trees_of_a_random_forest_without_noise_do_not_become_shallow_if_there_are_many(task):
    of_forest = {"epsilon": math.inf, "disjoint_rows": False, "max_depth": None}
    shapes = [planned("joint", task, (2000, 2000), n_estimators=n, **of_forest)[1] for n in (1, 30, None)]
    assert [(shape.n_trees, shape.depth) for shape in shapes] == [(1, 12), (30, 12), (30, 12)]
    parts = planned("joint", task, (2000, 2000), n_estimators=30, **{**of_forest, "disjoint_rows": True})[1]
    assert parts.depth < 6
