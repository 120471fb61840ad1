"""Moments: what is read of a value is what its date and clock show, whatever holds it."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime.domain import Categorical, Date, Domain, moments
from diprime.domain.moments import DAY, HOUR, NEVER

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
def test_parts_are_those_of_the_calendar(when):
    moment = np.array([exact(when)])
    assert moments.of_values([when]).tolist() == moment.tolist()
    assert moments.weekday(moment).tolist() == [when.weekday()]
    assert moments.month(moment).tolist() == [when.month - 1]
    assert moments.hour(moment).tolist() == [when.hour]
    assert moments.to_datetime(int(moment[0])) == when


@given(datetimes, zones)
@settings(deadline=None)
def test_values_and_texts_of_any_kind_are_read_alike(when, zone):
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
    assert moments.of_values(values).tolist() == [expected] * len(values)
    day = exact(dt.datetime.combine(when.date(), dt.time()))
    assert moments.of_values([when.date(), str(when.date()), np.datetime64(when.date())]).tolist() == [day] * 3
    minute = expected - expected % moments.MINUTE
    assert moments.of_text(when.isoformat(" ", "minutes")) == minute


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.sampled_from(["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "25s", "7ns", "ps", "as"]),
)
@example([-(2**63) + 1, 2**63 - 1], "ns")
@settings(deadline=None)
def test_arrays_of_any_unit_never_raise_and_are_floored(ticks, unit):
    array = np.array(ticks, dtype=np.int64).view(f"M8[{unit}]")
    found = moments.of_array(array)
    assert found.tolist() == [int(moments.of_array(array[i : i + 1])[0]) for i in range(len(array))]
    assert ((found == NEVER) == np.isnat(array)).all()
    fine = {"ns": (1, 10**3), "7ns": (7, 10**3), "ps": (1, 10**6), "as": (1, 10**12)}
    if unit in fine:
        multiple, parts = fine[unit]
        assert found.tolist() == [NEVER if t == NEVER else t * multiple // parts for t in ticks]
    assert moments.of_array(array.astype(f">M8[{unit}]")).tolist() == found.tolist()


@pytest.mark.parametrize(
    "value",
    [
        None, "", "NaT", "2012-02-30", "2012-13-01", "12-10-02", "2012/10/02", "2012-10-02 25:00", "2012-10-02 9:00",
        "2012-10-02T", "yesterday", "²012-10-02", 0, 1.5, float("nan"), pd.NaT, np.datetime64("NaT"), b"\xff",
        dt.timedelta(1), dt.time(9), [], "2012-10-02 09:00:00.1234567890",
    ],
)  # fmt: skip
def test_what_is_no_date_is_missing(value):
    assert moments.of_values([value, "1970-01-02"]).tolist() == [NEVER, DAY]


def test_a_generic_nat_is_missing():
    assert moments.of_array(np.array(["NaT"], dtype="M8")).tolist() == [NEVER]


def test_values_whose_methods_raise_are_missing():
    class Odd(dt.date):
        def toordinal(self):
            raise RuntimeError("private")

    assert moments.of_values([Odd(2020, 1, 1), dt.datetime(1970, 1, 1, 1)]).tolist() == [NEVER, HOUR]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_a_date_that_polars_cannot_convert_changes_no_other(zone):
    column = pl.Series("when", [0, 6_000_000_000_000_000, 9_000_000_000_000_000], dtype=pl.Int64)
    far = column.cast(pl.Datetime("ms")).to_frame()
    if zone is not None:
        far = far.with_columns(pl.col("when").dt.replace_time_zone("UTC").dt.convert_time_zone(zone))
    domain = Domain({"when": Date("1960-01-01", "2100-01-01", parts=["month"])}, Categorical([0, 1]))
    together = domain.encode(far)
    assert together.tolist() == [domain.encode(far[i : i + 1])[0].tolist() for i in range(3)]
