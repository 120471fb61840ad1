"""How much of a file lies outside a domain. The result is not private: it is for the holder of the data only."""

from __future__ import annotations

import numpy as np
import polars as pl

from diprime.cli.data_files import Advance, DataFile
from diprime.cli.text_values import as_text, read_categories, read_dates
from diprime.domain import Categorical, Date, Domain
from diprime.domain.checking import ColumnCheck, DomainCheck, PersonCheck, check_column
from diprime.domain.kinds import Feature
from diprime.domain.persons import PersonIndex
from diprime.domain.tables import read_table


def check(file: DataFile, domain: Domain, target: str, advance: Advance, person: str | None = None) -> DomainCheck:
    """Return the counts of every column of a file, batch by batch, as `Domain.check` does for a table.

    Without the name of a column of persons, nothing is said of them.
    """
    found = DomainCheck(columns={name: ColumnCheck() for name in domain.features}, target=ColumnCheck())
    assert found.target is not None
    index, persons = PersonIndex(), [np.zeros(0, dtype=np.int64)]
    columns = list(dict.fromkeys([*domain.features, target]))
    for batch in file.batches(columns if person is None else [*columns, person], advance):
        found.n_rows += batch.height
        for name, feature in domain.features.items():
            found.columns[name] += _check_values(file, batch[name], feature)
        found.target += _check_values(file, batch[target], domain.target)
        if person is not None:
            persons.append(index.encode(batch[person]))
    if person is not None:
        found.persons = PersonCheck(np.concatenate(persons))
    return found


def _check_values(file: DataFile, column: pl.Series, feature: Feature) -> ColumnCheck:
    """Return the counts of values, of which text is read by the feature."""
    values, n_unreadable = _decoded(file, column, feature)
    found = check_column(read_table(values.to_frame()).column(0), feature, f"Column {column.name!r}")
    found.missing -= n_unreadable
    found.unreadable = n_unreadable
    return found


def _decoded(file: DataFile, column: pl.Series, feature: Feature) -> tuple[pl.Series, int]:
    """Return the values of a column, and how many of its texts are none, which are missing then."""
    text = as_text(column)
    if text is None:
        return column, 0
    if isinstance(feature, Categorical):
        return read_categories(text, feature, decimal_commas=file.has_decimal_commas), 0
    values, unreadable = read_dates(text) if isinstance(feature, Date) else file.read_numbers(text)
    return values, int(unreadable.sum())
