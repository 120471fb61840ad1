"""A first draft of a domain, read from the data, for a person to review. A draft is not private."""

from __future__ import annotations

import math
from calendar import monthrange
from dataclasses import dataclass, field

import polars as pl

from diprime.cli.data_files import Advance, DataFile, InputError
from diprime.cli.repeats import Repeats
from diprime.cli.text_values import MISSING_WORDS, as_text, read_dates, read_numbers, to_number
from diprime.domain import Categorical, Date, Domain, Integer, Numeric, Origin, Task
from diprime.domain.codes import BUCKETS
from diprime.domain.files import write_feature
from diprime.domain.inference import SeenDates
from diprime.domain.kinds import Feature, Target
from diprime.domain.levels import EXACT
from diprime.domain.moments import to_datetime
from diprime.domain.origin import PLACEHOLDER
from diprime.domain.tables import read_table

MAX_LEVELS = BUCKETS
MAX_CLASSES = 20  # a target with more different whole numbers is drafted as numeric

_HEADER = """\
# A draft of what is public about {name}, read from its rows: as it stands, it tells about them.
# Ask of every line whether you would know it without these rows; if not, replace it by something that you do know.
# Wider ranges and more levels cost a little accuracy, no privacy. A model fitted with this file is not private
# until somebody answers for all of it: take the # off the line "reviewed_by" below, and write your own name there.
# The ledger and the report of every such model show it.
"""
_SIGNATURE = f'# reviewed_by = "{PLACEHOLDER}"\n'


_MAX_BOUND = 1e300  # beyond it, a range would be too wide for float64 arithmetic


@dataclass
class ColumnDraft:
    """A summary of a column, updated batch by batch.

    Attributes
    ----------
    name : str
        The name of the column.
    decimal_commas : bool
        Whether numbers in text may have decimal commas.
    is_unsupported : bool
        Whether the column holds lists, bytes, durations or times without a date.
    all_numbers, all_whole : bool
        Whether all values are numbers, and whether these are whole.
    low, high : float
        The range of the finite numbers.
    all_dates : bool
        Whether all values are dates.
    dates : SeenDates
        The range of the dates, and the parts in which they differ.
    repeats : Repeats
        How often values occur, unless they are numbers that are not whole.
    distinct : set or None
        The different values; None if there are more than `MAX_LEVELS`.
    """

    name: str
    decimal_commas: bool = False
    is_unsupported: bool = False
    all_numbers: bool = True
    low: float = math.inf
    high: float = -math.inf
    all_whole: bool = True
    all_dates: bool = True
    dates: SeenDates = field(default_factory=SeenDates)
    repeats: Repeats = field(default_factory=Repeats)
    distinct: set[str | int | float | bool] | None = field(default_factory=set)

    def update(self, column: pl.Series) -> None:
        """Add a batch of values."""
        dtype = column.dtype
        if dtype in (pl.Date, pl.Datetime):
            self.all_numbers, self.distinct = False, None
            self.dates.update(read_table(column.to_frame()).column(0).moment_reader()(0, len(column)))
            return
        self.is_unsupported |= dtype.is_temporal() or dtype.is_nested() or dtype == pl.Binary
        if self.is_unsupported:
            return
        text = as_text(column)
        if text is not None:
            text = text.str.strip_chars()
            present = text.filter(text.is_not_null() & ~text.str.to_lowercase().is_in(MISSING_WORDS))
            numbers, unreadable = read_numbers(present, decimal_commas=self.decimal_commas)
            self.all_numbers &= not unreadable.any()
            self._update_dates(present)
        else:
            present = column.drop_nulls()
            numbers = present.cast(pl.Float64).fill_nan(None)
            present = present.filter(numbers.is_not_null())
            self.all_dates &= not len(present)
            self.all_numbers &= dtype != pl.Boolean
        numbers = numbers.filter(numbers.is_finite())
        if self.all_numbers and len(numbers):
            finite = numbers.to_numpy()
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
            self.all_whole &= bool((numbers == numbers.round()).all())
        if not self.all_numbers or self.all_whole:
            self.repeats.update(present)
        if self.distinct is not None:
            self.distinct |= set(present.unique())
            if len(self.distinct) > MAX_LEVELS:
                self.distinct = None

    def _update_dates(self, present: pl.Series) -> None:
        if self.all_dates:  # else most columns of text would be read in vain
            dates, unreadable = read_dates(present)
            self.all_dates = not unreadable.any()
            self.dates.update(dates.cast(pl.Int64).drop_nulls().to_numpy())

    @property
    def is_date(self) -> bool:
        """Whether there are dates and no other values."""
        return self.all_dates and self.dates.first is not None

    @property
    def is_quantity(self) -> bool:
        """Whether there are finite numbers and no other values."""
        return self.all_numbers and self.low <= self.high

    def reason_to_leave_out(self) -> str | None:
        """Return why the column should not be a feature, or None if it may be one."""
        if self.is_unsupported:
            return "which holds lists, bytes or durations: convert it to numbers or text first"
        if self.is_date or (self.is_quantity and not self.all_whole):
            return None
        if not self.repeats.are_keys(self.name, whole_numbers=self.is_quantity):
            return None
        if self.is_quantity:
            return "whose whole numbers look like keys of persons or records"
        return f"which has at least {self.repeats.n_different:,} different texts, as names and keys of persons have"

    def feature(self) -> Feature:
        """Return a feature that covers the values."""
        if self.is_date:
            return _rounded_dates(self.dates)
        if self.is_quantity:
            low, high = _round_outwards(self.low, self.high)
            if not self.all_whole or max(abs(low), abs(high)) >= EXACT:
                return Numeric(low, high)
            bottom = round(low)  # equal values have no width, so that the bounds are between whole numbers
            return Integer(bottom, max(round(high), bottom + 1))
        if self.distinct is None:
            return Categorical(buckets=BUCKETS)
        return Categorical(sorted(self.distinct) or ["nothing but missing values was seen"])

    def target(self, task: Task | None) -> Target | None:
        """Return a target that covers the values, or None if they cannot be a target of the task."""
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
            column.update(batch[name])
    target_feature = drafts.pop(target).target(task)
    if target_feature is None:
        wanted = "numbers" if task == "regression" else f"classes, {MAX_LEVELS} at most"
        raise InputError(f"The column {target!r} of {file.path} does not hold {wanted}, so it cannot be the target.")
    reasons = {name: column.reason_to_leave_out() for name, column in drafts.items()}
    features = {name: column.feature() for name, column in drafts.items() if reasons[name] is None}
    if not features:
        raise InputError(f"{file.path} has no column that could be a feature: they hold names or keys.")
    left_out = [f"# Left out: {name!r}, {reason}.\n" for name, reason in reasons.items() if reason is not None]
    hashed = [_hashed(column) for name, column in drafts.items() if features.get(name) == Categorical(buckets=BUCKETS)]
    body = Domain(features, target_feature, target_name=target, origin=Origin("read")).to_toml()
    name = repr(file.path.name)[1:-1]  # a line break would end the comment
    numbers = [column for name, column in drafts.items() if reasons[name] is not None and column.is_quantity]
    return f"{_HEADER.format(name=name)}{''.join(left_out + hashed)}\n{_SIGNATURE}{body}{_commented(numbers)}"


def _commented(columns: list[ColumnDraft]) -> str:
    """Return the features that columns of keys would be, as comments at the end, where they can be uncommented."""
    tables = "".join("\n" + write_feature(column.name, column.feature()) for column in columns)
    lines = "".join(f"# {line}".rstrip() + "\n" for line in tables.splitlines())
    return f"\n# What was left out as keys; take the # off if these are quantities.\n{lines}" if columns else ""


def _hashed(column: ColumnDraft) -> str:
    return (
        f"# Codes: {column.name!r} has at least {column.repeats.n_different:,} different texts, which a hash function "
        f"spreads over {BUCKETS} buckets.\n"
    )


def _as_class(value: str | float, decimal_commas: bool) -> int | float:
    """Return a number, or a text that is one, as a class: as an integer if it is whole, exactly where it can be."""
    number = to_number(value.strip(), decimal_commas=decimal_commas) if isinstance(value, str) else value
    assert number is not None
    return int(number) if float(number).is_integer() else float(number)


def _rounded_dates(dates: SeenDates) -> Date:
    """Extend a range of dates to whole years, or to whole months if it is within a year."""
    assert dates.first is not None
    assert dates.last is not None
    covering = Date.covering(dates.first, dates.last)
    low, high = (to_datetime(moment).date() for moment in (covering.first_moment, covering.last_moment))
    if low.year != high.year:
        low, high = low.replace(month=1), high.replace(month=12)
    return Date(low.replace(day=1), high.replace(day=monthrange(high.year, high.month)[1]), parts=dates.parts)


def _round_outwards(low: float, high: float) -> tuple[float, float]:
    """Extend a range until its bounds are multiples of a power of ten: 17 to 85 becomes 10 to 90."""
    low, high = (min(max(bound, -_MAX_BOUND), _MAX_BOUND) for bound in (low, high))
    width = max(high - low, 1e-9 * max(abs(low), abs(high)))
    digits = -math.floor(math.log10(width if width > 1 / _MAX_BOUND else 1.0))
    unit = 10.0**-digits
    bottom = round(math.floor(low / unit) * unit, max(digits, 0))
    top = round(math.ceil(high / unit) * unit, max(digits, 0))
    return (bottom, top) if bottom < top else (bottom, bottom + unit)
