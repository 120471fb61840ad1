"""The public intervals among which the range of a numeric column is chosen.

A range is chosen in two steps, which look at all of float64. The first chooses its scale: from zero to a power of two,
on one side or on both. The second chooses a part of that, whose ends are multiples of 1/256 of it. The cost of an
interval is the number of records outside, and a public penalty, which prefers narrow ones: without it every interval
that is wide enough would be as good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from diprime.domain.tables import Column, row_blocks

N_PARTS = 256
"""Into how many parts the second step cuts the interval of the first."""

# Powers of two, one by one where data usually are, and in larger steps up to the end of float64. What is smaller than
# all of them is as good as zero.
_EXPONENTS = (*range(-100, -40, 20), *range(-40, 61), *range(64, 961, 64))
_USUAL = range(-15, 31)
_UNUSUAL = 0.25  # of the penalty of a doubling where data usually are
_FAR = 2.0  # doublings that going beyond 2^60 counts for, besides
_FIRST_FAR = 64

_MIN_PER_DOUBLING, _MAX_PER_DOUBLING = 0.3, 3.0
_RECORDS_PER_DOUBLING = 60  # of noise's units among all records, so that the penalty of the widest interval is no more
PART_PENALTY = 3.0
"""The penalty of a doubling in the second step, in natural logarithms."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Intervals:
    """A public family of closed intervals.

    Attributes
    ----------
    edges : ndarray of float64
        The ends of all intervals, sorted.
    low, high : ndarray of int64
        The ends of each interval, as indices of edges.
    penalties : ndarray of float64
        The penalty of each interval, in natural logarithms.
    """

    edges: Floats
    low: Integers
    high: Integers
    penalties: Floats

    def __len__(self) -> int:
        return len(self.low)

    def tally(self, column: Column, used: npt.NDArray[np.bool_] | None = None) -> Integers:
        """Count the values of a column between the thresholds that tell for every interval whether it holds a value.

        Every value is compared with public numbers alone. Missing values are not counted, nor are rows that are not
        used.
        """
        thresholds = np.empty(2 * len(self.edges))
        thresholds[0::2], thresholds[1::2] = self.edges, np.nextafter(self.edges, math.inf)
        counts = np.zeros(len(thresholds) + 1, dtype=np.int64)
        for start, stop in row_blocks(0, column.n_rows):
            values = column.floats(start, stop).astype(np.float64)
            counted = ~np.isnan(values) if used is None else used[start:stop] & ~np.isnan(values)
            cells = np.searchsorted(thresholds, values[counted], side="right")
            counts += np.bincount(cells, minlength=len(counts))
        return counts

    def outside(self, tally: Integers) -> Integers:
        """Return how many values lie outside of each interval: a record adds one or nothing to each."""
        below = np.cumsum(tally)
        return np.asarray(below[-1] - (below[2 * self.high + 1] - below[2 * self.low]))

    def bounds(self, interval: int) -> tuple[float, float]:
        """Return the ends of an interval."""
        return float(self.edges[self.low[interval]]), float(self.edges[self.high[interval]])


def scales(per_doubling: float) -> Intervals:
    """Return the intervals of the first step, with the penalty of a doubling."""
    powers = np.array([math.ldexp(1.0, e) for e in _EXPONENTS])
    n = len(powers)
    steps = np.array([1.0 if e in _USUAL else _UNUSUAL for e in _EXPONENTS])
    steps[_EXPONENTS.index(_FIRST_FAR)] += _FAR
    penalties = per_doubling * np.cumsum(steps)
    up, zero, down = n + 1 + np.arange(n), np.full(n, n), n - 1 - np.arange(n)
    return Intervals(
        np.concatenate([-powers[::-1], [0.0], powers]),
        np.concatenate([zero, down, down]),
        np.concatenate([up, zero, up]),
        np.concatenate([penalties, penalties, penalties + per_doubling]),
    )


def per_doubling(n_records: float, epsilon: float) -> float:
    """Return the penalty of a doubling in the first step, given about how many records there are."""
    if epsilon == math.inf:
        return _MAX_PER_DOUBLING
    units = max(n_records, 0.0) * epsilon / _RECORDS_PER_DOUBLING
    return min(max(units, _MIN_PER_DOUBLING), _MAX_PER_DOUBLING)


@lru_cache(maxsize=1)
def _parts() -> tuple[Integers, Integers, Floats]:
    low, high = np.triu_indices(N_PARTS + 1, 1)
    width = high - low
    # There are so many more narrow intervals, most of them without data. The cap keeps penalties growing with widths.
    multiplicity = np.maximum(N_PARTS + 1 - width, N_PARTS // 4)
    return low, high, PART_PENALTY * np.log2(width) + np.log(multiplicity)


def parts(low: float, high: float) -> Intervals:
    """Return the intervals of the second step: all parts of an interval whose ends are multiples of 1/256 of it."""
    at = np.arange(N_PARTS + 1) / N_PARTS
    first, last, penalties = _parts()
    return Intervals(low + (high - low) * at, first, last, penalties)  # exact: all are short sums of powers of two
