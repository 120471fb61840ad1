"""The child process that reads a Parquet file for :mod:`diprime.cli.parquet_file`.

It is run as a script, so that it imports polars and nothing of the library. Its arguments are the import path of its
parent, as JSON, and the file. It writes messages to standard output, each with its length in eight bytes before it:
first the number of rows, then the table without its rows, then answers to the requests that it reads from standard
input, one line of JSON each. An answer is the batches of rows that were asked for, and an empty message. Tables are
Arrow IPC streams.

Whatever goes wrong ends the process, whose parent then refuses the file: panics of polars and their texts, which may
tell about the rows, aborts, a table that is not as long as the file says, and an allocation beyond the limit.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

BASE_BYTES = 1 << 30
BYTES_OF_FILE = 10
"""A child may take `BASE_BYTES` of memory, and `BYTES_OF_FILE` for each byte of the file."""
BASE_ROWS = 10_000_000
ROWS_OF_FILE = 1000
"""A file may have `BASE_ROWS` rows, and `ROWS_OF_FILE` for each of its bytes: real tables hold some information."""
MAX_TEXT_BYTES = 1 << 26  # of a batch; 16 bytes of Parquet may stand for the same long text once more

_LENGTH = 8


def send(message: bytes) -> None:
    """Write a message with its length before it."""
    sys.stdout.buffer.write(len(message).to_bytes(_LENGTH, "little"))
    sys.stdout.buffer.write(message)
    sys.stdout.buffer.flush()


def limit_memory(n_bytes: int) -> None:
    """Let allocations beyond a limit fail, where the system can do that."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no limits, and a lower limit may be in force
        import resource  # noqa: PLC0415

        resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))


def batches(table: Any, n_rows: int, columns: list[str], rows_of_batch: int) -> Iterator[Any]:
    """Yield some columns in batches of rows, and fail if there are fewer rows than the file says."""
    for start in range(0, n_rows, rows_of_batch):
        batch = table.slice(start, rows_of_batch).select(columns).collect()
        if batch.height != min(rows_of_batch, n_rows - start):
            raise ValueError("The file says that it has other rows.")
        yield from short_parts(batch)


def short_parts(batch: Any) -> Iterator[Any]:
    """Cut a batch into parts of `MAX_TEXT_BYTES` of text, or of one row each."""
    if text_bytes(batch) <= MAX_TEXT_BYTES:
        yield batch
    elif batch.height == 1:
        raise ValueError("A row is too long.")
    else:
        half = batch.height // 2
        yield from short_parts(batch.head(half))
        yield from short_parts(batch.slice(half))


def text_bytes(batch: Any) -> int:
    """Return the length of all text in a batch, where equal texts may be stored once."""
    import polars as pl  # noqa: PLC0415 -- after the memory is limited

    texts = [c.cast(pl.String) for c in batch if c.dtype in (pl.String, pl.Categorical, pl.Enum)]
    return sum(text.str.len_bytes().sum() for text in texts)


def to_ipc(table: Any) -> bytes:
    """Return a table as an Arrow IPC stream."""
    buffer = io.BytesIO()
    table.write_ipc_stream(buffer)
    return buffer.getvalue()


def main(import_path: str, file: str) -> None:
    """Read a file, and answer requests until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted as well, and ends this process
    size = Path(file).stat().st_size
    limit_memory(BASE_BYTES + BYTES_OF_FILE * size)
    sys.path[:] = json.loads(import_path)
    os.environ["POLARS_MAX_THREADS"] = str(min(os.cpu_count() or 1, 8))  # each takes some of the memory
    import polars as pl  # noqa: PLC0415

    table = pl.scan_parquet(file, glob=False)
    n_rows = table.select(pl.len()).collect().item()
    if n_rows > BASE_ROWS + ROWS_OF_FILE * size:
        raise ValueError("The file says that it has more rows than it can hold.")
    send(str(n_rows).encode())
    send(to_ipc(table.head(0).collect()))
    for line in sys.stdin:
        for batch in batches(table, n_rows, **json.loads(line)):
            send(to_ipc(batch))
        send(b"")


if __name__ == "__main__":
    main(*sys.argv[1:])
