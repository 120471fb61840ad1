"""Selections: their exact privacy loss over all small inputs, samplers that follow it, and one pick from each set."""

import contextlib
import copy
import itertools
import math
import pickle
import threading
import time
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.kernels.constants import ABSENT_COST
from diprime.privacy.charges import UnpaidReleaseError
from diprime.privacy.mechanisms.selection import Selection, exponential_pmf, permute_and_flip_pmf
from diprime.privacy.mechanisms.subsets import subset_median
from diprime.privacy.mechanisms.weights import weight_table
from diprime.privacy.randomness import RandomSource
from tests.exact_exp import EPSILONS, TOO_LITTLE_NOISE, exp_bounds, largest_ratio
from tests.goodness import fits
from tests.paid import receipt, select

DRAWS = 40_000
PMFS = {"exponential mechanism": exponential_pmf, "permute-and-flip": permute_and_flip_pmf}


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
def test_no_neighbours_are_told_apart_by_more_than_epsilon(rule, epsilon, moves):
    table = weight_table(epsilon, moves[1] - moves[0], 3)
    worst = largest_ratio(neighbouring_pmfs(PMFS[rule], table, *moves, highest=4, width=3))
    assert worst <= exp_bounds(epsilon)[0]
    if epsilon <= 1:  # and the budget is not wasted: more than half of the exponent is used
        assert worst >= exp_bounds(epsilon * Fraction(1, 2))[0]


@pytest.mark.parametrize("rule", PMFS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 7), Fraction(9, 2)])
def test_four_candidates_and_slots_without_any(rule, epsilon):
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
def test_the_same_count_finds_a_table_that_is_too_sharp(rule):
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


def test_permute_and_flip_is_what_its_words_say():
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
def test_mirrored_blocks_have_the_distribution_of_what_they_stand_for(rule, mirrored):
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
@pytest.mark.parametrize("n_rows", [0, 1, 2])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_selections_of_any_shape(rule, n_rows, width):
    table, streams = weight_table(Fraction(1), 2, width), RandomSource(0).streams(n_rows)
    picks = select(rule, np.zeros((n_rows, width), dtype=np.int64), table, streams)
    assert len(picks) == n_rows
    assert ((picks >= 0) & (picks < width)).all()
    if width % 2 == 0:
        again = select(rule, np.zeros((n_rows, width), dtype=np.int64), table, streams, np.ones((n_rows, 1), np.uint8))
        assert len(again) == n_rows


def test_the_rules_are_told_apart():
    table, costs = weight_table(Fraction(1), 2, 3), [0, 1, 2]
    flip = select_many("permute-and-flip", costs, table, seed=3)
    assert not fits(flip, exponential_pmf(costs, table))
    assert not fits(select_many("exponential mechanism", costs, table, seed=3), permute_and_flip_pmf(costs, table))


@pytest.mark.parametrize("rule", PMFS)
def test_selection_without_privacy_and_without_candidates(rule):
    table = weight_table(math.inf, 2, 3)
    counts = select_many(rule, [1, 0, 0, ABSENT_COST], table, seed=4)
    assert counts[0] == counts[3] == 0
    assert fits(counts, [0, 0.5, 0.5, 0])
    none = np.full((2, 3), ABSENT_COST, dtype=np.int64)
    assert select(rule, none, table, RandomSource(0).streams(2)).tolist() == [-1, -1]


# One pick from each set ----------------------------------------------------------------------------------------------


def selection_of(n_sets, rule="exponential mechanism", times=1):
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
        with pytest.raises(UnpaidReleaseError, match="picked from twice"):
            selection.pick(np.array(again), zeros(len(again)))
    assert len(selection.pick(np.array([2, 4]), zeros(2))) == 2  # a call that was refused has picked from none


@pytest.mark.parametrize("rule", PMFS)
@pytest.mark.parametrize("sets", [[1, 1], [0, 2, 0], [3, 3, 3]])
def test_a_set_is_picked_from_once_in_one_call(rule, sets):
    selection = selection_of(4, rule)
    with pytest.raises(UnpaidReleaseError, match="picked from twice"):
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
        with pytest.raises(ValueError, match="one row of costs for each set"):
            selection_of(4, rule).pick(np.arange(2), zeros(rows), mirrored)


def test_weights_that_could_overflow_are_refused():
    table = np.array([2**61], dtype=np.uint64)
    assert len(select("exponential mechanism", zeros(1), table, RandomSource(0).streams(1))) == 1
    with pytest.raises(ValueError, match="more candidates"):
        select("exponential mechanism", np.zeros((1, 4), dtype=np.int64), table, RandomSource(0).streams(1))


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
    with pytest.raises(TypeError, match="cannot be copied"):
        take(selection_of(1))
    with pytest.raises(TypeError, match="subclassed"):
        type("Free", (Selection,), {})


def test_weights_cannot_be_exchanged():
    selection = Selection.uniform(RandomSource(0).streams(1), 3)
    with pytest.raises(AttributeError):
        selection.table = weight_table(math.inf, 2, 3)


# Payment -------------------------------------------------------------------------------------------------------------


def makers():
    """Return the two ways of making a selection that costs something."""
    table = weight_table(Fraction(1), 2, 3)
    return [
        lambda paid: Selection.with_published_weights(paid, table, RandomSource(0).streams(2)),
        lambda paid, times=1: Selection(paid, RandomSource(0).streams(2), cost_range=2, n_candidates=3, times=times),
    ]


@pytest.mark.parametrize("make", makers(), ids=["table", "calibrated"])
def test_a_selection_without_a_receipt_is_refused(make):
    used_up = receipt("exponential mechanism", calibrated_to=2)
    make(used_up)
    for unpaid in (
        None,
        Fraction(1),
        used_up.charge,
        used_up,
        receipt("exponential mechanism", times=0, calibrated_to=2),
    ):
        with pytest.raises(UnpaidReleaseError):
            make(unpaid)


@pytest.mark.parametrize("make", makers(), ids=["table", "calibrated"])
def test_what_looks_like_a_receipt_is_none(make):
    class Lookalike:
        charge = receipt("exponential mechanism", calibrated_to=2).charge

        def use(self, mechanism, times=1):
            return self.charge.measure

    with pytest.raises(UnpaidReleaseError, match="got Lookalike"):
        make(Lookalike())


@pytest.mark.parametrize("make", makers(), ids=["table", "calibrated"])
def test_a_selection_needs_the_receipt_of_a_selection(make):
    for mechanism in ("discrete Laplace", "none", "exponential"):
        wrong = receipt(mechanism)
        with pytest.raises(UnpaidReleaseError, match="but released by a selection"):
            make(wrong)
        assert wrong.unused == 1


def test_a_selection_uses_up_what_it_counts():
    published, make = makers()
    paid = receipt("permute-and-flip", times=5, calibrated_to=2)
    published(paid)
    make(paid, 3)
    assert paid.unused == 1
    with pytest.raises(UnpaidReleaseError, match="1 of 5"):
        make(paid, 2)
    with pytest.raises(UnpaidReleaseError, match="0 requested"):
        make(paid, 0)


def test_a_rule_that_was_not_charged_is_refused():
    """Splits of categories are drawn by the exponential mechanism, whatever else a selection could do."""
    flips = selection_of(2, "permute-and-flip")
    with pytest.raises(UnpaidReleaseError, match="charged for permute-and-flip, but made by exponential mechanism"):
        subset_median(flips, 0, [3, 1])
    with pytest.raises(UnpaidReleaseError, match="charged for exponential mechanism, but made by permute-and-flip"):
        selection_of(2).take_streams(np.array([0]), "permute-and-flip")
    assert len(flips.pick(np.arange(2), zeros(2))) == 2


@pytest.mark.parametrize("cost_range", [1, 3, 1026])
def test_a_selection_is_calibrated_to_the_range_that_was_charged(cost_range):
    paid = receipt("exponential mechanism", calibrated_to=2)
    with pytest.raises(UnpaidReleaseError, match=f"for a bound of 2, but released for {cost_range}"):
        Selection(paid, RandomSource(0).streams(1), cost_range=cost_range, n_candidates=3)
    assert paid.unused == 1


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
def test_calibrated_weights_follow_from_what_was_paid(rule, epsilon, cost_range):
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
    with pytest.raises(UnpaidReleaseError, match="picked from twice"):
        selection.pick(np.array([7]), costs[:1])
