"""Windows: about where the numeric targets of a node's records lie.

The noise of a selection is proportional to the range of the target. The deeper a node, the closer together its targets
are: rescaled from a window to the whole range, their differences stand out from the same noise.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout, Windows
from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.measures import Epsilon, PureEpsilon
from diprime.privacy.mechanisms.selection import Selection
from diprime.privacy.randomness import RandomSource

TAIL_FRACTION = Fraction(1, 7)  # of the targets lie below a window, and as many above it
_ODDS = TAIL_FRACTION.denominator - 1  # records outside a tail, for each one in it
QUANTILE_RANGE = 2 * _ODDS
N_QUANTILES = 2
MIN_WIDTH = 1 / 256  # of a window, as a share of the target's range
NODES_PER_BATCH = 32  # whose costs are in memory at a time


def quantile_range(layout: TargetLayout) -> int:
    """Return the range of the cost of a quantile: how far one person changes it, by the weights of her records."""
    return QUANTILE_RANGE * layout.person_weight


def window_charge(layout: TargetLayout, epsilon: Epsilon) -> Charge:
    """Return the charge of the window of all records; epsilon is for each of its two quantiles."""
    return _charge("target window", layout, epsilon, 1, "two quantiles of the target")


def node_windows_charge(layout: TargetLayout, level: int, epsilon: Epsilon, times: int, composition: str) -> Charge:
    """Return the charge of the windows of a level's nodes, made ``times`` times; epsilon is for each quantile."""
    return _charge("target windows", layout, epsilon, times, f"two quantiles; {composition}", level)


def _charge(
    kind: str, layout: TargetLayout, epsilon: Epsilon, times: int, composition: str, level: int | None = None
) -> Charge:
    cost_range = quantile_range(layout)
    bound = f"cost range {cost_range}"
    times *= N_QUANTILES
    measure = PureEpsilon(epsilon)
    return Charge(kind, "exponential mechanism", bound, measure, times, composition, level, calibrated_to=cost_range)


def release_windows(
    target_counts: npt.NDArray[np.int64], layout: TargetLayout, receipt: Receipt, source: RandomSource
) -> Windows:
    """Release about where the middle five sevenths of each node's targets lie.

    The first seventh ends at a threshold with six times as many records above as below, up to the noise. Its cost is
    the absolute difference of the two: a record changes the difference by six or by one, up or down, so all costs
    change by amounts in an interval of length twelve. Nodes hold disjoint records. A record of weight w counts as w.

    Parameters
    ----------
    target_counts : array of shape (n_nodes, units + 1)
        How many records of each node have each value.
    layout : TargetLayout
        What the values are.
    receipt : Receipt
        The receipt of the release.
    source : RandomSource
        The random bits.

    Returns
    -------
    windows : Windows
        One for each node, at least ``MIN_WIDTH`` wide.
    """
    n_nodes = len(target_counts)
    streams = source.streams(N_QUANTILES * n_nodes)
    cost_range = quantile_range(layout)
    selection = Selection(receipt, streams, cost_range=cost_range, n_candidates=layout.units, times=N_QUANTILES)
    picks = np.empty((n_nodes, N_QUANTILES), dtype=np.int64)
    for first in range(0, n_nodes, NODES_PER_BATCH):
        here = slice(first, first + NODES_PER_BATCH)
        below = np.cumsum(target_counts[here], axis=1)
        above = below[:, -1:] - below
        costs = np.stack([_ODDS * below - above, below - _ODDS * above], axis=1)[..., :-1]
        costs = np.ascontiguousarray(np.abs(costs).reshape(-1, layout.units))
        sets = N_QUANTILES * first + np.arange(len(costs))
        picks[here] = selection.pick(sets, costs).reshape(-1, N_QUANTILES)
    low, high = picks.min(axis=1), picks.max(axis=1) + 1  # threshold t is between the values t and t + 1
    lacking = np.maximum(0, round(MIN_WIDTH * layout.units) - (high - low))
    return Windows(low, high).widened(lacking, layout.units)  # on both sides: one may be at the end of the range


def widened(windows: Windows, margin: Epsilon, layout: TargetLayout) -> Windows:
    """Return windows that are wider on both sides, by a multiple of their width."""
    widths = (windows.high - windows.low).tolist()
    by = [min(math.ceil(margin * width), layout.units) for width in widths]  # large margins would overflow
    return windows.widened(np.array(by, dtype=np.int64), layout.units)
