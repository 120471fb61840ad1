"""The only source of random bits: ChaCha20 streams with a key from the operating system, or from a seed in tests.

A :class:`RandomSource` serves one fit. It never hands out the same *stream* twice; each stream has its own number in
ChaCha20's nonce. Workers receive streams instead of the source, so the random bits do not depend on the number or order
of workers, and no two workers share any. A source takes a new key after a fork.

Without a seed, every stream has its own key, and the source replaces its key whenever it hands out streams. Both are
output of ChaCha20 under the previous key, which cannot be computed from them. Keys and streams are kept in arrays of
:func:`secret_words`, which are overwritten after use, so samples of a finished fit cannot be recomputed from the memory
of the process. A seed is not secret, so all streams of a seed share one key.
"""

from __future__ import annotations

import ctypes
import math
import os
import secrets
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from diprime.kernels import sampling

Streams = npt.NDArray[np.uint32]
STREAM_WORDS = 33
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")
_KEY_WORDS = 8
_KEY_BYTES = 4 * _KEY_WORDS
_ROWS_PER_BLOCK = 8  # a block has 16 words, a row takes 2
_FIRST_APART = 1 << 63  # no fit comes near this number of streams


class _Secret(bytearray):
    """Memory that is overwritten before it is freed."""

    def __del__(self) -> None:
        self[:] = bytes(len(self))


def secret_words(*shape: int) -> npt.NDArray[np.uint32]:
    """Return an array of zeros that is overwritten once neither it nor a view of it is in use.

    Copies are not overwritten. Use :func:`secret_copy` to copy a stream.
    """
    words: npt.NDArray[np.uint32] = np.ndarray(shape, dtype=np.uint32, buffer=_Secret(4 * math.prod(shape)))
    return words


def secret_copy(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return a copy in :func:`secret_words`, for example of a stream that is read twice."""
    copy = secret_words(*words.shape)
    copy[:] = words
    return copy


class RandomSource:
    """Streams of random bits for one fit.

    ``random_state``: ``None`` takes the key from the operating system. Otherwise the key is derived from the seed, as
    in scikit-learn. The same seed gives the same streams, and anyone who knows the seed can remove the noise.
    """

    def __init__(self, random_state: Any = None) -> None:
        self.seeded = random_state is not None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._next = 0
        self._next_apart = _FIRST_APART
        self._key = _key(check_random_state(random_state).bytes if self.seeded else secrets.token_bytes)

    def streams(self, n: int) -> Streams:
        """Return ``n`` new streams, one per row."""
        with self._lock:
            first = self._next
            self._next += n
            keys = self._stream_keys(n)
        return self._make(np.arange(first, first + n, dtype=np.uint64), keys)

    def stream_apart(self) -> Streams:
        """Return a stream, as a single row, that :meth:`streams` never returns; see :func:`bits_of_rows`.

        This call does not change the bits of the other streams.
        """
        with self._lock:
            number = self._next_apart
            self._next_apart += 1
            keys = self._stream_keys(1)
        return self._make(np.array([number], dtype=np.uint64), keys)

    def _stream_keys(self, n: int) -> npt.NDArray[np.uint32]:
        """Return ``n`` new stream keys and replace the own key, or return the seed's key. The lock must be held.

        A forked child has its parent's key, so it takes a new one first.
        """
        if self.seeded:
            return self._key
        if os.getpid() != self._process:
            self._process = os.getpid()
            self._key = _key(secrets.token_bytes)
        keys = secret_words(1 + n, _KEY_WORDS)
        sampling.draw_words(self._make(np.zeros(1, dtype=np.uint64), self._key)[0], keys.reshape(-1))
        self._key[:] = keys[0]  # overwrites the old key, which was never handed out
        return keys[1:]

    @staticmethod
    def _make(numbers: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint32]) -> Streams:
        streams = secret_words(len(numbers), STREAM_WORDS)
        streams[:, 0:4] = _CONSTANTS
        streams[:, 4:12] = keys
        streams[:, 14] = (numbers & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        streams[:, 15] = (numbers >> np.uint64(32)).astype(np.uint32)
        streams[:, 32] = 16  # marks the block as used up, so the first draw computes a new one
        return streams

    def integers(self, bound: int, n: int) -> npt.NDArray[np.uint64]:
        """Return ``n`` independent uniform integers below ``bound``, for choices that do not depend on data."""
        out = np.empty(n, dtype=np.uint64)
        sampling.draw_below(self.streams(1)[0], bound, out)
        return out

    def __reduce__(self) -> NoReturn:
        raise TypeError("A RandomSource cannot be pickled: anyone who has its key can remove the noise of a model.")


def _key(draw: Callable[[int], bytes]) -> npt.NDArray[np.uint32]:
    """Return a new key, and overwrite the bytes it was made of, which only this function has seen."""
    drawn = draw(_KEY_BYTES)
    key = secret_words(_KEY_WORDS)
    key[:] = np.frombuffer(drawn, dtype="<u4")
    ctypes.memset(ctypes.c_char_p(drawn), 0, _KEY_BYTES)
    return key


def bits_of_rows(stream: Streams, first: int, n: int) -> npt.NDArray[np.uint64]:
    """Draw 64 bits for each of the rows ``first`` to ``first + n - 1``, without changing the stream."""
    block, skipped = divmod(first, _ROWS_PER_BLOCK)
    there = secret_copy(stream)
    there[0, 12:14] = block & 0xFFFFFFFF, block >> 32  # the block counter
    words = np.empty(2 * (skipped + n), dtype=np.uint32)
    sampling.draw_words(there[0], words)
    return words.view(np.uint64)[skipped:]


def permutation(stream: npt.NDArray[np.uint32], n: int) -> npt.NDArray[np.int64]:
    """Draw a random permutation of ``range(n)`` from one stream."""
    keys = np.empty(n, dtype=np.uint64)
    sampling.draw_below(stream, 1 << 63, keys)
    return np.argsort(keys, kind="stable")


def integer_below(stream: npt.NDArray[np.uint32], bound: int) -> int:
    """Draw a uniform integer below ``bound`` <= 2^63 from one stream."""
    draw = np.empty(1, dtype=np.uint64)
    sampling.draw_below(stream, bound, draw)
    return int(draw[0])


def big_integer_below(stream: npt.NDArray[np.uint32], bound: int) -> int:
    """Draw a uniform integer below ``bound``, of any size, from one stream."""
    bits = (bound - 1).bit_length()
    words = np.empty((bits + 31) // 32, dtype=np.uint32)
    while True:
        sampling.draw_words(stream, words)
        draw = int.from_bytes(words.astype("<u4").tobytes(), "little") & ((1 << bits) - 1)
        if draw < bound:
            return draw


class StreamCarrier:
    """Object with streams, which are unpickled into memory that is overwritten after use."""

    streams: Streams

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"streams": secret_copy(state["streams"])})
