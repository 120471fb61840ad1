"""Errors do not depend on the order of rows."""

import numpy as np
import pytest

from benchmarks.attacks.reconstruction.scores import closeness


def test_equal_tables_in_another_order_have_no_error():
    rows = np.random.default_rng(0).integers(0, 2, (20, 5))
    assert closeness(rows, rows[::-1]) == (0, 1)


def test_wrong_values_are_counted_after_the_best_matching():
    true = np.array([[0, 0, 0, 0], [1, 1, 1, 1]])
    guess = np.array([[1, 1, 1, 0], [0, 0, 0, 0]])
    assert closeness(true, guess) == (pytest.approx(1 / 8), 0.5)


def test_a_row_that_is_guessed_too_often_counts_as_often_as_it_occurs():
    assert closeness(np.array([[0], [1]]), np.array([[0], [0]])).exact == 0.5
