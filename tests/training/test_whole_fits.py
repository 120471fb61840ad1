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
from diprime._util.threads import Threads
from diprime.engines.assignment import IndependentAssignment
from diprime.privacy.charges import Charge
from diprime.privacy.measures import PureEpsilon, share_of
from diprime.privacy.randomness import RandomSource
from diprime.training import defaults
from diprime.training.grow import Grower
from diprime.training.leaves import leaf_charge
from diprime.training.plan import TreeReceipts
from diprime.training.policy import STRICT
from diprime.training.settings import Settings
from diprime.training.splitting.factory import make_splitter
from diprime.training.splitting.joint import JointSplitter
from diprime.training.train import train
from diprime.training.windows import QUANTILE_RANGE, node_windows_charge
from tests.encoded_rows import drawn_trees, rooted_engine
from tests.paid import pay
from tests.small_data import DOMAINS, METHODS, TASKS, assert_same_forest, fit, forest_arrays, make
from tests.spies import Releases

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

BEFORE_TREES = ("row count", "class counts", "target window")


@pytest.fixture(scope="module")
def small():
    return {task: make(task, 80) for task in TASKS}


# -- the ledger -------------------------------------------------------------------------------------------------------


def expected_before_trees(task, method, epsilon, shape):
    """Return what should be charged before the trees: what, epsilon and times."""
    expected = []
    if shape in ("auto", "depth", "trees") or method == "joint":
        what = "class counts" if task == "classification" else "row count"
        expected.append((what, share_of(epsilon, defaults.COUNTS_SHARE), 1))
    if method == "joint" and task == "regression" and epsilon != math.inf:
        expected.append(("target window", share_of(epsilon, defaults.QUANTILE_SHARE), 2))
    return expected


def assert_exact(ledger, epsilon):
    """Check that a ledger adds up to epsilon without rounding, and survives being written and read."""
    assert ledger.total == epsilon
    assert ledger.epsilon == epsilon
    assert sum((charge.epsilon * charge.times for charge in ledger.charges), Fraction(0)) == epsilon
    assert all(charge.epsilon > 0 for charge in ledger.charges)
    if epsilon != math.inf:
        assert all(isinstance(charge.epsilon, Fraction) for charge in ledger.charges)
    assert ledger.is_private == (epsilon != math.inf)
    assert Ledger.from_json(ledger.to_json()) == ledger


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_the_ledger_adds_up_to_epsilon_exactly(small, method, task, partition, shape):
    for epsilon, exact in EPSILONS.items():
        model = fit(task, *small[task], epsilon=epsilon, method=method, partition=partition, **SHAPES[shape])
        charges = model.privacy_.charges
        assert_exact(model.privacy_, exact)
        before = [(charge.what, charge.epsilon, charge.times) for charge in charges if charge.what in BEFORE_TREES]
        expected = expected_before_trees(task, method, exact, shape)
        assert before == expected
        assert [charge.what for charge in charges[: len(expected)]] == [what for what, *_ in expected]
        leaves = [charge for charge in charges if charge.what == "leaf sums"]
        assert [charge.times for charge in leaves] == [1 if partition else model.forest_.n_trees]


def window_levels(model):
    """Return the levels whose nodes' windows a model's ledger has charges of."""
    return [charge.level for charge in model.privacy_.charges if charge.kind == "target windows"]


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("n_trees", [1, 3, 7])
@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction(8)])
def test_windows_of_nodes_are_charged_for_what_is_drawn_and_the_total_is_epsilon(
    monkeypatch, epsilon, partition, n_trees
):
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", Fraction(1, 100))
    releases = Releases(monkeypatch)
    rounds, together = (1, n_trees) if partition else (n_trees, 1)
    shape = {"n_estimators": n_trees, "max_depth": 6, "partition": partition}
    model = fit("regression", *make("regression", 2000), epsilon=epsilon, random_state=0, **shape)
    ledger = model.privacy_
    assert ledger.total == sum(charge.epsilon * charge.times for charge in ledger.charges) == epsilon
    assert all(isinstance(charge.epsilon, Fraction) for charge in ledger.charges)
    of_quantile = epsilon / 50
    assert [(c.what, c.epsilon, c.times) for c in ledger.charges if "window" in c.what] == [
        ("target window", of_quantile, 2),
        ("target windows of level 2", of_quantile / rounds, 2 * rounds),
        ("target windows of level 4", of_quantile / rounds, 2 * rounds),
    ]
    of_splits = sum(c.total for c in ledger.charges if c.what.startswith("splits"))
    assert of_splits == epsilon * Fraction(50 - 1 - 3 * 2, 50) * defaults.split_share("joint")
    # For all records once, then for each round and level: the epsilon of the charge, for two quantiles of each node.
    of_windows = [s for s in releases.selections if s.charge.kind in ("target window", "target windows")]
    expected = [of_quantile, *[of_quantile / rounds] * 2 * rounds]
    made_for = [(paid.epsilon, paid.cost_range, paid.n_candidates) for paid in of_windows]
    assert made_for == [(each, QUANTILE_RANGE, 4096) for each in expected]
    assert [paid.n_picks for paid in of_windows] == [2, *[2 * together * 4, 2 * together * 16] * rounds]


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("epsilon", [1, math.inf])
@pytest.mark.parametrize(("task", "method"), [("classification", "joint"), *itertools.product(TASKS, METHODS[1:])])
def test_other_fits_have_no_windows(small, monkeypatch, task, method, epsilon):
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", Fraction(1, 10**6))
    releases = Releases(monkeypatch)
    model = fit(task, *small[task], method=method, epsilon=epsilon, n_estimators=2, max_depth=5, random_state=0)
    assert not [charge for charge in model.privacy_.charges if "window" in charge.what]
    assert not [paid for paid in releases.selections if paid.cost_range == QUANTILE_RANGE]


def test_without_noise_numbers_are_seen_as_they_are(small, monkeypatch):
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", Fraction(1, 10**6))
    releases = Releases(monkeypatch)
    model = fit("regression", *small["regression"], epsilon=math.inf, n_estimators=2, max_depth=5)
    assert not [charge for charge in model.privacy_.charges if "window" in charge.what]
    assert not [paid for paid in releases.selections if paid.cost_range == QUANTILE_RANGE]


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize(("n_trees", "depth", "levels"), [(1, 13, [2, 4, 6, 8, 10]), (250, 5, [2]), (257, 5, [])])
def test_tables_of_windows_have_bounded_memory_however_many_nodes_there_are(small, monkeypatch, n_trees, depth, levels):
    """A table for each of the nodes of 250 trees at level four would take 130 MB, and several are made at a time."""
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", Fraction(1, 10**6))
    tracemalloc.start()
    try:
        model = fit("regression", *small["regression"], n_estimators=n_trees, max_depth=depth, random_state=1)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert window_levels(model) == levels
    assert most < 300 << 20


def test_a_ledger_that_does_not_add_up_stops_the_fit(small, monkeypatch):
    def spends_more(engine, domain, settings, plan, ledger, *rest):
        ledger.pay(Charge("a look", "none", "", PureEpsilon(Fraction(1, 2))))
        return train(engine, domain, settings, plan, ledger, *rest)

    def spends_nothing(engine, domain, settings, plan, ledger, *rest):
        return train(engine, domain, settings, plan, Ledger(settings.epsilon), *rest)

    monkeypatch.setattr("diprime.estimators.forest.train", spends_more)
    with pytest.raises(ValueError, match=r"The budget of epsilon = 1 does not cover"):
        fit("classification", *small["classification"])
    monkeypatch.setattr("diprime.estimators.forest.train", spends_nothing)
    with pytest.raises(AssertionError, match="The ledger's total, 0, is not epsilon, 1"):
        fit("classification", *small["classification"])


def test_a_fit_that_costs_more_than_the_study_was_charged_is_stopped(small, monkeypatch):
    monkeypatch.setattr("diprime.estimators.trees.PrivateTrees._loss", lambda *_: PureEpsilon(Fraction(1, 2)).loss(1))
    with pytest.raises(AssertionError, match="is not what the study was charged"):
        fit("classification", *small["classification"])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_the_paper_s_accounting_is_marked_not_private(small, method, task):
    with pytest.warns(PrivacyWarning, match="accounting='paper' counts less than is spent") as caught:
        ledger = fit(task, *small[task], method=method, accounting="paper").privacy_
    assert len(caught) == 1
    assert ledger.total == 1
    assert not ledger.is_private
    assert "NOT PRIVATE" in str(ledger)
    assert "'paper'" in repr(ledger)
    assert json.loads(ledger.to_json())["private"] is False


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("method", "k"), [("diprime", 1), ("diprime-exp", 3), ("diprime-flip", 3)])
def test_the_paper_s_accounting_tells_what_it_truly_costs(small, method, k, task):
    with pytest.warns(PrivacyWarning):
        model = fit(
            task, *small[task], method=method, accounting="paper", epsilon=8, n_estimators=2, max_depth=2,
            max_features=k, split_share=0.5,
        )  # fmt: skip
    ledger = model.privacy_
    medians = [c for c in ledger.charges if c.what.startswith("medians")]
    choices = [c for c in ledger.charges if c.what.startswith("choices")]
    # K medians are charged as one, and the range of a choice among them is overstated eightfold.
    assert sum(c.strict_total for c in medians) == k * sum(c.total for c in medians)
    assert sum(c.total for c in choices) == (2 if k > 1 else 0)
    assert float(sum(c.strict_total for c in choices)) == pytest.approx(0.25 if k > 1 else 0, rel=0.01)
    assert ledger.charges[-1].strict_total == (math.inf if task == "regression" else 4)
    assert "strictly" in str(ledger)
    assert f"Strict accounting: epsilon = {'inf' if task == 'regression' else ''}" in str(ledger)
    assert Ledger.from_json(ledger.to_json()) == ledger


@pytest.mark.parametrize("random_state", [0, np.random.RandomState(0)])
def test_a_seed_is_a_waiver_and_warns(small, random_state):
    with pytest.warns(PrivacyWarning, match="random_state was set") as caught:
        ledger = fit("regression", *small["regression"], random_state=random_state).privacy_
    assert [w.filename for w in caught] == [fit.__code__.co_filename]  # the line that calls fit
    assert len(ledger.waivers) == 1
    assert not ledger.is_private
    assert "NOT PRIVATE: random_state was set" in str(ledger)
    assert json.loads(ledger.to_json())["private"] is False


def test_an_inferred_domain_is_a_waiver_and_warns(small):
    with pytest.warns(PrivacyWarning, match="the domain was inferred from the data") as caught:
        ledger = fit("classification", *small["classification"], domain="infer").privacy_
    assert [w.filename for w in caught] == [fit.__code__.co_filename]
    assert not ledger.is_private
    assert "NOT PRIVATE: the domain was inferred" in str(ledger)


def test_every_waiver_has_its_own_warning(small):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit("regression", *small["regression"], domain="infer", random_state=1, accounting="paper")
    assert [w.category for w in caught] == [PrivacyWarning] * 3
    assert len(model.privacy_.waivers) == 2


@pytest.mark.parametrize("task", TASKS)
def test_nothing_warns_otherwise(small, task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(task, *small[task])
        model.predict(small[task][0])
    assert model.privacy_.is_private
    assert model.privacy_.waivers == []
    assert "NOT PRIVATE" not in str(model.privacy_)


def test_a_warning_turned_into_an_error_leaves_nothing_fitted(small):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivacyWarning):
            fit("regression", *small["regression"], random_state=0)


# -- the same bits, the same model ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    return {task: make(task, 13_001) for task in TASKS}  # three threads have rows enough to share nodes


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_model_for_any_number_of_threads(many, method, task, partition, monkeypatch):
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", 100)
    settings = {"method": method, "partition": partition, "n_estimators": 3, "max_depth": 4}
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


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_same_seed_same_model_with_more_rows_than_one_stream_deals():
    X, y = make("classification", 140_000)
    models = [fit("classification", X, y, random_state=3, n_jobs=n, n_estimators=4) for n in (1, 2)]
    assert_same_forest(*models)


@pytest.mark.parametrize("task", TASKS)
def test_without_a_seed_no_two_models_are_alike(small, task):
    a, b = (fit(task, *small[task], n_estimators=3, max_depth=3) for _ in range(2))
    assert not np.array_equal(a.forest_.counts, b.forest_.counts)


def grown(codes, target, trees, task, method, n_threads):
    """Grow three trees on rows that have their trees already, all other bits from one seed."""
    domain = DOMAINS[task]
    n_features = 1 if method in ("diprime", "random") else 2
    settings = Settings(Fraction(1), method, 3, 4, n_features, None, None, True, STRICT, False)
    source, whole = RandomSource(0), domain.layout.whole_range
    window_levels = [2, 3] if method == "joint" and task == "regression" else []
    with Threads(n_threads) as threads:
        engine = rooted_engine(codes, target, trees, 3, domain.layout, threads)
        splitter = make_splitter(domain, settings, Fraction(1, 16), source)
        receipts = TreeReceipts(
            {level: pay(node_windows_charge(domain.layout, level, Fraction(1), 1, "")) for level in window_levels},
            [[pay(charge) for charge in splitter.charges(level, Fraction(1, 8), 1, "")] for level in range(4)],
            pay(leaf_charge(domain.layout, Fraction(1), 1, "", STRICT)),
        )
        grower = Grower(engine, splitter, domain, domain.layout, source, threads, whole, Fraction(1, 300))
        structure = grower.grow(3, receipts)
        return structure.features, structure.masks, engine.node_sums(whole)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_shuffled_rows_with_their_coins_give_the_same_trees_and_leaf_sums(many, method, task):
    X, y = many[task]
    domain = DOMAINS[task]
    codes, target = domain.encode(X), domain.encode_target(y)
    with Threads(1) as threads:
        trees = drawn_trees(IndependentAssignment(3), len(codes), RandomSource(5), threads)
    first = grown(codes, target, trees, task, method, 1)
    units = 1 if task == "classification" else 4096
    assert first[2].sum() == units * len(X)
    order = np.random.default_rng(1).permutation(len(X))
    for n_threads in (1, 2):
        again = grown(codes[order], target[order], trees[order], task, method, n_threads)
        assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    elsewhere = grown(codes[order], target[order], trees, task, method, 1)  # rows that lost their coins
    assert not np.array_equal(first[2], elsewhere[2])


# -- what a fit does with its rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["joint", "diprime-exp"])
@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_at_infinite_epsilon_leaves_hold_all_rows_or_a_bag_of_them(many, task, partition, method):
    shape = {"n_estimators": 3, "max_depth": 3, "max_features": 2}
    model = fit(task, *many[task], epsilon=math.inf, method=method, partition=partition, **shape)
    sizes = model.forest_.counts.reshape(3, 8).sum(axis=1)
    n = len(many[task][0])
    if partition:
        assert sizes.sum() == n
        assert sizes.min() > n / 4  # assigned by fair coins
    elif method == "joint":  # bags of 63.2 %: ten standard deviations either way
        assert np.abs(sizes - 0.632 * n).max() < 10 * math.sqrt(0.632 * 0.368 * n)
        assert len({tuple(counts) for counts in model.forest_.counts.reshape(3, 8)}) == 3
    else:
        assert sizes.tolist() == [n, n, n]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_trees_on_parts_see_all_of_epsilon_and_trees_on_all_rows_a_share(small, task, method):
    by_partition = {
        partition: {
            charge.what: charge.epsilon
            for charge in fit(
                task, *small[task], method=method, n_estimators=4, max_depth=2, partition=partition
            ).privacy_.charges
        }
        for partition in (True, False)
    }
    assert by_partition[True].keys() == by_partition[False].keys()
    for what, epsilon in by_partition[True].items():
        assert epsilon == (1 if what in BEFORE_TREES else 4) * by_partition[False][what]


def test_levels_have_their_weights_of_the_share_for_splits(small):
    shape = {"n_estimators": 1, "max_depth": 3, "split_share": 0.6, "epsilon": 2}
    for task, method, left in [
        ("classification", "joint", Fraction(49, 50)),
        ("regression", "joint", Fraction(47, 50)),
        ("classification", "diprime", Fraction(1)),
    ]:
        charges = {
            charge.what: charge.epsilon for charge in fit(task, *small[task], method=method, **shape).privacy_.charges
        }
        weights = [4, 5, 6] if method == "joint" else [1, 1, 1]
        levels = [epsilon for what, epsilon in charges.items() if "level" in what]
        assert levels == [2 * left * Fraction(3, 5) * Fraction(w, sum(weights)) for w in weights]
        assert charges["leaf sums"] == 2 * left * Fraction(2, 5)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_the_impurity_of_a_fit_has_the_linear_tail_of_its_released_counts(small, monkeypatch):
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
def test_rows_without_a_target_are_as_if_they_were_not_there(task, missing, epsilon):
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


def test_the_forest_has_the_shape_that_was_asked_for(small):
    model = fit("classification", *small["classification"], n_estimators=5, max_depth=3)
    shapes = {name: array.shape for name, array in forest_arrays(model).items()}
    assert shapes == {"depths": (5,), "features": (35,), "masks": (35, 32), "values": (40, 3), "counts": (40,)}
