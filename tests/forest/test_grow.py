"""Growth: one loop for all, whoever counts and however, that asks and looks in the order of the plan."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from diprime._util.resources import Threads
from diprime.domain.encoding import ClippingRanges
from diprime.forest import candidates, train
from diprime.forest import engine as partitioned
from diprime.forest import sums as windows
from diprime.forest.engine import ForestEngine
from diprime.forest.plan import TreeReceipts
from diprime.forest.splitters import make_splitter
from diprime.forest.sums import STRICT, leaf_charge, node_windows_charge
from diprime.forest.train import Grower
from diprime.model.trees import Regions
from diprime.privacy.charges import UnpaidReleaseError
from diprime.privacy.randomness import RandomSource
from tests.encoded_rows import rooted_engine
from tests.forest.made_fits import DOMAINS, FEATURES, METHODS, ONE, TASKS, random_rows, settings_of
from tests.paid import pay


@dataclass(frozen=True)
class WindowPlan:
    """The levels at which nodes get windows, what a quantile gets there, and how far they are widened."""

    epsilons: dict[int, Fraction]
    margin: Fraction


NO_WINDOWS = WindowPlan({}, Fraction(0))
SOME_WINDOWS = WindowPlan({1: Fraction(1), 3: Fraction(2)}, Fraction(1, 30))
PLANS = {"number-windows": ("number", SOME_WINDOWS), **{task: (task, NO_WINDOWS) for task in TASKS}}


def splitter_of(method, task):
    settings = settings_of(method, max_features=3 if method not in ("diprime", "random") else 1)
    return make_splitter(DOMAINS[task], replace(settings, balance=Fraction(1, 20)), Fraction(3, 32), RandomSource(1))


def receipts_of(splitter, depth, plan=NO_WINDOWS, epsilon=Fraction(2)):
    """Pay for one round of growth."""
    return TreeReceipts(
        {
            level: pay(node_windows_charge(splitter.domain.layout, level, each, 1, ""))
            for level, each in plan.epsilons.items()
        },
        [[pay(charge) for charge in splitter.charges(level, epsilon, 1, "")] for level in range(depth)],
        pay(leaf_charge(splitter.domain.layout, epsilon, 1, "", STRICT)),
    )


def grower_of(engine, splitter, task, **options):
    """Return what grows trees of a task, with fixed random bits."""
    layout = DOMAINS[task].layout
    fixed = {"source": RandomSource(5), "threads": ONE, "split_window": layout.whole_range}
    return Grower(engine, splitter, DOMAINS[task], layout, **{**fixed, **options})


def grown_from(engine, method, task, *, n_trees=1, depth=4, plan=NO_WINDOWS, threads=ONE, source=None):
    """Grow trees from the rows of an engine."""
    splitter = splitter_of(method, task)
    grower = grower_of(engine, splitter, task, source=source or RandomSource(5), threads=threads, margin=plan.margin)
    return grower.grow(n_trees, receipts_of(splitter, depth, plan))


def grown(method, task, n_rows, n_threads=1, order=None, plan=NO_WINDOWS):
    """Grow trees with fixed coins; return everything that follows from the data."""
    layout = DOMAINS[task].layout
    codes, target = random_rows(task, n_rows)
    trees = np.random.default_rng(9).integers(0, 3, size=n_rows).astype(np.uint16)
    if order is not None:
        codes, target, trees = (np.ascontiguousarray(a[order]) for a in (codes, target, trees))
    with Threads(n_threads) as threads:
        engine = rooted_engine(codes, target, trees, 3, layout, threads)
        structure = grown_from(engine, method, task, n_trees=3, plan=plan, threads=threads)
        return structure.features.tobytes(), structure.masks.tobytes(), engine.node_sums(layout.whole_range).tobytes()


# -- the loop ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "plan"), PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("method", METHODS)
def test_growth_does_not_depend_on_threads_chunks_batches_or_the_order_of_rows(monkeypatch, method, task, plan):
    expected = grown(method, task, 9000, plan=plan)
    assert grown(method, task, 9000, plan=plan, n_threads=2) == expected
    assert grown(method, task, 9000, plan=plan, order=np.random.default_rng(3).permutation(9000)) == expected
    width = 8 * len(FEATURES) * 256 * DOMAINS[task].layout.n_columns
    monkeypatch.setattr(partitioned, "CHUNK_BYTES", 4 * width)
    monkeypatch.setattr(candidates, "BATCH_BYTES", 3 * 8 * 3 * 509)
    monkeypatch.setattr(windows, "NODES_PER_BATCH", 5)
    assert grown(method, task, 9000, plan=plan, n_threads=3) == expected
    monkeypatch.setattr(partitioned, "CHUNK_BYTES", 1)
    monkeypatch.setattr(candidates, "BATCH_BYTES", 1)
    monkeypatch.setattr(windows, "NODES_PER_BATCH", 1)
    assert grown(method, task, 9000, plan=plan) == expected


@pytest.mark.parametrize("method", METHODS)
def test_growth_routes_rows_by_its_own_masks(method):
    layout = DOMAINS["binary"].layout
    codes, target = random_rows("binary", 500)
    engine = rooted_engine(codes, target, np.zeros(500), 1, layout, ONE)
    structure = grown_from(engine, method, "binary", depth=5)
    assert structure.features.shape == (1, 31)
    nodes = np.zeros(500, dtype=np.int64)
    for _ in range(5):
        at = codes[np.arange(500), structure.features[0, nodes]]
        nodes = 2 * nodes + 1 + ((structure.masks[0, nodes, at >> 3] >> (at & 7)) & 1)
    sums = np.zeros((32, 2), dtype=np.int64)
    kept = target >= 0
    np.add.at(sums, (nodes[kept] - 31, target[kept]), 1)
    assert (engine.node_sums(layout.whole_range) == sums).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("left_out", [False, True])
@pytest.mark.parametrize("plan", [NO_WINDOWS, SOME_WINDOWS])
def test_trees_without_rows_are_complete(method, left_out, plan):
    domain = DOMAINS["number"]
    codes, target = random_rows("number", 40 if left_out else 0)
    target[:] = -1
    engine = rooted_engine(codes, target, np.zeros(len(codes)), 2, domain.layout, ONE)
    structure = grown_from(engine, method, "number", n_trees=2, plan=plan, source=RandomSource(0))
    assert structure.features.shape == (2, 15)
    regions = Regions.roots(domain, 2)
    for level in range(4):  # every node that can be split is split
        here = slice(2**level - 1, 2 ** (level + 1) - 1)
        features = np.ascontiguousarray(structure.features[:, here].reshape(-1))
        masks = np.ascontiguousarray(structure.masks[:, here].reshape(-1, 32))
        assert (masks.any(axis=1) == regions.splittable().any(axis=1)).all()
        regions = regions.children(features, masks)
    assert not engine.node_sums(domain.layout.whole_range).any()


def test_random_splits_request_no_histogram(monkeypatch):
    def refuse(*_):
        raise AssertionError("random splits looked at the data")

    monkeypatch.setattr(ForestEngine, "histograms", refuse)
    monkeypatch.setattr(ForestEngine, "chunks", refuse)
    monkeypatch.setattr(ForestEngine, "node_target_counts", refuse)
    without, with_rows = (grown("random", "binary", n)[:2] for n in (0, 700))
    assert without == with_rows, "and are the same whatever the data are"
    with pytest.raises(AssertionError, match="looked at the data"):
        grown("diprime", "binary", 700)


# -- receipts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_growth_uses_the_receipts_of_one_round_only(method):
    engine = rooted_engine(*random_rows("number", 50), np.zeros(50), 1, DOMAINS["number"].layout, ONE)
    splitter = splitter_of(method, "number")
    receipts = receipts_of(splitter, 4, SOME_WINDOWS)
    grower = grower_of(engine, splitter, "number")
    grower.grow(1, receipts)
    used = [*receipts.node_windows.values(), *(receipt for level in receipts.levels for receipt in level)]
    assert {receipt.unused for receipt in used} == {0}
    assert receipts.leaves.unused == 1, "leaves are not grown"
    with pytest.raises(UnpaidReleaseError, match=r"0 of . charged"):
        grower.grow(1, receipts)


@pytest.mark.parametrize("method", METHODS[:-1])
def test_level_without_its_receipts_does_not_grow(method):
    engine = rooted_engine(*random_rows("binary", 50), np.zeros(50), 1, DOMAINS["binary"].layout, ONE)
    splitter = splitter_of(method, "binary")
    receipts = receipts_of(splitter, 2)
    grower = grower_of(engine, splitter, "binary")
    with pytest.raises((ValueError, IndexError)):
        grower.grow(1, TreeReceipts({}, [receipts.levels[0], []], receipts.leaves))


# -- windows -----------------------------------------------------------------------------------------------------------


class LoggingEngine(ForestEngine):
    """An engine that tells what growth asks of it, and in which order."""

    def __init__(self, *arguments):
        self.log = []
        super().__init__(*arguments)

    def start(self):
        super().start()
        self.log.clear()
        self.log.append(("start",))

    def node_target_counts(self):
        self.log.append(("target counts", super().node_target_counts()))
        return self.log[-1][1]

    def set_windows(self, windows):
        self.log.append(("set windows", windows))
        super().set_windows(windows)

    def histograms(self, begin, end):
        self.log.append(("histograms",))
        return super().histograms(begin, end)

    def route(self, *splits):
        self.log.append(("route",))
        super().route(*splits)


def ends_of(several):
    """Return the ends of windows as numbers that can be compared."""
    return tuple(zip(several.low.tolist(), several.high.tolist(), strict=True))


def widened_by_a_thirtieth(ends):
    by = [math.ceil((high - low) / 30) for low, high in ends]
    return tuple((max(0, low - b), min(4096, high + b)) for (low, high), b in zip(ends, by, strict=True))


def node_target_counts(structure, codes, target, trees, level):
    """Count the targets of the nodes of a level, by walking every row down its tree."""
    nodes, trees = np.zeros(len(codes), dtype=np.int64), trees.astype(np.int64)
    for _ in range(level):
        code = codes[np.arange(len(codes)), structure.features[trees, nodes]]
        nodes = 2 * nodes + 1 + ((structure.masks[trees, nodes, code >> 3] >> (code & 7)) & 1)
    at, n_nodes, kept = trees * 2**level + nodes - (2**level - 1), len(structure.features) * 2**level, target >= 0
    return np.bincount(at[kept] * 4097 + target[kept], minlength=n_nodes * 4097).reshape(n_nodes, 4097)


@pytest.mark.parametrize("levels", [(), (0,), (1, 3), (2,), (0, 1, 2, 3)])
def test_clipping_ranges_are_released_at_planned_levels_before_histograms(monkeypatch, levels):
    """Each from the targets of that level's nodes, for that level's receipt, and widened by the margin."""
    n_trees, coins, layout = 3, RandomSource(5), DOMAINS["number"].layout
    codes, target = random_rows("number", 900)
    trees = np.random.default_rng(9).integers(0, n_trees, size=900).astype(np.uint16)
    engine = rooted_engine(codes, target, trees, n_trees, layout, ONE, LoggingEngine)

    def release(counts, given_layout, receipt, source):
        assert given_layout is layout
        assert source is coins
        low = np.arange(len(counts)) * 100
        engine.log.append(
            ("release", counts, receipt.charge, ClippingRanges(low, low + 7 * np.arange(1, len(counts) + 1)))
        )
        return engine.log[-1][-1]

    monkeypatch.setattr(train, "release_windows", release)
    plan = WindowPlan({level: Fraction(1, 10 + level) for level in levels}, Fraction(1, 30))
    structure = grown_from(engine, "joint", "number", n_trees=n_trees, plan=plan, source=coins)

    remaining = iter(engine.log)
    assert next(remaining) == ("start",)
    what, for_splits = next(remaining)
    assert (what, ends_of(for_splits)) == ("set windows", ((0, 4096),))
    for level in range(4):
        if level in levels:
            what, counts = next(remaining)
            assert what == "target counts"
            np.testing.assert_array_equal(counts, node_target_counts(structure, codes, target, trees, level))
            what, given, charge, released = next(remaining)
            assert (what, charge.epsilon, charge.level) == ("release", Fraction(1, 10 + level), level)
            assert given is counts
            what, own = next(remaining)
            assert (what, ends_of(own)) == ("set windows", widened_by_a_thirtieth(ends_of(released)))
        assert next(remaining) == ("histograms",)
        assert next(remaining) == ("route",)
    assert next(remaining, None) is None


def test_first_level_uses_the_clipping_range_of_splits():
    """A window that shows all numbers as its low end makes them alike."""
    codes, target = random_rows("number", 9000)
    target = np.where(codes[:, 0] > 100, 4095, target % 4000).astype(np.int32)
    engine = rooted_engine(codes, target, np.zeros(9000), 1, DOMAINS["number"].layout, ONE, LoggingEngine)
    splitter, found = splitter_of("joint", "number"), []
    for low, high in ((0, 4096), (4095, 4096)):
        window = ClippingRanges(np.array([low]), np.array([high]))
        grower = replace(grower_of(engine, splitter, "number"), split_window=window)
        found.append(grower.grow(1, receipts_of(splitter, 1)))
        assert engine.log[1] == ("set windows", window)
    assert (found[0].masks != found[1].masks).any()
