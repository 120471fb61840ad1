"""The mechanisms: their exact privacy loss over all small inputs, and samplers that follow their distributions.

Numbers like e^epsilon are compared as fractions, from the Taylor series with its remainder: nothing is rounded.
"""

import decimal
import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime import mechanisms
from diprime.privacy.mechanisms.laplace import discrete_laplace, discrete_laplace_pmf, laplace_scale, laplace_variance
from diprime.privacy.mechanisms.selection import ABSENT_COST, exponential_pmf, permute_and_flip_pmf, select
from diprime.privacy.mechanisms.subsets import subset_median, subset_median_pmf
from diprime.privacy.mechanisms.weights import MAX_TABLE_LENGTH, exp_upper, weight_table
from diprime.privacy.randomness import RandomSource
from tests.goodness import fits

TOO_LITTLE_NOISE = Fraction(143, 100)  # an epsilon that is this much larger has 30 % less noise
EPSILONS = [Fraction(1, 10**6), Fraction(1, 7), Fraction(1), Fraction(9, 2), Fraction(60)]
PMFS = {"exponential": exponential_pmf, "permute-and-flip": permute_and_flip_pmf}


@cache
def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Return fractions below and above e^x, x >= 0, that differ by less than 2^-300 of it."""
    halvings = max(0, math.ceil(x).bit_length())
    small = x / 2**halvings
    low, term, i = Fraction(1), Fraction(1), 1
    while term > Fraction(1, 2**420):
        term = Fraction(math.ceil(term * small / i * 2**500), 2**500)
        low += term - Fraction(1, 2**499)  # each term rounded down, counting what was rounded up before
        i += 1
    high = low + Fraction(1, 2**400)
    for _ in range(halvings):
        low = Fraction(math.floor(low * low * 2**600), 2**600)
        high = Fraction(math.ceil(high * high * 2**600), 2**600)
    assert high / low < 1 + Fraction(1, 2**300)
    return low, high


def test_the_bounds_of_exp_bound_it():
    for x in (Fraction(0), Fraction(1, 10**9), Fraction(1), Fraction(7, 3), Fraction(50)):
        low, high = exp_bounds(x)
        with decimal.localcontext(decimal.Context(prec=80)):
            reference = (decimal.Decimal(x.numerator) / decimal.Decimal(x.denominator)).exp()
            near = reference * decimal.Decimal(10) ** -75
            assert Fraction(reference - near) < low <= high < Fraction(reference + near)


# Tables --------------------------------------------------------------------------------------------------------------


@given(
    st.fractions(Fraction(1, 10**6), 80) | st.builds(Fraction, st.integers(1, 2**20), st.integers(1, 2**60)),
    st.sampled_from([8, 60, 120]),
)
@example(Fraction(1), 60)
@example(Fraction(1, 2**70), 60)
@example(Fraction(10**4), 60)
@settings(deadline=None)
def test_exp_upper_is_above_by_less_than_two(x, bits):
    bound, (low, high) = exp_upper(x, bits), exp_bounds(x)
    assert bound * low >= 2**bits
    assert (bound - 2) * high < 2**bits


def test_exp_upper_where_decimals_underflow():
    assert exp_upper(Fraction(10**9)) == 1


@pytest.mark.parametrize(
    "context",
    [decimal.Context(prec=3, rounding=decimal.ROUND_DOWN), decimal.Context(traps=[decimal.Inexact])],
    ids=["few digits", "inexact trapped"],
)
def test_exp_upper_does_not_depend_on_the_caller_s_decimal_context(context):
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


# The exact privacy loss of selections --------------------------------------------------------------------------------


def largest_ratio(pairs):
    """Return the largest ratio of probabilities over pairs of distributions, in both directions."""
    worst = Fraction(0)
    for p, q in pairs:
        for a, b in zip(p, q, strict=True):
            if a or b:
                assert a > 0, "an outcome is possible for one of two neighbours only"
                assert b > 0, "an outcome is possible for one of two neighbours only"
                worst = max(worst, a / b, b / a)
    return worst


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


# Subset medians ------------------------------------------------------------------------------------------------------


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
def test_medians_of_neighbours_are_told_apart_by_epsilon_at_most(k, most, epsilon):
    for length in (None, 1, 2, 3):
        table = weight_table(epsilon, 2, 2**k)[:length]
        assert largest_ratio(neighbouring_medians(table, k, most)) <= exp_bounds(epsilon)[0]


def test_the_same_count_finds_a_median_that_is_too_sharp():
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
    bounds = []
    monkeypatch.setattr(mechanisms, "big_integer_below", lambda _, bound: bounds.append(bound) or 0)
    subset_median(counts, table, None)
    tally = {}
    for draw in range(bounds[0]):
        monkeypatch.setattr(mechanisms, "big_integer_below", lambda _, bound, draw=draw: draw)
        split = tuple(subset_median(counts, table, None))
        tally[split] = tally.get(split, 0) + 1
    expected = {split: p for split, p in subset_median_pmf(counts, table).items() if p}
    assert {split: Fraction(n, bounds[0]) for split, n in tally.items()} == expected


def test_medians_of_many_categories():
    """2^40 splits, more than a table could hold: only what is checked is listed."""
    counts = [0] * 10 + [7] * 10 + [400, 3] + [50] * 18
    table = weight_table(Fraction(20), 2, 2)
    streams = RandomSource(0).streams(20)
    total = sum(counts)
    for stream in streams:
        right = subset_median(counts, table, stream)
        assert len(right) == 40
        assert 0 < sum(right) < 40
        assert abs(2 * sum(c for c, r in zip(counts, right, strict=True) if r) - total) <= 12
    assert len({tuple(subset_median(counts, table, stream)) for stream in streams}) == 20


# Samplers follow their distributions, and the test knows one that does not -------------------------------------------

DRAWS = 40_000


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
    """Without privacy the least cost is picked: which rows have it in both halves tells which were read twice."""
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
    assert not fits(select_many("exponential", costs, table, seed=3), permute_and_flip_pmf(costs, table))


@pytest.mark.parametrize("rule", PMFS)
def test_selection_without_privacy_and_without_candidates(rule):
    table = weight_table(math.inf, 2, 3)
    counts = select_many(rule, [1, 0, 0, ABSENT_COST], table, seed=4)
    assert counts[0] == counts[3] == 0
    assert fits(counts, [0, 0.5, 0.5, 0])
    none = np.full((2, 3), ABSENT_COST, dtype=np.int64)
    assert select(rule, none, table, RandomSource(0).streams(2)).tolist() == [-1, -1]


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


# Discrete Laplace ----------------------------------------------------------------------------------------------------

LAPLACE = [(Fraction(1), 1), (Fraction(1, 3), 1), (Fraction(5), 4), (Fraction(1, 100), 1), (Fraction(2), 4096)]


def laplace_q(epsilon, sensitivity):
    """Return bounds of q = e^(-1/scale) for the scale that is used."""
    numerator, denominator = laplace_scale(epsilon, sensitivity)
    low, high = exp_bounds(Fraction(denominator, numerator))
    return 1 / high, 1 / low


@pytest.mark.parametrize(("epsilon", "sensitivity"), [*LAPLACE, (Fraction(40), 1), (Fraction(100), 1)])
def test_the_bounds_of_the_laplace_distribution_bound_it(epsilon, sensitivity):
    low_q, high_q = laplace_q(epsilon, sensitivity)
    for x in (0, 1, -1, 2, 3, 10, -17):
        below, above = discrete_laplace_pmf(x, epsilon, sensitivity)
        assert 0 <= below <= (1 - high_q) / (1 + high_q) * low_q ** abs(x)
        assert above >= (1 - low_q) / (1 + low_q) * high_q ** abs(x)
        assert above - below < Fraction(1, 2**100)


@pytest.mark.parametrize(("epsilon", "sensitivity"), LAPLACE)
def test_laplace_adds_up_and_its_neighbours_are_told_apart_by_epsilon_at_most(epsilon, sensitivity):
    reach = 60
    bounds = {x: discrete_laplace_pmf(x, epsilon, sensitivity) for x in range(-reach, reach + 1)}
    low_q, high_q = laplace_q(epsilon, sensitivity)
    tail = 2 * high_q ** (reach + 1) / (1 + high_q)
    assert sum(below for below, _ in bounds.values()) <= 1
    assert sum(above for _, above in bounds.values()) + tail >= 1
    slack = 1 + Fraction(1, 2**60)  # the bounds are that wide; the scale itself is exact
    limit = exp_bounds(epsilon / sensitivity)[0] * slack
    for x in range(-reach, reach):
        if min(bounds[x][0], bounds[x + 1][0]) > Fraction(1, 2**50):
            assert bounds[x][1] <= bounds[x + 1][0] * limit
            assert bounds[x + 1][1] <= bounds[x][0] * limit
    for x in (0, -sensitivity, -(sensitivity // 3)):
        (low, high), (low_moved, high_moved) = (
            discrete_laplace_pmf(at, epsilon, sensitivity) for at in (x, x + sensitivity)
        )
        assert high <= low_moved * exp_bounds(epsilon)[0] * slack
        assert high_moved <= low * exp_bounds(epsilon)[0] * slack
    assert low_q >= 1 / exp_bounds(epsilon / sensitivity)[1]  # and in exact arithmetic: q >= e^(-epsilon/sensitivity)


epsilons = st.builds(Fraction, st.integers(1, 2**60), st.integers(1, 2**60)).filter(lambda e: e >= Fraction(1, 2**40))


@given(epsilons | st.fractions(Fraction(1, 2**40), 2**21), st.sampled_from([1, 2, 3, 4096, 65535]))
@example(Fraction(1, 2**40), 4096)
@example(Fraction(2**20 - 1), 1)
@example(Fraction(2**30), 1)
@example(Fraction(2**20) - Fraction(1, 3), 1)
@settings(deadline=None)
def test_the_scale_of_the_noise_is_never_too_small_and_fits_the_sampler(epsilon, sensitivity):
    numerator, denominator = laplace_scale(epsilon, sensitivity)
    scale, asked = Fraction(numerator, denominator), sensitivity / epsilon
    assert scale >= asked
    if Fraction(1, 2**20) <= epsilon <= 2**20 - 1:
        assert scale <= asked * (1 + Fraction(1, 2**18))
    assert 1 <= denominator < 2**20
    assert 1 <= numerator <= 2**56
    # Noise that is cut off is beyond what clamping tells apart, and no intermediate number reaches 2^63.
    most_wholes = mechanisms._MAX_WHOLES_PRODUCT // numerator
    assert numerator * most_wholes // denominator >= mechanisms._MAX_RELEASED + 2**38
    assert numerator * most_wholes + numerator < 2**63
    assert most_wholes >= 2**6


def test_an_epsilon_too_small_for_noise_is_refused():
    with pytest.raises(ValueError, match="too small"):
        laplace_scale(Fraction(1, 2**41), 1)


def laplace_cells(epsilon, sensitivity):
    """Return the upper ends of 40 cells of integers, the last one open, and their probabilities."""
    numerator, denominator = laplace_scale(epsilon, sensitivity)
    scale = numerator / denominator
    ends = sorted({math.floor(scale * z) for z in np.linspace(-4, 4, 40)} | {-2, -1, 0, 1})
    q = math.exp(-1 / scale)

    def up_to(x):
        return q**-x / (1 + q) if x < 0 else 1 - q ** (x + 1) / (1 + q)

    below = [up_to(x) for x in ends]
    return ends, np.diff([0.0, *below, 1.0])


@pytest.mark.parametrize(("epsilon", "sensitivity"), [*LAPLACE, (Fraction(1, 10**9), 1)])
def test_laplace_follows_its_distribution_and_less_noise_is_noticed(epsilon, sensitivity):
    ends, p = laplace_cells(epsilon, sensitivity)
    values = np.full((DRAWS // 4, 4), 1000, dtype=np.int64)

    def counts(noise_epsilon, seed):
        drawn = discrete_laplace(values, noise_epsilon, sensitivity, RandomSource(seed).streams(len(values))) - 1000
        return np.bincount(np.searchsorted(ends, drawn.ravel(), side="left"), minlength=len(p))

    assert fits(counts(epsilon, 7), p)
    assert not fits(counts(epsilon * TOO_LITTLE_NOISE, 8), p)
    if sensitivity == 1 and epsilon >= Fraction(1, 3):  # the cells agree with the exact distribution
        below, above = discrete_laplace_pmf(0, epsilon, sensitivity)
        assert below <= p[ends.index(0)] * (1 + 1e-12)
        assert above >= p[ends.index(0)] * (1 - 1e-12)


@pytest.mark.parametrize(("epsilon", "sensitivity"), LAPLACE)
def test_the_variance_is_that_of_the_noise(epsilon, sensitivity):
    numerator, denominator = laplace_scale(epsilon, sensitivity)
    q = math.exp(-denominator / numerator)
    reach = np.arange(1, 60 * (numerator // denominator + 1))
    expected = 2 * (1 - q) / (1 + q) * np.sum(reach.astype(float) ** 2 * q**reach)
    assert laplace_variance(epsilon, sensitivity) == pytest.approx(expected, rel=1e-6)
    assert laplace_variance(math.inf, sensitivity) == 0


def test_noise_is_independent_from_value_to_value():
    values = np.zeros((DRAWS // 2, 2), dtype=np.int64)
    drawn = discrete_laplace(values, Fraction(1), 1, RandomSource(9).streams(len(values)))
    q = math.exp(-1)
    zero = (1 - q) / (1 + q)
    both = np.bincount(2 * (drawn[:, 0] == 0) + (drawn[:, 1] == 0), minlength=4)
    assert fits(both, [(1 - zero) ** 2, (1 - zero) * zero, zero * (1 - zero), zero**2])


def test_releases_are_clamped_where_noise_is_cut_off(monkeypatch):
    values = np.array([[2**38, -(2**38), 0, 5]])
    released = []

    def draw(streams, numerator, denominator, most_wholes, saturated, out):
        out[:] = [[saturated, -saturated, 2**61, -(2**61)]]

    monkeypatch.setattr(mechanisms.sampling, "draw_laplace", draw)
    released = discrete_laplace(values, Fraction(1), 1, RandomSource(0).streams(1))
    assert released.tolist() == [[2**41, -(2**41), 2**41, -(2**41)]]


def test_no_noise_at_infinity_and_a_copy_is_returned():
    values = np.array([[1, 2], [3, 4]])
    released = discrete_laplace(values, math.inf, 1, RandomSource(0).streams(2))
    np.testing.assert_array_equal(released, values)
    assert not np.shares_memory(released, values)
