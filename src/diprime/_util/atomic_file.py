"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes its place only when everything has been written.

    Until then it has a hidden name beside its place, and if anything goes wrong, an interruption included, it is
    removed: what was there before stays. Pipes and devices, which have no place to take, are written to directly.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder) / "greeting.txt"
    ...     with atomic_file(place) as file:
    ...         _ = file.write(b"hello")
    ...     place.read_text()
    'hello'
    """
    given = Path(path)
    place = Path(os.path.realpath(path))
    partial = place.with_name(f".{secrets.token_hex(8)}.part")
    try:
        # Behind /dev/stdout there may be a file that others write to as well: it must neither be replaced nor emptied.
        if given.exists() and (not given.is_file() or given.parent == Path("/dev")):
            with given.open("ab") as direct:
                yield direct
        else:
            with partial.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(place)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and (error.filename == str(partial) or error.errno in _FULL):
            raise OSError(error.errno, error.strerror, str(path)) from None  # by the name that the user knows
        raise
