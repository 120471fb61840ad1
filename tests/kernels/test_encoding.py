import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.kernel_pairs import compiled, interpreted

PAIR = [pytest.param(compiled("encoding"), id="compiled"), pytest.param(interpreted("encoding"), id="interpreted")]
COMPILED, INTERPRETED = (p.values[0] for p in PAIR)

floats = st.floats(allow_nan=True, allow_infinity=True)
matrices = st.sampled_from([np.float32, np.float64]).flatmap(
    lambda dtype: hnp.arrays(
        dtype,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9),
        elements=st.floats(-10, 10, width=32) | st.floats(width=np.dtype(dtype).itemsize * 8),
    )
)


def expected_cell(x, low, inverse):
    """The formula, in Python's arithmetic: no clamp is shared with the kernel."""
    position = (float(x) - low) * inverse
    if math.isnan(position):
        return 255
    return 0 if position < 1 else 254 if position >= 254 else int(position)


@given(matrices, st.data())
def test_linear_kernels_follow_the_formula_compiled_and_interpreted(x, data):
    width = x.shape[1]
    low = np.array(data.draw(st.lists(st.floats(-5, 5), min_size=width, max_size=width)))
    inverse = np.array(data.draw(st.lists(st.floats(1e-3, 1e3), min_size=width, max_size=width)))
    expected = np.array(
        [[expected_cell(x[i, j], float(low[j]), float(inverse[j])) for j in range(width)] for i in range(len(x))],
        dtype=np.uint8,
    ).reshape(x.shape)
    for kernel in (COMPILED, INTERPRETED):
        out = np.full(x.shape, 77, dtype=np.uint8)
        kernel.encode_rows(x, low, inverse, out)
        np.testing.assert_array_equal(out, expected)
        for layout in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x[::-1][::-1]):
            out = np.full(x.shape, 77, dtype=np.uint8)
            for j in range(width):
                kernel.encode_linear(layout[:, j], float(low[j]), float(inverse[j]), out[:, j])
            np.testing.assert_array_equal(out, expected)


@given(
    hnp.arrays(np.float64, st.integers(0, 40), elements=floats | st.integers(-4, 4).map(float)),
    st.lists(st.integers(-4, 4).map(float) | st.floats(allow_nan=False), max_size=254),
    st.sampled_from([np.float32, np.float64]),
)
def test_sorted_kernel_counts_thresholds_compiled_and_interpreted(x, thresholds, dtype):
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    table = np.full(255, np.nan)
    table[: len(thresholds)] = np.sort(thresholds)
    expected = [255 if math.isnan(v) else sum(t <= v for t in thresholds) for v in map(float, x)]
    for kernel in (COMPILED, INTERPRETED):
        out = np.full((len(x), 3), 77, dtype=np.uint8)
        kernel.encode_sorted(x, table, out[:, 1])
        assert out[:, 1].tolist() == expected
        assert (out[:, [0, 2]] == 77).all()


@pytest.mark.parametrize("kernel", PAIR)
def test_a_full_table_reaches_cell_254(kernel):
    table = np.full(255, np.nan)
    table[:254] = np.arange(254)
    x = np.array([-1.0, 0.0, -0.0, 252.5, 253.0, np.inf, -np.inf, np.nan])
    out = np.empty(len(x), dtype=np.uint8)
    kernel.encode_sorted(x, table, out)
    assert out.tolist() == [0, 1, 1, 253, 254, 254, 0, 255]


@pytest.mark.parametrize("kernel", PAIR)
@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 15, 16, 17, 28, 33])
def test_every_width_of_vector_and_its_rest(kernel, width):
    rng = np.random.default_rng(width)
    x = rng.normal(size=(5, width)).astype(np.float32) * 400
    x[2, ::3] = np.nan
    low, inverse = rng.normal(size=width), rng.uniform(0.1, 2, size=width)
    out = np.empty(x.shape, dtype=np.uint8)
    kernel.encode_rows(x, low, inverse, out)
    expected = [[expected_cell(x[i, j], low[j], inverse[j]) for j in range(width)] for i in range(5)]
    assert out.tolist() == expected


def test_read_only_input_is_accepted():
    x = np.ones((2, 2))
    x.flags.writeable = False
    out = np.empty((2, 2), dtype=np.uint8)
    COMPILED.encode_rows(x, np.zeros(2), np.ones(2), out)
    assert (out == 1).all()
