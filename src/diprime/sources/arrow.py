"""Arrow streams as a source that is read in batches: database queries, file data sets and lazy frames."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import chain
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any
from weakref import WeakSet

import narwhals.stable.v2 as nw

from diprime._util import InputError
from diprime.domain import Domain
from diprime.domain.records import Records
from diprime.execution.partition import ScratchStorage
from diprime.sources.protocol import LocalSource, Roles, check_names

BATCH_ROWS = 1 << 16
"""The number of rows of a batch, where the library lets it be chosen."""
USED = "X has already been read, and can be read only once. Run its query again."
TYPES = (
    "The batches of X have columns of different types, so they cannot be copied to learn the domain. Cast all batches "
    "to the schema of the stream."
)
FAILED = (
    "X is a {kind} that cannot be read ({error}). Read it without diprime to see the message, which is "
    "not shown here because it can quote records."
)
DAYS_OF_TIMES = (
    "Column {name!r} of X identifies the person. It contains times in one file, but the data set "
    "converts them to days, so several people could become one. Write all files with the same type."
)

_USED: WeakSet[Any] = WeakSet()  # pyarrow readers that have been read, which yield no rows again
_READABLE = ("__arrow_c_stream__", "collect_batches", "scanner", "to_reader", "fetch_record_batch")
_READ_AGAIN = ("collect_batches", "scanner", "sql_query")  # of lazy frames, data sets and DuckDB relations


def is_stream(X: Any) -> bool:
    """Return whether an object streams Arrow data, and is not a table or column in memory."""
    kind = type(X)
    if hasattr(kind, "__arrow_c_array__") or not any(hasattr(kind, name) for name in _READABLE):
        return False
    try:
        return nw.from_native(X, eager_only=True, allow_series=True, pass_through=True) is X
    except nw.exceptions.DuplicateError:  # a table, which is refused when it is read
        return False


class ArrowStream(LocalSource):
    """Rows of a stream that `is_stream` recognises. Each pass opens a new stream if possible."""

    def __init__(self, stream: Any, scratch: Path | None = None) -> None:
        self.scratch = scratch
        self._stream = stream
        self._kind = type(stream).__name__
        self._frames: Iterator[Any] | None = None  # of a stream that is open but has not been read
        self._columns: Any = None
        self._keeps = False  # whether the next pass keeps the rows for those after it

    def columns(self, roles: Roles) -> Any:
        """Return the table of the features without rows."""
        if self._columns is None:
            self._frames = self._opened()
        return self._columns.drop(*filter(None, roles), strict=False).to_native()

    def repeatable(self) -> ArrowStream:
        """Return this source, or, if its rows can be read only once, one that keeps them as long as it is there."""
        if any(hasattr(self._stream, name) for name in _READ_AGAIN):
            return self
        keeping, self._frames = copy(self), None
        keeping._keeps = True
        return keeping

    def records(self, domain: Domain, roles: Roles) -> Iterator[Records]:
        """Yield the records in batches, without other columns. The first batch is empty."""
        return self._read(domain, Roles(domain.target_name if roles.target is None else roles.target, roles.groups))

    def features(self, domain: Domain) -> Iterator[Any]:
        """Yield the features of the records in batches."""
        return (records.X for records in self._read(domain, Roles()))

    def _read(self, domain: Domain, roles: Roles) -> Iterator[Records]:
        if self._keeps:
            self._stream, self._keeps = _kept(self._chosen(domain, roles), self.scratch), False
        for frame in self._chosen(domain, roles):
            y, groups = (None if name is None else frame.get_column(name).to_native() for name in roles)
            yield Records(frame.drop(*filter(None, roles)).to_native(), y, groups)

    def _chosen(self, domain: Domain, roles: Roles) -> Iterator[Any]:
        """Yield tables of the features, targets and groups; the first has no rows."""
        frames, self._frames = self._frames or self._opened(), None
        check_names(self._columns.columns, roles)
        names = [name for name in self._columns.columns if name in domain.features or name in roles]
        if roles.groups is not None and hasattr(self._stream, "scanner"):
            frames = chain(_ids_of_files(self._stream, self._stream.schema, roles.groups), frames)
        frame = self._columns
        while frame is not None:
            yield frame.select(*names)
            frame = self._next(frames)

    def _opened(self) -> Iterator[Any]:
        """Start a stream and store its columns."""
        frames = _frames_of(self._stream)
        self._columns = self._next(frames)
        return frames

    def _next(self, frames: Iterator[Any]) -> Any:
        """Return the next table, or None. Errors of the library are replaced by ones that name only their type."""
        try:
            native = next(frames, None)
            return None if native is None else nw.from_native(native, eager_only=True)
        except nw.exceptions.DuplicateError:
            failed = InputError("X has two columns of the same name; rename one of them.")
        except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, ImportError, InputError):
            raise
        except BaseException as error:  # noqa: BLE001 -- may quote a value; polars panics are no Exception
            failed = InputError(FAILED.format(kind=self._kind, error=type(error).__name__))
        raise failed  # outside the except block, so the original is not its context


def _ids_of_files(data_set: Any, schema: Any, name: str) -> Iterator[Any]:
    """Yield an empty table for each file of a data set, with the type of its ids.

    Rows are cast to the types of the first file. This could round the ids of several people to one integer, or turn
    their times into the same day, which the types of the files reveal.
    """
    import pyarrow as pa

    for part in getattr(data_set, "children", ()):
        yield from _ids_of_files(part, schema, name)
    for path in getattr(data_set, "files", ()):
        if data_set.format.default_extname not in ("csv", "json"):  # text has no types of its own
            types = data_set.format.inspect(path, data_set.filesystem)
            if name in types.names:
                if pa.types.is_date(schema.field(name).type) and pa.types.is_timestamp(types.field(name).type):
                    raise InputError(DAYS_OF_TIMES.format(name=name))
                yield schema.set(schema.get_field_index(name), types.field(name)).empty_table()


def _kept(frames: Iterator[Any], scratch: Path | None) -> Any:
    """Return tables of pyarrow, the first of which has no rows, as an object that can be read several times."""
    import pyarrow as pa

    tables = _of_one_schema(frame.to_native() for frame in frames)
    return pa.concat_tables(tables) if scratch is None else _FileOfTables(ScratchStorage(scratch), tables)


def _of_one_schema(tables: Iterator[Any]) -> Iterator[Any]:
    """Yield tables, and refuse one whose types differ from those of the first."""
    schema = None
    for table in tables:
        schema = schema or table.schema
        if table.schema != schema:
            raise InputError(TYPES)
        yield table


class _FileOfTables:
    """Tables of pyarrow in a scratch file, which is mapped into memory, and ends with this object."""

    def __init__(self, storage: ScratchStorage, tables: Iterator[Any]) -> None:
        import pyarrow as pa

        with storage.file("enough free space for all rows of X") as file:
            with pa.ipc.new_stream(file, next(tables).schema) as writer:
                for table in tables:
                    writer.write_table(table)
            file.flush()
            self._bytes = pa.py_buffer(mmap(file.fileno(), 0, access=ACCESS_READ))

    def to_reader(self) -> Any:
        """Return a reader of all rows."""
        import pyarrow as pa

        return pa.ipc.open_stream(self._bytes)


def _frames_of(stream: Any) -> Iterator[Any]:
    """Yield tables in memory, of which the first has no rows."""
    if hasattr(stream, "collect_batches"):
        yield stream.head(0).collect()
        yield from stream.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)
        return
    import pyarrow as pa

    if hasattr(stream, "sql_query"):  # before version 2, its __arrow_c_stream__ loads all rows
        reader = (getattr(stream, "to_arrow_reader", None) or stream.fetch_record_batch)(BATCH_ROWS)
    elif isinstance(stream, pa.RecordBatchReader):
        reader = stream
    elif hasattr(stream, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(stream)
    elif hasattr(stream, "fetch_record_batch"):
        reader = stream.fetch_record_batch()
    else:
        reader = (_scanner(stream) if hasattr(stream, "scanner") else stream).to_reader()
    if reader in _USED:
        raise InputError(USED)
    yield reader.schema.empty_table()
    _USED.add(reader)
    for batch in reader:
        yield pa.Table.from_batches([batch])


def _scanner(data_set: Any) -> Any:
    """Return a scanner that reads a pyarrow data set with little memory, instead of whole files at once."""
    import pyarrow.dataset as pads

    options: dict[str, Any] = {}
    if isinstance(getattr(data_set, "format", None), pads.ParquetFileFormat):
        little = pads.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
        options["fragment_scan_options"] = little
    return data_set.scanner(
        batch_size=BATCH_ROWS, batch_readahead=1, fragment_readahead=1, use_threads=False, **options
    )
