"""Strict accounting: every release is charged at what it costs, and what is released has noise.

The first release: counts of the records, their noise, and what the ledger is told of them.

Clipping ranges of the target: their exact privacy loss, node by node, and what the ledger states of them.

Leaf sums: their noise, and what the ledger is told of them.
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain.encoding import ClippingRanges, TargetLayout
from diprime.forest import sums
from diprime.forest.engine import IndependentAssignment
from diprime.forest.sums import (
    MIN_WIDTH,
    NODES_PER_BATCH,
    QUANTILE_RANGE,
    STRICT,
    TAIL_FRACTION,
    counts_charge,
    leaf_charge,
    node_windows_charge,
    release_counts,
    release_leaves,
    release_windows,
    widened,
    window_charge,
)
from diprime.paper import PUBLISHED
from diprime.privacy.charges import Bound, BoundKind, Mechanism, UnpaidReleaseError
from diprime.privacy.mechanisms.laplace import laplace_variance
from diprime.privacy.mechanisms.selection import exp_upper, exponential_pmf, weight_table
from diprime.privacy.randomness import RandomSource
from tests.goodness import fits
from tests.paid import pay, receipt
from tests.spies import Draws, Releases

LAYOUTS = {
    "number": TargetLayout.of_number(4096),
    "one": TargetLayout.of_classes(1),
    "three": TargetLayout.of_classes(3),
}
TOO_LITTLE_NOISE = Fraction(143, 100)  # an epsilon that is this much larger has 30 % less noise


def test_every_release_is_charged_at_its_cost():
    assert STRICT.name == "strict"
    assert STRICT.assignment(7) == IndependentAssignment(7)
    assert [STRICT.n_charged_medians(k) for k in (1, 2, 9)] == [1, 2, 9]
    assert STRICT.quality_range(1026, 1024) == 1026
    assert STRICT.true_cost(Fraction(1, 3)) is None
    for layout in LAYOUTS.values():
        assert STRICT.leaf_bound(layout) == (Bound(BoundKind.L1, layout.units), None)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_released_leaf_sums_are_the_noisy_ones(layout):
    noisy = np.random.default_rng(0).integers(-9, 9, size=(2, 4, layout.n_outputs))
    for true in (noisy + 1, np.zeros_like(noisy)):
        assert (STRICT.released_leaves(true, noisy, layout) == noisy).all()


def released(values, layout, epsilon, source=None):
    """Release the counts of the records that have these targets."""
    target_counts = np.bincount(np.array(values, dtype=np.int64), minlength=layout.n_targets)
    return release_counts(target_counts, layout, pay(counts_charge(layout, epsilon)), source or RandomSource(0))


@pytest.mark.parametrize("name", LAYOUTS)
def test_without_noise_counts_are_those_of_the_records(name):
    layout = LAYOUTS[name]
    values = {"number": [0, 4096, 7, 7], "one": [0, 0, 0, 0], "three": [2, 0, 2, 2]}[name]
    expected = {"number": [4], "one": [4], "three": [1, 0, 3]}[name]
    found = released(values, layout, math.inf)
    assert found == expected
    assert all(type(count) is int for count in found), "of Python's: no product of them overflows"
    assert released([], layout, math.inf) == [0] * len(expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_record_adds_one_to_one_count(monkeypatch, name):
    layout = LAYOUTS[name]
    releases = Releases(monkeypatch)
    for record in range(layout.n_outputs) if layout.units == 1 else (0, 1, 2048, 4096):
        for target in ([], [0], [0, 0]):
            for values in (target, [*target, record]):
                released(values, layout, Fraction(1, 3))
            before, after = releases.events[-2:]
            assert before.sensitivity == after.sensitivity == 1
            assert before.charge.epsilon == after.charge.epsilon == Fraction(1, 3)
            assert before.values.shape == after.values.shape
            assert np.abs(after.values - before.values).sum() == 1


def test_counts_have_the_charged_noise():
    target, q = [0] * 10 + [2] * 5, math.exp(-1 / 2)
    p = np.array([(1 - q) / (1 + q) * q ** abs(x) for x in range(-4, 5)])

    def found(epsilon):
        source, counts = RandomSource(3), np.zeros((3, 10))
        for _ in range(3000):
            noise = np.array(released(target, LAYOUTS["three"], epsilon, source)) - [10, 0, 5]
            for i, x in enumerate(noise):
                counts[i, x + 4 if abs(x) <= 4 else 9] += 1
        return counts

    assert all(fits(counts, [*p, 1 - p.sum()]) for counts in found(Fraction(1, 2)))
    assert not any(fits(counts, [*p, 1 - p.sum()]) for counts in found(Fraction(1, 2) * TOO_LITTLE_NOISE))


@pytest.mark.parametrize("name", LAYOUTS)
def test_counts_are_charged_at_their_calibration(monkeypatch, name):
    releases = Releases(monkeypatch)
    released([0, 0], LAYOUTS[name], Fraction(1, 50))
    (noise,), (paid,) = releases.events, releases.receipts
    assert noise.charge is paid.charge
    assert (paid.charge.epsilon, paid.charge.n_releases, noise.times) == (Fraction(1, 50), 1, 1)
    assert paid.unused == 0
    assert str(paid.charge.sensitivity) == f"L1 sensitivity {noise.sensitivity}"
    assert paid.charge.description == ("row count" if name == "number" else "class counts")
    assert paid.charge.total == Fraction(1, 50)


def test_receipt_of_counts_is_used_once():
    layout, paid = LAYOUTS["three"], pay(counts_charge(LAYOUTS["three"], Fraction(1)))
    release_counts(np.zeros(3, dtype=np.int64), layout, paid, RandomSource(0))
    with pytest.raises(UnpaidReleaseError, match=r"class counts: 1 .*0 of 1 charged"):
        release_counts(np.zeros(3, dtype=np.int64), layout, paid, RandomSource(0))
    with pytest.raises(UnpaidReleaseError, match=r"exponential mechanism, .*discrete Laplace"):
        release_counts(np.zeros(3, dtype=np.int64), layout, receipt(Mechanism.EXPONENTIAL), RandomSource(0))


NUMBER = TargetLayout.of_number(4096)
SMALL = TargetLayout.of_number(4)
TINY = TargetLayout.of_number(2)
EPSILONS = [Fraction(1, 7), Fraction(1), Fraction(4)]


def counted(nodes, layout):
    """Return how many records of each node have each value, from the lists of their values."""
    return np.array([np.bincount(node, minlength=layout.n_targets) for node in nodes], dtype=np.int64)


def ends_of(found):
    return list(zip(found.low.tolist(), found.high.tolist(), strict=True))


def released_windows(nodes, layout, epsilon, source):
    """Release the windows of several nodes, for an epsilon that is paid for each of their quantiles."""
    return release_windows(counted(nodes, layout), layout, pay(window_charge(layout, epsilon)), source)


def window_of(target, layout, epsilon, source):
    """Return the ends of the window of all records."""
    return ends_of(released_windows([target], layout, epsilon, source))[0]


@cache
def costs_of(nodes, layout=SMALL):
    """Return the costs that a release of the windows of several nodes selects by: node, quantile, threshold."""
    with pytest.MonkeyPatch.context() as patch:
        releases, draws = Releases(patch), Draws(patch)
        released_windows(nodes, layout, Fraction(1), RandomSource(0))
    (paid,) = releases.selections
    assert paid.rule == Mechanism.EXPONENTIAL
    assert sorted(i for pick in paid.picks for i in pick.sets) == list(range(2 * len(nodes)))
    assert len(draws.handed_out) == 2 * len(nodes), "all quantiles of all nodes are drawn independently"
    draws.assert_each_bit_is_used_once()
    return np.concatenate([pick.costs for pick in paid.picks]).reshape(len(nodes), 2, layout.units).tolist()


# -- costs -------------------------------------------------------------------------------------------------------------

records = st.lists(st.integers(0, 4), max_size=40).map(tuple)
several_nodes = st.lists(records, min_size=1, max_size=5).map(tuple)


@given(several_nodes)
@settings(deadline=None, max_examples=60)
def test_costs_are_least_where_a_seventh_lies_below_and_above(nodes):
    for node, (low, high) in zip(nodes, costs_of(nodes), strict=True):
        for threshold in range(4):
            below = sum(v <= threshold for v in node)
            above = len(node) - below
            assert low[threshold] == abs(6 * below - above)
            assert high[threshold] == abs(below - 6 * above)


@given(st.lists(st.integers(0, 16), max_size=60).map(tuple), st.integers(0, 16))
@settings(deadline=None, max_examples=80)
def test_record_moves_the_costs_of_a_quantile_within_the_range(target, record):
    layout = TargetLayout.of_number(16)
    before, after = costs_of((target, (*target, record)), layout)
    assert (np.ptp(np.subtract(after, before), axis=1) <= QUANTILE_RANGE).all()


def test_record_can_move_the_costs_by_all_of_the_range():
    """The record is below thresholds on either side of the seventh."""
    target = (1, *[3] * 20)
    before, after = costs_of((target, (*target, 0)))
    change = np.subtract(after, before)
    assert change[0].tolist() == [-6, -6, -6, 6]
    assert np.ptp(change[0]) == QUANTILE_RANGE


@given(several_nodes, st.data())
@settings(deadline=None, max_examples=60)
def test_record_changes_costs_of_its_node_only(nodes, data):
    at = data.draw(st.integers(0, len(nodes) - 1))
    larger = tuple((*node, data.draw(st.integers(0, 4))) if i == at else node for i, node in enumerate(nodes))
    pairs = zip(costs_of(nodes), costs_of(larger), strict=True)
    assert all(before == after for i, (before, after) in enumerate(pairs) if i != at)


# -- the exact loss ----------------------------------------------------------------------------------------------------

BITS = 100


def are_close(one, two, epsilon):
    """Return whether two distributions on the same outcomes are epsilon-close, decided in integers."""
    shrink = exp_upper(epsilon, BITS)  # at least 2^bits·e^-epsilon: a bound that holds for it holds for e^-epsilon
    pairs = list(zip(one, two, strict=True))
    return all(p * shrink <= q * 2**BITS and q * shrink <= p * 2**BITS for p, q in pairs)


def multisets(n_values, sizes):
    return [m for size in sizes for m in itertools.combinations_with_replacement(range(n_values), size)]


@cache
def quantiles_pmfs(nodes, layout, epsilon, cost_range):
    """Return the distributions of the quantiles of several nodes that are released at once: node, quantile."""
    table = weight_table(epsilon, cost_range, layout.units)
    return [[exponential_pmf(costs, table) for costs in both] for both in costs_of(nodes, layout)]


def all_are_close(epsilon, cost_range, sizes=range(5), copies=1):
    """Return whether each quantile of all small targets and their neighbours is epsilon-close."""
    for target in multisets(SMALL.units + 1, sizes):
        target = tuple(np.repeat(target, copies).tolist())
        for record in range(SMALL.units + 1):
            larger = tuple(sorted((*target, record)))
            (before,), (after,) = (quantiles_pmfs((t,), SMALL, epsilon, cost_range) for t in (target, larger))
            if not all(are_close(one, two, epsilon) for one, two in zip(before, after, strict=True)):
                return False
    return True


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_quantile_loses_at_most_its_epsilon(epsilon):
    """All targets of few records, and those with many times as many, one record added or removed."""
    assert all_are_close(epsilon, QUANTILE_RANGE)
    assert all_are_close(epsilon, QUANTILE_RANGE, sizes=range(1, 4), copies=7)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_cost_range_too_short_by_a_third_is_detected(epsilon):
    shorter = 7 * QUANTILE_RANGE // 10
    assert not (all_are_close(epsilon, shorter) and all_are_close(epsilon, shorter, sizes=range(1, 4), copies=7))


def windows_pmf(low, high):
    """Return the distribution of a window, whose ends are two independent quantiles in whatever order they come."""
    pmf = {(a, b): Fraction(0) for a, b in itertools.combinations(range(len(low) + 1), 2)}
    for (a, p), (b, q) in itertools.product(enumerate(low), enumerate(high)):
        pmf[min(a, b), max(a, b) + 1] += p * q
    return pmf


def forests_are_close(epsilon, cost_range, copies, largest):
    """Return whether the windows of two nodes at once, of all small records, lose two quantiles' epsilon at most."""

    @cache
    def together(nodes):
        each = [windows_pmf(*pmfs) for pmfs in quantiles_pmfs(nodes, TINY, epsilon, cost_range)]
        return {outcome: math.prod(pmf[w] for pmf, w in zip(each, outcome, strict=True))
                for outcome in itertools.product(*each)}  # fmt: skip

    for both in itertools.product(multisets(TINY.units + 1, range(largest + 1)), repeat=2):
        nodes = tuple(tuple(np.repeat(node, copies).tolist()) for node in both)
        before = together(nodes)
        assert sum(before.values()) == 1
        for at, record in itertools.product((0, 1), range(TINY.units + 1)):
            larger = tuple(tuple(sorted((*node, record))) if i == at else node for i, node in enumerate(nodes))
            per_quantile = [quantiles_pmfs(n, TINY, epsilon, cost_range) for n in (nodes, larger)]
            assert per_quantile[0][1 - at] == per_quantile[1][1 - at], "the other node loses nothing"
            quantiles = zip(per_quantile[0][at], per_quantile[1][at], strict=True)
            if not all(are_close(one, two, epsilon) for one, two in quantiles):
                return False
            if not are_close(before.values(), together(larger).values(), 2 * epsilon):
                return False
    return True


@pytest.mark.parametrize(
    ("copies", "largest"), [(7, 2), *(pytest.param(copies, 3, marks=pytest.mark.audit) for copies in (1, 7))]
)
def test_clipping_ranges_of_all_nodes_cost_as_much_as_one(copies, largest):
    assert forests_are_close(Fraction(1), QUANTILE_RANGE, copies, largest)


def test_loss_of_several_nodes_detects_a_short_range():
    assert not forests_are_close(Fraction(1), 7 * QUANTILE_RANGE // 10, 7, 2)


# -- draws -------------------------------------------------------------------------------------------------------------

NODES = ((0, 1, 1, 2, 3, 3, 3, 4, 4), (), (0, 0, 1, 2))


def test_clipping_ranges_of_nodes_have_their_distribution_and_less_noise_is_detected():
    """Of each pair of nodes together: drawn independently, their frequencies are those of the product."""
    epsilon, copies = Fraction(2), 8000
    table = weight_table(epsilon, QUANTILE_RANGE, SMALL.units)
    pmfs = [windows_pmf(*(exponential_pmf(costs, table) for costs in both)) for both in costs_of(NODES)]

    def counts(epsilon):
        found = released_windows(NODES * copies, SMALL, epsilon, RandomSource(5))
        drawn = [ends_of(ClippingRanges(found.low[i::3], found.high[i::3])) for i in range(3)]
        for i, j in itertools.combinations(range(3), 2):
            expected = {(v, w): p * q for (v, p), (w, q) in itertools.product(pmfs[i].items(), pmfs[j].items())}
            frequencies = dict.fromkeys(expected, 0)
            for pair in zip(drawn[i], drawn[j], strict=True):
                frequencies[pair] += 1
            yield list(frequencies.values()), list(expected.values())

    assert all(fits(*pair) for pair in counts(epsilon))
    # An empty node has equal costs, which no epsilon tells apart: every pair has one node that it tells of.
    assert not any(fits(*pair) for pair in counts(epsilon * TOO_LITTLE_NOISE))


def test_window_of_all_records_is_drawn_from_its_distribution_call_after_call():
    target, draws = NODES[0], 3000
    table = weight_table(Fraction(1), QUANTILE_RANGE, SMALL.units)
    ((low, high),) = costs_of(NODES[:1])
    expected = windows_pmf(exponential_pmf(low, table), exponential_pmf(high, table))

    def counts(epsilon):
        source, found = RandomSource(5), dict.fromkeys(expected, 0)
        for _ in range(draws):
            found[window_of(target, SMALL, epsilon, source)] += 1
        return list(found.values())

    assert fits(counts(Fraction(1)), list(expected.values()))
    assert not fits(counts(Fraction(3)), list(expected.values()))


@pytest.mark.parametrize("per_batch", [1, 2, 5, 1000])
def test_windows_do_not_depend_on_how_many_nodes_are_in_memory_at_a_time(monkeypatch, per_batch):
    rng = np.random.default_rng(0)
    nodes = [rng.integers(0, 4097, size=i % 50) for i in range(3 * NODES_PER_BATCH + 7)]
    releases = Releases(monkeypatch)
    expected = ends_of(released_windows(nodes, NUMBER, Fraction(1), RandomSource(3)))
    assert max(len(pick.costs) for pick in releases.events) == 2 * NODES_PER_BATCH
    monkeypatch.setattr(sums, "NODES_PER_BATCH", per_batch)
    assert ends_of(released_windows(nodes, NUMBER, Fraction(1), RandomSource(3))) == expected
    assert len(set(expected)) > 90


# -- the window that is made of them -----------------------------------------------------------------------------------

TARGETS = {
    "none": [],
    "all at the low end": [0] * 500,
    "all at the high end": [4096] * 500,
    "all alike": [1000] * 500,
    "both ends": [0] * 250 + [4096] * 250,
    "one": [17],
    "uniform": list(range(0, 4097, 8)),
}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(50)])
def test_window_is_inside_the_range_and_never_too_narrow(name, epsilon):
    source, least = RandomSource(1), round(MIN_WIDTH * NUMBER.units)
    assert least == 16
    found = released_windows([np.array(TARGETS[name], dtype=np.int32)] * 20, NUMBER, epsilon, source)
    assert len(found) == 20
    assert found.low.dtype == found.high.dtype == np.int64
    for low, high in ends_of(found):
        assert 0 <= low < high <= NUMBER.units
        assert high - low >= least


@pytest.mark.parametrize("units", [4096, 256, 16, 2])
def test_clipping_range_is_wide_enough_for_any_quantiles(monkeypatch, units):
    layout, least = TargetLayout.of_number(units), max(1, round(MIN_WIDTH * units))
    near = sorted({t for t in [*range(20), units // 2, units // 2 + 3, *range(units - 20, units)] if 0 <= t < units})
    pairs = list(itertools.product(near, repeat=2))
    waiting = iter(np.ravel(pairs).tolist())

    class Told(Releases):
        def answer(self, event, draw):
            return np.array([next(waiting) for _ in event.costs])

    Told(monkeypatch)
    found = released_windows([[0]] * len(pairs), layout, Fraction(1), RandomSource(0))
    for picks, (low, high) in zip(pairs, ends_of(found), strict=True):
        assert 0 <= low <= min(picks) <= max(picks) < high <= units
        assert high - low >= least
        if max(picks) + 1 - min(picks) >= least:
            assert (low, high) == (min(picks), max(picks) + 1)


def test_clipping_range_contains_the_middle_of_many_records():
    target = np.random.default_rng(0).normal(1500, 100, size=20_000).astype(np.int32)
    low, high = window_of(target, NUMBER, Fraction(1), RandomSource(2))
    assert abs(np.mean(target < low) - TAIL_FRACTION) < 0.02
    assert abs(np.mean(target > high) - TAIL_FRACTION) < 0.02
    # A few records far away change next to nothing.
    odd = np.concatenate([target, np.full(50, 4096)])
    again = window_of(odd, NUMBER, Fraction(1), RandomSource(2))
    assert abs(again[0] - low) < 10
    assert abs(again[1] - high) < 10


def test_widening_by_multiples_of_the_width_stops_at_the_ends_of_the_range():
    before = ClippingRanges(np.array([100, 100, 2000, 4090, 7]), np.array([200, 4000, 2016, 4096, 8]))
    expected = {
        Fraction(0): ends_of(before),
        Fraction(1, 2): [(50, 250), (0, 4096), (1992, 2024), (4087, 4096), (6, 9)],
        Fraction(1, 1000): [(99, 201), (96, 4004), (1999, 2017), (4089, 4096), (6, 9)],
        3: [(0, 500), (0, 4096), (1952, 2064), (4072, 4096), (4, 11)],
        Fraction(10**9): [(0, 4096)] * 5,
        Fraction(2**63 - 1, 3900): [(0, 4096)] * 5,  # of the second window's width, all but beyond 64 bits
        Fraction(10**20): [(0, 4096)] * 5,
    }
    for margin, after in expected.items():
        assert ends_of(widened(before, margin, NUMBER)) == after
    assert ends_of(widened(NUMBER.whole_range, Fraction(2), NUMBER)) == ends_of(NUMBER.whole_range) == [(0, 4096)]


# -- charges -----------------------------------------------------------------------------------------------------------


def test_clipping_range_is_charged_at_its_calibration(monkeypatch):
    releases, epsilon = Releases(monkeypatch), Fraction(1, 50)
    window_of([1, 2, 3], NUMBER, epsilon, RandomSource(0))
    (paid,), (receipt,) = releases.selections, releases.receipts
    assert (paid.epsilon, paid.cost_range, paid.n_candidates) == (epsilon, QUANTILE_RANGE, NUMBER.units)
    assert paid.table is weight_table(epsilon, QUANTILE_RANGE, NUMBER.units)
    assert paid.charge is receipt.charge
    assert (paid.charge.description, str(paid.charge.sensitivity)) == (
        "target clipping range",
        f"cost range {QUANTILE_RANGE}",
    )
    assert paid.charge.n_releases == paid.times == paid.n_picks == 2
    assert receipt.unused == 0
    assert paid.charge.epsilon == epsilon
    assert paid.charge.total == 2 * epsilon


@pytest.mark.parametrize("times", [1, 3])
def test_windows_of_nodes_are_charged_by_level_for_two_quantiles_a_round(times):
    charge = node_windows_charge(NUMBER, 4, Fraction(1, 70), times, "whatever holds")
    assert (charge.description, charge.level) == ("target clipping ranges of level 4", 4)
    assert (charge.mechanism, str(charge.sensitivity)) == (Mechanism.EXPONENTIAL, "cost range 12")
    assert (charge.epsilon, charge.n_releases, charge.total) == (Fraction(1, 70), 2 * times, Fraction(2 * times, 70))
    assert charge.composition == "The cost covers two quantiles of each range. whatever holds"


@pytest.mark.parametrize("times", [1, 3])
def test_windows_of_nodes_are_released_as_often_as_rounds_were_paid_for(times):
    receipt = pay(node_windows_charge(NUMBER, 2, Fraction(1), times, ""))
    for left in reversed(range(times)):
        release_windows(counted([[1], [2, 3]], SMALL), SMALL, receipt, RandomSource(0))
        assert receipt.unused == 2 * left, "two quantiles a round, however many nodes there are"
    with pytest.raises(UnpaidReleaseError, match=f"0 of {2 * times} charged"):
        release_windows(counted([[1], [2, 3]], SMALL), SMALL, receipt, RandomSource(0))


def test_clipping_range_needs_receipts_for_two_quantiles():
    charge = window_charge(NUMBER, Fraction(1))
    with pytest.raises(UnpaidReleaseError, match=r": 2 .*1 of 1 charged"):
        release_windows(counted([[1]], SMALL), SMALL, pay(replace(charge, n_releases=1)), RandomSource(0))


def test_all_quantiles_of_all_nodes_are_drawn_for_the_epsilon_that_was_charged(monkeypatch):
    releases = Releases(monkeypatch)
    released_windows([[1, 2], []] * NODES_PER_BATCH, NUMBER, Fraction(1, 50), RandomSource(0))
    (paid,) = releases.selections
    assert (paid.epsilon, paid.cost_range, paid.n_candidates) == (Fraction(1, 50), QUANTILE_RANGE, NUMBER.units)
    assert len(paid.picks) == 2
    assert paid.n_picks == 4 * NODES_PER_BATCH
    assert paid.table is weight_table(Fraction(1, 50), QUANTILE_RANGE, NUMBER.units)


@pytest.mark.parametrize("max_records", [2, 5])
def test_windows_of_persons_are_charged_for_all_records_of_one(max_records, monkeypatch):
    layout = SMALL.of_persons(max_records)
    cost_range = QUANTILE_RANGE * layout.person_weight
    charges = window_charge(layout, Fraction(1)), node_windows_charge(layout, 1, Fraction(1), 1, "")
    assert [charge.sensitivity.n for charge in charges] == [cost_range, cost_range]
    releases = Releases(monkeypatch)
    release_windows(np.zeros((2, layout.units + 1), dtype=np.int64), layout, pay(charges[0]), RandomSource(0))
    assert [paid.cost_range for paid in releases.selections] == [cost_range]


def released_leaves(sums, layout, epsilon, window=None, policy=STRICT, times=1):
    """Release leaf sums that are paid for."""
    receipt = pay(leaf_charge(layout, epsilon, times, "", policy))
    return release_leaves(sums, layout, window or layout.whole_range, receipt, policy, RandomSource(0))


@pytest.mark.parametrize("layout", [TargetLayout.of_classes(3), TargetLayout.of_number(4096)])
def test_without_noise_the_release_is_the_truth_in_units_of_a_record(layout):
    sums = np.arange(4 * 2 * layout.n_outputs).reshape(2, 4, -1).astype(np.int64) * layout.units
    leaves = released_leaves(sums, layout, math.inf)
    assert np.array_equal(leaves.sums * layout.units, sums)
    assert np.array_equal(leaves.counts * layout.units, sums.sum(axis=-1))
    assert leaves.noise_variance == 0
    assert (leaves.low, leaves.high) == (0, 1)


@pytest.mark.parametrize("policy", [STRICT, PUBLISHED])
def test_clipping_range_only_rescales_leaf_sums(policy):
    layout = TargetLayout.of_number(4096)
    sums = np.full((1, 64, 2), 50 * 4096, dtype=np.int64)
    whole, part = (
        released_leaves(sums, layout, Fraction(1), window, policy)
        for window in (layout.whole_range, ClippingRanges(np.array([1024]), np.array([3072])))
    )
    assert np.array_equal(whole.sums, part.sums)
    assert np.array_equal(whole.counts, part.counts)
    assert whole.noise_variance == part.noise_variance
    assert (whole.low, whole.high) == (0, 1)
    assert (part.low, part.high) == (0.25, 0.75)


@pytest.mark.parametrize("layout", [TargetLayout.of_classes(2), TargetLayout.of_number(4096)])
def test_leaf_noise_has_the_stated_variance(layout):
    sums = np.full((4, 2048, 2), 1000 * layout.units, dtype=np.int64)
    epsilon = Fraction(1, 2)
    leaves = released_leaves(sums, layout, epsilon)
    noise = leaves.sums - 1000
    assert leaves.noise_variance == pytest.approx(laplace_variance(epsilon, layout.units) / layout.units**2)
    assert leaves.noise_variance == pytest.approx(8, rel=0.03)
    # 16,384 draws with a kurtosis of 6: the variance is known to 1.8 %, the mean to 0.022; four of them each.
    assert noise.var() == pytest.approx(leaves.noise_variance, rel=0.072)
    assert abs(noise.mean()) < 0.09
    assert abs(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1]) < 0.05
    assert np.array_equal(leaves.counts, leaves.sums.sum(axis=-1))  # the count is known from the sums alone


@pytest.mark.parametrize(("layout", "bound"), [(TargetLayout.of_classes(5), 1), (TargetLayout.of_number(4096), 4096)])
def test_leaf_charge_states_the_calibrated_norm(monkeypatch, layout, bound):
    releases, draws = Releases(monkeypatch), Draws(monkeypatch)
    sums = np.arange(4 * 8 * layout.n_outputs).reshape(4, 8, -1)
    found = released_leaves(sums, layout, Fraction(1, 4), times=4)
    (noise,), (receipt,) = releases.events, releases.receipts
    assert (str(noise.charge.sensitivity), noise.charge.total) == (f"L1 sensitivity {bound}", 1)
    assert (noise.sensitivity, noise.charge.epsilon) == (bound, Fraction(1, 4))
    assert (noise.values == sums.reshape(32, -1)).all()
    assert (found.sums * layout.units == noise.drawn.reshape(sums.shape)).all()
    assert len(draws.handed_out) == 32, "each leaf has its own noise"
    draws.assert_each_bit_is_used_once()
    assert (noise.times, receipt.unused) == (4, 0), "a record is in a leaf of each of four trees"


def test_receipt_of_leaves_is_used_once():
    layout = TargetLayout.of_classes(2)
    receipt = pay(leaf_charge(layout, Fraction(1), 3, "", STRICT))
    arguments = np.zeros((3, 2, 2), dtype=np.int64), layout, layout.whole_range, receipt, STRICT
    release_leaves(*arguments, RandomSource(0))
    with pytest.raises(UnpaidReleaseError, match=r"leaf sums: 3 .*0 of 3 charged"):
        release_leaves(*arguments, RandomSource(0))
