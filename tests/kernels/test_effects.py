"""Adding up functions of one or two features: compiled, interpreted, and one row at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel_pairs import Both

BOTH = Both("effects")


def made_terms(rng, n_features, n_terms, n_scores):
    """Return random terms: each has up to 256 x 256 cells of its own, or 256 if it has one feature."""
    features = rng.integers(0, n_features, (n_terms, 2)).astype(np.int32)
    features[rng.random(n_terms) < 0.4, 1] = -1
    sizes = rng.choice([1, 2, 3, 8, 256], (n_terms, 2))
    cells = np.zeros((2 * n_terms, 256), dtype=np.uint16)
    n_cells = []
    for t in range(n_terms):
        second = sizes[t, 1] if features[t, 1] >= 0 else 1
        cells[2 * t] = rng.integers(0, sizes[t, 0], 256) * second
        cells[2 * t + 1] = rng.integers(0, second, 256) if features[t, 1] >= 0 else 65535  # not to be read
        n_cells.append(sizes[t, 0] * second)
    first_values = np.cumsum([0, *n_cells]).astype(np.int64)
    return features, cells, first_values[:-1].copy(), rng.normal(size=(int(first_values[-1]), n_scores))


def add_by_row(codes, features, cells, first_values, values, start):
    total = start.copy()
    for row, code in enumerate(codes):
        for t, (first, second) in enumerate(features.tolist()):
            cell = int(cells[2 * t, code[first]])
            if second >= 0:
                cell += int(cells[2 * t + 1, code[second]])
            total[row] += values[first_values[t] + cell]
    return total


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 20),
    n_features=st.integers(1, 4),
    n_terms=st.integers(0, 5),
    n_scores=st.integers(1, 3),
    block=st.integers(1, 9),
)
@settings(deadline=None, max_examples=60)
def test_rows_get_the_sums_of_their_cells(seed, n, n_features, n_terms, n_scores, block):
    rng = np.random.default_rng(seed)
    codes = rng.choice([0, 1, 254, 255, *range(256)], (n, n_features)).astype(np.uint8)
    terms, start = made_terms(rng, n_features, n_terms, n_scores), rng.normal(size=(n, n_scores))
    after, _ = BOTH("scores", codes, *terms, block, start)
    np.testing.assert_array_equal(after[-1], add_by_row(codes, *terms, start))


@pytest.mark.parametrize("n_scores", [1, 2])
def test_the_last_cell_of_the_largest_table(n_scores):
    codes = np.array([[255, 255], [0, 255], [255, 0]], dtype=np.uint8)
    cells = np.stack([np.arange(256) * 256, np.arange(256)]).astype(np.uint16)
    values = np.arange(65536.0 * n_scores).reshape(65536, n_scores)
    arrays = np.array([[0, 1]], dtype=np.int32), cells, np.zeros(1, dtype=np.int64), values
    after, _ = BOTH("scores", codes, *arrays, 2, np.zeros((3, n_scores)))
    np.testing.assert_array_equal(after[-1], values[[65535, 255, 65280]])


def test_read_only_arrays_are_accepted():
    rng = np.random.default_rng(1)
    codes, terms, out = rng.integers(0, 256, (4, 2)).astype(np.uint8), made_terms(rng, 2, 3, 1), np.zeros((4, 1))
    for array in (codes, *terms):
        array.flags.writeable = False
    BOTH.compiled.scores(codes, *terms, 4, out)
    assert out.all()
