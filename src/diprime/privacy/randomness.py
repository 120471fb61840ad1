"""The only source of random bits: ChaCha20 streams, keyed by the operating system, or by a seed for tests.

A :class:`RandomSource` serves one fit. It hands out *streams*, each with its own number in ChaCha20's nonce, and none
of them twice. Workers get streams rather than the source, so their number and order do not change the bits, and no two
of them share any. In a forked child, a source takes a new key.
"""

from __future__ import annotations

import os
import secrets
import threading
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from diprime.kernels import sampling

Streams = npt.NDArray[np.uint32]
STREAM_WORDS = 33
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")
_KEY_BYTES = 32
_FIRST_APART = 1 << 63  # no fit comes near this number of streams


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
        key = check_random_state(random_state).bytes(_KEY_BYTES) if self.seeded else secrets.token_bytes(_KEY_BYTES)
        self._key = np.frombuffer(key, dtype="<u4")

    def streams(self, n: int) -> Streams:
        """Return ``n`` streams, a row each, that are handed out only once."""
        with self._lock:
            first = self._next
            self._next += n
            key = self._current_key()
        return self._make(np.arange(first, first + n, dtype=np.uint64), key)

    def bits_apart(self, n: int) -> npt.NDArray[np.uint64]:
        """Return ``n`` times 64 random bits from a stream that is not among those of :meth:`streams`.

        What is drawn from those is the same, whether or not this is called.
        """
        with self._lock:
            number = self._next_apart
            self._next_apart += 1
            key = self._current_key()
        words = np.empty(2 * n, dtype=np.uint32)
        sampling.draw_words(self._make(np.array([number], dtype=np.uint64), key)[0], words)
        return words.view(np.uint64)

    def _current_key(self) -> npt.NDArray[np.uint32]:
        """Return the key, which a forked child has to draw anew; the lock is held."""
        if not self.seeded and os.getpid() != self._process:
            self._process = os.getpid()
            self._key = np.frombuffer(secrets.token_bytes(_KEY_BYTES), dtype="<u4")
        return self._key

    @staticmethod
    def _make(numbers: npt.NDArray[np.uint64], key: npt.NDArray[np.uint32]) -> Streams:
        streams = np.zeros((len(numbers), STREAM_WORDS), dtype=np.uint32)
        streams[:, 0:4] = _CONSTANTS
        streams[:, 4:12] = key
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
