"""What the trees of a baseline release and how they choose splits: strictly private, or as published.

A tree releases the sums of its nodes at every level. At every level but the last, it chooses the feature that each node
splits on. :class:`Recipe` is private. Its subclasses follow the published code, and their charges state what that truly
costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout
from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import Epsilon, PureEpsilon, share_of
from diprime.privacy.mechanisms.laplace import DISCRETE_LAPLACE, discrete_laplace
from diprime.privacy.mechanisms.selection import Costs, Selection
from diprime.privacy.mechanisms.weights import weight_table
from diprime.privacy.randomness import RandomSource, Streams
from diprime.training.splitting.cost import Cost

Sums = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]

MAX_ROWS = 1 << 26
COMPOSITION = "a record is in one node of every level of every tree: levels and trees add up"


def explained(sums: Sums, layout: TargetLayout, units: int) -> npt.NDArray[np.int64]:
    """Return ⌊units·½·Σ S²/n⌋ for the sums S of each cell, with records scaled to sum to one; zero for empty cells.

    This is the part of ½·Σ‖t‖² that the cell's mean explains; the rest is the sum of squared errors ½·Σ‖t - t̄‖². The
    computation is in integers: with S = q·n + r, S²/n = q·(S + r) + r²/n. No term exceeds 2^63 for up to ``MAX_ROWS``
    rows.
    """
    n = np.maximum(sums.sum(axis=1, keepdims=True) // layout.units, 1)
    q, r = np.divmod(sums, n)
    whole, rest = (q * (sums + r)).sum(axis=1), (r * r).sum(axis=1)
    if layout.task == "classification":
        return np.asarray(units // 2 * whole + units // 2 * rest // n[:, 0])
    return np.asarray((whole + rest // n[:, 0]) // (2 * layout.units**2 // units))


def _measure(epsilon: Epsilon | None) -> PureEpsilon | None:
    return None if epsilon is None else PureEpsilon(epsilon)


@dataclass(frozen=True)
class Receipts:
    """The receipts of a forest: for the sums of the nodes, and for the splits."""

    sums: Receipt
    splits: Receipt


class Recipe:
    """The private recipe: an equal share of epsilon for the sums of each level and for the splits of each level.

    Parameters
    ----------
    epsilon : Fraction or inf
        The budget of the forest.
    n_trees, depth : int
        The number of trees, all of which see all records, and the number of splits on a path.
    n_features : int
        The number of features.
    layout : TargetLayout
        How the target becomes integers.

    Attributes
    ----------
    per_query : Fraction or inf
        The share of each release.
    units : int
        The cost of a squared error of one.
    """

    def __init__(self, epsilon: Epsilon, n_trees: int, depth: int, n_features: int, layout: TargetLayout) -> None:
        self.epsilon, self.n_trees, self.depth = epsilon, n_trees, depth
        self.n_features, self.layout = n_features, layout
        self.per_query = share_of(epsilon, Fraction(1, n_trees * self._n_shares))
        self._cost = Cost.joint(self._per_error, balance=Fraction(0), linear_tail=Fraction(0))
        self.units = self._cost.units

    @property
    def _n_shares(self) -> int:
        return 2 * self.depth + 1  # the sums of all levels, and the splits of all but the last

    @property
    def _per_error(self) -> Epsilon:
        """The exponent of one squared error in the weight of a split."""
        return self.per_query

    @property
    def cost_range(self) -> int:
        """The range of the costs of splits.

        A record changes one child of every candidate: its error by 0 to 1, and the floor by less than one unit.
        """
        return self._cost.range

    def charges(self) -> tuple[Charge, ...]:
        """Return the charges of all trees: the sums of their nodes, and their splits."""
        return self._charge_of_sums("L1 sensitivity"), self._charge_of_splits()

    def pay(self, ledger: Ledger) -> Receipts:
        """Pay for all trees of the forest."""
        sums, splits, *_ = [ledger.pay(charge) for charge in self.charges()]
        return Receipts(sums, splits)

    def _charge_of_sums(self, bound: str, true_cost: Epsilon | None = None) -> Charge:
        units, times = self.layout.units, self.n_trees * (self.depth + 1)
        charge = Charge("sums of nodes", DISCRETE_LAPLACE, f"{bound} {units}", PureEpsilon(self.per_query), times)
        return replace(charge, composition=COMPOSITION, strict_measure=_measure(true_cost), calibrated_to=units)

    def _charge_of_splits(self, bound: str | None = None, true_cost: Epsilon | None = None) -> Charge:
        text = bound or f"cost range {self.cost_range} in units of 1/{self.units}"
        measure, times = PureEpsilon(self.per_query), self.n_trees * self.depth
        charge = Charge("splits", "exponential mechanism", text, measure, times, COMPOSITION)
        calibrated_to = self.cost_range if bound is None else None
        return replace(charge, strict_measure=_measure(true_cost), calibrated_to=calibrated_to)

    def release(self, sums: Sums, receipt: Receipt, source: RandomSource) -> Sums:
        """Release the sums of the nodes of a level. One record changes those of one node, by ``units`` in L1 norm."""
        return discrete_laplace(sums, receipt, self.layout.units, source.streams(len(sums)))

    def select(self, costs: Costs, receipt: Receipt, source: RandomSource) -> npt.NDArray[np.int64]:
        """Choose the feature that each node of a level splits on, given the costs of the features."""
        return self._selection(receipt, source.streams(len(costs))).pick(np.arange(len(costs)), costs)

    def _selection(self, receipt: Receipt, streams: Streams) -> Selection:
        return Selection(receipt, streams, cost_range=self.cost_range, n_candidates=self.n_features)

    def shares(self, released: Sums, parents: Shares) -> Shares:
        """Return the shares of the outputs at each node: those of its parent where no released sum is positive."""
        left = np.maximum(released, 0)
        total = left.sum(axis=1, keepdims=True)
        return np.where(total > 0, left / np.maximum(total, 1), parents)

    def sizes(self, released: Sums) -> npt.NDArray[np.float64]:
        """Return the released number of records of each node."""
        return np.asarray(np.maximum(released, 0).sum(axis=1) / self.layout.units)

    def goes_on(self, sums: Sums, released: Sums) -> npt.NDArray[np.bool_]:
        """Return which nodes are split: those with more than one positive released sum."""
        return np.asarray((released > 0).sum(axis=1) > 1)

    def costs(self, scores: npt.NDArray[np.int64], squares: Shares, sums: Sums, released: Sums) -> Costs:
        """Return the cost of splitting each node on each feature: the error that would remain, up to a constant.

        Parameters
        ----------
        scores : array of shape (n_nodes, n_features)
            The sum over the children of what their means explain.
        squares : array of shape (n_nodes,)
            ``units``·½·Σ‖t‖² over the records of each node.
        sums, released : arrays of shape (n_nodes, n_outputs)
            The true and the released sums of the nodes.
        """
        return np.asarray(scores.max(axis=1, keepdims=True) - scores)


class PublishedRandomForest(Recipe):
    """DP-RF for classification as in the experiments of the DiPriMe paper: the mean Gini index, with sensitivity one.

    The mean is always between zero and one, so the sensitivity is correct and the recipe is private. It is also far too
    large, because one of n records changes a mean by about 1/n. Splits are therefore almost random.
    """

    @property
    def _n_shares(self) -> int:
        return 2 * (self.depth + 1)

    @property
    def cost_range(self) -> int:
        """The range of the costs of splits: the mean is between zero and one with a record and without it."""
        return 2 * self.units

    def charges(self) -> tuple[Charge, ...]:
        """Return the charges of all trees. The share for splits of the last level, which are not made, is set aside."""
        return *super().charges(), self._set_aside()

    def _set_aside(self, true_cost: Epsilon | None = None) -> Charge:
        kind, measure = "nothing: set aside for splits of leaves", PureEpsilon(self.per_query)
        return Charge(kind, "none", "none", measure, self.n_trees, strict_measure=_measure(true_cost))

    def costs(self, scores: npt.NDArray[np.int64], squares: Shares, sums: Sums, released: Sums) -> Costs:
        """Return the mean Gini index of the children, an integer from 0 to ``units``."""
        if self.epsilon == math.inf:
            return super().costs(scores, squares, sums, released)
        return np.asarray(self.units - 2 * scores // np.maximum(sums.sum(axis=1, keepdims=True), 1))


class PublishedRegression(PublishedRandomForest):
    """The regression analogue of DP-RF in the DiPriMe paper. It is not private: noise depends on true counts."""

    # The published weights are e^(-x) + 1e-12. The constant decides where all errors are large.
    _MAX_EXPONENT = 12 * math.log(10)

    @property
    def _per_error(self) -> Epsilon:
        """The exponent of one squared error: half of a tree's epsilon over the sensitivity 4."""
        return share_of(self.epsilon, Fraction(1, 8 * self.n_trees))

    def charges(self) -> tuple[Charge, ...]:
        """Return the published charges, with the true costs."""
        true_cost = share_of(self._per_error, Fraction(self.units + 4, self.units))
        return (
            self._charge_of_sums("true counts released beside sums of sensitivity", math.inf),
            self._charge_of_splits(f"cost range {8 * self.units} in units of 1/{self.units}", true_cost),
            self._set_aside(Fraction(0)),
        )

    def _selection(self, receipt: Receipt, streams: Streams) -> Selection:
        table = weight_table(self._per_error, self.units, self.n_features)
        return Selection.with_published_weights(receipt, table, streams)

    def release(self, sums: Sums, receipt: Receipt, source: RandomSource) -> Sums:
        """Add noise to the high sums only and release true counts; draw a mean for empty nodes."""
        units = self.layout.units
        counts = sums.sum(axis=1)
        high = super().release(np.ascontiguousarray(sums[:, 1:]), receipt, source)[:, 0]
        drawn = source.integers(units + 1, len(sums)).astype(np.int64)
        empty = counts == 0
        return np.stack([np.where(empty, units - drawn, counts - high), np.where(empty, drawn, high)], axis=1)

    def shares(self, released: Sums, parents: Shares) -> Shares:
        """Return noisy means without clamping them to the range."""
        return np.asarray(released / released.sum(axis=1, keepdims=True))

    def goes_on(self, sums: Sums, released: Sums) -> npt.NDArray[np.bool_]:
        """Split every node."""
        return np.ones(len(sums), dtype=bool)

    def costs(self, scores: npt.NDArray[np.int64], squares: Shares, sums: Sums, released: Sums) -> Costs:
        """Return the squared errors that would remain, cut off where the weight is 1e-12."""
        if self.epsilon == math.inf:
            return super().costs(scores, squares, sums, released)
        errors = np.floor(squares).astype(np.int64)[:, None] - scores
        return np.asarray(np.minimum(errors, int(self.units * self._MAX_EXPONENT / self._per_error)))


class PublishedDecisionForest(Recipe):
    """DP-DF as published. It is not private.

    The sensitivity of the Gini index is taken at a noisy size, and classes and nodes without records get no noise.
    """

    _EXPONENT_UNITS = 1 << 14
    _MAX_EXPONENT = 50

    def charges(self) -> tuple[Charge, ...]:
        """Return the published charges, with the true costs."""
        return (
            self._charge_of_sums("true zeros released beside counts of sensitivity", math.inf),
            self._charge_of_splits("local sensitivity at a noisy size", math.inf),
        )

    def _selection(self, receipt: Receipt, streams: Streams) -> Selection:
        per_unit = math.inf if self.epsilon == math.inf else Fraction(1, self._EXPONENT_UNITS)
        return Selection.with_published_weights(receipt, weight_table(per_unit, 1, self.n_features), streams)

    def release(self, sums: Sums, receipt: Receipt, source: RandomSource) -> Sums:
        """Add noise to the counts of classes that occur; release the zeros of the others."""
        return np.where(sums > 0, super().release(sums, receipt, source), 0)

    def goes_on(self, sums: Sums, released: Sums) -> npt.NDArray[np.bool_]:
        """Split nodes in which several classes occur and some released count is positive."""
        return np.asarray(((sums > 0).sum(axis=1) > 1) & (released > 0).any(axis=1))

    def costs(self, scores: npt.NDArray[np.int64], squares: Shares, sums: Sums, released: Sums) -> Costs:
        """Return the difference between the largest exponent and that of the Gini gain, in units of an exponent."""
        if self.epsilon == math.inf:
            return super().costs(scores, squares, sums, released)
        gain = (
            2
            / self.units
            * (scores - explained(sums, self.layout, self.units)[:, None])
            / sums.sum(axis=1, keepdims=True)
        )
        size = self.sizes(released)[:, None]
        sensitivity = 2 * size / (size + 1) ** 2
        exponent = np.minimum(float(self.per_query) * gain / (2 * sensitivity), self._MAX_EXPONENT)
        return np.asarray(np.rint(self._EXPONENT_UNITS * (self._MAX_EXPONENT - exponent)), dtype=np.int64)
