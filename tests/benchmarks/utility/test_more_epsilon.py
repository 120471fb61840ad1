"""A rise of the error with more epsilon is told from chance."""

import numpy as np
import pytest

from benchmarks.utility.more_epsilon import ratio, rise


def test_chance_rise_is_distinguished_from_a_clear_one():
    rng = np.random.default_rng(0)
    few = rng.normal(1, 0.1, 10)
    assert rise(few, few + 0.05 + rng.normal(0, 0.01, 10))[1] < 1e-4
    assert rise(few, few + rng.normal(0, 0.1, 10))[1] > 1e-3
    assert rise(few, few)[1] == 1
    assert rise(few, few - 0.1 + rng.normal(0, 0.01, 10))[1] > 0.99


def test_standard_error_of_a_ratio_matches_repeated_draws():
    rng = np.random.default_rng(1)
    easy = rng.uniform(0.5, 1.5, (4000, 40))  # what both have of a split
    pairs = [(1.1 * e + rng.normal(0, 0.2, 40), e + rng.normal(0, 0.2, 40)) for e in easy]
    values, errors = np.array([ratio(over, under, test_to_train=0) for over, under in pairs]).T
    assert abs(values.mean() - 1.1) < 0.005
    assert errors.mean() == pytest.approx(values.std(), rel=0.1)
