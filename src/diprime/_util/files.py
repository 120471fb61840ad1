"""Regular files that are read up to a limit, replaced atomically, and locked against other processes."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


def read_regular(path: str | os.PathLike[str], max_bytes: int, kind: str, error: Callable[[str], Exception]) -> bytes:
    """Return the content of a file, and raise ``error`` unless it is regular and not larger than any of its ``kind``.

    ``error`` is called with the problem, which begins with a verb and follows the file's name. The function never waits
    for a pipe or reads from a device.
    """
    _check(Path(path).stat(), error)  # merely opening a device can have effects
    descriptor = os.open(path, _FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)  # of the opened file, because the path may lead elsewhere by now
        _check(status, error)
        if status.st_size > max_bytes:
            raise error(f"is larger than any {kind}.")
        content = file.read(status.st_size + 1)
    if len(content) != status.st_size:
        raise error("was changed while it was read. Try again when no process writes to it.")
    return content


def _check(status: os.stat_result, error: Callable[[str], Exception]) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise error("is not a file.")


def status_of(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the status of the file that a path leads to, or None if there is none."""
    try:
        return Path(path).stat()  # follows links
    except (OSError, ValueError):  # the file does not exist, or the path is invalid
        return None


def is_same_file(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    """Return whether two files are the same regular file. A terminal may be both read and written."""
    if one is None or other is None or not stat.S_ISREG(one.st_mode):
        return False
    return os.path.samestat(one, other)


_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_IRREPLACEABLE = {"budget": b'{"diprime_budget"', "private key": b" PRIVATE KEY-----"}
"""Marks in the first lines of files that are never replaced; a budget would lose its charges."""
_START_BYTES = 64
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` only when it is complete.

    The data are written to a hidden file in the same directory. If anything goes wrong, including an interruption, that
    file is removed and the previous file stays as it is. A replaced file keeps its mode. Read-only files, budgets and
    private keys are refused. Pipes and devices are written directly.
    """
    given = Path(path)
    target = Path(os.path.realpath(path))
    partial = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        # /dev/stdout may lead to a regular file that others also write to, which must not be replaced or truncated.
        if given.exists() and (not given.is_file() or given.parent == Path("/dev")):
            with given.open("ab") as direct:
                yield direct
        else:
            mode = replaceable_mode(target)
            with open(partial, "xb", opener=_opener(mode)) as file:
                if mode is not None:
                    partial.chmod(mode)  # the umask does not apply to replaced files
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and (error.filename == str(partial) or error.errno in _DISK_FULL):
            raise OSError(error.errno, error.strerror, str(path)) from None  # with the given name, not the hidden one
        raise


def replaceable_mode(path: Path) -> int | None:
    """Return the mode of a file, if it exists, and raise `PermissionError` if it is read-only, a budget or a key."""
    status = status_of(path)
    if status is None:
        return None
    mode = stat.S_IMODE(status.st_mode)
    if not mode & _WRITE or not os.access(path, os.W_OK):  # root may write to any file
        raise PermissionError(errno.EACCES, "The file is read-only. Choose another name", str(path))
    with path.open("rb") as file:
        start = file.readline(_START_BYTES)
    for what, mark in _IRREPLACEABLE.items():
        if mark in start:
            raise PermissionError(errno.EACCES, f"A {what} is never replaced. Choose another name", str(path))
    return mode


def _opener(mode: int | None) -> Callable[[str, int], int]:
    """Return an opener that creates files with the permissions of ``mode``, or with the usual ones if it is None."""
    return lambda path, flags: os.open(path, flags, 0o666 if mode is None else mode & 0o777)


MAX_SECONDS = 60.0
"""Timeout of locks, which are held only while a line is written."""
_PAUSE = 0.01

if sys.platform == "win32":
    import msvcrt

    _LOCKED_BYTE = 1 << 40  # beyond the end of the file, because locked bytes cannot be read on Windows

    def _try_lock(file: int, alone: bool) -> bool:
        """Take the lock if it is free. Readers cannot share it."""
        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)  # locks start at the position of the descriptor
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError:  # EACCES: another process has it
            return False
        return True

    def _unlock(file: int) -> None:
        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(file: int, alone: bool) -> bool:
        """Take the lock if it is free."""
        try:
            fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)


_BINARY = getattr(os, "O_BINARY", 0)  # Windows only


def _lock(file: int, path: str, alone: bool) -> None:
    """Wait for the lock, and raise `TimeoutError` after `MAX_SECONDS`."""
    end = time.monotonic() + MAX_SECONDS
    while not _try_lock(file, alone):
        if time.monotonic() > end:
            message = (
                f"Another process has locked the file for {MAX_SECONDS:.0f} seconds. Find this process with a tool "
                "such as lsof, and try again when it has ended"
            )
            raise TimeoutError(errno.ETIMEDOUT, message, path)
        time.sleep(_PAUSE)


@contextmanager
def locked_file(path: str, *, append: bool) -> Iterator[int]:
    """Lock and open an existing file, and yield its descriptor.

    To ``append``, the file is locked exclusively; otherwise, it is opened for reading, and readers share the lock.
    Raise `TimeoutError` if other processes or threads hold the lock for `MAX_SECONDS`.
    """
    file = os.open(path, (os.O_RDWR | os.O_APPEND if append else os.O_RDONLY) | _BINARY)
    try:
        _lock(file, path, append)
        try:
            yield file
        finally:
            _unlock(file)  # closing is not enough if a process was forked meanwhile
    finally:
        os.close(file)


def read_all(file: int, limit: int) -> bytes:
    """Return the content of an open file, or its first ``limit + 1`` bytes."""
    os.lseek(file, 0, os.SEEK_SET)
    parts, n = [], 0
    while n <= limit and (part := os.read(file, limit + 1 - n)):
        parts.append(part)
        n += len(part)
    return b"".join(parts)


def append_line(file: int, line: bytes) -> None:
    """Append a line, which is on disk when this returns. On failure, the file is restored if possible."""
    size = os.fstat(file).st_size
    try:
        if os.write(file, line) != len(line):
            raise OSError("The line could not be written completely.")
        os.fsync(file)
    except BaseException:
        with suppress(OSError):
            os.ftruncate(file, size)
        raise


def create_file(path: str, content: bytes) -> None:
    """Create a file that must not exist. Its content and name are on disk when this returns."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | _BINARY, 0o644)
    try:
        append_line(file, content)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(file)
    if sys.platform != "win32":  # where directories cannot be synced
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
