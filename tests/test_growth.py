"""Growth and training: one loop for all, its bits used once, its spending what the ledger says."""

import math
from fractions import Fraction

import numpy as np
import pytest
from encoded_rows import EncodedRows, local_histograms

from diprime import defaults, histograms, leaves, splitters, training
from diprime.budget import Ledger
from diprime.domain import Categorical, Domain, Numeric
from diprime.growth import charge_levels, grow
from diprime.histograms import LocalHistograms, TargetLayout
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
        return JointSplitter(domain, layout, families, k or 3, Fraction(1, 20))
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
                rows = rows[(arguments[1] != ABSENT_COST).any(axis=1)]
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
    watch(training, "discrete_laplace", 3)
    return used


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_no_stream_is_drawn_from_twice(monkeypatch, fresh_streams, method, partition):
    handed_out = []
    original = RandomSource.streams

    def streams(self, n):
        result = original(self, n)
        handed_out.extend(map(tuple, result[:, 14:16].tolist()))
        return result

    monkeypatch.setattr(RandomSource, "streams", streams)
    fit(method, "binary", partition=partition)
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
    """Record what every mechanism is called with, by the epsilon and range of the table that it draws from."""
    made, draws, noise = {}, [], []
    original_table = splitters.weight_table

    def table(epsilon, cost_range, n_candidates):
        result = original_table(epsilon, cost_range, n_candidates).copy()
        made[id(result)] = (epsilon, cost_range, result)
        return result

    original_select, original_subset = splitters.select, splitters.subset_median

    def select(rule, costs, table, streams):
        present = (costs != ABSENT_COST).any(axis=1)
        draws.extend([(rule, *made[id(table)][:2])] * int(present.sum()))
        return original_select(rule, costs, table, streams)

    def subset(counts, table, stream):
        draws.append(("exponential", *made[id(table)][:2]))
        return original_subset(counts, table, stream)

    monkeypatch.setattr(splitters, "weight_table", table)
    monkeypatch.setattr(splitters, "select", select)
    monkeypatch.setattr(splitters, "subset_median", subset)
    for module in (leaves, training):

        def laplace(values, epsilon, sensitivity, streams, original=module.discrete_laplace):
            noise.append((values.shape, epsilon, sensitivity))
            return original(values, epsilon, sensitivity, streams)

        monkeypatch.setattr(module, "discrete_laplace", laplace)
    return draws, noise


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_what_the_mechanisms_are_called_with_is_what_the_ledger_says(spending, method, task, partition, auto):
    draws, noise = spending
    ledger, structure, released = fit(method, task, partition=partition, auto=auto)
    layout = TASKS[task][1]
    n_trees, n_leaves, n_outputs = released.sums.shape
    depth = n_leaves.bit_length() - 1
    n_nodes = n_trees * (n_leaves - 1)  # all of them had something to split
    assert structure.masks.any(axis=2).sum() == n_nodes
    k = 3 if method in ("diprime-exp", "diprime-flip") else 1
    rule = "permute-and-flip" if method == "diprime-flip" else "exponential"
    rounds = 1 if partition else n_trees

    spent = Fraction(0)
    if method == "random":
        assert {epsilon for _, epsilon, _ in draws} == {0}
    else:
        kinds = {d: draws.count(d) for d in set(draws)}
        for (used_rule, epsilon, cost_range), times in kinds.items():
            assert used_rule == rule
            per_node, rest = divmod(times, n_nodes)
            assert rest == 0
            spent += epsilon * per_node * depth * rounds
            if method == "joint":
                cost = splitters.Cost.joint(epsilon, defaults.balance(
                    classification=task != "number", epsilon=ledger.epsilon))  # fmt: skip
                assert cost_range == cost.range
                assert per_node == 1
            else:
                assert (cost_range, per_node) in {(2, k), (1026, 1)}
        assert len(kinds) == (1 if k == 1 else 2)
    *of_count, (shape, epsilon, sensitivity) = noise
    assert shape == (n_trees * n_leaves, n_outputs)
    assert sensitivity == layout.units
    spent += epsilon * rounds
    if auto:
        assert of_count == [((1, 1), ledger.epsilon * defaults.ROW_COUNT_SHARE, 1)]
        spent += of_count[0][1]
    else:
        assert of_count == []
    assert spent == ledger.total == ledger.epsilon
    # Entry by entry: the bounds that the ledger states are those that the tables were made for.
    by_epsilon = {(e, f"cost range {r}") for _, e, r in draws} if method != "random" else set()
    listed = {(c.epsilon, c.bound.split(" in ")[0]) for c in ledger.charges if "level" in c.what}
    assert listed == by_epsilon
    assert (epsilon, f"L1 sensitivity {layout.units}") in {(c.epsilon, c.bound) for c in ledger.charges}
    assert ledger.is_private


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_paper_accounting_spends_more_than_it_counts_and_says_so(spending, method, partition):
    draws, _ = spending
    ledger, _, _ = fit(method, "binary", partition=partition, accounting="paper")
    assert ledger.total == ledger.epsilon
    assert not ledger.is_private
    if method in ("diprime-exp", "diprime-flip"):
        medians = {(e, r) for _, e, r in draws if r == 2}
        assert len(medians) == 1
        per_level = ledger.epsilon * defaults.SPLIT_SHARE / 2 / (1 if partition else 3)
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


def test_the_row_count_is_that_of_rows_with_a_target_and_is_released_with_noise(monkeypatch):
    seen = []
    original = training.discrete_laplace

    def spy(values, *rest):
        seen.append((values.tolist(), original(values, *rest).tolist()))
        return np.array(seen[-1][1])

    monkeypatch.setattr(training, "discrete_laplace", spy)
    rows = []
    monkeypatch.setattr(defaults, "n_estimators", lambda n, _: rows.append(n) or 2)
    monkeypatch.setattr(defaults, "max_depth", lambda n, *_: rows.append(n) or 2)
    fit("joint", "binary", auto=True, epsilon=Fraction(1, 10))
    [(true, noisy)] = seen
    assert true == [[int((random_rows("binary", 300)[1] >= 0).sum())]]
    assert rows == [noisy[0][0]] * 2
    assert noisy != true


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_read_before_it_is_charged(monkeypatch, method, auto):
    class StopHereError(Exception):
        pass

    def stop(*_, **__):
        raise StopHereError

    for name in ("charge_leaves", "deal_parts", "LocalHistograms"):
        with monkeypatch.context() as patch:
            charged = []
            patch.setattr(Ledger, "charge", lambda self, charge, charged=charged: charged.append(charge))
            patch.setattr(training, name, stop)
            with pytest.raises(StopHereError):
                fit(method, "binary", auto=auto)
            whats = [c.what for c in charged]
            assert ("row count" in whats) == auto
            assert any("level" in what for what in whats) == (method != "random")
            assert ("leaf sums" in whats) == (name != "charge_leaves")


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
