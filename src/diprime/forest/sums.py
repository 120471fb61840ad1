"""Releases other than splits: record counts, clipping ranges of numeric targets, and leaf sums."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.domain.encoding import ClippingRanges, TargetLayout
from diprime.forest.engine import IndependentAssignment, TreeAssignment
from diprime.model.estimates import LeafSums, noise_variance, shrunken_means
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, Receipt, ReleaseKind
from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon, PureEpsilon
from diprime.privacy.mechanisms.laplace import discrete_laplace
from diprime.privacy.mechanisms.selection import Selection
from diprime.privacy.randomness import RandomSource


class AccountingPolicy:
    """Strict accounting: every release is charged at its cost.

    The methods are the decisions in which the paper's algorithm charges, assigns or releases differently;
    :mod:`diprime.paper` contains its counterpart.
    """

    name: Accounting = "strict"

    def assignment(self, n_trees: int) -> TreeAssignment:
        """Return the assignment of rows to trees."""
        return IndependentAssignment(n_trees)

    def n_charged_medians(self, n_medians: int) -> int:
        """Return how many medians of one node are charged: all of them, because a record affects each."""
        return n_medians

    def quality_range(self, true_range: int, units: int) -> int:
        """Return the range of the split quality, in its units, for calibrating its selection."""
        return true_range

    def true_cost(self, epsilon: Epsilon) -> PureEpsilon | None:
        """Return the true cost of a release if it is charged at a different cost, and None otherwise."""
        return None

    def leaf_bound(self, layout: TargetLayout) -> tuple[Bound, PureEpsilon | None]:
        """Return the sensitivity of the leaves in the ledger, and their true cost if the charge is different."""
        return Bound(BoundKind.L1, layout.person_units), None

    def released_leaves(
        self, true: npt.NDArray[np.int64], noisy: npt.NDArray[np.int64], layout: TargetLayout
    ) -> npt.NDArray[np.int64]:
        """Return the leaf sums to release: the noisy ones."""
        return noisy

    def leaf_means(self, leaves: LeafSums, layout: TargetLayout) -> npt.NDArray[np.float64]:
        """Return the estimates of the leaves."""
        return shrunken_means(leaves, of_classes=layout.task == "classification")


STRICT = AccountingPolicy()


def counts_charge(layout: TargetLayout, epsilon: Epsilon) -> Charge:
    """Return the charge of the record counts."""
    kind = ReleaseKind.CLASS_COUNTS if layout.task == "classification" else ReleaseKind.ROW_COUNT
    bound = Bound(BoundKind.L1, layout.person_weight)
    return Charge(kind, Mechanism.DISCRETE_LAPLACE, bound, PureEpsilon(epsilon))


def release_counts(
    target_counts: npt.NDArray[np.int64], layout: TargetLayout, receipt: Receipt, source: RandomSource
) -> list[int]:
    """Release the number of records of each class, or of all records with a numeric target.

    A record adds its weight to one count, and the weights of a person's records add up to a fixed total. The result is
    in people: a person with records of several classes counts fractionally for each.
    """
    weight = layout.person_weight
    counts = target_counts if layout.task == "classification" else target_counts.sum(keepdims=True)
    released = discrete_laplace(counts[None, :], receipt, weight, source.streams(1))
    return [(int(count) + weight // 2) // weight for count in released[0]]


TAIL_FRACTION = Fraction(1, 7)  # fraction of the targets below a clipping range, and above it
_ODDS = TAIL_FRACTION.denominator - 1  # number of records outside a tail for each record in it
QUANTILE_RANGE = 2 * _ODDS
N_QUANTILES = 2
MIN_WIDTH = 1 / 256  # minimum width of a clipping range, as a fraction of the target's range
NODES_PER_BATCH = 32  # number of nodes with costs in memory at a time


def quantile_range(layout: TargetLayout) -> int:
    """Return the cost range of a quantile for adding or removing one person."""
    return QUANTILE_RANGE * layout.person_weight


def window_charge(layout: TargetLayout, epsilon: Epsilon) -> Charge:
    """Return the charge of the clipping range of all records, with ``epsilon`` for each of its two quantiles."""
    return _charge(ReleaseKind.TARGET_WINDOW, layout, epsilon, 1, "The cost covers two quantiles of the target.")


def node_windows_charge(layout: TargetLayout, level: int, epsilon: Epsilon, times: int, composition: str) -> Charge:
    """Return the charge of the clipping ranges of a level's nodes, with ``epsilon`` for each of the two quantiles."""
    return _charge(
        ReleaseKind.NODE_WINDOWS,
        layout,
        epsilon,
        times,
        f"The cost covers two quantiles of each range. {composition}",
        level,
    )


def _charge(
    kind: ReleaseKind, layout: TargetLayout, epsilon: Epsilon, times: int, composition: str, level: int | None = None
) -> Charge:
    bound = Bound(BoundKind.COST_RANGE, quantile_range(layout))
    times *= N_QUANTILES
    return Charge(kind, Mechanism.EXPONENTIAL, bound, PureEpsilon(epsilon), times, composition, level)


def release_windows(
    target_counts: npt.NDArray[np.int64], layout: TargetLayout, receipt: Receipt, source: RandomSource
) -> ClippingRanges:
    """Release clipping ranges that contain about the middle five sevenths of each node's targets.

    The first seventh ends at the threshold with six times as many records above as below, up to the noise. The cost of
    a threshold is the absolute difference between six times the records below and the records above. A record changes
    this difference by six or one, up or down, so all costs change by amounts in an interval of length twelve. Nodes
    contain disjoint records. A record of weight w counts as w records.

    Shapes: target_counts (n_nodes, units + 1).
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
    return ClippingRanges(low, high).widened(lacking, layout.units)  # on both sides: one may be at the end of the range


def widened(windows: ClippingRanges, margin: Epsilon, layout: TargetLayout) -> ClippingRanges:
    """Return clipping ranges widened on both sides by a multiple of their width."""
    widths = (windows.high - windows.low).tolist()
    by = [min(math.ceil(margin * width), layout.units) for width in widths]  # large margins would overflow
    return windows.widened(np.array(by, dtype=np.int64), layout.units)


def leaf_charge(
    layout: TargetLayout, epsilon: Epsilon, times: int, composition: str, policy: AccountingPolicy
) -> Charge:
    """Return the charge of all leaf sums of a forest."""
    bound, true_cost = policy.leaf_bound(layout)
    measure = PureEpsilon(epsilon)
    return Charge(
        ReleaseKind.LEAF_SUMS,
        Mechanism.DISCRETE_LAPLACE,
        bound,
        measure,
        times,
        composition,
        strict_measure=true_cost,
    )


def release_leaves(
    sums: npt.NDArray[np.int64],
    layout: TargetLayout,
    window: ClippingRanges,
    receipt: Receipt,
    policy: AccountingPolicy,
    source: RandomSource,
) -> LeafSums:
    """Release the sums of all leaves of all trees.

    A record is in one leaf of a tree, and changes its vector by exactly ``layout.units`` times its weight in L1 norm.
    A person thus changes all leaves of a tree by ``layout.person_units``, so together these leaves are epsilon-DP. The
    number of trees that contain a record is the charge's number of releases.

    Shapes: sums (n_trees, n_leaves, n_outputs).
    """
    n_trees, n_leaves, n_outputs = sums.shape
    streams = source.streams(n_trees * n_leaves)
    times = receipt.charge.n_releases
    units = layout.person_units
    noisy = discrete_laplace(sums.reshape(-1, n_outputs), receipt, units, streams, times).reshape(sums.shape)
    scaled = policy.released_leaves(sums, noisy, layout) / units
    low, high = window.low[0] / layout.units, window.high[0] / layout.units
    return LeafSums(scaled, scaled.sum(axis=-1), noise_variance(receipt.charge.epsilon, layout), low, high)
