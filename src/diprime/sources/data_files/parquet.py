"""Parquet files, read in batches of bounded memory, whatever the size of their row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from diprime._util import InputError
from diprime.sources.data_files.text import is_text_type

MAGIC = b"PAR1"
"""First bytes of a file."""
MAX_ROWS = 100_000
"""Maximum number of rows of a batch."""
MAX_CELLS = 1 << 22
"""Maximum number of values of a batch, unless a single row has more."""
MAX_BYTES = 1 << 26
"""Maximum size of a batch, as stated in the file, and of its dictionary-encoded text, unless a single row has more."""
BASE_ROWS, ROWS_PER_BYTE = 10_000_000, 1000
"""Number of rows that any file may have, plus a number per byte of the file, because real rows contain information."""

_OPTIONS: dict[str, Any] = {
    "pre_buffer": False,  # otherwise, whole row groups are in memory
    "buffer_size": 1 << 18,
    "coerce_int96_timestamp_unit": "us",  # distant 96-bit times would wrap around in nanoseconds
}
_DICTIONARY_BYTES, _INDEX_BYTES = 1 << 20, 3  # maximum in files of the usual writers


class ParquetFile:
    """Parquet file. ``rounded``: columns of 96-bit times, which are read in microseconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._opened() as file:
            self.schema = file.schema_arrow
            columns = map(file.schema.column, range(len(file.schema)))
            self.rounded = {column.path for column in columns if column.physical_type == "INT96"}

    @contextmanager
    def _opened(self, dictionaries: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
        """Open the file, reading some text columns as dictionaries, and hide the text of errors."""
        try:
            with pq.ParquetFile(self._path, read_dictionary=list(dictionaries), **_OPTIONS) as file:
                if file.metadata.num_rows > BASE_ROWS + ROWS_PER_BYTE * self._path.stat().st_size:
                    raise self._damaged()
                yield file
        except MemoryError:
            raise
        except (pa.ArrowException, ValueError, KeyError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the system: Arrow's own have no number
                raise
            raise self._damaged() from None

    def _damaged(self) -> InputError:
        """Return an error without its reason, which could quote rows."""
        return InputError(
            f"{self._path} cannot be read as Parquet: it is incomplete or damaged, or states far more rows than "
            "a file of its size can contain."
        )

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.Table, float]]:
        """Yield rows of some columns in batches, each with its share of all rows."""
        types = pa.schema([self.schema.field(name) for name in columns])
        with self._opened() as file:
            chunks = list(_chunks(file.metadata, set(columns)))
        plain = {chunk.column for chunk in chunks if not chunk.is_repeated}
        texts = [field.name for field in types if is_text_type(field.type) and field.name not in plain]
        with self._opened(texts) as file:
            n_rows, n_read = file.metadata.num_rows, 0
            for batch in file.iter_batches(_batch_rows(chunks, len(columns)), columns=list(columns)):
                for part in _parts(pa.Table.from_batches([batch]).select(columns)):
                    yield part.cast(types), len(part) / n_rows
                    n_read += len(part)
            if n_read != n_rows:
                raise self._damaged()


class _Chunk(NamedTuple):
    """Metadata of a column, or of part of a nested column, in a row group."""

    column: str
    path: str
    bytes_of_row: float
    is_repeated: bool  # whether text is probably stored in a dictionary, judging by its size


def _chunks(metadata: pq.FileMetaData, columns: set[str]) -> Iterator[_Chunk]:
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            path, size = chunk.path_in_schema, chunk.total_uncompressed_size
            for column in columns & {path, path.split(".")[0]}:
                is_repeated = size <= _DICTIONARY_BYTES + _INDEX_BYTES * group.num_rows
                yield _Chunk(column, path, size / max(1, group.num_rows), is_repeated)


def _batch_rows(chunks: Sequence[_Chunk], n_columns: int) -> int:
    """Return the number of rows of a batch."""
    widest: dict[str, float] = {}
    for chunk in chunks:
        widest[chunk.path] = max(widest.get(chunk.path, 0.0), chunk.bytes_of_row)
    return max(1, min(MAX_ROWS, MAX_CELLS // max(1, n_columns), int(MAX_BYTES / max(1.0, sum(widest.values())))))


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield slices of rows whose text, without dictionaries, does not greatly exceed `MAX_BYTES`."""
    ends = np.zeros(len(rows), dtype=np.int64)
    for column in rows.columns:
        if not pa.types.is_dictionary(column.type) or not is_text_type(column.type.value_type):
            continue
        (chunk,) = column.chunks  # a batch has one chunk
        ends += pc.fill_null(pc.binary_length(chunk.dictionary).take(chunk.indices), 0).to_numpy(zero_copy_only=False)
    ends, start = ends.cumsum(), 0
    while start < len(rows):
        stop = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + MAX_BYTES, side="right"))
        stop = max(start + 1, stop)
        yield rows.slice(start, stop - start)
        start = stop
