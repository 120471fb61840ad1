"""The meaning of the codes, and the thresholds between the cells of a range, exact to the last bit."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt

from diprime.kernels.constants import CELLS, MISSING, N_CODES, OTHER

__all__ = ["BUCKETS", "CELLS", "MISSING", "N_CODES", "OTHER", "TARGET_UNITS"]

TARGET_UNITS = 4096
"""The code of the upper bound of a numeric target; the lower bound has code 0."""
BUCKETS = OTHER
"""The number of codes for the levels of a categorical feature; if it has more levels, some share a code."""

_LOG_SPAN = 1_000_000  # a log scale whose low is not positive covers six decades
_DECIMAL = Context(prec=50)

_Floats = npt.NDArray[np.float64]


def cells_per_unit(low: float, high: float) -> float:
    """Return the factor in the kernels' formula: the cell of x is ``(x - low) * cells_per_unit``, truncated."""
    return CELLS / (high - low)


def linear_thresholds(low: float, high: float) -> _Floats:
    """Find the smallest float64 of every cell but the first, by bisection.

    The kernels' formula is monotone in x even after rounding, so the floats of a cell form an interval. The rounding
    decides where the interval ends. Evaluating the formula finds these ends exactly; inverting it would not.
    """
    inverse = cells_per_unit(low, high)
    wanted = np.arange(1, CELLS, dtype=np.float64)
    below: npt.NDArray[np.int64] = np.full(CELLS - 1, _float_to_rank(low))
    above: npt.NDArray[np.int64] = np.full(CELLS - 1, _float_to_rank(high))
    for _ in range(64):  # one step for each bit of a rank
        middle = (below >> 1) + (above >> 1) + (below & above & 1)  # the sum of both may overflow int64
        reached = (_rank_to_float(middle) - low) * inverse >= wanted
        above = np.where(reached, middle, above)
        below = np.where(reached, below, middle)
    return _rank_to_float(above) + 0.0


def log_thresholds(low: float, high: float) -> _Floats:
    """Compute geometric thresholds in decimal arithmetic, so that every machine gets the same bits."""
    c = _DECIMAL
    bottom, top = Decimal(low), Decimal(high)
    ratio = c.divide(top, bottom) if low > 0 else Decimal(_LOG_SPAN + 1)
    step = c.exp(c.divide(c.ln(ratio), Decimal(CELLS)))
    powers = [step]
    while len(powers) < CELLS - 1:
        powers.append(c.multiply(powers[-1], step))
    if low > 0:
        exact = [c.multiply(bottom, p) for p in powers]
    else:
        unit = c.divide(c.subtract(top, bottom), Decimal(_LOG_SPAN))
        exact = [c.add(bottom, c.multiply(unit, c.subtract(p, Decimal(1)))) for p in powers]
    return np.array([float(e) for e in exact]) + 0.0


def first_of_groups(n: int, n_groups: int) -> list[int]:
    """Divide ``range(n)`` into groups of equal sizes, up to one, and return the first of each group but the first.

    There are ``n_groups``, or n if that is less.

    Examples
    --------
    >>> first_of_groups(4, 255), first_of_groups(8, 3)
    ([1, 2, 3], [3, 6])
    """
    n_groups = min(n, n_groups)
    return [-(-i * n // n_groups) for i in range(1, n_groups)]


def _float_to_rank(value: float) -> int:
    """Return the rank of a float among all float64 values; zero has rank 0, and adjacent floats differ by one."""
    bits = int(np.array(abs(value), dtype=np.float64).view(np.int64))
    return bits if value >= 0 else -bits


def _rank_to_float(rank: npt.NDArray[np.int64]) -> _Floats:
    """Invert `_float_to_rank`."""
    magnitude = np.abs(rank).view(np.float64)
    return np.where(rank < 0, -magnitude, magnitude)
