"""Growth and training: one loop for all, its bits used once, its spending what the ledger says."""

import math
from fractions import Fraction

import numpy as np
import pytest
from encoded_rows import EncodedRows, local_histograms

from diprime import defaults, histograms, leaves, overview, splitters, training
from diprime.budget import Ledger
from diprime.domain import Categorical, Domain, Numeric
from diprime.growth import charge_levels, grow
from diprime.histograms import LocalHistograms, TargetLayout, Window
from diprime.mechanisms import ABSENT_COST
from diprime.parallel import Threads
from diprime.randomness import RandomSource, deal_parts
from diprime.splitters import Families, JointSplitter, MedianSplitter, Regions
from diprime.training import Settings, train

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
    families = Families.draw(domain, RandomSource(1))
    if method == "joint":
        return JointSplitter(domain, layout, families, k or 3, Fraction(1, 20), Fraction(3, 32))
    rule = "permute-and-flip" if method == "diprime-flip" else "exponential"
    k = k or (1 if method in ("diprime", "random") else 3)
    return MedianSplitter(domain, layout, families, k, rule, looks_at_data=method != "random")


def grown(method, task, n_rows, n_threads=1, depth=4, n_trees=3, order=None):
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
        structure = grow(engine, splitter, domain, n_trees, epsilons, RandomSource(5), threads)
        return structure.features.tobytes(), structure.masks.tobytes(), engine.sums().tobytes()


# -- the loop ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_growth_does_not_depend_on_threads_chunks_batches_or_the_order_of_rows(monkeypatch, method, task):
    expected = grown(method, task, 9000)
    assert grown(method, task, 9000, n_threads=2) == expected
    assert grown(method, task, 9000, order=np.random.default_rng(3).permutation(9000)) == expected
    width = 8 * len(FEATURES) * 256 * TASKS[task][1].n_columns
    monkeypatch.setattr(histograms, "CHUNK_BYTES", 4 * width)
    monkeypatch.setattr(splitters, "BATCH_BYTES", 3 * 8 * 3 * 509)
    assert grown(method, task, 9000, n_threads=3) == expected
    monkeypatch.setattr(histograms, "CHUNK_BYTES", 1)
    monkeypatch.setattr(splitters, "BATCH_BYTES", 1)
    assert grown(method, task, 9000) == expected


@pytest.mark.parametrize("method", METHODS)
def test_growth_routes_rows_by_its_own_masks(method):
    domain, layout = TASKS["binary"]
    codes, target = random_rows("binary", 500)
    engine = local_histograms(codes, target, np.zeros(500, dtype=np.uint16), 1, layout, ONE)
    structure = grow(engine, make_splitter(method, "binary"), domain, 1, [Fraction(2)] * 5, RandomSource(5), ONE)
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
def test_no_rows_grow_complete_trees_all_the_same(method, left_out):
    domain, layout = TASKS["number"]
    codes, target = random_rows("number", 40 if left_out else 0)
    target[:] = -1
    engine = local_histograms(codes, target, np.zeros(len(codes), dtype=np.uint16), 2, layout, ONE)
    structure = grow(engine, make_splitter(method, "number"), domain, 2, [Fraction(1)] * 4, RandomSource(0), ONE)
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
    watch(overview, "select", 3)
    return used


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("task", ["binary", "number"])
@pytest.mark.parametrize("method", METHODS)
def test_no_stream_is_drawn_from_twice(monkeypatch, fresh_streams, method, task, partition):
    handed_out = []
    original = RandomSource.streams

    def streams(self, n):
        result = original(self, n)
        handed_out.extend(map(tuple, result[:, 14:16].tolist()))
        return result

    monkeypatch.setattr(RandomSource, "streams", streams)
    fit(method, task, partition=partition, auto=True)
    assert len(set(handed_out)) == len(handed_out)
    assert len(set(fresh_streams)) == len(fresh_streams) > 0
    assert set(fresh_streams) <= set(handed_out)


# -- what is charged is what is spent ----------------------------------------------------------------------------------


def fit(method, task, *, partition=True, accounting="strict", epsilon=Fraction(3), n_rows=300, auto=False, k=None):
    domain, layout = TASKS[task]
    k = k or (4 if method == "joint" else 1 if method in ("diprime", "random") else 3)
    size = (None, None) if auto else (3, 2)
    options = Settings(epsilon, method, *size, k, None, None, partition, accounting, False)
    ledger = Ledger(epsilon, accounting)
    codes, target = random_rows(task, n_rows)
    structure, sums = train(EncodedRows(codes), target, domain, layout, options, ledger, RandomSource(3), ONE)
    return ledger, structure, sums


@pytest.fixture
def spending(monkeypatch):
    """Record what every mechanism is called with, by module: rule, epsilon and range of draws; arguments of noise."""
    made, draws, noise = {}, {splitters: [], overview: []}, {overview: [], leaves: []}

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
    watch_draws(overview)
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
def test_what_the_mechanisms_are_called_with_is_what_the_ledger_says(spending, method, task, partition, auto):
    """Every release, in the order of the ledger; what the ledger does not list is not called."""
    draws, noise = spending
    ledger, structure, released = fit(method, task, partition=partition, auto=auto)
    layout = TASKS[task][1]
    n_trees, n_leaves, n_outputs = released.sums.shape
    depth = n_leaves.bit_length() - 1
    assert structure.masks.any(axis=2).sum() == n_trees * (n_leaves - 1)  # all nodes had something to split
    k = 3 if method in ("diprime-exp", "diprime-flip") else 1
    rule = "permute-and-flip" if method == "diprime-flip" else "exponential"
    rounds, together = (1, n_trees) if partition else (n_trees, 1)
    expected, share = [], Fraction(0)  # what each charge should be; what the overview takes of epsilon

    if auto or (method == "joint" and task != "number"):
        shape = (1, 1 if task == "number" else n_outputs)
        assert noise[overview] == [(shape, ledger.epsilon * defaults.COUNTS_SHARE, 1)]
        what = "row count" if task == "number" else "class counts"
        expected.append((what, "discrete Laplace", "L1 sensitivity 1", noise[overview][0][1], 1))
        share += defaults.COUNTS_SHARE
    else:
        assert noise[overview] == []
    if method == "joint" and task == "number":
        of_quantile = ledger.epsilon * defaults.QUANTILE_SHARE
        assert draws[overview] == [("exponential", of_quantile, 12)] * 2
        expected.append(("target window", "exponential mechanism", "cost range 12", of_quantile, 2))
        share += 2 * defaults.QUANTILE_SHARE
    else:
        assert draws[overview] == []

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
    monkeypatch.setattr(defaults, "ends", lambda c, _: counts.append(c) or Fraction(0))
    fit("joint", task, auto=True, epsilon=Fraction(1, 10))
    [(true, noisy)] = seen
    target = random_rows(task, 300)[1]
    valid = target[target >= 0]
    assert true == [
        [len(valid)] if task == "number" else np.bincount(valid, minlength=TASKS[task][1].n_outputs).tolist()
    ]
    assert rows == [sum(noisy[0])] * 2
    assert counts == noisy
    assert all(a != b for a, b in zip(noisy[0], true[0], strict=True)), "each with its own noise, at this seed"


def test_the_windows_of_splits_and_leaves_are_the_one_released_and_its_margins(monkeypatch):
    released, seen = [], []
    original = training.release_window

    def spy(target, layout, epsilon, source):
        released.append(original(target, layout, epsilon, source))
        return released[-1]

    class Engine(LocalHistograms):
        def __init__(self, *arguments):
            seen.append(arguments[-2:])
            super().__init__(*arguments)

    monkeypatch.setattr(training, "release_window", spy)
    monkeypatch.setattr(training, "LocalHistograms", Engine)
    monkeypatch.setattr(defaults, "window_margins", lambda _: (Fraction(1, 30), 2))
    layout = TASKS["number"][1]
    for window in (Window(1500, 1600), Window(0, 4096), Window(4000, 4096)):
        released.clear()
        seen.clear()
        monkeypatch.setattr(overview, "widened", lambda *_, window=window: window)
        _, _, sums = fit("joint", "number")
        assert released == [window]
        width = window.high - window.low
        for_splits, for_leaves = (
            Window(max(0, window.low - margin), min(4096, window.high + margin))
            for margin in (math.ceil(width / 30), 2 * width)
        )
        assert seen == [(for_splits, for_leaves)]
        assert (sums.low, sums.high) == (for_leaves.low / 4096, for_leaves.high / 4096)
    # Nothing is released, and nothing cut off, where there is no charge for it.
    released.clear()
    seen.clear()
    for method in METHODS[1:]:
        fit(method, "number")
    fit("joint", "binary")
    fit("joint", "number", epsilon=math.inf)
    assert released == []
    assert set(seen) == {(layout.whole, layout.whole), (Window(0, 1), Window(0, 1))}


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_read_before_it_is_charged(monkeypatch, method, task, auto):
    class StopHereError(Exception):
        pass

    def stop(*_, **__):
        raise StopHereError

    first = ["row count" if task == "number" else "class counts"] * (auto or (method == "joint" and task != "number"))
    window = ["target window"] * (method == "joint" and task == "number")
    for name, before in {
        "release_counts": first,
        "release_window": first + window,
        "charge_leaves": first + window,
        "deal_parts": [*first, *window, "leaf sums"],
        "LocalHistograms": [*first, *window, "leaf sums"],
    }.items():
        if (name == "release_counts" and not first) or (name == "release_window" and not window):
            continue
        with monkeypatch.context() as patch:
            charged = []
            patch.setattr(Ledger, "charge", lambda self, charge, charged=charged: charged.append(charge))
            patch.setattr(training, name, stop)
            with pytest.raises(StopHereError):
                fit(method, task, auto=auto)
            whats = [c.what for c in charged]
            assert [what for what in whats if "level" not in what] == before
            levels_charged = name not in ("release_counts", "release_window") and method != "random"
            assert any("level" in what for what in whats) == levels_charged


# -- parts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_parts", [2, 3, 7, 64])
def test_parts_are_uniform_and_independent(n_parts):
    n = 70_000 * 2  # more than one stream
    parts = deal_parts(n, n_parts, RandomSource(0), ONE, equal=False).astype(np.int64)
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
    sizes = [np.bincount(deal_parts(600, n_parts, RandomSource(s), ONE, equal=False))[0] for s in range(1, 300)]
    variance = 600 / n_parts * (1 - 1 / n_parts)
    assert 0.7 < np.var(sizes) / variance < 1.35


def test_a_further_row_moves_no_other_row_unless_parts_are_equal():
    short = deal_parts(1000, 5, RandomSource(0), ONE, equal=False)
    long = deal_parts(1001, 5, RandomSource(0), ONE, equal=False)
    assert (short == long[:1000]).all()
    with Threads(3) as threads:
        assert (deal_parts(1000, 5, RandomSource(0), threads, equal=False) == short).all()
    short = deal_parts(1000, 5, RandomSource(0), ONE, equal=True)
    long = deal_parts(1001, 5, RandomSource(0), ONE, equal=True)
    assert (short != long[:1000]).any()
    assert set(np.bincount(short)) == {200}
    assert not deal_parts(10, 1, RandomSource(0), ONE, equal=False).any()
    assert len(deal_parts(0, 3, RandomSource(0), ONE, equal=False)) == 0


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("accounting", ["strict", "paper"])
def test_only_the_papers_accounting_deals_equal_parts(monkeypatch, accounting, partition):
    asked = []
    original = training.deal_parts

    def spy(n, n_parts, source, threads, *, equal):
        asked.append((n, n_parts, equal))
        return original(n, n_parts, source, threads, equal=equal)

    monkeypatch.setattr(training, "deal_parts", spy)
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
