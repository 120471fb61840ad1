"""Balanced splits of categories: their exact privacy loss, and every draw of the sampler counted."""

import itertools
import sys
import tracemalloc
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from diprime.privacy.charges import UnpaidReleaseError
from diprime.privacy.mechanisms import subsets
from diprime.privacy.mechanisms.selection import Selection
from diprime.privacy.mechanisms.subsets import MAX_CATEGORIES, subset_median_pmf
from diprime.privacy.mechanisms.weights import weight_table
from diprime.privacy.randomness import RandomSource
from tests.exact_exp import EPSILONS, TOO_LITTLE_NOISE, exp_bounds, largest_ratio
from tests.goodness import fits
from tests.paid import receipt, subset_median


def neighbouring_medians(table, k, most):
    of = cache(lambda counts: subset_median_pmf(counts, table))
    for counts in itertools.product(range(most + 1), repeat=k):
        for j in range(k):
            after = (*counts[:j], counts[j] + 1, *counts[j + 1 :])
            p, q = of(counts), of(after)
            assert list(p) == list(q)
            yield p.values(), q.values()


@pytest.mark.parametrize(("k", "most"), [(2, 8), (3, 4), (4, 2), (5, 1)])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_medians_of_neighbours_are_told_apart_by_epsilon_at_most(k, most, epsilon):
    for length in (None, 1, 2, 3):
        table = weight_table(epsilon, 2, 2**k)[:length]
        assert largest_ratio(neighbouring_medians(table, k, most)) <= exp_bounds(epsilon)[0]


def test_the_same_count_finds_a_median_that_is_too_sharp():
    table = weight_table(TOO_LITTLE_NOISE, 2, 8)
    assert largest_ratio(neighbouring_medians(table, 3, 4)) > exp_bounds(Fraction(1))[1]


@pytest.mark.parametrize(
    "counts",
    [
        [0, 0],
        [3, 0],
        [0, 1, 0],
        [2, 3, 1],
        [5, 5, 5],
        [0, 0, 0, 0],
        [0] * 8,
        [0, 9, 0, 9],
        [1, 1, 1, 1, 1],
        [40, 1, 2, 0, 3],
        [1, 2, 4, 8, 16, 32],
        [0, 1, 1, 2, 3, 5, 8],
        [7, 0, 7, 0, 1, 0, 1, 30],
    ],
)
@pytest.mark.parametrize("table", [[8, 5, 3, 2, 1], [2, 1], [3], [1, 0]])
def test_every_draw_of_a_median_is_counted(counts, table, monkeypatch):
    """All values of the one integer drawn, one by one: the sampler's exact distribution."""
    table = np.array(table, dtype=np.uint64)
    (stream,) = RandomSource(0).streams(1)  # nothing is drawn from it
    bounds = []
    monkeypatch.setattr(subsets, "big_integer_below", lambda _, bound: bounds.append(bound) or 0)
    subset_median(counts, table, stream)
    tally = {}
    for draw in range(bounds[0]):
        monkeypatch.setattr(subsets, "big_integer_below", lambda _, bound, draw=draw: draw)
        split = tuple(subset_median(counts, table, stream))
        tally[split] = tally.get(split, 0) + 1
    expected = {split: p for split, p in subset_median_pmf(counts, table).items() if p}
    assert {split: Fraction(n, bounds[0]) for split, n in tally.items()} == expected


def test_medians_of_many_categories():
    counts = [0] * 3 + [7] + [50] * 12
    table = weight_table(Fraction(20), 2, 2)
    streams = RandomSource(0).streams(20)
    total = sum(counts)
    for stream in streams:
        right = subset_median(counts, table, stream)
        assert len(right) == 16
        assert 0 < sum(right) < 16
        assert abs(2 * sum(c for c, r in zip(counts, right, strict=True) if r) - total) <= 7 + 12  # 7 is the least
    assert len({tuple(subset_median(counts, table, stream)) for stream in streams}) == 20


def median_counts(counts, table, seed):
    splits = list(subset_median_pmf(counts, table))
    tally = dict.fromkeys(splits, 0)
    for stream in RandomSource(seed).streams(12_000):
        tally[tuple(subset_median(counts, table, stream))] += 1
    return list(tally.values())


@pytest.mark.parametrize("counts", [[4, 1, 3, 2], [0, 3, 1]])
def test_medians_follow_their_distribution_and_less_noise_is_noticed(counts):
    table, sharp = weight_table(Fraction(1), 2, 16), weight_table(TOO_LITTLE_NOISE, 2, 16)
    pmf = list(subset_median_pmf(counts, table).values())
    assert fits(median_counts(counts, table, 5), pmf)
    assert not fits(median_counts(counts, sharp, 6), pmf)


def test_a_split_is_drawn_once_from_each_set():
    streams = RandomSource(0).streams(3)
    paid = receipt("exponential mechanism", calibrated_to=2)
    selection = Selection(paid, streams, cost_range=2, n_candidates=2)
    subsets.subset_median(selection, 1, [3, 1])
    with pytest.raises(UnpaidReleaseError, match="picked from twice"):
        subsets.subset_median(selection, 1, [3, 1])
    with pytest.raises(UnpaidReleaseError, match="picked from twice"):
        selection.pick(np.arange(3), np.zeros((3, 2), dtype=np.int64))
    subsets.subset_median(selection, 2, [3, 1])
    for place in (-1, 3):
        with pytest.raises((ValueError, IndexError)):
            subsets.subset_median(selection, place, [3, 1])


def test_a_split_of_a_uniform_selection_is_uniform():
    table = Selection.uniform(RandomSource(0).streams(1), 2).table
    for counts in ([4, 1, 3], [0, 0, 9]):
        assert set(subset_median_pmf(counts, table).values()) == {Fraction(1, 6)}


def work(draw):
    """Return every line of ``subsets`` that a draw executes, with the arrays that there are, and the peak of memory.

    Each line does the same work for arrays of the same sizes, so two draws with the same lines cost the same.
    """
    lines = []

    def trace(frame, event, _):
        if frame.f_code.co_filename != subsets.__file__:
            return None
        arrays = {n: (v.shape, v.dtype) for n, v in frame.f_locals.items() if isinstance(v, np.ndarray)}
        lines.append((event, frame.f_lineno, arrays))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        draw()
    finally:
        sys.settrace(before)
    tracemalloc.start()
    draw()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return lines, peak


@pytest.mark.parametrize("k", [2, 9, MAX_CATEGORIES])
@pytest.mark.parametrize("epsilon", [0, Fraction(1, 100), 1, float("inf")])
def test_a_draw_costs_the_same_whatever_the_counts_are(k, epsilon):
    """The numbers of records are private, all of them together too: neither time nor memory may tell them."""
    table = weight_table(epsilon, 2, 2)
    even, lone = [10] * k, [2**31 - 1] + [0] * (k - 1)
    many, steep = [2**31 // k] * k, [2**j for j in range(k)]
    works = []
    for counts in ([0] * k, even, lone, lone[::-1], many, steep):
        for stream in RandomSource(0).streams(3):
            works.append(work(lambda counts=counts, stream=stream: subset_median(counts, table, stream)))
    assert len(works[0][0]) > 10
    assert all(lines == works[0][0] for lines, _ in works)
    peaks = [peak for _, peak in works[1:]]  # the first one fills caches
    assert max(peaks) - min(peaks) < 2000


@pytest.mark.parametrize("k", [0, 1, MAX_CATEGORIES + 1])
def test_a_number_of_categories_whose_splits_are_not_listed_is_refused(k):
    with pytest.raises(ValueError, match="from 2 to 16 categories"):
        subset_median([1] * k, weight_table(1, 2, 2), *RandomSource(0).streams(1))


def test_a_uniform_split_does_not_depend_on_the_counts():
    table = Selection.uniform(RandomSource(0).streams(1), 2).table
    for stream in RandomSource(0).streams(20):
        drawn = [subset_median(counts, table, stream.copy()) for counts in ([4, 1, 3], [0, 0, 9], [0, 0, 0])]
        assert drawn[0] == drawn[1] == drawn[2]
