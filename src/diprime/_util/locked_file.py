"""A file that is locked against other processes and threads, and lines that are on the disk when they are written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

if sys.platform == "win32":
    import msvcrt
    import time

    _LOCKED_BYTE = 1 << 40  # beyond the end of the file, for Windows lets nobody read what is locked

    def _lock(file: int, alone: bool) -> None:
        """Wait for the lock. There is none that readers share; LK_LOCK would give up after ten seconds."""
        while True:
            os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)  # locks begin at the position of the descriptor
            try:
                msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
            except PermissionError:  # EACCES: somebody else has it; what else goes wrong would go wrong for ever
                time.sleep(0.01)
            else:
                return

    def _unlock(file: int) -> None:
        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(file: int, alone: bool) -> None:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)


_BINARY = getattr(os, "O_BINARY", 0)  # of Windows


@contextmanager
def locked_file(path: str, *, append: bool) -> Iterator[int]:
    """Open an existing file, when no other process or thread appends to it; yield its descriptor.

    Parameters
    ----------
    path : str
        The file.
    append : bool
        Whether to append to it, when no other process or thread has it; otherwise it is open for reading only.
    """
    file = os.open(path, (os.O_RDWR | os.O_APPEND if append else os.O_RDONLY) | _BINARY)
    try:
        _lock(file, append)
        try:
            yield file
        finally:
            _unlock(file)  # a process that was forked meanwhile has the descriptor as well, so closing is not enough
    finally:
        os.close(file)


def read_all(file: int, limit: int) -> bytes:
    """Return the bytes of an open file, or its first ``limit`` bytes and one more."""
    os.lseek(file, 0, os.SEEK_SET)
    parts, n = [], 0
    while n <= limit and (part := os.read(file, limit + 1 - n)):
        parts.append(part)
        n += len(part)
    return b"".join(parts)


def append_line(file: int, line: bytes) -> None:
    """Append a line; when this returns, it is on the disk, and if it fails, the file is as it was where possible."""
    size = os.fstat(file).st_size
    try:
        if os.write(file, line) != len(line):
            raise OSError("The line could not be written whole.")
        os.fsync(file)
    except BaseException:
        with suppress(OSError):
            os.ftruncate(file, size)
        raise


def create_file(path: str, content: bytes) -> None:
    """Create a file that must not exist, with its content and its name on the disk when this returns."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | _BINARY, 0o644)
    try:
        append_line(file, content)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(file)
    if sys.platform != "win32":  # where folders cannot be synced
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
