"""One private selection over all features and thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.domain import Domain
from diprime.kernels import scoring
from diprime.model.regions import Regions
from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.measures import Epsilon, PureEpsilon
from diprime.privacy.mechanisms.selection import Selection
from diprime.privacy.randomness import RandomSource
from diprime.training.splitting.candidates import Candidates, CategoricalCandidates, draw_features
from diprime.training.splitting.cost import Cost
from diprime.training.splitting.histograms import NodeHistograms
from diprime.training.splitting.levels import Level


@dataclass
class JointSplitter:
    """One selection over all features and thresholds, by impurity and by the shortfall of the smaller child.

    The balance term follows the paper: in a node too small to show a signal, the split is near a median rather than
    anywhere. In a large node it only prevents tiny children.

    Features have equal weights as long as their costs are equal, however many thresholds or subsets of levels each of
    them has at the node: whoever cuts a feature finely gives more candidates, not more votes.

    Attributes
    ----------
    domain : Domain
        The domain of the features.
    categories : CategoricalCandidates
        The candidate splits of categorical features.
    max_features : int
        The number of features tried at each node.
    balance : Fraction
        The penalty for each row that the smaller child falls short, as a multiple of one squared error.
    linear_tail : Fraction
        Where the impurity is linear; see :class:`~diprime.training.splitting.cost.Cost`.
    person_weight : int
        What the weights of one person's records add up to: as many equal records may be added at once.
    looks_at_data : bool
        Always True.
    """

    domain: Domain
    categories: CategoricalCandidates
    max_features: int
    balance: Fraction
    linear_tail: Fraction
    person_weight: int = 1
    looks_at_data: bool = True

    def cost(self, epsilon: Epsilon) -> Cost:
        """Return the cost of a candidate, in units chosen for epsilon."""
        return Cost.joint(epsilon, self.balance, self.linear_tail, self.person_weight)

    def charges(self, level: int, epsilon: Epsilon, times: int, composition: str) -> tuple[Charge, ...]:
        """Return the charge of one level: one selection at each node."""
        cost = self.cost(epsilon)
        bound = f"cost range {cost.person_range} in units of 1/{cost.units}"
        measure = PureEpsilon(epsilon)
        return (
            Charge(
                "splits",
                "exponential mechanism",
                bound,
                measure,
                times,
                composition,
                level,
                calibrated_to=cost.person_range,
            ),
        )

    def level(self, regions: Regions, receipts: Sequence[Receipt], source: RandomSource) -> Level:
        """Prepare the selections of a level."""
        return _JointLevel(self, regions, receipts, source)


def offsets_of_equal_features(cost_range: int, epsilon: Epsilon, n_slots: int) -> npt.NDArray[np.int64]:
    """Return, for each number of candidates n of a feature, the cost to add that divides their weights by n.

    Weights fall by a factor of e for each ``cost_range / epsilon`` units of cost. The numbers of candidates are public,
    so the offsets are a public base measure of the selection, which costs no privacy (selection.md).
    """
    logs = np.log(np.maximum(np.arange(n_slots + 1), 1))
    return np.rint(logs * (cost_range / float(epsilon))).astype(np.int64)


class _JointLevel(Level):
    def __init__(
        self, splitter: JointSplitter, regions: Regions, receipts: Sequence[Receipt], source: RandomSource
    ) -> None:
        (receipt,) = receipts
        chosen = draw_features(regions, splitter.max_features, source)
        super().__init__(Candidates(splitter.domain, splitter.categories, regions, chosen), len(regions))
        self.cost = splitter.cost(receipt.charge.epsilon)
        self.selection = Selection(
            receipt,
            source.streams(len(regions)),
            cost_range=self.cost.person_range,
            n_candidates=self.candidates.n_slots * self.candidates.per_node,
        )
        self.offsets = offsets_of_equal_features(self.cost.range, receipt.charge.epsilon, self.candidates.n_slots)

    def _choose(self, histograms: NodeHistograms, first: int, last: int) -> None:
        per_node, n_slots = self.candidates.per_node, self.candidates.n_slots
        costs, mirrored = self.candidates.costs(histograms, first * per_node, last * per_node, self.cost)
        scoring.add_offsets(self.offsets, mirrored, costs)
        costs, mirrored = costs.reshape(last - first, -1), mirrored.reshape(last - first, -1)
        picks = self.selection.pick(np.arange(first, last), costs, mirrored)
        nodes = first + np.flatnonzero(picks >= 0)
        pairs, slots = np.divmod(picks[picks >= 0], n_slots)
        pairs += nodes * per_node
        self._set(nodes, pairs, self.candidates.masks(pairs, slots))
