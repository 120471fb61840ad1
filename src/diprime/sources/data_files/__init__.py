"""CSV and Parquet files as a source that is read in batches, as if they were one file. This package requires pyarrow.

* :mod:`~diprime.sources.data_files.csv`: CSV files, whose records all have the same number of fields.
* :mod:`~diprime.sources.data_files.parquet`: Parquet files, read in batches of bounded memory.
* :mod:`~diprime.sources.data_files.text`: text as values of a domain.

Text that is not a number in a numeric column, or not a date in a date column, is an error, and so is a row with more or
fewer fields than the header. The message names the row but not the value. It is for the data holder, and nothing has
been released at that point.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from diprime._util import InputError, check_addresses
from diprime._util.files import is_same_file, status_of
from diprime.domain import Date, Domain
from diprime.domain.checking import CheckTally
from diprime.domain.columns import ColumnTable, read_column
from diprime.domain.features import Feature
from diprime.domain.records import DrawnPart, Records, Tally
from diprime.domain.values import Markers
from diprime.inspection.words import counted, shortened
from diprime.sources.data_files import csv, parquet
from diprime.sources.data_files.text import read_values
from diprime.sources.protocol import LocalSource, Roles

READER_BYTES = 3 << 26
"""Address space that is checked before each batch, because pyarrow aborts without it."""
MAX_LACKING_LISTED = 5

Advance = Callable[[float], None]
"""Function that is called with the share of the work done since its last call."""
Values = Any
"""Values of a column in a batch: a pyarrow array, or a list if some values are `UNREADABLE`."""
UNREADABLE = object()
"""Value of text that is invalid for its feature."""

_COMPRESSED_MAGIC = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")  # gzip, zip and zstd

T = TypeVar("T")


class NoRowsError(InputError):
    """A file without rows."""


def ignore(share: float) -> None:
    """Ignore the progress."""


class DataFile:
    """Table in a CSV file, whose values are all text, or in a Parquet file, whose columns have types."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir():
            raise InputError(f"{path} is a directory. Pass a CSV or Parquet file.")
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is a pipe or a device, which cannot be read twice. Save it as a file first.")
        header = csv.first_record(path)
        if not header.strip():
            raise InputError(
                f"{path} is empty, or its first line is. Pass a CSV file with a header, or a Parquet file."
            )
        if header.startswith(_COMPRESSED_MAGIC):
            raise InputError(f"{path} is compressed, or a spreadsheet. Decompress it, or save it as CSV.")
        check_addresses(READER_BYTES)
        self.is_csv = not header.startswith(parquet.MAGIC)
        self._reader = csv.CsvFile(path, header) if self.is_csv else parquet.ParquetFile(path)
        self.has_decimal_commas = isinstance(self._reader, csv.CsvFile) and self._reader.has_decimal_commas
        self.rounded: Collection[str] = () if isinstance(self._reader, csv.CsvFile) else self._reader.rounded
        self.schema: pa.Schema = self._reader.schema
        self.columns: list[str] = self.schema.names
        if len(set(self.columns)) < len(self.columns):
            advice = " If the first line is a record, add a header with the names of the columns." * self.is_csv
            raise InputError(f"{path} has two columns of the same name. Rename or remove one of them.{advice}")

    def check_columns(self, names: Collection[str]) -> None:
        """Raise an error if columns are missing. Others are only counted: without a header, they are a record."""
        lacking = [repr(shortened(name)) for name in names if name not in self.columns]
        if lacking:
            n_more = len(lacking) - MAX_LACKING_LISTED
            more = f" and {n_more} more" if n_more > 0 else ""
            listed = f"the column{'s' * (len(lacking) > 1)} {', '.join(lacking[:MAX_LACKING_LISTED])}{more}"
            n_others = sum(name not in names for name in self.columns)
            header = " Its first line must be a header with the names of the columns." * self.is_csv
            raise InputError(f"{self.path} lacks {listed}; it has {counted(n_others, 'other column')}.{header}")

    def batches(self, columns: Sequence[str], advance: Advance = ignore) -> Iterator[pa.Table]:
        """Yield batches of rows with the values of the file."""
        self.check_columns(columns)
        check_addresses(READER_BYTES)
        has_rows = False
        for batch, share in self._reader.batches(columns):
            has_rows |= len(batch) > 0
            yield batch
            advance(share)
            check_addresses(READER_BYTES)
        if not has_rows:
            raise NoRowsError(f"{self.path} has no rows.")

    def read(
        self,
        features: Mapping[str, Feature],
        missing: Markers,
        kept: Sequence[str] = (),
        advance: Advance = ignore,
        *,
        mark_unreadable: bool = False,
    ) -> Iterator[tuple[dict[str, Values], pa.Table]]:
        """Yield for each batch the values of the features, and the ``kept`` columns as they are in the file."""
        first_row = 1
        for batch in self.batches(list(dict.fromkeys([*features, *kept])), advance):
            values: dict[str, Values] = {}
            for name, feature in features.items():
                column = batch[name].combine_chunks()
                found, unreadable = read_values(column, feature, missing, decimal_commas=self.has_decimal_commas)
                values[name] = found
                if unreadable.any():
                    if not mark_unreadable:
                        raise self._unreadable(name, feature, first_row + int(np.argmax(unreadable)))
                    marked = zip(found.to_pylist(), unreadable.tolist(), strict=True)
                    values[name] = [UNREADABLE if is_marked else value for value, is_marked in marked]
            yield values, batch.select(kept)
            first_row += len(batch)

    def _unreadable(self, name: str, feature: Feature, row: int) -> InputError:
        what = "a date such as 2020-12-31" if isinstance(feature, Date) else "a number"
        return InputError(
            f"{self.path} has a value that is not {what} in column {name!r}, in row {row} below the header. "
            "Correct it, delete it, list it under missing in the domain, or declare the column categorical."
        )


class Files(LocalSource):
    """Records of one or more files, in batches. Each iteration reads the files again.

    Files after the first are opened when they are needed. Columns may be in any order. Columns that are neither
    features nor have a role are not read. Some of the files may have no rows.
    """

    def __init__(self, paths: Sequence[Path], scratch: Path | None = None) -> None:
        self.scratch = scratch
        self.paths = paths
        self.first = DataFile(paths[0])
        self.advance: Advance = ignore  # set by commands to show progress

    def columns(self, roles: Roles) -> pa.Table:
        """Return the table of the first file, without rows and without columns that have a role."""
        empty = self.first.schema.empty_table()
        return empty.select([name for name in empty.column_names if name not in roles])

    def roles(self, domain: Domain, roles: Roles) -> Roles:
        """Return the columns of target and groups. Refuse features, and the same column for both.

        The target is the named column, or else the one that the domain names, or else the only other column.
        """
        target, groups = roles
        if groups is not None:
            self.first.check_columns([groups])
            if groups in domain.features:
                raise InputError(f"The column {groups!r} identifies the person, so it cannot be a feature as well.")
        target = domain.target_name if target is None else target
        if target is None:
            others = [name for name in self.first.columns if name not in domain.features and name != groups]
            if len(others) != 1:
                raise InputError(
                    f"The domain does not name its target, and {self.first.path} has {len(others)} columns that are "
                    'not features. Write name = "…" under [target].'
                )
            target = others[0]
        if target == groups:
            raise InputError(f"The column {target!r} is the target, so it cannot identify the person as well.")
        if target in domain.features:
            raise InputError(f"The column {target!r} is the target, so it cannot be a feature as well.")
        return Roles(target, groups)

    def records(self, domain: Domain, roles: Roles) -> Iterator[Records]:
        """Yield the records in batches. The domain determines how text is read; invalid text is an error."""
        return self._read(domain, self.roles(domain, roles))

    def features(self, domain: Domain) -> Iterator[Any]:
        """Yield the features of the records in batches, without reading other columns."""
        return (records.X for records in self._read(domain, Roles()))

    def collect(
        self, tally: Tally[T], drawn: Sequence[DrawnPart] | None = None, *, domain: Domain, roles: Roles
    ) -> list[T]:
        """Return the tally of all records. A check counts invalid text, which other tallies refuse."""
        records = self._read(domain, self.roles(domain, roles), mark_unreadable=isinstance(tally, CheckTally))
        return [tally(records, None if drawn is None else drawn[0])]

    def _read(self, domain: Domain, roles: Roles, *, mark_unreadable: bool = False) -> Iterator[Records]:
        """Yield the features and the columns with a role, in batches."""
        sizes = [path.stat().st_size for path in self.paths]
        empty: list[NoRowsError] = []
        for file, size in zip(self._files(), sizes, strict=True):
            try:
                yield from self._read_file(file, size / max(sum(sizes), 1), domain, roles, mark_unreadable)
            except NoRowsError as error:
                empty.append(error)
        if len(empty) == len(sizes):
            raise empty[0]

    def _files(self) -> Iterator[DataFile]:
        yield self.first
        yield from map(DataFile, self.paths[1:])

    def _read_file(
        self, file: DataFile, share_of_file: float, domain: Domain, roles: Roles, mark_unreadable: bool
    ) -> Iterator[Records]:
        if roles.groups in file.rounded:
            raise InputError(
                f"{file.path} has 96-bit timestamps in column {roles.groups!r}, which identifies the person. "
                "Rounding them could turn two people into one. Write the file with 64-bit timestamps, or with text."
            )

        def advance(share: float) -> None:
            self.advance(share * share_of_file)

        target = {} if roles.target is None else {roles.target: domain.target}
        kept = [] if roles.groups is None else [roles.groups]
        for values, as_read in file.read(
            {**domain.features, **target}, domain.missing_texts, kept, advance, mark_unreadable=mark_unreadable
        ):
            X = {name: values[name] for name in domain.column_names}
            y = None if roles.target is None else values[roles.target]
            groups = None if roles.groups is None else as_read[roles.groups]
            yield Records(_with_unreadable(X) if mark_unreadable else pa.table(X), y, groups)


def _with_unreadable(values: Mapping[str, Values]) -> ColumnTable:
    """Return columns, whose values may be `UNREADABLE`, as a table."""
    columns = [read_column(column, f"Column {name!r}") for name, column in values.items()]
    return ColumnTable(columns[0].n_rows, len(columns), columns.__getitem__, list(values))


def find_files(patterns: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files of paths and patterns, sorted by name within each pattern, and refuse duplicates."""
    paths: list[Path] = []
    for pattern in patterns:
        found = matches(Path(pattern))
        if not found:
            raise InputError(f"No file matches {pattern}. Pass CSV or Parquet files.")
        paths += found
    if not paths:
        raise InputError("The list of files is empty. Pass CSV or Parquet files.")
    _refuse_same(paths)
    return paths


def _refuse_same(paths: Sequence[Path]) -> None:
    """Raise an error if two paths lead to the same file, even through links, because its records would count twice."""
    known: dict[tuple[int, int], tuple[Path, os.stat_result]] = {}
    for path in paths:
        status = status_of(path)
        if status is None:  # a missing file is an error when it is opened
            continue
        place = status.st_dev, status.st_ino
        if place not in known:
            known[place] = path, status
            continue
        first, status_of_first = known[place]
        if is_same_file(status_of_first, status):
            what = f"{path} is listed twice" if str(path) == str(first) else f"{first} and {path} are the same file"
            raise InputError(f"{what}, so its records would count twice. List each file once.")


def matches(pattern: Path) -> list[Path]:
    """Return the files that match a pattern, sorted by name. A path that exists or has no wildcards matches itself."""
    if not glob.has_magic(str(pattern)) or pattern.exists():
        return [pattern]
    return [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True))]
