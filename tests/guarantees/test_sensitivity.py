"""One record more or less: costs change within their range, sums change by one record, and nothing else changes."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain import Categorical, Domain, Numeric
from diprime.domain.encoding import TargetLayout
from diprime.forest.candidates import (
    MEDIAN_COST,
    UNBOUNDED_SHORTFALL,
    Candidates,
    CategoricalCandidates,
    Cost,
)
from diprime.forest.engine import NodeHistograms
from diprime.forest.splitters import MedianSplitter
from diprime.forest.sums import STRICT
from diprime.kernels.constants import ABSENT_COST
from diprime.model.trees import Regions
from diprime.privacy.charges import Mechanism
from diprime.privacy.randomness import RandomSource
from tests.candidate_splits import (
    LINEAR_TAILS,
    ONE,
    costs_of_all,
    engine_of,
    histograms_of,
    in_order,
    mask_costs,
    paid_level,
    root_histograms,
)
from tests.encoded_rows import bins_of
from tests.guarantees.neighbours import encoded

FEATURES = {
    "linear": Numeric(-1, 1),
    "log": Numeric(0, 100, scale="log"),
    "few": Numeric(edges=[0, 1]),
    "letter": Categorical(["a", "b", "c"]),
    "number": Categorical(range(12)),
}
TARGETS = {
    "number": (Numeric(0, 10), TargetLayout.of_number(4096)),
    "binary": (Categorical(["no", "yes"]), TargetLayout.of_classes(2)),
    "classes": (Categorical(["p", "q", "r", "s"]), TargetLayout.of_classes(4)),
    "one class": (Categorical(["only"]), TargetLayout.of_classes(1)),
}
ODD_NUMBERS = [math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, -1.0, 1.0, 1e308, None]
COSTS = [
    *(Cost(1024, 0, 0, linear_tail) for linear_tail in LINEAR_TAILS),
    Cost(64, 0),
    Cost(256, 13, 5, Fraction(1, 8)),
    Cost(256, 13, UNBOUNDED_SHORTFALL, Fraction(3, 8)),
    Cost(32, 32_000),
    Cost(32, 32_000, 2, Fraction(31, 64)),
]


def numbers(low, high):
    return st.one_of(st.sampled_from(ODD_NUMBERS), st.floats(low, high), st.sampled_from([low, high, (low + high) / 2]))


def records(task):
    """Draw a record: features, then target."""
    targets = {
        "number": numbers(-1.0, 11.0),
        "binary": st.sampled_from(["no", "yes", "no", "yes", "maybe", None]),
        "classes": st.sampled_from(["p", "q", "r", "s", "t", math.nan]),
        "one class": st.sampled_from(["only", "other"]),
    }
    return st.tuples(
        numbers(-2.0, 2.0),
        numbers(0.0, 200.0),
        st.sampled_from([-1.0, 0.0, -0.0, 0.5, 1.0, math.nan, math.inf]),
        st.sampled_from(["a", "b", "c", "a", "b", "z", None, math.nan]),
        st.sampled_from([*range(14), 3.0, 3.5, None, math.inf]),
        targets[task],
    )


def all_costs(candidates, histograms, n_nodes, cost):
    """Return the costs of all candidates by node, and of the listed masks by the kernel that chooses among medians."""
    costs = costs_of_all(candidates, histograms, 0, n_nodes * candidates.per_node, cost).reshape(n_nodes, -1)
    categories = candidates.categories
    features = np.repeat(np.arange(len(categories.sizes)), categories.sizes)
    again = [
        mask_costs(histograms, np.full(len(features), node), features, categories.masks, cost)
        for node in range(n_nodes)
    ]
    return np.concatenate([costs, again], axis=1)


def check_changes(before, after, touched, cost):
    """Where a record was added, all costs of the node change within an interval as long as the range; else, none."""
    present = before != ABSENT_COST
    assert ((after != ABSENT_COST) == present).all(), "what is a candidate is public"
    for node in range(len(before)):
        change = (after - before)[node, present[node]]
        if not touched[node]:
            assert not change.any()
        elif not cost.units:
            assert set(change.tolist()) <= {0, -2}, "the smaller child gains the record, or does not"
        elif len(change):
            assert np.ptp(change) <= cost.range
        if cost.balance == 0:
            # The impurity only grows, by at most one; the record's own term is common to all candidates.
            assert change.min(initial=0) >= -cost.units - 1
            assert change.max(initial=0) <= cost.units + 1


@pytest.mark.parametrize("task", TARGETS)
@given(data=st.data())
@settings(derandomize=True, deadline=None, max_examples=40)
def test_costs_and_leaf_sums_of_neighbouring_data_sets_are_within_bounds(task, data):
    target_kind, layout = TARGETS[task]
    domain = Domain(FEATURES, target_kind)
    rows = data.draw(st.lists(records(task), max_size=25))
    rows += rows[: data.draw(st.integers(0, len(rows)))]  # duplicates
    record = data.draw(st.one_of(records(task), *([st.sampled_from(rows)] if rows else [])))
    larger = [*rows, record]
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(larger))
    larger = [larger[i] for i in order]

    costs = data.draw(st.permutations(COSTS))[:3]
    one = engine_of(*encoded(domain, rows), layout)
    two = engine_of(*encoded(domain, larger), layout)
    counts = encoded(domain, [record])[1][0] >= 0
    source = RandomSource(data.draw(st.integers(0, 99)))
    categories = CategoricalCandidates.draw(domain, source)
    blind = MedianSplitter(domain, categories, 1, Mechanism.EXPONENTIAL, STRICT, looks_at_data=False)
    regions = Regions.roots(domain, 1)
    for _ in range(3):
        n_nodes = len(regions)
        chosen = np.where(regions.splittable(), np.arange(domain.n_features), -1)
        candidates = Candidates(domain, categories, regions, chosen)
        less, more = histograms_of(one, n_nodes), histograms_of(two, n_nodes)
        touched = (less.bins != more.bins).any(axis=1)
        assert touched.sum() == counts, "one node of a level holds the record"
        for cost in [MEDIAN_COST, *costs]:
            before, after = (all_costs(candidates, histograms, n_nodes, cost) for histograms in (less, more))
            check_changes(before, after, touched, cost)
        level = paid_level(blind, regions, Fraction(0), source)
        level.choose(NodeHistograms.empty(n_nodes, domain.n_features, layout), 0, n_nodes, ONE)
        for engine in (one, two):
            engine.route(level.features, level.masks)
        regions = regions.children(level.features, level.masks)
        change = abs(two.node_sums(layout.whole_range) - one.node_sums(layout.whole_range)).sum(axis=1)
        assert sorted(change.tolist())[-1] == (layout.units if counts else 0)
        assert np.count_nonzero(change) == counts, "one leaf holds the record"


def numeric_candidates(domain):
    """Return the candidates of the first feature at one root."""
    categories = CategoricalCandidates.draw(domain, RandomSource(0))
    return Candidates(domain, categories, Regions.roots(domain, 1), np.zeros((1, 1), dtype=np.int64))


@pytest.mark.parametrize("linear_tail", LINEAR_TAILS)
@pytest.mark.parametrize(("balance", "min_rows"), [(0, 0), (100, UNBOUNDED_SHORTFALL), (100, 3001), (100, 5)])
def test_cost_range_is_tight_up_to_rounding(linear_tail, balance, min_rows):
    """The range is not only enough: a record can move two candidates of a node apart by nearly all of it."""
    target_kind, layout = TARGETS["binary"]
    candidates = numeric_candidates(Domain({"x": Numeric(edges=[1, 2])}, target_kind))
    n = 3000
    codes = np.repeat(np.array([0, 2], dtype=np.uint8), [n, n + 3])[:, None]
    target = np.repeat(np.array([0, 1], dtype=np.int32), [n, n + 3])
    cost = Cost(1024, balance, min_rows, linear_tail)
    # In the middle cell, the record is with its own class by one threshold and with the other, larger one by another.
    before = costs_of_all(candidates, root_histograms(codes, target, layout), 0, 1, cost)[0]
    codes, target = np.append(codes, [[1]], axis=0).astype(np.uint8), np.append(target, 0).astype(np.int32)
    after = costs_of_all(candidates, root_histograms(codes, target, layout), 0, 1, cost)[0]
    change = (after - before)[before != ABSENT_COST]
    unused = balance if min_rows == 5 else 0  # both sides have enough rows: no shortfall changes
    assert cost.range - unused - 3 <= np.ptp(change) <= cost.range - unused
    if not unused:
        assert np.ptp(change) > 0.7 * cost.range


def draw_large_bins(data, layout, rng):
    """Draw the histogram of one feature that holds all but one of the rows that are accepted."""
    columns, most = layout.n_columns, layout.max_rows - 1
    cells = data.draw(st.sampled_from([2, 3, 256]))
    cuts = np.sort(rng.integers(0, most + 1, size=cells * columns - 1))
    counts = np.diff([0, *cuts.tolist(), most]).astype(np.uint64)
    if data.draw(st.booleans()):  # nearly all rows in one cell
        counts[:] = 1
        counts[rng.integers(len(counts))] = most - len(counts) + 1
    if columns > 1:
        values = counts
    else:
        purity = data.draw(st.sampled_from([0.0, 0.5, 1.0, None]))
        shares = rng.choice([0.0, 1.0], size=len(counts)) if purity is None else np.full(len(counts), purity)
        values = (counts * np.uint64(layout.units) * shares).astype(np.uint64)
    bins = np.zeros((1, 256, columns), dtype=np.uint64)
    where = rng.choice(256, size=cells, replace=False)
    bins[0, where] = ((counts << np.uint64(layout.shift)) + values).reshape(cells, columns)
    return bins


@pytest.mark.parametrize("task", ["number", "binary", "classes"])
@given(data=st.data())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_costs_of_neighbouring_histograms_are_within_bounds_at_the_row_limit(task, data):
    target_kind, layout = TARGETS[task]
    candidates = numeric_candidates(Domain({"x": Numeric(0, 1)}, target_kind))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    bins = draw_large_bins(data, layout, rng)
    more = bins.copy()
    value = 1 if layout.n_columns > 1 else data.draw(st.integers(0, layout.units))
    more[0, rng.integers(256), rng.integers(layout.n_columns)] += np.uint64((1 << layout.shift) + value)
    for cost in [MEDIAN_COST, *COSTS]:
        before, after = (costs_of_all(candidates, in_order(b.reshape(1, -1), layout), 0, 1, cost) for b in (bins, more))
        change = after - before
        if cost.units:
            assert np.ptp(change) <= cost.range
        else:
            assert set(change.ravel().tolist()) <= {0, -2}


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 255), st.integers(0, 3)), max_size=30), st.integers(0, 999))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_record_affects_one_tree_with_disjoint_rows(n_trees, rows, seed):
    layout = TargetLayout.of_classes(4)
    rng = np.random.default_rng(seed)
    rows = np.array([*rows, (rng.integers(256), rng.integers(-1, 4))])
    trees = rng.integers(0, n_trees, size=len(rows)).astype(np.uint16)
    codes, target = rows[:, :1].astype(np.uint8), rows[:, 1].astype(np.int32)
    order = rng.permutation(len(rows))
    two = bins_of(engine_of(codes[order], target[order], layout, trees[order], n_trees), 0, n_trees)
    one = bins_of(engine_of(codes[:-1], target[:-1], layout, trees[:-1], n_trees), 0, n_trees)
    changed = np.flatnonzero((one != two).any(axis=1))
    assert changed.tolist() == ([trees[-1]] if target[-1] >= 0 else [])
