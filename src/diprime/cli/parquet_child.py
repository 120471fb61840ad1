"""The child process that reads a Parquet file before :mod:`diprime.cli.parquet_file` does.

It is run as a script, so that it imports polars and nothing of the library. Its arguments are the file and, as JSON,
the import path of its parent and the limits. It reads the table without its rows and writes the number of rows in a
line. Then it waits for a line of JSON, the columns and the number of rows of a slice, reads all rows, and writes the
length of each slice.

Whatever goes wrong ends the process, and its parent then refuses the file: panics of polars, whose texts may tell about
the rows, aborts, a table that is not as long as the file says, and an allocation beyond the limit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any


def limit_memory(n_bytes: int) -> None:
    """Let allocations beyond a limit fail, where the system can do that."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no limits, and a lower one may be in force
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))


def forbid_core_files() -> None:
    """Let an abort leave no copy of the memory, which may hold rows, where the system can do that."""
    with suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def slices(rows_of: Callable[[int], Any], n_rows: int, max_rows: int, max_text_bytes: int) -> Iterator[int]:
    """Read slices, given what reads one from its first row on; yield the number of rows of each."""
    for start in range(0, n_rows, max_rows):
        rows = rows_of(start)
        if rows.height != min(max_rows, n_rows - start):
            raise ValueError("There are fewer rows than the file says.")
        yield from short_slices(rows, max_text_bytes)


def short_slices(rows: Any, max_text_bytes: int) -> Iterator[int]:
    """Yield the number of rows of parts that have so much text at most."""
    if text_bytes(rows) <= max_text_bytes:
        yield rows.height
    elif rows.height == 1:
        raise ValueError("A row is too long.")
    else:
        half = rows.height // 2
        yield from short_slices(rows.head(half), max_text_bytes)
        yield from short_slices(rows.slice(half), max_text_bytes)


def text_bytes(rows: Any) -> int:
    """Return the length of all text, of which equal ones may be stored once."""
    import polars as pl  # after the memory is limited

    texts = [column.cast(pl.String) for column in rows if column.dtype in (pl.String, pl.Categorical, pl.Enum)]
    return sum(text.str.len_bytes().sum() for text in texts)


def numbers(file: str, limit: dict[str, int], request: Callable[[], str]) -> Iterator[int]:
    """Yield the number of rows of a file and then, as a line of JSON requests, the lengths of its slices."""
    import polars as pl  # after the memory is limited

    table = pl.scan_parquet(file, glob=False)
    n_rows = table.select(pl.len()).collect().item()
    if n_rows > limit["rows"]:
        raise ValueError("There cannot be as many rows as the file says.")
    table.head(0).collect()
    yield n_rows
    if line := request():
        columns, max_rows = json.loads(line)
        yield from slices(
            lambda start: table.slice(start, max_rows).select(columns).collect(), n_rows, max_rows, limit["text"]
        )


def main(file: str, import_path: str, limits: str) -> None:
    """Read the rows of a file, as a line of standard input says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted as well, and ends this process
    limit: dict[str, int] = json.loads(limits)
    begin(limit["memory"], json.loads(import_path))
    for number in numbers(file, limit, sys.stdin.readline):
        print(number, flush=True)


def begin(memory: int, import_path: list[str]) -> None:
    """Limit this process, before it imports polars."""
    forbid_core_files()
    limit_memory(memory)
    sys.path[:] = import_path
    os.environ["POLARS_MAX_THREADS"] = str(min(os.cpu_count() or 1, 8))  # each takes some of the memory


if __name__ == "__main__":
    main(*sys.argv[1:])
