"""Thresholded counts: their exact privacy loss over all small counts, and a sampler that follows it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from diprime.privacy.charges import Mechanism
from diprime.privacy.mechanisms.laplace import (
    count_threshold,
    discrete_laplace_pmf,
    frequent,
    frequent_pmf,
    tail_upper_bound,
)
from diprime.privacy.randomness import RandomSource
from tests.exact_exp import TOO_LITTLE_NOISE, exp_bounds
from tests.goodness import fits
from tests.paid import approximate_receipt

BUDGETS = [
    (Fraction(1), Fraction(1, 10**6)),
    (Fraction(1, 7), Fraction(1, 100)),
    (Fraction(9, 2), Fraction(1, 10**9)),
    (Fraction(1, 50), Fraction(1, 3)),
]
DRAWS = 40_000


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_neighbours_differ_by_at_most_epsilon_and_delta(epsilon, delta):
    factor = exp_bounds(epsilon)[0]
    assert frequent_pmf(1, epsilon, delta)[1] <= delta  # a value that only one record has
    for count in range(1, 3 * count_threshold(epsilon, delta)):
        below, above = frequent_pmf(count, epsilon, delta), frequent_pmf(count + 1, epsilon, delta)
        assert above[1] <= factor * below[0] * (1 + Fraction(1, 2**100))
        assert 1 - below[0] <= factor * (1 - above[1]) * (1 + Fraction(1, 2**100))
        assert below[0] <= above[1]


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_threshold_is_the_least_that_will_do(epsilon, delta):
    threshold = count_threshold(epsilon, delta)
    assert tail_upper_bound(epsilon, threshold - 1) <= delta
    lower = discrete_laplace_pmf(0, epsilon, 1)[0]  # Pr[Z >= 0] is more than a half, Pr[Z >= 1] less
    if threshold > 2:
        q_low = frequent_pmf(2, epsilon, delta)[0]  # the same tail, one nearer
        assert q_low > delta
    assert lower > 0


@pytest.mark.parametrize(("epsilon", "x"), [(Fraction(1), 1), (Fraction(1, 3), 7), (Fraction(4), 3)])
def test_the_bound_of_the_tail_is_the_sum_of_the_distribution(epsilon, x):
    low, high = (sum(discrete_laplace_pmf(i, epsilon, 1)[side] for i in range(x, x + 400)) for side in (0, 1))
    assert low <= tail_upper_bound(epsilon, x)
    assert tail_upper_bound(epsilon, x) <= high + Fraction(1, 10**30)


def draw(counts, epsilon, delta, seed):
    paid = approximate_receipt(Mechanism.THRESHOLDED_LAPLACE, epsilon, delta)
    return frequent(np.asarray(counts, dtype=np.int64), paid, RandomSource(seed).streams(1))


def test_the_sampler_follows_its_distribution_and_less_noise_is_noticed():
    epsilon, delta, count = Fraction(1, 2), Fraction(1, 100), 5
    p = sum(frequent_pmf(count, epsilon, delta)) / 2
    released = int(draw([count] * DRAWS, epsilon, delta, 1).sum())
    assert fits([released, DRAWS - released], [p, 1 - p])
    # The same threshold with less noise: the noise of a larger epsilon, and a count that lacks as much.
    sharp = epsilon * TOO_LITTLE_NOISE
    moved = count + count_threshold(sharp, delta) - count_threshold(epsilon, delta)
    released = int(draw([moved] * DRAWS, sharp, delta, 2).sum())
    assert not fits([released, DRAWS - released], [p, 1 - p])


def test_without_noise_every_value_that_occurs_is_released():
    assert draw([1, 5], math.inf, Fraction(1, 10), 0).all()


def test_counts_need_one_stream():
    with pytest.raises(ValueError, match="one stream"):
        frequent(
            np.array([1]),
            approximate_receipt(Mechanism.THRESHOLDED_LAPLACE, 1, Fraction(1, 10)),
            RandomSource(0).streams(0),
        )


def test_an_impossible_budget_is_refused():
    with pytest.raises(ValueError, match=r"^epsilon and delta .*too small: .*threshold"):
        count_threshold(Fraction(1, 2**30), Fraction(1, 10**2000))
