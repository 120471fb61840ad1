"""Records that train, and records that choose: each record is in one part, drawn without looking at it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain.batches import EncodedBatches
from diprime.domain.encoding import Codes, Rows
from diprime.privacy.randomness import RandomSource

_DRAW_BITS = 32


@dataclass(frozen=True)
class Part:
    """Some of the records.

    Attributes
    ----------
    rows : Rows
        Their features, encoded.
    target : array of shape (n_rows,)
        Their targets, encoded; -1 where there is none.
    """

    rows: Rows
    target: npt.NDArray[np.int32]


def divide(
    rows: Rows, target: npt.NDArray[np.int32], holdout: Fraction, source: RandomSource, threads: Threads
) -> tuple[Part, Part]:
    """Return the records that train, and those that choose, which are about a share ``holdout`` of all.

    The part of a record is drawn from fresh bits, independently of all records: to add or remove one leaves every other
    record where it is.
    """
    codes: Codes = np.empty((rows.n_rows, rows.n_features), dtype=np.uint8)
    threads.run(lambda start, stop: rows.read(start, stop, codes[start:stop]), rows.n_rows)
    threshold = np.uint64(int(holdout * (1 << _DRAW_BITS)))
    chooses = source.integers(1 << _DRAW_BITS, rows.n_rows) < threshold
    training, choosing = (
        Part(EncodedBatches(rows.n_features, [codes[drawn]]), target[drawn]) for drawn in (~chooses, chooses)
    )
    return training, choosing
