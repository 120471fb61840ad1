"""A first draft of a domain, read from the data, for a person to review. A draft is not private."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import polars as pl

from diprime.cli.data_files import Advance, DataFile, InputError
from diprime.cli.text_values import MISSING_WORDS, as_text, read_numbers
from diprime.domain import Categorical, Domain, Numeric, Origin, Task
from diprime.domain.codes import BUCKETS
from diprime.domain.origin import PLACEHOLDER

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
    is_unsupported : bool
        Whether the column holds dates, lists or bytes.
    all_numbers, all_whole : bool
        Whether all values are numbers, and whether these are whole.
    low, high : float
        The range of the finite numbers.
    never_repeats : bool
        Whether no batch holds a value twice.
    distinct : set or None
        The different values; None if there are more than `MAX_LEVELS`.
    """

    is_unsupported: bool = False
    all_numbers: bool = True
    low: float = math.inf
    high: float = -math.inf
    all_whole: bool = True
    never_repeats: bool = True
    distinct: set[str | int | float | bool] | None = field(default_factory=set)

    def update(self, column: pl.Series) -> None:
        """Add a batch of values."""
        dtype = column.dtype
        self.is_unsupported |= dtype.is_temporal() or dtype.is_nested() or dtype == pl.Binary
        if self.is_unsupported:
            return
        text = as_text(column)
        if text is not None:
            text = text.str.strip_chars()
            present = text.filter(text.is_not_null() & ~text.str.to_lowercase().is_in(MISSING_WORDS))
            numbers, unreadable = read_numbers(present)
            self.all_numbers &= not unreadable.any()
        else:
            present = column.drop_nulls()
            numbers = present.cast(pl.Float64).fill_nan(None)
            present = present.filter(numbers.is_not_null())
            self.all_numbers &= dtype != pl.Boolean
        numbers = numbers.filter(numbers.is_finite())
        if self.all_numbers and len(numbers):
            finite = numbers.to_numpy()
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
            self.all_whole &= bool((numbers == numbers.round()).all())
        self.never_repeats &= present.n_unique() == len(present)
        if self.distinct is not None:
            self.distinct |= set(present.unique())
            if len(self.distinct) > MAX_LEVELS:
                self.distinct = None

    @property
    def is_quantity(self) -> bool:
        """Whether there are finite numbers and no other values."""
        return self.all_numbers and self.low <= self.high

    def reason_to_leave_out(self) -> str | None:
        """Return why the column should not be a feature, or None if it may be one."""
        if self.is_unsupported:
            return "which holds dates, lists or bytes: convert it to numbers or text first"
        if self.distinct is not None:
            return None
        if not self.is_quantity:
            return f"which has more than {MAX_LEVELS} different texts, as names of persons have"
        return (
            "whose whole numbers never repeat, as keys of persons do" if self.all_whole and self.never_repeats else None
        )

    def feature(self) -> Numeric | Categorical:
        """Return a feature that covers the values."""
        if self.is_quantity:
            return Numeric(*_round_outwards(self.low, self.high))
        assert self.distinct is not None
        return Categorical(sorted(self.distinct) or ["nothing but missing values was seen"])

    def target(self, task: Task | None) -> Numeric | Categorical | None:
        """Return a target that covers the values, or None if they cannot be a target of the task."""
        few_values = self.distinct is not None and len(self.distinct) <= MAX_CLASSES
        if task == "regression" or (task is None and self.is_quantity and not (self.all_whole and few_values)):
            return Numeric(*_round_outwards(self.low, self.high)) if self.is_quantity else None
        if not self.distinct:
            return None
        if not self.is_quantity:
            return Categorical(sorted(self.distinct))
        return Categorical(sorted({int(v) if float(v).is_integer() else float(v) for v in self.distinct}))


def draft(file: DataFile, target: str, task: Task | None, advance: Advance) -> str:
    """Return the text of a domain file for the columns of a table."""
    drafts = {name: ColumnDraft() for name in file.columns}
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
        raise InputError(f"{file.path} has no column that could be a feature: they hold dates, names or keys.")
    left_out = [f"# Left out: {name!r}, {reason}.\n" for name, reason in reasons.items() if reason is not None]
    body = Domain(features, target_feature, target_name=target, origin=Origin("read")).to_toml()
    return f"{_HEADER.format(name=file.path.name)}{''.join(left_out)}\n{_SIGNATURE}{body}"


def _round_outwards(low: float, high: float) -> tuple[float, float]:
    """Extend a range until its bounds are multiples of a power of ten: 17 to 85 becomes 10 to 90."""
    low, high = (min(max(bound, -_MAX_BOUND), _MAX_BOUND) for bound in (low, high))
    width = max(high - low, 1e-9 * max(abs(low), abs(high)))
    digits = -math.floor(math.log10(width if width > 1 / _MAX_BOUND else 1.0))
    unit = 10.0**-digits
    bottom = round(math.floor(low / unit) * unit, max(digits, 0))
    top = round(math.ceil(high / unit) * unit, max(digits, 0))
    return (bottom, top) if bottom < top else (bottom, bottom + unit)
