"""Forests of multi-way trees: releases, splits, growth and predictions.

A tree releases the sums of its nodes at every level and, except at the last level, selects the feature that each node
splits on. :class:`Recipe` is private. Its subclasses follow the published code, and their charges state its true cost.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.domain import MISSING, OTHER, Domain, RowReader
from diprime.domain.encoding import Rows, TargetLayout
from diprime.domain.features import N_CODES
from diprime.forest.candidates import Cost
from diprime.kernels.constants import ABSENT_COST
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, Receipt, ReleaseKind
from diprime.privacy.measures import Epsilon, PureEpsilon, share_of
from diprime.privacy.mechanisms.laplace import discrete_laplace
from diprime.privacy.mechanisms.selection import Costs, Selection, weight_table
from diprime.privacy.randomness import RandomSource, Streams
from diprime.privacy.session import Account

Sums = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]

MAX_ROWS = 1 << 26
COMPOSITION = "Every tree uses all records, so the costs of levels and trees add up."

LEAF = -1
READ_BLOCK_ROWS = 1 << 14


def explained(sums: Sums, layout: TargetLayout, units: int) -> npt.NDArray[np.int64]:
    """Return ⌊units·½·Σ S²/n⌋ for the sums S of each cell, with records scaled to sum to one; zero for empty cells.

    This is the part of ½·Σ‖t‖² that the cell's mean explains. The rest is the sum of squared errors, ½·Σ‖t - t̄‖². All
    arithmetic is in integers: with S = q·n + r, S²/n = q·(S + r) + r²/n. No term exceeds 2^63 for up to ``MAX_ROWS``
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
    """Receipts of a forest for node sums and for splits."""

    sums: Receipt
    splits: Receipt

    def cancel(self) -> None:
        """Give up the remaining releases."""
        self.sums.cancel()
        self.splits.cancel()


class Recipe:
    """Private recipe, with equal shares of epsilon for the sums of each level and for the splits of each level."""

    def __init__(self, epsilon: Epsilon, n_trees: int, depth: int, n_features: int, layout: TargetLayout) -> None:
        self.epsilon, self.n_trees, self.depth = epsilon, n_trees, depth
        self.n_features, self.layout = n_features, layout
        self.per_query = share_of(epsilon, Fraction(1, n_trees * self._n_shares))
        self._cost = Cost.joint(self._per_error, balance=Fraction(0), linear_tail=Fraction(0))
        self.units = self._cost.units

    @property
    def _n_shares(self) -> int:
        return 2 * self.depth + 1  # sums of all levels, and splits of all levels but the last

    @property
    def _per_error(self) -> Epsilon:
        """The factor of the squared error in the exponent of a split's weight."""
        return self.per_query

    @property
    def cost_range(self) -> int:
        """The range of the costs of splits.

        A record changes one child of every candidate: its error changes by 0 to 1, and the floor by less than one unit.
        """
        return self._cost.range

    def charges(self) -> tuple[Charge, ...]:
        """Return the charges of all trees, for node sums and for splits."""
        return self._charge_of_sums(BoundKind.L1), self._charge_of_splits()

    def pay(self, account: Account) -> Receipts:
        """Charge all trees of the forest to the account."""
        sums, splits, *aside = [account.pay(charge) for charge in self.charges()]
        for receipt in aside:
            receipt.cancel()
        return Receipts(sums, splits)

    def _charge_of_sums(self, kind: BoundKind, true_cost: Epsilon | None = None) -> Charge:
        return Charge(
            ReleaseKind.NODE_SUMS,
            Mechanism.DISCRETE_LAPLACE,
            Bound(kind, self.layout.units),
            PureEpsilon(self.per_query),
            self.n_trees * (self.depth + 1),
            COMPOSITION,
            strict_measure=_measure(true_cost),
        )

    def _charge_of_splits(self, bound: Bound | None = None, true_cost: Epsilon | None = None) -> Charge:
        return Charge(
            ReleaseKind.SPLITS,
            Mechanism.EXPONENTIAL,
            bound or Bound(BoundKind.COST_RANGE_IN_UNITS, self.cost_range, self.units),
            PureEpsilon(self.per_query),
            self.n_trees * self.depth,
            COMPOSITION,
            strict_measure=_measure(true_cost),
        )

    def release(self, sums: Sums, receipt: Receipt, source: RandomSource) -> Sums:
        """Release the node sums of a level. One record changes the sums of one node, by ``units`` in L1 norm."""
        return discrete_laplace(sums, receipt, self.layout.units, source.streams(len(sums)))

    def select(self, costs: Costs, receipt: Receipt, source: RandomSource) -> npt.NDArray[np.int64]:
        """Select the feature that each node of a level splits on, given the costs of the features."""
        return self._selection(receipt, source.streams(len(costs))).pick(np.arange(len(costs)), costs)

    def _selection(self, receipt: Receipt, streams: Streams) -> Selection:
        return Selection(receipt, streams, cost_range=self.cost_range, n_candidates=self.n_features)

    def shares(self, released: Sums, parents: Shares) -> Shares:
        """Return the output shares of each node, or those of its parent if no released sum is positive."""
        left = np.maximum(released, 0)
        total = left.sum(axis=1, keepdims=True)
        return np.where(total > 0, left / np.maximum(total, 1), parents)

    def sizes(self, released: Sums) -> npt.NDArray[np.float64]:
        """Return the released number of records of each node."""
        return np.asarray(np.maximum(released, 0).sum(axis=1) / self.layout.units)

    def goes_on(self, sums: Sums, released: Sums) -> npt.NDArray[np.bool_]:
        """Return whether to split each node: a node with at most one positive released sum becomes a leaf."""
        return np.asarray((released > 0).sum(axis=1) > 1)

    def costs(self, scores: npt.NDArray[np.int64], squares: Shares, sums: Sums, released: Sums) -> Costs:
        """Return the cost of splitting each node on each feature, which is the remaining error up to a constant.

        Shapes: scores (n_nodes, n_features), squares (n_nodes,), sums (n_nodes, n_outputs), released (n_nodes,
        n_outputs).
        """
        return np.asarray(scores.max(axis=1, keepdims=True) - scores)


class PublishedRandomForest(Recipe):
    """DP-RF for classification as in the experiments of the DiPriMe paper: the mean Gini index, with sensitivity one.

    The mean is always between zero and one, so the sensitivity is correct and the recipe is private. But it is far too
    large, because one of n records changes a mean by about 1/n, so splits are almost random.
    """

    @property
    def _n_shares(self) -> int:
        return 2 * (self.depth + 1)

    @property
    def cost_range(self) -> int:
        """The range of the costs of splits, given that the mean is between zero and one with and without a record."""
        return 2 * self.units

    def charges(self) -> tuple[Charge, ...]:
        """Return the charges of all trees. The share for splits of the last level, which do not exist, is set aside."""
        return *super().charges(), self._set_aside()

    def _set_aside(self, true_cost: Epsilon | None = None) -> Charge:
        measure, bound = PureEpsilon(self.per_query), Bound(BoundKind.NONE)
        strict_measure = _measure(true_cost)
        return Charge(ReleaseKind.NOTHING, Mechanism.NONE, bound, measure, self.n_trees, strict_measure=strict_measure)

    def costs(self, scores: npt.NDArray[np.int64], squares: Shares, sums: Sums, released: Sums) -> Costs:
        """Return the mean Gini index of the children, an integer from 0 to ``units``."""
        if self.epsilon == math.inf:
            return super().costs(scores, squares, sums, released)
        return np.asarray(self.units - 2 * scores // np.maximum(sums.sum(axis=1, keepdims=True), 1))


class PublishedRegression(PublishedRandomForest):
    """Regression analogue of DP-RF in the DiPriMe paper. It is not private, because noise depends on true counts."""

    # The published weights are e^(-x) + 1e-12. The constant dominates if all errors are large.
    _MAX_EXPONENT = 12 * math.log(10)

    @property
    def _per_error(self) -> Epsilon:
        """The factor of the squared error in the exponent: half of a tree's epsilon divided by the sensitivity 4."""
        return share_of(self.epsilon, Fraction(1, 8 * self.n_trees))

    def charges(self) -> tuple[Charge, ...]:
        """Return the published charges, with the true costs."""
        true_cost = share_of(self._per_error, Fraction(self.units + 4, self.units))
        return (
            self._charge_of_sums(BoundKind.L1_BESIDE_COUNTS, math.inf),
            self._charge_of_splits(Bound(BoundKind.COST_RANGE_IN_UNITS, 8 * self.units, self.units), true_cost),
            self._set_aside(Fraction(0)),
        )

    def _selection(self, receipt: Receipt, streams: Streams) -> Selection:
        table = weight_table(self._per_error, self.units, self.n_features)
        return Selection.with_published_weights(receipt, table, streams)

    def release(self, sums: Sums, receipt: Receipt, source: RandomSource) -> Sums:
        """Add noise to the high sums only, release true counts, and draw a random mean for empty nodes."""
        units = self.layout.units
        counts = sums.sum(axis=1)
        high = super().release(np.ascontiguousarray(sums[:, 1:]), receipt, source)[:, 0]
        drawn = source.integers(units + 1, len(sums)).astype(np.int64)
        empty = counts == 0
        return np.stack([np.where(empty, units - drawn, counts - high), np.where(empty, drawn, high)], axis=1)

    def shares(self, released: Sums, parents: Shares) -> Shares:
        """Return noisy means without clipping them to the range."""
        return np.asarray(released / released.sum(axis=1, keepdims=True))

    def goes_on(self, sums: Sums, released: Sums) -> npt.NDArray[np.bool_]:
        """Return True for every node."""
        return np.ones(len(sums), dtype=bool)

    def costs(self, scores: npt.NDArray[np.int64], squares: Shares, sums: Sums, released: Sums) -> Costs:
        """Return the remaining squared errors, limited to the error whose weight is 1e-12."""
        if self.epsilon == math.inf:
            return super().costs(scores, squares, sums, released)
        errors = np.floor(squares).astype(np.int64)[:, None] - scores
        return np.asarray(np.minimum(errors, int(self.units * self._MAX_EXPONENT / self._per_error)))


class PublishedDecisionForest(Recipe):
    """DP-DF as published. It is not private.

    The sensitivity of the Gini index is computed from a noisy size, and classes and nodes without records get no noise.
    """

    _EXPONENT_UNITS = 1 << 14
    _MAX_EXPONENT = 50

    def charges(self) -> tuple[Charge, ...]:
        """Return the published charges, with the true costs."""
        return (
            self._charge_of_sums(BoundKind.L1_BESIDE_ZEROS, math.inf),
            self._charge_of_splits(Bound(BoundKind.LOCAL_SENSITIVITY), math.inf),
        )

    def _selection(self, receipt: Receipt, streams: Streams) -> Selection:
        per_unit = math.inf if self.epsilon == math.inf else Fraction(1, self._EXPONENT_UNITS)
        return Selection.with_published_weights(receipt, weight_table(per_unit, 1, self.n_features), streams)

    def release(self, sums: Sums, receipt: Receipt, source: RandomSource) -> Sums:
        """Add noise to the counts of classes that occur, and release the other counts as zeros."""
        return np.where(sums > 0, super().release(sums, receipt, source), 0)

    def goes_on(self, sums: Sums, released: Sums) -> npt.NDArray[np.bool_]:
        """Return whether several classes occur in each node and some released count is positive."""
        return np.asarray(((sums > 0).sum(axis=1) > 1) & (released > 0).any(axis=1))

    def costs(self, scores: npt.NDArray[np.int64], squares: Shares, sums: Sums, released: Sums) -> Costs:
        """Return the largest exponent minus that of the Gini gain, in units of 1/``_EXPONENT_UNITS``."""
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


class Branches:
    """Branches of records at splits, which depend only on the record and the public domain.

    A numeric feature has a branch for each of ``n_bins`` bins, and one for missing values. A categorical feature has a
    branch for each category, one for unlisted categories, and one for missing values.

    Shapes: table (n_features, 256), n_branches (n_features,).

    >>> from diprime import Categorical, Numeric
    >>> domain = Domain({"age": Numeric(0, 100), "sex": Categorical(["F", "M"])}, target=Numeric(0, 1))
    >>> branches = Branches(domain, n_bins=5)
    >>> branches.n_branches
    array([6, 4])
    >>> branches.read(domain.reader([[19, "M"], [21, "?"], [None, "F"]]))
    array([[0, 1, 5],
           [1, 2, 0]], dtype=uint8)
    """

    def __init__(self, domain: Domain, n_bins: int) -> None:
        self.table = np.zeros((domain.n_features, N_CODES), dtype=np.uint8)
        bins = np.minimum(domain.n_codes, n_bins)
        self.n_branches: npt.NDArray[np.int64] = np.where(domain.is_categorical, domain.n_codes + 2, bins + 1)
        for table, categorical, n_codes, n in zip(self.table, domain.is_categorical, domain.n_codes, bins, strict=True):
            codes = np.arange(n_codes)
            table[codes] = codes if categorical else codes * n // n_codes
            if categorical:
                table[OTHER] = n_codes
            table[MISSING] = n_codes + 1 if categorical else n

    def read(self, rows: Rows) -> npt.NDArray[np.uint8]:
        """Return the branch of each row at a split on each feature, as an array of shape (n_features, n_rows)."""
        out = np.empty((len(self.table), rows.n_rows), dtype=np.uint8)
        codes = np.empty((min(READ_BLOCK_ROWS, rows.n_rows), len(self.table)), dtype=np.uint8)
        for start in range(0, rows.n_rows, READ_BLOCK_ROWS):
            stop = min(start + READ_BLOCK_ROWS, rows.n_rows)
            block = codes[: stop - start]
            rows.read(start, stop, block)
            for j, table in enumerate(self.table):
                out[j, start:stop] = table[block[:, j]]
        return out


@dataclass(frozen=True, eq=False)
class MultiwayTree:
    """One tree, with nodes in level order. The children of a split, one per branch, are next to each other."""

    features: npt.NDArray[np.int32]  # shape (n_nodes,): feature that a node splits on; -1 for a leaf
    first_children: npt.NDArray[np.int64]  # shape (n_nodes,): first child of a node
    # Shape (n_nodes, n_outputs): released share of each class, or of the low and the high end of a numeric target.
    shares: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.float64]  # shape (n_nodes,): released number of records


@dataclass(frozen=True, eq=False, repr=False)
class MultiwayForest:
    """Forest of trees whose splits have one branch per bin or category."""

    branches: Branches
    roots: npt.NDArray[np.int64]  # shape (n_trees,): root of each tree. The other nodes of the tree follow it.
    features: npt.NDArray[np.int32]  # shape (n_nodes,): feature that a node splits on; -1 for a leaf
    first_children: npt.NDArray[np.int64]  # shape (n_nodes,): first child of a node
    values: npt.NDArray[np.float64]  # shape (n_nodes, n_outputs): prediction of each node

    @classmethod
    def of_trees(
        cls, branches: Branches, trees: Sequence[MultiwayTree], values: Sequence[npt.NDArray[np.float64]]
    ) -> MultiwayForest:
        """Return a forest of trees with the given node predictions."""
        sizes = [len(tree.features) for tree in trees]
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        return cls(
            branches,
            roots,
            np.concatenate([tree.features for tree in trees]),
            np.concatenate([tree.first_children + root for tree, root in zip(trees, roots, strict=True)]),
            np.concatenate(values),
        )

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return len(self.roots)

    def __repr__(self) -> str:
        return f"MultiwayForest({self.n_trees} trees, {len(self.features)} nodes)"

    def _leaves(self, rows: RowReader) -> npt.NDArray[np.int64]:
        """Return the leaf of each row as an index among all nodes of the forest, of shape (n_trees, n_rows)."""
        branches = self.branches.read(rows)
        nodes = np.repeat(self.roots[:, None], rows.n_rows, axis=1)
        for node in nodes:
            going = np.arange(rows.n_rows)
            while len(going):
                features = self.features[node[going]]
                going, features = going[features != LEAF], features[features != LEAF]
                node[going] = self.first_children[node[going]] + branches[features, going]
        return nodes

    def apply(self, rows: RowReader) -> npt.NDArray[np.int64]:
        """Return the leaf of each row as an index among the nodes of its tree, of shape (n_rows, n_trees)."""
        return np.ascontiguousarray((self._leaves(rows) - self.roots[:, None]).T)

    def predict(self, rows: RowReader) -> npt.NDArray[np.float64]:
        """Return the mean prediction of the trees."""
        total = np.zeros((rows.n_rows, self.values.shape[1]))
        for leaves in self._leaves(rows):
            total += self.values[leaves]
        return total / self.n_trees


@dataclass(frozen=True)
class BaselineRows:
    """Records with a known target, in the form that growing a tree requires."""

    branches: npt.NDArray[np.uint8]  # shape (n_features, n_rows): branch that each row takes at a split on each feature
    target: npt.NDArray[np.int32]  # shape (n_rows,): encoded target
    layout: TargetLayout  # mapping of targets to vectors

    def __post_init__(self) -> None:
        if len(self.target) > MAX_ROWS:
            raise ValueError(f"There are more rows than the {MAX_ROWS:,} that are supported.")

    def only(self, kept: npt.NDArray[np.bool_]) -> BaselineRows:
        """Return the records to keep."""
        return self if kept.all() else replace(self, branches=self.branches[:, kept], target=self.target[kept])

    def sums(self, cells: npt.NDArray[np.int64], n_cells: int) -> npt.NDArray[np.int64]:
        """Return the exact sum of the records' vectors in each cell."""
        n_outputs, units = self.layout.n_outputs, self.layout.units
        if units == 1:
            counts = np.bincount(cells * n_outputs + self.target, minlength=n_cells * n_outputs)
            return np.asarray(counts.reshape(n_cells, n_outputs), dtype=np.int64)
        high = np.bincount(cells, self.target, n_cells).astype(np.int64)  # exact: integers below 2^53
        return np.stack([np.bincount(cells, minlength=n_cells) * units - high, high], axis=1)

    def squares(self, cells: npt.NDArray[np.int64], n_cells: int) -> npt.NDArray[np.float64]:
        """Return ½·Σ‖t‖² over the records of each cell, for vectors t that sum to one."""
        if self.layout.task == "classification":
            return np.asarray(np.bincount(cells, minlength=n_cells) / 2)
        high = self.target / self.layout.units
        return np.asarray(np.bincount(cells, (high**2 + (1 - high) ** 2) / 2, n_cells))


def split_costs(
    records: BaselineRows,
    node: npt.NDArray[np.int64],
    n_branches: npt.NDArray[np.int64],
    recipe: Recipe,
    sums: npt.NDArray[np.int64],
    released: npt.NDArray[np.int64],
) -> Costs:
    """Return the cost of splitting each node on each feature, given the true and the released sums of the nodes."""
    n_nodes = len(sums)
    scores = np.empty((n_nodes, len(n_branches)), dtype=np.int64)
    for j, n in enumerate(n_branches):
        cells = records.sums(node * n + records.branches[j], n_nodes * n)
        scores[:, j] = explained(cells, records.layout, recipe.units).reshape(n_nodes, n).sum(axis=1)
    return recipe.costs(scores, recipe.units * records.squares(node, n_nodes), sums, released)


def grow(
    records: BaselineRows,
    n_branches: npt.NDArray[np.int64],
    recipe: Recipe,
    receipts: Receipts,
    source: RandomSource,
    closed_to_root: Collection[int] = (),
) -> MultiwayTree:
    """Grow one tree.

    The nodes of a level contain disjoint records. All branches of a split become nodes, even empty ones, and a feature
    is used at most once on a path. With a private recipe, the set of nodes and the features that they can split on
    depend only on released numbers.

    Shapes: n_branches (n_features,).
    """
    n_features = len(n_branches)
    node: npt.NDArray[np.int64] = np.zeros(len(records.target), dtype=np.int64)  # of each row, within the level
    used: npt.NDArray[np.bool_] = np.zeros((1, n_features), dtype=bool)
    parents: npt.NDArray[np.float64] = np.full((1, records.layout.n_outputs), 1 / records.layout.n_outputs)
    features, first_children, shares, sizes = [], [], [], []
    n_before = 0
    for level in range(recipe.depth + 1):
        n_nodes = len(used)
        sums = records.sums(node, n_nodes)
        released = recipe.release(sums, receipts.sums, source)
        shares.append(recipe.shares(released, parents))
        sizes.append(recipe.sizes(released))
        features.append(np.full(n_nodes, LEAF, dtype=np.int32))
        first_children.append(np.zeros(n_nodes, dtype=np.int64))
        if level == recipe.depth:
            break
        goes_on = recipe.goes_on(sums, released)
        inner = np.flatnonzero(goes_on)
        if not len(inner):
            break
        kept = goes_on[node]
        records, node = records.only(kept), (np.cumsum(goes_on) - 1)[node[kept]]
        used = used[inner]

        costs = split_costs(records, node, n_branches, recipe, sums[inner], released[inner])
        costs[used] = ABSENT_COST
        if level == 0:
            costs[:, list(closed_to_root)] = ABSENT_COST
        picks = recipe.select(costs, receipts.splits, source)

        n_children = n_branches[picks]
        offsets = np.cumsum(n_children) - n_children
        n_before += n_nodes
        features[-1][inner] = picks
        first_children[-1][inner] = n_before + offsets
        used[np.arange(len(inner)), picks] = True
        used = np.repeat(used, n_children, axis=0)
        parents = np.repeat(shares[-1][inner], n_children, axis=0)
        node = offsets[node] + records.branches[picks[node], np.arange(len(node))]
    return MultiwayTree(
        np.concatenate(features), np.concatenate(first_children), np.concatenate(shares), np.concatenate(sizes)
    )


def prune(tree: MultiwayTree, n_branches: npt.NDArray[np.int64]) -> MultiwayTree:
    """Undo splits whose leaves are no purer than the node, from the leaves up. The root keeps its split.

    Purity is the Gini index of the released shares, and leaves are weighted by their released sizes, so pruning is
    post-processing.
    """
    features = tree.features.copy()
    impurity = 1 - (tree.shares**2).sum(axis=1)
    for node in np.flatnonzero(features != LEAF)[:0:-1]:
        children = slice(tree.first_children[node], tree.first_children[node] + n_branches[features[node]])
        if np.all(features[children] == LEAF):
            below = impurity[children] @ tree.sizes[children]
            if below >= impurity[node] * tree.sizes[node]:
                features[node] = LEAF
    return replace(tree, features=features)
