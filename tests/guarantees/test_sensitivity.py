"""One record more or less: how far costs and sums move, and the exact privacy loss that follows."""

import datetime
import itertools
import math
from collections import deque
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from diprime import splitters
from diprime._util.threads import Threads
from diprime.domain import Categorical, Domain, Numeric
from diprime.domain.target_layout import TargetLayout
from diprime.kernels import scoring
from diprime.model.regions import Regions
from diprime.privacy.mechanisms.selection import ABSENT_COST, exponential_pmf, permute_and_flip_pmf
from diprime.privacy.mechanisms.subsets import subset_median_pmf
from diprime.privacy.mechanisms.weights import exp_upper, weight_table
from diprime.privacy.randomness import RandomSource
from diprime.training.grow import grow
from diprime.training.splitting.candidates import CategoricalCandidates, _Candidates
from diprime.training.splitting.cost import MAX_UNITS, MEDIAN_COST, UNBOUNDED_SHORTFALL, Cost
from diprime.training.splitting.joint import JointSplitter
from diprime.training.splitting.median import MedianSplitter
from diprime.training.windows import WindowPlan
from tests.encoded_rows import local_histograms

ONE = Threads(1)
NO_WINDOWS = WindowPlan({}, Fraction(0))
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
ENDS = [Fraction(0), Fraction(1, 64), Fraction(1, 8), Fraction(3, 8), Fraction(31, 64)]
COSTS = [
    *(Cost(1024, 0, 0, ends) for ends in ENDS),
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


def encoded(domain, rows):
    """Encode rows of features and target."""
    table = np.empty((len(rows), domain.n_features), dtype=object)
    for i, row in enumerate(rows):
        table[i] = row[:-1]
    target = np.empty(len(rows), dtype=object)
    target[:] = [row[-1] for row in rows]
    return domain.encode(table), domain.encode_target(target)


def engine_of(codes, target, layout, parts=None, n_parts=1):
    parts = np.zeros(len(codes), dtype=np.uint16) if parts is None else parts
    return local_histograms(codes, target, parts, n_parts, layout, ONE)


def candidates_costs(candidates, bins, begin, end, cost):
    """Return the costs of candidates by pair of node and feature, with every slot written out."""
    costs, twice = candidates.costs(bins, begin, end, 0, cost)
    costs[twice > 0, candidates.half :] = costs[twice > 0, : candidates.half]
    return costs


def all_costs(candidates, bins, n_nodes, cost, families):
    """Return the costs of all candidates by node, and of the family masks by the kernel that chooses among medians."""
    costs = candidates_costs(candidates, bins, 0, n_nodes * candidates.per_node, cost).reshape(n_nodes, -1)
    layout = candidates.layout
    size = len(families.masks)
    features = np.repeat(np.arange(len(families.sizes)), families.sizes)
    again = np.empty((n_nodes, size), dtype=np.int64)
    for node in range(n_nodes):
        nodes = np.full(size, node)
        scoring.mask_costs(*rule_and_view(cost, layout, bins), nodes, features, families.masks, again[node])
    return np.concatenate([costs, again], axis=1)


@pytest.mark.parametrize("task", TARGETS)
@given(data=st.data())
@settings(derandomize=True, deadline=None, max_examples=40)
def test_costs_and_leaf_sums_of_neighbouring_data_sets(task, data):
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
    families = CategoricalCandidates.draw(domain, source)
    blind = MedianSplitter(domain, layout, families, 1, "exponential", looks_at_data=False)
    regions = Regions.roots(domain, 1)
    nothing = np.zeros((1, domain.n_features * 256 * layout.n_columns), dtype=np.uint64)
    for _ in range(3):
        n_nodes = len(regions)
        chosen = np.where(regions.splittable(), np.arange(domain.n_features), -1)
        candidates = _Candidates(domain, layout, families, regions, chosen)
        bins, more = one.histograms(0, n_nodes).copy(), two.histograms(0, n_nodes).copy()
        touched = (bins != more).any(axis=1)
        assert touched.sum() == counts, "one node of a level holds the record"
        for cost in [MEDIAN_COST, *costs]:
            before = all_costs(candidates, bins, n_nodes, cost, families)
            after = all_costs(candidates, more, n_nodes, cost, families)
            present = before != ABSENT_COST
            assert ((after != ABSENT_COST) == present).all(), "what is a candidate is public"
            for node in range(n_nodes):
                change = (after - before)[node, present[node]]
                if not touched[node]:
                    assert not change.any()
                elif not cost.units:
                    assert set(change.tolist()) <= {0, -2}, "two less of twice what the smaller side lacks, or the same"
                elif len(change):
                    assert np.ptp(change) <= cost.range
                if cost.balance == 0:
                    # Impurity only grows, by at most one; what the record has of its own is common to all candidates.
                    assert change.min(initial=0) >= -cost.units - 1
                    assert change.max(initial=0) <= cost.units + 1
        level = blind.level(regions, Fraction(0), source)
        level.choose(nothing, 0, n_nodes, ONE)
        for engine in (one, two):
            engine.route(level.features, level.masks)
        regions = regions.children(level.features, level.masks)
        change = abs(two.sums() - one.sums()).sum(axis=1)
        assert sorted(change.tolist())[-1] == (layout.units if counts else 0)
        assert np.count_nonzero(change) == counts, "one leaf holds the record"


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(("balance", "enough"), [(0, 0), (100, UNBOUNDED_SHORTFALL), (100, 3001), (100, 5)])
def test_the_range_of_a_cost_is_used_up_to_the_rounding(ends, balance, enough):
    """The range is not only enough: a record can move two candidates of a node by nearly all of it."""
    domain = Domain({"x": Numeric(edges=[1, 2])}, TARGETS["binary"][0])
    layout = TARGETS["binary"][1]
    families = CategoricalCandidates.draw(domain, RandomSource(0))
    candidates = _Candidates(domain, layout, families, Regions.roots(domain, 1), np.zeros((1, 1), dtype=np.int64))
    n = 3000
    codes = np.repeat(np.array([0, 2], dtype=np.uint8), [n, n + 3])[:, None]
    target = np.repeat(np.array([0, 1], dtype=np.int32), [n, n + 3])
    cost = Cost(1024, balance, enough, ends)
    # In the middle cell either side of two thresholds takes the record: its like, or all the others, which are more.
    before = candidates_costs(candidates, engine_of(codes, target, layout).histograms(0, 1), 0, 1, cost)[0]
    codes, target = np.append(codes, [[1]], axis=0).astype(np.uint8), np.append(target, 0).astype(np.int32)
    after = candidates_costs(candidates, engine_of(codes, target, layout).histograms(0, 1), 0, 1, cost)[0]
    change = (after - before)[before != ABSENT_COST]
    unused = balance if enough == 5 else 0  # both sides have enough: no candidate lacks less than before
    assert cost.range - unused - 3 <= np.ptp(change) <= cost.range - unused
    if not unused:
        assert np.ptp(change) > 0.7 * cost.range


@pytest.mark.parametrize("task", ["number", "binary", "classes"])
@given(data=st.data())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_costs_of_neighbouring_histograms_at_the_largest_number_of_rows(task, data):
    _, layout = TARGETS[task]
    domain = Domain({"x": Numeric(0, 1)}, TARGETS[task][0])
    families = CategoricalCandidates.draw(domain, RandomSource(0))
    candidates = _Candidates(domain, layout, families, Regions.roots(domain, 1), np.zeros((1, 1), dtype=np.int64))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
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
    where = rng.choice(256, size=cells, replace=False)
    bins = np.zeros((1, 256, columns), dtype=np.uint64)
    bins[0, where] = ((counts << np.uint64(layout.shift)) + values).reshape(cells, columns)
    more = bins.copy()
    value = 1 if columns > 1 else data.draw(st.integers(0, layout.units))
    more[0, rng.integers(256), rng.integers(columns)] += np.uint64((1 << layout.shift) + value)
    for cost in [MEDIAN_COST, *COSTS]:
        before = candidates_costs(candidates, bins.reshape(1, -1), 0, 1, cost)
        after = candidates_costs(candidates, more.reshape(1, -1), 0, 1, cost)
        change = after - before
        if cost.units:
            assert np.ptp(change) <= cost.range
        else:
            assert set(change.ravel().tolist()) <= {0, -2}


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 255), st.integers(0, 3)), max_size=30), st.integers(0, 999))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_with_the_same_coins_one_tree_alone_sees_the_record(n_parts, rows, seed):
    layout = TargetLayout.of_classes(4)
    rng = np.random.default_rng(seed)
    rows = np.array([*rows, (rng.integers(256), rng.integers(-1, 4))])
    parts = rng.integers(0, n_parts, size=len(rows)).astype(np.uint16)
    codes, target = rows[:, :1].astype(np.uint8), rows[:, 1].astype(np.int32)
    order = rng.permutation(len(rows))
    two = engine_of(codes[order], target[order], layout, parts[order], n_parts).histograms(0, n_parts)
    one = engine_of(codes[:-1], target[:-1], layout, parts[:-1], n_parts).histograms(0, n_parts)
    changed = np.flatnonzero((one != two).any(axis=1))
    assert changed.tolist() == ([parts[-1]] if target[-1] >= 0 else [])


BIG = 2**53
ODD_VALUES = [
    0, 1, 1.0, 0.1, 1.5, True, None, "1", " 2 ", "nan", "abc", "a", "", b"1.5", b"a", Decimal("0.1"), Decimal("sNaN"),
    Fraction(1, 10), 10**400, -(10**400), BIG, 2**63, -(2**63), np.float16(0.1), np.float32(0.1), np.uint8(3),
    np.bool_(True), np.str_("a"), datetime.date(2020, 1, 1), datetime.timedelta(1), math.nan, math.inf, -0.0,
    frozenset([1]),
]  # fmt: skip
KINDS = {
    "linear": Numeric(0, 10),
    "edges": Numeric(edges=[0.05, 0.1, 0.10000000149, 1, 2, 1e15]),
    "integers": Categorical([0, 1, 3]),
    "large": Categorical([BIG, BIG + 1, 2**63]),
    "text": Categorical(["a", "1", "nan", "None", ""]),
    "mixed": Categorical(["a", 1, b"a", 0.1, datetime.date(2020, 1, 1)]),
}


def as_list(values):
    return [[v] for v in values]


def as_objects(values):
    table = np.empty((len(values), 1), dtype=object)
    for i, value in enumerate(values):
        table[i, 0] = value
    return table


def codes_with(container, kind, value, other):
    """Return the code of a value alone, and beside another record."""
    domain = Domain({"x": KINDS[kind]}, target=KINDS["integers"])
    return domain.encode(container([value]))[0, 0], domain.encode(container([value, value, other]))[0, 0]


@pytest.mark.parametrize("container", [as_list, as_objects])
@pytest.mark.parametrize("kind", KINDS)
def test_the_code_of_a_record_does_not_depend_on_the_others(kind, container):
    for value, other in itertools.product(ODD_VALUES, repeat=2):
        alone, beside = codes_with(container, kind, value, other)
        assert alone == beside, (value, other)


@pytest.mark.parametrize("value", [np.datetime64("2020-01-01"), np.timedelta64(5, "s")])
def test_times_among_objects_do_not_depend_on_the_others(value):
    alone, beside = codes_with(as_objects, "linear", value, "abc")
    assert alone == beside


@pytest.mark.parametrize(("value", "other"), [(BIG + 1, 0.5), (np.uint64(BIG + 1), np.int64(-1))])
def test_large_integers_in_lists_do_not_depend_on_the_others(value, other):
    alone, beside = codes_with(as_list, "large", value, other)
    assert alone == beside


# -- the exact privacy loss of a level ---------------------------------------------------------------------------------

TINY = Domain({"x": Numeric(edges=[0.5]), "c": Categorical(["a"])}, target=Categorical(["no", "yes"]))
TINY_NUMBER = Domain(TINY.features, target=Numeric(0, 1))
# All the records that codes can tell apart, but for the level "other".
TINY_RECORDS = list(itertools.product([0.0, 1.0, None], ["a", "b"], ["no", "yes"]))
NUMBER_RECORDS = list(itertools.product([0.0, 1.0, None], ["a", "b"], [0.0, 0.5, 1.0]))
EPSILON = Fraction(3, 2)


def make_splitter(method, domain, layout, ends=Fraction(1, 8)):
    families = CategoricalCandidates.draw(domain, RandomSource(0))
    if method == "joint":
        ends = ends if layout.units == 1 else Fraction(0)
        return JointSplitter(domain, layout, families, domain.n_features, Fraction(1, 10), ends)
    rule = "permute-and-flip" if method == "diprime-flip" else "exponential"
    k = 1 if method == "diprime" else domain.n_features
    return MedianSplitter(domain, layout, families, k, rule)


def mask_key(mask):
    return mask.tobytes()


def exact_distribution(level, bins):
    """Return the distribution of the split of a root, in fractions, out of the level's own costs and tables."""
    candidates = level.candidates
    if not isinstance(level, splitters._MedianLevel):
        costs = candidates_costs(candidates, bins, 0, candidates.per_node, level.cost)
        pmf = exponential_pmf(costs.ravel().tolist(), level.table)
        result = {}
        for at, p in enumerate(pmf):
            if costs.ravel()[at] != ABSENT_COST:
                pair, slot = divmod(at, candidates.n_slots)
                mask = candidates.masks(np.array([pair]), np.array([slot]))[0]
                key = (int(candidates.features[pair]), mask_key(mask))
                result[key] = result.get(key, 0) + p
        return result
    flip = level.splitter.rule == "permute-and-flip"
    select_pmf = permute_and_flip_pmf if flip else exponential_pmf
    layout, medians = level.splitter.layout, []
    for pair, feature in enumerate(candidates.features):
        if candidates.kind[pair] == 1 and not flip:
            codes = [*range(level.splitter.domain.n_codes[feature]), 254, 255]
            cells = bins[0].reshape(-1, 256, layout.n_columns)[feature, codes] >> np.uint64(layout.shift)
            found = subset_median_pmf(cells.sum(axis=1).astype(int).tolist(), level.median_table)
            options = []
            for right, p in found.items():
                bits = np.zeros(256, dtype=np.uint8)
                bits[codes] = right
                options.append((int(feature), np.packbits(bits, bitorder="little"), p))
        else:
            row = candidates_costs(candidates, bins, pair, pair + 1, MEDIAN_COST)[0]
            slots = np.flatnonzero(row != ABSENT_COST)
            pmf = select_pmf(row[slots].tolist(), level.median_table)
            masks = candidates.masks(np.full(len(slots), pair), slots)
            options = [(int(feature), mask, p) for mask, p in zip(masks, pmf, strict=True)]
        medians.append(options)
    quality = level.splitter.quality
    if level.choice_table is None:
        return {(feature, mask_key(mask)): p for feature, mask, p in medians[0]}

    @cache
    def choice(costs):
        return select_pmf(costs, level.choice_table)

    def cost_of(feature, mask):
        out = np.empty(1, dtype=np.int64)
        scoring.mask_costs(*rule_and_view(quality, layout, bins), np.array([0]), np.array([feature]), mask[None], out)
        return int(out[0])

    priced = [[(f, mask_key(m), p, cost_of(f, m)) for f, m, p in options] for options in medians]
    result = {}
    for drawn in itertools.product(*priced):
        probability = math.prod(p for _, _, p, _ in drawn)
        for (feature, mask, _, _), p in zip(drawn, choice(tuple(c for *_, c in drawn)), strict=True):
            result[feature, mask] = result.get((feature, mask), 0) + probability * p
    return result


def largest_loss(first, second, epsilon):
    """Return whether two distributions are epsilon-close, decided in integers, and the largest log-ratio as a float."""
    assert first.keys() == second.keys()
    bits = 100
    shrink = exp_upper(epsilon, bits)  # at least 2^bits·e^-epsilon: a bound that holds for it holds for e^-epsilon
    close, loss = True, 0.0
    for key, p in first.items():
        q = second[key]
        close &= p * shrink <= q * 2**bits and q * shrink <= p * 2**bits
        loss = max(loss, abs(math.log(p / q)))
    return close, loss


def losses_of_all_neighbours(method, domain, kinds, sizes, level_for):
    """Yield closeness and loss for all data sets up to a size and every record added to them."""
    layout = TargetLayout.of_number(4096) if isinstance(domain.target, Numeric) else TargetLayout.of_classes(2)
    level = level_for(make_splitter(method, domain, layout), Regions.roots(domain, 1))

    @cache
    def distribution(data):
        bins = engine_of(*encoded(domain, [kinds[i] for i in data]), layout).histograms(0, 1)
        result = exact_distribution(level, bins)
        assert sum(result.values()) == 1
        return result

    for size in sizes:
        for data in itertools.combinations_with_replacement(range(len(kinds)), size):
            for record in range(len(kinds)):
                neighbour = tuple(sorted((*data, record)))
                yield largest_loss(distribution(data), distribution(neighbour), EPSILON)


def honest(splitter, regions):
    return splitter.level(regions, EPSILON, RandomSource(0))


def twice_the_budget(splitter, regions):
    """Prepare a level with every table made for 2·epsilon: what a wrong factor ½ would do."""
    original = splitters.weight_table
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitters, "weight_table", lambda epsilon, *rest: original(2 * epsilon, *rest))
        return splitter.level(regions, EPSILON, RandomSource(0))


CASES = [
    ("joint", TINY, TINY_RECORDS, (0, 1, 2)),
    ("joint", TINY_NUMBER, NUMBER_RECORDS, (0, 1)),
    ("diprime", TINY, TINY_RECORDS, (0, 1, 2)),
    ("diprime-exp", TINY, TINY_RECORDS, (0, 1)),
    ("diprime-flip", TINY, TINY_RECORDS, (0, 1)),
]


@pytest.mark.parametrize(("method", "domain", "kinds", "sizes"), CASES)
def test_no_split_of_a_level_is_more_than_its_epsilon_likelier_on_a_neighbour(method, domain, kinds, sizes):
    found = list(losses_of_all_neighbours(method, domain, kinds, sizes, honest))
    assert all(close for close, _ in found)
    assert max(loss for _, loss in found) > float(EPSILON) / 8, "a test in which nothing happens shows nothing"


@pytest.mark.parametrize("feature", [0, 1])
def test_a_median_of_either_kind_of_feature_loses_at_most_its_epsilon(feature):
    def level_for(splitter, regions):
        levels = (splitter.level(regions, EPSILON, RandomSource(seed)) for seed in range(20))
        return next(level for level in levels if level.candidates.features[0] == feature)

    found = list(losses_of_all_neighbours("diprime", TINY, TINY_RECORDS, (0, 1, 2), level_for))
    assert all(close for close, _ in found)
    assert max(loss for _, loss in found) > float(EPSILON) / 2


@pytest.mark.parametrize("method", ["joint", "diprime"])
def test_the_exact_loss_shows_a_table_made_for_twice_the_epsilon(method):
    sizes = (2, 3) if method == "joint" else (2,)
    kinds = TINY_RECORDS[:8] if method == "joint" else TINY_RECORDS
    found = list(losses_of_all_neighbours(method, TINY, kinds, sizes, twice_the_budget))
    assert not all(close for close, _ in found)


def test_two_levels_lose_at_most_the_sum():
    domain, layout = TINY, TargetLayout.of_classes(2)
    splitter = make_splitter("joint", domain, layout)
    root = Regions.roots(domain, 1)

    def distribution(rows):
        codes, target = encoded(domain, rows)
        level = honest(splitter, root)
        top = exact_distribution(level, engine_of(codes, target, layout).histograms(0, 1))
        result = {}
        for (feature, mask), p in top.items():
            features = np.array([feature], dtype=np.int32)
            masks = np.frombuffer(mask, dtype=np.uint8)[None].copy()
            engine = engine_of(codes, target, layout)
            engine.route(features, masks)
            regions = root.children(features, masks)
            bins = engine.histograms(0, 2)
            children = []
            for node in (0, 1):
                one = Regions(*(a[node : node + 1] for a in (regions.low, regions.high, regions.missing)),
                              regions.allowed[node : node + 1], regions.categorical_index)  # fmt: skip
                children.append(exact_distribution(honest(splitter, one), bins[node : node + 1]))
            for (a, p_a), (b, p_b) in itertools.product(children[0].items(), children[1].items()):
                result[feature, mask, a, b] = p * p_a * p_b
        assert sum(result.values()) == 1
        return result

    losses = []
    for rows, record in [
        ([], TINY_RECORDS[0]),
        (TINY_RECORDS[:3], TINY_RECORDS[3]),
        ([TINY_RECORDS[i] for i in (0, 0, 7, 7)], TINY_RECORDS[7]),
    ]:
        close, loss = largest_loss(distribution(rows), distribution([*rows, record]), 2 * EPSILON)
        assert close
        losses.append(loss)
    assert max(losses) > 0.05


# -- the audit: many trees, grown as they are in a fit -----------------------------------------------------------------

AUDIT_TREES = 60_000
AUDIT_DOMAIN = Domain({"x": Numeric(edges=[0.5])}, target=Categorical(["no", "yes"]))
AUDIT_EPSILON = Fraction(1)


def observed_splits(method, codes, target, seed):
    """Grow one-level trees, each on its own copy of the data; count the splits."""
    layout = TargetLayout.of_classes(2)
    splitter = make_splitter(method, AUDIT_DOMAIN, layout)
    if method == "joint":
        splitter.balance = Fraction(1)
    n = len(codes)
    parts = np.repeat(np.arange(AUDIT_TREES), n).astype(np.uint16)
    engine = engine_of(np.tile(codes, (AUDIT_TREES, 1)), np.tile(target, AUDIT_TREES), layout, parts, AUDIT_TREES)
    source = RandomSource(seed)
    structure = grow(engine, splitter, AUDIT_DOMAIN, AUDIT_TREES, [AUDIT_EPSILON], NO_WINDOWS, source, ONE)
    masks, counts = np.unique(structure.masks[:, 0, [0, 31]], axis=0, return_counts=True)
    return {mask.tobytes(): int(count) for mask, count in zip(masks, counts, strict=True)}


def proven_loss(method, error=1e-9):
    """Return a lower confidence bound of the privacy loss between two neighbouring data sets."""
    # Cells 0 and 1, and missing values 255. "Cell 0 alone" is a bad split of the first data set, less so of the second.
    codes = np.array([[1], [1], [255], [255]], dtype=np.uint8)
    target = np.array([0, 0, 1, 1], dtype=np.int32)
    first = observed_splits(method, codes, target, 1)
    codes, target = np.vstack([codes, [[0]]]).astype(np.uint8), np.append(target, 0).astype(np.int32)
    second = observed_splits(method, codes, target, 2)
    n, loss = AUDIT_TREES, 0.0
    for key in first | second:
        for a, b in itertools.permutations([first.get(key, 0), second.get(key, 0)]):
            low = beta.ppf(error, a, n - a + 1) if a else 0.0
            high = beta.isf(error, b + 1, n - b) if b < n else 1.0
            loss = max(loss, math.log(low / high) if low > 0 else 0.0)
    return loss


@pytest.mark.parametrize("method", ["joint", "diprime", "diprime-flip"])
def test_audit_of_many_trees_passes_and_has_the_power_to_catch_twice_the_budget(monkeypatch, method):
    assert proven_loss(method) <= AUDIT_EPSILON
    original = weight_table
    monkeypatch.setattr(splitters, "weight_table", lambda epsilon, *rest: original(2 * epsilon, *rest))
    assert proven_loss(method) > AUDIT_EPSILON


def test_the_trees_of_the_audit_follow_the_exact_distribution():
    layout = TargetLayout.of_classes(2)
    codes, target = np.array([[1], [1], [255], [0]], dtype=np.uint8), np.array([0, 1, 1, 1], dtype=np.int32)
    for method in ("joint", "diprime", "diprime-flip"):
        splitter = make_splitter(method, AUDIT_DOMAIN, layout)
        if method == "joint":
            splitter.balance = Fraction(1)
        level = splitter.level(Regions.roots(AUDIT_DOMAIN, 1), AUDIT_EPSILON, RandomSource(0))
        exact = exact_distribution(level, engine_of(codes, target, layout).histograms(0, 1))
        seen = observed_splits(method, codes, target, 3)
        assert len(exact) == 4
        for (_, mask), p in exact.items():
            count = seen[mask[:1] + mask[31:]]
            assert abs(count - AUDIT_TREES * p) < 5 * math.sqrt(AUDIT_TREES * p * (1 - p))


def test_units_of_the_joint_cost_are_what_the_range_says():
    assert MAX_UNITS == 1024
    ends = Fraction(1, 8)
    assert Cost.joint(Fraction(1), Fraction(1, 100), ends) == Cost(1024, 10, 5 * 1036 // 10, ends)
    assert Cost.joint(Fraction(1, 100), Fraction(1, 100), ends) == Cost(32, 0, 0, ends)


BOTH_LARGE = [BIG, BIG + 1]


def reads(make, values, added):
    """Return the codes of the values alone, and beside one more record."""
    domain = Domain({"a": Categorical(BOTH_LARGE)}, Categorical(BOTH_LARGE))
    alone, beside = (make(domain, [*values, *more]) for more in ([], [added]))
    return list(alone), list(beside)[: len(values)]


CONTAINERS = {
    "list of lists as y": lambda d, v: d.encode_target([[x] for x in v]),
    "list as y": lambda d, v: d.encode_target(v),
    "deque as y": lambda d, v: d.encode_target(deque(v)),
    "deque of rows": lambda d, v: d.encode(deque([x] for x in v))[:, 0],
    "pyarrow array": lambda d, v: d.encode_target(pa.array(v, type=pa.int64())),
    "pyarrow batch": lambda d, v: d.encode(pa.record_batch({"a": pa.array(v, type=pa.int64())}))[:, 0],
    "pandas array": lambda d, v: d.encode_target(pd.array(v, dtype="Int64")),
    "pandas index": lambda d, v: d.encode_target(pd.Index(pd.array(v, dtype="Int64"))),
    "pandas arrow": lambda d, v: d.encode_target(pd.array(v, dtype="int64[pyarrow]")),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_missing_value_changes_nobody_else_in_any_container(container):
    alone, beside = reads(CONTAINERS[container], BOTH_LARGE, None)
    assert alone == beside == [0, 1]


@pytest.mark.parametrize("added", [0.5, "q", [], [BIG], (1, 2), np.array(1.0), np.ma.masked])
@pytest.mark.parametrize("container", ["list of lists as y", "list as y", "deque as y", "deque of rows"])
def test_a_record_of_another_type_changes_nobody_else(container, added):
    alone, beside = reads(CONTAINERS[container], BOTH_LARGE, added)
    assert alone == beside == [0, 1]


def test_large_integers_of_arrow_are_clamped_and_never_an_error():
    domain = Domain({"a": Numeric(0, 255)}, Numeric(0, 4096))
    large = pa.table({"a": [1, 2**60 + 1, None]})
    assert domain.encode(large)[:, 0].tolist() == [1, 254, 255]
    assert domain.encode(large.to_pandas(types_mapper=pd.ArrowDtype))[:, 0].tolist() == [1, 254, 255]
    assert domain.encode_target(large["a"]).tolist() == [1, 4096, -1]


def test_integers_of_128_bits_are_clamped_and_never_an_error():
    domain = Domain({"a": Numeric(0, 255)}, Numeric(0, 4096))
    large = pl.DataFrame({"a": pl.Series([1, 2**100, -(2**100), None], dtype=pl.Int128)})
    assert domain.encode(large)[:, 0].tolist() == [1, 254, 0, 255]
    assert domain.encode_target(large["a"]).tolist() == [1, 4096, 0, -1]


def test_tuples_in_rows_and_odd_dictionaries_are_read_value_by_value():
    tuples = Domain({"a": Categorical([(1, 2), (3, 4)])}, Categorical([0, 1]))
    assert tuples.encode([[(1, 2)], [(3, 4)]])[:, 0].tolist() == [0, 1]
    assert tuples.encode([[(1, 2)], [(3, 4)], [None]])[:, 0].tolist() == [0, 1, 255]
    text = Domain({"a": Categorical(["x", "y"])}, Categorical([0, 1]))
    chunks = [pa.DictionaryArray.from_arrays([0, 1], ["x", None]), pa.DictionaryArray.from_arrays([0], ["y"])]
    assert text.encode(pa.table({"a": pa.chunked_array(chunks)}))[:, 0].tolist() == [0, 255, 1]
    no_text = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"x\xff")]
    )
    assert text.encode(pa.table({"a": no_text}))[:, 0].tolist() == [0, 254]
