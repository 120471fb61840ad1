"""The first look at a fit's records: how many there are, of which classes, and where their numeric targets lie.

Everything here is released, and charged, before a tree grows; the rules of :mod:`diprime.defaults` make trees, depth
and costs of it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime.budget import Charge, Epsilon, Ledger
from diprime.histograms import TargetLayout, Window
from diprime.mechanisms import discrete_laplace, select, weight_table
from diprime.randomness import RandomSource

Target = npt.NDArray[np.int32]

ONE_IN = 7  # of the targets lie below the window, and above it
QUANTILE_RANGE = 2 * (ONE_IN - 1)
LEAST_WIDTH = 1 / 256  # of a window, in the target's range


def charge_counts(ledger: Ledger, layout: TargetLayout, epsilon: Epsilon) -> None:
    """Charge the counts of a fit's records."""
    what = "class counts" if layout.units == 1 else "row count"
    ledger.charge(Charge(what, "discrete Laplace", "L1 sensitivity 1", epsilon))


def release_counts(
    target: Target, layout: TargetLayout, epsilon: Epsilon, source: RandomSource
) -> npt.NDArray[np.int64]:
    """Release how many records each class has, or how many have a numeric target; :func:`charge_counts` has paid.

    One record adds one to one of the counts.
    """
    valid = target[target >= 0]
    counts = np.bincount(valid, minlength=layout.n_outputs) if layout.units == 1 else np.array([len(valid)])
    return np.asarray(discrete_laplace(counts.astype(np.int64)[None, :], epsilon, 1, source.streams(1))[0])


def charge_window(ledger: Ledger, epsilon: Epsilon) -> None:
    """Charge the two quantiles of a window."""
    composition = "two quantiles of the target"
    ledger.charge(
        Charge("target window", "exponential mechanism", f"cost range {QUANTILE_RANGE}", epsilon, 2, composition)
    )


def release_window(target: Target, layout: TargetLayout, epsilon: Epsilon, source: RandomSource) -> Window:
    """Release about where the middle five sevenths of a numeric target lie; :func:`charge_window` has paid.

    The seventh is a threshold with six times as many records above as below, up to the luck of the draw. The cost is
    the difference of the two: a record moves it by six or by one, up or down, so all costs change by amounts in an
    interval of length twelve.
    """
    below = np.cumsum(np.bincount(target[target >= 0], minlength=layout.units + 1))
    above = below[-1] - below
    costs = np.abs(np.stack([(ONE_IN - 1) * below - above, below - (ONE_IN - 1) * above]))[:, :-1].astype(np.int64)
    table = weight_table(epsilon, QUANTILE_RANGE, costs.shape[1])
    picks = select("exponential", np.ascontiguousarray(costs), table, source.streams(2))
    low, high = int(picks.min()), int(picks.max()) + 1  # threshold t is between the values t and t + 1
    lacking = max(0, round(LEAST_WIDTH * layout.units) - (high - low))
    return widened(Window(low, high), lacking, layout)  # on both sides: one may be at the end of the range


def widened(window: Window, by: int, layout: TargetLayout) -> Window:
    """Return a window that is wider on both sides, as far as the target's range goes."""
    return Window(max(0, window.low - by), min(layout.units, window.high + by))
