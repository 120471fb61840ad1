"""Records that train, and records that choose: each record is in one part, drawn without looking at it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from diprime._util.threads import Threads
from diprime.domain.batches import EncodedBatches
from diprime.domain.encoding import Codes
from diprime.engines.partition import Partition
from diprime.privacy.randomness import RandomSource

_DRAW_BITS = 32


def divide(
    all_records: Partition, holdout: Fraction, source: RandomSource, threads: Threads
) -> tuple[Partition, Partition]:
    """Return the records that train, and those that choose, which are about a share ``holdout`` of all.

    The part of a record, or of all records of a person, is drawn from fresh bits, independently of all records: to add
    or remove one leaves every other record where it is.
    """
    rows, records = all_records.rows, all_records.records
    codes: Codes = np.empty((rows.n_rows, rows.n_features), dtype=np.uint8)
    threads.run(lambda start, stop: rows.read(start, stop, codes[start:stop]), rows.n_rows)
    threshold = np.uint64(int(holdout * (1 << _DRAW_BITS)))
    if records.persons is None:
        chooses = source.integers(1 << _DRAW_BITS, rows.n_rows) < threshold
    else:  # the last draw is for nobody, whose number is -1 and whose records are not used
        n_draws = int(records.persons.max(initial=-1)) + 2
        chooses = (source.integers(1 << _DRAW_BITS, n_draws) < threshold)[records.persons]
    training, choosing = (
        Partition(EncodedBatches(rows.n_features, [codes[drawn]]), records.part(drawn)) for drawn in (~chooses, chooses)
    )
    return training, choosing
