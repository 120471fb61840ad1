"""Residuals above a private quantile of all residuals are clamped to it: the noise of a round is relative to it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from diprime.engines.gradients import RANGE_BITS
from diprime.privacy.charges import Receipt
from diprime.privacy.mechanisms.gaussian import rounded_gaussian
from diprime.privacy.randomness import RandomSource
from diprime.training.boosting import defaults

_STEPS_PER_OCTAVE = 2
_N_EDGES = 16 * _STEPS_PER_OCTAVE

EDGES: npt.NDArray[np.int64] = np.array(
    [math.ceil(2 ** (RANGE_BITS - i / _STEPS_PER_OCTAVE)) for i in range(_N_EDGES - 1, -1, -1)]
)
"""The clips to choose from, in units of a score: from about 2^-15 of the target's range to all of it."""


def clip_rounds(n_rounds: int) -> dict[int, int]:
    """Return before which rounds residuals are looked at, and how many times: more often at the beginning."""
    rounds = [n_rounds * i**2 // defaults.N_CLIPS**2 for i in range(defaults.N_CLIPS)]
    return {number: rounds.count(number) for number in rounds}


def release_clip(
    counts: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]],
    n_rows: float,
    person_weight: int,
    receipt: Receipt,
    source: RandomSource,
) -> int:
    """Release the histogram of residuals; return the least clip that few enough residuals are above.

    One record is in one bin; one person is in several, by the weights of her records.

    Parameters
    ----------
    counts : callable
        Counts the residuals between edges.
    n_rows : float
        The released number of records, or of persons, whose records weigh as one.
    person_weight : int
        What the weights of one person's records add up to.
    receipt : Receipt
        The receipt of one histogram.
    source : RandomSource
        The random bits.
    """
    released = rounded_gaussian(counts(EDGES)[None, :], receipt, person_weight**2, source.streams(1))[0]
    at_or_above = np.cumsum(released[::-1])[::-1][1:] / person_weight
    enough = at_or_above <= (1 - defaults.CLIP_QUANTILE) * max(n_rows, 1.0)
    return int(EDGES[np.flatnonzero(enough)[0]] if enough.any() else EDGES[-1])
