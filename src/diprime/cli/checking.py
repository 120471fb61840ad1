"""How much of a table lies outside its domain. The result is not private: it is for the holder of the data only."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from diprime.cli.data_files import Advance, DataFile
from diprime.cli.text_values import as_text, read_categories, read_numbers
from diprime.domain import MISSING, OTHER, Categorical, Domain, Numeric


@dataclass
class ColumnCheck:
    """The number of values of a column that are not inside its domain, by kind.

    Attributes
    ----------
    below, above : int
        Numbers outside the range.
    unlisted : int
        Values that are not levels.
    missing : int
        Missing values.
    unreadable : int
        Texts that are not numbers, in a numeric column.
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


def _check_column(column: pl.Series, feature: Numeric | Categorical) -> ColumnCheck:
    text = as_text(column)
    if isinstance(feature, Categorical):
        values = column if text is None else read_categories(text, feature)
        codes = Domain({column.name: feature}, Categorical(["any"])).encode(values.to_frame())
        return ColumnCheck(unlisted=int((codes == OTHER).sum()), missing=int((codes == MISSING).sum()))
    unreadable = 0
    if text is None:
        # An empty table raises the errors of a fit about the dtype.
        no_rows = column.head(0).to_frame()
        Domain({column.name: feature}, Categorical(["any"])).encode(no_rows)
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
