"""Growth and training: one loop for all, its bits used once, its spending what the ledger says."""

import math
from fractions import Fraction

import numpy as np
import pytest

from diprime import growth, histograms, leaves, splitters
from diprime._util.threads import Threads
from diprime.domain import Categorical, Domain, Numeric
from diprime.domain.target_layout import TargetLayout, Windows
from diprime.engines.assignment import assign_trees
from diprime.engines.local import LocalHistograms
from diprime.model.regions import Regions
from diprime.privacy.ledger import Ledger
from diprime.privacy.mechanisms.selection import ABSENT_COST
from diprime.privacy.randomness import RandomSource
from diprime.training import counts as overview
from diprime.training import defaults, windows
from diprime.training import train as training
from diprime.training.grow import charge_levels, grow
from diprime.training.splitting.candidates import CategoricalCandidates
from diprime.training.splitting.joint import JointSplitter
from diprime.training.splitting.median import MedianSplitter
from diprime.training.train import Settings, train
from diprime.training.windows import WindowPlan
from tests.encoded_rows import EncodedRows, local_histograms

METHODS = ["joint", "diprime", "diprime-exp", "diprime-flip", "random"]
FEATURES = {
    "x": Numeric(0, 1),
    "z": Numeric(edges=[1, 2, 3]),
    "c": Categorical(["a", "b", "c"]),
    "many": Categorical(range(50)),
}
TASKS = {
    "number": (Domain(FEATURES, Numeric(0, 1)), TargetLayout.of_number(4096)),
    "binary": (Domain(FEATURES, Categorical([0, 1])), TargetLayout.of_classes(2)),
    "classes": (Domain(FEATURES, Categorical(range(4))), TargetLayout.of_classes(4)),
}
ONE = Threads(1)
NO_WINDOWS = WindowPlan({}, Fraction(0))
SOME_WINDOWS = WindowPlan({1: Fraction(1), 3: Fraction(2)}, Fraction(1, 30))
PLANS = {"number-windows": ("number", SOME_WINDOWS), **{task: (task, NO_WINDOWS) for task in TASKS}}


def random_rows(task, n, seed=0):
    domain, layout = TASKS[task]
    rng = np.random.default_rng(seed)
    columns = []
    for j in range(domain.n_features):
        missing = [254, 255] if domain.is_categorical[j] else [255]
        columns.append(rng.choice([*range(domain.n_codes[j]), *missing], size=n))
    high = layout.units + 1 if layout.units > 1 else layout.n_outputs
    target = rng.integers(-1, high, size=n).astype(np.int32)
    return np.stack(columns, axis=1).astype(np.uint8), target


def make_splitter(method, task, k=None):
    domain, layout = TASKS[task]
    families = CategoricalCandidates.draw(domain, RandomSource(1))
    if method == "joint":
        return JointSplitter(domain, layout, families, k or 3, Fraction(1, 20), Fraction(3, 32))
    rule = "permute-and-flip" if method == "diprime-flip" else "exponential"
    k = k or (1 if method in ("diprime", "random") else 3)
    return MedianSplitter(domain, layout, families, k, rule, looks_at_data=method != "random")


def ends_of(several):
    """Return the ends of windows as numbers that can be compared."""
    return tuple(zip(several.low.tolist(), several.high.tolist(), strict=True))


def grown(method, task, n_rows, n_threads=1, depth=4, n_trees=3, order=None, plan=NO_WINDOWS):
    """Grow trees with fixed coins; return everything that follows from the data."""
    domain, layout = TASKS[task]
    codes, target = random_rows(task, n_rows)
    parts = np.random.default_rng(9).integers(0, n_trees, size=n_rows).astype(np.uint16)
    if order is not None:
        codes, target, parts = (np.ascontiguousarray(a[order]) for a in (codes, target, parts))
    with Threads(n_threads) as threads:
        engine = local_histograms(codes, target, parts, n_trees, layout, threads)
        splitter = make_splitter(method, task)
        epsilons = [Fraction(2)] * depth
        structure = grow(engine, splitter, domain, n_trees, epsilons, plan, RandomSource(5), threads)
        return structure.features.tobytes(), structure.masks.tobytes(), engine.sums().tobytes()


# -- the loop ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "plan"), PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("method", METHODS)
def test_growth_does_not_depend_on_threads_chunks_batches_or_the_order_of_rows(monkeypatch, method, task, plan):
    expected = grown(method, task, 9000, plan=plan)
    assert grown(method, task, 9000, plan=plan, n_threads=2) == expected
    assert grown(method, task, 9000, plan=plan, order=np.random.default_rng(3).permutation(9000)) == expected
    width = 8 * len(FEATURES) * 256 * TASKS[task][1].n_columns
    monkeypatch.setattr(histograms, "CHUNK_BYTES", 4 * width)
    monkeypatch.setattr(splitters, "BATCH_BYTES", 3 * 8 * 3 * 509)
    monkeypatch.setattr(windows, "NODES_TOGETHER", 5)
    assert grown(method, task, 9000, plan=plan, n_threads=3) == expected
    monkeypatch.setattr(histograms, "CHUNK_BYTES", 1)
    monkeypatch.setattr(splitters, "BATCH_BYTES", 1)
    monkeypatch.setattr(windows, "NODES_TOGETHER", 1)
    assert grown(method, task, 9000, plan=plan) == expected


@pytest.mark.parametrize("method", METHODS)
def test_growth_routes_rows_by_its_own_masks(method):
    domain, layout = TASKS["binary"]
    codes, target = random_rows("binary", 500)
    engine = local_histograms(codes, target, np.zeros(500, dtype=np.uint16), 1, layout, ONE)
    splitter = make_splitter(method, "binary")
    structure = grow(engine, splitter, domain, 1, [Fraction(2)] * 5, NO_WINDOWS, RandomSource(5), ONE)
    assert structure.features.shape == (1, 31)
    nodes = np.zeros(500, dtype=np.int64)
    for _ in range(5):
        at = codes[np.arange(500), structure.features[0, nodes]]
        nodes = 2 * nodes + 1 + ((structure.masks[0, nodes, at >> 3] >> (at & 7)) & 1)
    sums = np.zeros((32, 2), dtype=np.int64)
    kept = target >= 0
    np.add.at(sums, (nodes[kept] - 31, target[kept]), 1)
    assert (engine.sums() == sums).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("left_out", [False, True])
@pytest.mark.parametrize("plan", [NO_WINDOWS, SOME_WINDOWS])
def test_no_rows_grow_complete_trees_all_the_same(method, left_out, plan):
    domain, layout = TASKS["number"]
    codes, target = random_rows("number", 40 if left_out else 0)
    target[:] = -1
    engine = local_histograms(codes, target, np.zeros(len(codes), dtype=np.uint16), 2, layout, ONE)
    splitter = make_splitter(method, "number")
    structure = grow(engine, splitter, domain, 2, [Fraction(1)] * 4, plan, RandomSource(0), ONE)
    assert structure.features.shape == (2, 15)
    regions = Regions.roots(domain, 2)
    for level in range(4):  # every node that can be split is split
        here = slice(2**level - 1, 2 ** (level + 1) - 1)
        features = np.ascontiguousarray(structure.features[:, here].reshape(-1))
        masks = np.ascontiguousarray(structure.masks[:, here].reshape(-1, 32))
        assert (masks.any(axis=1) == regions.splittable().any(axis=1)).all()
        regions = regions.children(features, masks)
    assert not engine.sums().any()


def test_random_splits_never_ask_for_a_histogram(monkeypatch):
    def refuse(*_):
        raise AssertionError("random splits looked at the data")

    monkeypatch.setattr(LocalHistograms, "histograms", refuse)
    monkeypatch.setattr(LocalHistograms, "chunks", refuse)
    expected = None
    for n in (0, 700):
        _, target = random_rows("binary", n)
        got = grown("random", "binary", len(target))[:2]
        assert expected in (None, got), "and are the same whatever the data are"
        expected = got
    with pytest.raises(AssertionError, match="looked at the data"):
        grown("diprime", "binary", 700)


@pytest.mark.parametrize("levels", [(), (0,), (1, 3), (2,), (0, 1, 2, 3)])
def test_windows_are_released_at_the_levels_of_the_plan_and_looked_through_before_its_histograms(monkeypatch, levels):
    """Each from the targets of that level's nodes, with that level's epsilon, and widened by the margin."""
    n_trees, depth = 3, 4
    domain, layout = TASKS["number"]
    codes, target = random_rows("number", 900)
    parts = np.random.default_rng(9).integers(0, n_trees, size=900).astype(np.uint16)
    log = []

    class Engine(LocalHistograms):
        def targets(self):
            log.append(("targets", super().targets()))
            return log[-1][1]

        def set_windows(self, windows):
            log.append(("look through", windows))
            super().set_windows(windows)

        def histograms(self, begin, end):
            log.append(("histograms",))
            return super().histograms(begin, end)

        def route(self, *splits):
            log.append(("route",))
            super().route(*splits)

    def release(targets, layout, epsilon, source):
        assert layout is TASKS["number"][1]
        assert source is coins
        n_nodes = len(targets)
        low = np.arange(n_nodes) * 100
        log.append(("release", targets, epsilon, Windows(low, low + 7 * np.arange(1, n_nodes + 1))))
        return log[-1][-1]

    monkeypatch.setattr(growth, "release_windows", release)
    coins = RandomSource(5)
    plan = WindowPlan({level: Fraction(1, 10 + level) for level in levels}, Fraction(1, 30))
    engine = Engine(EncodedRows(codes), target, parts, n_trees, layout, ONE)
    splitter = make_splitter("joint", "number")
    structure = grow(engine, splitter, domain, n_trees, [Fraction(2)] * depth, plan, coins, ONE)

    kept = target >= 0
    nodes, trees = np.zeros(900, dtype=np.int64), parts.astype(np.int64)
    remaining = iter(log)
    for level in range(depth):
        if level in levels:
            n_nodes = n_trees * 2**level
            at = trees * 2**level + nodes - (2**level - 1)
            counts = np.bincount(at[kept] * 4097 + target[kept], minlength=n_nodes * 4097).reshape(n_nodes, 4097)
            what, targets = next(remaining)
            assert what == "targets"
            np.testing.assert_array_equal(targets, counts)
            what, given, epsilon, released = next(remaining)
            assert (what, epsilon) == ("release", Fraction(1, 10 + level))
            assert given is targets
            what, through = next(remaining)
            assert what == "look through"
            assert ends_of(through) == tuple(
                (max(0, low - math.ceil((high - low) / 30)), min(4096, high + math.ceil((high - low) / 30)))
                for low, high in ends_of(released)
            )
        assert next(remaining) == ("histograms",)
        assert next(remaining) == ("route",)
        code = codes[np.arange(900), structure.features[trees, nodes]]
        nodes = 2 * nodes + 1 + ((structure.masks[trees, nodes, code >> 3] >> (code & 7)) & 1)
    assert next(remaining, None) is None


def test_what_a_tree_sees_through_its_windows_decides_its_splits():
    """The same coins and the same quantiles: only the margin differs, by which one of the two sees the whole range."""
    narrow, whole = (
        grown("joint", "number", 9000, plan=WindowPlan(SOME_WINDOWS.epsilons, Fraction(margin))) for margin in (0, 5000)
    )
    assert narrow[:2] != whole[:2]


def has_candidates(costs):
    """Return which rows have a candidate. Where a second half is left unwritten, the first has some."""
    return (costs != ABSENT_COST).any(axis=1)


# -- random bits are used once -----------------------------------------------------------------------------------------


@pytest.fixture
def fresh_streams(monkeypatch):
    """Watch every draw that looks at data or splits; each must begin a stream of its own."""
    used = []

    def watch(module, name, position):
        original = getattr(module, name)

        def spy(*arguments, **options):
            streams = np.atleast_2d(arguments[position])
            rows = streams
            if name == "select":  # a row without candidates draws nothing; its stream may serve another draw
                rows = rows[has_candidates(arguments[1])]
            assert (rows[:, 32] == 16).all(), "some words have been used"
            assert not rows[:, 12:14].any(), "some blocks have been used"
            used.extend(map(tuple, rows[:, 14:16].tolist()))
            result = original(*arguments, **options)
            assert len(rows) == 0 or (streams[:, 12] > 0).any(), "the draw has moved its streams on"
            return result

        monkeypatch.setattr(module, name, spy)

    watch(splitters, "select", 3)
    watch(splitters, "subset_median", 2)
    watch(splitters, "permutation", 0)
    watch(leaves, "discrete_laplace", 3)
    watch(overview, "discrete_laplace", 3)
    watch(windows, "select", 3)
    return used


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("task", ["binary", "number"])
@pytest.mark.parametrize("method", METHODS)
def test_no_stream_is_drawn_from_twice(monkeypatch, fresh_streams, method, task, partition, auto):
    monkeypatch.setattr(defaults, "WINDOW_NEEDS", 10)
    handed_out = []
    original = RandomSource.streams

    def streams(self, n):
        result = original(self, n)
        handed_out.extend(map(tuple, result[:, 14:16].tolist()))
        return result

    monkeypatch.setattr(RandomSource, "streams", streams)
    fit(method, task, partition=partition, auto=auto, depth=5)
    assert len(set(handed_out)) == len(handed_out)
    assert len(set(fresh_streams)) == len(fresh_streams) > 0
    assert set(fresh_streams) <= set(handed_out)


# -- what is charged is what is spent ----------------------------------------------------------------------------------


def fit(
    method, task, *, partition=True, accounting="strict", epsilon=Fraction(3), n_rows=300, auto=False, depth=2, k=None
):
    domain, layout = TASKS[task]
    k = k or (4 if method == "joint" else 1 if method in ("diprime", "random") else 3)
    size = (None, None) if auto else (3, depth)
    options = Settings(epsilon, method, *size, k, None, None, partition, accounting, False)
    ledger = Ledger(epsilon, accounting)
    codes, target = random_rows(task, n_rows)
    structure, sums = train(EncodedRows(codes), target, domain, layout, options, ledger, RandomSource(3), ONE)
    return ledger, structure, sums


@pytest.fixture
def spending(monkeypatch):
    """Record what every mechanism is called with, by module: rule, epsilon and range of draws; arguments of noise."""
    made, draws, noise = {}, {splitters: [], windows: []}, {overview: [], leaves: []}

    def watch_draws(module):
        original_table, original_select = module.weight_table, module.select

        def table(epsilon, cost_range, n_candidates):
            result = original_table(epsilon, cost_range, n_candidates).copy()
            made[id(result)] = (epsilon, cost_range, result)
            return result

        def select(rule, costs, table, streams, *twice):
            draws[module] += [(rule, *made[id(table)][:2])] * int(has_candidates(costs).sum())
            return original_select(rule, costs, table, streams, *twice)

        monkeypatch.setattr(module, "weight_table", table)
        monkeypatch.setattr(module, "select", select)

    def watch_noise(module):
        original = module.discrete_laplace

        def laplace(values, epsilon, sensitivity, streams):
            noise[module].append((values.shape, epsilon, sensitivity))
            return original(values, epsilon, sensitivity, streams)

        monkeypatch.setattr(module, "discrete_laplace", laplace)

    watch_draws(splitters)
    watch_draws(windows)
    watch_noise(overview)
    watch_noise(leaves)
    original_subset = splitters.subset_median

    def subset(counts, table, stream):
        draws[splitters].append(("exponential", *made[id(table)][:2]))
        return original_subset(counts, table, stream)

    monkeypatch.setattr(splitters, "subset_median", subset)
    return draws, noise


MECHANISMS = {"exponential": "exponential mechanism", "permute-and-flip": "permute-and-flip"}


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_what_the_mechanisms_are_called_with_is_what_the_ledger_says(
    monkeypatch, spending, method, task, partition, auto
):
    """Every release, in the order of the ledger; what the ledger does not list is not called."""
    monkeypatch.setattr(defaults, "WINDOW_NEEDS", 10)
    draws, noise = spending
    depth = 5 if method == "joint" else 2  # so deep that nodes get windows, where they may
    ledger, structure, released = fit(method, task, partition=partition, auto=auto, depth=depth)
    layout = TASKS[task][1]
    n_trees, n_leaves, n_outputs = released.sums.shape
    depth = n_leaves.bit_length() - 1
    assert structure.masks.any(axis=2).sum() == n_trees * (n_leaves - 1)  # all nodes had something to split
    k = 3 if method in ("diprime-exp", "diprime-flip") else 1
    rule = "permute-and-flip" if method == "diprime-flip" else "exponential"
    rounds, together = (1, n_trees) if partition else (n_trees, 1)
    expected, share = [], Fraction(0)  # what each charge should be; what the overview takes of epsilon

    if auto or method == "joint":
        shape = (1, 1 if task == "number" else n_outputs)
        assert noise[overview] == [(shape, ledger.epsilon * defaults.COUNTS_SHARE, 1)]
        what = "row count" if task == "number" else "class counts"
        expected.append((what, "discrete Laplace", "L1 sensitivity 1", noise[overview][0][1], 1))
        share += defaults.COUNTS_SHARE
    else:
        assert noise[overview] == []
    if method == "joint" and task == "number":
        of_quantile = ledger.epsilon * defaults.QUANTILE_SHARE
        expected.append(("target window", "exponential mechanism", "cost range 12", of_quantile, 2))
        share += 2 * defaults.QUANTILE_SHARE
        levels = range(2, depth, 2)
        assert auto or len(levels) == 2
        for level in levels:
            what = f"target windows of level {level}"
            expected.append((what, "exponential mechanism", "cost range 12", of_quantile / rounds, 2 * rounds))
            share += 2 * defaults.QUANTILE_SHARE
        n_of_nodes = 2 * rounds * sum(together * 2**level for level in levels)
        of_nodes = [("exponential", of_quantile / rounds, 12)] * n_of_nodes
        assert draws[windows] == [("exponential", of_quantile, 12)] * 2 + of_nodes
    else:
        assert draws[windows] == []

    if method == "random":
        assert {epsilon for _, epsilon, _ in draws[splitters]} == {0}
    else:
        remaining = iter(draws[splitters])  # round by round, level by level
        for round_ in range(rounds):
            for level in range(depth):
                n_nodes = together * 2**level
                n_draws = n_nodes * (k + 1 if k > 1 else 1)
                here = [next(remaining) for _ in range(n_draws)]
                charges = []
                for kind in sorted(set(here), key=lambda d: d[2]):  # medians before choices
                    used_rule, epsilon, cost_range = kind
                    assert used_rule == rule
                    per_node = here.count(kind) // n_nodes
                    assert here.count(kind) == per_node * n_nodes
                    if method == "joint":
                        what, bound = "splits", f"cost range {cost_range} in units of 1/{cost_range_units(kind, task)}"
                    elif cost_range == 2:
                        what, bound = "medians", "cost range 2"
                        assert per_node == k
                    else:
                        what, bound = "choices", "cost range 1026 in units of 1/1024"
                        assert per_node == 1
                    mechanism = MECHANISMS[used_rule]
                    charges.append((f"{what} of level {level}", mechanism, bound, epsilon, per_node * rounds))
                if round_ == 0:
                    expected += charges
                assert set(charges) <= set(expected), "every round spends the same"
        assert next(remaining, None) is None
    [(shape, epsilon, sensitivity)] = noise[leaves]
    assert shape == (n_trees * n_leaves, n_outputs)
    assert sensitivity == layout.units
    expected.append(("leaf sums", "discrete Laplace", f"L1 sensitivity {layout.units}", epsilon, rounds))
    listed = [(c.what, c.mechanism, c.bound, c.epsilon, c.times) for c in ledger.charges]
    assert listed == expected
    assert sum(e * times for *_, e, times in expected) == ledger.total == ledger.epsilon
    of_leaves = (1 - share) * (1 - (defaults.split_share(method) if method != "random" else 0))
    assert epsilon * rounds == ledger.epsilon * of_leaves
    assert ledger.is_private


def cost_range_units(draw, task):
    """Return the units of a joint selection, whose range must be what its cost has; ``ends`` does not change it."""
    _, epsilon, cost_range = draw
    balance = defaults.balance(classification=task != "number", epsilon=Fraction(3))
    cost = splitters.Cost.joint(epsilon, balance, Fraction(1, 16))
    assert cost_range == cost.range == cost.units + 2 + cost.balance
    return cost.units


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_paper_accounting_spends_more_than_it_counts_and_says_so(spending, method, partition):
    draws, _ = spending
    ledger, _, _ = fit(method, "binary", partition=partition, accounting="paper")
    assert ledger.total == ledger.epsilon
    assert not ledger.is_private
    if method in ("diprime-exp", "diprime-flip"):
        medians = {(e, r) for _, e, r in draws[splitters] if r == 2}
        assert len(medians) == 1
        per_level = ledger.epsilon * defaults.split_share(method) / 2 / (1 if partition else 3)
        assert medians == {(per_level / 2, 2)}, "each of three medians has what all of them are charged"


@pytest.mark.parametrize("method", METHODS)
def test_at_infinite_epsilon_nothing_is_called_private(method):
    ledger, _, released = fit(method, "binary", epsilon=math.inf)
    assert ledger.total == math.inf
    assert not ledger.is_private
    assert released.noise_variance == 0
    assert (released.sums == np.rint(released.sums)).all()


@pytest.mark.parametrize("k", [2, 4])
def test_each_of_k_medians_pays_for_itself(k):
    splitter = make_splitter("diprime-exp", "binary", k)
    epsilon = Fraction(1, 3)
    of_median, of_choice = splitter.shares(epsilon)
    assert k * of_median + of_choice == epsilon
    ledger = Ledger(epsilon * 5)
    charge_levels(ledger, splitter, [epsilon] * 5, "", 1)
    assert ledger.total == ledger.epsilon
    assert {c.times for c in ledger.charges} == {1, k}


@pytest.mark.parametrize("task", TASKS)
def test_the_counts_are_those_of_rows_with_a_target_and_are_released_with_noise(monkeypatch, task):
    seen = []
    original = overview.discrete_laplace

    def spy(values, *rest):
        seen.append((values.tolist(), original(values, *rest).tolist()))
        return np.array(seen[-1][1])

    monkeypatch.setattr(overview, "discrete_laplace", spy)
    rows, counts = [], []
    monkeypatch.setattr(defaults, "n_estimators", lambda _, n, __, **___: rows.append(n) or 2)
    monkeypatch.setattr(defaults, "max_depth", lambda n, *_: rows.append(n) or 2)
    monkeypatch.setattr(defaults, "window_levels", lambda n, *_: rows.append(n) or [])
    monkeypatch.setattr(defaults, "ends", lambda c, _: counts.append(c) or Fraction(0))
    fit("joint", task, auto=True, epsilon=Fraction(1, 10))
    [(true, noisy)] = seen
    target = random_rows(task, 300)[1]
    valid = target[target >= 0]
    assert true == [
        [len(valid)] if task == "number" else np.bincount(valid, minlength=TASKS[task][1].n_outputs).tolist()
    ]
    assert rows == [sum(noisy[0])] * (3 if task == "number" else 2)
    assert counts == noisy
    assert all(a != b for a, b in zip(noisy[0], true[0], strict=True)), "each with its own noise, at this seed"


def test_the_windows_of_splits_and_leaves_are_the_one_released_and_its_margins(monkeypatch):
    released, seen = [], []
    target = random_rows("number", 300)[1]

    def release(targets, layout, epsilon, source):
        assert (targets == np.bincount(target[target >= 0], minlength=4097)[None, :]).all()
        assert epsilon == 3 * defaults.QUANTILE_SHARE
        released.append(window)
        return Windows(np.array([window[0]]), np.array([window[1]]))

    class Engine(LocalHistograms):
        def __init__(self, *arguments):
            seen.append(tuple(ends_of(several) for several in arguments[-2:]))
            super().__init__(*arguments)

    monkeypatch.setattr(training, "release_windows", release)
    monkeypatch.setattr(training, "LocalHistograms", Engine)
    monkeypatch.setattr(defaults, "window_margins", lambda _: (Fraction(1, 30), 2))
    for window in ((1500, 1600), (0, 4096), (4000, 4096)):
        released.clear()
        seen.clear()
        _, _, sums = fit("joint", "number")
        assert released == [window]
        low, high = window
        for_splits, for_leaves = (
            (max(0, low - margin), min(4096, high + margin))
            for margin in (math.ceil((high - low) / 30), 2 * (high - low))
        )
        assert seen == [((for_splits,), (for_leaves,))]
        assert (sums.low, sums.high) == (for_leaves[0] / 4096, for_leaves[1] / 4096)
    # Nothing is released, and nothing cut off, where there is no charge for it.
    released.clear()
    seen.clear()
    for method in METHODS[1:]:
        fit(method, "number")
    fit("joint", "binary")
    fit("joint", "number", epsilon=math.inf)
    assert released == []
    assert set(seen) == {(((0, 4096),), ((0, 4096),)), (((0, 1),), ((0, 1),))}


@pytest.mark.parametrize("partition", [True, False])
def test_the_plan_of_windows_is_the_rule_s_levels_with_the_margin_of_splits(monkeypatch, partition):
    """Trees that see the same records share what a level's windows may cost."""
    plans, asked = [], []
    original = training.grow

    def spy(engine, splitter, domain, n_trees, epsilons, plan, *rest):
        plans.append(plan)
        return original(engine, splitter, domain, n_trees, epsilons, plan, *rest)

    monkeypatch.setattr(training, "grow", spy)
    monkeypatch.setattr(defaults, "window_margins", lambda _: (Fraction(1, 30), 2))
    monkeypatch.setattr(defaults, "window_levels", lambda *public: asked.append(public) or [1, 3])
    fit("joint", "number", partition=partition, depth=4)
    of_quantile = 3 * defaults.QUANTILE_SHARE / (1 if partition else 3)
    assert plans == [WindowPlan({1: of_quantile, 3: of_quantile}, Fraction(1, 30))] * (1 if partition else 3)
    assert [public[1:] for public in asked] == [(Fraction(3), 3, 4)]
    # No one else has windows.
    plans.clear()
    for method in METHODS[1:]:
        fit(method, "number", partition=partition)
    fit("joint", "binary", partition=partition)
    fit("joint", "number", partition=partition, epsilon=math.inf)
    assert {tuple(plan.epsilons) for plan in plans} == {()}


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_read_before_it_is_charged(monkeypatch, method, task, auto):
    class StopHereError(Exception):
        pass

    def stop(*_, **__):
        raise StopHereError

    monkeypatch.setattr(defaults, "window_levels", lambda *_: [0, 1])
    seen_through_windows = method == "joint" and task == "number"
    first = ["row count" if task == "number" else "class counts"] * (auto or method == "joint")
    window = ["target window"] * seen_through_windows
    of_nodes = ["target windows of level 0", "target windows of level 1"] * seen_through_windows
    for module, name, before in [
        (training, "release_counts", first),
        (training, "release_windows", first + window),
        (training, "charge_leaves", first + window + of_nodes),
        (training, "assign_trees", [*first, *window, *of_nodes, "leaf sums"]),
        (training, "LocalHistograms", [*first, *window, *of_nodes, "leaf sums"]),
        (growth, "release_windows", [*first, *window, *of_nodes, "leaf sums"]),
    ]:
        if (name == "release_counts" and not first) or (name == "release_windows" and not window):
            continue
        with monkeypatch.context() as patch:
            charged = []
            patch.setattr(Ledger, "charge", lambda self, charge, charged=charged: charged.append(charge))
            patch.setattr(module, name, stop)
            with pytest.raises(StopHereError):
                fit(method, task, auto=auto)
            of_splits = [c.what for c in charged if c.what.startswith(("splits of", "medians of", "choices of"))]
            assert [c.what for c in charged if c.what not in of_splits] == before
            too_early = module is training and name in ("release_counts", "release_windows")
            assert any("level" in what for what in of_splits) == (not too_early and method != "random")


# -- parts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_parts", [2, 3, 7, 64])
def test_parts_are_uniform_and_independent(n_parts):
    n = 70_000 * 2  # more than one stream
    parts = assign_trees(n, n_parts, RandomSource(0), ONE, equal=False).astype(np.int64)
    # Uniform, by the chi-square statistic: mean d, variance 2d. So are pairs of neighbours, and of rows of two streams.
    for pairs, size in [
        (parts, n_parts),
        (parts[::2] * n_parts + parts[1::2], n_parts**2),
        (parts[: n // 2 - 4464] * n_parts + parts[65536 : 65536 + n // 2 - 4464], n_parts**2),
    ]:
        counts = np.bincount(pairs, minlength=size)
        assert len(counts) == size
        expected = len(pairs) / size
        statistic = ((counts - expected) ** 2 / expected).sum()
        assert abs(statistic - (size - 1)) < 5 * math.sqrt(2 * (size - 1)) + 5
    # Sizes vary from draw to draw as those of independent coins do: equal parts do not.
    sizes = [np.bincount(assign_trees(600, n_parts, RandomSource(s), ONE, equal=False))[0] for s in range(1, 300)]
    variance = 600 / n_parts * (1 - 1 / n_parts)
    assert 0.7 < np.var(sizes) / variance < 1.35


def test_a_further_row_moves_no_other_row_unless_parts_are_equal():
    short = assign_trees(1000, 5, RandomSource(0), ONE, equal=False)
    long = assign_trees(1001, 5, RandomSource(0), ONE, equal=False)
    assert (short == long[:1000]).all()
    with Threads(3) as threads:
        assert (assign_trees(1000, 5, RandomSource(0), threads, equal=False) == short).all()
    short = assign_trees(1000, 5, RandomSource(0), ONE, equal=True)
    long = assign_trees(1001, 5, RandomSource(0), ONE, equal=True)
    assert (short != long[:1000]).any()
    assert set(np.bincount(short)) == {200}
    assert not assign_trees(10, 1, RandomSource(0), ONE, equal=False).any()
    assert len(assign_trees(0, 3, RandomSource(0), ONE, equal=False)) == 0


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("accounting", ["strict", "paper"])
def test_only_the_papers_accounting_deals_equal_parts(monkeypatch, accounting, partition):
    asked = []
    original = training.assign_trees

    def spy(n, n_parts, source, threads, *, equal):
        asked.append((n, n_parts, equal))
        return original(n, n_parts, source, threads, equal=equal)

    monkeypatch.setattr(training, "assign_trees", spy)
    ledger, structure, _ = fit("joint", "number", partition=partition, accounting=accounting)
    assert asked == [(300, 3 if partition else 1, accounting == "paper")]
    assert ledger.is_private == (accounting == "strict")
    assert len(structure.features) == 3


def test_exact_counts_are_released_in_the_papers_accounting_of_numbers_only():
    for task in TASKS:
        for accounting in ("strict", "paper"):
            _, _, released = fit("diprime", task, accounting=accounting, partition=False)
            n = int((random_rows(task, 300)[1] >= 0).sum())
            totals = released.counts.sum(axis=1)
            exact = np.allclose(totals, n, rtol=0, atol=1e-9)
            assert exact == (accounting == "paper" and task == "number")


def test_without_partition_every_tree_sees_all_rows_and_with_it_each_row_is_in_one():
    for partition in (True, False):
        _, _, released = fit("diprime-exp", "binary", partition=partition, epsilon=math.inf)
        n = int((random_rows("binary", 300)[1] >= 0).sum())
        per_tree = released.counts.sum(axis=1)
        if partition:
            assert per_tree.sum() == n
        else:
            assert (per_tree == n).all()
