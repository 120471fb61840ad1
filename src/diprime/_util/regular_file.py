"""Regular files: read whole, once, and up to a size; and compared."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


def read_regular(path: str | os.PathLike[str], max_bytes: int, kind: str, error: Callable[[str], Exception]) -> bytes:
    """Return all bytes of a file; raise an ``error`` if it is not a regular one or larger than any of its ``kind``.

    ``error`` takes what is wrong, which begins with a verb, for the file's name to go before. Nobody waits for a pipe,
    and nothing is read from a device.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "greeting.txt"
    ...     _ = path.write_bytes(b"hello")
    ...     read_regular(path, 10, "greeting", ValueError)
    b'hello'
    """
    _check(Path(path).stat(), error)  # of devices, opening alone can have effects
    descriptor = os.open(path, _FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)  # what counts is what was opened: the path may lead elsewhere by now
        _check(status, error)
        if status.st_size > max_bytes:
            raise error(f"is larger than any {kind}.")
        content = file.read(status.st_size + 1)
    if len(content) != status.st_size:
        raise error("was changed while it was read; try again when it is complete.")
    return content


def _check(status: os.stat_result, error: Callable[[str], Exception]) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise error("is not a file.")


def status_of(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return what the system says of the file that a path leads to; None if there is none."""
    try:
        return Path(path).stat()  # follows links
    except (OSError, ValueError):  # there is no such file, or there cannot be one
        return None


def is_same_file(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    """Return whether two files are the same regular one; a terminal may well be read and written."""
    if one is None or other is None or not stat.S_ISREG(one.st_mode):
        return False
    return os.path.samestat(one, other)
