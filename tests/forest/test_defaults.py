"""What "auto" means: reasonable functions of public numbers and released counts."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diprime.forest import defaults

ROWS = [-(10**6), -1, 0, 1, 50, 1000, 10**4, 10**5, 10**6, 10**8]
EPSILONS = [Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(10), Fraction(10**6), math.inf]
METHODS = ["joint", "diprime", "diprime-exp", "diprime-flip", "random"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_trees_and_depth_grow_with_rows_for_any_noisy_count(epsilon, method):
    for classification in (True, False):
        trees = [defaults.n_estimators(method, rows, epsilon, classification=classification) for rows in ROWS]
        assert all(isinstance(n, int) and n >= 1 for n in trees)
        assert trees == sorted(trees)
    for n_trees in (1, 4, 100):
        for n_outputs in (1, 2, 3, 26, 1000):
            depths = [defaults.max_depth(rows, epsilon, n_trees, n_outputs) for rows in ROWS]
            assert all(isinstance(d, int) and d >= 0 for d in depths)
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


def test_depth_is_zero_below_forty_records_times_an_epsilon_below_two_fifths():
    assert [defaults.max_depth(rows, Fraction(1, 10), 1, 2) for rows in (0, 399, 400)] == [0, 0, 1]
    assert [defaults.max_depth(0, epsilon, 1, 2) for epsilon in (Fraction(39, 100), Fraction(2, 5), math.inf)] == [
        0,
        1,
        1,
    ]


@pytest.mark.parametrize("classification", [True, False])
def test_balance_is_exact_and_zero_at_infinite_epsilon(classification):
    for epsilon in EPSILONS:
        balance = defaults.balance(classification=classification, epsilon=epsilon)
        assert isinstance(balance, Fraction)
        assert (balance == 0) == (epsilon == math.inf)


def test_shares_are_exact_and_leave_enough():
    plenty = {method: defaults.split_share(method, 10_000, Fraction(1)) for method in METHODS}
    assert plenty == {method: Fraction(7, 10) if method == "joint" else Fraction(1, 2) for method in METHODS}
    scarce = [defaults.split_share("joint", rows, Fraction(1, 10)) for rows in (-50, 0, 500, 1000, 2100, 2200)]
    assert scarce == [Fraction(1, 10)] * 2 + [Fraction(1, 6), Fraction(1, 3), Fraction(7, 10), Fraction(7, 10)]
    for share in (defaults.COUNTS_SHARE, defaults.QUANTILE_SHARE, *plenty.values(), *scarce):
        assert isinstance(share, Fraction)
        assert 0 < share < 1
    assert Fraction(9, 10) < 1 - defaults.COUNTS_SHARE - 2 * defaults.QUANTILE_SHARE


@pytest.mark.parametrize("method", METHODS)
def test_level_shares_are_positive_and_do_not_decrease(method):
    for epsilon in EPSILONS:
        for depth in (1, 2, 9, 40):
            weights = defaults.level_weights(method, depth, epsilon)
            assert len(weights) == depth
            assert all(isinstance(w, int) and w > 0 for w in weights)
            assert weights == sorted(weights)
            assert (len(set(weights)) == 1) == (depth == 1 or method != "joint" or epsilon == math.inf)


counts = st.lists(st.integers(-(10**4), 10**7), min_size=1, max_size=30)


@given(counts, st.sampled_from(EPSILONS))
def test_linear_tail_is_valid_for_any_noisy_counts(class_counts, epsilon):
    tail = defaults.linear_tail(class_counts, epsilon)
    assert isinstance(tail, Fraction)
    assert 64 * tail == int(64 * tail)
    assert 0 <= tail <= defaults.MAX_LINEAR_TAIL < Fraction(1, 2)
    total = sum(class_counts)
    if min(class_counts) <= 0 or len(class_counts) == 1 or epsilon == math.inf:
        assert tail == 0
    else:
        assert tail <= Fraction(min(class_counts), total) / 2, "a node like the root is not blind to any class"
        most = defaults.MAX_LINEAR_TAIL * min(1, defaults.MAX_EPSILON / epsilon)
        assert tail <= most
        assert tail + Fraction(1, 64) > min(most, Fraction(min(class_counts), total) / 2)


def test_clipping_ranges_widen_with_epsilon_and_more_for_leaves():
    margins = [defaults.window_margins(epsilon) for epsilon in EPSILONS[:-1]]
    assert all(isinstance(margin, (int, Fraction)) for both in margins for margin in both)
    assert all(0 <= for_splits < for_leaves for for_splits, for_leaves in margins)
    assert margins == sorted(margins)
    assert [for_leaves for _, for_leaves in margins] == sorted(for_leaves for _, for_leaves in margins)
    assert margins[-1][1] > 1000, "all of any window, as epsilon grows"
    assert defaults.window_margins(Fraction(150))[0] == Fraction(1, 2)
    assert margins[-1][0] == 1, "selections see three widths at most"


# -- levels with windows -----------------------------------------------------------------------------------------------

TREES = [1, 2, 4, 7, 1000]
DEPTHS = [1, 2, 3, 5, 9, 12, 40]


def test_every_other_level_has_clipping_ranges_except_the_first():
    assert defaults.window_levels(10**8, Fraction(1), 1, 9) == [2, 4, 6, 8]
    assert defaults.window_levels(10**8, Fraction(1), 1, 8) == [2, 4, 6], "leaves have no splits to see by"
    for rows, epsilon, n_trees, depth in itertools.product(ROWS, EPSILONS[:-1], TREES, DEPTHS):
        levels = defaults.window_levels(rows, epsilon, n_trees, depth)
        assert levels == list(range(2, 2 + 2 * len(levels), 2)), "none is left out before the last"
        assert all(level < depth for level in levels)


def test_levels_with_windows_grow_with_rows_and_epsilon_and_shrink_with_trees():
    for n_trees, depth in itertools.product(TREES, DEPTHS):
        table = [
            [len(defaults.window_levels(rows, epsilon, n_trees, depth)) for epsilon in EPSILONS[:-1]] for rows in ROWS
        ]
        assert all(list(column) == sorted(column) for column in zip(*table, strict=True)), "with the rows"
        assert all(row == sorted(row) for row, rows in zip(table, ROWS, strict=True) if rows >= 0), "with epsilon"
    for rows, epsilon in itertools.product(ROWS, EPSILONS[:-1]):
        of_trees = [len(defaults.window_levels(rows, epsilon, n_trees, 40)) for n_trees in TREES]
        assert of_trees == sorted(of_trees, reverse=True)
    few, many = (defaults.window_levels(rows, Fraction(1), 1, 40) for rows in (10**5, 10**8))
    assert 0 < len(few) < len(many)


@pytest.mark.parametrize("level", [2, 4])
@pytest.mark.parametrize("n_trees", [1, 3])
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(8)])
def test_level_has_clipping_ranges_if_its_nodes_have_enough_records(level, n_trees, epsilon):
    needed = math.ceil(defaults.WINDOW_INFORMATION * n_trees * 2**level / epsilon)
    assert level in defaults.window_levels(needed, epsilon, n_trees, 9)
    assert level not in defaults.window_levels(needed - 1, epsilon, n_trees, 9)


def test_clipping_ranges_of_a_level_fit_in_memory():
    for n_trees, depth in itertools.product([*TREES, 10**9], [*DEPTHS, 1000]):
        levels = defaults.window_levels(10**12, Fraction(10**6), n_trees, depth)
        assert all(n_trees * 2**level <= defaults.MAX_WINDOWS for level in levels)
    assert defaults.window_levels(10**12, Fraction(1), 1, 40)[-1] == 10
    assert defaults.MAX_WINDOWS == 2**10


def test_depth_of_random_forests_is_limited_by_rows_and_memory():
    for n_outputs in (2, 26):
        depths = [defaults.random_forest_depth(rows, 30, n_outputs) for rows in ROWS]
        assert depths == sorted(depths)
        assert min(depths) >= defaults.MIN_DEPTH
        assert max(depths) <= defaults.MAX_RANDOM_DEPTH
    assert {defaults.random_forest_depth(10**4, n_trees, 2) for n_trees in (1, 30, 100)} == {14}
    for n_trees, n_outputs in itertools.product((1, 1000, 65535), (2, 26, 1000)):
        depth = defaults.random_forest_depth(10**9, n_trees, n_outputs)
        assert n_trees * n_outputs * 2**depth <= defaults.MAX_RANDOM_SUMS or depth == defaults.MIN_DEPTH
