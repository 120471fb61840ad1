"""Errors do not depend on the order of rows."""

import numpy as np
import pytest

from benchmarks.attacks.reconstruction.scores import closeness


def test_wrong_values_are_counted_after_the_best_matching():
    true = np.array([[0, 0, 0, 0], [1, 1, 1, 1]])
    guess = np.array([[1, 1, 1, 0], [0, 0, 0, 0]])
    assert closeness(true, guess) == (pytest.approx(1 / 8), 0.5)
