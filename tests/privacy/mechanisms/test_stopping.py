"""Random stopping: its exact privacy loss over small distributions, and a sampler that follows its distribution."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from diprime.privacy.charges import Mechanism
from diprime.privacy.mechanisms import selection
from diprime.privacy.mechanisms.selection import (
    COST_FACTOR,
    best_of_random_number,
    best_of_random_number_pmf,
)
from diprime.privacy.randomness import RandomSource
from tests.goodness import fits
from tests.paid import receipt

DRAWS = 6_000
PLACES = {"no ties": [(0, "a"), (1, "b"), (2, "c")], "ties": [(0, "a"), (1, "b"), (1, "c")]}


def paid(max_repetitions, epsilon=1, times=COST_FACTOR):
    return receipt(Mechanism.RANDOM_STOPPING, epsilon, times, calibrated_to=max_repetitions)


# The distribution ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_distribution_matches_its_definition(places):
    """Every number of repetitions, every sequence of outcomes, one by one; the first of the least cost wins."""
    repetition = dict(zip(places, [Fraction(1, 2), Fraction(1, 6), Fraction(1, 3)], strict=True))
    expected = Counter()
    for n in (1, 2, 3, 4):
        for sequence in itertools.product(repetition, repeat=n):
            chance = Fraction(1, 4)
            for outcome in sequence:
                chance *= repetition[outcome]
            expected[min(sequence, key=lambda pair: pair[0])] += chance
    assert best_of_random_number_pmf(repetition, 4) == expected


# The exact privacy loss ----------------------------------------------------------------------------------------------


def ratio(p, q):
    """Return the largest quotient of probabilities, either way."""
    return max(max(p[z] / q[z], q[z] / p[z]) for z in p)


def pairs_of_distributions(places, parts=6):
    """Yield all pairs of distributions whose probabilities are multiples of 1/parts, none of them zero."""
    weights = [w for w in itertools.product(range(1, parts), repeat=len(places)) if sum(w) == parts]
    of = [dict(zip(places, (Fraction(x, parts) for x in w), strict=True)) for w in weights]
    yield from itertools.combinations(of, 2)


@pytest.mark.parametrize("max_repetitions", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_the_best_costs_at_most_three_times_as_much_as_one_repetition(places, max_repetitions):
    for p, q in pairs_of_distributions(places):
        best = [best_of_random_number_pmf(repetition, max_repetitions) for repetition in (p, q)]
        assert ratio(*best) <= ratio(p, q) ** COST_FACTOR


def far_apart():
    """Return two distributions, within a factor of two, that the best of many tells apart as well as it can."""
    likely, rare = Fraction(1, 10), Fraction(1, 10_000)
    p = {(0, "best"): likely / 2, (1, "second"): 2 * rare, (2, "rest"): 1 - likely / 2 - 2 * rare}
    q = {(0, "best"): likely, (1, "second"): rare, (2, "rest"): 1 - likely - rare}
    return p, q


def test_the_bound_is_nearly_attained():
    """So a charge of less than three times would be too little."""
    p, q = far_apart()
    assert ratio(p, q) == 2
    best = [best_of_random_number_pmf(repetition, 300) for repetition in (p, q)]
    assert 2**2.7 < ratio(*best) <= 2**COST_FACTOR


def test_fixed_number_of_repetitions_exceeds_three_epsilon(monkeypatch):
    monkeypatch.setattr(selection, "_no_better", lambda p, n: p**n)
    p, q = far_apart()
    best = [best_of_random_number_pmf(repetition, 100) for repetition in (p, q)]
    assert ratio(*best) > 2**COST_FACTOR


# The sampler ---------------------------------------------------------------------------------------------------------


def draw(max_repetitions, repetition, seed, n=DRAWS):
    source, rng = RandomSource(seed), np.random.default_rng(seed)
    places, chances = list(repetition), [float(p) for p in repetition.values()]
    drawn = Counter()
    for _ in range(n):
        chosen = best_of_random_number(
            lambda measure: (lambda pair: (pair[0], pair))(places[rng.choice(len(places), p=chances)]),
            paid(max_repetitions),
            max_repetitions,
            source,
        )
        drawn[chosen] += 1
    return [drawn[place] for place in places]


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_draws_follow_the_distribution(places):
    repetition = dict(zip(places, [Fraction(1, 10), Fraction(3, 10), Fraction(6, 10)], strict=True))
    counts = draw(5, repetition, seed=1)
    expected = best_of_random_number_pmf(repetition, 5)
    assert fits(counts, [expected[place] for place in places])
    for wrong in (4, 7):  # 30 % more or fewer repetitions
        other = best_of_random_number_pmf(repetition, wrong)
        assert not fits(counts, [other[place] for place in places])


def test_the_number_of_repetitions_does_not_depend_on_their_costs():
    def n_repetitions(cost, seed):
        costs = []
        best_of_random_number(lambda _: (costs.append(cost), (cost, "a"))[1], paid(20), 20, RandomSource(seed))
        return len(costs)

    numbers = [[n_repetitions(cost, seed) for seed in range(20)] for cost in (-7, 0, 7)]
    assert numbers[0] == numbers[1] == numbers[2]
    assert len(set(numbers[0])) > 5


def test_repetition_receives_its_cost():
    told = []

    def repeat(measure):
        told.append(measure.epsilon)
        return 0, "outcome"

    best_of_random_number(repeat, paid(4, Fraction(1, 7)), 4, RandomSource(0))
    assert set(told) == {Fraction(1, 7)}
    assert 1 <= len(told) <= 4


# Payment -------------------------------------------------------------------------------------------------------------
