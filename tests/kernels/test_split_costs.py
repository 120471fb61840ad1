"""Costs of splits: compiled, interpreted, and from fractions, up to the largest sums that a bin can hold."""

from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.forest.candidates import MEDIAN_COST, UNBOUNDED_SHORTFALL, Cost
from diprime.kernels.constants import ABSENT_COST
from tests.exact_costs import impurity_of_share
from tests.kernel_pairs import Both

BOTH = Both("split_costs")
UNITS = 1 << 10
UNTOUCHED = -99
LINEAR_TAILS = [Fraction(0), Fraction(1, 64), Fraction(1, 8), Fraction(3, 8), Fraction(31, 64)]
seeds = st.integers(0, 2**32 - 1)
costs_of = st.builds(
    Cost,
    st.sampled_from([0, 32, UNITS]),
    st.sampled_from([0, 1, 512]),
    st.sampled_from([0, 1, 3, 40, 1 << 25, UNBOUNDED_SHORTFALL]),
    st.sampled_from(LINEAR_TAILS),
)


def compiled(name, *arguments):
    """Build an argument of the compiled kernel alone."""
    return getattr(BOTH.compiled, name)(*arguments)


@dataclass(frozen=True)
class Layout:
    n_columns: int
    shift: int
    whole: int  # what a record adds, at most

    @property
    def max_rows(self):
        return (1 << min(31, 64 - self.shift)) - 1

    @property
    def weight(self):
        return Fraction(1, min(self.n_columns, 2))

    def arguments(self, cost, bins, build=BOTH.build):
        """Return what a kernel makes of bins, and how it reads them."""
        scale = float(cost.units * self.weight / self.whole)
        rule = build("CostRule", scale, float(self.whole), float(cost.linear_tail), cost.balance, cost.min_rows)
        return rule, build("BinsView", bins, self.n_columns, self.shift)

    def scratch(self, build=BOTH.build):
        """Return memory of a kernel, with something in it."""
        table, codes = np.full((257, self.n_columns), 5, dtype=np.uint64), np.full((3, 256), 5, dtype=np.int64)
        return build("Scratch", np.full((4, 256), 5.0), table, codes)

    def compiled_arguments(self, cost, bins):
        """Return the same for the compiled kernel alone."""
        return self.arguments(cost, bins, compiled)


NUMBER, TWO_CLASSES, THREE_CLASSES = Layout(1, 38, 4096), Layout(1, 32, 1), Layout(3, 32, 1)
THOUSAND_CLASSES = Layout(1000, 32, 1)
LAYOUTS = [NUMBER, TWO_CLASSES, THREE_CLASSES]
STYLES = ["small", "full", "pure", "ends", "one", "none", "two cells"]
layouts = st.sampled_from(LAYOUTS)
styles = st.sampled_from(STYLES)


def draw_cells(rng, layout, style, codes):
    """Return counts and value sums by code and column; nothing outside ``codes``."""
    shape = (len(codes), layout.n_columns)
    n_cells = len(codes) * layout.n_columns
    rows = layout.max_rows
    if style == "small":
        counts = rng.integers(0, 6, size=shape)
    elif style in ("full", "pure", "ends"):  # as many rows as there can be
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
    near = float(
        rng.choice([*map(float, LINEAR_TAILS), *(1 - float(e) for e in LINEAR_TAILS)])
    )  # where the impurity has a bend
    if layout.n_columns > 1 and style == "ends":
        total = counts.sum(axis=1)
        counts[:, 0] = np.minimum(total * near + rng.integers(2, size=len(codes)), total)
        counts[:, 1:-1] = 0
        counts[:, -1] = total - counts[:, 0]
    if layout.n_columns > 1:
        values = counts
    elif style == "pure":
        values = counts * layout.whole
    elif style == "ends":
        values = (counts * layout.whole * near).astype(np.int64)
        values = np.clip(values + rng.integers(-1, 2, size=shape), 0, counts * layout.whole)
    else:
        values = (counts * layout.whole * rng.random(shape)).astype(np.int64)
    all_counts, all_values = (np.zeros((256, layout.n_columns), dtype=np.int64) for _ in range(2))
    all_counts[codes], all_values[codes] = counts, values
    return all_counts, all_values


def as_bins(layout, cells):
    counts, values = cells
    return (counts.astype(np.uint64) << np.uint64(layout.shift)) | values.astype(np.uint64)


def gain_of(layout, linear_tail, counts, values, right):
    """Return n_L, n_R and what all rows would have in impurity on their own lines, less what they have, exactly."""
    gain, sizes = Fraction(0), []
    for side in (~right, right):
        n = int(counts[side].sum())
        sizes.append(n)
        for s in values[side].sum(axis=0) if n else []:
            p = Fraction(int(s), n * layout.whole)
            gain += layout.weight * n * (p - impurity_of_share(p, linear_tail))
    return (*sizes, gain)


def check_cost(found, layout, cells, right, cost):
    """The floor of a number within a quarter unit of the exact one."""
    n_left, n_right, gain = gain_of(layout, cost.linear_tail, *cells, right)
    units = cost.balance * max(0, cost.min_rows - min(n_left, n_right)) - int(found)
    exact = cost.units * gain
    assert floor(exact - Fraction(1, 4)) <= units <= floor(exact + Fraction(1, 4))
    if cost.units == 0:
        assert units == 0


def threshold(code, *, missing_right):
    right = np.arange(256) > code
    right[255] = missing_right
    return right


def numeric_costs(layout, bins, low, high, missing, n_cells, cost, *, place=(0, 0)):
    """Return the costs of all slots at a place, a node and a feature, and whether the second half mirrors the first."""
    node, feature = place
    one = np.zeros(1, dtype=np.int64)
    after, _ = BOTH(
        "numeric_costs",
        *layout.arguments(cost, bins),
        one + node,
        one + feature,
        np.array([low], dtype=np.uint8),
        np.array([high], dtype=np.uint8),
        np.array([missing], dtype=np.uint8),
        one,
        layout.scratch(),
        np.full(1, 7, dtype=np.uint8),
        np.full((1, 2 * n_cells), UNTOUCHED, dtype=np.int64),
    )
    mirrored, costs = after[-2][0], after[-1][0]
    if mirrored:
        assert (costs[n_cells:] == UNTOUCHED).all()
        costs = np.tile(costs[:n_cells], 2)
    return costs, mirrored


def expected_slots(low, high, missing, half):
    """Return which split each slot stands for: threshold, and whether missing values go right."""
    slots = {code: (code, False) for code in range(low, high + 1 if missing else high)}
    if missing:
        slots |= {half + code: (code, True) for code in range(low, high + 1)}
    return slots


def check_slots(layout, costs, cells, slots, cost):
    """Every slot has the cost of its split, or none."""
    for slot, found in enumerate(costs):
        if slot in slots:
            code, missing_right = slots[slot]
            check_cost(found, layout, cells, threshold(code, missing_right=missing_right), cost)
        else:
            assert found == ABSENT_COST


def check_numeric(rng, layout, style, low, high, missing, n_cells, cost):
    codes = [*range(low, high + 1), *([255] if missing and rng.random() < 0.7 else [])]
    cells = draw_cells(rng, layout, style, codes) if codes else draw_cells(rng, layout, "none", [0])
    bins = rng.integers(0, 2**63, size=(2, 2, 256 * layout.n_columns)).astype(np.uint64)  # other nodes and features
    bins[1, 1] = as_bins(layout, cells).ravel()
    costs, mirrored = numeric_costs(layout, bins.reshape(2, -1), low, high, missing, n_cells, cost, place=(1, 1))
    assert mirrored == (missing and not cells[0][255].any())
    check_slots(layout, costs, cells, expected_slots(low, high, missing, n_cells), cost)


@given(seeds, layouts, styles, costs_of, st.data())
@settings(deadline=None, max_examples=100)
def test_numeric_costs_are_those_of_exact_arithmetic(seed, layout, style, cost, data):
    n_cells = data.draw(st.sampled_from([1, 2, 9, 60]))
    low = data.draw(st.integers(0, n_cells - 1))
    high = data.draw(st.integers(low, n_cells - 1))
    missing = data.draw(st.booleans())
    check_numeric(np.random.default_rng(seed), layout, style, low, high, missing, n_cells, cost)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_last_codes_and_regions_without_a_split(layout):
    rng = np.random.default_rng(0)
    for low, high, missing in [(254, 254, True), (254, 254, False), (253, 254, True), (0, 0, True), (7, 6, False)]:
        for linear_tail in LINEAR_TAILS:
            check_numeric(rng, layout, "small", low, high, missing, 255, Cost(UNITS, 1, 9, linear_tail))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("linear_tail", LINEAR_TAILS)
def test_compiled_and_interpreted_agree_where_the_exact_cost_is_an_integer(layout, linear_tail):
    """A node of equal targets costs exactly -units·n: the slightest difference in rounding shows in the floor."""
    rng, cost = np.random.default_rng(1), Cost(UNITS, 0, linear_tail=linear_tail)
    for _ in range(5):
        check_numeric(rng, layout, "pure", 0, 60, True, 61, cost)
    for n_left in (1, 3, 7, layout.max_rows // 3, layout.max_rows // 2, layout.max_rows - 1):
        counts = np.zeros((256, layout.n_columns), dtype=np.int64)
        counts[0, 0], counts[1, 0] = n_left, layout.max_rows - n_left
        cells = counts, counts * layout.whole
        costs, _ = numeric_costs(layout, as_bins(layout, cells).reshape(1, -1), 0, 1, True, 2, cost)
        check_slots(layout, costs, cells, expected_slots(0, 1, True, 2), cost)


@pytest.mark.parametrize("linear_tail", LINEAR_TAILS)
@pytest.mark.parametrize("style", ["full", "ends", "small"])
def test_a_thousand_columns(linear_tail, style):
    layout, cost = THOUSAND_CLASSES, Cost(UNITS, 7, 10**9, linear_tail)
    cells = draw_cells(np.random.default_rng(2), layout, style, [0, 1, 2, 255])
    bins = as_bins(layout, cells).reshape(1, -1)
    costs, _ = numeric_costs(layout, bins, 0, 2, True, 3, cost)
    check_slots(layout, costs, cells, expected_slots(0, 2, True, 3), cost)
    zero, right = np.zeros(1, dtype=np.int64), threshold(1, missing_right=True)
    found = zero.copy()
    BOTH.compiled.mask_costs(
        *layout.compiled_arguments(cost, bins), zero, zero, masks_of(right[None]), layout.scratch(compiled), found
    )
    check_cost(found[0], layout, cells, right, cost)


def test_several_nodes_and_features_in_one_call():
    layout, cost, rng = TWO_CLASSES, Cost(UNITS, 5, 12, Fraction(1, 8)), np.random.default_rng(3)
    with_missing, without = [*range(9), 255], [*range(9)]
    codes_at = {(2, 0): with_missing, (0, 1): without, (2, 1): without, (1, 0): without, (1, 1): with_missing}
    cells = {
        (node, j): draw_cells(rng, layout, "small", codes_at.get((node, j), with_missing))
        for node in range(3)
        for j in range(2)
    }
    bins = np.array([[as_bins(layout, cells[node, j]).ravel() for j in range(2)] for node in range(3)]).reshape(3, -1)
    nodes, features, rows = np.array([2, 0, 2, 1]), np.array([0, 1, 1, 0]), np.array([3, 0, 1, 4])
    low, high = np.array([0, 2, 0, 0], dtype=np.uint8), np.array([8, 5, 8, 3], dtype=np.uint8)
    missing = np.array([1, 0, 0, 1], dtype=np.uint8)
    costs, mirrored = np.full((6, 18), UNTOUCHED, dtype=np.int64), np.full(6, 7, dtype=np.uint8)
    after, _ = BOTH(
        "numeric_costs", *layout.arguments(cost, bins), nodes, features, low, high, missing, rows,
        layout.scratch(), mirrored, costs,
    )  # fmt: skip
    mirrored, costs = after[-2:]
    assert mirrored.tolist() == [0, 0, 7, 0, 1, 7]
    assert (costs[[2, 5]] == UNTOUCHED).all()
    assert (costs[4, 9:] == UNTOUCHED).all()
    costs[4, 9:] = costs[4, :9]
    for i in range(4):
        counts, values = (a.copy() for a in cells[nodes[i], features[i]])
        outside = [c for c in range(256) if not (low[i] <= c <= high[i] or c == 255)]
        counts[outside], values[outside] = 0, 0
        slots = expected_slots(int(low[i]), int(high[i]), missing[i], 9)
        check_slots(layout, costs[rows[i]], (counts, values), slots, cost)


def masks_of(rights):
    return np.packbits(np.array(rights, dtype=np.uint8), axis=-1, bitorder="little")


def draw_rights(rng, n):
    rights = rng.random((n, 256)) < 0.5
    rights[: n // 3] = False
    rights[np.arange(n // 3), rng.choice([0, 1, 254, 255], size=n // 3)] = True
    return rights


@given(seeds, layouts, styles, costs_of, st.integers(0, 7))
@settings(deadline=None, max_examples=80)
def test_mask_costs_are_those_of_exact_arithmetic(seed, layout, style, cost, n):
    rng = np.random.default_rng(seed)
    codes = sorted({0, 254, 255, *rng.integers(0, 256, size=5).tolist()})
    cells = [draw_cells(rng, layout, style, codes) for _ in range(4)]  # two nodes, two features
    bins = np.array([as_bins(layout, c).ravel() for c in cells]).reshape(2, -1)
    nodes, features = rng.integers(0, 2, size=n), rng.integers(0, 2, size=n)
    rights = draw_rights(rng, n)
    costs = np.full(n, UNTOUCHED, dtype=np.int64)
    after, _ = BOTH(
        "mask_costs", *layout.arguments(cost, bins), nodes, features, masks_of(rights), layout.scratch(), costs
    )
    for i in range(n):
        check_cost(after[-1][i], layout, cells[2 * nodes[i] + features[i]], rights[i], cost)


@given(seeds, layouts, styles, costs_of)
@settings(deadline=None, max_examples=40)
def test_categorical_costs_are_those_of_their_masks_where_both_sides_can_occur(seed, layout, style, cost):
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
        "categorical_costs", *layout.arguments(cost, bins), nodes, features, starts, sizes,
        masks_of(rights), masks_of(allowed), rows, layout.scratch(), costs,
    )  # fmt: skip
    absent = np.ones((3, 9), dtype=bool)
    for i in range(3):
        for j in range(sizes[i]):
            right = rights[starts[i] + j]
            if (right & allowed[i]).any() and (~right & allowed[i]).any():
                absent[rows[i], j] = False
                found = after[-1][rows[i], j]
                check_cost(found, layout, cells[2 * nodes[i] + features[i]], right, cost)
    np.testing.assert_array_equal(after[-1][:3] == ABSENT_COST, absent)
    assert (after[-1][3] == UNTOUCHED).all()


# One record more -----------------------------------------------------------------------------------------------------


def all_costs(layout, cells, cost, rights):
    """Return the costs of all thresholds, on both sides, and of masks."""
    bins, zero = as_bins(layout, cells).reshape(1, -1), np.zeros(1, dtype=np.int64)
    bytes_of, arguments = lambda value: np.array([value], np.uint8), layout.compiled_arguments(cost, bins)
    thresholds, of_masks = np.zeros((1, 510), dtype=np.int64), np.zeros(len(rights), dtype=np.int64)
    scratch, mirrored = layout.scratch(compiled), bytes_of(0)
    BOTH.compiled.numeric_costs(
        *arguments, zero, zero, bytes_of(0), bytes_of(254), bytes_of(1), zero, scratch, mirrored, thresholds
    )
    if mirrored[0]:
        thresholds[:, 255:] = thresholds[:, :255]
    zeros = np.zeros(len(rights), dtype=np.int64)
    BOTH.compiled.mask_costs(*arguments, zeros, zeros, masks_of(rights), scratch, of_masks)
    return np.concatenate([thresholds[0], of_masks])


def moves(layout, cells, code, value, column, cost, rights=()):
    """Return how much every cost changes when a record is added."""
    after = tuple(a.copy() for a in cells)
    after[0][code, column] += 1
    after[1][code, column] += value
    rights = np.asarray(rights, dtype=bool).reshape(-1, 256)
    return all_costs(layout, after, cost, rights) - all_costs(layout, cells, cost, rights)


def check_moves(rng, layout, style, costs):
    codes = [0, 254, 255, *rng.integers(0, 256, size=4).tolist()] if style == "two cells" else list(range(256))
    counts, values = draw_cells(rng, layout, style, sorted(set(codes)))
    if counts.sum() == layout.max_rows:  # make room for the record
        fullest = np.unravel_index(counts.argmax(), counts.shape)
        value = min(int(values[fullest]), layout.whole)
        counts[fullest] -= 1
        values[fullest] -= value
    code, column = int(rng.choice([0, 254, 255, *range(256)])), int(rng.integers(layout.n_columns))
    value = 1 if layout.n_columns > 1 else int(rng.choice([0, layout.whole, rng.integers(layout.whole + 1)]))
    rights = draw_rights(rng, 20)
    for cost in costs:
        change = moves(layout, (counts, values), code, value, column, cost, rights)
        assert change.max() - change.min() <= cost.range
        if cost.units == 0:
            assert change.max() <= 0, "what the smaller side lacks only falls"
            assert change.min() >= -cost.balance


def neighbours_costs(smaller):
    """Return costs of all kinds; ``smaller`` is a number of rows that the smaller side of some candidates has."""
    kinds = [
        (UNITS, 0, 0),
        (32, 3, smaller + 1),
        (0, 1, smaller + 9),
        (UNITS, 700, UNBOUNDED_SHORTFALL),
        (UNITS, 20, 2),
    ]
    return [MEDIAN_COST, *(Cost(*kind, linear_tail) for kind in kinds for linear_tail in LINEAR_TAILS)]


@given(seeds, layouts, st.sampled_from(["small", "full", "pure", "ends", "two cells", "none"]), st.integers(0, 40))
@settings(deadline=None, max_examples=150)
def test_a_record_moves_all_costs_within_the_range(seed, layout, style, smaller):
    """privacy.md, section 3, up to the largest number of rows."""
    check_moves(np.random.default_rng(seed), layout, style, neighbours_costs(smaller))


@pytest.mark.parametrize("style", ["small", "full", "ends", "two cells"])
def test_a_record_moves_all_costs_of_a_thousand_classes_within_the_range(style):
    costs = [Cost(UNITS, 20, UNBOUNDED_SHORTFALL, linear_tail) for linear_tail in LINEAR_TAILS]
    check_moves(np.random.default_rng(0), THOUSAND_CLASSES, style, costs)


def sums_to(total, n):
    """Yield all ways to write total as a sum of n counts."""
    if n == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in sums_to(total - first, n - 1):
            yield (first, *rest)


@pytest.mark.parametrize(("n_classes", "most"), [(2, 40), (3, 14), (4, 8), (5, 6)])
@pytest.mark.parametrize("linear_tail", LINEAR_TAILS)
def test_impurity_only_grows_and_by_at_most_one(n_classes, most, linear_tail):
    """The heart of the proof, exhaustively and in fractions: ½·n·Σ f(p) for every node of few rows and every record."""

    def impurity(counts):
        n = sum(counts)
        return sum(n * impurity_of_share(Fraction(c, n), linear_tail) for c in counts) / 2 if n else Fraction(0)

    changes = []
    for n in range(most + 1):
        for counts in sums_to(n, n_classes):
            before = impurity(counts)
            for j in range(n_classes):
                changes.append(impurity((*counts[:j], counts[j] + 1, *counts[j + 1 :])) - before)
    assert min(changes) == 0
    assert Fraction(7, 8) - Fraction(1, most) < max(changes) <= 1
    if linear_tail >= Fraction(1, 8) and most >= 14:
        assert max(changes) == 1, "with linear tails the whole unit is reached"


@given(
    st.integers(0, 200), st.fractions(0, 1, max_denominator=4096), st.fractions(0, 1, max_denominator=64),
    st.sampled_from(LINEAR_TAILS),
)  # fmt: skip
@settings(deadline=None, max_examples=300)
def test_impurity_of_numbers_only_grows_and_by_at_most_one(n, mean, value, linear_tail):
    def impurity(total, rows):
        return rows * impurity_of_share(total / rows, linear_tail) if rows else 0

    assert 0 <= impurity(n * mean + value, n + 1) - impurity(n * mean, n) <= 1


def the_worst_record(cost):
    """Return the moves of the costs of one node: two pure sides, and between them a record that may join either.

    With threshold 4 it joins its like, on the smaller side; with threshold 3 the others, on the larger one.
    """
    cells = draw_cells(np.random.default_rng(0), TWO_CLASSES, "none", [0])
    cells[0][[0, 9], 0] = 3000, 3003
    cells[1][9, 0] = 3003
    return moves(TWO_CLASSES, cells, 4, 0, 0, cost)


@pytest.mark.parametrize("linear_tail", LINEAR_TAILS)
@pytest.mark.parametrize(("balance", "min_rows"), [(0, 0), (300, UNBOUNDED_SHORTFALL), (300, 3001)])
def test_the_range_is_needed(linear_tail, balance, min_rows):
    """A record moves two candidates apart by all of the range but the rounding."""
    cost = Cost(UNITS, balance, min_rows, linear_tail)
    length = np.ptp(the_worst_record(cost))
    assert cost.range - 3 <= length <= cost.range
    if linear_tail >= Fraction(1, 8):
        assert length == cost.range - 2


def test_the_floor_needs_more_than_the_units():
    rng, cost, lengths = np.random.default_rng(0), Cost(32, 0, 0, Fraction(1, 64)), []
    for _ in range(100):
        cells = draw_cells(rng, TWO_CLASSES, "none", [0])
        cells[0][[0, 9], 0] = rng.integers(10**6, 10**7, size=2)
        cells[1][[0, 9], 0] = rng.integers(300), cells[0][9, 0] - rng.integers(300)
        lengths.append(np.ptp(moves(TWO_CLASSES, cells, 4, 0, 0, cost)))
    assert max(lengths) == cost.units + 1


def test_offsets_are_added_by_the_number_of_candidates_of_a_row():
    offsets = np.arange(0, 70, 10)
    absent = ABSENT_COST
    costs = np.array([[3, absent, 5, absent, 7, 8], [1, 2, absent, -9, -9, -9], [absent] * 6])
    (_, _, after), _ = BOTH("add_offsets", offsets, np.array([0, 1, 0], dtype=np.uint8), costs)
    assert after.tolist() == [[43, absent, 45, absent, 47, 48], [41, 42, absent, -9, -9, -9], [absent] * 6]


# -- wide bins: counts and values apart, for up to 2^40 rows ----------------------------------------------------------


@dataclass(frozen=True)
class WideLayout(Layout):
    max_rows: int = 1 << 40

    def arguments(self, cost, bins, build=BOTH.build):
        """Return the rule, and the two planes as a kernel reads them."""
        counts, values = bins
        scale = float(cost.units * self.weight / self.whole)
        rule = build("CostRule", scale, float(self.whole), float(cost.linear_tail), cost.balance, cost.min_rows)
        return rule, build("BinsView", counts, self.n_columns, self.shift, values)


WIDE = [WideLayout(1, 38, 4096), WideLayout(1, 32, 1), WideLayout(3, 32, 1)]


def planes_of(rng, cells):
    """Return the planes of two nodes and two features, of which the last of both has the cells."""
    planes = []
    for plane in cells:
        bins = rng.integers(0, 2**40, size=(2, 2, plane.size)).astype(np.uint64)
        bins[1, 1] = plane.astype(np.uint64).ravel()
        planes.append(bins.reshape(2, -1))
    return planes


@given(seeds, st.sampled_from(WIDE), styles, costs_of, st.data())
@settings(deadline=None, max_examples=100)
def test_numeric_costs_of_wide_bins_are_those_of_exact_arithmetic(seed, layout, style, cost, data):
    rng = np.random.default_rng(seed)
    n_cells = data.draw(st.sampled_from([1, 2, 9, 40]))
    low = data.draw(st.integers(0, n_cells - 1))
    high = data.draw(st.integers(low, n_cells - 1))
    missing = data.draw(st.booleans())
    codes = [*range(low, high + 1), *([255] if missing and rng.random() < 0.7 else [])]
    cells = draw_cells(rng, layout, style, codes)
    costs, mirrored = numeric_costs(layout, planes_of(rng, cells), low, high, missing, n_cells, cost, place=(1, 1))
    assert mirrored == (missing and not cells[0][255].any())
    check_slots(layout, costs, cells, expected_slots(low, high, missing, n_cells), cost)


@given(seeds, st.sampled_from(WIDE), styles, costs_of)
@settings(deadline=None, max_examples=60)
def test_mask_costs_of_wide_bins_are_those_of_exact_arithmetic(seed, layout, style, cost):
    rng = np.random.default_rng(seed)
    cells = draw_cells(rng, layout, style, np.flatnonzero(rng.random(256) < 0.1).tolist() or [3])
    masks = rng.integers(0, 256, size=(3, 32)).astype(np.uint8)
    place = np.ones(3, dtype=np.int64)
    arguments = layout.arguments(cost, planes_of(rng, cells))
    after, _ = BOTH("mask_costs", *arguments, place, place, masks, layout.scratch(), np.zeros(3, dtype=np.int64))
    for mask, found in zip(masks, after[-1], strict=True):
        check_cost(found, layout, cells, np.unpackbits(mask, bitorder="little").astype(bool), cost)
