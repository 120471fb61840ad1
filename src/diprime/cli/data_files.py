"""CSV and Parquet files, a batch of rows at a time.

What is not a number where one must be is an error, which names the row but not the value: it is for whoever holds the
data, and nothing has been released by then.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import polars as pl

from diprime.cli.text_values import as_text, read_levels, read_numbers
from diprime.domain import Categorical, Domain, Numeric
from diprime.model.tree_view import shortened

BLOCK_BYTES = 1 << 23
MAX_RECORD_BYTES = 1 << 26
PARQUET_ROWS = 100_000
Advance = Callable[[float], None]

_PARQUET = b"PAR1"
_NOT_UTF8 = "it is not UTF-8 text; save it as UTF-8"
_COMPRESSED = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")  # gzip, zip and zstd


class InputError(ValueError):
    """Something is wrong with what the user gave; the message is one sentence for them."""


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
        Whether it is a CSV file, in which all values are text, rather than a Parquet file, in which some may be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir():
            raise InputError(f"{path} is a folder; give a CSV or Parquet file.")
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is a pipe or a device, which cannot be read twice; save it as a file first.")
        with path.open("rb") as file:
            header = _first_record(file)
        if not header.strip():
            raise InputError(
                f"{path} is empty, or its first line is; give a CSV file with a header, or a Parquet file."
            )
        if header.startswith(_COMPRESSED):
            raise InputError(f"{path} is compressed, or a spreadsheet; unpack it, or save it as CSV.")
        self.is_csv = not header.startswith(_PARQUET)
        if self.is_csv and header.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InputError(f"{path} cannot be read as CSV: {_NOT_UTF8}.")
        if self.is_csv and b"\r" in header.rstrip() and not header.endswith(b"\n"):
            raise InputError(
                f"{path} cannot be read as CSV: its lines end as on old Macs; save it with usual line ends."
            )
        self._header_bytes = len(header)
        self._header = header.removeprefix(codecs.BOM_UTF8).rstrip(b" \r\n") + b"\n"  # a tab may be a separator
        with self._readable():
            self.columns = (self._scan_text(b"") if self.is_csv else self._scan_parquet()).collect_schema().names()

    def _scan_text(self, block: bytes) -> pl.LazyFrame:
        """Read a block of records as text. With the header before it, a block is a CSV file like any other."""
        separator = max(",;\t", key=lambda candidate: self._header.count(candidate.encode()))
        return pl.scan_csv(io.BytesIO(self._header + block), infer_schema=False, separator=separator)

    def _scan_parquet(self) -> pl.LazyFrame:
        return pl.scan_parquet(self.path, glob=False)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn what polars finds wrong with a file into one sentence, which quotes nothing of the data."""
        try:
            yield
        except pl.exceptions.PolarsError as error:
            if not self.is_csv:
                raise InputError(f"{self.path} cannot be read as Parquet: it is incomplete or damaged.") from None
            reasons = {
                "utf-8": _NOT_UTF8,
                "more fields": "a row has more fields than the header; put quotes around fields that hold separators",
            }
            text = str(error).lower()
            reason = next((r for word, r in reasons.items() if word in text), "a quote is not closed, or it is damaged")
            raise InputError(f"{self.path} cannot be read as CSV: {reason}.") from None

    def check_columns(self, names: Collection[str]) -> None:
        """Refuse a file that lacks columns."""
        lacking = [repr(shortened(name)) for name in names if name not in self.columns]
        if lacking:
            more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
            listed = f"the column{'s' * (len(lacking) > 1)} {', '.join(lacking[:5])}{more}"
            has = ", ".join(repr(shortened(name)) for name in self.columns[:10]) + ", …" * (len(self.columns) > 10)
            raise InputError(f"{self.path} lacks {listed}; it has {has}.")

    def batches(self, columns: Sequence[str], advance: Advance) -> Iterator[pl.DataFrame]:
        """Return the rows as they are in the file, a batch at a time; ``advance`` is told the share that is done."""
        self.check_columns(columns)
        some = False
        with self._readable():
            for frame, share in self._text_frames() if self.is_csv else self._parquet_frames():
                batch = frame.select(columns).collect()
                some |= batch.height > 0
                yield batch
                advance(share)
        if not some:
            raise InputError(f"{self.path} has no rows.")

    def _text_frames(self) -> Iterator[tuple[pl.LazyFrame, float]]:
        """Cut a CSV file into blocks of whole records: no more of it is ever in memory."""
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            file.seek(self._header_bytes)
            rest = b""
            while chunk := file.read(BLOCK_BYTES):
                rest += chunk
                end = _end_of_records(rest)
                if not end and len(rest) > MAX_RECORD_BYTES:
                    raise InputError(f"{self.path} cannot be read as CSV: a quote is not closed.")
                yield self._scan_text(rest[:end]), end / size
                rest = rest[end:]
        if rest:
            yield self._scan_text(rest), len(rest) / size

    def _parquet_frames(self) -> Iterator[tuple[pl.LazyFrame, float]]:
        frame = self._scan_parquet()
        n_rows = frame.select(pl.len()).collect().item()
        for start in range(0, n_rows, PARQUET_ROWS):
            yield frame.slice(start, PARQUET_ROWS), min(PARQUET_ROWS, n_rows - start) / n_rows

    def decoded(
        self, features: Mapping[str, Numeric | Categorical], advance: Advance, kept: Sequence[str] = ()
    ) -> Iterator[pl.DataFrame]:
        """Return the rows as the domain reads them, a batch at a time; columns that are ``kept`` stay as they are."""
        first = 1
        for batch in self.batches(list(dict.fromkeys([*features, *kept])), advance):
            # By name, for a list of columns would rename the one without a name.
            columns = {name: self._decode(batch[name], feature, first) for name, feature in features.items()}
            yield pl.DataFrame({**columns, **{name: batch[name] for name in kept if name not in features}})
            first += batch.height

    def _decode(self, column: pl.Series, feature: Numeric | Categorical, first: int) -> pl.Series:
        text = as_text(column)
        if text is None:
            return column
        if isinstance(feature, Categorical):
            return read_levels(text, feature.levels)
        numbers, unreadable = read_numbers(text)
        row = unreadable.arg_max() if unreadable.any() else None
        if row is not None:
            raise InputError(
                f"{self.path} has something that is not a number in column {column.name!r}, in row {first + row} below "
                "the header; correct it, leave it empty, or declare the column categorical."
            )
        return numbers


def _first_record(file: BinaryIO) -> bytes:
    """Return the first line, and those that it goes on in: names of columns may hold line breaks, in quotes."""
    record = line = file.readline(BLOCK_BYTES)
    while line and record.count(b'"') % 2 and len(record) < BLOCK_BYTES:
        line = file.readline(BLOCK_BYTES)
        record += line
    return record


def _end_of_records(data: bytes) -> int:
    """Return where the last whole record ends: at the last line break that no open quote precedes."""
    end = data.rfind(b"\n") + 1
    open_quote = data.count(b'"', 0, end) % 2
    while end and open_quote:
        before = data.rfind(b"\n", 0, end - 1) + 1
        open_quote ^= data.count(b'"', before, end) % 2
        end = before
    return end


def read_domain(path: Path) -> tuple[Domain, str]:
    """Return the domain that a TOML or JSON file describes, and its text."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a mark before the text
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; a domain is a TOML or JSON file.") from None
    try:
        return (Domain.from_json if path.suffix == ".json" else Domain.from_toml)(text), text
    except ValueError as error:
        raise InputError(f"{path} is not a domain: {error}") from None


def target_column(file: DataFile, domain: Domain) -> str:
    """Return the column of the target: the one that the domain names, or else the only one that is no feature."""
    if domain.target_name is not None:
        return domain.target_name
    others = [name for name in file.columns if name not in domain.features]
    if len(others) == 1:
        return others[0]
    raise InputError(
        f"The domain does not name its target, and {file.path} has {len(others)} columns that are no features; "
        'write name = "…" under [target].'
    )
