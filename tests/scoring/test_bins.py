"""Bins of scores: of about equal frequency, with bounds that hold."""

import math

import numpy as np
import pytest

from diprime.scoring.bins import MAX_BINS, MIN_BINS, Reference, make_bins, number_of_bins

SCORES = np.random.default_rng(0).normal(0, 2, 5000)


def test_bins_hold_about_as_many_records_each():
    bins = make_bins(Reference(SCORES, np.ones(5000), False, True), 20)
    counts = np.bincount(bins.place(SCORES), minlength=20)
    assert len(bins) == 20
    assert counts.max() < 1.3 * counts.min()


def test_weights_count():
    weights = np.where(SCORES > 0, 9.0, 1.0)
    bins = make_bins(Reference(SCORES, weights, False, True), 20)
    assert (bins.edges > 0).sum() > 15


@pytest.mark.parametrize("is_log_odds", [True, False])
def test_probabilities_of_records_are_within_the_bounds_of_their_bin(is_log_odds):
    scores = SCORES if is_log_odds else 1 / (1 + np.exp(-SCORES))
    reference = Reference(scores[:2000], np.ones(2000), False, is_log_odds)
    bins = make_bins(reference, 30)
    places, p = bins.place(scores), reference.probabilities(scores)
    assert np.all(bins.low[places] <= p)
    assert np.all(p <= bins.high[places])
    assert np.all((bins.low <= bins.middle) & (bins.middle <= bins.high))
    assert (bins.low[0], bins.high[-1]) == (0, 1)
    assert not bins.is_exact.any()


def test_limits_of_the_model_bound_the_outer_bins():
    reference = Reference(np.array([-1.0, 0.0, 1.0]), np.ones(3), False, True, (-2.0, 3.0))
    bins = make_bins(reference, 2)
    assert bins.low[0] == pytest.approx(1 / (1 + math.exp(2)))
    assert bins.high[-1] == pytest.approx(1 / (1 + math.exp(-3)))


def test_a_complete_list_of_few_scores_gives_exact_bins():
    reference = Reference(np.array([0.3, 0.1, 0.3, 0.8]), np.array([1.0, -2.0, 3.0, 0.0]), True)
    bins = make_bins(reference, 10)
    assert bins.is_exact.all()
    assert bins.low.tolist() == bins.middle.tolist() == [0.1, 0.3, 0.8]
    assert bins.place(np.array([0.1, 0.3, 0.8])).tolist() == [0, 1, 2]
    merged = make_bins(reference, 2)
    assert merged.is_exact.sum() == 1
    assert len(merged) == 2


def test_a_model_that_never_decides_so_has_one_bin():
    bins = make_bins(Reference(np.zeros(0), np.zeros(0), False), 7, highest=0.5)
    assert (bins.low, bins.high) == ([0.0], [0.5])
    assert bins.place(np.array([0.2, 0.4])).tolist() == [0, 0]


def test_more_records_have_more_bins():
    sizes = [number_of_bins(n, 0.1) for n in (-50, 100, 1000, 10_000, 1e9)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (MIN_BINS, MAX_BINS)
    assert number_of_bins(10, math.inf) == MAX_BINS
