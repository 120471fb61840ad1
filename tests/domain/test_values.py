"""Moments: what is read of a value is what its date and clock show, whatever holds it."""

import datetime
import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime.domain import Categorical, Date, Domain
from diprime.domain import values as moments
from diprime.domain.values import (
    DAY,
    HOUR,
    MISSING_DATE,
    canonical_number,
    canonical_value,
    is_missing,
    is_number,
    number_of,
    spelled_number,
)

datetimes = st.datetimes()
zones = st.integers(-14 * 60, 14 * 60).map(lambda m: dt.timezone(dt.timedelta(minutes=m)))


def exact(when):
    """Return the microseconds since 1970, by the arithmetic of datetime."""
    return (when - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


@given(datetimes)
@example(dt.datetime(1969, 12, 31, 23, 59, 59, 999999))
@example(dt.datetime(2000, 2, 29, 12))
@example(dt.datetime(1900, 2, 28, 23))
@example(dt.datetime(1, 1, 1))
@example(dt.datetime(9999, 12, 31, 23, 59, 59, 999999))
@settings(deadline=None)
def test_parts_match_calendar(when):
    moment = np.array([exact(when)])
    assert moments.moments_of_values([when]).tolist() == moment.tolist()
    assert moments.weekdays_of(moment).tolist() == [when.weekday()]
    assert moments.months_of(moment).tolist() == [when.month - 1]
    assert moments.hours_of(moment).tolist() == [when.hour]
    assert moments.to_datetime(int(moment[0])) == when


@given(datetimes, zones)
@settings(deadline=None)
def test_values_and_texts_have_equal_moments(when, zone):
    expected = exact(when)
    zoned = when.replace(tzinfo=zone)
    values = [
        when, zoned, str(when), when.isoformat(), f" {when.isoformat()}Z ", zoned.isoformat(), str(when).encode(),
        np.datetime64(when), np.str_(str(when)),
    ]  # fmt: skip
    if zoned.utcoffset() % dt.timedelta(minutes=1):
        values.remove(zoned.isoformat())
    if 1680 < when.year < 2260:
        values += [pd.Timestamp(when), pd.Timestamp(when, tz=zone), np.datetime64(when, "ns")]
    assert moments.moments_of_values(values).tolist() == [expected] * len(values)
    day = exact(dt.datetime.combine(when.date(), dt.time()))
    assert moments.moments_of_values([when.date(), str(when.date()), np.datetime64(when.date())]).tolist() == [day] * 3
    minute = expected - expected % moments.MINUTE
    assert moments.moment_of_text(when.isoformat(" ", "minutes")) == minute


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.sampled_from(["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "25s", "7ns", "ps", "as"]),
)
@example([-(2**63) + 1, 2**63 - 1], "ns")
@settings(deadline=None)
def test_arrays_of_any_unit_are_floored_without_errors(ticks, unit):
    array = np.array(ticks, dtype=np.int64).view(f"M8[{unit}]")
    found = moments.moments_of_array(array)
    assert found.tolist() == [int(moments.moments_of_array(array[i : i + 1])[0]) for i in range(len(array))]
    assert ((found == MISSING_DATE) == np.isnat(array)).all()
    fine = {"ns": (1, 10**3), "7ns": (7, 10**3), "ps": (1, 10**6), "as": (1, 10**12)}
    if unit in fine:
        multiple, parts = fine[unit]
        assert found.tolist() == [MISSING_DATE if t == MISSING_DATE else t * multiple // parts for t in ticks]
    assert moments.moments_of_array(array.astype(f">M8[{unit}]")).tolist() == found.tolist()


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms"])
def test_far_dates_stay_far_and_in_their_order(unit):
    """NumPy wraps dates that microseconds cannot hold, so that a far future would be in the past."""
    end = int(np.array("200000", dtype="M8[Y]").astype(f"M8[{unit}]").view(np.int64))
    ticks = np.array([-(2**63) + 1, -(2**61), -end - 1, -1, 0, 1, end + 1, 2**61, 2**63 - 1])
    found = moments.moments_of_array(ticks.view(f"M8[{unit}]"))
    assert (np.diff(found) >= 0).all()
    assert found[[0, 1, 2]].max() < -(10**18)
    assert found[[-1, -2, -3]].min() > 10**18
    assert (found != MISSING_DATE).all()


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "7ns", "as"]))
@example(-(2**63) + 1, "Y")
@example(2**63 - 1, "M")
@settings(deadline=None)
def test_instants_are_exact_and_agree_with_moments_where_these_reach(ticks, unit):
    array = np.array([ticks], dtype=np.int64).view(f"M8[{unit}]")
    (instant,) = moments.instants_of_array(array).tolist()
    assert moments.instants_of_array(array.astype(f">M8[{unit}]")).tolist() == [instant]
    if ticks == MISSING_DATE:
        assert instant is None
    elif abs(instant) < 150_000 * 365 * DAY * 10**12:
        assert instant // 10**12 == moments.moments_of_array(array)[0]
    else:
        assert (instant > 0) == (ticks > 0)


@pytest.mark.parametrize(
    "value",
    [
        None, "", "NaT", "2012-02-30", "2012-13-01", "12-10-02", "2012/10/02", "2012-10-02 25:00", "2012-10-02 9:00",
        "2012-10-02T", "yesterday", "²012-10-02", 0, 1.5, float("nan"), pd.NaT, np.datetime64("NaT"), b"\xff",
        dt.timedelta(1), dt.time(9), [], "2012-10-02 09:00:00.1234567890",
    ],
)  # fmt: skip
def test_values_other_than_dates_are_missing(value):
    assert moments.moments_of_values([value, "1970-01-02"]).tolist() == [MISSING_DATE, DAY]


def test_values_whose_methods_raise_are_missing():
    class Odd(dt.date):
        def toordinal(self):
            raise RuntimeError("private")

    assert moments.moments_of_values([Odd(2020, 1, 1), dt.datetime(1970, 1, 1, 1)]).tolist() == [MISSING_DATE, HOUR]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_unconvertible_date_does_not_change_others(zone):
    column = pl.Series("when", [0, 6_000_000_000_000_000, 9_000_000_000_000_000], dtype=pl.Int64)
    far = column.cast(pl.Datetime("ms")).to_frame()
    if zone is not None:
        far = far.with_columns(pl.col("when").dt.replace_time_zone("UTC").dt.convert_time_zone(zone))
    domain = Domain({"when": Date("1960-01-01", "2100-01-01", parts=["month"])}, Categorical([0, 1]))
    together = domain.encode(far)
    assert together.tolist() == [domain.encode(far[i : i + 1])[0].tolist() for i in range(3)]


BIG = 2**53


def test_missing_values_of_all_libraries_are_missing():
    for value in (
        None,
        np.nan,
        np.float32("nan"),
        Decimal("NaN"),
        Decimal("sNaN"),
        pd.NA,
        pd.NaT,
        np.datetime64("NaT"),
    ):
        assert is_missing(value)
        assert canonical_value(value) is None
    for value in (0, "", "nan", False, np.inf, (), [], np.ones(2), Decimal(0)):
        assert not is_missing(value)


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.decimals(allow_nan=False) | st.fractions())
def test_canonical_number_equals_nearest_float(number):
    with np.errstate(over="ignore"):
        nearest = np.float64(str(number)) if not isinstance(number, Fraction) else number.numerator / number.denominator
    canonical = canonical_number(number)
    assert canonical == canonical_number(nearest) == nearest
    assert isinstance(canonical, int) == (math.isfinite(nearest) and float(nearest).is_integer())
    assert canonical_value(number) == canonical
    assert number_of(number) == canonical


def test_equal_numbers_of_all_types_have_one_canonical_value():
    types = (int, float, bool, np.int8, np.uint64, np.float16, np.float32, np.longdouble, np.bool_, Decimal, Fraction)
    assert {repr(canonical_value(kind(1))) for kind in types} == {"1"}
    assert canonical_value(-0.0) == 0
    assert str(canonical_value(-0.0)) == "0"
    large = (BIG, BIG + 1, float(BIG), np.int64(BIG + 1), np.uint64(BIG + 1), np.longdouble(BIG) + 1, Decimal(BIG + 1))
    assert {repr(canonical_value(value)) for value in large} == {str(BIG)}
    assert canonical_value(10**400) == canonical_value(math.inf) == math.inf
    assert canonical_value(np.float32(0.1)) != canonical_value(0.1) == canonical_value(Decimal("0.1"))
    for value in (1j, np.timedelta64(1, "s"), np.datetime64(1, "s"), "1", b"1", [1], np.array(1), None):
        assert not is_number(value)
        assert not isinstance(canonical_value(value), (int, float))


def test_canonical_date_is_its_text():
    midnight = [
        datetime.date(2020, 1, 31),
        pd.Timestamp("2020-01-31", tz="Asia/Tokyo"),
        np.datetime64("2020-01-31", "ns"),
    ]
    assert {canonical_value(value) for value in midnight} == {"2020-01-31"}
    assert canonical_value(datetime.datetime(2020, 1, 31, 9, 30)) == "2020-01-31 09:30:00"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1), ("+1", 1), ("-01", -1), ("1.", 1), (".5", 0.5), ("1.50", 1.5), ("1e3", 1000), ("1E-1", 0.1),
        ("inf", math.inf), ("-Infinity", -math.inf), ("1e400", math.inf), (str(BIG + 1), BIG), ("9" * 5000, math.inf),
        ("TRUE", 1), ("false", 0), (" 2 ", 2),
    ],
)  # fmt: skip
def test_text_spells_numbers(text, number):
    assert spelled_number(text) == number
    assert number_of(text) == number


@pytest.mark.parametrize("text", ["", "-", ".", "e5", "1e", "1_000", "1,5", "0x10", "nan", "١", "1 2", "--1", "yes"])
def test_other_text_spells_no_number(text):
    assert spelled_number(text) is None
    assert math.isnan(number_of(text))
    assert not pl.Series([text]).cast(pl.Float64, strict=False).is_not_nan().any(), "readers of files agree"


@pytest.mark.parametrize("raises", ["__float__", "__gt__", "__ne__", "__class__"])
def test_numbers_whose_methods_raise_are_nan(raises):
    def method(self, *others):
        raise RuntimeError("secret")

    hostile = type("Hostile", (Decimal,), {raises: property(method) if raises == "__class__" else method})
    assert math.isnan(number_of(hostile("nan")))
    assert number_of("1") == 1
