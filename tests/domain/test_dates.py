"""Dates: a column gives its order and parts of the calendar, and every container gives the same codes."""

import datetime as dt
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain import MISSING, Categorical, Date, Domain, Integer, Numeric
from diprime.domain.dates import PARTS
from diprime.domain.moments import DAY, HOUR, MINUTE, SECOND, of_date

YES_NO = Categorical(["no", "yes"])
WHEN = Date("2012-10-02", "2018-09-30", parts=PARTS)
VALUES = [
    dt.datetime(2012, 10, 2, 9),
    dt.datetime(2016, 2, 29, 23, 59, 59, 999999),
    dt.datetime(1969, 12, 31, 23, 30),
    dt.datetime(2100, 1, 1),
    None,
]


def codes(feature, column):
    return Domain({"when": feature}, YES_NO).encode(column).tolist()


def expected_codes(feature, when):
    """Return the codes by the arithmetic of datetime."""
    if when is None:
        return [MISSING] * len(feature.coded("when"))
    parts = {"weekday": when.weekday(), "month": when.month - 1, "hour": when.hour}
    order = [sum(t <= of_date(when) for t in feature.thresholds.tolist())] if feature.has_range else []
    return [*order, *(parts[name] for name in feature.parts)]


bounds = st.tuples(st.datetimes(), st.datetimes()).map(sorted).filter(lambda pair: pair[0] < pair[1])
days = st.tuples(st.dates(), st.dates()).map(sorted)
features = st.builds(
    lambda ends, parts: Date(*ends, parts=parts), bounds | days, st.lists(st.sampled_from(PARTS), unique=True)
) | st.lists(st.sampled_from(PARTS), min_size=1).map(lambda parts: Date(parts=parts))


@given(features, st.lists(st.datetimes() | st.none(), min_size=1, max_size=20))
@settings(deadline=None)
def test_codes_are_those_of_datetime(feature, values):
    assert codes(feature, [[v] for v in values]) == [expected_codes(feature, v) for v in values]


@given(bounds | days)
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
    assert codes(feature, at) == [[i] for i in range(1, 255)]
    assert codes(feature, at - 1) == [[i] for i in range(254)]


def test_a_matrix_of_floats_has_no_dates():
    domain = Domain({"when": WHEN, "a": Numeric(0, 255), "n": Integer(0, 9)}, YES_NO)
    assert domain.encode(np.array([[np.nan, 36.5, 3], [5e9, 7, 11]])).tolist() == [
        [MISSING] * 4 + [36, 3],
        [MISSING] * 4 + [7, 9],
    ]
    assert domain.reader(np.zeros((2, 3))).numbers is None  # which would stand for the codes of all features


def test_thresholds_are_days_if_there_are_enough():
    assert WHEN.unit == DAY
    assert Date("2020-01-01", "2020-03-31").unit == HOUR
    assert Date("2020-01-01", "2020-01-01").unit == MINUTE
    assert Date("2020-01-01 00:00", "2020-01-01 01:00").unit == SECOND
    assert Date("2020-01-01 00:00:00", "2020-01-01 00:00:00.0001").n_cells == 101


def test_a_last_day_belongs_to_the_range():
    one_year = Date("2020-01-01", "2020-12-31")
    assert one_year.last_moment == of_date(dt.date(2021, 1, 1)) - 1
    assert Date("2020-01-01", "2020-12-31 00:00").last_moment == of_date(dt.date(2020, 12, 31))


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
    yield "pandas zoned", pd.DataFrame({"when": naive.dt.tz_localize("America/Chicago")})
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
def test_every_container_gives_the_same_codes(name, table):
    assert codes(WHEN, table) == [expected_codes(WHEN, v) for v in VALUES]


def test_days_of_every_container_give_the_same_codes():
    values = [None if v is None else v.date() for v in VALUES]
    tables = [
        [[v] for v in values],
        np.array(values, dtype="M8[D]")[:, None],
        pl.DataFrame({"when": values}),
        pa.table({"when": values}),
        pd.DataFrame({"when": pd.array(values, dtype=pd.ArrowDtype(pa.date32()))}),
    ]
    midnights = [v and dt.datetime.combine(v, dt.time()) for v in values]
    for table in tables:
        assert codes(WHEN, table) == [expected_codes(WHEN, v) for v in midnights]


def test_dates_outside_are_clamped_but_their_parts_are_not():
    before, after = codes(WHEN, [["1950-07-04 23:00"], ["2050-12-25"]])
    assert before == [0, 1, 6, 23]
    assert after == [254, 6, 11, 0]


def test_columns_and_coded_features_are_apart():
    domain = Domain({"a": Numeric(0, 1), "when": WHEN, "n": Integer(0, 9), "s": Date(parts=["hour"])}, YES_NO)
    assert domain.columns == ("a", "when", "n", "s")
    assert domain.names == ("a", "when", "when.weekday", "when.month", "when.hour", "n", "s.hour")
    assert domain.n_codes.tolist() == [255, 255, 7, 12, 24, 10, 24]
    assert not domain.is_categorical.any()
    assert domain.n_features == 7
    row = [0.5, "2012-10-02 09:00", 3, dt.datetime(2020, 1, 1, 5)]
    assert domain.encode([row]).tolist() == [[127, 0, 1, 9, 9, 3, 5]]
    with pytest.raises(ValueError, match="X has 7 features, but the domain has 4"):
        domain.encode([row + row[:3]])


def test_names_that_clash_are_refused():
    features = {"when": Date(parts=["hour"]), "when.hour": Numeric(0, 1)}
    for names in (list(features), list(features)[::-1]):
        with pytest.raises(ValueError, match=r"The parts of 'when' have a feature 'when.hour', as another"):
            Domain({name: features[name] for name in names}, YES_NO)
    Domain({"when": Date(parts=["month"]), "when.hour": Numeric(0, 1)}, YES_NO)


@pytest.mark.parametrize(
    ("arguments", "parts", "words"),
    [
        (("2020-01-01",), (), "only one of low and high"),
        ((), (), "neither a range nor a part"),
        (("2020-01-02", "2020-01-01"), (), "low = 2020-01-02 is not below high = 2020-01-01"),
        (("2020-01-01 00:00", "2020-01-01 00:00"), (), "is not below"),
        (("2020-13-01", "2021-01-01"), (), "low = '2020-13-01' is not a date"),
        ((2020, 2021), (), "low = 2020 is not a date"),
        ((pd.NaT, "2021-01-01"), (), "low = NaT is not a date"),
        ((), "hour", "is not a list of parts"),
        ((), ["minute"], "parts has 'minute', which is unknown; use weekday, month, hour"),
        ((), [["hour"]], "which is unknown"),
    ],
)
def test_wrong_arguments_are_refused(arguments, parts, words):
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
    feature = Date.covering(of_date(dt.datetime(2020, 1, 1, 9)), of_date(dt.datetime(2020, 3, 1, 1)), ["hour"])
    assert feature == Date("2020-01-01", "2020-03-01", parts=["hour"])
    assert Date.covering(-(2**62), 2**62) == Date("0001-01-01", "9999-12-31")


@pytest.mark.parametrize(
    ("feature", "column", "words"),
    [
        (WHEN, np.zeros((3, 1), dtype=np.int64), "'when' has dtype int64, where dates are expected"),
        (WHEN, pl.DataFrame({"when": [True]}), "where dates are expected"),
        (Numeric(0, 1), np.zeros((3, 1), dtype="M8[D]"), "declare it Date"),
        (Integer(0, 1), pl.DataFrame({"when": [dt.date(2020, 1, 1)]}), "declare it Date"),
        (
            YES_NO,
            pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}),
            "is categorical in the domain; declare it Date",
        ),
        (WHEN, pl.DataFrame({"when": [dt.timedelta(1)]}), "convert durations"),
        (WHEN, pl.DataFrame({"when": [dt.time(1)]}), "convert durations"),
        (WHEN, np.zeros((3, 1), dtype="m8[s]"), "convert durations"),
    ],
)
def test_wrong_dtypes_raise_whatever_the_values_are(feature, column, words):
    with pytest.raises(TypeError, match=words):
        codes(feature, column)
    with pytest.raises(TypeError, match=words):
        codes(feature, column[:0])


def test_a_column_without_values_is_missing_whatever_its_dtype():
    for table in (np.full((2, 1), np.nan), pl.DataFrame({"when": [None, None]}), pd.DataFrame({"when": [None, None]})):
        assert codes(WHEN, table) == [[MISSING] * 4] * 2


def test_a_target_is_not_a_date():
    with pytest.raises(TypeError, match=r"target is Date\(.*; give Numeric"):
        Domain({"x": Numeric(0, 1)}, Date("2020-01-01", "2020-12-31"))
    with pytest.raises(TypeError, match="y has dtype datetime64"):
        Domain({"x": Numeric(0, 1)}, YES_NO).encode_target(np.zeros(3, dtype="M8[s]"))
