"""A first draft of a domain, read from the data: for a person to check, line by line. Nothing here is private."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from diprime.cli.data_files import Advance, DataFile, InputError
from diprime.cli.text_values import MISSING_WORDS, read_numbers
from diprime.domain import Categorical, Domain, Numeric

REMARK = "# check: this must be public knowledge"
MOST_LEVELS = 254
MOST_CLASSES = 20  # of whole numbers, which could as well be a quantity

_HEAD = """\
# A draft of what is public about {name}, read from its rows: as it stands, it tells about them.
# Ask of every line whether you would know it without these rows; if not, replace it by something that you do know.
# Wider ranges and more levels cost a little accuracy, no privacy. Delete the remark at the end of a line once you
# have checked it: as long as one is left, a model fitted with this file is marked as not private.
"""

_WIDEST = 1e300  # ranges of data may be as wide as floats are; ranges of features may not

Task = Literal["classification", "regression"]


@dataclass
class ColumnDraft:
    """What has been seen of a column so far."""

    all_numbers: bool = True
    low: float = math.inf
    high: float = -math.inf
    all_whole: bool = True
    distinct: set[str | int | float | bool] | None = field(default_factory=set)  # None: too many to list

    def look_at(self, column: pl.Series) -> None:
        """Take a batch into account."""
        if column.dtype in (pl.String, pl.Categorical, pl.Enum):
            text = column.cast(pl.String).str.strip_chars()
            present = text.filter(text.is_not_null() & ~text.str.to_lowercase().is_in(MISSING_WORDS))
            numbers, unreadable = read_numbers(present)
            self.all_numbers &= not unreadable.any()
        else:
            present = column.drop_nulls()
            numbers = present.cast(pl.Float64)
            self.all_numbers &= column.dtype != pl.Boolean
        numbers = numbers.filter(numbers.is_finite())
        if self.all_numbers and len(numbers):
            self.low, self.high = min(self.low, numbers.min()), max(self.high, numbers.max())
            self.all_whole &= bool((numbers == numbers.round()).all())
        if self.distinct is not None:
            self.distinct |= set(present.unique())
            if len(self.distinct) > MOST_LEVELS:
                self.distinct = None

    def feature(self) -> Numeric | Categorical | None:
        """Return a feature that covers what was seen, or None for text that is always different."""
        if self.all_numbers and self.low <= self.high:
            return Numeric(*_rounded_outwards(self.low, self.high))
        if self.distinct is None:
            return None
        return Categorical(sorted(self.distinct) or ["nothing but missing values was seen"])

    def target(self, task: Task | None) -> Numeric | Categorical | None:
        """Return a target that covers what was seen, or None for one that a forest cannot learn."""
        quantity = self.all_numbers and self.low <= self.high
        few = self.distinct is not None and len(self.distinct) <= MOST_CLASSES
        if task == "regression" or (task is None and quantity and not (self.all_whole and few)):
            return Numeric(*_rounded_outwards(self.low, self.high)) if quantity else None
        if not self.distinct:
            return None
        if not quantity:
            return Categorical(sorted(self.distinct))
        return Categorical(sorted({int(v) if float(v).is_integer() else float(v) for v in self.distinct}))


def draft(file: DataFile, target: str, task: Task | None, advance: Advance) -> str:
    """Return the text of a domain file for the columns of a table."""
    drafts = {name: ColumnDraft() for name in file.columns}
    for batch in file.batches(file.columns, advance):
        for name, column in drafts.items():
            column.look_at(batch[name])
    goal = drafts.pop(target).target(task)
    if goal is None:
        wanted = "numbers" if task == "regression" else f"classes, {MOST_LEVELS} at most"
        raise InputError(f"The column {target!r} of {file.path} does not hold {wanted}, so it cannot be the target.")
    features = {name: column.feature() for name, column in drafts.items()}
    kept = {name: feature for name, feature in features.items() if feature is not None}
    if not kept:
        raise InputError(f"{file.path} has no column that could be a feature: each has too many different texts.")
    left_out = [
        f"# Left out: {name!r}, which has more than {MOST_LEVELS} different texts, as names and keys of persons have.\n"
        for name, feature in features.items()
        if feature is None
    ]
    lines = Domain(kept, goal, target_name=target).to_toml().splitlines()
    body = "\n".join(f"{line}  {REMARK}" if line else "" for line in lines)
    return f"{_HEAD.format(name=file.path.name)}{''.join(left_out)}\n{body}\n"


def unchecked_lines(text: str) -> int:
    """Return how many lines of a domain file still bear the draft's remark."""
    return sum(line.rstrip().endswith(REMARK) for line in text.splitlines())


def _rounded_outwards(low: float, high: float) -> tuple[float, float]:
    """Return a range around the seen one whose ends are multiples of a power of ten: 17 to 85 gives 10 to 90."""
    low, high = (min(max(end, -_WIDEST), _WIDEST) for end in (low, high))
    width = max(high - low, 1e-9 * max(abs(low), abs(high)))
    digits = -math.floor(math.log10(width if width > 1 / _WIDEST else 1.0))
    unit = 10.0**-digits
    bottom = round(math.floor(low / unit) * unit, max(digits, 0))
    top = round(math.ceil(high / unit) * unit, max(digits, 0))
    return (bottom, top) if bottom < top else (bottom, bottom + unit)
