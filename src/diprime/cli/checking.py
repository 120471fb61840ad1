"""How much of a table lies outside its domain. The result is not private: it is for the holder of the data only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from diprime.cli.data_files import Advance, DataFile
from diprime.cli.text_values import as_text, read_categories, read_dates
from diprime.domain import MISSING, OTHER, Categorical, Date, Domain, moments
from diprime.domain.kinds import Feature
from diprime.domain.persons import MAX_RECORDS, UNKNOWN, PersonIndex
from diprime.domain.tables import read_table

NUMBERS_OF_RECORDS = (1, 2, 3, 5, 10, 20, 50, MAX_RECORDS)
"""The largest numbers of records of a person that a table of persons has rows for."""


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


@dataclass(frozen=True)
class Kept:
    """What a fit uses with a largest number of records of a person.

    Attributes
    ----------
    max_records : int
        That number.
    persons, records : float
        The share of the persons of whom all records are used, and the share of the records that are used.
    """

    max_records: int
    persons: float
    records: float


class PersonCheck:
    """How many records persons have. Records without a person are counted apart.

    Parameters
    ----------
    sizes : array of shape (n_persons,)
        The number of records of each person, at least one.
    n_unknown : int
        The number of records without a person.
    """

    def __init__(self, sizes: npt.NDArray[np.int64], n_unknown: int) -> None:
        self._sizes = sizes
        self.n_unknown = n_unknown
        self.n_persons, self.n_records = len(sizes), int(sizes.sum())
        self.most = int(sizes.max(initial=0))

    def kept(self) -> list[Kept]:
        """Return what is used with several numbers of records, up to the first that uses all."""
        enough = next((k for k in NUMBERS_OF_RECORDS if k >= self.most), NUMBERS_OF_RECORDS[-1])
        return [self._kept(k) for k in NUMBERS_OF_RECORDS if k <= enough]

    def _kept(self, max_records: int) -> Kept:
        used = int(np.minimum(self._sizes, max_records).sum())
        whole = int((self._sizes <= max_records).sum())
        return Kept(max_records, whole / max(self.n_persons, 1), used / max(self.n_records, 1))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "persons": self.n_persons,
            "records": self.n_records,
            "most_records": self.most,
            "records_without_person": self.n_unknown,
            "kept": [asdict(kept) for kept in self.kept()],
        }


def check(
    file: DataFile, domain: Domain, target: str, advance: Advance, person: str | None = None
) -> tuple[int, dict[str, ColumnCheck], PersonCheck | None]:
    """Return the number of rows, the counts of every column of the domain, and how many records persons have.

    The target is the last column. Without the name of a column of persons, nothing is said of them.
    """
    columns = {**domain.features, target: domain.target}
    checks = {name: ColumnCheck() for name in columns}
    n_rows = 0
    index, persons = PersonIndex(), [np.zeros(0, dtype=np.int64)]
    for batch in file.batches([*columns] if person is None else [*columns, person], advance):
        n_rows += batch.height
        for name, feature in columns.items():
            checks[name] += _check_column(file, batch[name], feature)
        if person is not None:
            persons.append(index.encode(batch[person]))
    if person is None:
        return n_rows, checks, None
    numbers = np.concatenate(persons)
    known = numbers[numbers != UNKNOWN]
    return n_rows, checks, PersonCheck(np.bincount(known), len(numbers) - len(known))


def _check_column(file: DataFile, column: pl.Series, feature: Feature) -> ColumnCheck:
    text = as_text(column)
    if isinstance(feature, Categorical):
        values = column if text is None else read_categories(text, feature, decimal_commas=file.has_decimal_commas)
        codes = Domain({column.name: feature}, Categorical(["any"])).encode(values.to_frame())
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
        numbers, bad = file.read_numbers(text)
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
