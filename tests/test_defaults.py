"""What "auto" means: reasonable functions of public numbers and released counts."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diprime import defaults

ROWS = [-(10**6), -1, 0, 1, 50, 1000, 10**4, 10**5, 10**6, 10**8]
EPSILONS = [Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(10), Fraction(10**6), math.inf]


METHODS = ["joint", "diprime", "diprime-exp", "diprime-flip", "random"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_trees_and_depth_grow_with_the_rows_whatever_noise_does_to_their_count(epsilon, method):
    for classification in (True, False):
        trees = [defaults.n_estimators(method, rows, epsilon, classification=classification) for rows in ROWS]
        assert all(isinstance(n, int) and n >= 1 for n in trees)
        assert trees == sorted(trees)
    for n_trees in (1, 4, 100):
        for n_outputs in (1, 2, 3, 26, 1000):
            depths = [defaults.max_depth(rows, epsilon, n_trees, n_outputs) for rows in ROWS]
            assert all(isinstance(d, int) and d >= defaults.LEAST_DEPTH for d in depths)
            assert depths == sorted(depths)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", ROWS)
def test_trees_and_depth_grow_with_epsilon(rows, method):
    of_classes, of_numbers = (
        [defaults.n_estimators(method, rows, epsilon, classification=classification) for epsilon in EPSILONS]
        for classification in (True, False)
    )
    assert of_classes == sorted(of_classes)
    assert of_numbers == sorted(of_numbers)
    assert all(a <= b for a, b in zip(of_classes, of_numbers, strict=True)), "means of numbers gain sooner"
    depths = [defaults.max_depth(rows, epsilon, 1, 2) for epsilon in EPSILONS]
    assert depths == sorted(depths)
    assert defaults.max_depth(rows, Fraction(1), 100, 2) <= defaults.max_depth(rows, Fraction(1), 1, 2)


def test_the_range_of_depths_is_used_and_ends_later_for_many_classes():
    assert defaults.max_depth(0, Fraction(1), 1, 2) == defaults.LEAST_DEPTH
    most = [defaults.max_depth(10**8, Fraction(1), 1, n_outputs) for n_outputs in (1, 2, 3, 4, 5, 8, 1000)]
    assert most == [defaults.MOST_DEPTH + more for more in (0, 0, 1, 1, 2, 2, 3)]
    few = {defaults.max_depth(1000, Fraction(1), 1, n_outputs) for n_outputs in (1, 2, 1000)}
    assert len(few) == 1, "classes do not make rows"


@pytest.mark.parametrize("classification", [True, False])
def test_balance_is_an_exact_fraction_and_nothing_at_infinite_epsilon(classification):
    for epsilon in EPSILONS:
        balance = defaults.balance(classification=classification, epsilon=epsilon)
        assert isinstance(balance, Fraction)
        assert (balance == 0) == (epsilon == math.inf)


def test_shares_are_exact_and_leave_enough():
    assert {defaults.split_share(method) for method in METHODS if method != "joint"} == {Fraction(1, 2)}
    for share in (defaults.COUNTS_SHARE, defaults.QUANTILE_SHARE, *map(defaults.split_share, METHODS)):
        assert isinstance(share, Fraction)
        assert 0 < share < 1
    assert Fraction(9, 10) < 1 - defaults.COUNTS_SHARE - 2 * defaults.QUANTILE_SHARE


@pytest.mark.parametrize("classification", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_every_level_has_a_share_and_deeper_ones_no_less(method, classification):
    for epsilon in EPSILONS:
        for depth in (1, 2, 9, 40):
            weights = defaults.level_weights(method, depth, epsilon, classification=classification)
            assert len(weights) == depth
            assert all(isinstance(w, int) and w > 0 for w in weights)
            assert weights == sorted(weights)
            assert (len(set(weights)) == 1) == (depth == 1 or method != "joint" or epsilon == math.inf)


def test_with_little_epsilon_the_levels_of_numbers_are_nearly_equal():
    def last_to_first(epsilon, *, classification):
        weights = defaults.level_weights("joint", 9, epsilon, classification=classification)
        return Fraction(weights[-1], weights[0])

    of_numbers = [last_to_first(epsilon, classification=False) for epsilon in EPSILONS[:-1]]
    assert of_numbers == sorted(of_numbers)
    assert of_numbers[0] < Fraction(1001, 1000)
    assert (
        {last_to_first(epsilon, classification=True) for epsilon in EPSILONS[:-1]} == {of_numbers[-1]} == {Fraction(3)}
    )


counts = st.lists(st.integers(-(10**4), 10**7), min_size=1, max_size=30)


@given(counts, st.sampled_from(EPSILONS))
def test_the_ends_are_what_the_cost_allows_whatever_noise_does_to_the_counts(class_counts, epsilon):
    ends = defaults.ends(class_counts, epsilon)
    assert isinstance(ends, Fraction)
    assert 64 * ends == int(64 * ends)
    assert 0 <= ends <= defaults.MOST_ENDS < Fraction(1, 2)
    total = sum(class_counts)
    if min(class_counts) <= 0 or len(class_counts) == 1 or epsilon == math.inf:
        assert ends == 0
    else:
        assert ends <= Fraction(min(class_counts), total) / 2, "a node like the root is not blind to any class"
        most = defaults.MOST_ENDS * min(1, defaults.MOST_EPSILON / epsilon)
        assert ends <= most
        assert ends + Fraction(1, 64) > min(most, Fraction(min(class_counts), total) / 2)


def test_windows_are_widened_with_epsilon_and_those_of_leaves_more():
    margins = [defaults.window_margins(epsilon) for epsilon in EPSILONS[:-1]]
    assert all(isinstance(margin, (int, Fraction)) for both in margins for margin in both)
    assert all(0 <= for_splits < for_leaves for for_splits, for_leaves in margins)
    assert margins == sorted(margins)
    assert [for_leaves for _, for_leaves in margins] == sorted(for_leaves for _, for_leaves in margins)
    assert min(margins[-1]) > 1000, "all of any window, as epsilon grows"
