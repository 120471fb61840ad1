"""Candidates, regions, families and splitters: what may be chosen is public, what it costs is exact."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import splitters
from diprime._util.threads import Threads
from diprime.domain import MISSING, OTHER, Categorical, Domain, Numeric
from diprime.domain.target_layout import TargetLayout
from diprime.kernels import scoring
from diprime.model.regions import Regions
from diprime.privacy.mechanisms.selection import ABSENT_COST
from diprime.privacy.randomness import RandomSource
from diprime.training.grow import grow
from diprime.training.splitting.candidates import CategoricalCandidates, _Candidates, draw_features
from diprime.training.splitting.cost import MAX_UNITS, MEDIAN_COST, UNBOUNDED_SHORTFALL, Cost
from diprime.training.splitting.joint import JointSplitter
from diprime.training.splitting.median import MedianSplitter
from diprime.training.windows import WindowPlan
from tests.encoded_rows import local_histograms
from tests.exact_costs import impurity_of_share

NO_WINDOWS = WindowPlan({}, Fraction(0))
CLASSES = Categorical(["no", "yes"])
DOMAIN = Domain(
    {
        "x": Numeric(edges=[1, 2, 3]),
        "c": Categorical(["a", "b", "c"]),
        "flag": Categorical([False, True]),
        "many": Categorical(range(11)),
        "edge": Numeric(edges=[0]),
    },
    target=CLASSES,
)
LAYOUTS = [TargetLayout.of_classes(2), TargetLayout.of_classes(4), TargetLayout.of_number(4096)]
ENDS = [Fraction(0), Fraction(1, 64), Fraction(1, 8), Fraction(3, 8), Fraction(31, 64)]
ONE = Threads(1)


def codes_of(domain, feature):
    """Return every code that a feature can have."""
    if domain.is_categorical[feature]:
        return [*range(domain.n_codes[feature]), OTHER, MISSING]
    return [*range(domain.n_codes[feature]), MISSING]


def random_rows(domain, layout, n, seed):
    """Return codes and targets that use every code of every feature."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice(codes_of(domain, j), size=n) for j in range(domain.n_features)]
    codes = np.ascontiguousarray(np.stack(columns, axis=1).astype(np.uint8))
    high = layout.units + 1 if layout.units > 1 else layout.n_outputs
    return codes, rng.integers(0, high, size=n).astype(np.int32)


def goes_right(masks, codes):
    """Return the bits of codes in masks."""
    return (masks[..., codes >> 3] >> (codes & 7)) & 1 == 1


def engine_of(codes, target, layout, parts=None, n_parts=1, threads=ONE):
    parts = np.zeros(len(codes), dtype=np.uint16) if parts is None else parts
    return local_histograms(codes, target, parts, n_parts, layout, threads)


def vectors_of(target, layout):
    """Return the integer vectors of records."""
    if layout.units > 1:
        return np.stack([layout.units - target, target], axis=1).astype(np.int64)
    return np.eye(layout.n_outputs, dtype=np.int64)[target]


def exact_gain(vectors, right, cost, layout):
    """Return units·(impurity's common term less impurity) in exact arithmetic, for scaled targets."""
    gain = Fraction(0)
    weight = 1 if layout.n_outputs == 2 else Fraction(1, 2)
    for side in (vectors[right], vectors[~right]):
        if len(side):
            sums = side.sum(axis=0)
            # The kernels leave out the other entry of two; for them both entries of two deviate alike.
            for s in sums[1:] if layout.n_outputs == 2 else sums:
                p = Fraction(int(s), len(side) * layout.units)
                gain += weight * len(side) * (p - impurity_of_share(p, cost.ends))
    return cost.units * gain


def costs_of_all(candidates, bins, begin, end, first_node, cost, **kwargs):
    """Return the costs of candidates with every slot written out."""
    costs, twice = candidates.costs(bins, begin, end, first_node, cost, **kwargs)
    costs[twice > 0, candidates.half :] = costs[twice > 0, : candidates.half]
    return costs


def random_levels(domain, layout, families, n_trees, depth, seed):
    """Split at random, blind to data; yield regions, features and masks of each level."""
    splitter = MedianSplitter(domain, layout, families, 1, "exponential", looks_at_data=False)
    source = RandomSource(seed)
    regions = Regions.roots(domain, n_trees)
    nothing = np.zeros((1, domain.n_features * 256 * layout.n_columns), dtype=np.uint64)
    for _ in range(depth):
        level = splitter.level(regions, Fraction(0), source)
        level.choose(nothing, 0, len(regions), ONE)
        yield regions, level.features, level.masks
        regions = regions.children(level.features, level.masks)
    yield regions, None, None


# -- masks, regions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_regions_are_what_the_path_leaves_and_children_never_offer_what_it_excludes(seed):
    layout = LAYOUTS[0]
    families = CategoricalCandidates.draw(DOMAIN, RandomSource(seed))
    # What can occur at a node, by listing: for each feature the codes that every mask of the path lets through.
    possible = [[set(codes_of(DOMAIN, j)) for j in range(DOMAIN.n_features)] for _ in range(2)]
    for regions, features, masks in random_levels(DOMAIN, layout, families, 2, 7, seed):
        assert len(regions) == len(possible)
        splittable = regions.splittable()
        for node, sets in enumerate(possible):
            for j, codes in enumerate(sets):
                assert splittable[node, j] == (len(codes) > 1)
                if DOMAIN.is_categorical[j]:
                    bits = np.unpackbits(regions.allowed[node, regions.categorical_index[j]], bitorder="little")
                    assert set(np.flatnonzero(bits)) == codes
                elif codes:
                    low, high = int(regions.low[node, j]), int(regions.high[node, j])
                    assert bool(regions.missing[node, j]) == (MISSING in codes)
                    assert set(range(low, high + 1)) == codes - {MISSING}
        chosen = np.tile(np.arange(DOMAIN.n_features), (len(regions), 1))
        chosen = np.where(splittable, chosen, -1)
        candidates = _Candidates(DOMAIN, layout, families, regions, chosen)
        empty = np.zeros((1, DOMAIN.n_features * 256), dtype=np.uint64)
        costs = costs_of_all(candidates, empty, 0, chosen.size, 0, MEDIAN_COST)
        for pair, row in enumerate(costs):
            slots = np.flatnonzero(row != ABSENT_COST)
            if candidates.features[pair] < 0:
                assert not len(slots)
                continue
            node, feature = divmod(pair, DOMAIN.n_features)
            codes = np.array(sorted(possible[node][feature]))
            offered = candidates.masks(np.full(len(slots), pair), slots)
            rights = goes_right(offered, codes)
            parts = rights.any(axis=1) & ~rights.all(axis=1)
            if DOMAIN.is_categorical[feature]:
                own = families.masks[families.starts[feature] :][: families.sizes[feature]]
                expected = {m.tobytes() for m in own if 0 < goes_right(m, codes).sum() < len(codes)}
                assert {m.tobytes() for m in offered} == expected
                assert parts.all(), "every candidate parts what can occur"
            else:
                cells, has_missing = codes[codes != MISSING], MISSING in codes
                count = 2 * len(cells) if has_missing else len(cells) - 1
                assert len({r.tobytes() for r in rights}) == len(slots) == count
                # Only the last threshold, with the missing values on the side of all numbers, splits nothing.
                nothing = slots == cells.max() if has_missing else np.zeros(len(slots), dtype=bool)
                assert (parts == ~nothing).all()
        if features is None:
            break
        children = []
        for node, sets in enumerate(possible):
            for side in (False, True):
                child = [set(s) for s in sets]
                f = features[node]
                child[f] = {c for c in child[f] if bool(goes_right(masks[node], np.array([c]))[0]) == side}
                children.append(child)
        possible = children


# -- families ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(1, 9))
def test_up_to_eight_levels_every_split_is_a_candidate_exactly_once(k):
    domain = Domain({"c": Categorical(range(k))}, target=CLASSES)
    families = CategoricalCandidates.draw(domain, RandomSource(0))
    codes = np.array(codes_of(domain, 0))
    sides = [tuple(bool(b) for b in row) for row in goes_right(families.masks, codes)]
    n = len(codes)
    every = {s for s in itertools.product([False, True], repeat=n) if not s[0] and any(s)}
    assert len(sides) == families.sizes[0] == len(every) == 2 ** (n - 1) - 1
    assert set(sides) == every
    assert CategoricalCandidates.draw(domain, RandomSource(1)).masks.tobytes() == families.masks.tobytes()


@pytest.mark.parametrize("k", [9, 40, 254, 300])
def test_above_eight_levels_each_code_stands_against_the_rest_beside_a_fixed_number_of_random_subsets(k):
    domain = Domain({"x": Numeric(0, 1), "c": Categorical(range(k))}, target=CLASSES)
    families = CategoricalCandidates.draw(domain, RandomSource(0))
    codes = np.array(codes_of(domain, 1))
    assert len(codes) == min(k, 254) + 2
    assert families.sizes.tolist() == [0, len(codes) + splitters.N_RANDOM_SUBSETS]
    sides = goes_right(families.masks, codes)
    assert (sides[: len(codes)] == np.eye(len(codes), dtype=bool)).all()
    random = sides[len(codes) :]
    assert abs(random.mean() - 0.5) < 5 * 0.5 / math.sqrt(random.size)
    assert CategoricalCandidates.draw(domain, RandomSource(0)).masks.tobytes() == families.masks.tobytes()
    assert CategoricalCandidates.draw(domain, RandomSource(1)).masks.tobytes() != families.masks.tobytes()
    outside = np.setdiff1d(np.arange(256), codes)
    assert not goes_right(families.masks, outside).any()


# -- costs -------------------------------------------------------------------------------------------------------------


COSTS = {
    "quality": Cost(1024, 0),
    "joint": Cost(64, 3),
    "few rows are enough": Cost(64, 3, 6, Fraction(1, 64)),
    "flat ends": Cost(1024, 20, 30, Fraction(1, 8)),
    "steep": Cost(1024, 0, 0, Fraction(3, 8)),
    "steepest": Cost(32, 1, 0, Fraction(31, 64)),
    "median": MEDIAN_COST,
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=["binary", "classes", "number"])
@pytest.mark.parametrize("kind", COSTS)
def test_costs_are_those_of_the_definition_for_every_candidate_of_every_node(layout, kind):
    cost = COSTS[kind]
    families = CategoricalCandidates.draw(DOMAIN, RandomSource(5))
    codes, target = random_rows(DOMAIN, layout, 90, 7)
    codes[:30, 0] = 1  # a feature of which few are missing, so that some nodes have none
    engine = engine_of(codes, target, layout)
    nodes = np.zeros(len(codes), dtype=np.int64)
    vectors = vectors_of(target, layout)
    checked = without_missing = 0
    for regions, features, masks in random_levels(DOMAIN, layout, families, 1, 3, 11):
        chosen = np.where(regions.splittable(), np.arange(DOMAIN.n_features), -1)
        candidates = _Candidates(DOMAIN, layout, families, regions, chosen)
        bins = engine.histograms(0, len(regions))
        costs = costs_of_all(candidates, bins, 0, chosen.size, 0, cost)
        for pair, slot in np.argwhere(costs != ABSENT_COST)[::7]:
            node, feature = divmod(int(pair), DOMAIN.n_features)
            rows = nodes == node
            mask = candidates.masks(np.array([pair]), np.array([slot]))
            right = goes_right(mask[0], codes[rows, feature])
            n_right = int(right.sum())
            lacking = max(0, cost.enough - min(n_right, len(right) - n_right))
            gain = exact_gain(vectors[rows], right, cost, layout)
            # Where the exact gain is an integer, floats of a parabola over 1 - 2·ends may fall short of it.
            slack = Fraction(1, 1 << 20) if cost.ends else 0
            found = cost.balance * lacking - costs[pair, slot]
            assert math.floor(gain - slack) <= found <= math.floor(gain + slack)
            checked += 1
            without_missing += not (codes[rows, feature] == MISSING).any()
            again = np.empty(1, dtype=np.int64)
            scoring.mask_costs(*rule_and_view(cost, layout, bins), np.array([node]), np.array([feature]), mask, again)
            assert again[0] == costs[pair, slot]
        if features is None:
            break
        right = np.array([goes_right(masks[n], codes[i, features[n]][None])[0] for i, n in enumerate(nodes)])
        nodes = 2 * nodes + right
        engine.route(features, masks)
    assert checked > 500
    assert without_missing > 50


@pytest.mark.parametrize("seed", range(3))
def test_the_median_cost_is_imbalance_up_to_what_all_candidates_share(seed):
    layout, families = LAYOUTS[0], CategoricalCandidates.draw(DOMAIN, RandomSource(seed))
    codes, target = random_rows(DOMAIN, layout, 41, seed)
    regions = Regions.roots(DOMAIN, 1)
    candidates = _Candidates(DOMAIN, layout, families, regions, np.arange(DOMAIN.n_features)[None])
    costs = costs_of_all(candidates, engine_of(codes, target, layout).histograms(0, 1), 0, 5, 0, MEDIAN_COST)
    shared = set()
    for pair, slot in np.argwhere(costs != ABSENT_COST):
        mask = candidates.masks(np.array([pair]), np.array([slot]))[0]
        n_right = int(goes_right(mask, codes[:, pair]).sum())
        shared.add(int(costs[pair, slot]) - abs(41 - 2 * n_right))
    assert len(shared) == 1


def test_both_sides_cost_the_same_where_nothing_is_missing_and_stay_two_candidates():
    domain = Domain({"x": Numeric(0, 1)}, target=CLASSES)
    for layout in LAYOUTS:
        codes = np.random.default_rng(0).integers(0, 255, size=(60, 1)).astype(np.uint8)
        _, target = random_rows(domain, layout, 60, 0)
        regions, families = Regions.roots(domain, 1), CategoricalCandidates.draw(domain, RandomSource(0))
        candidates = _Candidates(domain, layout, families, regions, np.zeros((1, 1), dtype=np.int64))
        bins = engine_of(codes, target, layout).histograms(0, 1)
        costs, twice = candidates.costs(bins, 0, 1, 0, Cost(1024, 5))
        assert costs.shape == (1, candidates.n_slots) == (1, 510)
        assert twice.tolist() == [1]
        assert (costs[0, :255] != ABSENT_COST).all()
        again = np.empty(1, dtype=np.int64)  # the masks of the second half cost what the first half says
        for slot in (255, 300, 509):
            mask = candidates.masks(np.array([0]), np.array([slot]))
            first = np.zeros(1, dtype=np.int64)
            scoring.mask_costs(*rule_and_view(Cost(1024, 5), layout, bins), first, first, mask, again)
            assert again[0] == costs[0, slot - 255]
        # One missing value changes which of the two is better, not which exist.
        codes[0, 0] = MISSING
        costs, twice = candidates.costs(engine_of(codes, target, layout).histograms(0, 1), 0, 1, 0, Cost(1024, 5))
        assert twice.tolist() == [0]
        assert (costs != ABSENT_COST).all()
        assert (costs[0, :255] != costs[0, 255:]).any()
        # Where none can be missing, the second half and the last threshold are no candidates.
        regions.missing[:] = 0
        costs, twice = candidates.costs(engine_of(codes[1:], target[1:], layout).histograms(0, 1), 0, 1, 0, MEDIAN_COST)
        assert twice.tolist() == [0]
        assert ((costs[0] == ABSENT_COST) == (np.arange(510) >= 254)).all()


def test_a_narrow_numeric_feature_has_no_slot_of_a_wide_one():
    domain = Domain({"narrow": Numeric(edges=[0]), "wide": Numeric(0, 1)}, target=CLASSES)
    regions, families = Regions.roots(domain, 1), CategoricalCandidates.draw(domain, RandomSource(0))
    candidates = _Candidates(domain, LAYOUTS[0], families, regions, np.array([[0, 1]]))
    bins = np.zeros((1, 2 * 256), dtype=np.uint64)
    costs = costs_of_all(candidates, bins, 0, 2, 0, MEDIAN_COST)
    assert (costs != ABSENT_COST).sum(axis=1).tolist() == [4, 510]
    bins[0, [MISSING, 256 + MISSING]] = 1 << LAYOUTS[0].shift
    costs, twice = candidates.costs(bins, 0, 2, 0, MEDIAN_COST)
    assert twice.tolist() == [0, 0]
    assert (costs != ABSENT_COST).sum(axis=1).tolist() == [4, 510]


def test_a_family_larger_than_any_number_of_cells_has_a_slot_for_each_of_its_splits():
    domain = Domain({"x": Numeric(edges=[0]), "c": Categorical(range(8))}, target=CLASSES)
    regions, families = Regions.roots(domain, 1), CategoricalCandidates.draw(domain, RandomSource(0))
    candidates = _Candidates(domain, LAYOUTS[0], families, regions, np.array([[0, 1]]))
    bins = np.zeros((1, 2 * 256), dtype=np.uint64)
    costs = costs_of_all(candidates, bins, 0, 2, 0, MEDIAN_COST)
    assert families.sizes.tolist() == [0, 511]
    assert (costs != ABSENT_COST).sum(axis=1).tolist() == [4, 511]
    slots = np.flatnonzero(costs[0] != ABSENT_COST)
    masks = candidates.masks(np.zeros(4, dtype=np.int64), slots)
    assert goes_right(masks, np.array([0, 1, MISSING])).tolist() == [
        [False, True, False],
        [False, False, False],
        [False, True, True],
        [False, False, True],
    ]


# The float error. Bins are planted: no one has 2^26 rows at hand.

EDGES = {
    "number": (TargetLayout.of_number(4096), 1),
    "binary": (TargetLayout.of_classes(2), 1),
    "classes": (TargetLayout.of_classes(5), 5),
    "most classes": (TargetLayout.of_classes(1000), 1000),
}


def planted(layout, counts, values):
    """Return bins of one feature from counts and sums by (code, column)."""
    bins = np.zeros((1, 256, layout.n_columns), dtype=np.uint64)
    bins[0, : len(counts)] = (counts.astype(np.uint64) << np.uint64(layout.shift)) + values.astype(np.uint64)
    return bins.reshape(1, -1)


def edge_bins(layout, columns, rng):
    """Draw two cells that hold as many rows as are accepted, with sums at or near the ends of what they can be."""
    most = layout.max_rows
    n_left = int(rng.choice([1, 2, 3, most // 2, most - 2, most // 3, int(rng.integers(1, most))]))
    counts = np.zeros((2, columns), dtype=object)
    values = np.zeros((2, columns), dtype=object)
    for side, n in enumerate((n_left, most - n_left)):
        cuts = np.sort(rng.integers(0, n + 1, size=columns - 1))
        counts[side] = np.diff([0, *cuts.tolist(), n])
        if rng.integers(2):
            counts[side] = [n, *[0] * (columns - 1)]
        if columns > 1:
            values[side] = counts[side]
        else:
            top = layout.units * n
            near = int(rng.integers(0, 3))
            values[side, 0] = int(rng.choice([near, top - near, top // 2 + near, int(rng.integers(0, top + 1))]))
            values[side, 0] = min(max(values[side, 0], 0), top)
    return counts, values


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("ends", ENDS)
def test_float_error_of_a_cost_is_below_a_quarter_unit_at_the_largest_number_of_rows(name, ends):
    layout, columns = EDGES[name]
    cost = Cost(MAX_UNITS, 0, 0, ends)
    rng = np.random.default_rng(3)
    finer = 2.0**8 if layout.most_rows > 1 << 26 else 2.0**16  # powers of two: the same float, more of its digits
    rule = cost.rule(layout)
    finer_rule = scoring.CostRule(rule.scale * finer, rule.whole, rule.linear_tail, rule.balance, rule.enough)
    zero, mask = np.zeros(1, dtype=np.int64), np.zeros((1, 32), dtype=np.uint8)
    mask[0, 0] = 0b10
    weight = 1 if columns == 1 else Fraction(1, 2)
    worst = Fraction(0)
    for _ in range(10 if columns > 100 else 300):
        counts, values = edge_bins(layout, columns, rng)
        bins = planted(layout, counts, values)
        view = scoring.BinsView(bins, layout.n_columns, layout.shift)
        exact = Fraction(0)
        for side in (0, 1):
            n = int(sum(counts[side]))
            shares = (Fraction(int(v), n * layout.units) for v in values[side])
            exact += cost.units * weight * n * sum(p - impurity_of_share(p, ends) for p in shares)
        got = np.empty(1, dtype=np.int64)
        scoring.mask_costs(rule, view, zero, zero, mask, got)
        quarter = Fraction(1, 4)
        assert math.floor(exact - quarter) <= -got[0] <= math.floor(exact + quarter)
        scoring.mask_costs(finer_rule, view, zero, zero, mask, got)
        costs = np.full((1, 510), ABSENT_COST, dtype=np.int64)
        scoring.numeric_costs(
            finer_rule, view, zero, zero, np.array([0], dtype=np.uint8), np.array([254], dtype=np.uint8),
            np.array([1], dtype=np.uint8), zero, np.empty((4, 256)), np.zeros(1, dtype=np.uint8), costs,
        )  # fmt: skip
        for found in (int(got[0]), int(costs[0, 0])):
            below = exact * Fraction(finer) + found  # the floor has taken less than one
            worst = max(worst, abs(below - Fraction(1, 2)) - Fraction(1, 2))
    error = worst / Fraction(finer)
    assert error < Fraction(1, 4)
    # The bound that kernels/scoring.py states; what is measured is rounded to an integer of the finer scale.
    assert error <= Fraction(columns + 6, 1 << (17 if name == "number" else 12)) + 1 / Fraction(finer)


def test_the_sums_of_the_largest_number_of_rows_fit_their_bins():
    for layout, columns in EDGES.values():
        most = layout.max_rows
        top = np.array([[most]], dtype=object), np.array([[most * layout.units]], dtype=object)
        if columns > 1:
            continue
        bins = planted(layout, *top)
        assert int(bins[0, 0]) >> layout.shift == most
        assert layout.vectors(bins[:, :1].reshape(1, 1)).tolist() == [[0, most * layout.units]]
        assert layout.vectors(bins[:, :1].reshape(1, 1)).sum() < 1 << 38  # what clamping released sums relies on


# -- Cost --------------------------------------------------------------------------------------------------------------


@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=100),
    st.fractions(min_value=0, max_value=1000, max_denominator=1000),
    st.sampled_from(ENDS),
)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_joint_costs_have_powers_of_two_for_units_and_the_range_of_the_contract(epsilon, balance, ends):
    cost = Cost.joint(epsilon, balance, ends)
    assert cost.units in (32, 64, 128, 256, 512, 1024)
    assert cost.range == cost.units + 2 + cost.balance
    assert abs(cost.balance - balance * cost.units) <= Fraction(1, 2)
    assert cost.ends == ends
    if cost.balance:
        # One row fewer, and to lack all of them would not outweigh e^5 for sure.
        needed = splitters.SHORTFALL_LOG_ODDS * cost.range / (cost.balance * epsilon)
        assert cost.enough == UNBOUNDED_SHORTFALL or cost.enough - 1 < needed <= cost.enough
        assert 0 < cost.enough <= UNBOUNDED_SHORTFALL
    for layout in LAYOUTS:
        rule = cost.rule(layout)
        assert (rule.whole, rule.balance, rule.enough) == (layout.units, cost.balance, cost.enough)
        for number in (rule.scale, rule.whole):
            assert math.frexp(number)[0] == 0.5, "a power of two: scaling does not round"
        assert Fraction(rule.scale) == Fraction(cost.units) * Fraction(layout.column_weight) / layout.units
        assert Fraction(rule.linear_tail) == ends


def test_no_cost_of_a_candidate_comes_near_that_of_none():
    most = Cost.joint(Fraction(1, 10**6), Fraction(1000), Fraction(0))
    finest = Cost(MAX_UNITS, 1000 * MAX_UNITS)
    for cost in (most, finest, MEDIAN_COST):
        assert cost.balance * cost.enough + cost.units * (1 << 31) < ABSENT_COST // 2


def test_the_median_and_quality_costs_have_the_ranges_of_the_contract():
    assert MEDIAN_COST.range == splitters.MEDIAN_RANGE == 2
    assert min(layout.max_rows for layout in LAYOUTS) < max(layout.max_rows for layout in LAYOUTS) < UNBOUNDED_SHORTFALL
    splitter = MedianSplitter(DOMAIN, LAYOUTS[0], CategoricalCandidates.draw(DOMAIN, RandomSource(0)), 3, "exponential")
    assert splitter.quality_range == splitter.quality.range == MAX_UNITS + 2
    assert Cost.joint(math.inf, Fraction(0), Fraction(0)) == Cost(MAX_UNITS, 0, 0)


# -- features ----------------------------------------------------------------------------------------------------------


def test_features_are_drawn_uniformly_among_those_that_can_be_split():
    regions = Regions.roots(DOMAIN, 20_000)
    regions.high[:, 4] = 0
    regions.missing[:, 4] = 0  # nothing left of "edge"
    drawn = draw_features(regions, 2, RandomSource(0))
    assert (drawn >= 0).all()
    assert (drawn[:, 0] < drawn[:, 1]).all()
    pairs, counts = np.unique(drawn, axis=0, return_counts=True)
    assert pairs.tolist() == [list(p) for p in itertools.combinations(range(4), 2)]
    assert (abs(counts - 20_000 / 6) < 5 * math.sqrt(20_000 / 6)).all()
    everything = draw_features(regions, 5, RandomSource(0))
    assert (everything == [0, 1, 2, 3, -1]).all()
    regions.high[:, 0] = 0
    regions.missing[:, 0] = 0
    regions.allowed[:, 1:] = 0
    drawn = draw_features(regions, 2, RandomSource(0))
    assert (np.sort(drawn, axis=1) == [-1, 1]).all()


# -- splitters ---------------------------------------------------------------------------------------------------------


def make_splitter(method, domain, layout, seed=0):
    families = CategoricalCandidates.draw(domain, RandomSource(seed))
    if method == "joint":
        return JointSplitter(domain, layout, families, domain.n_features, Fraction(1, 100), Fraction(1, 64))
    k = 1 if method in ("diprime", "random") else min(5, domain.n_features)
    rule = "permute-and-flip" if method == "diprime-flip" else "exponential"
    return MedianSplitter(domain, layout, families, k, rule, looks_at_data=method != "random")


METHODS = ["joint", "diprime", "diprime-exp", "diprime-flip", "random"]
LOOKING = METHODS[:4]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [33, 300])
def test_categorical_splits_with_many_levels_part_the_levels_left_at_every_node(method, k):
    domain = Domain({"c": Categorical(range(k))}, target=CLASSES)
    layout = LAYOUTS[0]
    rng = np.random.default_rng(0)
    levels = rng.integers(0, k + 3, size=4000)
    codes = domain.encode(levels[:, None])
    assert (codes[levels < k, 0] == levels[levels < k] % 254).all()
    assert (codes[levels >= k, 0] == OTHER).all()
    target = (codes[:, 0] % 2).astype(np.int32)
    engine = engine_of(codes, target, layout)
    splitter = make_splitter(method, domain, layout)
    structure = grow(engine, splitter, domain, 1, [Fraction(1)] * 4, NO_WINDOWS, RandomSource(2), ONE)
    regions = Regions.roots(domain, 1)
    for level in range(4):
        here = slice(2**level - 1, 2 ** (level + 1) - 1)
        features, masks = structure.features[0, here], structure.masks[0, here]
        codes_left = [np.flatnonzero(np.unpackbits(a[0], bitorder="little")) for a in regions.allowed]
        for mask, left in zip(masks, codes_left, strict=True):
            if len(left) > 1:
                assert 0 < goes_right(mask, left).sum() < len(left)
            else:
                assert not mask.any()
        regions = regions.children(features, masks)
    if method in ("diprime", "diprime-exp"):  # medians: each node is cut near its middle, whatever its levels are
        root = goes_right(structure.masks[0, 0], codes[:, 0])
        assert abs(root.mean() - 0.5) < 0.05


def test_median_groups_of_many_levels_are_dealt_blind_to_the_data(monkeypatch):
    k = 100
    domain = Domain({"c": Categorical(range(k))}, target=CLASSES)
    layout = LAYOUTS[0]
    splitter = make_splitter("diprime", domain, layout)
    orders, sums = [], []
    permutation, subset_median = splitters.permutation, splitters.subset_median

    def spy_order(stream, n):
        orders.append(permutation(stream, n))
        return orders[-1]

    def spy_sums(counts, table, stream):
        sums.append(counts)
        return subset_median(counts, table, stream)

    monkeypatch.setattr(splitters, "permutation", spy_order)
    monkeypatch.setattr(splitters, "subset_median", spy_sums)
    for column in (np.zeros(500), np.arange(500) % k, np.arange(500) ** 2 % 37):
        codes = column.astype(np.uint8)[:, None]
        engine = engine_of(codes, np.zeros(500, dtype=np.int32), layout)
        level = splitter.level(Regions.roots(domain, 1), Fraction(1), RandomSource(3))
        level.choose(engine.histograms(0, 1), 0, 1, ONE)
        groups = orders[-1] % splitters.MAX_GROUPS
        cells = np.bincount(codes[:, 0], minlength=k + 2)
        assert sums[-1] == np.bincount(groups, weights=cells).astype(int).tolist()
    assert len(orders) == len(sums) == 3
    assert (orders[0] == orders[1]).all()
    assert (orders[0] == orders[2]).all()
    sizes = np.bincount(orders[0] % splitters.MAX_GROUPS)
    assert len(sizes) == splitters.MAX_GROUPS
    assert set(sizes) <= {3, 4}  # 102 codes


@pytest.mark.parametrize("numeric", [True, False])
def test_a_signal_that_is_all_in_missingness_is_found(numeric):
    rng = np.random.default_rng(1)
    n = 2000
    missing = rng.random(n) < 0.3
    noise = Numeric(0, 1)
    if numeric:
        domain = Domain({"noise": noise, "signal": Numeric(0, 1)}, target=CLASSES)
        column = np.where(missing, np.nan, rng.random(n))
    else:
        domain = Domain({"noise": noise, "signal": Categorical(range(20))}, target=CLASSES)
        column = np.where(missing, np.nan, rng.integers(0, 20, n))
    codes = domain.encode(np.stack([rng.random(n), column], axis=1))
    target = missing.astype(np.int32)
    splitter = make_splitter("joint", domain, LAYOUTS[0])
    splitter.balance = Fraction(0)
    for epsilon in (Fraction(20), math.inf):
        engine = engine_of(codes, target, LAYOUTS[0])
        structure = grow(engine, splitter, domain, 1, [epsilon], NO_WINDOWS, RandomSource(4), ONE)
        assert structure.features[0, 0] == 1
        right = goes_right(structure.masks[0, 0], codes[:, 1])
        assert (right == missing).all() or (right == ~missing).all()


@pytest.mark.parametrize("missing_right", [False, True])
def test_missing_values_go_to_the_side_that_they_resemble(missing_right):
    rng = np.random.default_rng(1)
    x = rng.random(3000)
    target = (x > 0.5).astype(np.int32)
    x[(rng.random(3000) < 0.4) & ((x > 0.5) == missing_right)] = np.nan
    domain = Domain({"x": Numeric(0, 1)}, target=CLASSES)
    engine = engine_of(domain.encode(x[:, None]), target, LAYOUTS[0])
    splitter = make_splitter("joint", domain, LAYOUTS[0])
    structure = grow(engine, splitter, domain, 1, [Fraction(20)], NO_WINDOWS, RandomSource(4), ONE)
    assert goes_right(structure.masks[0, 0], np.array([MISSING, 0, 254])).tolist() == [missing_right, False, True]


@pytest.mark.parametrize("method", METHODS)
def test_a_domain_with_nothing_left_to_split_sends_everything_left(method):
    domain = Domain(
        {"a": Categorical([False, True]), "b": Categorical([False, True]), "e": Numeric(edges=[0])}, target=CLASSES
    )
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, size=(300, 3)).astype(np.uint8)
    target = rng.integers(0, 2, size=300).astype(np.int32)
    engine = engine_of(codes, target, LAYOUTS[0])
    splitter = make_splitter(method, domain, LAYOUTS[0])
    structure = grow(engine, splitter, domain, 1, [Fraction(1)] * 11, NO_WINDOWS, RandomSource(0), ONE)
    regions, nodes, n_done = Regions.roots(domain, 1), np.zeros(len(codes), dtype=np.int64), 0
    for level in range(11):
        here = slice(2**level - 1, 2 ** (level + 1) - 1)
        features, masks = structure.features[0, here], structure.masks[0, here]
        done = ~regions.splittable().any(axis=1)
        n_done += done.sum()
        assert not masks[done].any()
        assert not features[done].any()
        nodes = 2 * nodes + [goes_right(masks[n], codes[i, features[n]]) for i, n in enumerate(nodes)]
        regions = regions.children(features, masks)
    assert n_done > 500, "4 + 4 + 3 codes can be parted by nine levels"
    sums = engine.sums()
    assert sums.shape == (2**11, 2)
    np.testing.assert_array_equal(sums[:, 1], np.bincount(nodes, weights=target, minlength=2**11))
    np.testing.assert_array_equal(sums[:, 0], np.bincount(nodes, weights=1 - target, minlength=2**11))
    done = ~regions.splittable().any(axis=1)
    for leaf in np.unique(nodes[done[nodes]]):
        assert len(np.unique(codes[nodes == leaf], axis=0)) == 1, "a leaf of its own for each combination of values"
    assert done[nodes].mean() > 0.5


def test_random_splits_are_uniform_over_the_thresholds():
    domain = Domain({"x": Numeric(edges=[1, 2, 3])}, target=CLASSES)
    splitter = make_splitter("random", domain, LAYOUTS[0])
    level = splitter.level(Regions.roots(domain, 16_000), Fraction(0), RandomSource(0))
    level.choose(np.zeros((1, 256), dtype=np.uint64), 0, 16_000, ONE)
    masks, counts = np.unique(level.masks, axis=0, return_counts=True)
    assert len(masks) == 8
    assert (abs(counts - 2000) < 5 * math.sqrt(2000)).all()
