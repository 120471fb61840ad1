import math
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain import MISSING, OTHER, TARGET_UNITS, Categorical, Domain, Numeric

YES_NO = Categorical(["no", "yes"])


def codes(feature, values, dtype=np.float64):
    """Encode one column with the public method."""
    column = np.asarray(values, dtype=dtype).reshape(-1, 1)
    return Domain({"x": feature}, YES_NO).encode(column)[:, 0].tolist()


def objects(*values):
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def by_thresholds(feature, values):
    return [MISSING if math.isnan(v) else sum(t <= v for t in feature.thresholds) for v in map(float, values)]


# -- features ---------------------------------------------------------------------------------------------------------

RANGES = [(0, 1), (17, 90), (-1, 1), (-1e-3, 1e6), (0.1, 0.3), (-1e307, 1e307), (0, 1e-300), (-90, -17), (0, 255)]
NUMERICS = [*(Numeric(*r) for r in RANGES), Numeric(0, 1e6, scale="log"), Numeric(1, 9, scale="log")]


@pytest.mark.parametrize("feature", NUMERICS, ids=repr)
def test_thresholds_are_the_first_floats_of_their_cells(feature):
    assert codes(feature, feature.thresholds) == list(range(1, 255))
    assert codes(feature, np.nextafter(feature.thresholds, -np.inf)) == list(range(254))


@given(
    st.sampled_from([*NUMERICS, Numeric(edges=[-1, 0, 5]), Numeric(2**53, 2**53 + 16)]),
    st.lists(st.floats(width=32), min_size=1, max_size=20),
)
@settings(deadline=None)
def test_codes_follow_the_thresholds_for_every_dtype(feature, values):
    assert codes(feature, values, np.float32) == codes(feature, values, np.float64) == by_thresholds(feature, values)
    assert codes(feature, values, object) == by_thresholds(feature, values)


def test_equal_numbers_of_any_dtype_have_equal_codes():
    feature = Numeric(-3, 100)
    values = [0, 1, 5, 99]
    expected = codes(feature, values)
    for dtype in (np.int8, np.int64, np.uint16, np.float16, np.longdouble, ">f4", ">i2"):
        assert codes(feature, values, dtype) == expected
    assert codes(feature, [False, True], bool) == expected[:2]


def test_out_of_range_is_clamped_and_minus_zero_is_zero():
    for feature in (Numeric(-5, 5), Numeric(0, 10), Numeric(1, 10, scale="log"), Numeric(0, 10, scale="log")):
        assert codes(feature, [-np.inf, -1e308, 1e308, np.inf, np.nan]) == [0, 0, 254, 254, MISSING]
        assert codes(feature, [-0.0]) == codes(feature, [0.0])
    assert codes(Numeric(edges=[-0.0]), [-0.0, 0.0, -1e-300]) == [1, 1, 0]


def test_edges():
    assert codes(Numeric(edges=[0, 18, 65]), [-1, 0, 17.9, 18, 65, 1e9, np.nan]) == [0, 1, 1, 2, 3, 3, MISSING]
    assert codes(Numeric(edges=range(254)), [-1, 0, 252, 253, np.inf]) == [0, 1, 253, 254, 254]


def test_levels_have_their_position_as_code():
    values = objects("a", "b", 3, (1, 2), "c", [], None)
    assert codes(Categorical(["b", "a", 3, (1, 2)]), values, object) == [1, 0, 2, 3, OTHER, OTHER, MISSING]
    assert codes(Categorical([2, 0.5, 1]), [1, 2, 0.5, 3, np.nan]) == [2, 0, 1, OTHER, MISSING]
    assert codes(Categorical([2**53, 2**53 + 1]), [2**53 + 1, 2**53, 2**53 + 2], np.int64) == [1, 0, OTHER]


def test_more_than_254_levels_share_codes():
    feature = Categorical([f"l{i}" for i in range(600)])
    assert feature.n_codes == 254
    values = ["l0", "l253", "l254", "l255", "l599", "?"]
    assert codes(feature, values, object) == [0, 253, 0, 1, 599 % 254, OTHER]
    numbers = Categorical(range(600))
    assert codes(numbers, [0, 253, 254, 599, 600, np.nan]) == [0, 253, 0, 599 % 254, OTHER, MISSING]
    assert Domain({"x": Numeric(0, 1)}, feature).encode_target(values).tolist() == [0, 253, 254, 255, 599, -1]


# -- rows -------------------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 40),
    st.sampled_from([np.float32, np.float64, np.int16]),
    st.sampled_from(["C", "F", "slice", "reversed", "transposed", "readonly"]),
    st.integers(1, 3),
)
@settings(deadline=None)
def test_codes_do_not_depend_on_memory_layout_blocks_or_threads(n, dtype, layout, n_threads):
    domain = Domain(
        {"a": Numeric(-1, 3), "b": Numeric(0.1, 5, scale="log"), "c": Categorical([0, 1]), "d": Numeric(-2, 2)}, YES_NO
    )
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 4)).astype(dtype)
    if layout == "F":
        Z = np.asfortranarray(X)
    elif layout == "slice":
        Z = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    elif layout == "reversed":
        Z = X[::-1, ::-1].copy()[::-1, ::-1]
    elif layout == "transposed":
        Z = X.T.copy().T
    else:
        Z = X.copy()
        Z.flags.writeable = layout != "readonly"
    expected = [
        [int(domain.encode(X[i : i + 1, :].astype(np.float64).tolist())[0, j]) for j in range(4)] for i in range(n)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diprime.domain.encoding.BLOCK_ROWS", 7)
        patch.setattr("diprime.domain.domain.BLOCK_CODES", 1)
        result = domain.encode(Z, n_threads=n_threads)
        frame = domain.encode(pl.DataFrame(dict(zip("abcd", X.T, strict=True))), n_threads=n_threads)
    assert result.tolist() == frame.tolist() == expected


def test_at_most_a_block_is_copied():
    n = 200_000
    domain = Domain({"a": Numeric(-1, 3), "b": Numeric(1, 5, scale="log"), "c": Categorical([0, 1])}, YES_NO)
    base = np.random.default_rng(0).normal(size=(n, 3))
    tables = [base.astype(np.float32), np.asfortranarray(base), (base * 9).astype(np.int64), base[:, ::-1]]
    tables += [pl.DataFrame(base, schema=["a", "b", "c"]), pd.DataFrame(base, columns=["a", "b", "c"])]
    for X in tables:
        domain.encode(X[:10])
        tracemalloc.start()
        out = domain.encode(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak - out.nbytes < 8 * n, type(X)  # one float column


def test_empty_tables_have_no_codes():
    assert Domain({"a": Numeric(0, 1), "b": YES_NO}, YES_NO).encode(
        pd.DataFrame({"a": [1], "b": ["no"]})[:0]
    ).shape == (0, 2)
    assert Domain({"a": Numeric(0, 1)}, YES_NO).encode(np.empty((0, 1)), n_threads=2).shape == (0, 1)


def test_ten_thousand_features():
    domain = Domain({f"f{j}": Numeric(0, 255) for j in range(10_000)}, YES_NO)
    X = np.tile(np.arange(3.0), 10_000)[: 2 * 10_000].reshape(2, 10_000)
    np.testing.assert_array_equal(domain.encode(X), X)
    assert len(repr(domain)) < 1000


def test_a_reader_reads_any_block_of_rows():
    domain = Domain({"a": Numeric(0, 255), "b": Categorical([0, 1])}, YES_NO)
    X = np.column_stack([np.arange(9.0), np.arange(9.0) % 2])
    reader = domain.reader(X)
    assert (reader.n_rows, reader.n_features) == (9, 2)
    out = np.empty((3, 2), dtype=np.uint8)
    reader.read(4, 7, out)
    assert out.tolist() == [[4, 0], [5, 1], [6, 0]]


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.zeros((3, 3)), "X has 3 features, but the domain has 2"),
        ([[1, 2, 3]], "X has 3 features"),
        (pd.DataFrame({"a": [1.0]}), "X lacks column 'b'; give"),
        (pd.DataFrame({"a": [1], "b": [1], "c": [1], "d": [1]}), "X has columns 'c', 'd', which"),
        (pl.DataFrame({"a": [1], "c": [1]}), "X lacks column 'b' and has column 'c'"),
        (pd.DataFrame(np.zeros((1, 14))), "X lacks columns 'a', 'b' and has columns '0', .* and 4 more, which"),
    ],
)
def test_wrong_columns_raise_a_clear_error(X, words):
    with pytest.raises(ValueError, match=words):
        Domain({"a": Numeric(0, 1), "b": Numeric(0, 1)}, YES_NO).encode(X)


# -- targets ----------------------------------------------------------------------------------------------------------


@given(st.floats(-1e300, 1e300), st.floats(1e-3, 1e300), st.lists(st.floats(), max_size=20))
@settings(deadline=None)
def test_numeric_targets_are_rounded_fractions_of_the_range(low, width, y):
    high = low + width
    if not low < high:
        return
    y = [*y, low, high, low / 2 + high / 2]
    result = Domain({"x": Numeric(0, 1)}, Numeric(low, high)).encode_target(y)
    assert result.dtype == np.int32
    for value, code in zip(y, result.tolist(), strict=True):
        if math.isnan(value):
            assert code == -1
        else:
            position = TARGET_UNITS * (min(max(value, low), high) - low) / (high - low) if width < 1e290 else None
            assert 0 <= code <= TARGET_UNITS
            assert position is None or abs(code - position) <= 0.5 + 1e-9
    assert result[-3:-1].tolist() == [0, TARGET_UNITS]


def test_numeric_targets_are_clamped_and_halves_go_to_even():
    domain = Domain({"x": Numeric(0, 1)}, Numeric(0, TARGET_UNITS))
    assert domain.encode_target([0.5, 1.5, np.inf, -np.inf]).tolist() == [0, 2, 4096, 0]
