"""Kernels of boosting: compiled, interpreted, and one record at a time in plain Python."""

import math

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


def unwritten(n, n_columns):
    return np.full((n, n_columns), -99, dtype=np.int64)


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


@given(seeds, sizes, st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_gradients_of_two_classes_are_those_of_the_nearest_row_of_the_table(seed, n, half):
    rng = np.random.default_rng(seed)
    scores, targets = draw_scores(rng, n, 1), rng.integers(0, 2, n).astype(np.uint16)
    scores[rng.random(n) < 0.5] %= half << SHIFT  # of which some are on the table
    table = rng.integers(-(2**15), 2**15, (2 * half, 3)).astype(np.int16)
    begin, end = draw_range(rng, n)
    after, _ = BOTH("logistic", scores, targets, table, SHIFT, begin, end, unwritten(n, 2))
    expected = unwritten(n, 2)
    for i in range(begin, end):
        row = table[min(max((int(scores[i, 0]) >> SHIFT) + half, 0), 2 * half - 1)]
        expected[i - begin] = row[targets[i]], row[2]
    np.testing.assert_array_equal(after[-1], expected)


# -- several classes --------------------------------------------------------------------------------------------------


def softmax_by_record(own, target, table, clip):
    """Return the gradient and the Hessian of a record in exact integers."""
    places = [(max(own) - score) >> SHIFT for score in own]
    exps = [int(table[place]) if place < len(table) else 0 for place in places]
    inverse = 2**42 // sum(exps)
    shares = [exp * inverse >> (42 - UNIT_BITS) for exp in exps]
    gradient = [UNIT * (k == target) - share for k, share in enumerate(shares)]
    norm = sum(value**2 for value in gradient)
    if norm > clip**2:
        root = math.isqrt(norm - 1) + 1
        gradient = [(clip * abs(value) // root) * (1 if value >= 0 else -1) for value in gradient]
    hessian = [share * (UNIT - share) >> UNIT_BITS for share in shares]
    if 27 * sum(value**2 for value in hessian) > 4 * UNIT**2:
        hessian = [0] * len(own)
    return gradient + hessian


@given(seeds, sizes, st.integers(1, 7), st.integers(1, 4000), st.sampled_from([1, 700, UNIT // 2, 2 * UNIT]))
@settings(deadline=None, max_examples=60)
def test_gradients_of_several_classes_are_those_of_plain_integers(seed, n, n_classes, length, clip):
    rng = np.random.default_rng(seed)
    scores, targets = draw_scores(rng, n, n_classes), rng.integers(0, n_classes, n).astype(np.uint16)
    table = np.rint(2.0**20 * np.exp(-np.arange(length) / 256)).astype(np.int32)
    begin, end = draw_range(rng, n)
    vectors = unwritten(n, 2 * n_classes)
    after, _ = BOTH("softmax", scores, targets, table, SHIFT, UNIT_BITS, clip, begin, end, vectors)
    expected = unwritten(n, 2 * n_classes)
    for i in range(begin, end):
        expected[i - begin] = softmax_by_record(scores[i].tolist(), targets[i], table, clip)
    np.testing.assert_array_equal(after[-1], expected)


def test_impossible_shares_give_short_gradients_and_no_hessians():
    """A table of exponentials has no negative entry. With one, the first share is two units."""
    scores = np.array([[0, -(1 << SHIFT)]], dtype=np.int32)
    for entry, sign, n_hessians in [(-(2**19), -1, 0), (2**20, 1, 2)]:
        limits = np.array([2**20, entry], dtype=np.int32), SHIFT, UNIT_BITS, UNIT // 2
        after, _ = BOTH("softmax", scores, np.zeros(1, dtype=np.uint16), *limits, 0, 1, unwritten(1, 4))
        *gradient, first, second = after[-1][0].tolist()
        assert gradient == [sign * 723, -sign * 723]
        assert [first > 0, second > 0].count(True) == n_hessians


# -- numbers ----------------------------------------------------------------------------------------------------------


@given(seeds, sizes, st.sampled_from([1, 2, 3, 1000, 2**23 + 1, 2**24]), st.sampled_from([1, 4096, 2**24, LIMIT]))
@settings(deadline=None, max_examples=80)
def test_residuals_are_clipped_scaled_and_rounded(seed, n, clip, scale):
    rng = np.random.default_rng(seed)
    scores, targets = draw_scores(rng, n, 1), rng.choice([0, 1, 4096, 65535], n).astype(np.uint16)
    multiplier, count = (UNIT << 32) // clip, 512
    begin, end = draw_range(rng, n)
    after, _ = BOTH("residuals", scores, targets, scale, clip, multiplier, count, begin, end, unwritten(n, 2))
    expected = unwritten(n, 2)
    for i in range(begin, end):
        residual = min(max(int(targets[i]) * scale - int(scores[i, 0]), -clip), clip)
        expected[i - begin] = (residual * multiplier + 2**31) // 2**32, count
    np.testing.assert_array_equal(after[-1], expected)


# -- sums -------------------------------------------------------------------------------------------------------------


@given(seeds, sizes, st.integers(1, 5))
@settings(deadline=None, max_examples=60)
def test_weighted_vectors_are_added_to_the_cells_of_their_records(seed, n, n_columns):
    rng = np.random.default_rng(seed)
    begin, end = draw_range(rng, n)
    vectors = rng.integers(-(2**11), 2**11, (n, n_columns))
    cells, weights = rng.choice([0, 1, 255], n).astype(np.uint8), draw_weights(rng, n)
    sums = rng.integers(-(2**50), 2**50, (256, n_columns))
    after, _ = BOTH("add_to_cells", vectors, cells, begin, end, weights, sums)
    expected = sums.copy()
    for i in range(begin, end):
        expected[cells[i]] += weight_of(weights, i) * vectors[i - begin]
    np.testing.assert_array_equal(after[-1], expected)


@given(seeds, sizes, st.integers(1, 4), st.integers(0, 4))
@settings(deadline=None, max_examples=60)
def test_tables_are_looked_up_and_vectors_added_at_the_codes_of_all_features(seed, n, n_scores, n_features):
    rng = np.random.default_rng(seed)
    columns = rng.choice([0, 1, 254, 255], (5, n)).astype(np.uint8)
    features = rng.permutation(5)[:n_features].astype(np.int32)
    tables = rng.integers(-(2**55), 2**55, (n_features, 256, n_scores))
    vectors = rng.integers(-(2**50), 2**50, (n, n_scores))
    begin, end = draw_range(rng, n)
    looked_up, _ = BOTH("look_up", columns, features, tables, begin, end, vectors)
    added, _ = BOTH("add_to_codes", columns, features, vectors, begin, end, tables)
    of_records, of_codes = vectors.copy(), tables.copy()
    for i in range(begin, end):
        for k, feature in enumerate(features):
            of_records[i - begin] += tables[k, columns[feature, i]]
            of_codes[k, columns[feature, i]] += vectors[i - begin]
    np.testing.assert_array_equal(looked_up[-1], of_records)
    np.testing.assert_array_equal(added[-1], of_codes)


def read_only(array):
    array.flags.writeable = False
    return array


def test_read_only_arrays_are_accepted():
    n, kernel = 4, BOTH.compiled
    columns, features = read_only(np.zeros((1, n), dtype=np.uint8)), read_only(np.zeros(1, dtype=np.int32))
    cells_of_codes, steps = read_only(np.zeros((1, 256), dtype=np.uint8)), read_only(np.ones((1, 1), dtype=np.int32))
    scores, cells, sums = np.zeros((n, 1), dtype=np.int32), np.zeros(n, dtype=np.uint8), np.zeros((1, 2), dtype=int)
    kernel.move(columns, features, cells_of_codes, steps, 0, n, cells, scores)
    assert scores.ravel().tolist() == [1] * n
    scores, cells, ones = read_only(scores), read_only(cells), read_only(np.ones(n, dtype=np.uint16))
    zeros, vectors = read_only(np.zeros(n, dtype=np.uint16)), unwritten(n, 2)
    kernel.logistic(scores, ones, read_only(np.full((2, 3), 7, dtype=np.int16)), SHIFT, 0, n, vectors)
    assert (vectors == 7).all()
    kernel.residuals(scores, ones, 1, 1, UNIT << 32, 5, 0, n, vectors)
    assert (vectors == [0, 5]).all()
    kernel.softmax(scores, zeros, read_only(np.full(2, 2**20, dtype=np.int32)), SHIFT, UNIT_BITS, UNIT, 0, n, vectors)
    assert (vectors == 0).all()
    vectors = read_only(np.full((n, 2), 3))
    kernel.add_to_cells(vectors, cells, 0, n, NO_WEIGHTS, sums)
    assert (sums == 3 * n).all()
    tables, added = np.zeros((1, 256, 2), dtype=np.int64), np.zeros((n, 2), dtype=np.int64)
    kernel.add_to_codes(columns, features, vectors, 0, n, tables)
    kernel.look_up(columns, features, read_only(tables), 0, n, added)
    assert (added == 3 * n).all()
