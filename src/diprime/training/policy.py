"""Strict accounting, and the decisions in which published accounting differs.

Every place in which the paper's algorithm spends, assigns or releases differently asks this one object.
:mod:`diprime.paper.accounting` has its counterpart.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout
from diprime.engines.assignment import IndependentAssignment, TreeAssignment
from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon, PureEpsilon
from diprime.training.estimates import LeafSums, shrunken_means


class AccountingPolicy:
    """Strict accounting: every release is charged at what it costs."""

    name: Accounting = "strict"

    def assignment(self, n_trees: int) -> TreeAssignment:
        """Return how rows are assigned to trees."""
        return IndependentAssignment(n_trees)

    def n_charged_medians(self, n_medians: int) -> int:
        """Return how many of the medians of one node are charged; one record is in all of them."""
        return n_medians

    def quality_range(self, true_range: int, units: int) -> int:
        """Return the range of the split quality, in its units, that its selection is calibrated to."""
        return true_range

    def true_cost(self, epsilon: Epsilon) -> PureEpsilon | None:
        """Return the true cost of a release where it is charged at something else; None, where it is not."""
        return None

    def leaf_bound(self, layout: TargetLayout) -> tuple[str, PureEpsilon | None]:
        """Return what the ledger says of the leaves' sensitivity, and their true cost if it is charged otherwise."""
        return f"L1 sensitivity {layout.person_units}", None

    def released_leaves(
        self, true: npt.NDArray[np.int64], noisy: npt.NDArray[np.int64], layout: TargetLayout
    ) -> npt.NDArray[np.int64]:
        """Return which sums of leaves are released: those with noise."""
        return noisy

    def leaf_means(self, leaves: LeafSums, layout: TargetLayout) -> npt.NDArray[np.float64]:
        """Return the estimates of the leaves."""
        return shrunken_means(leaves, of_classes=layout.task == "classification")


STRICT = AccountingPolicy()
