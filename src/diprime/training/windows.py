"""Windows: where about the numeric targets of a node's records lie, so that what differs among them stands out.

A selection's noise is measured by the range of the target. The deeper a node, the closer its targets: seen through a
window, their part of the range becomes the whole, and the same noise is small beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout, Windows
from diprime.privacy.ledger import Charge, Ledger
from diprime.privacy.measures import Epsilon
from diprime.privacy.mechanisms.selection import select
from diprime.privacy.mechanisms.weights import weight_table
from diprime.privacy.randomness import RandomSource

TAIL_FRACTION = 7  # of the targets lie below a window, and above it
QUANTILE_RANGE = 2 * (TAIL_FRACTION - 1)
MIN_WIDTH = 1 / 256  # of a window, in the target's range
NODES_TOGETHER = 32  # whose costs are in memory at a time


@dataclass(frozen=True)
class WindowPlan:
    """Where nodes get windows of their own, and for how much.

    Attributes
    ----------
    epsilons : mapping of int to Epsilon
        For each such level, what each of the two quantiles costs.
    margin : Epsilon
        How many of its widths a window is widened by, on both sides.
    """

    epsilons: Mapping[int, Epsilon]
    margin: Epsilon


def charge_window(ledger: Ledger, epsilon: Epsilon) -> None:
    """Charge the two quantiles of the window of all records."""
    _charge(ledger, "target window", epsilon, 1, "two quantiles of the target")


def charge_windows(ledger: Ledger, plan: WindowPlan, composition: str, times: int) -> None:
    """Charge the two quantiles of the nodes' windows, level by level."""
    for level, epsilon in plan.epsilons.items():
        _charge(ledger, f"target windows of level {level}", epsilon, times, f"two quantiles; {composition}")


def _charge(ledger: Ledger, what: str, epsilon: Epsilon, times: int, composition: str) -> None:
    bound = f"cost range {QUANTILE_RANGE}"
    ledger.charge(Charge(what, "exponential mechanism", bound, epsilon, 2 * times, composition))


def count_targets(target: npt.NDArray[np.int32], layout: TargetLayout) -> npt.NDArray[np.int64]:
    """Return how many of all records have each value of the target, as one node."""
    return np.bincount(target[target >= 0], minlength=layout.n_targets)[None, :]


def release_windows(
    targets: npt.NDArray[np.int64], layout: TargetLayout, epsilon: Epsilon, source: RandomSource
) -> Windows:
    """Release about where the middle five sevenths of each node's targets lie; the charges above have paid.

    The seventh is a threshold with six times as many records above as below, up to the luck of the draw. The cost is
    the difference of the two: a record moves it by six or by one, up or down, so all costs change by amounts in an
    interval of length twelve. Nodes hold disjoint records.

    Parameters
    ----------
    targets : array of shape (n_nodes, units + 1)
        How many records of each node have each value.
    """
    streams = source.streams(2 * len(targets)).reshape(len(targets), 2, -1)
    table = weight_table(epsilon, QUANTILE_RANGE, layout.units)
    picks = np.empty((len(targets), 2), dtype=np.int64)
    for first in range(0, len(targets), NODES_TOGETHER):
        here = slice(first, first + NODES_TOGETHER)
        below = np.cumsum(targets[here], axis=1)
        above = below[:, -1:] - below
        costs = np.stack([(TAIL_FRACTION - 1) * below - above, below - (TAIL_FRACTION - 1) * above], axis=1)[..., :-1]
        costs = np.ascontiguousarray(np.abs(costs).reshape(-1, layout.units))
        picks[here] = select("exponential", costs, table, streams[here].reshape(len(costs), -1)).reshape(-1, 2)
    low, high = picks.min(axis=1), picks.max(axis=1) + 1  # threshold t is between the values t and t + 1
    lacking = np.maximum(0, round(MIN_WIDTH * layout.units) - (high - low))
    return Windows(low, high).widened(lacking, layout.units)  # on both sides: one may be at the end of the range


def widened(windows: Windows, margin: Epsilon, layout: TargetLayout) -> Windows:
    """Return windows that are wider on both sides, by a multiple of their width."""
    widths = (windows.high - windows.low).tolist()
    by = [min(math.ceil(margin * width), layout.units) for width in widths]  # no more than there is: margins are large
    return windows.widened(np.array(by, dtype=np.int64), layout.units)
