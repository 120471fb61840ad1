"""Accounting as the DiPriMe paper publishes it, for comparison with its numbers only: it is not private.

docs/privacy.md, section 8, says where it fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout
from diprime.engines.assignment import DrawnTrees, TreeAssignment, TreeDraws
from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon, PureEpsilon
from diprime.privacy.randomness import RandomSource, permutation
from diprime.training.estimates import LeafSums, to_simplex
from diprime.training.policy import AccountingPolicy


class EqualParts:
    """A permutation of the rows is cut into equal parts: a removed row moves others across the borders.

    Attributes
    ----------
    n_trees : int
        How many parts there are.
    """

    def __init__(self, n_trees: int) -> None:
        self.n_trees = n_trees

    def draws(self, sizes: Sequence[int], source: RandomSource) -> Sequence[TreeDraws]:
        """Return the trees of each partition."""
        n_rows = sum(sizes)
        trees = np.zeros(n_rows, dtype=np.uint16)
        if self.n_trees > 1:
            trees = (permutation(source.streams(1)[0], n_rows) % self.n_trees).astype(np.uint16)
        return [DrawnTrees(part) for part in np.split(trees, np.cumsum(sizes)[:-1])]


class PublishedAccounting(AccountingPolicy):
    """The paper's accounting: a node's medians are charged as one, and leaves of numbers show their true counts."""

    name: Accounting = "paper"

    def assignment(self, n_trees: int) -> TreeAssignment:
        """Return how rows are assigned to trees."""
        return EqualParts(n_trees)

    def n_charged_medians(self, n_medians: int) -> int:
        """Return one: the paper charges K medians of the same records as one."""
        return 1

    def quality_range(self, true_range: int, units: int) -> int:
        """Return the range of the published sensitivity 4B²/N with B = 1."""
        return 8 * units

    def true_cost(self, epsilon: Epsilon) -> PureEpsilon | None:
        """Return what a release truly costs."""
        return PureEpsilon(epsilon)

    def leaf_bound(self, layout: TargetLayout) -> tuple[str, PureEpsilon | None]:
        """Return the bound of the leaves; nothing bounds the cost of true counts beside the sums of numbers."""
        if layout.task == "classification":
            return super().leaf_bound(layout)
        return f"L1 sensitivity {layout.person_units}, true counts released beside the sums", PureEpsilon(math.inf)

    def released_leaves(
        self, true: npt.NDArray[np.int64], noisy: npt.NDArray[np.int64], layout: TargetLayout
    ) -> npt.NDArray[np.int64]:
        """Return noisy class counts; for numbers, noise on the sums alone and the true counts beside them."""
        if layout.task == "classification":
            return noisy
        return np.stack([true.sum(axis=-1) - noisy[..., 1], noisy[..., 1]], axis=-1)

    def leaf_means(self, leaves: LeafSums, layout: TargetLayout) -> npt.NDArray[np.float64]:
        """Return noisy sums over counts, clamped; uniform where nothing is left."""
        counts = leaves.counts[..., None]
        return to_simplex(np.divide(leaves.sums, counts, out=np.zeros_like(leaves.sums), where=counts > 0))


PUBLISHED = PublishedAccounting()
