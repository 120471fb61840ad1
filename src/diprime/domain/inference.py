"""A domain's features and target, read from the data. The result reveals values: nothing here is private."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np

from diprime.domain import moments
from diprime.domain.dates import PARTS, Date, DatePart, PartName
from diprime.domain.features import Categorical, Numeric, bounds, short
from diprime.domain.integers import Integer
from diprime.domain.kinds import Feature, Target
from diprime.domain.levels import EXACT
from diprime.domain.tables import Array, Column, is_missing, python_value, read_table, read_target, row_blocks
from diprime.domain.target_layout import Task

_MAX_BOUND = 8e307  # the difference of two bounds of this magnitude is finite
_MIN_WIDTH = 1e-300  # a narrower range is widened


def infer(X: Any, y: Any, task: Task) -> tuple[dict[str, Feature], Target]:
    """Return the features and the target of `Domain.infer`."""
    if task not in ("classification", "regression"):
        raise ValueError(f"task = {short(task)} is unknown; use 'classification' or 'regression'.")
    table = read_table(X)
    shape = (table.n_rows, table.n_columns)
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if not count:
            raise ValueError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")
    target = read_target(y)
    if target.n_rows != table.n_rows:
        counts = [table.n_rows, target.n_rows]
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {counts}.")
    names = table.names or [f"x{j}" for j in range(table.n_columns)]
    features = {name: _infer_feature(table.column(j)) for j, name in enumerate(names)}
    return features, _infer_classes(target) if task == "classification" else _infer_range(target)


def _infer_feature(column: Column) -> Feature:
    if column.boolean:
        return Categorical([False, True])
    if column.declared and column.labels is not None:
        return Categorical(column.labels or [""])
    if column.kind == "date" or (column.kind == "object" and _holds_dates(column)):
        return _date_covering(column)
    if column.kind == "number" and "int" in column.dtype.lower():
        return _integer_covering(column)
    if column.kind == "number" or (column.kind == "object" and _holds_numbers(column)):
        return _numeric_covering(_finite_only(column.floats(a, b)) for a, b in row_blocks(0, column.n_rows))
    return Categorical(_distinct(column) or [""])


def _infer_classes(column: Column) -> Categorical:
    for a, b in row_blocks(0, column.n_rows):
        if column.kind == "number":
            _checked_finite(column.floats(a, b))
            continue
        values = [v for v in column.values(a, b) if type(v) is not str]
        if any(map(is_missing, values)):
            raise ValueError("Input y contains NaN or another missing value; leave those rows out.")
        _checked_finite(np.array([v for v in values if isinstance(v, (float, np.floating))], dtype=np.float64))
    if column.declared and column.labels:
        return Categorical(column.labels)
    classes = _distinct(column)
    if not classes:
        raise ValueError("Input y contains no hashable value; give class labels that are strings or numbers.")
    return Categorical(classes)


def _infer_range(column: Column) -> Numeric:
    column.check_numeric("y")
    return _numeric_covering(_checked_finite(column.floats(a, b)) for a, b in row_blocks(0, column.n_rows))


def _holds_numbers(column: Column) -> bool:
    """Return whether a column of objects holds only numbers and missing values."""
    numbers = (int, float, np.integer, np.floating, Decimal)
    for a, b in row_blocks(0, column.n_rows):
        for v in column.values(a, b):
            if isinstance(v, bool) or not (isinstance(v, numbers) or is_missing(v)):
                return False
    return True


def _holds_dates(column: Column) -> bool:
    """Return whether a column of objects holds only dates and missing values, and at least one date."""
    found = False
    for a, b in row_blocks(0, column.n_rows):
        for v in column.values(a, b):
            if not is_missing(v):
                found = True
                if not isinstance(v, (date, np.datetime64)):
                    return False
    return found


class SeenDates:
    """The range of dates that were seen, and the parts in which they differ.

    Attributes
    ----------
    first, last : int or None
        The first and the last moment; None before any was seen.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self._codes: dict[PartName, set[int]] = {part: set() for part in PARTS}

    def update(self, seen: moments.Moments) -> None:
        """Add moments; missing ones are left out."""
        present = seen[seen != moments.NEVER]
        if len(present):
            first, last = int(present.min()), int(present.max())
            self.first = first if self.first is None else min(self.first, first)
            self.last = last if self.last is None else max(self.last, last)
            for part, codes in self._codes.items():
                codes.update(DatePart(part).codes(present).tolist())

    @property
    def parts(self) -> list[PartName]:
        """The parts in which the dates differ."""
        return [part for part, codes in self._codes.items() if len(codes) > 1]


def _date_covering(column: Column) -> Date:
    """Return a feature over the days of a column, with the parts in which its values differ."""
    seen, read = SeenDates(), column.moment_reader()
    for a, b in row_blocks(0, column.n_rows):
        seen.update(read(a, b))
    return Date.covering(seen.first or 0, seen.last or 0, seen.parts)


def _integer_covering(column: Column) -> Integer | Numeric:
    covering = _numeric_covering(_finite_only(column.floats(a, b)) for a, b in row_blocks(0, column.n_rows))
    low, high = (math.floor(bound) for bound in bounds(covering))
    return Integer(low, max(high, low + 1)) if max(abs(low), abs(high)) < EXACT else covering


def _finite_only(values: Array) -> Array:
    if math.isfinite(values.max()) and math.isfinite(values.min()):  # the usual case, without a copy
        return values
    return np.asarray(values[np.isfinite(values)])


def _checked_finite(values: Array) -> Array:
    if np.isnan(values).any():
        raise ValueError("Input y contains NaN, or values that are not numbers; leave those rows out.")
    if np.isinf(values).any():
        raise ValueError("Input y contains infinity or a value too large for float64; leave those rows out.")
    return values


def _numeric_covering(blocks: Iterable[Array]) -> Numeric:
    """Return a feature that covers the values; an observed range that `Numeric` would refuse is adjusted."""
    low, high = math.inf, -math.inf
    for values in blocks:
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
    """Return the distinct hashable values, sorted if they can be compared, else in order of appearance."""
    distinct: dict[Any, None] = {}
    for a, b in row_blocks(0, column.n_rows):
        values: Iterable[Any] = column.values(a, b)
        if column.kind == "number":
            values = dict.fromkeys(values)  # numbers are hashable
        for value in values:
            if not is_missing(value):
                try:
                    distinct.setdefault(python_value(value))
                except Exception:  # noqa: BLE001 -- __hash__ may raise anything; such a value is encoded as OTHER
                    continue
    try:
        return sorted(distinct)
    except Exception:  # noqa: BLE001 -- comparison of values of any types may raise anything
        return list(distinct)
