"""Parquet files, read by a child process: whatever a damaged or hostile file does, it does it there.

A panic of polars prints a text that may tell about the rows and is no ordinary exception, an allocation that fails ends
the process, and a small file may stand for more rows than any memory holds. In a child with a limited memory all of
these are the same: it ends without an answer, and the file is refused in one sentence. Rows come back as Arrow IPC.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from diprime.cli import parquet_child

MAX_ROWS = 100_000
"""The largest number of rows of a batch."""
MAX_CELLS = 1 << 24
"""The largest number of values of a batch, unless one row has more."""
MAX_SECONDS = 300.0
"""How long the child may take for a batch."""

_LENGTH = 8
_CHILD = Path(parquet_child.__file__)


class DamagedFileError(ValueError):
    """A Parquet file that cannot be read; it is not said why, for that may tell about the rows."""


class ParquetFile:
    """A Parquet file that a child process reads.

    Parameters
    ----------
    path : Path
        The file.

    Attributes
    ----------
    n_rows : int
        The number of rows.
    no_rows : DataFrame
        The table without its rows.

    Raises
    ------
    DamagedFileError
        If the child ends without an answer, now or in `batches`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._child = self._start()

    def _start(self) -> _Child:
        """Start a child, and read what it says of the file before it is asked."""
        child = _Child(self._path)
        self.n_rows = int(child.receive())
        self.no_rows = _table(child.receive())
        return child

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pl.DataFrame, float]]:
        """Yield the rows of some columns, in batches, each with its share of all rows."""
        if not self._child.is_idle:  # somebody has stopped to read its answer
            self._child = self._start()
        rows = max(1, min(MAX_ROWS, MAX_CELLS // max(1, len(columns))))
        for message in self._child.answers({"columns": list(columns), "rows_of_batch": rows}):
            batch = _table(message)
            yield batch, batch.height / self.n_rows


def _table(message: bytes) -> pl.DataFrame:
    try:
        return pl.read_ipc_stream(io.BytesIO(message))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):  # such as a time zone that does not exist
        raise DamagedFileError from None


class _Child:
    """A process that reads a file; it is killed with the last reference to this object, at the latest."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-I", str(_CHILD), json.dumps(sys.path), str(path.absolute())]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.is_idle = True
        self._kill = weakref.finalize(self, _kill, self._process)

    def answers(self, request: dict[str, object]) -> Iterator[bytes]:
        """Send a request, and yield the messages that answer it."""
        assert self._process.stdin is not None
        self.is_idle = False
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:  # it has ended
            raise DamagedFileError from None
        while message := self.receive():
            yield message
        self.is_idle = True

    def receive(self) -> bytes:
        """Return the next message; raise an error if the child ends, or says nothing for too long."""
        watch = threading.Timer(MAX_SECONDS, self._process.kill)
        watch.daemon = True
        watch.start()
        try:
            return self._read(int.from_bytes(self._read(_LENGTH), "little"))
        finally:
            watch.cancel()

    def _read(self, n_bytes: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(n_bytes)
        if len(data) < n_bytes:
            self._kill()
            raise DamagedFileError
        return data


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()
