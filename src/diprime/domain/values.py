"""The canonical form of values, which depends neither on their type nor on their column, and dates as integers.

A moment is the number of microseconds since 1970, or `MISSING_DATE`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence, Set
from datetime import date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

MISSING_DATE = int(np.iinfo(np.int64).min)
"""Value of a missing moment, like NaT in NumPy."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

Moments = npt.NDArray[np.int64]
"""Microseconds since the start of 1970, or `MISSING_DATE`."""

_EPOCH = date(1970, 1, 1).toordinal()
_MAX_YEARS = 200_000  # before and after 1970; NumPy's microseconds reach a little further
_PER_MICROSECOND = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
_ATTOSECONDS = {
    unit: seconds * 10**18 for unit, seconds in {"W": 7 * 86400, "D": 86400, "h": 3600, "m": 60, "s": 1}.items()
} | {"ms": 10**15, "us": 10**12, "ns": 10**9, "ps": 10**6, "fs": 10**3, "as": 1}
_MONTHS = {"Y": 12, "M": 1}
_MONTHS_OF_ERA, _DAYS_OF_ERA = 400 * 12, 146_097  # after which the calendar repeats
_FORMAT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?(?:Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_MICROSECOND_DIGITS = 6


def moments_of_array(array: npt.NDArray[Any]) -> Moments:
    """Return the moments of a datetime64 array of any unit, without fractions of microseconds.

    Years beyond the range of NumPy are clipped, because NumPy would wrap them without an error.
    """
    unit, multiple = np.datetime_data(array.dtype)
    if unit == "generic":  # contains only NaT
        return np.full(array.shape, MISSING_DATE)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    ticks = native.view(np.int64)
    if unit in _PER_MICROSECOND:  # NumPy overflows at the end of their range
        whole, rest = np.divmod(ticks, _PER_MICROSECOND[unit])
        known = whole * multiple + rest * multiple // _PER_MICROSECOND[unit]
    else:
        ends = np.array([-_MAX_YEARS, _MAX_YEARS], dtype="M8[Y]").astype(f"M8[{unit}]").view(np.int64) // multiple
        known = np.clip(ticks, *ends).view(native.dtype).astype("M8[us]").view(np.int64)
    return np.where(ticks == MISSING_DATE, MISSING_DATE, known)


def instants_of_array(array: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    """Return datetime64 of any unit as attoseconds since 1970, which are exact, unlike moments, or None if missing."""
    unit, multiple = np.datetime_data(array.dtype)
    ticks = array.astype(array.dtype.newbyteorder("="), copy=False).view(np.int64)
    exact: npt.NDArray[np.object_] = ticks.astype(object) * multiple
    if unit in _MONTHS:
        exact, unit = np.frompyfunc(_days_before_month, 1, 1)(exact * _MONTHS[unit]), "D"
    exact *= _ATTOSECONDS.get(unit, 1)
    exact[ticks == MISSING_DATE] = None
    return exact


def _days_before_month(month: int) -> int:
    """Return the days from 1970 to the start of a month, which is counted from 1970 and may be any integer."""
    eras, month = divmod(month, _MONTHS_OF_ERA)
    return eras * _DAYS_OF_ERA + date(1970 + month // 12, month % 12 + 1, 1).toordinal() - _EPOCH


def moments_of_values(values: Sequence[Any]) -> Moments:
    """Return the moments of Python values, each by itself: dates, datetimes, NumPy dates, or ISO 8601 text."""
    return np.fromiter(map(_moment_of_value, values), dtype=np.int64, count=len(values))


def _moment_of_value(value: Any) -> int:
    try:
        if isinstance(value, bytes):
            value = value.decode("ascii")
        if isinstance(value, str):
            return moment_of_text(value)
        if isinstance(value, np.datetime64):
            return int(moments_of_array(np.array([value]))[0])
        return moment_of_date(value) if isinstance(value, date) else MISSING_DATE
    except Exception:  # noqa: BLE001 -- methods of a private value may raise anything; NaT of pandas has no fields
        return MISSING_DATE


def moment_of_date(value: date) -> int:
    """Return the moment of a date (at midnight) or of a datetime (without its time zone)."""
    days = value.toordinal() - _EPOCH
    if not isinstance(value, datetime):
        return days * DAY
    return days * DAY + value.hour * HOUR + value.minute * MINUTE + value.second * SECOND + value.microsecond


def moment_of_text(text: str) -> int:
    """Return the moment of text such as 2012-10-02, 2012-10-02 09:00 or 2012-10-02T09:00:00.5+02:00."""
    match = _FORMAT.fullmatch(text.strip())
    if match is None:
        return MISSING_DATE
    *numbers, fraction = match.groups(default="0")
    try:
        moment = datetime(*map(int, numbers))  # type: ignore[arg-type]
    except ValueError:  # for example 30 February
        return MISSING_DATE
    return moment_of_date(moment) + int(fraction[:_MICROSECOND_DIGITS].ljust(_MICROSECOND_DIGITS, "0"))


def to_datetime(moment: int) -> datetime:
    """Return a moment as a datetime without a time zone."""
    return datetime(1970, 1, 1) + timedelta(microseconds=moment)


def date_text(value: Any) -> str | None:
    """Return a date of any type as text, as in CSV files, without a time at midnight, or None if it is not a date."""
    return moment_text(_moment_of_value(value)) if isinstance(value, (date, np.datetime64)) else None


def moment_text(moment: int) -> str | None:
    """Return a moment as text, without a time at midnight, or None if it is missing."""
    if moment == MISSING_DATE:
        return None
    when = to_datetime(moment)
    return str(when if moment % DAY else when.date())


def weekdays_of(moments: Moments) -> Moments:
    """Return the days of the week, 0 for Monday."""
    return np.asarray((moments // DAY + 3) % 7)  # 1970 began on a Thursday


def months_of(moments: Moments) -> Moments:
    """Return the months, 0 for January to 11."""
    return np.asarray(moments.view("M8[us]").astype("M8[M]").view(np.int64) % 12)


def hours_of(moments: Moments) -> Moments:
    """Return the hours of the day, 0 to 23."""
    return np.asarray(moments % DAY // HOUR)


_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?)", re.ASCII | re.IGNORECASE)
_BOOLEANS = {"true": 1, "false": 0}

MISSING_TEXTS = frozenset(
    {
        "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
        "NULL", "NaN", "None", "n/a", "nan", "null",
    }
)  # fmt: skip
"""Text for missing values in every domain: what `pandas.read_csv` converts by default."""

Markers = Set[str]
"""Text for missing values."""


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas.NA, without importing pandas."""
    if value is None or type(value).__name__ == "NAType":
        return True
    try:
        return value.is_nan() if isinstance(value, Decimal) else bool(value != value)  # noqa: PLR0124 -- true of NaN
    except Exception:  # noqa: BLE001 -- __ne__ of a private value may raise anything
        return False


def is_marker(value: Any, missing: Markers) -> bool:
    """Return whether a value is text for a missing value, ignoring outer spaces."""
    return isinstance(value, str) and str.strip(value) in missing


def is_number(value: Any) -> bool:
    """Return whether a value is a real number or a Boolean."""
    return isinstance(value, (float, int, Real, np.bool_, Decimal)) and not isinstance(value, np.timedelta64)


def canonical_number(number: Any) -> int | float:
    """Return the nearest float64 of a number, as an integer if it is whole."""
    try:
        nearest = float(number)
    except OverflowError:
        nearest = math.inf if number > 0 else -math.inf
    return int(nearest) if nearest.is_integer() else nearest


def spelled_number(text: str) -> int | float | None:
    """Return the canonical form of the number or Boolean that text represents, or None."""
    text = text.strip()
    return canonical_number(text) if _NUMBER.fullmatch(text) else _BOOLEANS.get(text.lower())


def spelled_value(text: str) -> str | int | float | None:
    """Return the canonical form of the number or date that text represents, or None."""
    text = text.strip()
    number = spelled_number(text)
    return number if number is not None or not text[:1].isdigit() else moment_text(moment_of_text(text))


def canonical_value(value: Any) -> Any:
    """Return the canonical form of a value, or None if it is missing. Methods of the value may raise any exception.

    Numbers become their `canonical_number`, and dates text. Text is never converted to a number.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if is_missing(value):
        return None
    if is_number(value):
        return canonical_number(value)
    text = date_text(value)
    return value if text is None else text


def number_of(value: Any) -> float:
    """Return a number, or the number that text represents, as a float, and NaN for any other value."""
    try:
        number = (
            spelled_number(value) if isinstance(value, str) else canonical_number(value) if is_number(value) else None
        )
        return math.nan if number is None else float(number)
    except Exception:  # noqa: BLE001 -- methods of a private value may raise anything
        return math.nan
