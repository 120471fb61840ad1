"""The only source of random bits: ChaCha20 streams, keyed by the operating system, or by a seed for tests.

A :class:`RandomSource` serves one fit. It hands out *streams*, each with its own number in ChaCha20's nonce, and none
of them twice. Workers get streams rather than the source, so their number and order do not change the bits, and no two
of them share any. In a forked child, a source takes a new key.

Without a seed, every stream has a key of its own, and the source replaces its key whenever it hands out streams: both
are output of ChaCha20 under the key that it had, from which that key cannot be computed. Keys and streams are kept in
:func:`secret_words`, which are overwritten when they are no longer used. What was drawn by a fit can therefore not be
computed from what is left in the memory of the process. A seed is no secret, so there all streams share its key.
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
_FIRST_APART = 1 << 63  # no fit comes near this number of streams


class _Secret(bytearray):
    """Memory that is overwritten before it is given back."""

    def __del__(self) -> None:
        self[:] = bytes(len(self))


def secret_words(*shape: int) -> npt.NDArray[np.uint32]:
    """Return an array of zeros that is overwritten when neither it nor a view of it is used any more.

    Copies are not: whoever copies a stream does so into such an array.

    Examples
    --------
    >>> secret_words(2, 3)
    array([[0, 0, 0],
           [0, 0, 0]], dtype=uint32)
    """
    words: npt.NDArray[np.uint32] = np.ndarray(shape, dtype=np.uint32, buffer=_Secret(4 * math.prod(shape)))
    return words


def secret_copy(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return a copy in :func:`secret_words`, such as of a stream that is to be drawn from twice."""
    copy = secret_words(*words.shape)
    copy[:] = words
    return copy


class RandomSource:
    """Streams of random bits for one fit.

    Parameters
    ----------
    random_state : None, int or numpy.random.RandomState
        ``None`` takes the key from the operating system. Otherwise the key is derived from the seed, as in
        scikit-learn: the same seed gives the same streams, and anyone who knows it can remove the noise.

    Examples
    --------
    >>> source = RandomSource(random_state=0)
    >>> source.streams(2).shape
    (2, 33)
    >>> source.integers(6, 4).max() < 6
    np.True_
    """

    def __init__(self, random_state: Any = None) -> None:
        self.seeded = random_state is not None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._next = 0
        self._next_apart = _FIRST_APART
        self._key = _key(check_random_state(random_state).bytes if self.seeded else secrets.token_bytes)

    def streams(self, n: int) -> Streams:
        """Return ``n`` streams, a row each, that are handed out only once."""
        with self._lock:
            first = self._next
            self._next += n
            keys = self._stream_keys(n)
        return self._make(np.arange(first, first + n, dtype=np.uint64), keys)

    def bits_apart(self, n: int) -> npt.NDArray[np.uint64]:
        """Return ``n`` times 64 random bits from a stream that is not among those of :meth:`streams`.

        What is drawn from those is the same, whether or not this is called.
        """
        with self._lock:
            number = self._next_apart
            self._next_apart += 1
            keys = self._stream_keys(1)
        words = np.empty(2 * n, dtype=np.uint32)
        sampling.draw_words(self._make(np.array([number], dtype=np.uint64), keys)[0], words)
        return words.view(np.uint64)

    def _stream_keys(self, n: int) -> npt.NDArray[np.uint32]:
        """Return the key of a seed, or else a new key for each of ``n`` streams, and take a new one; the lock is held.

        A forked child has the key of its parent, and draws another one first.
        """
        if self.seeded:
            return self._key
        if os.getpid() != self._process:
            self._process = os.getpid()
            self._key = _key(secrets.token_bytes)
        keys = secret_words(1 + n, _KEY_WORDS)
        sampling.draw_words(self._make(np.zeros(1, dtype=np.uint64), self._key)[0], keys.reshape(-1))
        self._key[:] = keys[0]  # of the old key, which no stream was made of, nothing else is left
        return keys[1:]

    @staticmethod
    def _make(numbers: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint32]) -> Streams:
        streams = secret_words(len(numbers), STREAM_WORDS)
        streams[:, 0:4] = _CONSTANTS
        streams[:, 4:12] = keys
        streams[:, 14] = (numbers & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        streams[:, 15] = (numbers >> np.uint64(32)).astype(np.uint32)
        streams[:, 32] = 16  # all words of the block are used, so the first draw computes a new one
        return streams

    def integers(self, bound: int, n: int) -> npt.NDArray[np.uint64]:
        """Return ``n`` independent uniform integers below ``bound``, for choices that do not depend on data."""
        out = np.empty(n, dtype=np.uint64)
        sampling.draw_below(self.streams(1)[0], bound, out)
        return out

    def __reduce__(self) -> NoReturn:
        raise TypeError("A RandomSource cannot be pickled: anyone who has its key can remove the noise of a model.")


def _key(draw: Callable[[int], bytes]) -> npt.NDArray[np.uint32]:
    """Return a new key, and overwrite the bytes that it was made of: nothing but this function ever had them."""
    drawn = draw(_KEY_BYTES)
    key = secret_words(_KEY_WORDS)
    key[:] = np.frombuffer(drawn, dtype="<u4")
    ctypes.memset(ctypes.c_char_p(drawn), 0, _KEY_BYTES)
    return key


def permutation(stream: npt.NDArray[np.uint32], n: int) -> npt.NDArray[np.int64]:
    """Draw a random permutation of ``range(n)`` from one stream."""
    keys = np.empty(n, dtype=np.uint64)
    sampling.draw_below(stream, 1 << 63, keys)
    return np.argsort(keys, kind="stable")


def big_integer_below(stream: npt.NDArray[np.uint32], bound: int) -> int:
    """Draw a uniform integer below ``bound``, which may be of any size, from one stream."""
    bits = (bound - 1).bit_length()
    words = np.empty((bits + 31) // 32, dtype=np.uint32)
    while True:
        sampling.draw_words(stream, words)
        draw = int.from_bytes(words.astype("<u4").tobytes(), "little") & ((1 << bits) - 1)
        if draw < bound:
            return draw
