"""Which tree a record is in: drawn for each record by itself."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.kernels import sampling
from diprime.privacy.randomness import RandomSource, permutation

_ROWS_PER_STREAM = 1 << 16


def draw_bag(n_rows: int, source: RandomSource) -> npt.NDArray[np.uint16]:
    """Draw 0 for the rows of a bag and 1 for the others: 63.2 % of the rows, as many as are in a bootstrap sample."""
    return (source.integers(1000, n_rows) >= 632).astype(np.uint16)


def assign_trees(
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
            sampling.draw_parts(streams[i], n_parts, parts[i * _ROWS_PER_STREAM : (i + 1) * _ROWS_PER_STREAM])

    threads.run(draw, n_streams)
    return parts
