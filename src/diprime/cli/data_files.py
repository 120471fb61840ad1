"""CSV and Parquet files, read in batches of rows, and files of domains and scores.

A text that is not a number in a numeric column, or not a date in a column of dates, is an error. The message names the
row but not the value. So does that of a row that has not as many fields as the header. They are for the holder of the
data, and nothing has been released at that point.
"""

from __future__ import annotations

import codecs
import io
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from diprime.cli.csv_records import Dialect, RaggedRecordError, checked_records, end_of_records, first_record
from diprime.cli.parquet_file import DamagedFileError, ParquetFile
from diprime.cli.text_values import as_text, read_categories, read_dates, read_numbers
from diprime.domain import Categorical, Date, Domain
from diprime.domain.files import MAX_BYTES, is_oversized, parse_json, parse_toml
from diprime.domain.kinds import Feature
from diprime.model.feature_words import shortened
from diprime.scoring import PrivateScore

BLOCK_BYTES = 1 << 23
MAX_RECORD_BYTES = 1 << 26
MAX_COLUMNS = 100_000
"""The largest number of columns of a CSV file: each takes more than a kilobyte in memory, and one byte in the file."""
MAX_LACKING_LISTED = 5
MAX_COLUMNS_LISTED = 10

Advance = Callable[[float], None]
"""Is told the share of the work that has been done since the last call."""

_PARQUET_MAGIC = b"PAR1"
_DAMAGED_PARQUET = "it is incomplete or damaged, or says that it holds far more than a file of its size can"
_NOT_UTF8 = "it is not UTF-8 text; save it as UTF-8"
_COMPRESSED_MAGIC = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")  # gzip, zip and zstd


class InputError(ValueError):
    """A mistake in the user's input; the message is one sentence for the user."""


class NoRowsError(InputError):
    """A file that has no rows."""


class DataFile:
    """A table in a file.

    Parameters
    ----------
    path : Path
        A CSV file with a header, separated by commas, semicolons or tabs, or a Parquet file.

    Attributes
    ----------
    columns : list of str
        The names of the columns.
    is_csv : bool
        Whether it is a CSV file, all of whose values are text, or a Parquet file, whose columns have types.
    has_decimal_commas : bool
        Whether numbers may have decimal commas: in a CSV file that is separated by semicolons.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir():
            raise InputError(f"{path} is a folder; give a CSV or Parquet file.")
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is a pipe or a device, which cannot be read twice; save it as a file first.")
        with path.open("rb") as file:
            header = first_record(file, BLOCK_BYTES)
        if not header.strip():
            raise InputError(
                f"{path} is empty, or its first line is; give a CSV file with a header, or a Parquet file."
            )
        if header.startswith(_COMPRESSED_MAGIC):
            raise InputError(f"{path} is compressed, or a spreadsheet; unpack it, or save it as CSV.")
        self.is_csv = not header.startswith(_PARQUET_MAGIC)
        if self.is_csv and header.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InputError(f"{path} cannot be read as CSV: {_NOT_UTF8}.")
        if self.is_csv and b"\r" in header.rstrip() and not header.endswith(b"\n"):
            raise InputError(
                f"{path} cannot be read as CSV: its lines end as on old Macs; save it with usual line ends."
            )
        self._header_bytes = len(header)
        self._header = header.removeprefix(codecs.BOM_UTF8).rstrip(b" \r\n") + b"\n"  # a tab may be a separator
        self._separator = max(b",;\t", key=self._header.count)
        self.has_decimal_commas = self.is_csv and self._separator == ord(";")
        with self._errors_explained():
            self._parquet = None if self.is_csv else ParquetFile(path)
            self.columns = self._csv_columns() if self._parquet is None else self._parquet.no_rows.columns

    def _csv_columns(self) -> list[str]:
        """Return the names in the header of a CSV file; refuse two that are equal."""
        if self._header.count(self._separator) >= MAX_COLUMNS:
            raise InputError(f"{self.path} cannot be read as CSV: it has more than {MAX_COLUMNS:,} columns.")
        names = [name or "" for name in self._scan_csv(b"", has_header=False).collect().row(0)]
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            called = f"named {shortened(twice)!r}" if twice else "without a name"
            raise InputError(f"{self.path} has two columns {called}; rename or remove one of them.")
        return names

    def _scan_csv(self, block: bytes, *, has_header: bool = True) -> pl.LazyFrame:
        """Scan a block of records as text; after the header, a block is a complete CSV file."""
        content = io.BytesIO(self._header + block)
        return pl.scan_csv(content, infer_schema=False, separator=chr(self._separator), has_header=has_header)

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        """Replace an error of a reader by one sentence that does not quote the data."""
        try:
            yield
        except DamagedFileError:
            raise InputError(f"{self.path} cannot be read as Parquet: {_DAMAGED_PARQUET}.") from None
        except pl.exceptions.PolarsError as error:
            reasons = {
                "utf-8": _NOT_UTF8,
                "more fields": "a row has more fields than the header; put quotes around fields that hold quotes",
            }
            text = str(error).lower()
            reason = next((r for word, r in reasons.items() if word in text), "a quote is not closed, or it is damaged")
            raise InputError(f"{self.path} cannot be read as CSV: {reason}.") from None

    def check_columns(self, names: Collection[str]) -> None:
        """Raise an error if the file lacks columns."""
        lacking = [repr(shortened(name)) for name in names if name not in self.columns]
        if lacking:
            n_more = len(lacking) - MAX_LACKING_LISTED
            more = f" and {n_more} more" if n_more > 0 else ""
            listed = f"the column{'s' * (len(lacking) > 1)} {', '.join(lacking[:MAX_LACKING_LISTED])}{more}"
            has = ", ".join(repr(shortened(name)) for name in self.columns[:MAX_COLUMNS_LISTED])
            has += ", …" * (len(self.columns) > MAX_COLUMNS_LISTED)
            raise InputError(f"{self.path} lacks {listed}; it has {has}.")

    def batches(self, columns: Sequence[str], advance: Advance) -> Iterator[pl.DataFrame]:
        """Yield batches of rows with the values of the file."""
        self.check_columns(columns)
        has_rows = False
        with self._errors_explained():
            for batch, share in (self._csv_batches if self._parquet is None else self._parquet.batches)(columns):
                has_rows |= batch.height > 0
                yield batch
                advance(share)
        if not has_rows:
            raise NoRowsError(f"{self.path} has no rows.")

    def _csv_batches(self, columns: Sequence[str]) -> Iterator[tuple[pl.DataFrame, float]]:
        """Yield blocks of complete records, each with its share of the file; one block is in memory at a time."""
        size = self.path.stat().st_size
        first_row = 1
        for block in self._csv_blocks():
            rows = self._scan_csv(self._checked(block, first_row)).select(columns).collect()
            yield rows, len(block) / size
            first_row += rows.height

    def _csv_blocks(self) -> Iterator[bytes]:
        """Yield the bytes after the header, cut between records."""
        with self.path.open("rb") as file:
            file.seek(self._header_bytes)
            rest = b""
            while chunk := file.read(BLOCK_BYTES):
                rest += chunk
                end = end_of_records(rest)
                if not end and len(rest) > MAX_RECORD_BYTES:
                    raise InputError(f"{self.path} cannot be read as CSV: a quote is not closed.")
                yield rest[:end]
                rest = rest[end:]
        if rest:
            yield rest

    def _checked(self, block: bytes, first_row: int) -> bytes:
        """Return a block without blank lines; refuse rows that do not have as many fields as the header."""
        try:
            return checked_records(block, Dialect(self._separator, len(self.columns)))
        except RaggedRecordError as error:
            raise InputError(
                f"{self.path} has {error.n_fields} field{'s' * (error.n_fields != 1)} in row {first_row + error.row} "
                f"below the header, which has {len(self.columns)}; complete the row, and put quotes around fields that "
                "hold separators."
            ) from None

    def no_rows(self) -> pl.DataFrame:
        """Return the table without its rows: names and types of columns, which are all text in a CSV file."""
        return self._scan_csv(b"").collect() if self._parquet is None else self._parquet.no_rows

    def decoded_batches(
        self, features: Mapping[str, Feature], advance: Advance, kept: Sequence[str] = ()
    ) -> Iterator[pl.DataFrame]:
        """Yield batches of rows with text converted to values of the features; other columns are ``kept`` as read."""
        for values, as_read in self.decoded_and_kept(features, kept, advance):
            yield values.hstack(as_read.get_columns())

    def decoded_and_kept(
        self, features: Mapping[str, Feature], kept: Sequence[str], advance: Advance
    ) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Yield batches of rows twice: the values of the features, and the ``kept`` columns as the file has them."""
        first_row = 1
        for batch in self.batches(list(dict.fromkeys([*features, *kept])), advance):
            # By name: polars would rename a column without a name in a list of columns.
            values = {name: self._decode(batch[name], feature, first_row) for name, feature in features.items()}
            yield pl.DataFrame(values), pl.DataFrame({name: batch[name] for name in kept})
            first_row += batch.height

    def _decode(self, column: pl.Series, feature: Feature, first_row: int) -> pl.Series:
        text = as_text(column)
        if text is None:
            return column
        if isinstance(feature, Categorical):
            return read_categories(text, feature, decimal_commas=self.has_decimal_commas)
        is_date = isinstance(feature, Date)
        values, unreadable = read_dates(text) if is_date else self.read_numbers(text)
        row = unreadable.arg_max() if unreadable.any() else None
        if row is not None:
            what = "a date such as 2020-12-31" if is_date else "a number"
            raise InputError(
                f"{self.path} has something that is not {what} in column {column.name!r}, in row {first_row + row} "
                "below the header; correct it, leave it empty, or declare the column categorical."
            )
        return values

    def read_numbers(self, text: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Return text as numbers, by the decimal marks of the file, and a mask of the values that are none."""
        return read_numbers(text, decimal_commas=self.has_decimal_commas)


def read_domain(path: Path) -> Domain:
    """Return the domain that a TOML or JSON file describes."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if is_oversized(data):
        raise InputError(f"{path} is larger than any domain; give a TOML or JSON file that describes one.")
    try:
        text = data.decode("utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; a domain is a TOML or JSON file.") from None
    try:
        # Not Domain.from_toml, which takes names of files as well: what a file says must not make us read another one.
        return Domain.from_dict((parse_json if path.suffix == ".json" else parse_toml)(text))
    except ValueError as error:
        raise InputError(f"{path} is not a domain: {str(error).rstrip('.')}.") from None


def read_score(path: Path) -> PrivateScore:
    """Return the score that a JSON file describes."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if is_oversized(data):
        raise InputError(f"{path} is larger than any score; write one with diprime score -o.")
    try:
        return PrivateScore.from_json(data.decode())
    except ValueError as error:  # also of what is not UTF-8
        reason = "it is not text" if isinstance(error, UnicodeDecodeError) else str(error).rstrip(".")
        raise InputError(f"{path} is not a score: {reason}; write it with diprime score -o.") from None


def person_columns(file: DataFile, domain: Domain, person: str | None) -> list[str]:
    """Return the columns to read for the sake of persons, one or none; refuse one that is a feature or not there."""
    if person is None:
        return []
    file.check_columns([person])
    if person in domain.features:
        raise InputError(f"The column {person!r} says who a record belongs to, so it cannot be a feature as well.")
    return [person]


def target_column(file: DataFile, domain: Domain, persons: Collection[str] = (), given: str | None = None) -> str:
    """Return the target's column: the one given, or that of the domain, or else the only one that is nothing else."""
    name = domain.target_name if given is None else given
    if name is not None:
        return _target_only(name, domain, persons)
    others = [name for name in file.columns if name not in domain.features and name not in persons]
    if len(others) == 1:
        return others[0]
    raise InputError(
        f"The domain does not name its target, and {file.path} has {len(others)} columns that are no features; "
        'write name = "…" under [target].'
    )


def _target_only(target: str, domain: Domain, persons: Collection[str]) -> str:
    if target in persons:
        raise InputError(f"The column {target!r} is the target, so it cannot say who a record belongs to as well.")
    if target in domain.features:
        raise InputError(f"The column {target!r} is the target, so it cannot be a feature as well.")
    return target
