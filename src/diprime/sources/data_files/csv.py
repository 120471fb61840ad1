"""CSV files, whose records are columns of text.

CSV readers usually fill up incomplete records with missing values, read blank lines as records of missing values, and
close open quotes at the end of the file. All of these hide mistakes such as truncated lines, which are errors here.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv

from diprime._util import InputError

BLOCK_BYTES = 1 << 23
"""Number of bytes that are read at a time, and the maximum size of a record."""
MAX_COLUMNS = 100_000
"""Maximum number of columns. Each uses more than a kilobyte of memory, but maybe one byte of the file."""

_NOT_UTF8 = "it is not UTF-8 text. Save it as UTF-8"


class RaggedRecordError(ValueError):
    """Record with more or fewer fields than the header. ``row`` is its position in the file, from one."""

    def __init__(self, row: int, n_fields: int) -> None:
        super().__init__(f"record {row} has {n_fields} fields")
        self.row = row
        self.n_fields = n_fields


def first_record(path: Path) -> bytes:
    """Return the header of a file, which has several lines if a quoted name contains line breaks."""
    with path.open("rb") as file:
        record = line = file.readline(BLOCK_BYTES)
        while line and record.count(b'"') % 2 and len(record) < BLOCK_BYTES:
            line = file.readline(BLOCK_BYTES)
            record += line
    return record


class CsvFile:
    """CSV file, whose values are all text. Numbers have decimal commas if semicolons separate the values."""

    def __init__(self, path: Path, header: bytes) -> None:
        if header.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise _not_csv(path, _NOT_UTF8)
        if b"\r" in header.rstrip() and not header.endswith(b"\n"):
            raise _not_csv(path, "its line endings are those of old Macs. Save it with usual line endings")
        self._path, self._header_bytes = path, len(header)
        names = header.removeprefix(codecs.BOM_UTF8).rstrip(b" \r\n")  # a tab may be a separator
        self._separator = max(",;\t", key=lambda separator: names.count(separator.encode()))
        self.has_decimal_commas = self._separator == ";"
        if names.count(self._separator.encode()) >= MAX_COLUMNS:
            raise _not_csv(path, f"it has more than {MAX_COLUMNS:,} columns")
        with _errors_explained(path):
            lines = io.StringIO(names.decode(), newline="")
            columns = next(csv.reader(lines, delimiter=self._separator, strict=True))
        self.schema = pa.schema([(name, pa.string()) for name in columns])

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.Table, float]]:
        """Yield blocks of complete records with their share of the file. Only one block is in memory at a time."""
        size, done = self._path.stat().st_size, self._header_bytes
        with self._path.open("rb") as file, _errors_explained(self._path):
            file.seek(self._header_bytes)
            records = RecordReader(file, self.schema.names, self._separator, BLOCK_BYTES)
            try:
                for batch in records.batches(columns):
                    position = file.tell()  # read once, because pyarrow reads ahead in a thread
                    yield batch, (position - done) / size
                    done = position
            except RaggedRecordError as error:
                raise InputError(
                    f"{self._path} has {error.n_fields} field{'s' * (error.n_fields != 1)} in row {error.row} below "
                    f"the header, which has {len(self.schema)}. Complete the row, and quote fields that contain "
                    "separators."
                ) from None


def _not_csv(path: Path, reason: str) -> InputError:
    return InputError(f"{path} cannot be read as CSV: {reason}.")


@contextmanager
def _errors_explained(path: Path) -> Iterator[None]:
    """Replace an error of a reader by one sentence that does not quote data."""
    try:
        yield
    except (pa.ArrowInvalid, UnicodeDecodeError, csv.Error) as error:
        too_long = f"a quote is not closed, or a row has more than {BLOCK_BYTES:,} bytes"
        reasons = {"utf": _NOT_UTF8, "straddling": too_long}
        text = str(error).lower()
        reason = next((r for word, r in reasons.items() if word in text), "a quote is not closed, or it is damaged")
        raise _not_csv(path, reason) from None


class RecordReader:
    """Records of a file after its header, as a file object for pyarrow.

    An additional ragged record marks the end; pyarrow finds it unless a quote is open there. Another one at the start
    protects a byte order mark in the first value, which pyarrow would drop. In a file with one column, a blank line is
    a record whose only value is missing; otherwise, blank lines are ignored. All bytes must be UTF-8, because pyarrow
    prints a traceback if it cannot decode a ragged record.
    """

    closed = False  # required by pyarrow

    def __init__(self, file: BinaryIO, names: Sequence[str], separator: str, block_bytes: int) -> None:
        self._file, self._names, self._separator, self._block_bytes = file, list(names), separator, block_bytes
        self._mark = "\0start or end" + separator * len(names)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._added = [self._mark + "\n", "\n" * (not _ends_with_line_feed(file)) + self._mark + "\n"]
        self._ragged: RaggedRecordError | None = None
        self._n_marks = 0

    def read(self, n_bytes: int) -> bytes:
        """Return the next bytes, which end in CR only before an added record: pyarrow drops LF after a final CR."""
        if len(self._added) == 1 and (data := self._file.read(n_bytes)):
            kept = data.rstrip(b"\r") or data
            self._file.seek(len(kept) - len(data), os.SEEK_CUR)
            self._decoder.decode(kept)
            return kept
        self._decoder.decode(b"", final=True)
        return self._added.pop(0).encode() if self._added else b""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the records, with null for empty text without quotes, and refuse ragged records."""
        read = pyarrow.csv.ReadOptions(use_threads=False, block_size=self._block_bytes, column_names=self._names)
        parse = pyarrow.csv.ParseOptions(
            delimiter=self._separator,
            newlines_in_values=True,
            ignore_empty_lines=len(self._names) > 1,
            invalid_row_handler=self._note,
        )
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()),
            include_columns=list(dict.fromkeys(columns)),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        try:
            with pyarrow.csv.open_csv(self, read, parse, convert) as reader:
                for batch in filter(len, reader):  # a batch may consist of an added record only
                    yield pa.Table.from_batches([batch])
        except pa.ArrowInvalid:
            if self._ragged is not None:
                raise self._ragged from None
            raise
        if self._n_marks < 2:  # noqa: PLR2004 -- at the start and at the end
            raise pa.ArrowInvalid("A quote is not closed.")

    def _note(self, record: Any) -> str:
        """Store a ragged record as an error, unless it is an added one."""
        if record.text == self._mark:
            self._n_marks += 1
            return "skip"
        if record.text.count('"') % 2 == 0:
            self._ragged = RaggedRecordError(record.number - 1, record.actual_columns)
        return "error"


def _ends_with_line_feed(file: BinaryIO) -> bool:
    """Return whether a file ends with a line feed, or has nothing left to read."""
    start = file.tell()
    if file.seek(0, os.SEEK_END) == start:
        return True
    file.seek(-1, os.SEEK_END)
    last = file.read()
    file.seek(start)
    return last == b"\n"
