"""Dates and times as moments: microseconds since 1970 on the wall clock, in integers.

A time zone is left out: a moment is what the date and the clock show where the value was written, so that the hour of
nine o'clock in the morning is nine in every zone. What cannot be read is `NEVER`, the missing value; no error depends
on a value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

NEVER = int(np.iinfo(np.int64).min)
"""Stands for a missing moment, as NaT does in NumPy."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

Moments = npt.NDArray[np.int64]
"""Microseconds since the beginning of 1970, or `NEVER`."""

_EPOCH = date(1970, 1, 1).toordinal()
_MAX_YEARS = 200_000  # in both directions from 1970: NumPy's microseconds reach a little further
_PER_MICROSECOND = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
_FORMAT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?(?:Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_MICROSECOND_DIGITS = 6


def of_array(array: npt.NDArray[Any]) -> Moments:
    """Return the moments of an array of datetime64 of any unit; parts of microseconds are cut off.

    NumPy raises an error for years that are too far away, so these are moved to the farthest that can be represented.
    """
    unit, multiple = np.datetime_data(array.dtype)
    if unit == "generic":  # it holds nothing but NaT
        return np.full(array.shape, NEVER)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    ticks = native.view(np.int64)
    if unit in _PER_MICROSECOND:  # NumPy overflows at the end of their range
        whole, rest = np.divmod(ticks, _PER_MICROSECOND[unit])
        known = whole * multiple + rest * multiple // _PER_MICROSECOND[unit]
    else:
        ends = np.array([-_MAX_YEARS, _MAX_YEARS], dtype="M8[Y]").astype(f"M8[{unit}]").view(np.int64) // multiple
        known = np.clip(ticks, *ends).view(native.dtype).astype("M8[us]").view(np.int64)
    return np.where(ticks == NEVER, NEVER, known)


def of_values(values: Sequence[Any]) -> Moments:
    """Return the moments of Python values, each by itself: dates, datetimes, NumPy's dates, and ISO 8601 text."""
    return np.fromiter(map(_of_value, values), dtype=np.int64, count=len(values))


def _of_value(value: Any) -> int:
    try:
        if isinstance(value, bytes):
            value = value.decode("ascii")
        if isinstance(value, str):
            return of_text(value)
        if isinstance(value, np.datetime64):
            return int(of_array(np.array([value]))[0])
        return of_date(value) if isinstance(value, date) else NEVER
    except Exception:  # noqa: BLE001 -- methods of a private value may raise anything; NaT of pandas has no fields
        return NEVER


def of_date(value: date) -> int:
    """Return the moment of a date, at midnight, or of a datetime, without its time zone."""
    days = value.toordinal() - _EPOCH
    if not isinstance(value, datetime):
        return days * DAY
    return days * DAY + value.hour * HOUR + value.minute * MINUTE + value.second * SECOND + value.microsecond


def of_text(text: str) -> int:
    """Return the moment of a text such as 2012-10-02, 2012-10-02 09:00 or 2012-10-02T09:00:00.5+02:00."""
    match = _FORMAT.fullmatch(text.strip())
    if match is None:
        return NEVER
    *numbers, fraction = match.groups(default="0")
    try:
        moment = datetime(*map(int, numbers))  # type: ignore[arg-type]
    except ValueError:  # such as the 30th of February
        return NEVER
    return of_date(moment) + int(fraction[:_MICROSECOND_DIGITS].ljust(_MICROSECOND_DIGITS, "0"))


def to_datetime(moment: int) -> datetime:
    """Return a moment as a datetime without a time zone."""
    return datetime(1970, 1, 1) + timedelta(microseconds=moment)


def text_of(value: Any) -> str | None:
    """Return a date of any type as text, as CSV files have it, without a time at midnight; None for what is no date.

    Examples
    --------
    >>> text_of(date(2020, 12, 31)), text_of(np.datetime64("2020-12-31T09:30")), text_of("2020-12-31")
    ('2020-12-31', '2020-12-31 09:30:00', None)
    """
    moment = _of_value(value) if isinstance(value, (date, np.datetime64)) else NEVER
    if moment == NEVER:
        return None
    when = to_datetime(moment)
    return str(when if moment % DAY else when.date())


def weekday(moments: Moments) -> Moments:
    """Return the days of the week, 0 for Monday."""
    return np.asarray((moments // DAY + 3) % 7)  # 1970 began on a Thursday


def month(moments: Moments) -> Moments:
    """Return the months, 0 for January."""
    return np.asarray(moments.view("M8[us]").astype("M8[M]").view(np.int64) % 12)


def hour(moments: Moments) -> Moments:
    """Return the hours of the day, 0 to 23."""
    return np.asarray(moments % DAY // HOUR)
