"""Cells and thresholds of features, their bounds and categories, and dates with their parts."""

import datetime as dt
import math
import pickle
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain import MISSING, Categorical, Date, Domain, Integer, Numeric
from diprime.domain.features import (
    PARTS,
    cells_per_unit,
    linear_thresholds,
    log_thresholds,
)
from diprime.domain.values import DAY, HOUR, MINUTE, SECOND, moment_of_date
from diprime.kernels.encoding import encode_linear

YES_NO = Categorical(["no", "yes"])


RANGES = [(0, 1), (17, 90), (-1, 1), (-1e-3, 1e6), (0.1, 0.3), (-1e307, 1e307), (0, 1e-300), (-90, -17), (0, 255)]
ranges = (
    st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
    .map(sorted)
    .filter(lambda r: r[1] - r[0] > 1e-9 * max(abs(r[0]), abs(r[1])) and r[1] - r[0] > 1e-300)
)


def cells(low, high, values):
    """Return the cells that the kernel computes."""
    out = np.empty(len(values), dtype=np.uint8)
    encode_linear(values, low, cells_per_unit(low, high), out)
    return out.tolist()


def check_thresholds_exact(low, high):
    t = linear_thresholds(low, high)
    assert t.dtype == np.float64
    assert len(t) == 254
    assert (np.diff(t) > 0).all()
    assert cells(low, high, t) == list(range(1, 255))
    assert cells(low, high, np.nextafter(t, -np.inf)) == list(range(254))


@pytest.mark.parametrize("bounds", RANGES)
def test_linear_cells_have_equal_width(bounds):
    low, high = bounds
    ideal = low + (high - low) * (np.arange(1, 255) / 255)
    np.testing.assert_allclose(linear_thresholds(low, high), ideal, rtol=0, atol=1e-14 * (high - low) + 1e-320)


@given(ranges)
@settings(max_examples=60, deadline=None)
def test_linear_thresholds_are_exact_on_any_range(bounds):
    check_thresholds_exact(*bounds)


def test_thresholds_repeat_if_the_range_holds_too_few_floats():
    low, high = 2.0**53, 2.0**53 + 16
    t = linear_thresholds(low, high)
    x = low + np.arange(-4.0, 22.0)
    assert (np.diff(t) >= 0).all()
    assert cells(low, high, x) == [int((t <= v).sum()) for v in x]
    assert cells(low, high, x)[-1] == 254


@pytest.mark.parametrize(("low", "high"), [(0, 1e6), (-50, 50), (-1e308, 1e308)])
def test_log_scale_from_zero_covers_six_decades(low, high):
    t = log_thresholds(low, high)
    fractions = (t / 4 - low / 4) / (high / 4 - low / 4)
    np.testing.assert_allclose(np.log1p(1e6 * fractions) / math.log1p(1e6), np.arange(1, 255) / 255, rtol=1e-8)
    assert (np.diff(t) > 0).all()


def test_thresholds_follow_the_scale_or_the_edges():
    np.testing.assert_array_equal(Numeric(-3, 4).thresholds, linear_thresholds(-3, 4))
    np.testing.assert_array_equal(Numeric(0, 4, scale="log").thresholds, log_thresholds(0, 4))
    feature = Numeric(edges=np.array([0, 18, 65]))
    assert feature.edges == (0.0, 18.0, 65.0)
    assert feature.thresholds.tolist() == [0, 18, 65]
    assert feature.n_cells == 4
    assert Numeric(edges=range(254)).n_cells == Numeric(0, 1).n_cells == 255


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"low": 1, "high": 1}, "low .*below high, .*low=1 and high=1"),
        ({"low": 2, "high": 1}, "low .*below high, .*low=2 and high=1"),
        ({"low": math.nan, "high": 1}, "low .*finite, got nan"),
        ({"low": 0, "high": math.inf}, "high .*finite, got inf"),
        ({"low": 0, "high": 10**400}, "high .*float64 .*got 1000"),
        ({"low": 0, "high": 10**5000}, "high .*float64 .*got a int"),
        ({"low": "0", "high": 1}, "low .*finite number, got '0'"),
        ({"low": False, "high": True}, "low .*finite number, got False"),
        ({"low": [], "high": 1}, r"low .*float64 .*got \[\]"),
        ({"low": -1e308, "high": 1e308}, "too wide"),
        ({"low": 0, "high": 5e-324}, "too narrow"),
        ({"low": 0}, "^Numeric .*low and high, .*edges"),
        ({"high": 0}, "^Numeric .*low and high, .*edges"),
        ({"low": 0, "high": 1, "scale": "sqrt"}, "scale .*'linear' or 'log', got 'sqrt'"),
        ({"low": 0, "high": 1, "scale": []}, r"scale .*got \[\]"),
        ({"edges": []}, "edges .* 1 to 254 numbers, got 0"),
        ({"edges": range(255)}, "edges .* 1 to 254 numbers, got 255"),
        ({"edges": [0, 0]}, r"edges\[1\] = 0 .*edges\[0\] = 0"),
        ({"edges": [0, math.nan]}, r"edges\[1\] .*finite, got nan"),
        ({"edges": "123"}, "edges .*sequence.*got '123'"),
        ({"edges": 5}, "edges .*sequence.*got 5"),
        ({"edges": [1, 2], "scale": "log"}, "edges .*with scale='log'"),
    ],
)
def test_invalid_numeric_raises_value_error(arguments, words):
    with pytest.raises(ValueError, match=words) as caught:
        Numeric(**arguments)
    assert "\n" not in str(caught.value)


def test_numeric_is_immutable_and_compared_by_value():
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
    assert pickle.dumps(a) == before  # the cached thresholds of `a` are not pickled
    again = pickle.loads(before)
    assert again == a
    np.testing.assert_array_equal(again.thresholds, a.thresholds)
    assert eval(repr(Numeric(0, 1e6, scale="log"))) == Numeric(0, 1e6, scale="log")
    assert eval(repr(Numeric(edges=[0.5, 1]))) == Numeric(edges=[0.5, 1])


def test_categorical_is_immutable_and_compared_by_value():
    a, b = Categorical(["x", 1]), Categorical(("x", 1))
    assert a == b
    assert hash(a) == hash(b)
    assert a != Categorical([1, "x"])
    assert pickle.loads(pickle.dumps(a)) == a
    with pytest.raises(AttributeError):
        a.categories = ()


@pytest.mark.parametrize(
    ("categories", "error", "words"),
    [
        ([], ValueError, "categories .*one category"),
        (["a", None], ValueError, r"categories\[1\] = None .*missing value"),
        ([math.nan], ValueError, r"categories\[0\] = nan .*missing value"),
        ([pd.NA], ValueError, r"categories\[0\] = <NA> .*missing value"),
        (["a", "b", "a"], ValueError, r"categories\[2\] = 'a' repeats categories\[0\]\."),
        ([True, 1], ValueError, r"categories\[1\] = 1 repeats categories\[0\] \(.* 1\)"),
        (
            [2**53, 2**53 + 1],
            ValueError,
            r"categories\[1\] = .* repeats categories\[0\] \(.* 9007199254740992\)",
        ),
        (["2020-01-31", date(2020, 1, 31)], ValueError, r"repeats categories\[0\] \(.* '2020-01-31'\)"),
        ([0.1, Decimal("0.1")], ValueError, r"categories\[1\] = .* repeats categories\[0\] \(.* 0\.1\)"),
        ("abc", ValueError, "categories .*list of .*got 'abc'"),
        (5, ValueError, "categories .*list of .*got 5"),
        ({"a", "b"}, ValueError, "categories .*list, .*set"),
        ([[1]], TypeError, r"categories\[0\] = \[1\] .*hashable"),
    ],
)
def test_invalid_categories_raise_errors(categories, error, words):
    with pytest.raises(error, match=words):
        Categorical(categories)


def test_categories_outside_list_raise_type_error():
    with pytest.raises(TypeError, match=r"categories .*one list, .*Categorical\(\['F', 'M'\]\)\.$"):
        Categorical("F", "M")
    with pytest.raises(TypeError, match=r"categories .*one list, .*Categorical\(\[0, 1, 2\]\)"):
        Categorical(0, 1, 2)


integer_ranges = (
    st.tuples(st.integers(-(2**53), 2**53), st.integers(1, 2**54) | st.integers(1, 600))
    .map(lambda pair: (pair[0], min(pair[0] + pair[1], 2**53)))
    .filter(lambda pair: pair[0] < pair[1])
)


def codes(feature, column):
    return Domain({"x": feature}, YES_NO).encode(column)[:, 0].tolist()


def objects(values):
    table = np.empty((len(values), 1), dtype=object)
    table[:, 0] = values
    return table


@given(integer_ranges)
def test_cells_are_groups_of_equally_many_integers(ends):
    low, high = ends
    feature = Integer(low, high)
    firsts = [low, *feature.first_values, high + 1]
    sizes = np.diff(np.array(firsts, dtype=object))
    assert len(sizes) == feature.n_cells == min(high - low + 1, 255)
    assert max(sizes) - min(sizes) <= 1 <= min(sizes)
    assert feature.thresholds.tolist() == list(feature.first_values)


@given(integer_ranges, st.data())
@settings(deadline=None)
def test_integer_code_is_number_of_thresholds_at_or_below(ends, data):
    feature = Integer(*ends)
    near = st.sampled_from([*feature.first_values[:300], *ends]).flatmap(lambda t: st.integers(t - 2, t + 2))
    values = data.draw(st.lists((near | st.integers(-(2**53), 2**53)).filter(lambda v: abs(v) <= 2**53), min_size=1))
    expected = [sum(first <= value for first in feature.first_values) for value in values]
    assert codes(feature, np.array(values, dtype=np.int64)[:, None]) == expected
    assert codes(feature, np.array(values, dtype=np.float64)[:, None]) == expected
    assert codes(feature, objects(values)) == expected


def test_numbers_between_integers_count_as_the_lower_one():
    feature = Integer(-2, 3)
    values = [-9.0, -2.5, -2, -1.5, -0.1, 0, 0.5, 2.999, 3, 3.7, np.inf, np.nan]
    assert codes(feature, np.array(values)[:, None]) == [0, 0, 0, 0, 1, 2, 2, 4, 5, 5, 5, MISSING]


def test_matrix_is_encoded_as_its_columns_are():
    domain = Domain({"a": Numeric(0, 1), "h": Integer(0, 23), "b": Integer(0, 9999)}, YES_NO)
    X = np.random.default_rng(0).uniform(-2, 30, size=(500, 3)).round()
    X[:, 2] *= 400
    together = domain.encode(X)
    for j, (name, feature) in enumerate(domain.features.items()):
        assert np.array_equal(together[:, j], Domain({name: feature}, YES_NO).encode(X[:, [j]])[:, 0])
    assert np.array_equal(together, domain.encode(np.asfortranarray(X)))


def test_integers_beyond_2_to_the_53_are_rounded_as_their_thresholds_are():
    feature = Integer(2**60, 2**60 + 10_000)
    values = np.arange(2**60, 2**60 + 10_001, dtype=np.int64)
    found = codes(feature, values[:, None])
    exact = np.searchsorted(feature.first_values, values, side="right")
    assert np.abs(np.array(found) - exact).max() <= 256 / 39 + 1  # neighbouring float64 are 256 apart, cells 39
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((5, 5), "low .*below high, .*low=5 and high=5"),
        ((0, 2.5), r"high .*integer, got 2\.5"),
        (("0", 2), "low .*integer, got '0'"),
        ((True, 2), "low .*integer, got True"),
        ((0, float("nan")), "high .*integer, got nan"),
        ((0, float("inf")), "high .*integer, got inf"),
        ((0, 2**63), "high = .*64 bits"),
        pytest.param((0, 10**400), "high = .*64 bits", id="10^400"),
    ],
)
def test_invalid_integer_bounds_raise_value_error(ends, words):
    with pytest.raises(ValueError, match=words):
        Integer(*ends)


def test_bounds_are_python_integers_and_pickles_leave_thresholds_out():
    feature = Integer(np.int32(0), 23.0)
    assert feature == Integer(0, 23)
    assert (type(feature.low), type(feature.high)) == (int, int)
    assert repr(feature) == "Integer(0, 23)"
    assert len(feature.thresholds) == 23
    assert b"thresholds" not in pickle.dumps(feature)
    assert pickle.loads(pickle.dumps(feature)) == feature


WHEN = Date("2012-10-02", "2018-09-30", parts=PARTS)
VALUES = [
    dt.datetime(2012, 10, 2, 9),
    dt.datetime(2016, 2, 29, 23, 59, 59, 999999),
    dt.datetime(1969, 12, 31, 23, 30),
    dt.datetime(2100, 1, 1),
    None,
]


def date_codes(feature, column):
    return Domain({"when": feature}, YES_NO).encode(column).tolist()


def expected_codes(feature, when):
    """Return the codes by the arithmetic of datetime."""
    if when is None:
        return [MISSING] * len(feature.encoded_features("when"))
    parts = {"weekday": when.weekday(), "month": when.month - 1, "hour": when.hour}
    order = [sum(t <= moment_of_date(when) for t in feature.thresholds.tolist())] if feature.has_range else []
    return [*order, *(parts[name] for name in feature.parts)]


times = st.tuples(st.datetimes(), st.datetimes()).map(sorted).filter(lambda pair: pair[0] < pair[1])
days = st.tuples(st.dates(), st.dates()).map(sorted)
date_features = st.builds(
    lambda ends, parts: Date(*ends, parts=parts), times | days, st.lists(st.sampled_from(PARTS), unique=True)
) | st.lists(st.sampled_from(PARTS), min_size=1).map(lambda parts: Date(parts=parts))


@given(date_features, st.lists(st.datetimes() | st.none(), min_size=1, max_size=20))
@settings(deadline=None)
def test_codes_are_those_of_datetime(feature, values):
    assert date_codes(feature, [[v] for v in values]) == [expected_codes(feature, v) for v in values]


@given(times | days)
@settings(deadline=None)
def test_cells_have_equal_widths_up_to_a_unit_of_the_calendar(ends):
    feature = Date(*ends)
    unit = feature.unit
    assert feature.n_cells == len(feature.thresholds) + 1 <= 255
    assert unit in (DAY, HOUR, MINUTE, SECOND, 1)
    assert all(threshold % unit == 0 for threshold in feature.thresholds.tolist())
    first, last = feature.first_moment // unit, feature.last_moment // unit
    widths = np.diff([first, *(feature.thresholds // unit).tolist(), last + 1])
    assert widths.max() - widths.min() <= 1 <= widths.min()
    assert feature.n_cells == 255 or unit == 1


@pytest.mark.parametrize(
    "ends", [("2012-10-02", "2018-09-30"), ("1960-01-01 09:00", "1960-01-02"), ("0001-01-01", "9999-12-31")]
)
def test_thresholds_are_the_first_moments_of_their_cells(ends):
    feature = Date(*ends)
    at = feature.thresholds.view("M8[us]")[:, None]
    assert date_codes(feature, at) == [[i] for i in range(1, 255)]
    assert date_codes(feature, at - 1) == [[i] for i in range(254)]


@pytest.mark.parametrize("dtype", [float, np.float32, int])
def test_dates_refuse_matrix_of_numbers(dtype):
    domain = Domain({"when": WHEN, "a": Numeric(0, 255), "n": Integer(0, 9)}, YES_NO)
    for n_rows in (2, 0):
        with pytest.raises(TypeError, match=r"'when' has dtype .*declares dates"):
            domain.reader(np.zeros((n_rows, 3), dtype=dtype))


def test_thresholds_are_days_if_there_are_enough():
    assert WHEN.unit == DAY
    assert Date("2020-01-01", "2020-03-31").unit == HOUR
    assert Date("2020-01-01", "2020-01-01").unit == MINUTE
    assert Date("2020-01-01 00:00", "2020-01-01 01:00").unit == SECOND
    assert Date("2020-01-01 00:00:00", "2020-01-01 00:00:00.0001").n_cells == 101


def test_range_includes_last_day():
    one_year = Date("2020-01-01", "2020-12-31")
    assert one_year.last_moment == moment_of_date(dt.date(2021, 1, 1)) - 1
    assert Date("2020-01-01", "2020-12-31 00:00").last_moment == moment_of_date(dt.date(2020, 12, 31))


def containers():
    iso = [[None if v is None else str(v)] for v in VALUES]
    naive = pd.Series(VALUES, dtype="datetime64[ns]")
    zone = dt.timezone(dt.timedelta(hours=-5))
    yield "objects", [[v] for v in VALUES]
    yield "zoned objects", [[v and v.replace(tzinfo=zone)] for v in VALUES]
    yield "text", iso
    yield "zoned text", [[v and f"{v}-05:00"] for (v,) in iso]
    yield "numpy", np.array(VALUES, dtype="M8[us]")[:, None]
    yield "pandas", naive.to_frame("when")
    yield "pandas in seconds", pd.DataFrame({"when": naive.astype("datetime64[us]")})
    yield "pandas zoned", pd.DataFrame({"when": naive.dt.tz_localize("America/New_York")})
    yield "pandas objects", pd.DataFrame({"when": pd.Series(VALUES, dtype=object)})
    yield "pandas text", pd.DataFrame({"when": pd.array([v for (v,) in iso], dtype="string")})
    yield "pandas labels", pd.DataFrame({"when": pd.Categorical([v for (v,) in iso])})
    yield "pandas arrow", pd.DataFrame({"when": pd.array(VALUES, dtype=pd.ArrowDtype(pa.timestamp("us")))})
    arrow = pa.array(VALUES, pa.timestamp("us"))
    zoned_arrow = pc.assume_timezone(arrow, "America/Chicago")
    yield "pandas arrow zoned", pd.DataFrame({"when": pd.arrays.ArrowExtensionArray(zoned_arrow)})
    yield "arrow zoned", pa.table({"when": zoned_arrow})
    yield "polars", pl.DataFrame({"when": VALUES})
    yield "polars zoned", pl.DataFrame({"when": pl.Series(VALUES).dt.replace_time_zone("America/Chicago")})
    yield "polars in nanoseconds", pl.DataFrame({"when": pl.Series(VALUES).cast(pl.Datetime("ns"))})
    yield "polars text", pl.DataFrame({"when": [v for (v,) in iso]})
    yield "polars labels", pl.DataFrame({"when": pl.Series([v for (v,) in iso], dtype=pl.Categorical)})
    yield "arrow", pa.table({"when": arrow})
    yield "arrow in chunks", pa.table({"when": pa.chunked_array([VALUES[:2], VALUES[2:]], pa.timestamp("us"))})


@pytest.mark.parametrize(("name", "table"), list(containers()), ids=lambda v: v if isinstance(v, str) else "")
def test_times_have_equal_codes_in_every_container(name, table):
    assert date_codes(WHEN, table) == [expected_codes(WHEN, v) for v in VALUES]


def test_dates_outside_are_clamped_but_their_parts_are_not():
    before, after = date_codes(WHEN, [["1950-07-04 23:00"], ["2050-12-25"]])
    assert before == [0, 1, 6, 23]
    assert after == [254, 6, 11, 0]


def test_date_column_has_several_encoded_features():
    domain = Domain({"a": Numeric(0, 1), "when": WHEN, "n": Integer(0, 9), "s": Date(parts=["hour"])}, YES_NO)
    assert domain.column_names == ("a", "when", "n", "s")
    assert domain.encoded_feature_names == ("a", "when", "when.weekday", "when.month", "when.hour", "n", "s.hour")
    assert domain.n_codes.tolist() == [255, 255, 7, 12, 24, 10, 24]
    assert not domain.is_categorical.any()
    assert domain.n_features == 7
    row = [0.5, "2012-10-02 09:00", 3, dt.datetime(2020, 1, 1, 5)]
    assert domain.encode([row]).tolist() == [[127, 0, 1, 9, 9, 3, 5]]
    with pytest.raises(ValueError, match=r"X has 7 features, .* 4 features"):
        domain.encode([row + row[:3]])


def test_clashing_names_of_parts_raise_value_error():
    features = {"when": Date(parts=["hour"]), "when.hour": Numeric(0, 1)}
    for names in (list(features), list(features)[::-1]):
        with pytest.raises(ValueError, match=r"parts of 'when' .*'when\.hour'"):
            Domain({name: features[name] for name in names}, YES_NO)
    Domain({"when": Date(parts=["month"]), "when.hour": Numeric(0, 1)}, YES_NO)


@pytest.mark.parametrize(
    ("arguments", "parts", "words"),
    [
        (("2020-01-01",), (), "low and high .*both"),
        (("2020-01-02", "2020-01-01"), (), "low .*below high, .*low=2020-01-02 and high=2020-01-01"),
        (("2020-01-01 00:00", "2020-01-01 00:00"), (), "low .*below high, .*low=2020-01-01"),
        (("2020-13-01", "2021-01-01"), (), "low .*date, .*got '2020-13-01'"),
        ((2020, 2021), (), "low .*date, .*got 2020"),
        ((pd.NaT, "2021-01-01"), (), "low .*date, .*got NaT"),
        ((), "hour", "parts .*list of .*got 'hour'"),
        ((), ["minute"], "parts .* weekday, month, hour, got 'minute'"),
        ((), [["hour"]], r"parts .*got \['hour'\]"),
    ],
)
def test_invalid_dates_raise_value_error(arguments, parts, words):
    with pytest.raises(ValueError, match=words):
        Date(*arguments, parts=parts)


def test_bounds_of_any_kind_are_equal():
    low, high = dt.date(2020, 1, 1), dt.datetime(2020, 12, 31, 9)
    same = [
        Date("2020-01-01", "2020-12-31T09:00:00"),
        Date(low, pd.Timestamp(high)),
        Date(low, "2020-12-31 09:00+02:00"),
    ]
    assert all(feature == Date(low, high) for feature in same)
    assert len({*map(hash, same), hash(Date(low, high))}) == 1
    assert type(same[1].high) is dt.datetime
    assert Date(low, high, parts=["hour", "weekday"]) == Date(low, high, parts=("weekday", "hour", "hour"))
    assert repr(same[0]) == "Date('2020-01-01', '2020-12-31 09:00:00')"
    assert eval(repr(WHEN)) == WHEN
    assert WHEN.n_cells == 255
    assert b"thresholds" not in pickle.dumps(WHEN)
    assert pickle.loads(pickle.dumps(WHEN)) == WHEN


def test_ranges_of_moments_are_whole_days():
    feature = Date.covering(
        moment_of_date(dt.datetime(2020, 1, 1, 9)), moment_of_date(dt.datetime(2020, 3, 1, 1)), ["hour"]
    )
    assert feature == Date("2020-01-01", "2020-03-01", parts=["hour"])
    assert Date.covering(-(2**62), 2**62) == Date("0001-01-01", "9999-12-31")


@pytest.mark.parametrize(
    ("feature", "column", "words"),
    [
        (WHEN, np.zeros((3, 1), dtype=np.int64), "'when' has dtype int64, .*declares dates"),
        (WHEN, pl.DataFrame({"when": [1.0]}), "'when' has dtype Float64, .*declares dates"),
        (Numeric(0, 1), np.zeros((3, 1), dtype="M8[D]"), "'when' has dtype .*declares numbers.* Date"),
        (Integer(0, 1), pl.DataFrame({"when": [dt.date(2020, 1, 1)]}), "'when' has dtype .*declares numbers.* Date"),
        (
            YES_NO,
            pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}),
            "'when' has dtype .*declares categories.* Date",
        ),
        (WHEN, pl.DataFrame({"when": [dt.timedelta(1)]}), "'when' of X has dtype .*durations"),
        (WHEN, pl.DataFrame({"when": [dt.time(1)]}), "'when' of X has dtype .*durations"),
        (WHEN, np.zeros((3, 1), dtype="m8[s]"), "X has dtype timedelta64.*durations"),
    ],
)
def test_wrong_dtypes_raise_type_error_without_rows(feature, column, words):
    with pytest.raises(TypeError, match=words):
        date_codes(feature, column)
    with pytest.raises(TypeError, match=words):
        date_codes(feature, column[:0])


def test_null_column_is_missing_if_dtype_can_hold_dates():
    for table in (pl.DataFrame({"when": [None, None]}), pd.DataFrame({"when": [None, None]})):
        assert date_codes(WHEN, table) == [[MISSING] * 4] * 2
    for table in (np.full((2, 1), np.nan), np.array([[b"2020-01-01"]])):
        with pytest.raises(TypeError, match=r"'when' has dtype .*without any value"):
            date_codes(WHEN, table)
