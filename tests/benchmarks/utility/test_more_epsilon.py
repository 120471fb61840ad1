"""A rise of the error with more epsilon is told from chance."""

import numpy as np

from benchmarks.utility.more_epsilon import rise


def test_a_rise_by_chance_is_told_from_a_clear_one():
    rng = np.random.default_rng(0)
    few = rng.normal(1, 0.1, 10)
    assert rise(few, few + 0.05 + rng.normal(0, 0.01, 10))[1] < 1e-4
    assert rise(few, few + rng.normal(0, 0.1, 10))[1] > 1e-3
    assert rise(few, few)[1] == 1
    assert rise(few, few - 0.1 + rng.normal(0, 0.01, 10))[1] > 0.99
