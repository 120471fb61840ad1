"""How a fit divides epsilon among its releases.

The number of trees and their depth may follow from released counts. So there are two plans: a :class:`BudgetPlan`, made
before any row is read, which sets a part aside for the trees; and a :class:`TreePlan`, made before anything about the
trees is released, which spends exactly that part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from diprime.domain import Domain
from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import Epsilon, share_of
from diprime.training import defaults
from diprime.training.counts import counts_charge
from diprime.training.leaves import leaf_charge
from diprime.training.settings import Settings
from diprime.training.splitting.levels import Splitter
from diprime.training.windows import node_windows_charge, window_charge


def _total(charges: Iterable[Charge | None]) -> Epsilon:
    return sum((charge.total for charge in charges if charge is not None), Fraction(0))


def check_sum(spent: Epsilon, budget: Epsilon, what: str) -> None:
    """Refuse a plan that does not add up to its budget, exactly."""
    if spent != budget:
        raise AssertionError(f"The plan of {what} spends {spent}, and its budget is {budget}.")


@dataclass(frozen=True)
class BudgetPlan:
    """What the releases of a whole fit get; the trees' part is planned once their number is known.

    Attributes
    ----------
    epsilon : Fraction or inf
        The budget.
    counts : Charge or None
        The counts of records, if anything depends on them.
    window : Charge or None
        The window of a numeric target.
    trees : Fraction or inf
        The part of all trees together.
    """

    epsilon: Epsilon
    counts: Charge | None
    window: Charge | None
    trees: Epsilon

    def __post_init__(self) -> None:
        check_sum(_total([self.counts, self.window]) + self.trees, self.epsilon, "the fit")

    @classmethod
    def make(cls, settings: Settings, domain: Domain) -> BudgetPlan:
        """Plan a fit, before any row is read."""
        epsilon, joint = settings.epsilon, settings.method == "joint"
        layout = domain.layout.of_persons(settings.max_records_per_group)
        counts = window = None
        share = Fraction(1)
        if joint or settings.n_estimators is None or settings.max_depth is None:
            counts = counts_charge(layout, share_of(epsilon, defaults.COUNTS_SHARE))
            share -= defaults.COUNTS_SHARE
        if joint and domain.task == "regression" and epsilon != math.inf:
            window = window_charge(layout, share_of(epsilon, defaults.QUANTILE_SHARE))
            share -= window.times * defaults.QUANTILE_SHARE
        return cls(epsilon, counts, window, share_of(epsilon, share))


@dataclass(frozen=True)
class ForestShape:
    """What trees there are, from the settings or from released counts.

    Attributes
    ----------
    n_trees, depth : int
        Their number, and the depth of each.
    linear_tail : Fraction
        Where the impurity of ``"joint"`` is linear.
    n_rows : int
        The released number of records, or of persons, whose records weigh as one; 0 if nothing depends on it.
    """

    n_trees: int
    depth: int
    linear_tail: Fraction = Fraction(0)
    n_rows: int = 0

    @classmethod
    def make(cls, settings: Settings, domain: Domain, counts: Sequence[int]) -> ForestShape:
        """Choose what the settings leave open by released counts, which are empty where nothing is open."""
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
    """What the releases of the trees get.

    Attributes
    ----------
    budget : Fraction or inf
        The part of all trees together.
    n_trees : int
        How many trees are grown together, on disjoint records.
    n_rounds : int
        How many times trees are grown together; each time, all records count.
    node_windows : mapping of int to Charge
        The windows of nodes, for each level that has them.
    levels : sequence of sequences of Charge
        The splits of each level.
    leaves : Charge
        The leaf sums.
    """

    budget: Epsilon
    n_trees: int
    n_rounds: int
    node_windows: Mapping[int, Charge]
    levels: Sequence[Sequence[Charge]]
    leaves: Charge

    def __post_init__(self) -> None:
        splits = [charge for level in self.levels for charge in level]
        check_sum(_total([*self.node_windows.values(), *splits, self.leaves]), self.budget, "the trees")

    @classmethod
    def make(
        cls, plan: BudgetPlan, settings: Settings, domain: Domain, shape: ForestShape, splitter: Splitter
    ) -> TreePlan:
        """Plan the trees, before anything about them is released."""
        if settings.partition:
            n_rounds, n_together = 1, shape.n_trees
            composition = "trees, and nodes of a level, hold disjoint records: it counts once"
        else:
            n_rounds, n_together = shape.n_trees, 1
            composition = "every tree sees all records: it counts once a tree"
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
        share = settings.split_share or defaults.split_share(settings.method)
        share = share if splitter.looks_at_data else Fraction(0)
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
        """The depth of every tree."""
        return len(self.levels)

    def pay(self, ledger: Ledger) -> TreeReceipts:
        """Pay for all releases of the trees."""
        return TreeReceipts(
            {level: ledger.pay(charge) for level, charge in self.node_windows.items()},
            [[ledger.pay(charge) for charge in charges] for charges in self.levels],
            ledger.pay(self.leaves),
        )


@dataclass(frozen=True)
class TreeReceipts:
    """The receipts of a :class:`TreePlan`."""

    node_windows: Mapping[int, Receipt]
    levels: Sequence[Sequence[Receipt]]
    leaves: Receipt
