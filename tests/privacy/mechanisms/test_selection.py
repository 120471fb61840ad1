"""Selections: their exact privacy loss over all small inputs, samplers that follow it, and one pick from each set."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.privacy.mechanisms.selection import ABSENT_COST, exponential_pmf, permute_and_flip_pmf
from diprime.privacy.mechanisms.weights import weight_table
from diprime.privacy.randomness import RandomSource
from tests.exact_exp import EPSILONS, TOO_LITTLE_NOISE, exp_bounds, largest_ratio
from tests.goodness import fits
from tests.paid import select

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
