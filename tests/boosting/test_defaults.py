"""Rules that choose the numbers of boosting: what they tend to with much and with little information."""

import math

import pytest

from diprime.boosting import defaults


def ridge(task, signal):
    return defaults.ridge(task, signal, 20, 400, 0.25)


@pytest.mark.parametrize("signal", [1.0, 300.0, defaults.PLENTIFUL])
def test_ridge_of_classes_is_constant_unless_information_is_plentiful(signal):
    assert ridge("classification", signal) == defaults.RIDGE


def test_ridge_of_classes_shrinks_with_the_root_of_plentiful_information():
    assert ridge("classification", 9 * defaults.PLENTIFUL) == pytest.approx(defaults.RIDGE / 3)
    assert ridge("classification", math.inf) == 0, "without noise"


def test_ridge_of_numbers_is_larger_where_records_are_few_for_their_features():
    assert ridge("regression", 1e6) == defaults.RIDGE
    assert ridge("regression", 1e2) > 5 * defaults.RIDGE
