"""Parquet files, which a child process reads first: whatever a damaged or hostile file does, it does it there.

A panic of polars prints a text that may tell about the rows and is no ordinary exception, an allocation that fails ends
the process, and a small file may stand for more rows than any memory holds. In a child with a limited memory all of
these are the same: it ends early, and the file is refused in one sentence. What the child has read, this process
reads as well. To read twice is faster than to send the rows, and the child goes ahead on another core.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

from diprime.cli import parquet_child

MAX_ROWS = 100_000
"""The largest number of rows of a batch."""
MAX_CELLS = 1 << 22
"""The largest number of values of a batch, unless one row has more."""
MAX_SECONDS = 300.0
"""How long a child may take for a batch."""
BASE_BYTES, BYTES_PER_BYTE = 1 << 30, 10
"""The memory that a child may take, whatever the file, and besides for each byte of the file."""
BASE_ROWS, ROWS_PER_BYTE = 10_000_000, 1000
"""The number of rows that any file may have, and besides for each of its bytes: real tables hold some information."""
MAX_TEXT_BYTES = 1 << 26
"""The largest amount of text in a batch: a few bytes of Parquet may stand for the same long text once more."""


def limits_of(size: int) -> dict[str, int]:
    """Return how much memory, how many rows and how much text in a batch a file of some size may have."""
    return {
        "memory": BASE_BYTES + BYTES_PER_BYTE * size,
        "rows": BASE_ROWS + ROWS_PER_BYTE * size,
        "text": MAX_TEXT_BYTES,
    }


class DamagedFileError(ValueError):
    """A Parquet file that cannot be read. It is not said why: that may tell about the rows."""


class ParquetFile:
    """A Parquet file.

    Parameters
    ----------
    path : Path
        The file.

    Attributes
    ----------
    no_rows : DataFrame
        The table without its rows.

    Raises
    ------
    DamagedFileError
        If the file cannot be read, now or in `batches`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._child: _Child | None = self._opened()
        with _panics_caught():
            self.no_rows = self._table.head(0).collect()

    def _opened(self) -> _Child:
        """Return a child that has read the table without its rows."""
        child = _Child(self._path)
        self._n_rows = child.next_number()
        self._table = pl.scan_parquet(self._path, glob=False)
        return child

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pl.DataFrame, float]]:
        """Yield the rows of some columns, in batches, each with its share of all rows."""
        start = 0
        for length in self._sound_slices(columns):
            with _panics_caught():
                batch = self._table.slice(start, length).select(columns).collect()
            yield batch, length / self._n_rows
            start += length

    def _sound_slices(self, columns: Sequence[str]) -> Iterator[int]:
        """Yield the lengths of slices as the child has read them."""
        child, self._child = self._child, None
        if child is None or child.version != version_of(self._path):  # it has read other columns, or another file
            child = self._opened()
        max_rows = max(1, min(MAX_ROWS, MAX_CELLS // max(1, len(columns))))
        child.ask([list(columns), max_rows])
        n_left = self._n_rows
        while n_left:
            length = child.next_number()
            yield length
            n_left -= length


@contextmanager
def _panics_caught() -> Iterator[None]:
    """Refuse a file that can no longer be read, say because it was replaced after the child had read it."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise DamagedFileError from None


class _Child:
    """A process that reads a file; it is killed with the last reference to this object, at the latest."""

    def __init__(self, path: Path) -> None:
        self.version = version_of(path)
        arguments = [str(path.absolute()), json.dumps(sys.path), json.dumps(limits_of(path.stat().st_size))]
        script = [sys.executable, "-I", parquet_child.__file__, *arguments]
        self._process = subprocess.Popen(
            script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._end = weakref.finalize(self, _kill, self._process)

    def ask(self, request: list[object]) -> None:
        """Send a request, which numbers answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:  # it has ended
            raise DamagedFileError from None

    def next_number(self) -> int:
        """Return the next number; raise an error if the child has ended, or says nothing for too long."""
        assert self._process.stdout is not None
        watch = threading.Timer(MAX_SECONDS, self._process.kill)
        watch.daemon = True
        watch.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watch.cancel()
        if not line.endswith(b"\n"):
            self._end()
            raise DamagedFileError
        return int(line)


def version_of(path: Path) -> tuple[int, int, int]:
    """Return what changes when a file is replaced or written again."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with suppress(OSError):  # of a request that could not be sent
            stream.close()
