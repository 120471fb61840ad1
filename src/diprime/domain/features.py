"""Numeric, integer, categorical and date features: public facts about one column, and the codes of its values."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Context, Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from diprime.domain.columns import python_value
from diprime.domain.values import (
    DAY,
    HOUR,
    MINUTE,
    MISSING_DATE,
    MISSING_TEXTS,
    SECOND,
    Moments,
    canonical_value,
    hours_of,
    moment_of_date,
    moment_of_text,
    months_of,
    spelled_number,
    to_datetime,
    weekdays_of,
)
from diprime.kernels.constants import CELLS, MISSING, N_CODES, OTHER

__all__ = ["BUCKETS", "CELLS", "MISSING", "N_CODES", "OTHER", "TARGET_UNITS"]

TARGET_UNITS = 4096
"""Code of the upper bound of a numeric target. The lower bound has code 0."""
BUCKETS = OTHER
"""Number of codes for the values of a categorical feature. If it lists more categories, some share a code."""

_LOG_SPAN = 1_000_000  # a log scale from a low that is not positive covers six decades
_DECIMAL = Context(prec=50)

_Floats = npt.NDArray[np.float64]

MAX_LISTED = 10
"""Maximum number of names or categories in a message or representation."""
_MAX_REPR_LENGTH = 60
_MAX_WHOLE = 1e15  # larger integers are easier to read in scientific notation

MAX_BITS = 63
"""Maximum number of bits of integer bounds, without the sign, because larger ones cannot be written to TOML."""

PartName = Literal["weekday", "month", "hour"]
PARTS: tuple[PartName, ...] = get_args(PartName)
"""Parts of a date, in the order of their codes."""
Bound = date | str | None
"""Type of a given bound, which is stored as a date or a datetime."""
_LABELS: dict[str, tuple[str, ...]] = {
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "month": (
        "January", "February", "March", "April", "May", "June",
        "July", "August", "September", "October", "November", "December",
    ),
    "hour": tuple(map(str, range(24))),
}  # fmt: skip
_CODES = {"weekday": weekdays_of, "month": months_of, "hour": hours_of}
_UNITS = (DAY, HOUR, MINUTE, SECOND, 1)


def cells_per_unit(low: float, high: float) -> float:
    """Return the factor in the kernels' formula: the bin of x is ``(x - low) * cells_per_unit``, truncated."""
    return CELLS / (high - low)


def linear_thresholds(low: float, high: float) -> _Floats:
    """Find the smallest float64 of every bin except the first, by bisection.

    The kernels' formula is monotone in x even after rounding. Evaluating it finds the ends of bins exactly, whereas
    inverting it would not.
    """
    inverse = cells_per_unit(low, high)
    wanted = np.arange(1, CELLS, dtype=np.float64)
    below: npt.NDArray[np.int64] = np.full(CELLS - 1, _float_to_rank(low))
    above: npt.NDArray[np.int64] = np.full(CELLS - 1, _float_to_rank(high))
    for _ in range(64):  # one step for each bit of a rank
        middle = (below >> 1) + (above >> 1) + (below & above & 1)  # below + above may overflow int64
        reached = (_rank_to_float(middle) - low) * inverse >= wanted
        above = np.where(reached, middle, above)
        below = np.where(reached, below, middle)
    return _rank_to_float(above) + 0.0


def log_thresholds(low: float, high: float) -> _Floats:
    """Compute geometric thresholds in decimal arithmetic, which gives the same bits on every machine."""
    c = _DECIMAL
    bottom, top = Decimal(low), Decimal(high)
    ratio = c.divide(top, bottom) if low > 0 else Decimal(_LOG_SPAN + 1)
    step = c.exp(c.divide(c.ln(ratio), Decimal(CELLS)))
    powers = [step]
    while len(powers) < CELLS - 1:
        powers.append(c.multiply(powers[-1], step))
    if low > 0:
        exact = [c.multiply(bottom, p) for p in powers]
    else:
        unit = c.divide(c.subtract(top, bottom), Decimal(_LOG_SPAN))
        exact = [c.add(bottom, c.multiply(unit, c.subtract(p, Decimal(1)))) for p in powers]
    return np.array([float(e) for e in exact]) + 0.0


def first_of_groups(n: int, n_groups: int) -> list[int]:
    """Divide ``range(n)`` into up to n_groups of almost equal size, and return the first of each except the first."""
    n_groups = min(n, n_groups)
    return [-(-i * n // n_groups) for i in range(1, n_groups)]


def _float_to_rank(value: float) -> int:
    """Return the rank of a float among all float64 values. Zero has rank 0, and adjacent floats differ by one."""
    bits = int(np.array(abs(value), dtype=np.float64).view(np.int64))
    return bits if value >= 0 else -bits


def _rank_to_float(rank: npt.NDArray[np.int64]) -> _Floats:
    """Return the float of a rank: the inverse of `_float_to_rank`."""
    magnitude = np.abs(rank).view(np.float64)
    return np.where(rank < 0, -magnitude, magnitude)


@dataclass(frozen=True, repr=False)
class Numeric:
    """A numeric feature or target, with its public range.

    Parameters
    ----------
    low, high : float, optional
        Public range, ``low < high``. Numbers outside it are clipped. Choose it from prior knowledge, never from the
        data. ``Numeric()``, without a range and without `edges`, is undeclared: its range is learnt privately.
    scale : {"linear", "log"}, default="linear"
        Whether the 255 bins have equal widths or form a geometric sequence. If `low` is not positive, the bins of a log
        scale have equal widths in ``log1p(1e6 * (x - low) / (high - low))``, which covers six decades.
    edges : sequence of float, optional
        1 to 254 strictly increasing edges between the bins, instead of a scale. `low` and `high` are then optional and
        do not affect the codes.

    Examples
    --------
    >>> age = Numeric(0, 255)
    >>> age.n_cells, age.thresholds[:3].tolist()
    (255, [1.0, 2.0, 3.0])
    >>> Numeric(edges=[0, 18, 65]).n_cells
    4
    >>> Numeric(0, 1e6, scale="log")
    Numeric(0, 1000000, scale='log')
    """

    low: float | None = None
    high: float | None = None
    scale: str = field(default="linear", kw_only=True)
    edges: Sequence[float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _finite(getattr(self, name), name))
        if self.scale not in ("linear", "log"):
            raise ValueError(f"scale must be 'linear' or 'log', got {short(self.scale)}. Alternatively, pass edges.")
        if self.edges is not None:
            object.__setattr__(self, "edges", _checked_edges(self.edges))
            if self.scale != "linear":
                raise ValueError(
                    "edges cannot be combined with scale='log', because the edges alone determine the bins."
                )
        elif (self.low is None) is not (self.high is None):
            raise ValueError("Numeric requires low and high, or edges, for example Numeric(0, 100).")
        if self.low is not None and self.high is not None:
            _check_range(self.low, self.high, is_linear=self.edges is None and self.scale == "linear")

    def __repr__(self) -> str:
        parts = ["None" if b is None else str(int_if_whole(b)) for b in (self.low, self.high)]
        parts = [] if self.low is None and self.high is None else parts
        if self.edges is not None:
            parts.append(f"edges=[{', '.join(str(int_if_whole(e)) for e in self.edges)}]")
        if self.scale != "linear":
            parts.append(f"scale={self.scale!r}")
        return f"Numeric({', '.join(parts)})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("low", "high", "scale", "edges")}  # not the cached thresholds

    @property
    def is_undeclared(self) -> bool:
        """Whether the range is undeclared."""
        return self.low is None and self.edges is None

    @property
    def n_cells(self) -> int:
        """The number of bins."""
        return CELLS if self.edges is None else len(self.edges) + 1

    @cached_property
    def thresholds(self) -> npt.NDArray[np.float64]:
        """The smallest float64 of every bin but the first: the code of x is the number of thresholds at or below x.

        Thresholds are sorted, and are repeated only if the range contains too few floats.
        """
        if self.is_undeclared:
            raise ValueError(
                "The range is undeclared. Learn it with Domain.learn, or declare it, for example Numeric(0, 100)."
            )
        if self.edges is not None:
            result = np.array(self.edges, dtype=np.float64)
        else:
            result = (log_thresholds if self.scale == "log" else linear_thresholds)(*bounds(self))
        result.flags.writeable = False
        return result


@dataclass(frozen=True, init=False, repr=False)
class Categorical:
    """A categorical feature or target, with its public categories.

    Parameters
    ----------
    categories : sequence of hashable, optional
        Categories in order, each of them once. ``None`` and NaN are missing values, not categories. Categories are
        compared by value: 1, 1.0 and True are the same category, and so are a date and its text. Numbers are rounded to
        float64 first, so 2**53 and 2**53 + 1 are the same category. ``Categorical()`` is undeclared: its categories are
        learnt privately.
    n_buckets : int, optional
        Number of hash buckets, at most 254, instead of categories. A public hash function assigns each value to a
        bucket, so the values need not be known. The categories are then "bucket 0", "bucket 1", and so on. A target
        cannot use buckets.

    Examples
    --------
    >>> Categorical(["F", "M"]).n_codes
    2
    >>> Categorical(range(1000)).n_codes
    254
    >>> Categorical(n_buckets=64).n_codes
    64
    """

    categories: tuple[Hashable, ...]
    n_buckets: int | None

    def __init__(
        self, categories: Iterable[Hashable] | None = None, *more: Hashable, n_buckets: int | None = None
    ) -> None:
        if more:
            raise TypeError(
                "Categorical requires its categories as one list, for example "
                f"Categorical({short([categories, *more])})."
            )
        object.__setattr__(self, "n_buckets", n_buckets)
        if n_buckets is not None:
            object.__setattr__(self, "categories", _names_of_buckets(categories, n_buckets))
        else:
            object.__setattr__(self, "categories", () if categories is None else _checked_categories(categories))

    def __repr__(self) -> str:
        if self.n_buckets is not None:
            return f"Categorical(n_buckets={self.n_buckets})"
        if self.is_undeclared:
            return "Categorical()"
        shown = [short(v) for v in self.categories[:MAX_LISTED]]
        more = f", ... {len(self.categories)} categories" if len(self.categories) > MAX_LISTED else ""
        return f"Categorical([{', '.join(shown)}{more}])"

    @property
    def is_undeclared(self) -> bool:
        """Whether the categories are undeclared."""
        return not self.categories

    @property
    def n_codes(self) -> int:
        """The number of codes of the categories.

        Category i has code ``i % 254``; a target has one code per class instead. Unlisted categories have code 254, and
        missing values 255.
        """
        return min(len(self.categories), BUCKETS)


def bounds(feature: Numeric) -> tuple[float, float]:
    """Return the range of a feature, which must have one: every feature without edges does."""
    assert feature.low is not None
    assert feature.high is not None
    return feature.low, feature.high


def is_linear(feature: Numeric) -> bool:
    """Return whether the bins of a range have equal widths."""
    return feature.edges is None and feature.scale == "linear"


def linear_formula(feature: object) -> tuple[float, float] | None:
    """Return the lower bound and the bins per unit of a feature with a linear scale, or None for other features."""
    if not isinstance(feature, Numeric) or not is_linear(feature):
        return None
    low, high = bounds(feature)
    return low, cells_per_unit(low, high)


def int_if_whole(number: float) -> int | float:
    """Return a whole number as an integer, unless it is very large."""
    return int(number) if number.is_integer() and abs(number) < _MAX_WHOLE else number


def short(value: object) -> str:
    """Return the representation of a value for an error message, truncated if it is long."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 -- __repr__ may raise anything, as for very long integers
        text = f"a {type(value).__name__}"
    return text if len(text) <= _MAX_REPR_LENGTH else text[: _MAX_REPR_LENGTH - 3] + "..."


def _finite(value: Any, name: str) -> float:
    """Return a bound as a float; -0.0 becomes 0.0."""
    if isinstance(value, (bool, np.bool_, str, bytes)):
        raise ValueError(f"{name} must be a finite number, got {value!r}.")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a finite float64 number, got {short(value)}.") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}. Use the public bound at which values are clipped.")
    return number + 0.0


def _check_range(low: float, high: float, *, is_linear: bool) -> None:
    if not low < high:
        raise ValueError(f"low must be below high, got low={int_if_whole(low)} and high={int_if_whole(high)}.")
    width = high - low
    # The kernels multiply by CELLS / width, which must stay below the largest float.
    if is_linear and (math.isinf(width) or width * sys.float_info.max < 2 * CELLS):
        raise ValueError(
            f"the range from low = {int_if_whole(low)} to high = {int_if_whole(high)} is too "
            f"{'wide' if math.isinf(width) else 'narrow'} for float64 arithmetic; rescale the feature."
        )


def _check_list(values: Any, name: str, kind: str, example: str, others: tuple[type, ...] = ()) -> None:
    """Refuse text, values that are not iterable, and ``others``."""
    if isinstance(values, (str, bytes, *others)) or not isinstance(values, Iterable):
        raise ValueError(f"{name} must be a {kind}, such as {example}, got {short(values)}.")


def _checked_categories(categories: Any) -> tuple[Hashable, ...]:
    _check_list(categories, "categories", "list of categories", "['F', 'M']")
    if isinstance(categories, (set, frozenset)):
        raise ValueError("categories must be a list, because the order of a set changes between runs.")
    result = tuple(python_value(v) for v in categories)
    if not result:
        raise ValueError("categories must contain at least one category.")
    first: dict[Hashable, int] = {}
    for i, category in enumerate(result):
        canonical = canonical_value(category)
        if canonical is None:
            raise ValueError(
                f"categories[{i}] = {short(category)} is a missing value, which always has a code of its own. "
                "Remove it."
            )
        try:
            j = first.setdefault(canonical, i)
        except TypeError:
            raise TypeError(f"categories[{i}] = {short(category)} is not hashable; use strings or numbers.") from None
        if j != i:
            same = "" if repr(category) == repr(result[j]) else f" (both are read as {short(canonical)})"
            raise ValueError(
                f"categories[{i}] = {short(category)} repeats categories[{j}]{same}. List each category once."
            )
    return result


def checked_markers(missing: Any) -> tuple[str, ...]:
    """Return a domain's own texts for missing values, sorted, without those that mean missing in every domain."""
    _check_list(missing, "missing", "list of texts", "['?']")
    texts = list(missing)
    for i, text in enumerate(texts):
        if not isinstance(text, str) or not text.isprintable():
            raise ValueError(f"missing[{i}] must be printable text, such as '?', got {short(text)}.")
        if spelled_number(text) is not None or moment_of_text(text) != MISSING_DATE:
            raise ValueError(
                f"missing[{i}] = {short(text)} spells a number or a date, which readers may convert. Replace such "
                "values in the table."
            )
    return tuple(sorted({text.strip() for text in texts} - MISSING_TEXTS))


def _names_of_buckets(categories: object, n_buckets: Any) -> tuple[str, ...]:
    if categories is not None:
        raise ValueError(
            "categories cannot be combined with n_buckets. Use buckets only for categories that you cannot list."
        )
    if isinstance(n_buckets, bool) or not isinstance(n_buckets, int) or not 1 <= n_buckets <= BUCKETS:
        raise ValueError(f"n_buckets must be an integer from 1 to {BUCKETS}, got {short(n_buckets)}.")
    return tuple(f"bucket {i}" for i in range(n_buckets))


def _checked_edges(edges: Any) -> tuple[float, ...]:
    _check_list(edges, "edges", "sequence of numbers", "[0, 18, 65]", (Mapping, set, frozenset))
    result = tuple(_finite(e, f"edges[{i}]") for i, e in enumerate(edges))
    if not 1 <= len(result) < CELLS:
        raise ValueError(f"edges must have 1 to {CELLS - 1} numbers, got {len(result)}.")
    for i, (a, b) in enumerate(pairwise(result)):
        if not a < b:
            raise ValueError(
                f"edges must be sorted, but edges[{i + 1}] = {int_if_whole(b)} is not above edges[{i}] = "
                f"{int_if_whole(a)}."
            )
    return result


@dataclass(frozen=True, repr=False)
class Integer:
    """An integer feature with its public range. Each value has its own bin if there are at most 255.

    Parameters
    ----------
    low, high : int
        Smallest and largest value, ``low < high``. Numbers outside are clipped. Choose the range from prior knowledge,
        never from the data. Fractions are rounded down, so 6.9 is in the bin of 6.

    Examples
    --------
    >>> hour = Integer(0, 23)
    >>> hour.n_cells, hour.thresholds[:3].tolist()
    (24, [1.0, 2.0, 3.0])
    >>> Integer(0, 1019).first_values[:3]
    (4, 8, 12)
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, _whole(getattr(self, name), name))
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got low={self.low} and high={self.high}.")

    def __repr__(self) -> str:
        return f"Integer({self.low}, {self.high})"

    def __getstate__(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high}  # not the cached thresholds

    @property
    def is_undeclared(self) -> bool:
        """Whether the range is undeclared: always False."""
        return False

    @property
    def n_cells(self) -> int:
        """The number of bins."""
        return min(self.high - self.low + 1, CELLS)

    @property
    def first_values(self) -> tuple[int, ...]:
        """The smallest integer of every bin but the first. Beyond 255 values, bins contain equally many."""
        return tuple(self.low + first for first in first_of_groups(self.high - self.low + 1, CELLS))

    @cached_property
    def thresholds(self) -> npt.NDArray[np.float64]:
        """The first values of bins. Beyond 2^53, the encoding rounds thresholds and values in the same way."""
        result = np.array([float(first) for first in self.first_values])
        result.flags.writeable = False
        return result


def _whole(value: Any, name: str) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{name} must be an integer, got {short(value)}.")
    if not isinstance(value, (int, np.integer)) and not float(value).is_integer():
        raise ValueError(f"{name} must be an integer, got {short(value)}. For fractions, use Numeric.")
    if int(value).bit_length() > MAX_BITS:
        raise ValueError(f"{name} = {short(value)} does not fit into 64 bits. For numbers of this size, use Numeric.")
    return int(value)


@dataclass(frozen=True)
class DatePart:
    """An encoded feature of a `Date`: the weekday, month or hour, in calendar order."""

    name: PartName

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the bins."""
        return _LABELS[self.name]

    @property
    def n_cells(self) -> int:
        """The number of bins."""
        return len(self.labels)

    def codes(self, of: Moments) -> npt.NDArray[np.uint8]:
        """Return the codes of moments."""
        return _with_missing(_CODES[self.name](of), of)


@dataclass(frozen=True, repr=False)
class Date:
    """A feature of dates or times, with a public range, calendar parts, or both.

    With a range, a date column becomes one encoded feature with the name of the column. Each part adds one more, such
    as ``when.hour``. Values are dates, datetimes or ISO 8601 text; all other values are missing. Time zones are
    ignored: nine in the morning is the same time in every zone.

    Parameters
    ----------
    low, high : date, datetime or str, optional
        Public range, as dates or ISO 8601 text. A `high` without a time includes that day. Dates outside are clipped,
        but their parts are not. Choose the range from prior knowledge, never from the data. Without a range, only the
        parts are used. ``Date()``, without a range and parts, is undeclared: its range is learnt privately, and it has
        all parts.
    parts : sequence of {"weekday", "month", "hour"}, default=()
        Calendar parts that become separate features.

    Examples
    --------
    >>> when = Date("2012-10-02", "2018-09-30", parts=["weekday", "hour"])
    >>> when.n_cells
    255
    >>> list(when.encoded_features("when"))
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
            raise ValueError("low and high must both be set. Set both, or only parts.")
        if self.has_range and not self.first_moment < self.last_moment:
            raise ValueError(f"low must be below high, got low={self.low} and high={self.high}.")

    def __repr__(self) -> str:
        texts = [repr(str(bound)) for bound in (self.low, self.high) if bound is not None]
        if self.parts:
            texts.append(f"parts={list(self.parts)}")
        return f"Date({', '.join(texts)})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("low", "high", "parts")}  # not the cached thresholds

    @classmethod
    def covering(cls, first: int, last: int, parts: Sequence[PartName] = ()) -> Date:
        """Return the feature for the days from one moment to another. Both are clipped to the years 1 to 9999."""
        earliest, latest = moment_of_date(date.min), moment_of_date(date.max)
        low, high = (to_datetime(min(max(m, earliest), latest)).date() for m in (first, last))
        return cls(low, high, parts=parts)

    @property
    def has_range(self) -> bool:
        """Whether there is a range. If so, one of the encoded features is the position of the date in this range."""
        return self.low is not None

    @property
    def first_moment(self) -> int:
        """Start of the range, in microseconds since 1970."""
        assert isinstance(self.low, date)
        return moment_of_date(self.low)

    @property
    def last_moment(self) -> int:
        """The end of the range, in microseconds since 1970. It is part of the range."""
        assert isinstance(self.high, date)
        return moment_of_date(self.high) + (0 if isinstance(self.high, datetime) else DAY - 1)

    @cached_property
    def unit(self) -> int:
        """The largest unit that fits into the range at least 255 times: day, hour, minute, second or microsecond."""
        return next((unit for unit in _UNITS if self._n_units(unit) >= CELLS), 1)

    @cached_property
    def thresholds(self) -> npt.NDArray[np.int64]:
        """The first moment of every bin but the first, in microseconds since 1970; bins contain equally many units."""
        first = self.first_moment // self.unit
        starts = first_of_groups(self._n_units(self.unit), CELLS)
        result = np.array([(first + start) * self.unit for start in starts], dtype=np.int64)
        result.flags.writeable = False
        return result

    @property
    def is_undeclared(self) -> bool:
        """Whether the range is undeclared."""
        return not self.has_range and not self.parts

    @property
    def n_cells(self) -> int:
        """The number of bins of the range."""
        return len(self.thresholds) + 1

    def _n_units(self, unit: int) -> int:
        return self.last_moment // unit - self.first_moment // unit + 1

    def encoded_features(self, name: str) -> dict[str, Date | DatePart]:
        """Return the encoded features of a column of the given name."""
        order: dict[str, Date | DatePart] = {name: self} if self.has_range or self.is_undeclared else {}
        return order | {f"{name}.{part}": DatePart(part) for part in (PARTS if self.is_undeclared else self.parts)}

    def codes(self, of: Moments) -> npt.NDArray[np.uint8]:
        """Return the bins of moments in the range."""
        return _with_missing(np.searchsorted(self.thresholds, of, side="right"), of)


def _with_missing(codes: npt.NDArray[np.int64], of: Moments) -> npt.NDArray[np.uint8]:
    return np.where(of == MISSING_DATE, MISSING, codes).astype(np.uint8)


def _read_bound(value: Any, name: str) -> date:
    if isinstance(value, str):
        moment = moment_of_text(value)
        if moment == MISSING_DATE:
            raise ValueError(f"{name} must be a date, such as '2020-12-31', got {short(value)}.")
        result = to_datetime(moment)
        return result if ":" in value else result.date()
    if not isinstance(value, date) or value != value:  # noqa: PLR0124 -- NaT of pandas is not equal to itself
        raise ValueError(f"{name} must be a date, a datetime or text such as '2020-12-31', got {short(value)}.")
    # A plain datetime, which subclasses need not be, and without a time zone.
    return to_datetime(moment_of_date(value)) if isinstance(value, datetime) else value


def _checked_parts(parts: Any) -> tuple[PartName, ...]:
    _check_list(parts, "parts", "list of parts", "['weekday', 'hour']")
    given = list(parts)
    for part in given:
        if part not in PARTS:
            raise ValueError(f"parts must be among {', '.join(PARTS)}, got {short(part)}.")
    return tuple(part for part in PARTS if part in given)


Feature = Numeric | Integer | Date | Categorical
"""Declared feature: public facts about a column."""
Target = Numeric | Categorical
"""Public facts about the target."""
Ordered = Numeric | Integer | Date | DatePart
"""Encoded feature whose codes are ordered bins. It has ``n_cells``."""
Coded = Ordered | Categorical
"""Encoded feature."""


def coded_features(features: Mapping[str, Feature]) -> dict[str, Coded]:
    """Return the encoded features of declared ones, by name, and refuse duplicates, such as two of ``when.hour``."""
    result: dict[str, Coded] = {}
    for name, feature in features.items():
        coded = feature.encoded_features(name) if isinstance(feature, Date) else {name: feature}
        for other in coded:
            if other in result or (other != name and other in features):
                raise ValueError(
                    f"The parts of {name!r} include the feature {other!r}, but another column has this name. Rename "
                    "one of them."
                )
        result |= coded
    return result
