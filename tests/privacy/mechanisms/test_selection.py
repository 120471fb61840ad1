"""Weight tables: no entry falls faster than the exponential, wherever a table is cut.

Selections: their exact privacy loss over all small inputs, samplers that follow it, and one pick from each set.

Balanced splits of categories: their exact privacy loss, and every draw of the sampler counted.
"""

import contextlib
import copy
import decimal
import itertools
import math
import pickle
import sys
import threading
import time
import tracemalloc
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime.kernels.constants import ABSENT_COST
from diprime.privacy.charges import Mechanism, UnpaidReleaseError
from diprime.privacy.mechanisms import selection as module
from diprime.privacy.mechanisms.selection import (
    MAX_CATEGORIES,
    MAX_TABLE_LENGTH,
    Selection,
    decimal_below,
    exp_upper,
    exponential_pmf,
    permute_and_flip_pmf,
    subset_median_pmf,
    weight_table,
)
from diprime.privacy.randomness import RandomSource
from tests.exact_exp import EPSILONS, TOO_LITTLE_NOISE, exp_bounds, largest_ratio
from tests.goodness import fits
from tests.paid import receipt, select, subset_median


def test_bounds_of_exp_contain_it():
    for x in (Fraction(0), Fraction(1, 10**9), Fraction(1), Fraction(7, 3), Fraction(50)):
        low, high = exp_bounds(x)
        with decimal.localcontext(decimal.Context(prec=80)):
            reference = (decimal.Decimal(x.numerator) / decimal.Decimal(x.denominator)).exp()
            near = reference * decimal.Decimal(10) ** -75
            assert Fraction(reference - near) < low <= high < Fraction(reference + near)


@given(
    st.fractions(Fraction(1, 10**6), 80) | st.builds(Fraction, st.integers(1, 2**20), st.integers(1, 2**60)),
    st.sampled_from([8, 60, 120, 256]),
)
@example(Fraction(1), 60)
@example(Fraction(1, 2**70), 60)
@example(Fraction(10**4), 60)
@example(Fraction(1), 256)
@example(Fraction(200, 7), 256)
@settings(deadline=None)
def test_exp_upper_is_above_by_less_than_two(x, bits):
    bound, (low, high) = exp_upper(x, bits), exp_bounds(x)
    assert bound * low >= 2**bits
    assert (bound - 2) * high < 2**bits


@given(st.fractions(Fraction(1, 10**9), 10**6), st.sampled_from([3, 60, 125]))
@example(Fraction(1, 3), 60)
@example(Fraction(2, 3), 60)
@settings(deadline=None)
def test_an_exponent_is_rounded_down_and_by_little(x, digits):
    below = Fraction(decimal_below(x, digits))
    assert 0 <= x - below < x * Fraction(1, 10 ** (digits - 1))


@pytest.mark.parametrize(
    "context",
    [decimal.Context(prec=3, rounding=decimal.ROUND_DOWN), decimal.Context(traps=[decimal.Inexact])],
    ids=["few digits", "inexact trapped"],
)
def test_exp_upper_ignores_the_decimal_context_of_the_caller(context):
    xs = [Fraction(1, 3), Fraction(1, 10**6), Fraction(30)]
    expected = [exp_upper(x) for x in xs]
    with decimal.localcontext(context):
        assert [exp_upper(x) for x in xs] == expected


TABLE_PARAMETERS = [
    (epsilon, cost_range, n)
    for epsilon in (Fraction(1, 50), Fraction(1, 3), Fraction(1), Fraction(10), Fraction(1000))
    for cost_range in (1, 2, 1026)
    for n in (1, 2, 1000, 2**17, 2**40, 2**61)
]


@pytest.mark.parametrize(("epsilon", "cost_range", "n_candidates"), TABLE_PARAMETERS)
def test_tables_fall_no_faster_than_the_exponential(epsilon, cost_range, n_candidates):
    """e^(-j·epsilon/R) <= W[k+j]/W[k] <= 1: step by step, and so for any j; constant past the end."""
    table = [int(w) for w in weight_table(epsilon, cost_range, n_candidates)]
    x = epsilon / cost_range
    low, high = exp_bounds(x)
    step = math.floor(low * 2**120)
    assert all(after * step >= before << 120 for before, after in itertools.pairwise(table))
    assert all(0 < after < before for before, after in itertools.pairwise(table))
    # No more is given away than rounding up takes: one in each entry, and a table that ends where it stands still.
    assert all((after - 1 - Fraction(1, 2**12)) * high < before for before, after in itertools.pairwise(table[:2000]))
    factor = Fraction(exp_upper(x), 2**60)
    assert len(table) == MAX_TABLE_LENGTH or math.ceil(table[-1] * factor) == table[-1]
    assert n_candidates * table[0] < 2**63
    assert table[0] == min(2**46, 2 ** (63 - n_candidates.bit_length()))


def test_a_table_with_another_epsilon_is_caught():
    """The same inequality does not hold for a table with 30 % too little noise."""
    table = [int(w) for w in weight_table(TOO_LITTLE_NOISE, 2, 10)]
    low, _ = exp_bounds(Fraction(1, 2))
    assert any(after * low < before for before, after in itertools.pairwise(table))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**30), Fraction(1, 2**60), Fraction(1, 2**47), Fraction(1, 10**5)])
def test_tables_of_tiny_epsilons(epsilon):
    table = [int(w) for w in weight_table(epsilon, 1, 4)]
    low, _ = exp_bounds(epsilon)
    assert all(after * low >= before for before, after in itertools.pairwise(table[:1000]))
    assert 1 <= len(table) <= MAX_TABLE_LENGTH
    if epsilon <= Fraction(1, 2**47):
        assert table == [2**46]


def test_tables_without_privacy_and_without_room():
    assert weight_table(math.inf, 2, 10).tolist() == [1, 0]
    with pytest.raises(ValueError, match="too many"):
        weight_table(Fraction(1), 2, 2**62)


def test_tables_cannot_be_changed():
    for epsilon in (Fraction(1), math.inf):
        with pytest.raises(ValueError, match="read-only"):
            weight_table(epsilon, 2, 10)[0] = 3


DRAWS = 40_000
PMFS = {Mechanism.EXPONENTIAL: exponential_pmf, Mechanism.PERMUTE_AND_FLIP: permute_and_flip_pmf}


# The exact privacy loss ----------------------------------------------------------------------------------------------


def neighbouring_pmfs(pmf, table, least_move, most_move, highest, width, absent=()):
    """Yield the distributions of all cost rows up to ``highest`` and of all that a record can make of them."""

    @cache
    def of(costs):  # only differences matter, which a test below shows
        row = list(costs)
        for slot in absent:
            row.insert(slot, ABSENT_COST)
        return pmf(row, table)

    moves = list(itertools.product(range(least_move, most_move + 1), repeat=width))
    for costs in itertools.product(range(highest + 1), repeat=width):
        if min(costs) == 0:
            for move in moves:
                after = [c + m for c, m in zip(costs, move, strict=True)]
                yield of(costs), of(tuple(c - min(after) for c in after))


@pytest.mark.parametrize("rule", PMFS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("moves", [(-1, 1), (0, 2), (-2, 0), (0, 1), (-1, 2)])
def test_neighbours_differ_by_at_most_epsilon(rule, epsilon, moves):
    table = weight_table(epsilon, moves[1] - moves[0], 3)
    worst = largest_ratio(neighbouring_pmfs(PMFS[rule], table, *moves, highest=4, width=3))
    assert worst <= exp_bounds(epsilon)[0]
    if epsilon <= 1:  # and the budget is not wasted: more than half of the exponent is used
        assert worst >= exp_bounds(epsilon * Fraction(1, 2))[0]


@pytest.mark.parametrize("rule", PMFS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 7), Fraction(9, 2)])
def test_neighbours_with_absent_slots_differ_by_at_most_epsilon(rule, epsilon):
    table = weight_table(epsilon, 2, 4)
    assert largest_ratio(neighbouring_pmfs(PMFS[rule], table, -1, 1, highest=2, width=4)) <= exp_bounds(epsilon)[0]
    pairs = neighbouring_pmfs(PMFS[rule], table, -1, 1, highest=3, width=3, absent=(0, 2, 5))
    assert largest_ratio(pairs) <= exp_bounds(epsilon)[0]


@pytest.mark.parametrize("rule", PMFS)
@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("n_candidates", [3, 2**50, 2**60])
def test_a_table_cut_short_or_with_few_bits_is_as_private(rule, length, n_candidates):
    for epsilon in EPSILONS:
        table = weight_table(epsilon, 2, n_candidates)[:length]
        worst = largest_ratio(neighbouring_pmfs(PMFS[rule], table, -1, 1, highest=4, width=3))
        assert worst <= exp_bounds(epsilon)[0]


@pytest.mark.parametrize("rule", PMFS)
def test_too_sharp_table_exceeds_epsilon(rule):
    """With 30 % too little noise, or a range that is too short by one, the bound is broken."""
    for epsilon in (Fraction(1, 7), Fraction(1)):
        sharp = weight_table(epsilon * TOO_LITTLE_NOISE, 2, 3)
        assert largest_ratio(neighbouring_pmfs(PMFS[rule], sharp, -1, 1, 4, 3)) > exp_bounds(epsilon)[1]
        short = weight_table(epsilon, 2, 3)
        assert largest_ratio(neighbouring_pmfs(PMFS[rule], short, -1, 2, 4, 3)) > exp_bounds(epsilon)[1]


@pytest.mark.parametrize("rule", PMFS)
@given(
    st.lists(st.integers(-(2**40), 2**40) | st.integers(0, 9) | st.just(ABSENT_COST), min_size=1, max_size=5),
    st.integers(-(2**40), 2**40),
    st.integers(1, 20),
)
@settings(deadline=None, max_examples=50)
def test_distributions_add_up_to_one_and_see_only_differences(rule, costs, shift, length):
    costs = [*costs, 3]
    table = weight_table(Fraction(1, 2), 2, 6)[:length]
    pmf = PMFS[rule](costs, table)
    assert sum(pmf) == 1
    assert all((p == 0) == (c == ABSENT_COST) for p, c in zip(pmf, costs, strict=True))
    assert PMFS[rule]([c if c == ABSENT_COST else c + shift for c in costs], table) == pmf


def test_permute_and_flip_matches_its_definition():
    """Every order of the candidates, every outcome of their coins, one by one."""
    table = weight_table(Fraction(1), 2, 4)
    costs = [2, 0, 5, 1]
    bias = [Fraction(int(table[c]), int(table[0])) for c in costs]
    expected = [Fraction(0)] * 4
    for order in itertools.permutations(range(4)):
        chance = Fraction(1, 24)
        for candidate in order:
            expected[candidate] += chance * bias[candidate]
            chance *= 1 - bias[candidate]
    assert permute_and_flip_pmf(costs, table) == expected


# Samplers follow their distributions, and the test knows one that does not -------------------------------------------


def select_many(rule, costs, table, seed):
    rows = np.tile(np.array(costs, dtype=np.int64), (DRAWS, 1))
    picks = select(rule, rows, table, RandomSource(seed).streams(DRAWS))
    return np.bincount(picks, minlength=len(costs))


@pytest.mark.parametrize("rule", PMFS)
@pytest.mark.parametrize(
    ("epsilon", "costs"),
    [
        (Fraction(1), [3, 0, 1, ABSENT_COST, 2, 2, 7]),
        (Fraction(1, 10), [0, 10, 20, 40, 5, 80]),
        (Fraction(4), [-1, 0, 0, 1]),
    ],
)
def test_selections_follow_their_distribution_and_less_noise_is_noticed(rule, epsilon, costs):
    table, sharp = weight_table(epsilon, 2, 7), weight_table(epsilon * TOO_LITTLE_NOISE, 2, 7)
    pmf = PMFS[rule](costs, table)
    assert fits(select_many(rule, costs, table, seed=1), pmf)
    assert not fits(select_many(rule, costs, sharp, seed=2), pmf)


A = ABSENT_COST
HALVES = [[3, 0], [A, 1], [2, 2], [A, A], [1, A]]


@pytest.mark.parametrize("rule", PMFS)
@pytest.mark.parametrize("mirrored", [[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [1, 0, 0, 0, 0], [0, 0, 1, 1, 0]])
def test_mirrored_blocks_count_twice(rule, mirrored):
    second = [[4, 1], [0, A], [A, A], [2, 5], [1, 1]]
    table = weight_table(Fraction(1), 2, 20)
    unwritten = [-(10**6), -5]  # would be picked at once, were they read
    blocks = list(zip(HALVES, second, mirrored, strict=True))
    costs = [c for first, rest, again in blocks for c in [*first, *(unwritten if again else rest)]]
    whole = [c for first, rest, again in blocks for c in [*first, *(first if again else rest)]]
    once = [c for first, rest, again in blocks for c in [*first, *([A, A] if again else rest)]]
    rows, flags = np.tile(np.array(costs), (DRAWS, 1)), np.tile(np.array(mirrored, dtype=np.uint8), (DRAWS, 1))
    picks = select(rule, rows, table, RandomSource(11).streams(DRAWS), flags)
    counts = np.bincount(picks, minlength=len(costs))
    assert fits(counts, PMFS[rule](whole, table))
    assert not fits(counts, PMFS[rule](once, table))


@pytest.mark.parametrize("rule", PMFS)
def test_every_row_has_its_own_mirrored_blocks(rule):
    """Without privacy the least cost is picked: which rows have it in both halves tells which were mirrored."""
    table = weight_table(math.inf, 2, 8)
    costs = np.array([[1, 0, 7, 7, 3, 3, 3, 3]] * 3)
    mirrored = np.array([[0, 0], [1, 0], [0, 1]], dtype=np.uint8)
    picks = select(
        rule, np.repeat(costs, 60, axis=0), table, RandomSource(12).streams(180), np.repeat(mirrored, 60, axis=0)
    )
    assert [set(part.tolist()) for part in picks.reshape(3, 60)] == [{1}, {1, 3}, {1}]


@pytest.mark.parametrize("rule", PMFS)
def test_selection_without_privacy_and_without_candidates(rule):
    table = weight_table(math.inf, 2, 3)
    counts = select_many(rule, [1, 0, 0, ABSENT_COST], table, seed=4)
    assert counts[0] == counts[3] == 0
    assert fits(counts, [0, 0.5, 0.5, 0])
    none = np.full((2, 3), ABSENT_COST, dtype=np.int64)
    assert select(rule, none, table, RandomSource(0).streams(2)).tolist() == [-1, -1]


# One pick from each set ----------------------------------------------------------------------------------------------


def selection_of(n_sets, rule=Mechanism.EXPONENTIAL, times=1):
    return Selection(
        receipt(rule, times=times, calibrated_to=2),
        RandomSource(0).streams(n_sets),
        cost_range=2,
        n_candidates=3,
        times=times,
    )


def zeros(n_sets):
    return np.zeros((n_sets, 3), dtype=np.int64)


@pytest.mark.parametrize("rule", PMFS)
def test_a_set_is_picked_from_once(rule):
    selection = selection_of(6, rule)
    selection.pick(np.arange(2), zeros(2))
    selection.pick(np.array([5, 3]), zeros(2))
    for again in ([0], [2, 1], [4, 5], [3]):
        with pytest.raises(UnpaidReleaseError, match="used twice"):
            selection.pick(np.array(again), zeros(len(again)))
    assert len(selection.pick(np.array([2, 4]), zeros(2))) == 2  # a call that was refused has picked from none


@pytest.mark.parametrize("rule", PMFS)
@pytest.mark.parametrize("sets", [[1, 1], [0, 2, 0], [3, 3, 3]])
def test_a_set_is_picked_from_once_in_one_call(rule, sets):
    selection = selection_of(4, rule)
    with pytest.raises(UnpaidReleaseError, match="used twice"):
        selection.pick(np.array(sets), zeros(len(sets)))
    assert len(selection.pick(np.arange(4), zeros(4))) == 4


@pytest.mark.parametrize(
    ("sets", "error"),
    [
        (np.array([-1, 3]), ValueError),
        (np.array([-1]), ValueError),
        (np.array([True, True, False, True]), ValueError),
        (np.array([[0], [1]]), ValueError),
        (np.array([0.0, 1.0]), ValueError),
        (np.array([4]), IndexError),
    ],
    ids=["negative twin", "negative", "mask", "two dimensions", "floats", "out of range"],
)
def test_a_set_has_one_name(sets, error):
    with pytest.raises(error):
        selection_of(4).pick(sets, zeros(len(sets)))


@pytest.mark.parametrize("rule", PMFS)
def test_every_row_of_costs_is_of_a_set(rule):
    """The kernels would go on to read random bits past the end of those that were paid for."""
    for rows, flags in ((3, None), (1, None), (2, 1), (2, 3)):
        mirrored = None if flags is None else np.zeros((flags, 1), dtype=np.uint8)
        with pytest.raises(ValueError, match=r"one row .*each set"):
            selection_of(4, rule).pick(np.arange(2), zeros(rows), mirrored)


def test_weights_that_could_overflow_are_refused():
    table = np.array([2**61], dtype=np.uint64)
    assert len(select(Mechanism.EXPONENTIAL, zeros(1), table, RandomSource(0).streams(1))) == 1
    with pytest.raises(ValueError, match="more candidates"):
        select(Mechanism.EXPONENTIAL, np.zeros((1, 4), dtype=np.int64), table, RandomSource(0).streams(1))


@pytest.mark.parametrize("rule", PMFS)
def test_batches_have_the_picks_of_one_call(rule):
    costs = np.array([[i % 3, i % 5, 2] for i in range(30)])
    whole, parts = selection_of(30, rule), selection_of(30, rule)
    picks = whole.pick(np.arange(30), costs)
    batches = [np.arange(10, 17), np.array([29, 3]), np.setdiff1d(np.arange(30), [*range(10, 17), 29, 3])]
    for sets in batches:
        np.testing.assert_array_equal(parts.pick(sets, costs[sets]), picks[sets])


def test_threads_do_not_pick_from_the_same_set():
    class SlowArray(np.ndarray):
        """Takes its time after it was read, for others to read as well."""

        def __getitem__(self, sets):
            result = super().__getitem__(sets)
            time.sleep(0.02)
            return result

    selection = selection_of(4)
    selection._picked = selection._picked.view(SlowArray)
    start, picked = threading.Barrier(8), []

    def pick(first):
        start.wait()
        with contextlib.suppress(UnpaidReleaseError):
            selection.pick(np.arange(first, first + 2), zeros(2))
            picked.append(first)

    workers = [threading.Thread(target=pick, args=[2 * (i % 2)]) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(picked) == [0, 2]


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_selection_is_not_copied(take):
    with pytest.raises(TypeError, match=r"selection .*copied"):
        take(selection_of(1))
    with pytest.raises(TypeError, match="subclassed"):
        type("Free", (Selection,), {})


def test_weights_cannot_be_exchanged():
    selection = Selection.uniform(RandomSource(0).streams(1), 3)
    with pytest.raises(AttributeError):
        selection.table = weight_table(math.inf, 2, 3)


# Payment -------------------------------------------------------------------------------------------------------------


def test_a_rule_that_was_not_charged_is_refused():
    """Splits of categories are drawn by the exponential mechanism, whatever else a selection could do."""
    flips = selection_of(2, Mechanism.PERMUTE_AND_FLIP)
    with pytest.raises(UnpaidReleaseError, match=r"for permute-and-flip, .*exponential mechanism"):
        module.subset_median(flips, 0, [3, 1])
    with pytest.raises(UnpaidReleaseError, match=r"for exponential mechanism, .*permute-and-flip"):
        selection_of(2).take_streams(np.array([0]), Mechanism.PERMUTE_AND_FLIP)
    assert len(flips.pick(np.arange(2), zeros(2))) == 2


def test_the_rule_that_was_charged_is_the_one_that_picks():
    costs = np.tile([0, 1, 2], (DRAWS, 1))
    table = weight_table(Fraction(1), 2, 3)
    for rule, pmf in PMFS.items():
        selection = Selection(
            receipt(rule, calibrated_to=2), RandomSource(6).streams(DRAWS), cost_range=2, n_candidates=3
        )
        assert fits(np.bincount(selection.pick(np.arange(DRAWS), costs), minlength=3), pmf([0, 1, 2], table))


@pytest.mark.parametrize("rule", PMFS)
@pytest.mark.parametrize("epsilon", [*EPSILONS, math.inf])
@pytest.mark.parametrize("cost_range", [1, 2, 1026])
def test_weights_follow_from_the_receipt(rule, epsilon, cost_range):
    paid = receipt(rule, epsilon, calibrated_to=cost_range)
    selection = Selection(paid, RandomSource(0).streams(1), cost_range=cost_range, n_candidates=1000)
    np.testing.assert_array_equal(selection.table, weight_table(epsilon, cost_range, 1000))
    assert paid.unused == 0


# Uniform selections --------------------------------------------------------------------------------------------------

slots = st.lists(st.booleans(), min_size=2, max_size=12).filter(any)


@given(slots, st.data())
@settings(deadline=None, max_examples=60)
def test_a_uniform_selection_does_not_depend_on_costs(present, data):
    """The same random bits pick the same slot, whatever the costs of the candidates."""

    def pick(costs, mirrored=None):
        row = np.array([[c if there else ABSENT_COST for c, there in zip(costs, present, strict=True)]])
        return Selection.uniform(RandomSource(5).streams(1), len(present)).pick(np.array([0]), row, mirrored)[0]

    costs = data.draw(st.lists(st.integers(-(2**40), 2**40), min_size=len(present), max_size=len(present)))
    expected = pick([0] * len(present))
    assert present[expected]
    assert pick(costs) == expected


def test_a_uniform_selection_does_not_depend_on_which_blocks_are_mirrored():
    costs = np.array([[3, ABSENT_COST, 1, ABSENT_COST, 0, 7, 9, 2]] * 200)
    streams = RandomSource(5).streams(200)
    picks = [
        Selection.uniform(streams, 8).pick(np.arange(200), costs, np.tile(np.array(flags, np.uint8), (200, 1)))
        for flags in ([0, 0], [1, 0], [0, 1], [1, 1])
    ]
    assert all(np.array_equal(picks[0], other) for other in picks[1:])
    assert set(picks[0].tolist()) == {0, 2, 4, 5, 6, 7}


def test_a_uniform_selection_is_uniform_and_picks_once_from_each_set():
    selection = Selection.uniform(RandomSource(5).streams(DRAWS), 4)
    costs = np.tile([0, 10**6, ABSENT_COST, 5], (DRAWS, 1))
    picks = selection.pick(np.arange(DRAWS), costs)
    assert fits(np.bincount(picks, minlength=4), [1 / 3, 1 / 3, 0, 1 / 3])
    with pytest.raises(UnpaidReleaseError, match="used twice"):
        selection.pick(np.array([7]), costs[:1])


def neighbouring_medians(table, k, most):
    of = cache(lambda counts: subset_median_pmf(counts, table))
    for counts in itertools.product(range(most + 1), repeat=k):
        for j in range(k):
            after = (*counts[:j], counts[j] + 1, *counts[j + 1 :])
            p, q = of(counts), of(after)
            assert list(p) == list(q)
            yield p.values(), q.values()


@pytest.mark.parametrize(("k", "most"), [(2, 8), (3, 4), (4, 2), (5, 1)])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_medians_of_neighbours_differ_by_at_most_epsilon(k, most, epsilon):
    for length in (None, 1, 2, 3):
        table = weight_table(epsilon, 2, 2**k)[:length]
        assert largest_ratio(neighbouring_medians(table, k, most)) <= exp_bounds(epsilon)[0]


def test_too_sharp_median_exceeds_epsilon():
    table = weight_table(TOO_LITTLE_NOISE, 2, 8)
    assert largest_ratio(neighbouring_medians(table, 3, 4)) > exp_bounds(Fraction(1))[1]


@pytest.mark.parametrize(
    "counts",
    [
        [0, 0],
        [3, 0],
        [0, 1, 0],
        [2, 3, 1],
        [5, 5, 5],
        [0, 0, 0, 0],
        [0] * 8,
        [0, 9, 0, 9],
        [1, 1, 1, 1, 1],
        [40, 1, 2, 0, 3],
        [1, 2, 4, 8, 16, 32],
        [0, 1, 1, 2, 3, 5, 8],
        [7, 0, 7, 0, 1, 0, 1, 30],
    ],
)
@pytest.mark.parametrize("table", [[8, 5, 3, 2, 1], [2, 1], [3], [1, 0]])
def test_every_draw_of_a_median_is_counted(counts, table, monkeypatch):
    """All values of the one integer drawn, one by one: the sampler's exact distribution."""
    table = np.array(table, dtype=np.uint64)
    (stream,) = RandomSource(0).streams(1)  # nothing is drawn from it
    bounds = []
    monkeypatch.setattr(module, "big_integer_below", lambda _, bound: bounds.append(bound) or 0)
    subset_median(counts, table, stream)
    tally = {}
    for draw in range(bounds[0]):
        monkeypatch.setattr(module, "big_integer_below", lambda _, bound, draw=draw: draw)
        split = tuple(subset_median(counts, table, stream))
        tally[split] = tally.get(split, 0) + 1
    expected = {split: p for split, p in subset_median_pmf(counts, table).items() if p}
    assert {split: Fraction(n, bounds[0]) for split, n in tally.items()} == expected


def median_counts(counts, table, seed):
    splits = list(subset_median_pmf(counts, table))
    tally = dict.fromkeys(splits, 0)
    for stream in RandomSource(seed).streams(12_000):
        tally[tuple(subset_median(counts, table, stream))] += 1
    return list(tally.values())


@pytest.mark.parametrize("counts", [[4, 1, 3, 2], [0, 3, 1]])
def test_medians_follow_their_distribution_and_less_noise_is_noticed(counts):
    table, sharp = weight_table(Fraction(1), 2, 16), weight_table(TOO_LITTLE_NOISE, 2, 16)
    pmf = list(subset_median_pmf(counts, table).values())
    assert fits(median_counts(counts, table, 5), pmf)
    assert not fits(median_counts(counts, sharp, 6), pmf)


def test_a_split_is_drawn_once_from_each_set():
    streams = RandomSource(0).streams(3)
    paid = receipt(Mechanism.EXPONENTIAL, calibrated_to=2)
    selection = Selection(paid, streams, cost_range=2, n_candidates=2)
    module.subset_median(selection, 1, [3, 1])
    with pytest.raises(UnpaidReleaseError, match="used twice"):
        module.subset_median(selection, 1, [3, 1])
    with pytest.raises(UnpaidReleaseError, match="used twice"):
        selection.pick(np.arange(3), np.zeros((3, 2), dtype=np.int64))
    module.subset_median(selection, 2, [3, 1])
    for place in (-1, 3):
        with pytest.raises((ValueError, IndexError)):
            module.subset_median(selection, place, [3, 1])


def work(draw):
    """Return every line of the module that a draw executes, with the arrays that there are, and the peak of memory.

    Each line does the same work for arrays of the same sizes, so two draws with the same lines cost the same.
    """
    lines = []

    def trace(frame, event, _):
        if frame.f_code.co_filename != module.__file__:
            return None
        arrays = {n: (v.shape, v.dtype) for n, v in frame.f_locals.items() if isinstance(v, np.ndarray)}
        lines.append((event, frame.f_lineno, arrays))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        draw()
    finally:
        sys.settrace(before)
    tracemalloc.start()
    draw()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return lines, peak


@pytest.mark.parametrize("k", [2, 9, MAX_CATEGORIES])
@pytest.mark.parametrize("epsilon", [0, Fraction(1, 100), 1, float("inf")])
def test_time_and_memory_of_a_draw_do_not_depend_on_counts(k, epsilon):
    """The numbers of records are private, all of them together too: neither time nor memory may tell them."""
    table = weight_table(epsilon, 2, 2)
    even, lone = [10] * k, [2**31 - 1] + [0] * (k - 1)
    many, steep = [2**31 // k] * k, [2**j for j in range(k)]
    works = []
    for counts in ([0] * k, even, lone, lone[::-1], many, steep):
        for stream in RandomSource(0).streams(3):
            works.append(work(lambda counts=counts, stream=stream: subset_median(counts, table, stream)))
    assert len(works[0][0]) > 10
    assert all(lines == works[0][0] for lines, _ in works)
    peaks = [peak for _, peak in works[1:]]  # the first one fills caches
    assert max(peaks) - min(peaks) < 2000


@pytest.mark.parametrize("k", [0, 1, MAX_CATEGORIES + 1])
def test_a_number_of_categories_whose_splits_are_not_listed_is_refused(k):
    with pytest.raises(ValueError, match="2 to 16 categories"):
        subset_median([1] * k, weight_table(1, 2, 2), *RandomSource(0).streams(1))


def test_a_uniform_split_does_not_depend_on_the_counts():
    table = Selection.uniform(RandomSource(0).streams(1), 2).table
    for stream in RandomSource(0).streams(20):
        drawn = [subset_median(counts, table, stream.copy()) for counts in ([4, 1, 3], [0, 0, 9], [0, 0, 0])]
        assert drawn[0] == drawn[1] == drawn[2]
