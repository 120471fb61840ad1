"""The records of a block of CSV: where they end, which of them are blank, and whether all have as many fields.

A reader of CSV fills up a record that lacks fields with missing values, and takes a blank line for a record of nothing
but missing values. Both hide mistakes: a line that was cut off, or one more row than there are people.
"""

from __future__ import annotations

import csv
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

_QUOTE, _LINE_FEED, _RETURN = b'"\n\r'


class RaggedRecordError(ValueError):
    """A record has more or fewer fields than the header; ``row`` is its position in the block, from zero."""

    def __init__(self, row: int, n_fields: int) -> None:
        super().__init__(f"record {row} has {n_fields} fields")
        self.row = row
        self.n_fields = n_fields


class Dialect(NamedTuple):
    """What a header tells about a file of CSV: its separator, and how many fields each record has."""

    separator: int
    n_fields: int


def first_record(file: BinaryIO, max_bytes: int) -> bytes:
    """Return the header, which spans several lines if a quoted name holds line breaks."""
    record = line = file.readline(max_bytes)
    while line and record.count(b'"') % 2 and len(record) < max_bytes:
        line = file.readline(max_bytes)
        record += line
    return record


def end_of_records(data: bytes) -> int:
    """Return the end of the last complete record: the last line break outside of quotes."""
    end = data.rfind(b"\n") + 1
    open_quote = data.count(b'"', 0, end) % 2
    while end and open_quote:
        before = data.rfind(b"\n", 0, end - 1) + 1
        open_quote ^= data.count(b'"', before, end) % 2
        end = before
    return end


def checked_records(block: bytes, dialect: Dialect) -> bytes:
    """Return a block of whole records without the blank lines between them; refuse one with a ragged record.

    In a file of one column a blank line is a record, whose only value is missing.
    """
    if dialect.n_fields == 1 or not block:
        return block
    if not block.endswith(b"\n"):
        block += b"\n"
    content = np.frombuffer(block, dtype=np.uint8)
    is_outside = _outside_quotes(content)
    stops = np.flatnonzero((content == _LINE_FEED) & is_outside) + 1
    if not len(stops) or stops[-1] != len(block):
        return block  # a quote is not closed, which is for the reader to say
    starts = np.concatenate([[0], stops[:-1]])
    is_blank = (stops - starts == 1) | ((stops - starts == 2) & (content[starts] == _RETURN))  # noqa: PLR2004 -- \r\n
    n_fields = 1 + np.add.reduceat((content == dialect.separator) & is_outside, starts, dtype=np.int64)
    for record in np.flatnonzero(~is_blank & (n_fields != dialect.n_fields)).tolist():
        _confirm_ragged(block[starts[record] : stops[record]], int((~is_blank[:record]).sum()), dialect)
    if not is_blank.any():
        return block
    return b"".join(block[starts[run[0]] : stops[run[-1]]] for run in _runs(np.flatnonzero(~is_blank)))


def _outside_quotes(content: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return which bytes have an even number of quotes before them."""
    is_quote = content == _QUOTE
    return ~np.bitwise_xor.accumulate(is_quote) if is_quote.any() else np.ones(len(content), dtype=np.bool_)


def _confirm_ragged(record: bytes, row: int, dialect: Dialect) -> None:
    """Raise an error if a record has another number of fields than the header.

    Counting has missed separators after a quote in the middle of a field, such as that of 5" for inches, which means
    itself.
    """
    reader = csv.reader([record.decode(errors="replace")], delimiter=chr(dialect.separator))
    try:
        n_fields = len(next(reader))
    except csv.Error:  # a very long field, say
        return  # the reader of the block decides
    if n_fields != dialect.n_fields:
        raise RaggedRecordError(row, n_fields)


def _runs(positions: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Return runs of consecutive positions."""
    return [run for run in np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1) if len(run)]
