"""Tables of two-valued columns and their histograms."""

import numpy as np
import pytest

from benchmarks.attacks.reconstruction.tables import breast_cancer, histogram, population_prior, possible_rows


def test_a_histogram_counts_rows_in_the_order_of_possible_rows():
    rows = np.array([[0, 1, 1], [1, 0, 0], [0, 1, 1]])
    assert np.array_equal(np.repeat(possible_rows(3), histogram(rows), axis=0), rows[[0, 2, 1]])


def test_prior_follows_row_frequencies():
    rows = breast_cancer().rows
    prior = population_prior(rows)
    assert prior.sum() == pytest.approx(1)
    assert (prior > 0).all()
    assert prior @ histogram(rows) > 5 * prior.mean() * len(rows)
