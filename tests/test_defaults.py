"""What "auto" means: reasonable functions of public numbers and a released count."""

import math
from fractions import Fraction

import pytest

from diprime import defaults

ROWS = [-(10**6), -1, 0, 1, 50, 1000, 10**4, 10**5, 10**6, 10**8]
EPSILONS = [Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(10), Fraction(10**6), math.inf]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_trees_and_depth_grow_with_the_rows_whatever_noise_does_to_their_count(epsilon):
    trees = [defaults.n_estimators(rows, epsilon) for rows in ROWS]
    assert all(isinstance(n, int) and n >= 1 for n in trees)
    assert trees == sorted(trees)
    for n_trees in (1, 4, 100):
        depths = [defaults.max_depth(rows, epsilon, n_trees) for rows in ROWS]
        assert all(defaults.LEAST_DEPTH <= d <= defaults.MOST_DEPTH for d in depths)
        assert depths == sorted(depths)


@pytest.mark.parametrize("rows", ROWS)
def test_trees_and_depth_grow_with_epsilon(rows):
    trees = [defaults.n_estimators(rows, epsilon) for epsilon in EPSILONS]
    depths = [defaults.max_depth(rows, epsilon, 1) for epsilon in EPSILONS]
    assert trees == sorted(trees)
    assert depths == sorted(depths)
    assert defaults.max_depth(rows, Fraction(1), 100) <= defaults.max_depth(rows, Fraction(1), 1)


def test_the_range_of_depths_is_used():
    assert defaults.max_depth(0, Fraction(1), 1) == defaults.LEAST_DEPTH
    assert defaults.max_depth(10**8, Fraction(1), 1) == defaults.MOST_DEPTH


@pytest.mark.parametrize("classification", [True, False])
def test_balance_is_an_exact_fraction_and_nothing_at_infinite_epsilon(classification):
    for epsilon in EPSILONS:
        balance = defaults.balance(classification=classification, epsilon=epsilon)
        assert isinstance(balance, Fraction)
        assert (balance == 0) == (epsilon == math.inf)


def test_shares_are_exact_and_inside():
    for share in (defaults.ROW_COUNT_SHARE, defaults.SPLIT_SHARE):
        assert isinstance(share, Fraction)
        assert 0 < share < 1
