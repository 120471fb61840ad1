"""Rounds of boosting: compiled, interpreted, and one record at a time in plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.execution.partition import NO_WEIGHTS
from tests.kernel_pairs import Both

BOTH = Both("boosting")
UNIT_BITS, SHIFT = 11, 12
UNIT = 1 << UNIT_BITS
LIMIT = 2**31 - 1
EXTREMES = [0, 1, -1, 4095, 4096, -4096, -4097, 2**30, -(2**30), LIMIT, -LIMIT - 1]


def draw_scores(rng, n, n_scores):
    """Return scores of all magnitudes, with both ends of 32 bits among them."""
    moderate = np.rint(rng.normal(0, 3 * 2**20, (n, n_scores)))
    extreme = rng.choice(EXTREMES, (n, n_scores))
    return np.where(rng.random((n, n_scores)) < 0.3, extreme, moderate).astype(np.int32)


def draw_range(rng, n):
    begin, end = np.sort(rng.integers(0, n + 1, 2)).tolist()
    return begin, end


def draw_weights(rng, n):
    """Return weights of records, or none."""
    return rng.choice([0, 1, 2, 204, 255], n).astype(np.uint8) if rng.random() < 0.5 else NO_WEIGHTS


def weight_of(weights, i):
    return int(weights[i]) if len(weights) else 1


seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(0, 25)


# -- moves ------------------------------------------------------------------------------------------------------------


@given(seeds, sizes, st.integers(1, 4), st.integers(1, 2))
@settings(deadline=None, max_examples=60)
def test_scores_move_by_the_step_of_the_old_cell_before_the_new_one_is_set(seed, n, n_scores, n_features):
    rng = np.random.default_rng(seed)
    columns = rng.choice([0, 1, 254, 255], (3, n)).astype(np.uint8)
    features = rng.choice(3, n_features).astype(np.int32)
    cells_of_codes = rng.integers(0, 256 // n_features, (n_features, 256)).astype(np.uint8)
    steps = rng.integers(-(2**30), 2**30, (256, n_scores)).astype(np.int32)
    cells = rng.choice([0, 255, 17], n).astype(np.uint8)
    scores = rng.integers(-(2**30), 2**30, (n, n_scores)).astype(np.int32)
    begin, end = draw_range(rng, n)
    after, _ = BOTH("move", columns, features, cells_of_codes, steps, begin, end, cells, scores)
    moved, new = scores.tolist(), cells.tolist()
    for i in range(begin, end):
        moved[i] = [score + int(step) for score, step in zip(moved[i], steps[cells[i]], strict=True)]
        new[i] = sum(int(cells_of_codes[k, columns[feature, i]]) for k, feature in enumerate(features))
    assert after[7].tolist() == moved
    assert after[6].tolist() == new


@pytest.mark.parametrize("n_scores", [1, 3])
def test_the_last_cell_and_the_largest_scores(n_scores):
    columns = np.array([[255, 0], [255, 254]], dtype=np.uint8)
    cells_of_codes = np.stack([np.arange(256) // 16 * 16, np.arange(256) % 16]).astype(np.uint8)
    steps = np.zeros((256, n_scores), dtype=np.int32)
    steps[255], steps[0] = 1, -1
    scores = np.full((2, n_scores), LIMIT - 1, dtype=np.int32)
    scores[1] = -LIMIT
    cells = np.array([255, 0], dtype=np.uint8)
    after, _ = BOTH("move", columns, np.array([0, 1], dtype=np.int32), cells_of_codes, steps, 0, 2, cells, scores)
    assert after[7].tolist() == [[LIMIT] * n_scores, [-LIMIT - 1] * n_scores]
    assert after[6].tolist() == [255, 14]


# -- two classes ------------------------------------------------------------------------------------------------------


def logistic_by_record(scores, targets, cells, table, begin, end, weights, sums):
    expected = sums.tolist()
    for i in range(begin, end):
        row = (int(scores[i, 0]) >> SHIFT) + len(table) // 2
        gradient, hessian = table[min(max(row, 0), len(table) - 1)].tolist()
        expected[cells[i]][0] += weight_of(weights, i) * (gradient - (0 if targets[i] else UNIT))
        expected[cells[i]][1] += weight_of(weights, i) * (hessian)
    return expected


@given(seeds, sizes, st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_gradients_of_two_classes_are_those_of_the_nearest_row_of_the_table(seed, n, half):
    rng = np.random.default_rng(seed)
    scores, targets = draw_scores(rng, n, 1), rng.integers(0, 2, n).astype(np.uint16)
    scores[rng.random(n) < 0.5] %= half << SHIFT  # of which some are on the table
    cells = rng.choice([0, 1, 255], n).astype(np.uint8)
    table = rng.integers(-(2**15), 2**15, (2 * half, 2)).astype(np.int16)
    sums = rng.integers(-(2**50), 2**50, (256, 2))
    begin, end = draw_range(rng, n)
    weights = draw_weights(rng, n)
    after, _ = BOTH("add_logistic", scores, targets, cells, table, SHIFT, UNIT, begin, end, weights, sums)
    assert after[-1].tolist() == logistic_by_record(scores, targets, cells, table, begin, end, weights, sums)


# -- several classes --------------------------------------------------------------------------------------------------


def softmax_by_record(scores, targets, cells, table, begin, end, weights, sums):
    expected, n_classes = sums.tolist(), scores.shape[1]
    for i in range(begin, end):
        own = scores[i].tolist()
        places = [(max(own) - score) >> SHIFT for score in own]
        exps = [int(table[place]) if place < len(table) else 0 for place in places]
        inverse = 2**42 // sum(exps)
        shares = [exp * inverse >> (42 - UNIT_BITS) for exp in exps]
        gradients = [UNIT * (k == targets[i]) - share for k, share in enumerate(shares)]
        hessians = [2 * share * (UNIT - share) >> UNIT_BITS for share in shares]
        if sum(value**2 for value in gradients + hessians) > 2 * UNIT**2:
            hessians = [0] * n_classes
        for k, value in enumerate(gradients + hessians):
            expected[cells[i]][k] += weight_of(weights, i) * value
    return expected


@given(seeds, sizes, st.integers(1, 7), st.integers(1, 4000))
@settings(deadline=None, max_examples=60)
def test_gradients_of_several_classes_are_those_of_plain_integers(seed, n, n_classes, length):
    rng = np.random.default_rng(seed)
    scores, targets = draw_scores(rng, n, n_classes), rng.integers(0, n_classes, n).astype(np.uint16)
    cells = rng.choice([0, 1, 255], n).astype(np.uint8)
    table = np.rint(2.0**20 * np.exp(-np.arange(length) / 256)).astype(np.int32)
    sums = rng.integers(-(2**50), 2**50, (256, 2 * n_classes))
    begin, end = draw_range(rng, n)
    shares = np.empty(n_classes, dtype=np.int64)
    weights = draw_weights(rng, n)
    after, _ = BOTH("add_softmax", scores, targets, cells, table, SHIFT, UNIT_BITS, begin, end, weights, shares, sums)
    assert after[-1].tolist() == softmax_by_record(scores, targets, cells, table, begin, end, weights, sums)


def test_a_vector_that_would_be_too_long_keeps_its_gradient_alone():
    """No table of exponentials leads to one: this one has a negative entry, so the first share is two units."""
    scores = np.array([[0, -(1 << SHIFT)]], dtype=np.int32)
    sums, shares = np.zeros((1, 4), dtype=np.int64), np.empty(2, dtype=np.int64)
    arguments = np.zeros(1, dtype=np.uint16), np.zeros(1, dtype=np.uint8)
    for entry, expected in [(-(2**19), [-UNIT, UNIT, 0, 0]), (2**20, [UNIT // 2, -UNIT // 2, UNIT // 2, UNIT // 2])]:
        table = np.array([2**20, entry], dtype=np.int32)
        after, _ = BOTH("add_softmax", scores, *arguments, table, SHIFT, UNIT_BITS, 0, 1, NO_WEIGHTS, shares, sums)
        assert after[-1].tolist() == [expected]


# -- numbers ----------------------------------------------------------------------------------------------------------


def residuals_by_record(scores, targets, cells, of_all, begin, end, weights, sums):
    scale, clip, multiplier, count = of_all
    expected = sums.tolist()
    for i in range(begin, end):
        residual = int(targets[i]) * scale - int(scores[i, 0])
        residual = min(max(residual, -clip), clip)
        expected[cells[i]][0] += weight_of(weights, i) * ((residual * multiplier + 2**31) // 2**32)
        expected[cells[i]][1] += weight_of(weights, i) * count
    return expected


@given(seeds, sizes, st.sampled_from([1, 2, 3, 1000, 2**23 + 1, 2**24]), st.sampled_from([1, 4096, 2**24, LIMIT]))
@settings(deadline=None, max_examples=80)
def test_residuals_are_clamped_scaled_and_rounded(seed, n, clip, scale):
    rng = np.random.default_rng(seed)
    scores, targets = draw_scores(rng, n, 1), rng.choice([0, 1, 4096, 65535], n).astype(np.uint16)
    cells = rng.choice([0, 1, 255], n).astype(np.uint8)
    sums = rng.integers(-(2**50), 2**50, (256, 2))
    of_all = scale, clip, (UNIT << 32) // clip, 512
    begin, end = draw_range(rng, n)
    weights = draw_weights(rng, n)
    after, _ = BOTH("add_residuals", scores, targets, cells, *of_all, begin, end, weights, sums)
    assert after[-1].tolist() == residuals_by_record(scores, targets, cells, of_all, begin, end, weights, sums)


def test_read_only_arrays_are_accepted():
    n = 4
    read_only = {
        "columns": np.zeros((1, n), dtype=np.uint8),
        "features": np.zeros(1, dtype=np.int32),
        "cells_of_codes": np.zeros((1, 256), dtype=np.uint8),
        "steps": np.ones((1, 1), dtype=np.int32),
        "targets": np.ones(n, dtype=np.uint16),
        "logistic": np.full((2, 2), 7, dtype=np.int16),
        "exponentials": np.full(2, 2**20, dtype=np.int32),
    }
    for array in read_only.values():
        array.flags.writeable = False
    columns, features, cells_of_codes, steps, targets, logistic, exponentials = read_only.values()
    scores, cells, sums = np.zeros((n, 1), dtype=np.int32), np.zeros(n, dtype=np.uint8), np.zeros((1, 2), dtype=int)
    BOTH.compiled.move(columns, features, cells_of_codes, steps, 0, n, cells, scores)
    assert scores.ravel().tolist() == [1] * n
    scores.flags.writeable = cells.flags.writeable = False
    BOTH.compiled.add_logistic(scores, targets, cells, logistic, SHIFT, UNIT, 0, n, NO_WEIGHTS, sums)
    assert sums.tolist() == [[7 * n, 7 * n]]
    BOTH.compiled.add_residuals(scores, targets, cells, 1, 1, UNIT << 32, 5, 0, n, NO_WEIGHTS, sums)
    assert sums.tolist() == [[7 * n, 12 * n]]
    shares = np.empty(1, dtype=np.int64)
    targets = np.zeros(n, dtype=np.uint16)
    BOTH.compiled.add_softmax(scores, targets, cells, exponentials, SHIFT, UNIT_BITS, 0, n, NO_WEIGHTS, shares, sums)
    assert sums.tolist() == [[7 * n, 12 * n]]
