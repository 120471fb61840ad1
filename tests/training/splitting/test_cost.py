"""Costs: those of the definition, exact up to a quarter unit, in units and ranges that the proofs rely on."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain import MISSING, Domain, Numeric
from diprime.domain.target_layout import TargetLayout
from diprime.kernels import scoring
from diprime.kernels.constants import ABSENT_COST
from diprime.model.regions import Regions
from diprime.privacy.randomness import RandomSource
from diprime.training.splitting.candidates import Candidates, CategoricalCandidates
from diprime.training.splitting.cost import (
    MAX_UNITS,
    MEDIAN_COST,
    MEDIAN_RANGE,
    SHORTFALL_LOG_ODDS,
    UNBOUNDED_SHORTFALL,
    Cost,
)
from diprime.training.splitting.histograms import NodeHistograms
from tests.candidate_splits import (
    BINARY,
    CLASSES,
    DOMAIN,
    LAYOUTS,
    LINEAR_TAILS,
    costs_of_all,
    engine_of,
    goes_right,
    histograms_of,
    mask_costs,
    random_levels,
    random_rows,
    root_histograms,
)
from tests.exact_costs import impurity_of_share

COSTS = {
    "quality": Cost(1024, 0),
    "joint": Cost(64, 3),
    "few rows are enough": Cost(64, 3, 6, Fraction(1, 64)),
    "linear tails": Cost(1024, 20, 30, Fraction(1, 8)),
    "long linear tails": Cost(1024, 0, 0, Fraction(3, 8)),
    "longest linear tails": Cost(32, 1, 0, Fraction(31, 64)),
    "median": MEDIAN_COST,
}


# -- the definition ----------------------------------------------------------------------------------------------------


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
        sums = side.sum(axis=0) if len(side) else []
        # The kernels leave out the other entry of two; for them both entries of two deviate alike.
        for s in sums[1:] if layout.n_outputs == 2 else sums:
            p = Fraction(int(s), len(side) * layout.units)
            gain += weight * len(side) * (p - impurity_of_share(p, cost.linear_tail))
    return cost.units * gain


def check_cost(found, vectors, right, cost, layout):
    """A cost is the penalty for the smaller child's shortfall, less the floor of the gain."""
    n_right = int(right.sum())
    shortfall = max(0, cost.min_rows - min(n_right, len(right) - n_right))
    gain = exact_gain(vectors, right, cost, layout)
    # Where the exact gain is an integer, floats of a parabola over 1 - 2·linear_tail may fall short of it.
    slack = Fraction(1, 1 << 20) if cost.linear_tail else 0
    assert math.floor(gain - slack) <= cost.balance * shortfall - found <= math.floor(gain + slack)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("kind", COSTS)
def test_costs_are_those_of_the_definition_for_every_candidate_of_every_node(layout, kind):
    cost = COSTS[kind]
    categories = CategoricalCandidates.draw(DOMAIN, RandomSource(5))
    codes, target = random_rows(DOMAIN, layout, 90, 7)
    codes[:30, 0] = 1  # a feature of which few values are missing, so that some nodes have none
    engine = engine_of(codes, target, layout)
    nodes = np.zeros(len(codes), dtype=np.int64)
    vectors = vectors_of(target, layout)
    checked = without_missing = 0
    for regions, features, masks in random_levels(DOMAIN, categories, 1, 3, 11):
        chosen = np.where(regions.splittable(), np.arange(DOMAIN.n_features), -1)
        candidates = Candidates(DOMAIN, categories, regions, chosen)
        histograms = histograms_of(engine, len(regions))
        costs = costs_of_all(candidates, histograms, 0, chosen.size, cost)
        for pair, slot in np.argwhere(costs != ABSENT_COST)[::7]:
            node, feature = divmod(int(pair), DOMAIN.n_features)
            rows = nodes == node
            mask = candidates.masks(np.array([pair]), np.array([slot]))
            check_cost(costs[pair, slot], vectors[rows], goes_right(mask[0], codes[rows, feature]), cost, layout)
            assert mask_costs(histograms, [node], [feature], mask, cost) == costs[pair, slot]
            checked += 1
            without_missing += not (codes[rows, feature] == MISSING).any()
        if features is not None:
            nodes = 2 * nodes + [goes_right(masks[n], codes[i, features[n]]) for i, n in enumerate(nodes)]
            engine.route(features, masks)
    assert checked > 500
    assert without_missing > 50


@pytest.mark.parametrize("seed", range(3))
def test_the_median_cost_is_the_imbalance_up_to_a_term_that_all_candidates_share(seed):
    categories = CategoricalCandidates.draw(DOMAIN, RandomSource(seed))
    codes, target = random_rows(DOMAIN, BINARY, 41, seed)
    candidates = Candidates(DOMAIN, categories, Regions.roots(DOMAIN, 1), np.arange(DOMAIN.n_features)[None])
    costs = costs_of_all(candidates, root_histograms(codes, target, BINARY), 0, 5, MEDIAN_COST)
    shared = set()
    for pair, slot in np.argwhere(costs != ABSENT_COST):
        mask = candidates.masks(np.array([pair]), np.array([slot]))[0]
        n_right = int(goes_right(mask, codes[:, pair]).sum())
        shared.add(int(costs[pair, slot]) - abs(41 - 2 * n_right))
    assert len(shared) == 1


# -- the float error: bins are planted, for no one has 2^26 rows at hand -----------------------------------------------

LARGEST = {
    "number": (TargetLayout.of_number(4096), 1),
    "binary": (BINARY, 1),
    "classes": (TargetLayout.of_classes(5), 5),
    "most classes": (TargetLayout.of_classes(1000), 1000),
}


def planted(layout, counts, values):
    """Return the histograms of one feature from counts and sums by (code, column)."""
    bins = np.zeros((1, 256, layout.n_columns), dtype=np.uint64)
    bins[0, : len(counts)] = (counts.astype(np.uint64) << np.uint64(layout.shift)) + values.astype(np.uint64)
    return NodeHistograms(bins.reshape(1, -1), layout, 0)


def draw_largest_cells(layout, columns, rng):
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


def exact_gain_of_cells(layout, columns, counts, values, cost):
    """Return units·gain of the split between two cells, in exact arithmetic."""
    weight = 1 if columns == 1 else Fraction(1, 2)
    exact = Fraction(0)
    for side in (0, 1):
        n = int(sum(counts[side]))
        shares = (Fraction(int(v), n * layout.units) for v in values[side])
        exact += cost.units * weight * n * sum(p - impurity_of_share(p, cost.linear_tail) for p in shares)
    return exact


@pytest.mark.parametrize("name", LARGEST)
@pytest.mark.parametrize("linear_tail", LINEAR_TAILS)
def test_the_float_error_of_a_cost_is_below_a_quarter_unit_at_the_largest_number_of_rows(
    name, linear_tail, monkeypatch
):
    layout, columns = LARGEST[name]
    cost = Cost(MAX_UNITS, 0, 0, linear_tail)
    rng = np.random.default_rng(3)
    domain = Domain({"x": Numeric(0, 1)}, CLASSES)
    categories = CategoricalCandidates.draw(domain, RandomSource(0))
    candidates = Candidates(domain, categories, Regions.roots(domain, 1), np.zeros((1, 1), dtype=np.int64))
    mask = np.zeros((1, 32), dtype=np.uint8)
    mask[0, 0] = 0b10
    finer = 2.0**8 if layout.max_rows > 1 << 26 else 2.0**16  # powers of two: the same float, more of its digits
    original, quarter, worst = scoring.CostRule, Fraction(1, 4), Fraction(0)
    for _ in range(10 if columns > 100 else 300):
        counts, values = draw_largest_cells(layout, columns, rng)
        histograms = planted(layout, counts, values)
        exact = exact_gain_of_cells(layout, columns, counts, values, cost)
        (found,) = mask_costs(histograms, [0], [0], mask, cost)
        assert math.floor(exact - quarter) <= -found <= math.floor(exact + quarter)
        with monkeypatch.context() as patch:
            patch.setattr(scoring, "CostRule", lambda *, scale, **rest: original(scale=scale * finer, **rest))
            (of_mask,) = mask_costs(histograms, [0], [0], mask, cost)
            of_threshold = candidates.costs(histograms, 0, 1, cost)[0][0, 0]
        for found_finer in (int(of_mask), int(of_threshold)):
            below = exact * Fraction(finer) + found_finer  # the floor has taken less than one
            worst = max(worst, abs(below - Fraction(1, 2)) - Fraction(1, 2))
    error = worst / Fraction(finer)
    assert error < quarter
    # The bound that kernels/scoring.py states; what is measured is rounded to an integer of the finer scale.
    assert error <= Fraction(columns + 6, 1 << (17 if name == "number" else 12)) + 1 / Fraction(finer)


def test_the_sums_of_the_largest_number_of_rows_fit_their_bins():
    for layout, columns in LARGEST.values():
        if columns > 1:
            continue
        most = layout.max_rows
        bins = planted(layout, np.array([[most]], dtype=object), np.array([[most * layout.units]], dtype=object)).bins
        assert int(bins[0, 0]) >> layout.shift == most
        assert layout.vectors(bins[:, :1].reshape(1, 1)).tolist() == [[0, most * layout.units]]
        assert layout.vectors(bins[:, :1].reshape(1, 1)).sum() < 1 << 38  # the clamp of released sums relies on it


# -- units and ranges --------------------------------------------------------------------------------------------------


@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=100),
    st.fractions(min_value=0, max_value=1000, max_denominator=1000),
    st.sampled_from(LINEAR_TAILS),
)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_joint_costs_have_powers_of_two_for_units_and_the_range_of_the_contract(epsilon, balance, linear_tail):
    cost = Cost.joint(epsilon, balance, linear_tail)
    assert cost.units in (32, 64, 128, 256, 512, 1024)
    assert cost.range == cost.units + 2 + cost.balance
    assert abs(cost.balance - balance * cost.units) <= Fraction(1, 2)
    assert cost.linear_tail == linear_tail
    if cost.balance:
        # With one row fewer, the penalty for a child without rows need not reach odds of e^-5.
        needed = SHORTFALL_LOG_ODDS * cost.range / (cost.balance * epsilon)
        assert cost.min_rows == UNBOUNDED_SHORTFALL or cost.min_rows - 1 < needed <= cost.min_rows
        assert 0 < cost.min_rows <= UNBOUNDED_SHORTFALL


@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=100),
    st.fractions(min_value=0, max_value=1000, max_denominator=1000),
    st.sampled_from(LINEAR_TAILS),
    st.sampled_from(list(LAYOUTS.values())),
)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_the_kernels_are_told_of_a_joint_cost_without_rounding(epsilon, balance, linear_tail, layout):
    cost = Cost.joint(epsilon, balance, linear_tail)
    rule = cost.rule(layout)
    assert (rule.units_per_record, rule.balance, rule.min_rows) == (layout.units, cost.balance, cost.min_rows)
    for number in (rule.scale, rule.units_per_record):
        assert math.frexp(number)[0] == 0.5, "a power of two: scaling does not round"
    assert Fraction(rule.scale) == Fraction(cost.units) * Fraction(layout.column_weight) / layout.units
    assert Fraction(rule.linear_tail) == linear_tail


def test_no_cost_of_a_candidate_comes_near_that_of_none():
    most = Cost.joint(Fraction(1, 10**6), Fraction(1000), Fraction(0))
    finest = Cost(MAX_UNITS, 1000 * MAX_UNITS)
    for cost in (most, finest, MEDIAN_COST):
        assert cost.balance * cost.min_rows + cost.units * (1 << 31) < ABSENT_COST // 2


def test_the_median_cost_has_the_range_of_the_contract_whatever_the_number_of_rows():
    assert MEDIAN_COST.range == MEDIAN_RANGE == 2
    max_rows = {layout.max_rows for layout in LAYOUTS.values()}
    assert min(max_rows) < max(max_rows) < MEDIAN_COST.min_rows == UNBOUNDED_SHORTFALL


def test_the_units_of_the_joint_cost_are_finer_where_epsilon_is_larger():
    assert MAX_UNITS == 1024
    tail = Fraction(1, 8)
    assert Cost.joint(math.inf, Fraction(0), Fraction(0)) == Cost(MAX_UNITS, 0, 0)
    assert Cost.joint(Fraction(1), Fraction(1, 100), tail) == Cost(1024, 10, 5 * 1036 // 10, tail)
    assert Cost.joint(Fraction(1, 100), Fraction(1, 100), tail) == Cost(32, 0, 0, tail)


@pytest.mark.parametrize("weight", [2, 6, 24, 204])
@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1, 50), Fraction(1), Fraction(100)])
def test_the_cost_of_persons_is_that_of_so_many_records(weight, epsilon):
    balance = Fraction(1, 20)
    cost = Cost.joint(epsilon, balance, Fraction(0), weight)
    assert cost.person_range == weight * cost.range
    assert cost.range == cost.units + 2 + cost.balance
    assert cost.units >= 32
    # Within the table, weights fall by e^-16 at least, unless units are as coarse as they may be.
    assert cost.units == 32 or cost.person_range / epsilon <= (1 << 20) / 16
    # A split with an empty child is as unlikely as where persons have one record, by the same number of persons.
    of_one = Cost(cost.units, cost.balance, 0)
    lacking = math.ceil(5 * of_one.range / (cost.balance * epsilon))
    assert abs(cost.min_rows / weight - lacking) <= 1
    assert Cost.joint(epsilon, balance, Fraction(0), 1) == Cost.joint(epsilon, balance, Fraction(0))
