"""Division of epsilon among the releases of a fit.

The number of trees and their depth may depend on released counts, so there are two plans. A :class:`BudgetPlan`, made
before any row is read, reserves a part for the trees. A :class:`TreePlan`, made before anything about the trees is
released, spends exactly that part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from diprime.domain import Domain
from diprime.forest import defaults
from diprime.forest.candidates import Splitter
from diprime.forest.sums import AccountingPolicy, counts_charge, leaf_charge, node_windows_charge, window_charge
from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon, share_of
from diprime.privacy.session import Account

Method = Literal["joint", "diprime", "diprime-exp", "diprime-flip", "random"]


@dataclass(frozen=True)
class ForestSettings:
    """Checked parameters of a fit. None means "auto"."""

    epsilon: Epsilon
    method: Method
    n_estimators: int | None
    max_depth: int | None
    max_features: int
    split_share: Fraction | None
    balance: Fraction | None
    disjoint_rows: bool
    policy: AccountingPolicy
    verbose: bool
    max_records_per_group: int

    @property
    def is_random_forest(self) -> bool:
        """Whether this is an ordinary random forest: without noise, each tree on a bag of all records."""
        return self.method == "joint" and self.epsilon == math.inf and not self.disjoint_rows

    @property
    def accounting(self) -> Accounting:
        """Accounting mode shown in the ledger."""
        return self.policy.name


def _total(charges: Iterable[Charge | None]) -> Epsilon:
    return sum((charge.total for charge in charges if charge is not None), Fraction(0))


def check_sum(spent: Epsilon, budget: Epsilon, name: str) -> None:
    """Raise `AssertionError` unless a plan adds up to exactly its budget."""
    if spent != budget:
        raise AssertionError(f"The plan of {name} spends {spent}, and its budget is {budget}.")


@dataclass(frozen=True)
class BudgetPlan:
    """Budgets of the releases of a fit. The trees' part is planned once their number is known."""

    epsilon: Epsilon
    counts: Charge | None  # record counts, if anything depends on them
    window: Charge | None  # clipping range of a numeric target
    trees: Epsilon  # total budget of all trees

    def __post_init__(self) -> None:
        check_sum(_total([self.counts, self.window]) + self.trees, self.epsilon, "the fit")

    @classmethod
    def make(cls, settings: ForestSettings, domain: Domain) -> BudgetPlan:
        """Return the plan of a fit, before any row is read."""
        epsilon, joint = settings.epsilon, settings.method == "joint"
        layout = domain.layout.of_persons(settings.max_records_per_group)
        counts = window = None
        share = Fraction(1)
        if joint or settings.n_estimators is None or settings.max_depth is None:
            counts = counts_charge(layout, share_of(epsilon, defaults.COUNTS_SHARE))
            share -= defaults.COUNTS_SHARE
        if joint and domain.task == "regression" and epsilon != math.inf:
            window = window_charge(layout, share_of(epsilon, defaults.QUANTILE_SHARE))
            share -= window.n_releases * defaults.QUANTILE_SHARE
        return cls(epsilon, counts, window, share_of(epsilon, share))


@dataclass(frozen=True)
class TreeShape:
    """Number of trees and their depth, from the settings or from released counts."""

    n_trees: int
    depth: int
    linear_tail: Fraction = Fraction(0)  # class share up to which the impurity of ``"joint"`` is linear
    n_rows: int = 0  # released number of records, or of people with groups; 0 if nothing depends on it

    @classmethod
    def make(cls, settings: ForestSettings, domain: Domain, counts: Sequence[int]) -> TreeShape:
        """Choose the shape from the settings and, for "auto", from released counts."""
        epsilon, n_trees, depth, n_rows = settings.epsilon, settings.n_estimators, settings.max_depth, sum(counts)
        if n_trees is None:
            classification = domain.task == "classification"
            n_trees = defaults.n_estimators(settings.method, n_rows, epsilon, classification=classification)
            n_trees = defaults.RANDOM_FOREST_TREES if settings.is_random_forest else n_trees
        if depth is None and settings.is_random_forest:
            depth = defaults.random_forest_depth(n_rows, n_trees, domain.layout.n_outputs)
        elif depth is None:
            depth = defaults.max_depth(n_rows, epsilon, n_trees, domain.layout.n_outputs)
        return cls(n_trees, depth, defaults.linear_tail(counts, epsilon), n_rows)


@dataclass(frozen=True)
class TreePlan:
    """Budgets of the releases of the trees."""

    budget: Epsilon  # total budget of all trees
    n_trees: int  # number of trees that are grown together, on disjoint records
    n_rounds: int  # number of times that trees are grown together, each time on all records
    node_windows: Mapping[int, Charge]  # clipping ranges of nodes, for the levels that have them
    levels: Sequence[Sequence[Charge]]  # splits of each level
    leaves: Charge

    def __post_init__(self) -> None:
        splits = [charge for level in self.levels for charge in level]
        check_sum(_total([*self.node_windows.values(), *splits, self.leaves]), self.budget, "the trees")

    @classmethod
    def make(
        cls, plan: BudgetPlan, settings: ForestSettings, domain: Domain, shape: TreeShape, splitter: Splitter
    ) -> TreePlan:
        """Return the plan of the trees, before anything about them is released."""
        if settings.disjoint_rows:
            n_rounds, n_together = 1, shape.n_trees
            composition = "Each record is in one tree, and in one node per level, so each level is charged once."
        else:
            n_rounds, n_together = shape.n_trees, 1
            composition = "Every tree uses all records, so each release is charged once per tree."
        layout = domain.layout.of_persons(settings.max_records_per_group)
        node_windows = {}
        if plan.window is not None:
            levels = defaults.window_levels(shape.n_rows, plan.epsilon, shape.n_trees, shape.depth)
            epsilon = plan.window.epsilon / n_rounds
            node_windows = {
                level: node_windows_charge(layout, level, epsilon, n_rounds, composition) for level in levels
            }
        of_windows = _total(node_windows.values())
        of_tree = (plan.trees - of_windows) / n_rounds
        share = settings.split_share or defaults.split_share(settings.method, shape.n_rows, plan.epsilon)
        share = share if splitter.looks_at_data and shape.depth else Fraction(0)
        weights = defaults.level_weights(settings.method, shape.depth, plan.epsilon)
        epsilons = [share_of(of_tree, share * Fraction(w, sum(weights))) for w in weights]
        return cls(
            plan.trees,
            n_together,
            n_rounds,
            node_windows,
            [splitter.charges(level, epsilon, n_rounds, composition) for level, epsilon in enumerate(epsilons)],
            leaf_charge(layout, share_of(of_tree, 1 - share), n_rounds, composition, settings.policy),
        )

    @property
    def depth(self) -> int:
        """Depth of every tree."""
        return len(self.levels)

    def pay(self, account: Account) -> TreeReceipts:
        """Charge all releases of the trees."""
        return TreeReceipts(
            {level: account.pay(charge) for level, charge in self.node_windows.items()},
            [[account.pay(charge) for charge in charges] for charges in self.levels],
            account.pay(self.leaves),
        )


@dataclass(frozen=True)
class TreeReceipts:
    """Receipts for the charges of a :class:`TreePlan`."""

    node_windows: Mapping[int, Receipt]
    levels: Sequence[Sequence[Receipt]]
    leaves: Receipt
