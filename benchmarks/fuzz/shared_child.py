"""One process for the children of many Parquet files, because to start a process takes as long as a hundred files."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.fuzz import parquet_server
from benchmarks.fuzz.parquet_server import BEGUN, ENDED, FAILED
from diprime.cli import parquet_child, parquet_file


class Server:
    """The process.

    Parameters
    ----------
    max_size : int
        The size of the largest file, by which its memory is limited.

    Attributes
    ----------
    n_ended : int
        How often a file has ended it.
    seconds : float
        The processor time that files have taken, of what it tells.
    """

    def __init__(self, max_size: int) -> None:
        memory = parquet_file.limits_of(max_size)["memory"]
        arguments = [parquet_child.__file__, json.dumps(sys.path), str(memory)]
        self._process = subprocess.Popen(
            [sys.executable, "-I", parquet_server.__file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        weakref.finalize(self, self._process.communicate)  # it ends with its standard input
        self.n_ended, self.seconds = 0, 0.0
        self._last = 0.0  # the processor time of the process now, which begins anew when another goes on
        self._numbers = itertools.count()
        self._is_asked = True

    def begin(self, path: Path) -> int:
        """Begin a file, and return its number."""
        if not self._is_asked:
            self.send(None)  # which is no request: nobody wants to know more of the file before
        number = next(self._numbers)
        self.send([number, str(path), parquet_file.limits_of(path.stat().st_size)])
        return number

    def send(self, request: Sequence[Any] | None) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        self._is_asked = True

    def n_rows(self, number: int) -> int:
        """Return the number of rows of a file that has begun."""
        while self._next() != (str(number), BEGUN):
            pass  # what the file before still had to say
        n_rows = self.next_number()
        self._is_asked = False
        return n_rows

    def next_number(self) -> int:
        """Return the next number that the child of the file writes, or raise an error if it ends."""
        _, answer = self._next()
        if answer in (ENDED, FAILED):
            raise parquet_file.DamagedFileError
        return int(answer)

    def _next(self) -> tuple[str, str]:
        """Read a line; return the number of a file and an answer."""
        assert self._process.stdout is not None
        words = self._process.stdout.readline().decode().split()
        if not words:
            raise RuntimeError("The process that reads Parquet files has ended.")
        if words == [ENDED]:
            self.n_ended, self._last = self.n_ended + 1, 0.0
            return "", ENDED
        number, answer, seconds = words
        self.seconds, self._last = self.seconds + float(seconds) - self._last, float(seconds)
        return number, answer


class SharedChild:
    """What stands for the child of a file.

    Parameters
    ----------
    server : Server
        The process.
    path : Path
        The file.
    """

    def __init__(self, server: Server, path: Path) -> None:
        self._server, self.version = server, parquet_file.version_of(path)
        self._number: int | None = server.begin(path)

    def ask(self, request: Sequence[Any]) -> None:
        """Send a request, which numbers answer."""
        self._server.send(request)

    def next_number(self) -> int:
        """Return the number of rows of the table, and then of the next slice."""
        number, self._number = self._number, None
        return self._server.next_number() if number is None else self._server.n_rows(number)
