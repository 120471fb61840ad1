"""How much of a table lies outside its domain. The result is not private: it is for the holder of the data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain import moments
from diprime.domain.dates import Date
from diprime.domain.encoding import level_index, match_columns
from diprime.domain.features import Categorical
from diprime.domain.kinds import Feature, Target
from diprime.domain.levels import ABSENT, UNLISTED
from diprime.domain.persons import MAX_RECORDS, UNKNOWN, Persons
from diprime.domain.tables import Column, Table, row_blocks

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
        Texts of a file that are not numbers, in a numeric column, or not dates, in a column of dates. In tables in
        memory they count as missing, as they do in a fit.
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
    persons : array of shape (n,)
        The number of the person of each record, `UNKNOWN` for nobody's.

    Attributes
    ----------
    n_persons, n_records, n_unknown : int
        How many persons there are, how many records they have, and how many records have no person.
    most : int
        The largest number of records of a person.
    """

    def __init__(self, persons: Persons) -> None:
        known = persons[persons != UNKNOWN]
        self._sizes: npt.NDArray[np.int64] = np.bincount(known)
        self.n_unknown = len(persons) - len(known)
        self.n_persons, self.n_records = len(self._sizes), len(known)
        self.most = int(self._sizes.max(initial=0))

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


@dataclass
class DomainCheck:
    """How much of a table lies outside a domain: **not private**, for the holder of the data only.

    Attributes
    ----------
    n_rows : int
        The number of rows.
    columns : dict of str to ColumnCheck
        How many values of each feature are ``below`` or ``above`` the range, ``unlisted``, ``missing`` or
        ``unreadable``.
    target : ColumnCheck or None
        The same of the target, if it was given.
    persons : PersonCheck or None
        How many records persons have, if the table says whose they are.
    """

    n_rows: int = 0
    columns: dict[str, ColumnCheck] = field(default_factory=dict)
    target: ColumnCheck | None = None
    persons: PersonCheck | None = None

    def __str__(self) -> str:
        of_target = {} if self.target is None else {"the target": self.target}
        lines = [
            f"{name}: {', '.join(counts)}"
            for name, column in {**self.columns, **of_target}.items()
            if (counts := [f"{count:,} {kind}" for kind, count in asdict(column).items() if count])
        ]
        return "\n".join([f"{self.n_rows:,} rows, outside of the domain:", *(lines or ["nothing"])])


def check_table(features: Mapping[str, Feature], table: Table) -> dict[str, ColumnCheck]:
    """Return the counts of every feature; the columns are matched as those of a fit."""
    column = match_columns(list(features), table)
    return {
        name: check_column(column(j), feature, f"Feature {name!r}")
        for j, (name, feature) in enumerate(features.items())
    }


def check_column(column: Column, feature: Feature | Target, where: str) -> ColumnCheck:
    """Return the counts of one column; a dtype that a fit refuses is refused."""
    if isinstance(feature, Categorical):
        find = level_index(feature).finder(column, where)
        positions = np.concatenate(
            [np.zeros(0, dtype=np.int64), *(find(*rows) for rows in row_blocks(0, column.n_rows))]
        )
        return ColumnCheck(unlisted=int((positions == UNLISTED).sum()), missing=int((positions == ABSENT).sum()))
    check = ColumnCheck()
    if isinstance(feature, Date):
        column.check_dates(where)
        read = column.moment_reader()
        for rows in row_blocks(0, column.n_rows):
            check += _check_dates(read(*rows), feature)
        return check
    column.check_numeric(where)
    for rows in row_blocks(0, column.n_rows):
        numbers = column.floats(*rows)
        check += ColumnCheck(
            below=0 if feature.low is None else int((numbers < feature.low).sum()),
            above=0 if feature.high is None else int((numbers > feature.high).sum()),
            missing=int(np.isnan(numbers).sum()),
        )
    return check


def _check_dates(found: moments.Moments, feature: Date) -> ColumnCheck:
    is_known = found != moments.NEVER
    return ColumnCheck(
        below=int((is_known & (found < feature.first_moment)).sum()) if feature.has_range else 0,
        above=int((is_known & (found > feature.last_moment)).sum()) if feature.has_range else 0,
        missing=int((~is_known).sum()),
    )
