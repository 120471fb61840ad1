"""The one source of random bits: ChaCha20 streams under a key from the operating system, or from a seed for tests.

A :class:`RandomSource` is made for one fit and dropped with it. It hands out *streams*, each with a number of its own
in ChaCha20's nonce, and never the same one twice: workers get streams, not the source, so no two of them can share
bits whatever their number and order. A source that finds itself in a forked child takes a new key.
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
from diprime.parallel import Threads

Streams = npt.NDArray[np.uint32]

STREAM_WORDS = 33
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")
_KEY_BYTES = 32
_ROWS_PER_STREAM = 1 << 16


class RandomSource:
    """Streams of random bits for one fit.

    Parameters
    ----------
    random_state : None, int or numpy.random.RandomState
        ``None`` takes the key from the operating system. Anything else derives it from the seed, as scikit-learn
        does: the same streams come again, and whoever knows the seed can take the noise off the model.

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
        key = check_random_state(random_state).bytes(_KEY_BYTES) if self.seeded else secrets.token_bytes(_KEY_BYTES)
        self._key = np.frombuffer(key, dtype="<u4")

    def streams(self, n: int) -> Streams:
        """Return ``n`` streams that no one else has or will get, a row each."""
        with self._lock:
            if not self.seeded and os.getpid() != self._process:
                self._process = os.getpid()
                self._key = np.frombuffer(secrets.token_bytes(_KEY_BYTES), dtype="<u4")
            numbers = np.arange(self._next, self._next + n, dtype=np.uint64)
            self._next += n
            key = self._key
        streams = np.zeros((n, STREAM_WORDS), dtype=np.uint32)
        streams[:, 0:4] = _CONSTANTS
        streams[:, 4:12] = key
        streams[:, 14] = (numbers & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        streams[:, 15] = (numbers >> np.uint64(32)).astype(np.uint32)
        streams[:, 32] = 16  # no output word is left: the first draw makes a block
        return streams

    def integers(self, bound: int, n: int) -> npt.NDArray[np.uint64]:
        """Return ``n`` independent uniform integers below ``bound``, for choices that do not look at data."""
        out = np.empty(n, dtype=np.uint64)
        sampling.draw_below(self.streams(1)[0], bound, out)
        return out

    def __reduce__(self) -> NoReturn:
        raise TypeError("A RandomSource cannot be pickled: whoever has its key can take the noise off a model.")


def draw_bag(n_rows: int, source: RandomSource) -> npt.NDArray[np.uint16]:
    """Draw 0 for the rows of a bag and 1 for the others: 63.2 % of the rows, as many as are in a bootstrap sample."""
    return (source.integers(1000, n_rows) >= 632).astype(np.uint16)


def permutation(stream: npt.NDArray[np.uint32], n: int) -> npt.NDArray[np.int64]:
    """Draw a random order of n things from one stream."""
    keys = np.empty(n, dtype=np.uint64)
    sampling.draw_below(stream, 1 << 63, keys)
    return np.argsort(keys, kind="stable")


def big_integer_below(stream: npt.NDArray[np.uint32], bound: int) -> int:
    """Draw a uniform integer below ``bound`` of any size from one stream."""
    bits = (bound - 1).bit_length()
    words = np.empty((bits + 31) // 32, dtype=np.uint32)
    while True:
        sampling.draw_words(stream, words)
        draw = int.from_bytes(words.astype("<u4").tobytes(), "little") & ((1 << bits) - 1)
        if draw < bound:
            return draw


def deal_parts(
    n_rows: int, n_parts: int, source: RandomSource, threads: Threads, *, equal: bool
) -> npt.NDArray[np.uint16]:
    """Draw the tree of each row, from fresh bits and independently of all other rows.

    Then adding or removing a row leaves every other row where it is, and one tree alone sees the difference. ``equal``
    cuts a permutation into equal parts, as the paper does, where a removed row moves others across the borders.
    """
    parts = np.zeros(n_rows, dtype=np.uint16)
    if n_parts == 1:
        return parts
    if equal:
        return (permutation(source.streams(1)[0], n_rows) % n_parts).astype(np.uint16)
    n_streams = -(-n_rows // _ROWS_PER_STREAM)
    streams = source.streams(n_streams)

    def draw(begin: int, end: int) -> None:
        for i in range(begin, end):
            sampling.draw_trees(streams[i], n_parts, parts[i * _ROWS_PER_STREAM : (i + 1) * _ROWS_PER_STREAM])

    threads.run(draw, n_streams)
    return parts
