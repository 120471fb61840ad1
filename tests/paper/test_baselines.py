"""The baselines: what scikit-learn asks of them, what their ledgers say, and what their trees do."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from diprime import Categorical, Domain, Ledger, Numeric, PrivacyWarning
from diprime.domain.encoding import TargetLayout
from diprime.forest.candidates import MAX_UNITS, MIN_UNITS
from diprime.paper import DPDecisionForestClassifier, DPRandomForestClassifier, DPRandomForestRegressor
from diprime.paper.multiway import (
    LEAF,
    MAX_ROWS,
    BaselineRows,
    Branches,
    MultiwayTree,
    PublishedDecisionForest,
    PublishedRandomForest,
    PublishedRegression,
    Recipe,
    explained,
    grow,
    prune,
    split_costs,
)
from diprime.privacy.charges import UnpaidReleaseError
from diprime.privacy.mechanisms.laplace import laplace_variance
from diprime.privacy.mechanisms.selection import exponential_pmf, weight_table
from diprime.privacy.randomness import RandomSource
from tests.docstrings import read_sections
from tests.guarantees.leaks import Secrets, keys_of_streams, leaks
from tests.paid import open_account, so_far
from tests.small_data import DOMAINS, make
from tests.spies import Draws, Releases

not_private = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
ESTIMATORS = (DPRandomForestClassifier, DPRandomForestRegressor, DPDecisionForestClassifier)
CLASSIFIERS = (DPRandomForestClassifier, DPDecisionForestClassifier)
ACCOUNTINGS = ("strict", "paper")


def task_of(estimator):
    return "regression" if estimator is DPRandomForestRegressor else "classification"


def fit(estimator, n=500, **parameters):
    task = task_of(estimator)
    return estimator(**{"domain": DOMAINS[task], **parameters}).fit(*make(task, n))


# -- scikit-learn's checks --------------------------------------------------------------------------------------------


@not_private
@parametrize_with_checks([estimator(1000, "infer", random_state=0) for estimator in ESTIMATORS])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.audit  # test_scikit_learn_checks passes the same checks with little noise
@not_private
@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scikit_learn_checks_with_default_parameters(estimator, accounting):
    model = estimator(domain="infer", accounting=accounting, random_state=0)
    results = check_estimator(model, on_fail=None, on_skip=None)
    assert {result["check_name"] for result in results if result["status"] == "failed"} == set()
    assert len(results) > 45


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_documentation_names_every_attribute(estimator):
    documented = set(re.findall(r"^(\w+_) : ", read_sections(estimator)["Attributes"], flags=re.MULTILINE))
    fitted = {name for name in vars(fit(estimator)) if name.endswith("_")}
    assert fitted == documented - {"feature_names_in_"}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("epsilon", 0, r"^epsilon .*positive .*infinity .*got 0\.$"),
        ("n_estimators", "auto", r"^n_estimators .*integer .*1 to 65535, got 'auto'\.$"),
        ("n_estimators", 0, r"^n_estimators .*integer .*1 to 65535, got 0\.$"),
        ("max_depth", 1.5, r"^max_depth .*integer .*0 to 20, got 1\.5\.$"),
        ("n_bins", 1, r"^n_bins .*integer .*2 to 255, got 1\.$"),
        ("accounting", "loose", r"^accounting .*'strict', 'paper', got 'loose'\.$"),
        ("pruning", "yes", r"^pruning .*True, False, got 'yes'\.$"),
    ],
)
def test_bad_parameters_are_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        fit(DPDecisionForestClassifier, **{name: value})


def test_trees_that_would_not_fit_in_memory_are_refused():
    domain = Domain({name: Categorical(range(200)) for name in "abc"}, Categorical([0, 1]))
    model = DPRandomForestClassifier(domain=domain, max_depth=3)
    with pytest.raises(ValueError, match=r"8,242,408 leaves, .*1,048,576\. .*max_depth"):
        model.fit([[0, 0, 0]], [1])
    assert len(model.set_params(max_depth=2).fit([[0, 0, 0]], [1]).predict([[1, 2, 3]])) == 1


# -- the ledger -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [TargetLayout.of_classes(3), TargetLayout.of_number(4096)], ids=["class", "number"])
def test_splits_are_calibrated_to_the_ranges_that_are_proven(layout):
    """Of docs/privacy.md, section 10: U + 2, and for the published DP-RF, whose costs are from 0 to U, 2U."""
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(50)):
        for recipe_type, range_of in (
            (Recipe, lambda units: units + 2),
            (PublishedRandomForest, lambda units: 2 * units),
        ):
            recipe = recipe_type(epsilon, 3, 2, 5, layout)
            receipts = recipe.pay(open_account(epsilon))
            assert receipts.splits.charge.sensitivity.n == range_of(recipe.units)
            table = recipe._selection(receipts.splits, RandomSource(0).streams(1)).table
            assert np.array_equal(table, weight_table(recipe.per_query, range_of(recipe.units), 5))


@given(
    epsilon=st.fractions(Fraction(1, 100), 100),
    n_trees=st.integers(1, 20),
    depth=st.integers(0, 10),
    recipe=st.sampled_from([Recipe, PublishedRandomForest, PublishedRegression, PublishedDecisionForest]),
)
@settings(deadline=None, max_examples=50)
def test_recipe_charges_exactly_epsilon(epsilon, n_trees, depth, recipe):
    layout = TargetLayout.of_number(4096) if recipe is PublishedRegression else TargetLayout.of_classes(3)
    account = open_account(epsilon)
    recipe(epsilon, n_trees, depth, 5, layout).pay(account)
    ledger = so_far(account)
    assert ledger.total == epsilon
    assert (ledger.strict_total == epsilon) == (recipe in (Recipe, PublishedRandomForest))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_strict_fit_is_private(estimator):
    ledger = fit(estimator, epsilon=0.7, max_depth=2).privacy_
    assert ledger.is_private
    assert ledger.total == ledger.strict_total == Fraction(7, 10)
    assert [(c.description, c.n_releases, c.epsilon) for c in ledger.charges] == [
        ("sums of nodes", 30, Fraction(7, 500)),
        ("splits", 20, Fraction(7, 500)),
    ]


def test_true_cost_of_the_published_regression():
    with pytest.warns(PrivacyWarning, match="DiPriMe paper"):
        ledger = fit(DPRandomForestRegressor, epsilon=8, max_depth=3, accounting="paper").privacy_
    sums, splits, aside = ledger.charges
    assert (sums.total, sums.strict_total) == (4, math.inf)
    # The exponent is a tree's whole epsilon over 8, for errors that change by 1 at most, and by a little for rounding.
    assert splits.total == 3
    assert splits.strict_total == 3 * (1 + Fraction(4, 256))
    assert (aside.total, aside.strict_total) == (1, 0)
    assert not ledger.is_private
    assert "Strict accounting: epsilon = inf." in str(ledger)
    assert Ledger.from_json(ledger.to_json()) == ledger


def test_true_cost_of_the_published_decision_forest():
    with pytest.warns(PrivacyWarning, match="DiPriMe paper"):
        ledger = fit(DPDecisionForestClassifier, accounting="paper").privacy_
    assert [charge.strict_total for charge in ledger.charges] == [math.inf, math.inf]
    assert ledger.total == 1
    assert not ledger.is_private


def test_published_classifier_is_private():
    ledger = fit(DPRandomForestClassifier, accounting="paper").privacy_  # a warning would be an error
    assert ledger.is_private
    assert ledger.total == ledger.strict_total == 1


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_nothing_private_stays_on_a_fitted_model(estimator, monkeypatch):
    keys = keys_of_streams(monkeypatch)
    n = 7919
    task = task_of(estimator)
    X, y = make(task, n)
    model = estimator(domain=DOMAINS[task], n_estimators=2).fit(X, y)
    numbers = {"n": n, "least": np.nanmin(X[:, 0]), "most": np.nanmax(X[:, 0]), "size": np.nanmax(X[:, 1])}
    assert leaks(model, Secrets(numbers, {n}, keys, np.zeros(0))) == []
    assert keys


# -- what the proofs rely on -------------------------------------------------------------------------------------------


@given(
    sums=st.lists(st.lists(st.integers(0, 2**24), min_size=1, max_size=4), min_size=1, max_size=3),
    units=st.sampled_from([32, 256, 1024]),
    of_number=st.booleans(),
)
@settings(deadline=None)
def test_explained_errors_are_exact(sums, units, of_number):
    if of_number:
        layout = TargetLayout.of_number(4096)
        rows = [(4096 * sum(s) - min(s) * 4095, min(s) * 4095) for s in sums]
    else:
        rows = [(*s, *[0] * (4 - len(s))) for s in sums]
        layout = TargetLayout.of_classes(4)
    expected = []
    for row in rows:
        n = sum(row) // layout.units
        squares = sum(Fraction(value, layout.units) ** 2 for value in row)
        expected.append(math.floor(units * squares / (2 * n)) if n else 0)
    assert explained(np.array(rows, dtype=np.int64), layout, units).tolist() == expected


@pytest.mark.parametrize("units", [MIN_UNITS, MAX_UNITS])
@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 3), Fraction(1, 2), 1 - Fraction(1, MAX_ROWS), Fraction(1)])
def test_no_sum_wraps_around_at_the_largest_number_of_rows(share, units):
    for layout in (TargetLayout.of_classes(2), TargetLayout.of_number(4096)):
        whole = MAX_ROWS * layout.units
        first = math.floor(share * whole)
        squares = Fraction(first**2 + (whole - first) ** 2, layout.units**2)
        found = explained(np.array([[first, whole - first]], dtype=np.int64), layout, units)
        assert found.tolist() == [math.floor(units * squares / (2 * MAX_ROWS))]


def test_rows_beyond_the_limit_are_refused():
    targets = np.broadcast_to(np.int32(0), (MAX_ROWS + 1,))
    BaselineRows(np.zeros((1, 0), dtype=np.uint8), targets[1:], TargetLayout.of_classes(2))
    with pytest.raises(ValueError, match=r"rows .*67,108,864 "):
        BaselineRows(np.zeros((1, 0), dtype=np.uint8), targets, TargetLayout.of_classes(2))


@st.composite
def neighbours(draw, of_number):
    """Draw the branches and targets of a few rows; the last is the record that is added."""
    n_branches = np.array(draw(st.lists(st.integers(2, 4), min_size=2, max_size=3)))
    n = draw(st.integers(1, 12))
    branches = [draw(st.lists(st.integers(0, int(b) - 1), min_size=n, max_size=n)) for b in n_branches]
    targets = st.sampled_from([0, 1, 2000, 4095, 4096]) if of_number else st.integers(0, 2)
    target = draw(st.lists(targets, min_size=n, max_size=n))
    layout = TargetLayout.of_number(4096) if of_number else TargetLayout.of_classes(3)
    return n_branches, BaselineRows(np.array(branches, dtype=np.uint8), np.array(target, dtype=np.int32), layout)


def opposed_features(of_number):
    """Return rows that two features both separate by target; the last is with its own kind by one of them only."""
    one = 4096 if of_number else 1
    branches = np.array([[0] * 4 + [1] * 4 + [0], [1] * 4 + [0] * 4 + [0]], dtype=np.uint8)
    layout = TargetLayout.of_number(4096) if of_number else TargetLayout.of_classes(3)
    return np.array([2, 2]), BaselineRows(branches, np.array([0] * 4 + [one] * 5, dtype=np.int32), layout)


def pmf_of_splits(recipe, records, n_branches):
    node = np.zeros(len(records.target), dtype=np.int64)
    sums = records.sums(node, 1)
    costs = split_costs(records, node, n_branches, recipe, sums, sums)
    selection = recipe._selection(recipe.pay(open_account(math.inf)).splits, RandomSource(0).streams(1))
    return exponential_pmf(costs[0].tolist(), selection.table)


def is_covered(recipe_type, epsilon, drawn):
    """Return whether the charge of splits covers what the last record changes in their probabilities."""
    n_branches, records = drawn
    recipe = recipe_type(epsilon, 1, 2, len(n_branches), records.layout)
    charge = recipe.pay(open_account(epsilon)).splits.charge
    limit = math.exp((charge.strict_measure or charge.measure).epsilon) * (1 + 1e-9)
    more = pmf_of_splits(recipe, records, n_branches)
    less = pmf_of_splits(recipe, records.only(np.arange(len(records.target)) < len(records.target) - 1), n_branches)
    return all(p <= limit * q and q <= limit * p for p, q in zip(more, less, strict=True))


@pytest.mark.parametrize(
    ("recipe_type", "of_number"),
    [(Recipe, False), (Recipe, True), (PublishedRandomForest, False), (PublishedRegression, True)],
)
def test_adding_a_record_changes_no_probability_of_a_split_by_more_than_its_cost(recipe_type, of_number):
    @given(neighbours(of_number), st.sampled_from([Fraction(1, 2), Fraction(3), Fraction(40)]))
    @example(opposed_features(of_number), Fraction(40))
    @settings(deadline=None, max_examples=150)
    def check(drawn, epsilon):
        assert is_covered(recipe_type, epsilon, drawn)

    check()


@pytest.mark.parametrize("of_number", [False, True])
def test_weights_made_for_twice_the_epsilon_are_found(of_number, monkeypatch):
    monkeypatch.setattr(
        "diprime.privacy.mechanisms.selection.weight_table", lambda epsilon, *rest: weight_table(2 * epsilon, *rest)
    )
    assert not is_covered(Recipe, Fraction(40), opposed_features(of_number))


@not_private
@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_stream_is_drawn_from_twice(estimator, accounting, monkeypatch):
    draws, releases = Draws(monkeypatch), Releases(monkeypatch)
    fit(estimator, epsilon=100, max_depth=2, n_estimators=2, accounting=accounting)
    draws.assert_each_bit_is_used_once()
    n_picks = sum(paid.n_picks for paid in releases.selections)
    n_rows = sum(len(event.values) for event in releases.noise)
    assert n_picks > 4, "more than one node of a level"
    assert len(draws.spans) >= n_picks + n_rows, "each pick, and each node with noise, has a stream of its own"


def test_trees_without_receipts_are_not_grown():
    records = BaselineRows(
        np.zeros((2, 9), dtype=np.uint8), np.arange(9, dtype=np.int32) % 2, TargetLayout.of_classes(2)
    )
    recipe = Recipe(Fraction(10**6), 2, 1, 2, records.layout)
    receipts = recipe.pay(open_account(Fraction(10**6)))
    for _ in range(2):
        grow(records, np.array([2, 2]), recipe, receipts, RandomSource(0))
    assert (receipts.sums.unused, receipts.splits.unused) == (0, 0)
    with pytest.raises(UnpaidReleaseError, match=r"sums of nodes: .*0 of 4 charged"):
        grow(records, np.array([2, 2]), recipe, receipts, RandomSource(0))


@pytest.mark.parametrize("of_number", [False, True])
def test_sums_are_released_with_the_noise_that_is_charged(of_number):
    layout = TargetLayout.of_number(4096) if of_number else TargetLayout.of_classes(2)
    recipe = Recipe(Fraction(3), 2, 1, 4, layout)
    sums = np.zeros((20_000, 2), dtype=np.int64)
    noise = recipe.release(sums, recipe.pay(open_account(Fraction(3))).sums, RandomSource(0))
    assert recipe.per_query == Fraction(1, 2)
    assert np.var(noise) == pytest.approx(laplace_variance(Fraction(1, 2), layout.units), rel=0.06)


def test_strict_growth_depends_on_released_values_only(monkeypatch):
    # With releases and picks held fixed, other records must give the same tree.
    monkeypatch.setattr(Recipe, "release", lambda self, sums, *_: np.arange(1, 2 * len(sums) + 1).reshape(-1, 2) % 7)
    monkeypatch.setattr(Recipe, "select", lambda self, costs, *_: costs.argmin(axis=1))
    layout = TargetLayout.of_classes(2)
    rng = np.random.default_rng(0)
    trees = []
    for n in (0, 1, 500):
        branches, target = rng.integers(0, 3, (3, n)).astype(np.uint8), rng.integers(0, 2, n).astype(np.int32)
        recipe = Recipe(Fraction(1), 1, 2, 3, layout)
        recipe.costs = lambda scores, *_: 2 - np.arange(scores.size).reshape(scores.shape) % 3
        receipts = recipe.pay(open_account(Fraction(1)))
        trees.append(
            grow(BaselineRows(branches, target, layout), np.array([3, 3, 3]), recipe, receipts, RandomSource(0))
        )
    assert {2, 1, LEAF} <= set(trees[0].features.tolist()), "or nothing is known of splits"
    for tree in trees[1:]:
        for name in ("features", "first_children", "shares", "sizes"):
            assert np.array_equal(getattr(tree, name), getattr(trees[0], name))


# -- branches ---------------------------------------------------------------------------------------------------------


def test_numbers_fall_in_bins_of_equal_width():
    domain = Domain({"x": Numeric(-3, 7)}, Numeric(0, 1))
    X = np.random.default_rng(0).uniform(-3, 7, (1000, 1))
    branches = Branches(domain, 5)
    expected = np.digitize(X[:, 0], [-1, 1, 3, 5])
    assert branches.n_branches.tolist() == [6]
    assert np.array_equal(branches.read(domain.reader(X))[0], expected)
    assert branches.read(domain.reader([[-100], [100], [math.nan]]))[0].tolist() == [0, 4, 5]


def test_other_scales_keep_their_cells_together():
    domain = Domain(
        {"log": Numeric(1, 10**5, scale="log"), "few": Numeric(edges=[1, 2]), "many": Numeric(edges=range(9))},
        Numeric(0, 1),
    )
    branches = Branches(domain, 5)
    assert branches.n_branches.tolist() == [6, 4, 6]
    rows = [[5, 0, -1], [50, 1, 1], [500, 2, 3], [5000, 9, 5], [50_000, 9, 9]]
    assert branches.read(domain.reader(rows)).tolist() == [[0, 1, 2, 3, 4], [0, 1, 2, 2, 2], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("n_levels", [2, 254, 300])
def test_every_level_has_a_branch_and_so_have_other_levels_and_missing_values(n_levels):
    domain = Domain({"x": Categorical(range(n_levels))}, Numeric(0, 1))
    branches = Branches(domain, 5)
    n = min(n_levels, 254)
    assert branches.n_branches.tolist() == [n + 2]
    rows = [[i] for i in range(n)] + [[-1], [None]]
    assert branches.read(domain.reader(rows))[0].tolist() == list(range(n + 2))


# -- trees ------------------------------------------------------------------------------------------------------------


def best_tree(records, n_branches, rows, undeclared_features, depth, parent):
    """Grow the tree without noise, one node at a time: (share of class one, feature, children)."""
    target = records.target[rows]
    share = target.mean() if len(target) else parent
    if depth == 0 or share in (0, 1) or not len(target):
        return share, None, []

    def error(j):
        parts = [target[records.branches[j, rows] == b] for b in range(n_branches[j])]
        return sum(len(part) * part.var() for part in parts if len(part))

    best = min(undeclared_features, key=error)
    children = [
        best_tree(
            records, n_branches, rows[records.branches[best, rows] == b], undeclared_features - {best}, depth - 1, share
        )
        for b in range(n_branches[best])
    ]
    return share, best, children


def as_nested(tree, n_branches, node=0):
    feature = tree.features[node]
    share = tree.shares[node, 1]
    if feature == LEAF:
        return share, None, []
    first = tree.first_children[node]
    return share, feature, [as_nested(tree, n_branches, first + b) for b in range(n_branches[feature])]


@pytest.mark.parametrize("recipe_type", [Recipe, PublishedRandomForest, PublishedDecisionForest])
def test_without_noise_trees_split_where_the_least_error_is_left(recipe_type):
    rng = np.random.default_rng(1)
    n_branches = np.array([3, 5, 2, 4])
    branches = np.stack([rng.integers(0, b, 4000) for b in n_branches]).astype(np.uint8)
    p = 1 / (1 + np.exp(-(branches[0] - 1.0) - 0.7 * branches[1] + 0.9 * branches[2] * branches[3]))
    target = (rng.random(4000) < p).astype(np.int32)
    records = BaselineRows(branches, target, TargetLayout.of_classes(2))
    recipe = recipe_type(math.inf, 1, 3, 4, records.layout)
    tree = grow(records, n_branches, recipe, recipe.pay(open_account(math.inf)), RandomSource(0))
    expected = best_tree(records, n_branches, np.arange(4000), {0, 1, 2, 3}, 3, 0.5)
    compare(as_nested(tree, n_branches), expected)


def compare(found, expected):
    assert found[0] == pytest.approx(expected[0])
    assert found[1] == expected[1]
    for a, b in zip(found[2], expected[2], strict=True):
        compare(a, b)


@not_private
@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_without_noise_a_regression_tree_holds_the_means_of_its_leaves(accounting):
    domain = DOMAINS["regression"]
    X, y = make("regression", 2000)
    model = DPRandomForestRegressor(math.inf, domain, n_estimators=1, max_depth=2, accounting=accounting).fit(X, y)
    leaves = model.apply(X)[:, 0]
    rounded = np.rint(y / 10 * 4096) / 4096 * 10
    for leaf in np.unique(leaves):
        assert model.predict(X[leaves == leaf]) == pytest.approx(rounded[leaves == leaf].mean())
    assert model.forest_.features[0] == 0  # "level", which decides the target


def test_roots_of_a_decision_forest_differ_while_they_can():
    model = fit(DPDecisionForestClassifier, epsilon=1000, n_estimators=10, max_depth=1, pruning=False)
    roots = model.forest_.features[model.forest_.roots].tolist()
    assert sorted(roots[:4]) == sorted(roots[4:8]) == [0, 1, 2, 3]
    assert roots[8] != roots[9]
    # without the rule, all would be the one that decides the target
    model = fit(DPRandomForestClassifier, epsilon=1000, n_estimators=10, max_depth=1)
    assert set(model.forest_.features[model.forest_.roots]) == {0}


def test_pruning_undoes_splits_that_do_not_purify_except_those_of_roots():
    n_branches = np.array([2, 2])
    pure, half = [1.0, 0.0], [0.5, 0.5]

    def tree(below):
        features = np.array([0, 1, 1, *[LEAF] * 4], dtype=np.int32)
        first_children = np.array([1, 3, 5, 0, 0, 0, 0])
        sizes = np.array([100, 50, 50, 25, 25, 25, 25], dtype=float)
        return MultiwayTree(features, first_children, np.array([half, half, half, *below]), sizes)

    assert prune(tree([pure, pure[::-1], half, half]), n_branches).features.tolist() == [0, 1, *[LEAF] * 5]
    assert prune(tree([half] * 4), n_branches).features.tolist() == [0, *[LEAF] * 6]
    assert prune(tree([pure, pure[::-1]] * 2), n_branches).features.tolist() == [0, 1, 1, *[LEAF] * 4]


@not_private
@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_tree_without_splits_predicts_the_majority(estimator, accounting):
    X, y = make("classification", 3000)
    model = estimator(20, DOMAINS["classification"], max_depth=0, accounting=accounting).fit(X, y)
    classes, counts = np.unique(y, return_counts=True)
    assert set(model.predict(X)) == {classes[counts.argmax()]}
    assert model.privacy_.total == 20


@not_private
def test_strict_regression_stays_in_the_range_and_the_published_one_does_not():
    for accounting in ACCOUNTINGS:
        model = fit(DPRandomForestRegressor, 300, epsilon=0.5, accounting=accounting, random_state=0)
        values = model.forest_.values
        inside = values.min() >= 0 and values.max() <= 10
        assert inside == (accounting == "strict")


@not_private
@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_value_is_an_error(estimator, accounting):
    task = task_of(estimator)
    odd = [[math.nan] * 4, [math.inf, -math.inf, -1, 99], [0, 0, 0, 0]]
    targets = [["a", "b", "z"], [None, None, None]] if task == "classification" else [[1, 2, 1e300], [math.nan] * 3]
    for y in targets:
        model = estimator(domain=DOMAINS[task], accounting=accounting).fit(odd, y)
        assert len(model.predict(odd)) == 3
        assert np.isfinite(model.forest_.values).all()


def score(estimator, **parameters):
    X, y = make(task_of(estimator), 2000, seed=1)
    return fit(estimator, 20_000, random_state=0, **parameters).score(X, y)


@not_private
@pytest.mark.parametrize(
    ("estimator", "accounting", "least"),
    [
        (DPRandomForestClassifier, "strict", 0.74),  # five bins allow 0.77
        (DPRandomForestRegressor, "strict", 0.86),  # and 0.87
        (DPRandomForestRegressor, "paper", 0.86),
        (DPDecisionForestClassifier, "strict", 0.74),
        (DPDecisionForestClassifier, "paper", 0.74),
    ],
)
def test_moderate_epsilon_finds_most_of_the_signal(estimator, accounting, least):
    assert score(estimator, epsilon=20, max_depth=2, accounting=accounting) > least
