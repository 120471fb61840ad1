"""Public hash buckets: codes for values that nobody can list."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain.levels import ABSENT, UNLISTED
from diprime.domain.moments import text_of
from diprime.domain.tables import Column, is_missing, python_value

_DIGEST_BYTES = 8


def plain_value(value: Any) -> str | int | float | None:
    """Return a value as one that equal values share, whatever their types; None if it is missing or of another type.

    1, 1.0 and True are the same value, and so are a date and its text.
    """
    value = python_value(value)
    if is_missing(value):
        return None
    if isinstance(value, str):
        return str.__str__(value) if _is_unicode(value) else None
    if isinstance(value, (bool, int)):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else float.__float__(value)
    return text_of(value)


def bucket_of(value: str | float, n_buckets: int) -> int:
    """Return the bucket of a plain value: a number goes where its text does, so that CSV and Parquet agree.

    Examples
    --------
    >>> bucket_of("F", 254), bucket_of(7, 254) == bucket_of("7", 254)
    (195, True)
    """
    digest = hashlib.blake2b(str(value).encode(), digest_size=_DIGEST_BYTES).digest()
    return int.from_bytes(digest, "little") % n_buckets


class HashIndex:
    """Find the buckets of values, as `LevelIndex` finds the positions of levels.

    Parameters
    ----------
    n_buckets : int
        The number of buckets.
    """

    def __init__(self, n_buckets: int) -> None:
        self._n_buckets = n_buckets

    def finder(self, column: Column, where: str) -> Callable[[int, int], npt.NDArray[np.int64]]:
        """Return a function that maps rows ``start`` to ``stop`` to buckets, `ABSENT` or `UNLISTED`.

        Every dtype has a bucket for its values, so nothing is refused.
        """

        def find(start: int, stop: int) -> npt.NDArray[np.int64]:
            known: dict[Any, int] = {}  # of this block alone: no private value stays

            def position(value: Any) -> int:
                try:
                    plain = plain_value(value)
                    if plain is None:
                        return ABSENT if is_missing(python_value(value)) else UNLISTED
                    if plain not in known:
                        known[plain] = bucket_of(plain, self._n_buckets)
                    return known[plain]
                except Exception:  # noqa: BLE001 -- methods of a private value may raise anything
                    return UNLISTED

            values = column.values(start, stop)
            return np.fromiter(map(position, values), dtype=np.int64, count=len(values))

        return find


def _is_unicode(text: str) -> bool:
    try:
        str.encode(text, "utf-8")
    except UnicodeEncodeError:
        return False
    return True
