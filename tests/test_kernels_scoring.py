"""Costs of splits: compiled, interpreted, and from fractions, up to the largest sums that a bin can hold."""

from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_pairs import Both

from diprime.mechanisms import ABSENT_COST

BOTH = Both("scoring")
UNITS = 1 << 10
UNTOUCHED = -99
seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class Layout:
    n_columns: int
    shift: int
    quantum: int  # what a record adds, at most

    @property
    def most_rows(self):
        return (1 << min(31, 64 - self.shift)) - 1

    def scale(self, units=UNITS):
        return units * (1.0 if self.n_columns == 1 else 0.5) / self.quantum**2


NUMBER, TWO_CLASSES, THREE_CLASSES = Layout(1, 38, 4096), Layout(1, 32, 1), Layout(3, 32, 1)
LAYOUTS = [NUMBER, TWO_CLASSES, THREE_CLASSES]
STYLES = ["small", "full", "pure", "one", "none", "two cells"]
layouts = st.sampled_from(LAYOUTS)
styles = st.sampled_from(STYLES)


def draw_cells(rng, layout, style, codes):
    """Return counts and value sums by code and column; nothing outside ``codes``."""
    shape = (len(codes), layout.n_columns)
    n_cells = len(codes) * layout.n_columns
    rows = layout.most_rows
    if style == "small":
        counts = rng.integers(0, 6, size=shape)
    elif style in ("full", "pure"):  # as many rows as there can be
        cuts = np.sort(rng.integers(0, rows, size=n_cells - 1, endpoint=True))
        counts = np.diff([0, *cuts, rows]).reshape(shape)
    elif style == "none":
        counts = np.zeros(shape, dtype=np.int64)
    elif style == "one":
        counts = np.zeros(n_cells, dtype=np.int64)
        counts[rng.integers(n_cells)] = rng.choice([1, rows])
        counts = counts.reshape(shape)
    else:
        counts = np.zeros(n_cells, dtype=np.int64)
        first = int(rng.choice([1, rows // 2, rows // 3, rows - 1]))
        counts[rng.integers(n_cells)] += first
        counts[rng.integers(n_cells)] += rows - first
        counts = counts.reshape(shape)
    counts = counts.astype(np.int64)
    if layout.n_columns > 1:
        values = counts
    elif style == "pure":
        values = counts * layout.quantum
    else:
        values = (counts * layout.quantum * rng.random(shape)).astype(np.int64)
    all_counts, all_values = (np.zeros((256, layout.n_columns), dtype=np.int64) for _ in range(2))
    all_counts[codes], all_values[codes] = counts, values
    return all_counts, all_values


def as_bins(layout, cells):
    counts, values = cells
    return (counts.astype(np.uint64) << np.uint64(layout.shift)) | values.astype(np.uint64)


def gain_of(counts, values, right):
    """Return n_L, n_R and Σ S_L²/n_L + Σ S_R²/n_R exactly; ``right`` says which codes go right."""
    gain, sizes = Fraction(0), []
    for side in (~right, right):
        n = int(counts[side].sum())
        sizes.append(n)
        if n:
            gain += Fraction(sum(int(s) ** 2 for s in values[side].sum(axis=0)), n)
    return (*sizes, gain)


def check_cost(cost, cells, right, scale, balance):
    """The floor of a number within a quarter unit of the exact one."""
    n_left, n_right, gain = gain_of(*cells, right)
    units = balance * abs(n_left - n_right) - int(cost)
    exact = Fraction(scale) * gain
    assert floor(exact - Fraction(1, 4)) <= units <= floor(exact + Fraction(1, 4))
    if scale == 0:
        assert units == 0


def threshold(code, *, missing_right):
    right = np.arange(256) > code
    right[255] = missing_right
    return right


def numeric_costs(layout, bins, low, high, missing, n_cells, scale, balance, *, feature=0, node=0):
    one = np.zeros(1, dtype=np.int64)
    costs = np.full((1, 2 * n_cells - 1), UNTOUCHED, dtype=np.int64)
    after, _ = BOTH(
        "numeric_costs",
        bins,
        one + node,
        one + feature,
        one + n_cells,
        np.array([low], dtype=np.uint8),
        np.array([high], dtype=np.uint8),
        np.array([missing], dtype=np.uint8),
        one,
        layout.n_columns,
        layout.shift,
        scale,
        balance,
        np.full(256, 5, dtype=np.int64),
        np.full((2, 256), 5.0),
        costs,
    )
    return after[-1][0]


def expected_slots(low, high, missing, n_cells):
    """Return which split each slot stands for: threshold, and whether missing values go right."""
    slots = {code: (code, False) for code in range(low, high)}
    if missing:
        slots |= {n_cells - 1 + code: (code, True) for code in range(low, high + 1)}
    return slots


def check_numeric(rng, layout, style, low, high, missing, n_cells, scale, balance):
    codes = [*range(low, high + 1), *([255] if missing and rng.random() < 0.7 else [])]
    cells = draw_cells(rng, layout, style, codes) if codes else draw_cells(rng, layout, "none", [0])
    bins = rng.integers(0, 2**63, size=(2, 2, 256 * layout.n_columns)).astype(np.uint64)  # other nodes and features
    bins[1, 1] = as_bins(layout, cells).ravel()
    costs = numeric_costs(layout, bins.reshape(2, -1), low, high, missing, n_cells, scale, balance, feature=1, node=1)
    slots = expected_slots(low, high, missing, n_cells)
    for slot, cost in enumerate(costs):
        if slot in slots:
            code, missing_right = slots[slot]
            check_cost(cost, cells, threshold(code, missing_right=missing_right), scale, balance)
        else:
            assert cost == ABSENT_COST


@given(seeds, layouts, styles, st.data())
@settings(deadline=None, max_examples=60)
def test_numeric_costs_are_those_of_exact_arithmetic(seed, layout, style, data):
    n_cells = data.draw(st.sampled_from([1, 2, 9, 60]))
    low = data.draw(st.integers(0, n_cells - 1))
    high = data.draw(st.integers(low, n_cells - 1))
    missing = data.draw(st.booleans())
    units = data.draw(st.sampled_from([0, 32, UNITS]))
    balance = data.draw(st.sampled_from([0, 1, 512]))
    rng = np.random.default_rng(seed)
    check_numeric(rng, layout, style, low, high, missing, n_cells, layout.scale(units), balance)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("missing", [False, True])
def test_numeric_costs_over_all_codes(layout, style, missing):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        check_numeric(rng, layout, style, 0, 254, missing, 255, layout.scale(), 300)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_last_codes_and_regions_without_a_split(layout):
    rng = np.random.default_rng(0)
    for low, high, missing in [(254, 254, True), (254, 254, False), (253, 254, True), (0, 0, True), (7, 6, False)]:
        check_numeric(rng, layout, "small", low, high, missing, 255, layout.scale(), 1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_compiled_and_interpreted_agree_where_the_exact_cost_is_an_integer(layout):
    """A node of equal targets costs exactly -units·n: the slightest difference in rounding shows in the floor."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        check_numeric(rng, layout, "pure", 0, 60, True, 61, layout.scale(), 0)
    for n_left in (1, 3, 7, layout.most_rows // 3, layout.most_rows // 2, layout.most_rows - 1):
        counts = np.zeros((256, layout.n_columns), dtype=np.int64)
        counts[0, 0], counts[1, 0] = n_left, layout.most_rows - n_left
        cells = counts, counts * layout.quantum
        costs = numeric_costs(layout, as_bins(layout, cells).reshape(1, -1), 0, 1, True, 2, layout.scale(), 0)
        for slot, (code, missing_right) in expected_slots(0, 1, True, 2).items():
            check_cost(costs[slot], cells, threshold(code, missing_right=missing_right), layout.scale(), 0)


def test_a_thousand_columns():
    layout = Layout(1000, 32, 1)
    rng = np.random.default_rng(2)
    cells = draw_cells(rng, layout, "full", [0, 1, 2, 255])
    bins = as_bins(layout, cells).reshape(1, -1)
    costs = numeric_costs(layout, bins, 0, 2, True, 3, layout.scale(), 7)
    for slot, (code, missing_right) in expected_slots(0, 2, True, 3).items():
        check_cost(costs[slot], cells, threshold(code, missing_right=missing_right), layout.scale(), 7)


def test_several_nodes_and_features_in_one_call():
    layout, rng = TWO_CLASSES, np.random.default_rng(3)
    cells = {(node, j): draw_cells(rng, layout, "small", [*range(9), 255]) for node in range(3) for j in range(2)}
    bins = np.array([[as_bins(layout, cells[node, j]).ravel() for j in range(2)] for node in range(3)]).reshape(3, -1)
    nodes, features, rows = np.array([2, 0, 2, 1]), np.array([0, 1, 1, 0]), np.array([3, 0, 1, 4])
    low, high = np.array([0, 2, 0, 0], dtype=np.uint8), np.array([8, 5, 8, 3], dtype=np.uint8)
    missing = np.array([1, 0, 0, 1], dtype=np.uint8)
    costs = np.full((6, 17), UNTOUCHED, dtype=np.int64)
    scratch = np.zeros(256, dtype=np.int64), np.zeros((2, 256))
    after, _ = BOTH(
        "numeric_costs", bins, nodes, features, np.full(4, 9), low, high, missing, rows,
        1, 32, 1024.0, 5, *scratch, costs,
    )  # fmt: skip
    for i in range(4):
        counts, values = (a.copy() for a in cells[nodes[i], features[i]])
        outside = [c for c in range(256) if not (low[i] <= c <= high[i] or c == 255)]
        counts[outside], values[outside] = 0, 0
        slots = expected_slots(int(low[i]), int(high[i]), missing[i], 9)
        for slot in range(17):
            cost = after[-1][rows[i], slot]
            if slot in slots:
                right = threshold(slots[slot][0], missing_right=slots[slot][1])
                check_cost(cost, (counts, values), right, 1024.0, 5)
            else:
                assert cost == ABSENT_COST
    assert (after[-1][[2, 5]] == UNTOUCHED).all()


def masks_of(rights):
    return np.packbits(np.array(rights, dtype=np.uint8), axis=-1, bitorder="little")


def draw_rights(rng, n):
    rights = rng.random((n, 256)) < 0.5
    rights[: n // 3] = False
    rights[np.arange(n // 3), rng.choice([0, 1, 254, 255], size=n // 3)] = True
    return rights


@given(seeds, layouts, styles, st.sampled_from([0, UNITS]), st.sampled_from([0, 1, 512]), st.integers(0, 7))
@settings(deadline=None, max_examples=60)
def test_mask_costs_are_those_of_exact_arithmetic(seed, layout, style, units, balance, n):
    rng = np.random.default_rng(seed)
    codes = sorted({0, 254, 255, *rng.integers(0, 256, size=5).tolist()})
    cells = [draw_cells(rng, layout, style, codes) for _ in range(4)]  # two nodes, two features
    bins = np.array([as_bins(layout, c).ravel() for c in cells]).reshape(2, -1)
    nodes, features = rng.integers(0, 2, size=n), rng.integers(0, 2, size=n)
    rights, scale = draw_rights(rng, n), layout.scale(units)
    costs = np.full(n, UNTOUCHED, dtype=np.int64)
    after, _ = BOTH(
        "mask_costs", bins, nodes, features, masks_of(rights), layout.n_columns, layout.shift, scale, balance, costs
    )
    for i in range(n):
        check_cost(after[-1][i], cells[2 * nodes[i] + features[i]], rights[i], scale, balance)


@given(seeds, layouts, styles, st.sampled_from([0, UNITS]), st.sampled_from([0, 1, 512]))
@settings(deadline=None, max_examples=40)
def test_family_costs_are_those_of_their_masks_where_both_sides_can_occur(seed, layout, style, units, balance):
    rng = np.random.default_rng(seed)
    codes = np.array(sorted({0, 1, 254, 255, *rng.integers(0, 256, size=3).tolist()}))
    cells = [draw_cells(rng, layout, style, codes) for _ in range(4)]
    bins = np.array([as_bins(layout, c).ravel() for c in cells]).reshape(2, -1)
    rights = draw_rights(rng, 9)
    rights[0, codes] = False
    rights[1, codes] = True
    nodes, features, rows = np.array([1, 0, 1]), np.array([0, 1, 1]), np.array([2, 0, 1])
    starts, sizes = np.array([0, 4, 2]), np.array([9, 0, 5])
    allowed = np.zeros((3, 256), dtype=bool)
    allowed[:, codes] = rng.random((3, len(codes))) < 0.6
    costs = np.full((4, 9), UNTOUCHED, dtype=np.int64)
    after, _ = BOTH(
        "family_costs", bins, nodes, features, starts, sizes, masks_of(rights), masks_of(allowed), rows,
        layout.n_columns, layout.shift, layout.scale(units), balance, costs,
    )  # fmt: skip
    absent = np.ones((3, 9), dtype=bool)
    for i in range(3):
        for j in range(sizes[i]):
            right = rights[starts[i] + j]
            if (right & allowed[i]).any() and (~right & allowed[i]).any():
                absent[rows[i], j] = False
                cost = after[-1][rows[i], j]
                check_cost(cost, cells[2 * nodes[i] + features[i]], right, layout.scale(units), balance)
    np.testing.assert_array_equal(after[-1][:3] == ABSENT_COST, absent)
    assert (after[-1][3] == UNTOUCHED).all()


@pytest.mark.parametrize("name", ["mask_costs", "numeric_costs", "family_costs"])
def test_no_pairs(name):
    none, bins = np.zeros(0, dtype=np.int64), np.zeros((1, 256), dtype=np.uint64)
    no_masks, no_bytes, tail = np.zeros((0, 32), np.uint8), np.zeros(0, np.uint8), (1, 32, 1.0, 1)
    two = np.zeros((2, 3), dtype=np.int64)
    if name == "mask_costs":
        BOTH(name, bins, none, none, no_masks, *tail, none)
    elif name == "family_costs":
        BOTH(name, bins, none, none, none, none, no_masks, no_masks, none, *tail, two)
    else:
        scratch = np.zeros(256, dtype=np.int64), np.zeros((2, 256))
        BOTH(name, bins, none, none, none, no_bytes, no_bytes, no_bytes, none, *tail, *scratch, two)


def moves(layout, cells, code, value, column, units, balance, kind, rng):
    """Return how much every cost changes when a record is added."""
    after = tuple(a.copy() for a in cells)
    after[0][code, column] += 1
    after[1][code, column] += value
    scale, kernel = layout.scale(units), BOTH.compiled
    one = np.zeros(1, dtype=np.int64)
    rights = draw_rights(rng, 40)
    found = []
    for counts_and_values in (cells, after):
        bins = as_bins(layout, counts_and_values).reshape(1, -1)
        if kind == "masks":
            costs = np.zeros(40, dtype=np.int64)
            zeros = np.zeros(40, dtype=np.int64)
            kernel.mask_costs(
                bins, zeros, zeros, masks_of(rights), layout.n_columns, layout.shift, scale, balance, costs
            )
        else:
            costs = np.zeros((1, 509), dtype=np.int64)
            kernel.numeric_costs(
                bins, one, one, one + 255, np.array([0], np.uint8), np.array([254], np.uint8), np.array([1], np.uint8),
                one, layout.n_columns, layout.shift, scale, balance, np.zeros(256, np.int64), np.zeros((2, 256)), costs,
            )  # fmt: skip
        found.append(costs.ravel())
    return found[1] - found[0]


@pytest.mark.parametrize("kind", ["thresholds", "masks"])
@given(seeds, layouts, st.sampled_from(["small", "full", "pure", "two cells", "none"]))
@settings(deadline=None, max_examples=150)
def test_a_record_moves_all_costs_within_the_range(kind, seed, layout, style):
    """privacy.md, section 3: an interval of length U(1 + 2λ) + 2, up to the largest number of rows."""
    rng = np.random.default_rng(seed)
    codes = [0, 254, 255, *rng.integers(0, 256, size=4).tolist()] if style == "two cells" else list(range(256))
    counts, values = draw_cells(rng, layout, style, sorted(set(codes)))
    if counts.sum() == layout.most_rows:  # make room for the record
        fullest = np.unravel_index(counts.argmax(), counts.shape)
        value = min(int(values[fullest]), layout.quantum)
        counts[fullest] -= 1
        values[fullest] -= value
    code, column = int(rng.choice([0, 254, 255, *range(256)])), int(rng.integers(layout.n_columns))
    value = 1 if layout.n_columns > 1 else int(rng.choice([0, layout.quantum, rng.integers(layout.quantum + 1)]))
    for units, balance in ((UNITS, 0), (32, 3), (0, 1), (UNITS, 700)):
        change = moves(layout, (counts, values), code, value, column, units, balance, kind, rng)
        assert change.max() - change.min() <= (units + 2 if units else 0) + 2 * balance


def test_the_range_is_needed():
    """Two targets as far apart as can be, one row each: the same check sees a move of the whole unit."""
    cells = draw_cells(np.random.default_rng(0), TWO_CLASSES, "none", [0])
    cells[0][[0, 9], 0] = 1, 10**6
    cells[1][9, 0] = 10**6
    change = moves(TWO_CLASSES, cells, 9, 0, 0, UNITS, 0, "thresholds", np.random.default_rng(0))
    assert UNITS - 2 <= np.abs(change).max() <= UNITS + 2
