"""What the codes mean, and where the cells of a numeric range begin, to the last bit."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt

from diprime.kernels.constants import CELLS, MISSING, N_CODES, OTHER

__all__ = ["BUCKETS", "CELLS", "MISSING", "N_CODES", "OTHER", "TARGET_UNITS"]

TARGET_UNITS = 4096
"""The integer that stands for the top of a numeric target's range."""
BUCKETS = 254
"""The number of codes that levels share."""

_LOG_DEPTH = 1_000_000  # how far below its range a log scale that starts at or below zero looks: six decades
_DECIMAL = Context(prec=50)

_Floats = npt.NDArray[np.float64]


def cells_per_unit(low: float, high: float) -> float:
    """Return the factor of the kernels' formula: the cell of x is ``(x - low) * cells_per_unit``, truncated."""
    return CELLS / (high - low)


def linear_thresholds(low: float, high: float) -> _Floats:
    """Find, by bisection over the floats, where the kernels' formula steps up.

    The formula never decreases in x, rounding included, so the floats of a cell are an interval. Its ends depend
    on the rounding and are found by asking the formula, not by solving it.
    """
    inverse = cells_per_unit(low, high)
    wanted = np.arange(1, CELLS, dtype=np.float64)
    below: npt.NDArray[np.int64] = np.full(CELLS - 1, _float_to_order(low))
    above: npt.NDArray[np.int64] = np.full(CELLS - 1, _float_to_order(high))
    for _ in range(64):  # one for each bit of an order
        middle = (below >> 1) + (above >> 1) + (below & above & 1)  # halves first: the sum may not fit 64 bits
        reached = (_order_to_float(middle) - low) * inverse >= wanted
        above = np.where(reached, middle, above)
        below = np.where(reached, below, middle)
    return _order_to_float(above) + 0.0


def log_thresholds(low: float, high: float) -> _Floats:
    """Lay out the cells in decimal arithmetic, so that every machine gets the same bits."""
    c = _DECIMAL
    bottom, top = Decimal(low), Decimal(high)
    ratio = c.divide(top, bottom) if low > 0 else Decimal(_LOG_DEPTH + 1)
    step = c.exp(c.divide(c.ln(ratio), Decimal(CELLS)))
    powers = [step]
    while len(powers) < CELLS - 1:
        powers.append(c.multiply(powers[-1], step))
    if low > 0:
        exact = [c.multiply(bottom, p) for p in powers]
    else:
        unit = c.divide(c.subtract(top, bottom), Decimal(_LOG_DEPTH))
        exact = [c.add(bottom, c.multiply(unit, c.subtract(p, Decimal(1)))) for p in powers]
    return np.array([float(e) for e in exact]) + 0.0


def _float_to_order(value: float) -> int:
    """Return the place of a float among all floats: neighbours differ by one."""
    bits = int(np.array(abs(value), dtype=np.float64).view(np.int64))
    return bits if value >= 0 else -bits


def _order_to_float(order: npt.NDArray[np.int64]) -> _Floats:
    """Invert `_float_to_order`."""
    magnitude = np.abs(order).view(np.float64)
    return np.where(order < 0, -magnitude, magnitude)
