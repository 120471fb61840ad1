"""Drafts of domain files from data, with notes on what a person must review."""

from __future__ import annotations

import math
import re
from calendar import monthrange
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diprime._util import InputError
from diprime.domain import Categorical, Date, Domain, Integer, Numeric, Origin, Task
from diprime.domain.checking import NO_CATEGORY, ObservedDates
from diprime.domain.columns import read_column
from diprime.domain.encoding import EXACT
from diprime.domain.features import BUCKETS, Feature, Target
from diprime.domain.files import REVIEWER_PLACEHOLDER, write_feature
from diprime.domain.values import MISSING_TEXTS, canonical_number, to_datetime
from diprime.sources.data_files import Advance, DataFile
from diprime.sources.data_files.text import (
    as_mask,
    is_text,
    is_text_type,
    plain_type,
    read_dates,
    read_numbers,
    to_number,
)

MAX_COUNTED = 1 << 16
"""Maximum number of distinct values to count; further rows do not influence whether a column looks like a key."""
FEW = 254
"""Number of distinct values up to which a column is never a key."""
MANY_NUMBERS = 1 / 2
"""Share of distinct values above which integers may be keys. Amounts of money are often equally diverse."""
MANY_TEXTS = 1 / 20
"""Share of distinct values above which texts may be keys."""
FREQUENT = 1 / 100
"""Share of rows from which a value is too frequent for a key. Codes and quantities have such values, such as zero."""

_KEY_NAME = re.compile(r"(^|[^a-z])(id|key|guid|nbr|ssn|uuid)$")
_END_OF_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ValueCounts:
    """Counts of the values of a column, updated batch by batch until there are `MAX_COUNTED` distinct values."""

    def __init__(self) -> None:
        self._counts: Counter[Any] = Counter()
        self._n_rows = 0
        self._is_full = False

    def update(self, present: pa.Array) -> None:
        """Add the present values of a batch."""
        if self._is_full:
            return
        self._n_rows += len(present)
        values, counts = present.value_counts().flatten()
        self._counts.update(dict(zip(values.to_pylist(), counts.to_pylist(), strict=True)))
        self._is_full = len(self._counts) > MAX_COUNTED

    @property
    def n_different(self) -> int:
        """The number of distinct values counted."""
        return len(self._counts)

    @property
    def has_frequent(self) -> bool:
        """Whether a value is too frequent for a key."""
        return max(self._counts.values(), default=0) >= max(2, FREQUENT * self._n_rows)

    def are_keys(self, name: str, *, whole_numbers: bool) -> bool:
        """Return whether the values of a column with this name look like identifiers of people or records."""
        if self.n_different <= FEW:
            return False
        if is_name_of_key(name):
            return True
        share = self.n_different / self._n_rows
        if whole_numbers:
            return share > MANY_NUMBERS and not self.has_frequent
        return share > MANY_NUMBERS or (share > MANY_TEXTS and not self.has_frequent)


def is_name_of_key(name: str) -> bool:
    """Return whether a name ends with a word for keys, such as ``patient_id``, ``patientId`` or ``ID``."""
    return _KEY_NAME.search(_END_OF_WORD.sub("_", name).lower()) is not None


MAX_CATEGORIES = BUCKETS
MAX_LISTED = 5
PROPOSED = ("?", "na", "n/a", "nan", "null")
"""Texts, in lower case, that a draft proposes as missing values if they occur."""
MAX_CLASSES = 20  # a target with more distinct integers is drafted as numeric

_HEADER = """\
# Draft of a domain for {name}, inferred from its rows. It reveals facts about them.
# Replace each value that you would not know without these rows by public knowledge.
# Wider ranges and more categories cost a little accuracy, but no privacy.
# A model of this domain is not private until a person has reviewed all of it:
# uncomment the line "reviewed_by" below, and write your name there.
# The ledger and the report of each model contain this name.
# These texts are missing values unless a column lists them: empty cells,
# {missing}.
"""
_SIGNATURE = f'# reviewed_by = "{REVIEWER_PLACEHOLDER}"\n'


_MAX_BOUND = 1e300  # beyond it, a range would be too wide for float64 arithmetic


@dataclass
class ColumnDraft:
    """Summary of a column, updated batch by batch."""

    name: str
    decimal_commas: bool = False  # whether numbers in text may have decimal commas
    is_unsupported: bool = False  # whether the column holds lists, bytes, durations or times without a date
    all_numbers: bool = True  # whether all values are numbers
    low: float = math.inf  # range of the finite numbers
    high: float = -math.inf
    all_whole: bool = True  # whether all finite numbers are integers
    all_dates: bool = True  # whether all values are dates
    dates: ObservedDates = field(default_factory=ObservedDates)  # range of the dates, and the parts that vary
    repeats: ValueCounts = field(default_factory=ValueCounts)  # value counts, unless some numbers are not integers
    markers: set[str] = field(default_factory=set)  # texts read as missing values
    distinct: set[str | int | float | bool] | None = field(default_factory=set)  # None if more than `MAX_CATEGORIES`

    def update(self, column: pa.Array) -> None:
        """Add a batch of values."""
        kind = plain_type(column.type)
        column = column.cast(kind)
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            self.all_numbers, self.distinct = False, None
            self.dates.update(read_column(column, self.name).moment_reader()(0, len(column)))
            return
        if is_text_type(kind):
            text = pc.utf8_trim_whitespace(column.drop_null())
            is_proposed = pc.is_in(pc.utf8_lower(text), value_set=pa.array(PROPOSED, kind))
            is_present = pc.and_(is_text(text, MISSING_TEXTS), pc.invert(is_proposed))
            present = text.filter(is_present)
            self.markers |= set(text.filter(pc.invert(is_present)).unique().to_pylist())
            numbers, unreadable = read_numbers(present, MISSING_TEXTS, decimal_commas=self.decimal_commas)
            self.all_numbers &= not unreadable.any()
            self._update_dates(present)
        else:
            self.is_unsupported |= not (_is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind))
            if self.is_unsupported:
                return
            present = column.drop_null()
            numbers = present.cast(pa.float64(), safe=False)
            present = present.filter(pc.invert(pc.is_nan(numbers)))
            self.all_dates &= not len(present)
            self.all_numbers &= not pa.types.is_boolean(kind)
        finite = numbers.filter(as_mask(pc.is_finite(numbers))).to_numpy(zero_copy_only=False)
        if self.all_numbers and len(finite):
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
            self.all_whole &= bool((finite == np.round(finite)).all())
        if not self.all_numbers or self.all_whole:
            self.repeats.update(present)
        if self.distinct is not None:
            self.distinct |= set(present.unique().to_pylist())
            if len(self.distinct) > MAX_CATEGORIES:
                self.distinct = None

    def _update_dates(self, present: pa.Array) -> None:
        if self.all_dates:  # skip the slow parsing of most text columns
            dates, unreadable = read_dates(present, MISSING_TEXTS)
            self.all_dates = not unreadable.any()
            self.dates.update(dates.cast(pa.int64()).drop_null().to_numpy())

    @property
    def is_date(self) -> bool:
        """Whether there are dates, and only dates."""
        return self.all_dates and self.dates.first is not None

    @property
    def is_quantity(self) -> bool:
        """Whether there are finite numbers, and only numbers."""
        return self.all_numbers and self.low <= self.high

    def reason_to_leave_out(self) -> str | None:
        """Return the reason to omit the column, or None if it may be a feature."""
        if self.is_unsupported:
            return "which contains lists, bytes or durations; convert it to numbers or text first"
        if self.is_date or (self.is_quantity and not self.all_whole):
            return None
        if not self.repeats.are_keys(self.name, whole_numbers=self.is_quantity):
            return None
        if self.is_quantity:
            return "because its integers look like identifiers of people or records"
        return (
            f"because it contains at least {self.repeats.n_different:,} different texts, such as names or identifiers"
        )

    def feature(self) -> Feature:
        """Return a feature that covers the values."""
        if self.is_date:
            return _rounded_dates(self.dates)
        if self.is_quantity:
            low, high = _round_outwards(self.low, self.high)
            if not self.all_whole or max(abs(low), abs(high)) >= EXACT:
                return Numeric(low, high)
            bottom = round(low)  # the range of a constant column gets a width
            return Integer(bottom, max(round(high), bottom + 1))
        if self.distinct is None:
            return Categorical(n_buckets=BUCKETS)
        return Categorical(sorted(self.distinct) or [NO_CATEGORY])

    def target(self, task: Task | None) -> Target | None:
        """Return a target that covers the values, or None if they do not suit the task."""
        few_values = self.distinct is not None and len(self.distinct) <= MAX_CLASSES
        if task == "regression" or (task is None and self.is_quantity and not (self.all_whole and few_values)):
            return Numeric(*_round_outwards(self.low, self.high)) if self.is_quantity else None
        if not self.distinct:
            return None
        if not self.is_quantity:
            return Categorical(sorted(self.distinct))
        return Categorical(sorted({_as_class(value, self.decimal_commas) for value in self.distinct}))


def draft(file: DataFile, target: str, task: Task | None, advance: Advance) -> str:
    """Return the text of a domain file for the columns of a table."""
    drafts = {name: ColumnDraft(name, file.has_decimal_commas) for name in file.columns}
    for batch in file.batches(file.columns, advance):
        for name, column in drafts.items():
            column.update(batch[name].combine_chunks())
    markers = _columns_of_markers(drafts)
    target_feature = drafts.pop(target).target(task)
    if target_feature is None:
        wanted = "numbers" if task == "regression" else f"at most {MAX_CATEGORIES} classes"
        raise InputError(f"The column {target!r} of {file.path} does not contain {wanted}, so it cannot be the target.")
    reasons = {name: column.reason_to_leave_out() for name, column in drafts.items()}
    features = {name: column.feature() for name, column in drafts.items() if reasons[name] is None}
    if not features:
        raise InputError(
            f"{file.path} has no column that could be a feature: all columns contain names or identifiers."
        )
    left_out = [f"# Omitted: {name!r}, {reason}.\n" for name, reason in reasons.items() if reason is not None]
    hashed = [
        f"# Hashed: {name!r} has at least {column.repeats.n_different:,} different texts, which are hashed into "
        f"{BUCKETS} buckets.\n"
        for name, column in drafts.items()
        if features.get(name) == Categorical(n_buckets=BUCKETS)
    ]
    missing = [f"# Missing: {text!r} in {_listed(names)}. If it is a category, list it.\n" for text, names in markers]
    proposed = [text for text, _ in markers]
    domain = Domain(features, target_feature, target_name=target, missing=proposed, origin=Origin("inferred"))
    name = repr(file.path.name)[1:-1]  # a line break would end the comment
    numbers = [column for name, column in drafts.items() if reasons[name] is not None and column.is_quantity]
    header = _HEADER.format(name=name, missing=", ".join(sorted(MISSING_TEXTS - {""})))
    notes = "".join(left_out + hashed + missing)
    return f"{header}{notes}\n{_SIGNATURE}{domain.to_toml()}{_commented(numbers)}"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _columns_of_markers(drafts: Mapping[str, ColumnDraft]) -> list[tuple[str, list[str]]]:
    """Return the texts read as missing values, except empty cells, with the columns of each."""
    texts = sorted({text for column in drafts.values() for text in column.markers if text})
    return [(text, [name for name, column in drafts.items() if text in column.markers]) for text in texts]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more columns" if len(names) > MAX_LISTED else ""
    return ", ".join(map(repr, names[:MAX_LISTED])) + more


def _commented(columns: list[ColumnDraft]) -> str:
    """Return the omitted columns as features in comments, which a person can uncomment."""
    tables = "".join("\n" + write_feature(column.name, column.feature()) for column in columns)
    lines = "".join(f"# {line}".rstrip() + "\n" for line in tables.splitlines())
    return (
        f"\n# These columns were omitted as identifiers. Uncomment those that are quantities.\n{lines}"
        if columns
        else ""
    )


def _as_class(value: str | float, decimal_commas: bool) -> int | float:
    """Return a number, or a text with a number, as a class, which is an integer if possible."""
    number = to_number(value, decimal_commas=decimal_commas) if isinstance(value, str) else value
    assert number is not None
    return canonical_number(number)


def _rounded_dates(dates: ObservedDates) -> Date:
    """Extend a range of dates to whole years, or to whole months within one year."""
    assert dates.first is not None
    assert dates.last is not None
    covering = Date.covering(dates.first, dates.last)
    low, high = (to_datetime(moment).date() for moment in (covering.first_moment, covering.last_moment))
    if low.year != high.year:
        low, high = low.replace(month=1), high.replace(month=12)
    return Date(low.replace(day=1), high.replace(day=monthrange(high.year, high.month)[1]), parts=dates.parts)


def _round_outwards(low: float, high: float) -> tuple[float, float]:
    """Extend a range to multiples of a power of ten: 17 to 85 becomes 10 to 90."""
    low, high = (min(max(bound, -_MAX_BOUND), _MAX_BOUND) for bound in (low, high))
    width = max(high - low, 1e-9 * max(abs(low), abs(high)))
    digits = -math.floor(math.log10(width if width > 1 / _MAX_BOUND else 1.0))
    unit = 10.0**-digits
    bottom = round(math.floor(low / unit) * unit, max(digits, 0))
    top = round(math.ceil(high / unit) * unit, max(digits, 0))
    return (bottom, top) if bottom < top else (bottom, bottom + unit)
