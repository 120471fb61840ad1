"""Reproduction and examination of the DiPriMe paper (Consul and Williamson 2021). The rest of diprime does not use it.

* `PaperDiPriMeClassifier` and `PaperDiPriMeRegressor`: the forests with the paper's published accounting. They are not
  private (docs/proofs/forests.md, section 9), and serve only for comparison with the paper's numbers.
* `DPRandomForestClassifier`, `DPRandomForestRegressor` and `DPDecisionForestClassifier`: the paper's baselines.
* `diprime.paper.theory`: the paper's utility bounds, as printed and as corrected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.domain.encoding import TargetLayout
from diprime.estimators.forest import DiPriMeClassifier, DiPriMeRegressor
from diprime.estimators.models import ESTIMATORS
from diprime.forest.engine import TreeAssignment
from diprime.forest.plan import ForestSettings
from diprime.forest.rows import DrawnTrees, TreeDraws
from diprime.forest.sums import AccountingPolicy
from diprime.model.estimates import LeafSums, to_simplex
from diprime.paper import theory as theory
from diprime.paper.baselines import DPDecisionForestClassifier, DPRandomForestClassifier, DPRandomForestRegressor
from diprime.privacy.charges import Bound, BoundKind
from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon, PureEpsilon
from diprime.privacy.randomness import RandomSource, permutation

__all__ = [
    "DPDecisionForestClassifier",
    "DPRandomForestClassifier",
    "DPRandomForestRegressor",
    "PaperDiPriMeClassifier",
    "PaperDiPriMeRegressor",
]


class EqualParts:
    """Assignment of permuted rows to trees in equal parts, in which removing one row can move others between trees."""

    def __init__(self, n_trees: int) -> None:
        self.n_trees = n_trees

    def draws(self, sizes: Sequence[int], source: RandomSource) -> Sequence[TreeDraws]:
        """Return the tree of each row, by partition."""
        n_rows = sum(sizes)
        trees = np.zeros(n_rows, dtype=np.uint16)
        if self.n_trees > 1:
            trees = (permutation(source.streams(1)[0], n_rows) % self.n_trees).astype(np.uint16)
        return [DrawnTrees(part) for part in np.split(trees, np.cumsum(sizes)[:-1])]


class PublishedAccounting(AccountingPolicy):
    """The paper's accounting: a node's medians are charged as one, and regression leaves reveal their true counts."""

    name: Accounting = "paper"

    def assignment(self, n_trees: int) -> TreeAssignment:
        """Return the assignment of rows to trees."""
        return EqualParts(n_trees)

    def n_charged_medians(self, n_medians: int) -> int:
        """Return one: the paper charges K medians of the same records as one."""
        return 1

    def quality_range(self, true_range: int, units: int) -> int:
        """Return the range of the published sensitivity 4B²/N with B = 1."""
        return 8 * units

    def true_cost(self, epsilon: Epsilon) -> PureEpsilon | None:
        """Return the true cost of a release."""
        return PureEpsilon(epsilon)

    def leaf_bound(self, layout: TargetLayout) -> tuple[Bound, PureEpsilon | None]:
        """Return the bound of the leaves and their true cost, which is infinite for regression (exact counts)."""
        if layout.task == "classification":
            return super().leaf_bound(layout)
        return Bound(BoundKind.L1_BESIDE_LEAF_COUNTS, layout.person_units), PureEpsilon(math.inf)

    def released_leaves(
        self, true: npt.NDArray[np.int64], noisy: npt.NDArray[np.int64], layout: TargetLayout
    ) -> npt.NDArray[np.int64]:
        """Return noisy class counts or, for regression, noisy sums with true counts."""
        if layout.task == "classification":
            return noisy
        return np.stack([true.sum(axis=-1) - noisy[..., 1], noisy[..., 1]], axis=-1)

    def leaf_means(self, leaves: LeafSums, layout: TargetLayout) -> npt.NDArray[np.float64]:
        """Return noisy sums divided by counts, clipped; uniform if nothing is left."""
        counts = leaves.counts[..., None]
        return to_simplex(np.divide(leaves.sums, counts, out=np.zeros_like(leaves.sums), where=counts > 0))


PUBLISHED = PublishedAccounting()


@dataclass(eq=False, repr=False, kw_only=True)
class PaperDiPriMeClassifier(DiPriMeClassifier):
    """Forest for classification with the published accounting of the DiPriMe paper. It is not private.

    Use it only to compare with the paper. All splits and leaves are those of `DiPriMeClassifier`, and so
    are the parameters, attributes and methods, except that ``class_weight`` must be None. The counted costs and
    some releases are those of the paper; see section 9 of ``docs/proofs/forests.md``. The ledger states the true cost
    of each release.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Categorical, Domain, Numeric
    >>> from diprime.paper import PaperDiPriMeClassifier
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(2000, 1))
    >>> y = np.where(X[:, 0] > 5, "yes", "no")
    >>> domain = Domain({"a": Numeric(0, 10)}, target=Categorical(["no", "yes"]))
    >>> model = PaperDiPriMeClassifier(1.0, domain, method="diprime-exp", max_features=1)
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     ledger = model.fit(X, y).privacy_
    >>> ledger.is_private, ledger.total
    (False, Fraction(1, 1))
    """

    _policy = PUBLISHED

    def _check_shared_settings(self, n_features: int, n_fits: int) -> ForestSettings:
        if self.class_weight is not None:
            raise ValueError("class_weight must be None: the paper has no class weights.")
        return super()._check_shared_settings(n_features, n_fits)


@dataclass(eq=False, repr=False, kw_only=True)
class PaperDiPriMeRegressor(DiPriMeRegressor):
    """Forest for regression with the published accounting of the DiPriMe paper. It is not private.

    Use it only to compare with the paper. All splits are those of `DiPriMeRegressor`, and so are the
    parameters, attributes and methods. The counted costs and some releases, such as exact numbers of records in the
    leaves, are those of the paper; see section 9 of ``docs/proofs/forests.md``. The ledger states the true cost of each
    release.
    """

    _policy = PUBLISHED


ESTIMATORS[False, "classification", "paper"] = PaperDiPriMeClassifier
ESTIMATORS[False, "regression", "paper"] = PaperDiPriMeRegressor

for _name in __all__:
    globals()[_name].__module__ = __name__
