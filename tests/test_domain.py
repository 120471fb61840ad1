import copy
import datetime
import json
import math
import pickle
import tracemalloc
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain import MISSING, OTHER, TARGET_UNITS, Categorical, Domain, Numeric

YES_NO = Categorical(["no", "yes"])


def codes(feature, values, dtype=np.float64):
    """Encode one column through the public door."""
    column = np.asarray(values, dtype=dtype).reshape(-1, 1)
    return Domain({"x": feature}, YES_NO).encode(column)[:, 0].tolist()


def by_thresholds(feature, values):
    return [MISSING if v != v else sum(t <= v for t in feature.thresholds) for v in map(float, values)]


# -- Numeric ----------------------------------------------------------------------------------------------------------

RANGES = [(0, 1), (17, 90), (-1, 1), (-1e-3, 1e6), (0.1, 0.3), (-1e307, 1e307), (0, 1e-300), (-90, -17), (0, 255)]
ranges = (
    st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
    .map(sorted)
    .filter(lambda r: r[1] - r[0] > 1e-9 * max(abs(r[0]), abs(r[1])) and r[1] - r[0] > 1e-300)
)


def check_thresholds_exact(feature):
    t = feature.thresholds
    assert t.dtype == np.float64
    assert len(t) == feature.n_cells - 1 == 254
    assert (np.diff(t) > 0).all()
    assert codes(feature, t) == list(range(1, 255))
    assert codes(feature, np.nextafter(t, -np.inf)) == list(range(254))


@pytest.mark.parametrize("bounds", RANGES)
def test_linear_thresholds_are_the_first_floats_of_their_cells(bounds):
    check_thresholds_exact(Numeric(*bounds))


@given(ranges)
@settings(max_examples=60, deadline=None)
def test_linear_thresholds_are_exact_on_any_range(bounds):
    check_thresholds_exact(Numeric(*bounds))


def test_thresholds_repeat_where_floats_run_out_and_still_count():
    feature = Numeric(2.0**53, 2.0**53 + 16)
    x = 2.0**53 + np.arange(-4, 22)
    assert codes(feature, x) == by_thresholds(feature, x)
    assert (np.diff(feature.thresholds) >= 0).all()
    assert codes(feature, x)[-1] == 254


@given(
    st.sampled_from([Numeric(*r) for r in RANGES] + [Numeric(0, 1e6, scale="log"), Numeric(edges=[-1, 0, 5])]),
    st.lists(st.floats(width=32), min_size=1, max_size=20),
)
def test_same_value_same_code_whatever_the_dtype_and_as_the_thresholds_say(feature, values):
    assert codes(feature, values, np.float32) == codes(feature, values, np.float64) == by_thresholds(feature, values)
    assert codes(feature, values, object) == by_thresholds(feature, values)


def test_integers_booleans_and_odd_floats_have_the_code_of_their_value():
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
    assert Numeric(-0.0, 1) == Numeric(0, 1)
    assert math.copysign(1, Numeric(-0.0, 1).low) == 1
    assert codes(Numeric(edges=[-0.0]), [-0.0, 0.0, -1e-300]) == [1, 1, 0]


def test_log_cells_are_geometric():
    t = Numeric(1e-3, 1e5, scale="log").thresholds
    np.testing.assert_allclose(t, np.geomspace(1e-3, 1e5, 256)[1:-1], rtol=1e-13)


@pytest.mark.parametrize(("low", "high"), [(0, 1e6), (-50, 50), (-1e308, 1e308)])
def test_log_from_zero_looks_six_decades_down(low, high):
    t = Numeric(low, high, scale="log").thresholds
    fractions = (t / 4 - low / 4) / (high / 4 - low / 4)
    np.testing.assert_allclose(np.log1p(1e6 * fractions) / math.log1p(1e6), np.arange(1, 255) / 255, rtol=1e-8)
    assert (np.diff(t) > 0).all()


def test_edges():
    feature = Numeric(edges=np.array([0, 18, 65]))
    assert feature.edges == (0.0, 18.0, 65.0)
    assert feature.n_cells == 4
    assert codes(feature, [-1, 0, 17.9, 18, 65, 1e9, np.nan]) == [0, 1, 1, 2, 3, 3, MISSING]
    assert Numeric(edges=range(254)).n_cells == 255


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"low": 1, "high": 1}, "low = 1 is not below high = 1"),
        ({"low": 2, "high": 1}, "not below"),
        ({"low": math.nan, "high": 1}, "low = nan is not finite"),
        ({"low": 0, "high": math.inf}, "high = inf is not finite"),
        ({"low": 0, "high": 10**400}, "high = 1000.* is not a float64"),
        ({"low": 0, "high": 10**5000}, "high = a int is not a float64"),
        ({"low": "0", "high": 1}, "low = '0' is not a number"),
        ({"low": False, "high": True}, "low = False is not a number"),
        ({"low": [], "high": 1}, "low = .* is not a float64"),
        ({"low": -1e308, "high": 1e308}, "too wide"),
        ({"low": 0, "high": 5e-324}, "too narrow"),
        ({"low": 0}, "low and high are both needed"),
        ({}, "low and high are both needed"),
        ({"low": 0, "high": 1, "scale": "sqrt"}, "scale = 'sqrt' is unknown"),
        ({"low": 0, "high": 1, "scale": []}, "is unknown"),
        ({"edges": []}, "edges has 0 numbers"),
        ({"edges": range(255)}, "edges has 255 numbers"),
        ({"edges": [0, 0]}, r"edges\[1\] = 0 is not above edges\[0\] = 0"),
        ({"edges": [0, math.nan]}, r"edges\[1\] = nan is not finite"),
        ({"edges": "123"}, "not a sequence"),
        ({"edges": 5}, "not a sequence"),
        ({"edges": [1, 2], "scale": "log"}, "both given"),
    ],
)
def test_bad_numeric_is_one_clear_sentence(arguments, words):
    with pytest.raises(ValueError, match=words) as caught:
        Numeric(**arguments)
    assert "\n" not in str(caught.value)


def test_numeric_is_a_value():
    a, b = Numeric(0, 1), Numeric(0.0, 1.0)
    assert a == b
    assert hash(a) == hash(b)
    assert a != Numeric(0, 1, scale="log")
    assert Numeric(edges=[1, 2]) != Numeric(edges=[1, 3])
    with pytest.raises(AttributeError):
        a.low = 3
    with pytest.raises(ValueError, match="read-only"):
        a.thresholds[0] = 3
    before = pickle.dumps(b)
    assert pickle.dumps(a) == before  # what was derived for `a` is not kept
    again = pickle.loads(before)
    assert again == a
    np.testing.assert_array_equal(again.thresholds, a.thresholds)
    assert eval(repr(Numeric(0, 1e6, scale="log"))) == Numeric(0, 1e6, scale="log")
    assert eval(repr(Numeric(edges=[0.5, 1]))) == Numeric(edges=[0.5, 1])


# -- Categorical ------------------------------------------------------------------------------------------------------


def test_levels_keep_their_order_and_codes():
    feature = Categorical(["b", "a", 3, (1, 2)])
    values = np.empty(9, dtype=object)
    values[:] = ["a", "b", 3, (1, 2), "c", None, math.nan, pd.NA, pd.NaT]
    assert codes(feature, values, object) == [1, 0, 2, 3, OTHER, MISSING, MISSING, MISSING, MISSING]
    assert feature.levels == ("b", "a", 3, (1, 2))


def test_unhashable_and_hostile_values_are_other_never_an_error():
    class Hostile:
        def __hash__(self):
            return hash("a")

        def __eq__(self, other):
            raise RuntimeError("no")

    values = np.empty(7, dtype=object)
    values[:] = [{}, [], np.ones(3), Hostile(), "a", Decimal("sNaN"), None]
    assert codes(Categorical(["a"]), values, object) == [OTHER, OTHER, OTHER, OTHER, 0, MISSING, MISSING]
    assert codes(Numeric(0, 1), values[:6], object) == [MISSING] * 6


def test_more_than_254_levels_fall_into_buckets():
    feature = Categorical([f"l{i}" for i in range(600)])
    assert feature.n_codes == 254
    values = ["l0", "l253", "l254", "l255", "l599", "?"]
    assert codes(feature, values, object) == [0, 253, 0, 1, 599 % 254, OTHER]
    numbers = Categorical(range(600))
    assert codes(numbers, [0, 253, 254, 599, 600, np.nan]) == [0, 253, 0, 599 % 254, OTHER, MISSING]
    assert Domain({"x": Numeric(0, 1)}, feature).encode_target(values).tolist() == [0, 253, 254, 255, 599, -1]


def test_numbers_match_levels_by_value():
    feature = Categorical([2, 0.5, 1])
    for dtype in (np.float64, np.float32, object):
        assert codes(feature, [1, 2, 0.5, 3, np.nan], dtype) == [2, 0, 1, OTHER, MISSING]
    assert codes(feature, [1, 2, 3], np.int8) == [2, 0, OTHER]
    assert codes(feature, [True, False], bool) == [2, OTHER]
    assert codes(Categorical([False, True]), [0, 1, 2]) == [0, 1, OTHER]
    assert codes(Categorical(np.array([3, 1])), [1, 3]) == [1, 0]
    assert all(type(v) is int for v in Categorical(np.array([3, 1])).levels)
    values = np.empty(4, dtype=object)
    values[:] = [np.int64(1), np.float32(0.5), np.bool_(True), np.str_("1")]
    assert codes(feature, values, object) == [2, 1, 2, OTHER]
    assert codes(Categorical(["x", "y"]), [0.0, 1.0]) == [OTHER, OTHER]


@given(
    st.lists(
        st.integers(-200, 200) | st.floats(allow_nan=False) | st.sampled_from(["a", 0.1, np.nextafter(0.1, 1).item()]),
        min_size=1,
        max_size=300,
        unique_by=lambda v: v,
    ),
    st.lists(st.integers(-200, 200).map(float) | st.floats() | st.sampled_from([0.1, 0.1000001]), max_size=20),
    st.sampled_from([np.float64, np.float32]),
)
def test_numbers_find_their_level_as_in_a_dict(levels, values, dtype):
    with np.errstate(over="ignore"):
        values = np.array([*values, *(v for v in levels if v != "a")], dtype=dtype)
    expected = []
    for v in values.tolist():
        expected.append(MISSING if v != v else levels.index(v) % 254 if v in levels else OTHER)
    assert codes(Categorical(levels), values, dtype) == expected


def test_integers_beyond_float64_are_told_apart():
    feature = Categorical([2**53, 2**53 + 1])
    assert codes(feature, [2**53 + 1, 2**53, 2**53 + 2], np.int64) == [1, 0, OTHER]
    assert codes(Categorical([2**53 - 1]), [2**53 - 1, 2**53, 2**53 + 1], np.int64) == [0, OTHER, OTHER]


@pytest.mark.parametrize(
    ("levels", "error", "words"),
    [
        ([], ValueError, "empty"),
        (["a", None], ValueError, r"levels\[1\] = None means missing"),
        ([math.nan], ValueError, "means missing"),
        ([pd.NA], ValueError, "means missing"),
        (["a", "b", "a"], ValueError, r"levels\[2\] = 'a' repeats levels\[0\];"),
        ([True, 1], ValueError, r"levels\[1\] = 1 repeats levels\[0\] \(it equals True\)"),
        ("abc", ValueError, "not a list of levels"),
        (5, ValueError, "not a list of levels"),
        ({"a", "b"}, ValueError, "set"),
        ([[1]], TypeError, "not hashable"),
    ],
)
def test_bad_levels_are_one_clear_sentence(levels, error, words):
    with pytest.raises(error, match=words):
        Categorical(levels)


# -- Domain: tables of every kind -------------------------------------------------------------------------------------

MIXED = Domain(
    {
        "age": Numeric(0, 255),
        "income": Numeric(0, 1e6, scale="log"),
        "sex": Categorical(["F", "M"]),
        "kids": Categorical([0, 1, 2]),
        "group": Numeric(edges=[1.5, 2.5]),
        "flag": Categorical([False, True]),
    },
    target=YES_NO,
)
ROWS = [
    [36.5, 0.0, "M", 0, 1, True],
    [300.0, 1e6, "F", 2, 2, False],
    [None, None, None, None, None, None],
    [-4.0, 5e5, "?", 9, 3, True],
]
LOG = Numeric(0, 1e6, scale="log")
EXPECTED = [
    [36, 0, 1, 0, 0, 1],
    [254, 254, 0, 2, 1, 0],
    [255] * 6,
    [0, int(np.searchsorted(LOG.thresholds, 5e5, side="right")), 254, 254, 2, 1],
]


def columns():
    return {name: [row[j] for row in ROWS] for j, name in enumerate(MIXED.names)}


def frames():
    data = columns()
    yield "lists", ROWS
    array = np.empty((4, 6), dtype=object)
    array[:] = ROWS
    yield "object array", array
    yield "pandas object", pd.DataFrame(data, dtype=object)
    yield "pandas default", pd.DataFrame(data)
    yield (
        "pandas nullable",
        pd.DataFrame(data).astype(
            {
                "age": "Float32",
                "income": "Float64",
                "sex": "string",
                "kids": "Int64",
                "group": "Int8",
                "flag": "boolean",
            }
        ),
    )
    yield "pandas category", pd.DataFrame(data).astype({"sex": "category", "kids": "category", "flag": "category"})
    yield "polars", pl.DataFrame(data)
    enum = pl.Enum(["zebra", "?", "M", "F"])
    yield "polars enum", pl.DataFrame(data).with_columns(pl.col("sex").cast(enum), pl.col("age").cast(pl.Float32))
    yield "polars categorical", pl.DataFrame(data).with_columns(pl.col("sex").cast(pl.Categorical))
    yield "polars chunks", pl.concat([pl.DataFrame(data)[:1], pl.DataFrame(data)[1:]], rechunk=False)
    yield "polars decimal", pl.DataFrame(data).with_columns(pl.col("income").cast(pl.Decimal(12, 2)))
    yield "pyarrow", pa.table(data)
    table = pa.table(data)
    coded = table.set_column(2, "sex", table["sex"].dictionary_encode())
    yield "pyarrow dictionary", coded
    pieces = [coded.slice(0, 1), coded.slice(1)]
    remade = [p.set_column(2, "sex", p["sex"].cast("string").dictionary_encode()) for p in pieces]
    yield "pyarrow chunks", pa.concat_tables(remade)
    yield "pandas arrow", pa.table(data).to_pandas(types_mapper=pd.ArrowDtype)


@pytest.mark.parametrize("X", [pytest.param(X, id=name) for name, X in frames()])
def test_every_kind_of_table_gives_the_same_codes(X):
    result = MIXED.encode(X)
    assert result.dtype == np.uint8
    assert result.flags.c_contiguous
    assert result.tolist() == EXPECTED


@pytest.mark.parametrize(
    "reverse", [lambda d: d[d.columns[::-1]], lambda d: pl.from_pandas(d)[d.columns[::-1].tolist()]]
)
def test_columns_of_frames_are_matched_by_name(reverse):
    assert MIXED.encode(reverse(pd.DataFrame(columns()))).tolist() == EXPECTED


def test_names_that_are_not_strings_are_matched_as_text():
    domain = Domain({"0": Numeric(0, 255), "1": Numeric(0, 255)}, YES_NO)
    frame = pd.DataFrame([[1.5, 2.5], [3.5, 4.5]])
    assert domain.encode(frame[[1, 0]]).tolist() == [[1, 2], [3, 4]]
    assert Domain.infer(frame, ["a", "b"], "classification").names == ("0", "1")


def test_unseen_levels_of_a_dictionary_are_other_and_unused_ones_harmless():
    s = pd.Series(pd.Categorical(["z", "F", None], categories=["z", "F", "unused"]))
    domain = Domain({"sex": Categorical(["F", "M"])}, YES_NO)
    assert domain.encode(pd.DataFrame({"sex": s}))[:, 0].tolist() == [OTHER, 0, MISSING]


def test_all_null_columns_are_missing():
    domain = Domain({"a": Numeric(0, 1), "b": Categorical(["x"])}, YES_NO)
    for X in (
        pl.DataFrame({"a": [None, None], "b": [None, None]}),
        pa.table({"a": pa.nulls(2), "b": pa.nulls(2)}),
        pd.DataFrame({"a": [None, None], "b": [None, None]}),
        pd.DataFrame({"a": [np.nan, np.nan], "b": pd.Categorical([None, None])}),
    ):
        assert (domain.encode(X) == MISSING).all()


@given(
    st.integers(0, 40),
    st.sampled_from([np.float32, np.float64, np.int16]),
    st.sampled_from(["C", "F", "slice", "reversed", "transposed", "readonly"]),
    st.integers(1, 3),
)
@settings(deadline=None)
def test_layouts_and_blocks_and_threads_do_not_matter(n, dtype, layout, n_threads):
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
        patch.setattr("diprime.domain._BLOCK_ROWS", 7)
        patch.setattr("diprime.domain._BLOCK_CODES", 1)
        result = domain.encode(Z, n_threads=n_threads)
        frame = domain.encode(pl.DataFrame(dict(zip("abcd", X.T, strict=True))), n_threads=n_threads)
    assert result.tolist() == frame.tolist() == expected


def test_no_more_than_a_block_is_copied():
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
    assert MIXED.encode(pd.DataFrame(columns())[:0]).shape == (0, 6)
    assert Domain({"a": Numeric(0, 1)}, YES_NO).encode(np.empty((0, 1)), n_threads=2).shape == (0, 1)


TWO = Domain({"a": Numeric(0, 1), "b": Numeric(0, 1)}, YES_NO)


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (np.zeros((3, 3)), ValueError, "X has 3 features, but the domain has 2"),
        ([[1, 2, 3]], ValueError, "X has 3 features"),
        (np.zeros(3), ValueError, "Expected 2D array, got 1D array instead.*Reshape your data"),
        ([1, 2], ValueError, "Reshape your data"),
        (pd.Series([1, 2]), ValueError, "Reshape your data"),
        (np.zeros((1, 2, 1)), ValueError, "got 3D array"),
        (5, ValueError, "got 0D array"),
        ([[1, 2], [3]], ValueError, "rows of equal length"),
        (scipy.sparse.csr_matrix(np.eye(2)), TypeError, "Sparse data are not supported"),
        (np.zeros((3, 2), dtype=complex), ValueError, "Complex data not supported"),
        (np.ma.zeros((3, 2)), TypeError, "masked"),
        (np.zeros((3, 2), dtype="M8[D]"), TypeError, "convert dates and times to numbers"),
        (np.array([["a", "b"]]), TypeError, "'a' has dtype <U1.*convert it to numbers"),
        (np.zeros((3, 2), dtype="V3"), TypeError, "neither numbers nor text"),
        (pd.DataFrame({"a": [1.0]}), ValueError, "X lacks column 'b'; give"),
        (pd.DataFrame({"a": [1], "b": [1], "c": [1], "d": [1]}), ValueError, "X has columns 'c', 'd', which"),
        (pl.DataFrame({"a": [1], "c": [1]}), ValueError, "X lacks column 'b' and has column 'c'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "two columns"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), ValueError, "two columns named '1'"),
        (pd.DataFrame({"a": ["x"], "b": [1]}), TypeError, "'a' has dtype String"),
        (pl.DataFrame({"a": ["x"], "b": [1]}), TypeError, "'a' has dtype String"),
        (pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.int8())}), TypeError, "'a' has dtype String"),
        (pd.DataFrame({"a": pd.Categorical(["x"]), "b": [1]}), TypeError, "'a' has dtype Categorical"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"]), "b": [1]}), TypeError, "Column 'a'.*dates and times"),
        (pl.DataFrame({"a": [datetime.date(2020, 1, 1)], "b": [1]}), TypeError, "Column 'a'.*dates and times"),
        (pa.table({"a": [datetime.timedelta(1)], "b": [1]}), TypeError, "Column 'a'.*dates and times"),
        (pl.DataFrame({"a": [[1]], "b": [1]}), TypeError, "neither numbers nor text"),
        (pd.DataFrame({"a": pd.period_range("2020", periods=1, freq="D"), "b": [1]}), TypeError, "neither numbers"),
        (pl.LazyFrame({"a": [1], "b": [1]}), TypeError, "collect"),
    ],
)
def test_wrong_shapes_names_and_types_are_one_clear_sentence(X, error, words):
    with pytest.raises(error, match=words):
        TWO.encode(X)


def test_objects_become_numbers_where_they_can():
    values = np.empty(10, dtype=object)
    values[:] = ["3.5", Decimal(4), None, "abc", 10**400, -(10**400), pd.NA, 1j, np.array([2.0]), True]
    assert codes(Numeric(0, 255), values, object) == [3, 4, 255, 255, 254, 0, 255, 255, 255, 1]


# -- targets ----------------------------------------------------------------------------------------------------------


def classes():
    plain = ["yes", "no", "?", None]
    yield plain
    yield np.array(plain, dtype=object)
    yield np.array(plain, dtype=object).reshape(-1, 1)
    for dtype in (object, "string", "category"):
        yield pd.Series(plain, dtype=dtype)
    yield pl.Series(plain)
    yield pl.Series(plain, dtype=pl.Categorical)
    yield pa.chunked_array([plain])
    yield pd.DataFrame({"y": plain})


@pytest.mark.parametrize("y", list(classes()), ids=lambda y: type(y).__module__ + str(getattr(y, "dtype", "")))
def test_classes_are_numbered(y):
    result = MIXED.encode_target(y)
    assert result.dtype == np.int32
    assert result.tolist() == [1, 0, -1, -1]


@given(st.floats(-1e300, 1e300), st.floats(1e-3, 1e300), st.lists(st.floats(), max_size=20))
def test_numeric_targets_are_rounded_fractions_of_the_range(low, width, y):
    high = low + width
    if not low < high:
        return
    y = [*y, low, high, low / 2 + high / 2]
    result = Domain({"x": Numeric(0, 1)}, Numeric(low, high)).encode_target(y)
    assert result.dtype == np.int32
    for value, code in zip(y, result.tolist(), strict=True):
        if value != value:
            assert code == -1
        else:
            position = TARGET_UNITS * (min(max(value, low), high) - low) / (high - low) if width < 1e290 else None
            assert 0 <= code <= TARGET_UNITS
            assert position is None or abs(code - position) <= 0.5 + 1e-9
    assert result[-3:-1].tolist() == [0, TARGET_UNITS]


def test_numeric_targets_of_every_kind():
    domain = Domain({"x": Numeric(0, 1)}, Numeric(0, TARGET_UNITS))
    expected = [3, 0, 4096, -1]
    data = [3.0, -7.0, 1e9, None]
    for y in (data, np.array(data, dtype=np.float32), pd.Series(data), pl.Series(data), pa.chunked_array([data])):
        assert domain.encode_target(y).tolist() == expected
    assert domain.encode_target([0.5, 1.5, np.inf, -np.inf]).tolist() == [0, 2, 4096, 0]
    with pytest.raises(TypeError, match="y has dtype"):
        domain.encode_target(np.array(["a"]))
    with pytest.raises(ValueError, match="y should be a 1d array"):
        domain.encode_target(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="Complex data not supported"):
        domain.encode_target(np.zeros(2, dtype=complex))


# -- the domain as a value --------------------------------------------------------------------------------------------


def test_a_domain_is_a_value():
    assert MIXED.names == ("age", "income", "sex", "kids", "group", "flag")
    assert MIXED.n_features == 6
    assert MIXED.is_categorical.tolist() == [False, False, True, True, False, True]
    assert MIXED.n_codes.tolist() == [255, 255, 2, 3, 3, 2]
    for other in (copy.deepcopy(MIXED), pickle.loads(pickle.dumps(MIXED))):
        assert other == MIXED
        assert hash(other) == hash(MIXED)
        assert other.names == MIXED.names
        assert other.encode(ROWS).tolist() == EXPECTED
    assert Domain(dict(reversed(MIXED.features.items())), YES_NO) != MIXED
    assert Domain(MIXED.features, Categorical(["yes", "no"])) != MIXED
    assert MIXED != 3
    with pytest.raises(TypeError):
        MIXED.features["age"] = Numeric(0, 1)
    with pytest.raises(AttributeError):
        MIXED.target = Numeric(0, 1)
    assert eval(repr(MIXED)) == MIXED


@pytest.mark.parametrize(
    ("features", "target", "words"),
    [
        ({}, YES_NO, "features is empty"),
        ([Numeric(0, 1)], YES_NO, "not a mapping"),
        ({1: Numeric(0, 1)}, YES_NO, "feature name 1 is not a string"),
        ({"a": (0, 1)}, YES_NO, r"Feature 'a' is \(0, 1\)"),
        ({"a": Numeric(0, 1)}, ["no"], "target is"),
        ({"a": Numeric(0, 1)}, Numeric(0, 1, scale="log"), "log scale"),
        ({"a": Numeric(0, 1)}, Numeric(edges=[0]), "edges"),
    ],
)
def test_bad_domains_are_one_clear_sentence(features, target, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Domain(features, target)


def test_ten_thousand_features():
    domain = Domain({f"f{j}": Numeric(0, 255) for j in range(10_000)}, YES_NO)
    X = np.tile(np.arange(3.0), 10_000)[: 2 * 10_000].reshape(2, 10_000)
    np.testing.assert_array_equal(domain.encode(X), X)
    assert len(repr(domain)) < 1000


# -- files ------------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numerics = (
    ranges.map(lambda r: Numeric(*r))
    | st.tuples(ranges, st.sampled_from(["linear", "log"])).map(lambda a: Numeric(*a[0], scale=a[1]))
    | st.sets(st.floats(-1e300, 1e300), min_size=1, max_size=9).map(lambda e: Numeric(edges=sorted(e)))
)
levels = st.lists(
    texts | st.integers() | st.floats(allow_nan=False) | st.booleans(), min_size=1, max_size=6, unique_by=lambda v: v
)
categoricals = levels.map(Categorical)
domains = st.builds(
    Domain,
    st.dictionaries(texts, numerics | categoricals, min_size=1, max_size=4),
    categoricals | ranges.map(lambda r: Numeric(*r)),
)


def assert_same(a, b):
    assert a == b
    assert a.names == b.names
    for f, g in zip([*a.features.values(), a.target], [*b.features.values(), b.target], strict=True):
        if isinstance(f, Categorical):
            assert list(map(type, f.levels)) == list(map(type, g.levels))


@given(domains)
@settings(deadline=None)
def test_files_give_back_the_same_domain(domain):
    assert_same(Domain.from_toml(domain.to_toml()), domain)
    assert_same(Domain.from_json(domain.to_json()), domain)


def test_toml_is_pleasant():
    text = Domain({"age": Numeric(17, 90), "a b": Numeric(0, 0.5, scale="log")}, Categorical(["no", 1, 1.5])).to_toml()
    assert text == (
        '[features.age]\nkind = "numeric"\nlow = 17\nhigh = 90\n\n'
        '[features."a b"]\nkind = "numeric"\nlow = 0\nhigh = 0.5\nscale = "log"\n\n'
        '[target]\nkind = "categorical"\nlevels = ["no", 1, 1.5]\n'
    )


def test_only_plain_levels_can_be_written():
    domain = Domain({"a": Categorical(["x", (1, 2)])}, YES_NO)
    for write in (domain.to_toml, domain.to_json):
        with pytest.raises(TypeError, match=r"features\.a\.levels\[1\] = \(1, 2\) is a tuple"):
            write()
    domain = Domain({"\ud800": Numeric(0, 1)}, YES_NO)
    for write in (domain.to_toml, domain.to_json):
        with pytest.raises(TypeError, match="not valid Unicode"):
            write()


NUMERIC = {"kind": "numeric", "low": 0, "high": 1}
TARGET = {"kind": "categorical", "levels": ["no", "yes"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "the file is"),
        ({}, "the file lacks features"),
        ({"features": {"a": NUMERIC}}, "the file lacks target"),
        ({"features": {"a": NUMERIC}, "target": TARGET, "more": 1}, "the file has the unknown key 'more'"),
        ({"features": {}, "target": TARGET}, "features is not a table"),
        ({"features": [NUMERIC], "target": TARGET}, "features is not a table"),
        ({"features": {"a": 5}, "target": TARGET}, "features.a is 5; it should be a table"),
        ({"features": {"a": {}}, "target": TARGET}, "features.a lacks kind"),
        ({"features": {"a": {"kind": "x"}}, "target": TARGET}, "features.a.kind is 'x'"),
        ({"features": {"a": {"kind": []}}, "target": TARGET}, r"features.a.kind is \[\]"),
        ({"features": {"a": {**NUMERIC, "hgih": 1}}, "target": TARGET}, "features.a has the unknown key 'hgih'"),
        ({"features": {"a": {**NUMERIC, "levels": []}}, "target": TARGET}, "features.a has the unknown key 'levels'"),
        ({"features": {"a": {**NUMERIC, "low": 2}}, "target": TARGET}, "features.a: low = 2 is not below"),
        ({"features": {"a": {**NUMERIC, "low": True}}, "target": TARGET}, "features.a: low = True is not a number"),
        ({"features": {"a": {**NUMERIC, "low": {}}}, "target": TARGET}, "features.a: low = {} is not"),
        ({"features": {"a": {**NUMERIC, "edges": {}}}, "target": TARGET}, "features.a: edges = {} is not"),
        ({"features": {"a": {**NUMERIC, "edges": [[]]}}, "target": TARGET}, r"features.a: edges\[0\]"),
        ({"features": {"a\nb": 5}, "target": TARGET}, r"features.a\\nb is 5"),
        ({"features": {"a": NUMERIC}, "target": {**TARGET, "levels": "no"}}, "target.levels is 'no'"),
        ({"features": {"a": NUMERIC}, "target": {**TARGET, "levels": [[]]}}, r"target.levels\[0\] is \[\]"),
        ({"features": {"a": NUMERIC}, "target": {**TARGET, "levels": [1, 1]}}, r"target: levels\[1\] = 1 repeats"),
        ({"features": {"a": NUMERIC}, "target": {**NUMERIC, "scale": "log"}}, "target: target has edges or a log"),
    ],
)
def test_wrong_files_name_the_place(content, words):
    with pytest.raises(ValueError, match=words) as caught:
        Domain.from_json(json.dumps(content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, '{"a": ' * 100_000, '{"features": {"a": 1, "a": 2}}', "1" * 5000, "null", "nan", "\x00"],
)
def test_broken_text_is_a_value_error(text):
    for read in (Domain.from_json, Domain.from_toml):
        with pytest.raises(ValueError, match=r"not valid|the file"):
            read(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 1\na = 2", "not valid TOML"),
        ("a = " + "[" * 100_000, "not valid TOML"),
        ("[features.a]\nkind='categorical'\nlevels=[2020-01-01]\n[target]\nkind='numeric'", r"features.a.levels\[0\]"),
        ("[features.a]\nkind='numeric'\nlow=nan\nhigh=1\n[target]\nkind='numeric'", "features.a: low = nan"),
        ("[features.a.b]\nkind='numeric'\n[target]\nkind='numeric'", "features.a has the unknown key 'b'"),
    ],
)
def test_wrong_toml_names_the_place(text, words):
    with pytest.raises(ValueError, match=words):
        Domain.from_toml(text)


def test_files_are_text():
    for read in (Domain.from_json, Domain.from_toml):
        with pytest.raises(TypeError, match="as a string"):
            read(b"")


# -- inference --------------------------------------------------------------------------------------------------------


def test_infer_arrays():
    X = np.array([[1, np.nan, 5, np.inf], [3, np.nan, 5, 2], [2, np.nan, 5, -7]])
    domain = Domain.infer(X, np.array([3, 1, 3]), "classification")
    assert domain.names == ("x0", "x1", "x2", "x3")
    assert domain.features["x0"] == Numeric(1, 3)
    assert domain.features["x1"] == Numeric(0, 1)
    assert domain.features["x2"].low < 5 < domain.features["x2"].high
    assert domain.features["x3"] == Numeric(-7, 2)
    assert domain.target == Categorical([1, 3])
    assert type(domain.target.levels[0]) is int
    assert Domain.infer(X, [0.5, 2, 1], "regression").target == Numeric(0.5, 2)
    constant = Domain.infer(X, [7.0, 7, 7], "regression").target
    assert constant.low < 7 < constant.high


@given(st.lists(st.floats(), min_size=1, max_size=5))
def test_infer_always_finds_a_valid_range(values):
    X = np.array(values).reshape(-1, 1)
    domain = Domain.infer(X, np.zeros(len(X)), "regression")
    feature = domain.features["x0"]
    finite = X[np.isfinite(X)]
    if len(finite) and np.abs(finite).max() < 1e307:
        assert feature.low <= finite.min()
        assert feature.high >= finite.max()
    assert feature.n_cells == 255


def test_infer_reads_levels_from_dtypes_and_else_from_values():
    y = [0, 1, 0]
    pandas = pd.DataFrame(
        {
            "cat": pd.Categorical(["b", "b", None], categories=["c", "b", "a"]),
            "text": ["z", "y", None],
            "flag": [True, True, True],
            "object": np.array([3, "x", ()], dtype=object),
            "numbers": np.array([3, 1.5, None], dtype=object),
            "nullable": pd.array([1, None, 4], dtype="Int64"),
            "maybe": pd.array([True, None, True], dtype="boolean"),
            "nothing": [None, None, None],
            "empty": pd.Categorical([None, None, None]),
            "f": [1.0, 2.0, np.nan],
        }
    )
    features = dict(Domain.infer(pandas, y, "classification").features)
    assert features == {
        "cat": Categorical(["c", "b", "a"]),
        "text": Categorical(["y", "z"]),
        "flag": Categorical([False, True]),
        "object": Categorical([3, "x", ()]),
        "numbers": Numeric(1.5, 3),
        "nullable": Numeric(1, 4),
        "maybe": Categorical([False, True]),
        "nothing": Numeric(0, 1),
        "empty": Categorical([""]),
        "f": Numeric(1, 2),
    }
    polars = pl.DataFrame(
        {
            "enum": pl.Series(["b", None, "b"], dtype=pl.Enum(["c", "b"])),
            "cat": pl.Series(["b", None, "a"], dtype=pl.Categorical),
            "flag": [True, None, True],
            "i": [5, None, 2],
            "null": [None, None, None],
        }
    )
    assert dict(Domain.infer(polars, pl.Series(["u", "v", "u"]), "classification").features) == {
        "enum": Categorical(["c", "b"]),
        "cat": Categorical(["a", "b"]),
        "flag": Categorical([False, True]),
        "i": Numeric(2, 5),
        "null": Numeric(0, 1),
    }
    assert Domain.infer(np.array([["u"], ["t"]]), [0, 1], "regression").features["x0"] == Categorical(["t", "u"])
    assert Domain.infer([["u", 1], ["t", 2.5]], [0, 1], "regression").features["x1"] == Numeric(1, 2.5)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([1.0, np.nan], "Input y contains NaN"),
        ([1.0, None], "Input y contains NaN"),
        ([1.0, np.inf], "Input y contains infinity"),
        (pl.Series([1, None]), "Input y contains NaN"),
        (pd.Series([1, None], dtype="Int64"), "Input y contains NaN"),
        ([1.0], r"inconsistent numbers of samples: \[2, 1\]"),
    ],
)
def test_infer_refuses_bad_targets(task, y, words):
    with pytest.raises(ValueError, match=words):
        Domain.infer(np.zeros((2, 1)), y, task)


def test_infer_refuses_nothing_to_read():
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        Domain.infer(np.zeros((0, 1)), [], "regression")
    with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"):
        Domain.infer(np.zeros((3, 0)), [1, 2, 3], "regression")
    with pytest.raises(ValueError, match="task = 'x' is unknown"):
        Domain.infer(np.zeros((1, 1)), [1], "x")
    with pytest.raises(TypeError, match="y has dtype"):
        Domain.infer(np.zeros((1, 1)), np.array(["a"]), "regression")
