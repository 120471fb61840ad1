"""A rise of the error with more epsilon is told from chance."""

import math

import numpy as np
import pytest

from benchmarks.utility.more_epsilon import ratio, rise


def test_a_rise_by_chance_is_told_from_a_clear_one():
    rng = np.random.default_rng(0)
    few = rng.normal(1, 0.1, 10)
    assert rise(few, few + 0.05 + rng.normal(0, 0.01, 10))[1] < 1e-4
    assert rise(few, few + rng.normal(0, 0.1, 10))[1] > 1e-3
    assert rise(few, few)[1] == 1
    assert rise(few, few - 0.1 + rng.normal(0, 0.01, 10))[1] > 0.99


def test_the_standard_error_of_a_ratio_is_that_of_repeated_draws():
    rng = np.random.default_rng(1)
    easy = rng.uniform(0.5, 1.5, (4000, 40))  # what both have of a split
    pairs = [(1.1 * e + rng.normal(0, 0.2, 40), e + rng.normal(0, 0.2, 40)) for e in easy]
    values, errors = np.array([ratio(over, under) for over, under in pairs]).T
    assert abs(values.mean() - 1.1) < 0.005
    assert errors.mean() == pytest.approx(values.std(), rel=0.1)


def test_a_ratio_to_no_errors_at_all_is_one_or_infinite():
    none = np.zeros(5)
    assert ratio(none, none)[0] == 1
    assert ratio(none + 0.1, none)[0] == math.inf
