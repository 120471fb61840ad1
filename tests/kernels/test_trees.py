"""Walking rows down trees: compiled, interpreted, and one row at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel_pairs import Both

BOTH = Both("trees")


def forest(rng, depths, n_features):
    n_splits = sum(2**d - 1 for d in depths)
    first_splits = np.cumsum([0, *(2**d - 1 for d in depths)])[:-1].astype(np.int64)
    first_leaves = np.cumsum([0, *(2**d for d in depths)])[:-1].astype(np.int64)
    features = rng.integers(0, n_features, size=n_splits).astype(np.int32)
    masks = rng.integers(0, 256, size=(n_splits, 32)).astype(np.uint8)
    return np.array(depths, dtype=np.int64), first_splits, first_leaves, features, masks


def leaf_of(row, depth, first_split, features, masks):
    """Follow one row, by the words of the module's docstring."""
    node = 0
    for _ in range(depth):
        code = int(row[features[first_split + node]])
        bits = np.unpackbits(masks[first_split + node], bitorder="little")
        node = 2 * node + 2 if bits[code] else 2 * node + 1
    return node - (2**depth - 1)


def check(rng, codes, depths, block):
    depths, first_splits, first_leaves, features, masks = forest(rng, depths, codes.shape[1])
    n, n_trees = len(codes), len(depths)
    expected = np.array(
        [[leaf_of(row, depths[t], first_splits[t], features, masks) for t in range(n_trees)] for row in codes],
        dtype=np.int32,
    ).reshape(n, n_trees)
    scratch, out = np.full(block, 99, dtype=np.int32), np.full((n, n_trees), -7, dtype=np.int32)
    after, _ = BOTH("leaves", codes, depths, first_splits, features, masks, scratch, out)
    np.testing.assert_array_equal(after[-1], expected)

    values = rng.normal(size=(int(first_leaves[-1] + 2 ** depths[-1]), 3))
    start = rng.normal(size=(n, 3))
    total = start.copy()
    for t in range(n_trees):  # in the order of the trees, so that the sums round alike
        total += values[first_leaves[t] + expected[:, t]]
    after, _ = BOTH("predict", codes, depths, first_splits, first_leaves, features, masks, values, scratch, start)
    np.testing.assert_array_equal(after[-1], total)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block", [1, 7, 300])
def test_numbers_go_where_their_codes_would(dtype, block):
    """Limits are the first numbers of cells: a number at its limit goes right, the one before it left."""
    rng = np.random.default_rng(block)
    depths, first_splits, first_leaves, features, _ = forest(rng, [3, 0, 5], 3)
    edges = np.array([-np.inf, -1.5, -0.0, 0.1, 2.0, np.inf])
    threshold = rng.integers(0, len(edges) + 1, size=len(features))
    edges = edges.astype(dtype)
    limits = np.append(edges, dtype(np.nan))[threshold]
    missing_right = rng.integers(0, 2, size=len(features)).astype(np.uint8)
    bits = (np.arange(256) > threshold[:, None]).astype(np.uint8)
    bits[:, 255] = missing_right
    masks = np.packbits(bits, axis=1, bitorder="little")
    ends = np.array([-np.inf, np.inf], dtype=dtype)
    around = np.concatenate([edges, *(np.nextafter(edges, end) for end in ends), np.array([0.0, 1.0], dtype=dtype)])
    numbers = rng.choice(around, size=(200, 3))
    numbers[:100][rng.random((100, 3)) < 0.1] = np.nan  # the other half has blocks without
    codes = (edges <= numbers[..., None]).sum(axis=-1).astype(np.uint8)
    codes[np.isnan(numbers)] = 255
    values, start = rng.normal(size=(41, 2)), np.zeros((200, 2))
    trees = (depths, first_splits, first_leaves, features)
    scratch = np.zeros(block, dtype=np.int32)
    coded, _ = BOTH("predict", codes, *trees, masks, values, scratch, start)
    raw, _ = BOTH("predict_numbers", numbers, *trees, limits, missing_right, values, scratch, start)
    np.testing.assert_array_equal(raw[-1], coded[-1])


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 20),
    n_features=st.integers(1, 4),
    depths=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    block=st.integers(1, 9),
)
@settings(deadline=None, max_examples=60)
def test_rows_reach_the_leaves_that_a_slow_walk_finds(seed, n, n_features, depths, block):
    rng = np.random.default_rng(seed)
    codes = rng.choice([0, 1, 7, 8, 127, 128, 254, 255, *range(256)], size=(n, n_features)).astype(np.uint8)
    check(rng, codes, depths, block)


def test_mask_bits_decide_the_side_of_every_code():
    codes = np.arange(256, dtype=np.uint8)[:, None]
    for right in (0, 7, 8, 127, 254, 255):
        mask = np.zeros(256, dtype=np.uint8)
        mask[right] = 1
        masks = np.packbits(mask, bitorder="little")[None]
        out, zero = np.zeros((256, 1), dtype=np.int32), np.zeros(1, dtype=np.int64)
        after, _ = BOTH(
            "leaves", codes, zero + 1, zero, np.zeros(1, dtype=np.int32), masks, np.zeros(100, dtype=np.int32), out
        )
        assert np.flatnonzero(after[-1]).tolist() == [right]


def test_read_only_arrays_are_accepted():
    rng = np.random.default_rng(1)
    arrays = forest(rng, [2], 2)
    codes = rng.integers(0, 256, size=(4, 2)).astype(np.uint8)
    for array in (codes, *arrays):
        array.flags.writeable = False
    depths, first_splits, _, features, masks = arrays
    out = np.zeros((4, 1), dtype=np.int32)
    BOTH.compiled.leaves(codes, depths, first_splits, features, masks, np.zeros(4, np.int32), out)
    assert (out >= 0).all()
