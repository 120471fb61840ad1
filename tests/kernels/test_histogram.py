"""Histograms, partitions and sums against NumPy, compiled and interpreted, at the edges of the 64 bits too."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.execution.partition import NO_WEIGHTS
from tests.kernel_pairs import Both

BOTH = Both("histogram")
many = settings(deadline=None, max_examples=60)
seeds = st.integers(0, 2**32 - 1)
EDGE_CODES = [0, 1, 7, 8, 254, 255]
EDGE_TARGETS = [0, 1, 255, 256, 257, 4096, 65280, 65535]


def as_records(codes, targets):
    """Return rows of bytes: the codes, then the target, low byte first."""
    return np.concatenate([codes, targets.astype("<u2").view(np.uint8).reshape(len(codes), 2)], axis=1)


def draw_records(rng, n, n_features):
    codes = rng.choice([*EDGE_CODES * 10, *range(256)], size=(n, n_features)).astype(np.uint8)
    return codes, rng.choice(EDGE_TARGETS, size=n).astype(np.int32)


def draw_tables(rng, n_columns, shift, n_tables):
    """Return what each target adds and where, with nothing that a kernel could compute for itself."""
    columns = rng.integers(0, n_columns, size=65536).astype(np.uint16)
    values = rng.choice([0, 1, 255, 256, 4096], size=(n_tables, 65536)).astype(np.uint64)
    return columns, np.uint64(1 << shift) + values


def as_words(records):
    """Return records that are whole words, the target in their last bytes, as words and as bytes of one memory."""
    n, width = records.shape
    words = np.zeros((n, -(-width // 8)), dtype=np.uint64)
    padded = words.view(np.uint8)
    padded[:, : width - 2], padded[:, -2:] = records[:, :-2], records[:, -2:]
    return words, padded


def draw_segments(rng, n, n_segments):
    """Return begins and ends of disjoint segments in order, some of them empty."""
    cuts = np.sort(rng.integers(0, n + 1, size=2 * n_segments)).astype(np.int64)
    return cuts[::2].copy(), cuts[1::2].copy()


def histogram_of(codes, targets, columns, amounts, n_columns):
    n_features = codes.shape[1]
    bins = np.zeros((n_features, 256, n_columns), dtype=np.uint64)
    for j in range(n_features):
        np.add.at(bins[j], (codes[:, j], columns[targets]), amounts[targets])
    return bins.ravel()


@given(seeds, st.integers(0, 30), st.integers(0, 8), st.sampled_from([1, 3]), st.sampled_from([32, 38]))
@many
def test_accumulate_counts_and_adds_by_feature_code_and_column(seed, n, n_features, n_columns, shift):
    rng = np.random.default_rng(seed)
    codes, targets = draw_records(rng, n, n_features)
    n_tables = int(rng.integers(1, 4))
    columns, amounts = draw_tables(rng, n_columns, shift, n_tables)
    records = as_records(codes, targets)
    if rng.random() < 0.5:
        _, records = as_words(records)  # bytes of nothing between the codes and the target
    n_segments = int(rng.integers(0, 4))
    begins, ends = draw_segments(rng, n, n_segments)
    slots = rng.permutation(n_segments + 2)[:n_segments].astype(np.int64)
    tables = rng.integers(0, n_tables, size=n_segments)  # several segments may share one, and some have no segment
    before = rng.integers(0, 2**63, size=(n_segments + 2, n_features * 256 * n_columns)).astype(np.uint64)
    after, _ = BOTH("accumulate", records, begins, ends, slots, tables, columns, amounts, n_columns, False, before)
    expected = before.copy()
    for begin, end, slot, table in zip(begins, ends, slots, tables, strict=True):
        rows = slice(begin, end)
        expected[slot] = histogram_of(codes[rows], targets[rows], columns, amounts[table], n_columns)
    np.testing.assert_array_equal(after[-1], expected)


def test_accumulate_looks_up_two_bytes_of_target():
    n_columns = 1000
    codes = np.array([[255], [0], [254]], dtype=np.uint8)
    targets = np.array([65535, 256, 255], dtype=np.int32)
    columns, amounts = np.zeros(65536, dtype=np.uint16), np.zeros((1, 65536), dtype=np.uint64)
    columns[targets] = [999, 256, 255]
    amounts[0, targets] = [2**64 - 1, (1 << 32) + 1, 1 << 63]
    bins = np.zeros((1, 256 * n_columns), dtype=np.uint64)
    ends = np.array([3], dtype=np.int64)
    zero = np.zeros(1, dtype=np.int64)
    after, _ = BOTH(
        "accumulate", as_records(codes, targets), zero, ends, zero, zero, columns, amounts, n_columns, False, bins
    )
    found = {int(i): int(after[-1][0, i]) for i in np.flatnonzero(after[-1][0])}
    assert found == {255 * 1000 + 999: 2**64 - 1, 256: (1 << 32) + 1, 254 * 1000 + 255: 1 << 63}


@pytest.mark.parametrize("n_columns", [1, 3])
def test_every_segment_is_counted_by_its_own_table(n_columns):
    """Segments, slots and tables in three different orders: none can stand in for another."""
    codes, targets = np.array([[7], [7], [7], [7]], dtype=np.uint8), np.array([0, 65535, 65535, 0], dtype=np.int32)
    columns = np.zeros(65536, dtype=np.uint16)
    columns[65535] = n_columns - 1
    amounts = np.zeros((3, 65536), dtype=np.uint64)
    amounts[:, 0], amounts[:, 65535] = [1, 10, 100], [1000, 10_000, 100_000]
    begins, ends = np.array([0, 1, 2, 3], dtype=np.int64), np.array([1, 2, 3, 4], dtype=np.int64)
    slots, tables = np.array([1, 3, 0, 2], dtype=np.int64), np.array([2, 0, 1, 2], dtype=np.int64)
    bins = np.zeros((4, 256 * n_columns), dtype=np.uint64)
    records = as_records(codes, targets)
    after, _ = BOTH("accumulate", records, begins, ends, slots, tables, columns, amounts, n_columns, False, bins)
    first, last = 7 * n_columns, 7 * n_columns + n_columns - 1
    found = [{int(i): int(row[i]) for i in np.flatnonzero(row)} for row in after[-1]]
    assert found == [{last: 10_000}, {first: 100}, {first: 100}, {last: 1000}]


@pytest.mark.parametrize(("shift", "value"), [(38, 4096), (32, 1)])
def test_sums_reach_the_top_of_their_bits(shift, value):
    """Bins one record short of the most they can hold: neither count nor sum runs into the other, or over."""
    most = (1 << (64 - shift)) - 1 if shift == 38 else (1 << 31) - 1
    full = most << shift | most * value
    start = np.array([[(most - 1) << shift | (most - 1) * value]], dtype=np.uint64)
    records = as_records(np.zeros((1, 0), np.uint8), np.array([1]))
    columns, amounts = np.zeros(2, dtype=np.uint16), np.array([0, 1 << shift | value], dtype=np.uint64)
    zero, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    after, _ = BOTH("node_sums", records, zero, one, columns, amounts, False, start)
    assert after[-1].tolist() == [[full]]
    parents, bins = np.array([[full]], dtype=np.uint64), np.concatenate([start, start])
    after, _ = BOTH("subtract", parents, zero, zero, one, bins)
    assert after[-1][1].tolist() == [1 << shift | value]


@given(seeds, st.integers(0, 4), st.integers(0, 6))
@many
def test_subtract_leaves_the_sibling(seed, n_pairs, width):
    rng = np.random.default_rng(seed)
    parents = rng.integers(0, 2**64 - 1, size=(n_pairs + 2, width), dtype=np.uint64, endpoint=True)
    rows = rng.permutation(n_pairs + 2)[:n_pairs].astype(np.int64)
    smaller = 2 * np.arange(n_pairs) + rng.integers(0, 2, size=n_pairs)
    larger = smaller ^ 1
    bins = np.zeros((2 * n_pairs + 1, width), dtype=np.uint64)
    small = rng.integers(0, parents[rows], dtype=np.uint64, endpoint=True)
    small[rng.random(small.shape) < 0.2] = 0
    small = np.where(rng.random(small.shape) < 0.2, parents[rows], small)
    bins[smaller] = small
    after, _ = BOTH("subtract", parents, rows, smaller, larger, bins)
    np.testing.assert_array_equal(after[-1][smaller], small)
    np.testing.assert_array_equal(after[-1][larger], parents[rows] - small)
    assert (after[-1][2 * n_pairs] == 0).all()


@given(seeds, st.integers(0, 40), st.integers(1, 4), st.integers(0, 4))
@many
def test_partition_puts_each_row_on_its_side_and_loses_none(seed, n, n_features, n_nodes):
    rng = np.random.default_rng(seed)
    words, records = as_words(as_records(*draw_records(rng, n, n_features)))
    begins, ends = draw_segments(rng, n, n_nodes)
    features = rng.integers(0, n_features, size=n_nodes).astype(np.int32)
    masks = rng.integers(0, 256, size=(n_nodes, 32)).astype(np.uint8)
    masks[rng.random(n_nodes) < 0.2] = 0
    masks[rng.random(n_nodes) < 0.2] = 255
    middles = np.full(n_nodes, -9, dtype=np.int64)
    after, _ = BOTH("partition", words, records, begins, ends, features, masks, middles)
    sorted_records, middles = after[1], after[-1]
    inside = np.zeros(n, dtype=bool)
    for node in range(n_nodes):
        begin, end, middle = begins[node], ends[node], middles[node]
        inside[begin:end] = True
        goes_right = np.unpackbits(masks[node], bitorder="little").astype(bool)
        right = goes_right[records[begin:end, features[node]]]
        assert begin <= middle <= end
        for side, there in (
            (records[begin:end][~right], slice(begin, middle)),
            (records[begin:end][right], slice(middle, end)),
        ):
            assert sorted(map(bytes, side)) == sorted(map(bytes, sorted_records[there]))
    np.testing.assert_array_equal(sorted_records[~inside], records[~inside])


@given(seeds, st.integers(0, 30), st.integers(0, 3), st.sampled_from([1, 3]), st.sampled_from([32, 38]))
@many
def test_node_sums_adds_the_records_of_each_node_by_column(seed, n, n_features, n_columns, shift):
    rng = np.random.default_rng(seed)
    codes, targets = draw_records(rng, n, n_features)
    columns, (amounts,) = draw_tables(rng, n_columns, shift, 1)
    n_nodes = int(rng.integers(0, 4))
    begins, ends = draw_segments(rng, n, n_nodes)
    start = rng.integers(0, 2**40, size=(n_nodes, n_columns)).astype(np.uint64)
    after, _ = BOTH("node_sums", as_records(codes, targets), begins, ends, columns, amounts, False, start)
    expected = start.copy()
    for node, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        np.add.at(expected[node], columns[targets[begin:end]], amounts[targets[begin:end]])
    np.testing.assert_array_equal(after[-1], expected)


@given(seeds, st.integers(0, 30), st.integers(0, 4), st.integers(1, 5), st.integers(0, 3))
@many
def test_scatter_writes_each_row_once_to_its_tree_in_order(seed, n, n_features, n_trees, n_bytes_of_nothing):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, size=(n, n_features)).astype(np.uint8)
    targets = rng.choice(EDGE_TARGETS, size=n).astype(np.int32)
    trees = rng.integers(0, n_trees + 1, size=n).astype(np.uint16)
    left_out = trees == n_trees
    trees[left_out] = rng.choice([n_trees, 65535])
    targets[left_out] = -1
    sizes = np.bincount(trees, minlength=n_trees)[:n_trees]
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    records = np.full((bounds[-1], n_features + n_bytes_of_nothing + 2), 77, dtype=np.uint8)
    after, _ = BOTH("scatter", codes, targets, trees, NO_WEIGHTS, bounds[:-1].copy(), records)
    np.testing.assert_array_equal(after[-2], bounds[1:])
    order = np.argsort(trees, kind="stable")[: bounds[-1]]
    nothing = np.full((n, n_bytes_of_nothing), 77, dtype=np.uint8)
    np.testing.assert_array_equal(after[-1], as_records(np.concatenate([codes, nothing], axis=1), targets)[order])


def test_65535_trees_are_all_used():
    trees = np.array([0, 65534, 65535], dtype=np.uint16)
    ends = np.zeros(65535, dtype=np.int64)
    ends[65534] = 1
    codes, targets = np.array([[1], [2], [3]], dtype=np.uint8), np.array([258, 3, -1], dtype=np.int32)
    after, _ = BOTH("scatter", codes, targets, trees, NO_WEIGHTS, ends, np.zeros((2, 3), dtype=np.uint8))
    assert after[-1].tolist() == [[1, 2, 1], [2, 3, 0]]
    assert after[-2][[0, 65534]].tolist() == [1, 2]


# -- weights ----------------------------------------------------------------------------------------------------------


def as_weighted(codes, targets, weights):
    """Return rows of bytes whose weights are before their targets."""
    return as_records(np.concatenate([codes, weights[:, None]], axis=1), targets)


@given(seeds, st.integers(0, 30), st.integers(0, 5), st.sampled_from([1, 3]), st.sampled_from([32, 38]))
@many
def test_weighted_record_adds_as_much_as_repeated_records(seed, n, n_features, n_columns, shift):
    rng = np.random.default_rng(seed)
    codes, targets = draw_records(rng, n, n_features)
    weights = rng.choice([1, 2, 204, 255], n).astype(np.uint8)
    columns, amounts = draw_tables(rng, n_columns, shift, 1)
    zero, end = np.zeros(1, dtype=np.int64), np.array([n], dtype=np.int64)
    records = as_weighted(codes, targets, weights)
    many_codes, many_targets = np.repeat(codes, weights, axis=0), np.repeat(targets, weights)
    bins = np.zeros((1, n_features * 256 * n_columns), dtype=np.uint64)
    after, _ = BOTH("accumulate", records, zero, end, zero, zero, columns, amounts, n_columns, True, bins)
    expected = histogram_of(many_codes, many_targets, columns, amounts[0], n_columns)
    np.testing.assert_array_equal(after[-1][0], expected)
    start = np.zeros((1, n_columns), dtype=np.uint64)
    after, _ = BOTH("node_sums", records, zero, end, columns, amounts[0], True, start)
    np.add.at(start[0], columns[many_targets], amounts[0][many_targets])
    np.testing.assert_array_equal(after[-1], start)


@given(seeds, st.integers(0, 30), st.integers(0, 4), st.integers(0, 3))
@many
def test_scatter_writes_weights_before_targets(seed, n, n_features, n_bytes_of_nothing):
    rng = np.random.default_rng(seed)
    codes, targets = draw_records(rng, n, n_features)
    weights = rng.integers(0, 256, n).astype(np.uint8)
    records = np.full((n, n_features + n_bytes_of_nothing + 3), 77, dtype=np.uint8)
    trees = np.zeros(n, dtype=np.uint16)
    after, _ = BOTH("scatter", codes, targets, trees, weights, np.zeros(1, dtype=np.int64), records)
    nothing = np.full((n, n_bytes_of_nothing), 77, dtype=np.uint8)
    expected = as_weighted(np.concatenate([codes, nothing], axis=1), targets, weights)
    np.testing.assert_array_equal(after[-1], expected)
