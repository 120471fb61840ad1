"""Two computations that read data without noise: inferring a domain, and counting the values outside a domain.

Neither is private. Their results are for the data holder only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain.columns import Array, Column, ColumnTable, python_value, read_table, read_target, row_blocks
from diprime.domain.encoding import ABSENT, EXACT, UNLISTED, Task, category_index, match_columns
from diprime.domain.features import (
    PARTS,
    Categorical,
    Date,
    DatePart,
    Feature,
    Integer,
    Numeric,
    PartName,
    Target,
    bounds,
    short,
)
from diprime.domain.records import (
    MAX_RECORDS,
    MIXED_GROUPS,
    NO_PERSONS,
    Collect,
    DrawnPart,
    PersonDigests,
    Persons,
    Records,
    are_known,
    check_lengths,
    sorted_by_person,
)
from diprime.domain.values import MISSING_DATE, Markers, Moments, canonical_value, is_marker, is_missing, is_number

_MAX_BOUND = 8e307  # the difference of two bounds of this magnitude is finite
_MIN_WIDTH = 1e-300  # a narrower range is widened
NO_CATEGORY = "all values are missing"
"""The only category of a feature that is inferred from a column without values."""
_DATES = (date, np.datetime64)


def infer(X: Any, y: Any, task: Task, missing: Markers) -> tuple[dict[str, Feature], Target]:
    """Return the inferred features and target of `Domain.infer`."""
    if task not in ("classification", "regression"):
        raise ValueError(f"task must be 'classification' or 'regression', got {short(task)}.")
    table = read_table(X)
    shape = (table.n_rows, table.n_columns)
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if not count:
            raise ValueError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")
    target = read_target(y)
    check_lengths(table.n_rows, target.n_rows)
    names = table.names or [f"x{j}" for j in range(table.n_columns)]
    features = {name: _infer_feature(table.column(j), missing) for j, name in enumerate(names)}
    if task == "classification":
        return features, _infer_classes(target)
    target.check_numeric("y")
    return features, _covering(target, _checked_finite)


def _infer_feature(column: Column, missing: Markers) -> Feature:
    if column.boolean:
        return Categorical([False, True])
    if column.declared and column.labels is not None:
        return Categorical(column.labels or [NO_CATEGORY])
    if column.kind == "date" or (column.kind == "object" and _holds_dates(column, missing)):
        return _date_covering(column)
    if column.integer:
        return _integer_covering(column)
    if column.kind == "number" or (column.kind == "object" and _holds_numbers(column, missing)):
        return _covering(column, _finite_only)
    categories = [category for category in _distinct(column) if not is_marker(category, missing)]
    return Categorical(categories or [NO_CATEGORY])


def _infer_classes(column: Column) -> Categorical:
    for a, b in row_blocks(0, column.n_rows):
        if column.kind == "number":
            _checked_finite(column.floats(a, b))
            continue
        values = [v for v in column.values(a, b) if type(v) is not str]
        if any(map(is_missing, values)):
            raise ValueError("Input y contains NaN or another missing value. Remove these rows.")
        _checked_finite(np.array([v for v in values if isinstance(v, (float, np.floating))], dtype=np.float64))
    if column.declared and column.labels:
        return Categorical(column.labels)
    classes = _distinct(column)
    if not classes:
        raise ValueError("Input y contains no hashable class label. Use strings or numbers as labels.")
    return Categorical(classes)


def _present_values(column: Column, missing: Markers) -> Iterator[Any]:
    for a, b in row_blocks(0, column.n_rows):
        yield from (v for v in column.values(a, b) if not (is_missing(v) or is_marker(v, missing)))


def _holds_numbers(column: Column, missing: Markers) -> bool:
    """Return whether a column of objects contains only numbers and missing values."""
    return all(is_number(v) and not isinstance(v, bool) for v in _present_values(column, missing))


def _holds_dates(column: Column, missing: Markers) -> bool:
    """Return whether a column of objects contains only dates and missing values, and at least one date."""
    present = _present_values(column, missing)
    return isinstance(next(present, None), _DATES) and all(isinstance(v, _DATES) for v in present)


class ObservedDates:
    """Range of observed dates, and the parts in which they differ."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self._codes: dict[PartName, set[int]] = {part: set() for part in PARTS}

    def update(self, seen: Moments) -> None:
        """Add moments, ignoring missing ones."""
        present = seen[seen != MISSING_DATE]
        if len(present):
            first, last = int(present.min()), int(present.max())
            self.first = first if self.first is None else min(self.first, first)
            self.last = last if self.last is None else max(self.last, last)
            for part, codes in self._codes.items():
                codes.update(DatePart(part).codes(present).tolist())

    @property
    def parts(self) -> list[PartName]:
        """Parts in which the dates differ."""
        return [part for part, codes in self._codes.items() if len(codes) > 1]


def _date_covering(column: Column) -> Date:
    """Return a feature that covers the days of a column, with the parts in which its values differ."""
    seen, read = ObservedDates(), column.moment_reader()
    for a, b in row_blocks(0, column.n_rows):
        seen.update(read(a, b))
    return Date.covering(seen.first or 0, seen.last or 0, seen.parts)


def _integer_covering(column: Column) -> Integer | Numeric:
    covering = _covering(column, _finite_only)
    low, high = (math.floor(bound) for bound in bounds(covering))
    return Integer(low, max(high, low + 1)) if max(abs(low), abs(high)) < EXACT else covering


def _finite_only(values: Array) -> Array:
    if math.isfinite(values.max()) and math.isfinite(values.min()):  # usually true, which avoids a copy
        return values
    return np.asarray(values[np.isfinite(values)])


def _checked_finite(values: Array) -> Array:
    if np.isnan(values).any():
        raise ValueError("Input y contains NaN, or values that are not numbers; leave those rows out.")
    if np.isinf(values).any():
        raise ValueError("Input y contains infinity or a value too large for float64; leave those rows out.")
    return values


def _covering(column: Column, select: Callable[[Array], Array]) -> Numeric:
    """Return a feature that covers the values. A range that `Numeric` would refuse is adjusted."""
    low, high = math.inf, -math.inf
    for a, b in row_blocks(0, column.n_rows):
        values = select(column.floats(a, b))
        low = min(low, float(values.min(initial=math.inf)))
        high = max(high, float(values.max(initial=-math.inf)))
    if low > high:
        return Numeric(0, 1)
    low, high = (min(max(bound, -_MAX_BOUND), _MAX_BOUND) for bound in (low, high))
    if high - low < _MIN_WIDTH:
        half = max(1.0, abs(low)) / 2
        low, high = max(low - half, -_MAX_BOUND), min(high + half, _MAX_BOUND)
    return Numeric(low, high)


def _distinct(column: Column) -> list[Any]:
    """Return the distinct hashable values, sorted if possible, and otherwise in order of appearance."""
    distinct: dict[Any, Any] = {}
    for a, b in row_blocks(0, column.n_rows):
        values: Iterable[Any] = column.values(a, b)
        if column.kind == "number":
            values = dict.fromkeys(values)  # numbers are hashable, so this cannot fail
        for value in values:
            if not is_missing(value):
                try:
                    distinct.setdefault(canonical_value(value), python_value(value))
                except Exception:  # noqa: BLE001 -- __hash__ may raise anything; such values are encoded as OTHER
                    continue
    try:
        return sorted(distinct.values())
    except Exception:  # noqa: BLE001 -- comparing values of any types may raise anything
        return list(distinct.values())


NUMBERS_OF_RECORDS = (1, 2, 3, 5, 10, 20, 50, MAX_RECORDS)
"""Maximum numbers of records per person that are compared."""


@dataclass
class ColumnCheck:
    """Counts of the values of a column that are outside its domain, by kind."""

    below: int = 0  # numbers or dates outside the range
    above: int = 0
    unlisted: int = 0  # values that are not listed categories
    missing: int = 0
    # Values that a fit considers missing or unlisted: those that are neither numbers nor dates although the column is
    # declared as such, and lists, dicts and bytes among categories.
    unreadable: int = 0

    def __iadd__(self, other: ColumnCheck) -> ColumnCheck:
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)
        return self


@dataclass(frozen=True)
class RecordsKept:
    """Share of the records that a fit uses, for a maximum number of records per person."""

    max_records: int  # maximum number of records per person
    persons: float  # share of the persons whose records are all used
    records: float  # share of the records that are used


class GroupCheck:
    """Numbers of records per person. Records without a person are counted separately."""

    def __init__(self, persons: Persons) -> None:
        known = persons[are_known(persons)]
        _, places, sizes = sorted_by_person(known)
        self._sizes = sizes[places == 0]
        self.n_unknown = len(persons) - len(known)
        self.n_persons, self.n_records = len(self._sizes), len(known)
        self.most = int(self._sizes.max(initial=0))

    def kept(self) -> list[RecordsKept]:
        """Return the shares for several maximum numbers, up to the first that uses all records."""
        enough = next((k for k in NUMBERS_OF_RECORDS if k >= self.most), NUMBERS_OF_RECORDS[-1])
        return [self._kept(k) for k in NUMBERS_OF_RECORDS if k <= enough]

    def _kept(self, max_records: int) -> RecordsKept:
        used = int(np.minimum(self._sizes, max_records).sum())
        whole = int((self._sizes <= max_records).sum())
        return RecordsKept(max_records, whole / max(self.n_persons, 1), used / max(self.n_records, 1))

    def to_dict(self) -> dict[str, Any]:
        """Return all counts as plain data."""
        return {
            "persons": self.n_persons,
            "records": self.n_records,
            "most_records": self.most,
            "records_without_person": self.n_unknown,
            "kept": [asdict(kept) for kept in self.kept()],
        }


@dataclass
class DomainCheck:
    """Counts of the values outside a domain: **not private**, for the data holder only."""

    n_rows: int = 0
    columns: dict[str, ColumnCheck] = field(default_factory=dict)  # by feature
    target: ColumnCheck | None = None  # of the target, if given
    persons: GroupCheck | None = None  # numbers of records per person, if there are groups

    def __iadd__(self, other: DomainCheck) -> DomainCheck:
        self.n_rows += other.n_rows
        for name, column in other.columns.items():
            found = self.columns.setdefault(name, ColumnCheck())
            found += column
        if other.target is not None:
            self.target = self.target or ColumnCheck()
            self.target += other.target
        return self

    def __str__(self) -> str:
        of_target = {} if self.target is None else {"the target": self.target}
        lines = [
            f"{name}: {', '.join(counts)}"
            for name, column in {**self.columns, **of_target}.items()
            if (counts := [f"{count:,} {kind}" for kind, count in asdict(column).items() if count])
        ]
        return "\n".join([f"{self.n_rows:,} rows, outside the domain:", *(lines or ["nothing"])])


@dataclass(frozen=True)
class CheckTally:
    """Tally of the values outside a domain, of the digests of ids and of their kind."""

    features: Mapping[str, Feature]
    target: Target
    missing: Markers
    digests: PersonDigests | None  # None without ids

    def __call__(self, batches: Iterable[Records], drawn: DrawnPart | None) -> tuple[DomainCheck, Persons, str | None]:
        """Return the counts of a part, and the digests and the kind of its ids."""
        found, persons = DomainCheck(), [NO_PERSONS]
        for X, y, groups in batches:
            table = read_table(X)
            target = None if y is None else check_column(read_target(y), self.target, self.missing, "y")
            if (groups is None) != (self.digests is None):
                raise ValueError(MIXED_GROUPS)
            if self.digests is not None:
                persons.append(self.digests.encode(groups))
            found += DomainCheck(table.n_rows, check_table(self.features, table, self.missing), target)
        return found, np.concatenate(persons), None if self.digests is None else self.digests.kind


def check_records(collect: Collect, tally: CheckTally) -> DomainCheck:
    """Return the counts of a tally over all records."""
    parts = collect(tally)
    found = DomainCheck()
    for of_part, _, _ in parts:
        found += of_part
    if tally.digests is not None:
        for _, _, kind in parts:
            tally.digests.check_kind(kind)
        found.persons = GroupCheck(np.concatenate([persons for _, persons, _ in parts]))
    return found


def check_table(features: Mapping[str, Feature], table: ColumnTable, missing: Markers) -> dict[str, ColumnCheck]:
    """Return the counts of every feature. Columns are matched as in a fit."""
    column = match_columns(list(features), table)
    return {
        name: check_column(column(j), feature, missing, f"Feature {name!r}")
        for j, (name, feature) in enumerate(features.items())
    }


def check_column(column: Column, feature: Feature | Target, missing: Markers, where: str) -> ColumnCheck:
    """Return the counts of one column, and refuse the dtypes that a fit refuses."""
    if isinstance(feature, Categorical):
        find = category_index(feature, missing).finder(column, where)
        check = ColumnCheck()
        for rows in row_blocks(0, column.n_rows):
            positions = find(*rows)
            unreadable = _count(column, rows, positions == UNLISTED, _is_container)
            unlisted = int((positions == UNLISTED).sum()) - unreadable
            check += ColumnCheck(unlisted=unlisted, missing=int((positions == ABSENT).sum()), unreadable=unreadable)
        return check

    def is_present(value: Any) -> bool:
        return not (is_missing(value) or is_marker(value, missing))

    check = ColumnCheck()
    low: float | None = None
    high: float | None = None
    if isinstance(feature, Date):
        column.check_dates(where)
        read: Callable[[int, int], Array] = column.moment_reader()
        if feature.has_range:
            low, high = feature.first_moment, feature.last_moment
    else:
        column.check_numeric(where)
        read, low, high = column.floats, feature.low, feature.high
    for rows in row_blocks(0, column.n_rows):
        found = read(*rows)
        absent = found == MISSING_DATE if isinstance(feature, Date) else np.isnan(found)
        unreadable = _count(column, rows, absent, is_present)
        check += ColumnCheck(
            below=0 if low is None else int((~absent & (found < low)).sum()),
            above=0 if high is None else int((~absent & (found > high)).sum()),
            missing=int(absent.sum()) - unreadable,
            unreadable=unreadable,
        )
    return check


def _count(column: Column, rows: tuple[int, int], lost: npt.NDArray[np.bool_], counts: Callable[[Any], bool]) -> int:
    """Count the ``lost`` values, those without a code of their own, for which ``counts`` is true."""
    if column.kind in ("number", "date") or not lost.any():
        return 0
    return sum(map(counts, compress(column.values(*rows), lost)))


def _is_container(value: Any) -> bool:
    return hasattr(type(value), "__iter__") and not isinstance(value, str)
