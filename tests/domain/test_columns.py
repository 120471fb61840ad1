"""Tables of every kind: equal values have equal codes, and errors depend on shapes, names and dtypes only."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from diprime.domain import MISSING, TARGET_UNITS, Categorical, Date, Domain, Numeric
from diprime.domain.columns import read_target, table_of

YES_NO = Categorical(["no", "yes"])
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
    return {name: [row[j] for row in ROWS] for j, name in enumerate(MIXED.encoded_feature_names)}


def frames():
    data = columns()
    yield "lists", ROWS
    array = np.empty((4, 6), dtype=object)
    array[:] = ROWS
    yield "object array", array
    yield (
        "table of arrays",
        table_of({name: array[:, j] for j, name in reversed(list(enumerate(MIXED.encoded_feature_names)))}),
    )
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
def test_codes_are_equal_in_every_kind_of_table(X):
    result = MIXED.encode(X)
    assert result.dtype == np.uint8
    assert result.flags.c_contiguous
    assert result.tolist() == EXPECTED


def test_names_that_are_not_strings_are_matched_as_text():
    domain = Domain({"0": Numeric(0, 255), "1": Numeric(0, 255)}, YES_NO)
    frame = pd.DataFrame([[1.5, 2.5], [3.5, 4.5]])
    assert domain.encode(frame[[1, 0]]).tolist() == [[1, 2], [3, 4]]


def test_all_null_columns_are_missing():
    domain = Domain({"a": Numeric(0, 1), "b": Categorical(["x"])}, YES_NO)
    for X in (
        pl.DataFrame({"a": [None, None], "b": [None, None]}),
        pa.table({"a": pa.nulls(2), "b": pa.nulls(2)}),
        pd.DataFrame({"a": [None, None], "b": [None, None]}),
        pd.DataFrame({"a": [np.nan, np.nan], "b": pd.Categorical([None, None])}),
    ):
        assert (domain.encode(X) == MISSING).all()


TWO = Domain({"a": Numeric(0, 1), "b": Numeric(0, 1)}, YES_NO)


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (np.zeros(3), ValueError, "Expected 2D array, got 1D array instead.*Reshape your data"),
        ([1, 2], ValueError, "Reshape your data"),
        (pd.Series([1, 2]), ValueError, "Reshape your data"),
        (np.zeros((1, 2, 1)), ValueError, "got 3D array"),
        (5, ValueError, "got 0D array"),
        ([[1, 2], [3]], ValueError, "equal length"),
        (scipy.sparse.csr_matrix(np.eye(2)), TypeError, "X .*sparse matrix"),
        (np.zeros((3, 2), dtype=complex), ValueError, "Complex data not supported"),
        (np.ma.zeros((3, 2)), TypeError, "masked"),
        (
            np.zeros((3, 2), dtype="M8[D]"),
            TypeError,
            "'a' has dtype datetime64.D., .*numbers.* Date",
        ),
        (np.array([["a", "b"]]), TypeError, "'a' has dtype str.*declares numbers"),
        (np.zeros((3, 2), dtype="V3"), TypeError, "neither numbers"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "two columns"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), ValueError, "X .*two columns .*same name"),
        (pd.DataFrame({"a": pd.array(["x"], "string"), "b": [1]}), TypeError, "'a' has dtype String"),
        (pl.DataFrame({"a": ["x"], "b": [1]}), TypeError, "'a' has dtype String"),
        (pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.int8())}), TypeError, "'a' has dtype String"),
        (pd.DataFrame({"a": pd.Categorical(["x"]), "b": [1]}), TypeError, "'a' has dtype Categorical"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"]), "b": [1]}), TypeError, "'a' has dtype .*numbers.* Date"),
        (pl.DataFrame({"a": [datetime.date(2020, 1, 1)], "b": [1]}), TypeError, "'a' has dtype .*numbers.* Date"),
        (pa.table({"a": [datetime.timedelta(1)], "b": [1]}), TypeError, "'a' .*durations"),
        (pl.DataFrame({"a": [[1]], "b": [1]}), TypeError, "neither numbers"),
        (pd.DataFrame({"a": pd.period_range("2020", periods=1, freq="D"), "b": [1]}), TypeError, "neither numbers"),
        (pl.LazyFrame({"a": [1], "b": [1]}), TypeError, "collect"),
    ],
)
def test_wrong_shapes_names_and_dtypes_raise_errors(X, error, words):
    with pytest.raises(error, match=words):
        TWO.encode(X)


@pytest.mark.parametrize("column", [pl.Series, pa.array, lambda values: pd.Series(values, dtype="Float64")])
def test_missing_value_does_not_change_error_about_floats(column):
    errors = set()
    for values in ([0.5, 1.5], [0.5, None]):
        with pytest.raises(TypeError, match="y has dtype Float64") as caught:
            Domain({"x": Numeric(0, 1)}, YES_NO).encode_target(column(values))
        errors.add(str(caught.value))
    assert len(errors) == 1


def test_objects_are_converted_to_numbers_if_possible():
    values = np.empty(12, dtype=object)
    values[:] = [
        "3.5",
        Decimal(4),
        None,
        "abc",
        10**400,
        -(10**400),
        pd.NA,
        1j,
        np.array([2.0]),
        True,
        {},
        Decimal("sNaN"),
    ]
    nan = np.nan
    expected = [3.5, 4, nan, nan, np.inf, -np.inf, nan, nan, nan, 1, nan, nan]
    np.testing.assert_array_equal(read_target(values).floats(0, 12), expected)
    np.testing.assert_array_equal(read_target(values).floats(0, 2), [3.5, 4])
    assert Domain({"x": Numeric(0, 255)}, YES_NO).encode(values[:5, None])[:, 0].tolist() == [3, 4, 255, 255, 254]


@pytest.mark.parametrize(
    "library", [pl.Series, pa.array, pd.Series, lambda v: pd.Series(v, dtype=pd.ArrowDtype(pa.decimal128(10, 3)))]
)
def test_decimals_are_the_nearest_float_in_every_library(library):
    values = [Decimal(n).scaleb(-3) for n in range(1, 40_000, 7)]
    floats = [float(v) for v in values]
    assert read_target(library(values)).floats(0, len(values)).tolist() == floats
    domain = Domain({"x": Numeric(edges=floats[:254])}, YES_NO)
    assert domain.encode(pl.DataFrame({"x": values})).tolist() == domain.encode(np.array([floats]).T).tolist()


def test_floats_are_read_in_place():
    for array in (np.arange(6.0), np.arange(6, dtype=np.float32), np.arange(12.0)[::2]):
        assert np.shares_memory(read_target(array).floats(1, 4), array)
    polars = pl.Series(np.arange(6.0))
    assert np.shares_memory(read_target(polars).floats(1, 4), polars.to_numpy())
    arrow = pa.array(np.arange(6.0))
    assert np.shares_memory(read_target(pa.chunked_array([arrow])).floats(1, 4), arrow.to_numpy())


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
def test_classes_are_encoded_as_their_positions(y):
    result = MIXED.encode_target(y)
    assert result.dtype == np.int32
    assert result.tolist() == [1, 0, -1, -1]


def test_numeric_targets_are_equal_in_every_container():
    domain = Domain({"x": Numeric(0, 1)}, Numeric(0, TARGET_UNITS))
    expected = [3, 0, 4096, -1]
    data = [3.0, -7.0, 1e9, None]
    for y in (data, np.array(data, dtype=np.float32), pd.Series(data), pl.Series(data), pa.chunked_array([data])):
        assert domain.encode_target(y).tolist() == expected
    with pytest.raises(TypeError, match="y has dtype"):
        domain.encode_target(np.array(["a"]))
    with pytest.raises(ValueError, match="y should be a 1d array"):
        domain.encode_target(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="Complex data not supported"):
        domain.encode_target(np.zeros(2, dtype=complex))
    with pytest.raises(TypeError, match="y has dtype datetime64"):
        domain.encode_target(np.zeros(3, dtype="M8[s]"))


def test_complex_categories_are_refused_like_complex_numbers():
    domain = Domain({"x": Categorical(n_buckets=8)}, target=YES_NO)
    for values in ([7, 1j], [2j, None]):
        with pytest.raises(ValueError, match="Complex data not supported"):
            domain.encode(pd.DataFrame({"x": pd.Categorical(values)}))


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Vienna"])
def test_far_dates_with_a_time_zone_show_nothing_on_standard_error(unit, zone, capfd):
    far = pl.Series([0, 2**63 - 1, -(2**63), None, 10**9]).cast(pl.Datetime(unit, zone))
    domain = Domain({"seen": Date("1960-01-01", "2040-01-01", parts=["hour"])}, target=YES_NO)
    codes = domain.encode(pl.DataFrame({"seen": far}))
    near = domain.encode(pl.DataFrame({"seen": far.gather([0, 3, 4])}))
    assert codes[[0, 3, 4]].tolist() == near.tolist()
    assert capfd.readouterr() == ("", "")
