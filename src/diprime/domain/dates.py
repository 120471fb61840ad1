"""`Date`: the public facts about a column of dates or times, which becomes one coded feature or several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from diprime.domain import moments
from diprime.domain.codes import CELLS, MISSING, first_of_groups
from diprime.domain.features import short
from diprime.domain.moments import DAY, HOUR, MINUTE, NEVER, SECOND, Moments

PartName = Literal["weekday", "month", "hour"]
PARTS: tuple[PartName, ...] = get_args(PartName)
"""The parts of a date, in the order of their codes."""

Bound = date | str | None
"""A bound as it may be given; it is kept as a date or a datetime."""

_LABELS: dict[str, tuple[str, ...]] = {
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "month": (
        "January", "February", "March", "April", "May", "June",
        "July", "August", "September", "October", "November", "December",
    ),
    "hour": tuple(map(str, range(24))),
}  # fmt: skip
_CODES = {"weekday": moments.weekday, "month": moments.month, "hour": moments.hour}
_UNITS = (DAY, HOUR, MINUTE, SECOND, 1)


@dataclass(frozen=True)
class DatePart:
    """A coded feature that a `Date` gives: the weekday, the month or the hour, in the order of the calendar.

    Attributes
    ----------
    name : {"weekday", "month", "hour"}
        The part.
    labels : tuple of str
        The name of each cell.
    n_cells : int
        The number of cells.
    """

    name: PartName

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each cell."""
        return _LABELS[self.name]

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.labels)

    def codes(self, of: Moments) -> npt.NDArray[np.uint8]:
        """Return the codes of moments."""
        return _with_missing(_CODES[self.name](of), of)


@dataclass(frozen=True, repr=False)
class Date:
    """A feature of dates or times: in their order, with a public range, and as parts of the calendar.

    Every column of dates gives one coded feature for the order, of the column's name, if there is a range, and one for
    each part, such as ``when.hour``. A value is a date, a datetime or a text in the format of ISO 8601. What cannot be
    read as one of these is a missing value. A time zone is left out: what counts is the date and the time that are
    written, wherever that was.

    Parameters
    ----------
    low, high : date, datetime or str, optional
        The public range; text is in the format of ISO 8601. A `high` without a time includes that day. Dates outside
        are clamped to it, but their parts are not. Choose it from prior knowledge, never from the data. Without a range
        there are parts only.
    parts : sequence of {"weekday", "month", "hour"}, default=()
        The parts of the calendar that become features of their own.

    Attributes
    ----------
    thresholds : ndarray of int64
        The first moment of every cell of the order but the first, in microseconds since 1970. There are 255 cells of
        equal width, up to a day, an hour, a minute or a second: the largest of these of which the range has as many.
    n_cells : int
        The number of cells of the order, ``len(thresholds) + 1``.

    Examples
    --------
    >>> when = Date("2012-10-02", "2018-09-30", parts=["weekday", "hour"])
    >>> when.n_cells
    255
    >>> list(when.coded("when"))
    ['when', 'when.weekday', 'when.hour']
    >>> Date(parts=["month"])
    Date(parts=['month'])
    """

    low: Bound = None
    high: Bound = None
    parts: Sequence[PartName] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _read_bound(getattr(self, name), name))
        object.__setattr__(self, "parts", _checked_parts(self.parts))
        if (self.low is None) != (self.high is None):
            raise ValueError("only one of low and high is given; give both, or parts alone.")
        if self.low is None and not self.parts:
            raise ValueError("there is neither a range nor a part; write for example Date('2020-01-01', '2029-12-31').")
        if self.has_range and not self.first_moment < self.last_moment:
            raise ValueError(f"low = {self.low} is not below high = {self.high}; give low < high.")

    def __repr__(self) -> str:
        texts = [repr(str(bound)) for bound in (self.low, self.high) if bound is not None]
        if self.parts:
            texts.append(f"parts={list(self.parts)}")
        return f"Date({', '.join(texts)})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("low", "high", "parts")}  # not the cached thresholds

    @classmethod
    def covering(cls, first: int, last: int, parts: Sequence[PartName] = ()) -> Date:
        """Return the feature whose range is that of whole days from one moment, in microseconds since 1970, to another.

        Parameters
        ----------
        first, last : int
            The moments; those before the year 1 or after 9999 are moved into these years.
        parts : sequence of {"weekday", "month", "hour"}, default=()
            The parts.
        """
        earliest, latest = moments.of_date(date.min), moments.of_date(date.max)
        low, high = (moments.to_datetime(min(max(m, earliest), latest)).date() for m in (first, last))
        return cls(low, high, parts=parts)

    @property
    def has_range(self) -> bool:
        """Whether there is a range, and so a coded feature for the order of the dates."""
        return self.low is not None

    @property
    def first_moment(self) -> int:
        """The beginning of the range, in microseconds since 1970."""
        assert isinstance(self.low, date)
        return moments.of_date(self.low)

    @property
    def last_moment(self) -> int:
        """The end of the range, which belongs to it."""
        assert isinstance(self.high, date)
        return moments.of_date(self.high) + (0 if isinstance(self.high, datetime) else DAY - 1)

    @cached_property
    def unit(self) -> int:
        """The width of what cells are made of, in microseconds: a day, an hour, a minute, a second or one."""
        return next((unit for unit in _UNITS if self._n_units(unit) >= CELLS), 1)

    @cached_property
    def thresholds(self) -> npt.NDArray[np.int64]:
        """The first moment of every cell but the first."""
        first = self.first_moment // self.unit
        starts = first_of_groups(self._n_units(self.unit), CELLS)
        result = np.array([(first + start) * self.unit for start in starts], dtype=np.int64)
        result.flags.writeable = False
        return result

    @property
    def is_open(self) -> bool:
        """Whether the range is still to be learnt: never."""
        return False

    @property
    def n_cells(self) -> int:
        """The number of cells of the order."""
        return len(self.thresholds) + 1

    def _n_units(self, unit: int) -> int:
        return self.last_moment // unit - self.first_moment // unit + 1

    def coded(self, name: str) -> dict[str, Date | DatePart]:
        """Return the coded features of a column of this name."""
        order: dict[str, Date | DatePart] = {name: self} if self.has_range else {}
        return order | {f"{name}.{part}": DatePart(part) for part in self.parts}

    def codes(self, of: Moments) -> npt.NDArray[np.uint8]:
        """Return the codes of moments in the order of the dates."""
        return _with_missing(np.searchsorted(self.thresholds, of, side="right"), of)


def _with_missing(codes: npt.NDArray[np.int64], of: Moments) -> npt.NDArray[np.uint8]:
    return np.where(of == NEVER, MISSING, codes).astype(np.uint8)


def _read_bound(value: Any, name: str) -> date:
    if isinstance(value, str):
        moment = moments.of_text(value)
        if moment == NEVER:
            raise ValueError(f"{name} = {short(value)} is not a date; write for example '2020-12-31'.")
        result = moments.to_datetime(moment)
        return result if ":" in value else result.date()
    if not isinstance(value, date) or value != value:  # noqa: PLR0124 -- NaT of pandas is not equal to itself
        raise ValueError(
            f"{name} = {short(value)} is not a date; give a date, a datetime or text such as '2020-12-31'."
        )
    # A plain datetime, which subclasses need not be, and without a time zone.
    return moments.to_datetime(moments.of_date(value)) if isinstance(value, datetime) else value


def _checked_parts(parts: Any) -> tuple[PartName, ...]:
    if isinstance(parts, (str, bytes)) or not isinstance(parts, Iterable):
        raise ValueError(f"parts = {short(parts)} is not a list of parts; give for example ['weekday', 'hour'].")
    given = list(parts)
    for part in given:
        if part not in PARTS:
            raise ValueError(f"parts has {short(part)}, which is unknown; use {', '.join(PARTS)}.")
    return tuple(part for part in PARTS if part in given)
