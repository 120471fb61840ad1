"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` only when it is complete.

    The data are written to a hidden file in the same folder. If anything goes wrong, including an interruption, that
    file is removed and a previous file at ``path`` stays as it is. Pipes and devices are written to directly.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "greeting.txt"
    ...     with atomic_file(path) as file:
    ...         _ = file.write(b"hello")
    ...     path.read_text()
    'hello'
    """
    given = Path(path)
    target = Path(os.path.realpath(path))
    partial = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        # /dev/stdout may lead to a regular file that others write to as well, which must not be replaced or truncated.
        if given.exists() and (not given.is_file() or given.parent == Path("/dev")):
            with given.open("ab") as direct:
                yield direct
        else:
            with partial.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and (error.filename == str(partial) or error.errno in _DISK_FULL):
            raise OSError(error.errno, error.strerror, str(path)) from None  # not the hidden name
        raise
