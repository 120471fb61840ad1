"""How much of a table lies outside its domain. The result is not private: it is for the holder of the data only."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from diprime.cli.data_files import Advance, DataFile
from diprime.cli.text_values import as_text, read_dates, read_levels, read_numbers
from diprime.domain import MISSING, OTHER, Categorical, Date, Domain, moments
from diprime.domain.kinds import Feature
from diprime.domain.tables import read_table


@dataclass
class ColumnCheck:
    """The number of values of a column that are not inside its domain, by kind.

    Attributes
    ----------
    below, above : int
        Numbers or dates outside the range.
    unlisted : int
        Values that are not levels.
    missing : int
        Missing values.
    unreadable : int
        Texts that are not numbers, in a numeric column, or not dates, in a column of dates.
    """

    below: int = 0
    above: int = 0
    unlisted: int = 0
    missing: int = 0
    unreadable: int = 0

    def __iadd__(self, other: ColumnCheck) -> ColumnCheck:
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)
        return self


def check(file: DataFile, domain: Domain, target: str, advance: Advance) -> tuple[int, dict[str, ColumnCheck]]:
    """Return the number of rows and the counts of every column of the domain; the target is last."""
    columns = {**domain.features, target: domain.target}
    checks = {name: ColumnCheck() for name in columns}
    n_rows = 0
    for batch in file.batches(list(columns), advance):
        n_rows += batch.height
        for name, feature in columns.items():
            checks[name] += _check_column(batch[name], feature)
    return n_rows, checks


def _check_column(column: pl.Series, feature: Feature) -> ColumnCheck:
    text = as_text(column)
    if isinstance(feature, Categorical):
        values = column if text is None else read_levels(text, feature.levels)
        codes = Domain({column.name: feature}, feature).encode(values.to_frame())
        return ColumnCheck(unlisted=int((codes == OTHER).sum()), missing=int((codes == MISSING).sum()))
    if text is None:
        # An empty table raises the errors of a fit about the dtype.
        no_rows = column.head(0).to_frame()
        Domain({column.name: feature}, Categorical(["any"])).encode(no_rows)
    if isinstance(feature, Date):
        return _check_dates(column, text, feature)
    unreadable = 0
    if text is None:
        numbers = column.cast(pl.Float64)
    else:
        numbers, bad = read_numbers(text)
        unreadable = int(bad.sum())
    numbers = numbers.fill_nan(None)  # polars orders NaN above every number
    return ColumnCheck(
        below=0 if feature.low is None else int((numbers < feature.low).sum()),
        above=0 if feature.high is None else int((numbers > feature.high).sum()),
        missing=numbers.null_count() - unreadable,
        unreadable=unreadable,
    )


def _check_dates(column: pl.Series, text: pl.Series | None, feature: Date) -> ColumnCheck:
    unreadable = 0
    if text is not None:
        column, bad = read_dates(text)
        unreadable = int(bad.sum())
    found = read_table(column.to_frame()).column(0).moment_reader()(0, len(column))
    is_known = found != moments.NEVER
    return ColumnCheck(
        below=int((is_known & (found < feature.first_moment)).sum()) if feature.has_range else 0,
        above=int((is_known & (found > feature.last_moment)).sum()) if feature.has_range else 0,
        missing=int((~is_known).sum()) - unreadable,
        unreadable=unreadable,
    )
