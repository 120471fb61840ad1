"""The splits of the paper: private medians of some features, then a private choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.domain import Domain
from diprime.kernels import scoring
from diprime.kernels.constants import ABSENT_COST, MASK_BYTES, N_CODES
from diprime.model.masks import Masks
from diprime.model.regions import Regions
from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.measures import Epsilon, PureEpsilon
from diprime.privacy.mechanisms.selection import Rule, Selection
from diprime.privacy.mechanisms.subsets import MAX_CATEGORIES, subset_median
from diprime.privacy.randomness import RandomSource, permutation
from diprime.training.policy import AccountingPolicy
from diprime.training.splitting.candidates import Candidates, CategoricalCandidates, draw_features
from diprime.training.splitting.cost import MAX_UNITS, MEDIAN_COST, MEDIAN_RANGE, MIN_UNITS, Cost
from diprime.training.splitting.histograms import NodeHistograms
from diprime.training.splitting.levels import Level


def quality(person_weight: int) -> Cost:
    """Return the cost of a median in the choice among K: the sum of squared errors.

    The more a person weighs, the coarser the units, so that the table of weights reaches as far.
    """
    units = max(MIN_UNITS, MAX_UNITS >> (person_weight - 1).bit_length())
    return Cost(units, balance=0, person_weight=person_weight)


@dataclass
class MedianSplitter:
    """The splits of the paper: private medians of K features, then a private choice among them by split quality.

    In strict accounting every median is charged, because each record contributes to all K of them.

    With ``looks_at_data=False``, splits are drawn uniformly and cost nothing: the random splits of DP-ERT.

    Attributes
    ----------
    domain : Domain
        The domain of the features.
    categories : CategoricalCandidates
        The candidate splits of categorical features, for permute-and-flip. The exponential mechanism chooses among all
        subsets.
    max_features : int
        K, the number of features tried at each node.
    rule : {"exponential mechanism", "permute-and-flip"}
        The mechanism of medians and of choices.
    policy : AccountingPolicy
        How many medians are charged, and the range of the split quality.
    looks_at_data : bool
        Whether the splits depend on histograms.
    person_weight : int
        What the weights of one person's records add up to: as many equal records may be added at once.
    """

    domain: Domain
    categories: CategoricalCandidates
    max_features: int
    rule: Rule
    policy: AccountingPolicy
    looks_at_data: bool = True
    person_weight: int = 1

    @property
    def quality(self) -> Cost:
        """The cost of a median in the choice among K."""
        return quality(self.person_weight)

    @property
    def median_range(self) -> int:
        """The range of the cost of a median."""
        return MEDIAN_RANGE * self.person_weight

    @property
    def draws_from_all_subsets(self) -> bool:
        """Whether medians of categories are drawn from all splits, rather than from a list of them."""
        return self.rule == "exponential mechanism"

    @property
    def n_charged(self) -> int:
        """The number of medians of a node that are charged."""
        return self.policy.n_charged_medians(self.max_features)

    @property
    def quality_range(self) -> int:
        """The range of the split quality that choices are calibrated to."""
        return self.policy.quality_range(self.quality.range, self.quality.units) * self.person_weight

    def charges(self, level: int, epsilon: Epsilon, times: int, composition: str) -> tuple[Charge, ...]:
        """Return the charges of one level: K medians and one choice at each node."""
        if not self.looks_at_data:
            return ()
        k = self.max_features
        for_medians, for_choice = (epsilon, Fraction(0)) if k == 1 else (epsilon / 2, epsilon / 2)
        medians = Charge(
            "medians",
            self.rule,
            f"cost range {self.median_range}",
            PureEpsilon(for_medians / self.n_charged),
            times * self.n_charged,
            composition + (f", {k} features a node" if k > 1 else ""),
            level,
            self.policy.true_cost(for_medians / self.n_charged * k),
            self.median_range,
        )
        if k == 1:
            return (medians,)
        choices = Charge(
            "choices",
            self.rule,
            f"cost range {self.quality_range} in units of 1/{self.quality.units}",
            PureEpsilon(for_choice),
            times,
            composition,
            level,
            self.policy.true_cost(for_choice * Fraction(self.quality.person_range, self.quality_range)),
            self.quality_range,
        )
        return medians, choices

    def level(self, regions: Regions, receipts: Sequence[Receipt], source: RandomSource) -> Level:
        """Prepare the selections of a level."""
        return _MedianLevel(self, regions, receipts, source)


class _MedianLevel(Level):
    def __init__(
        self, splitter: MedianSplitter, regions: Regions, receipts: Sequence[Receipt], source: RandomSource
    ) -> None:
        self.splitter = splitter
        self.regions = regions
        n_nodes, k = len(regions), splitter.max_features
        chosen = draw_features(regions, k, source)
        super().__init__(Candidates(splitter.domain, splitter.categories, regions, chosen), n_nodes)
        median_streams, choice_streams = source.streams(n_nodes * k), source.streams(n_nodes)
        self.group_streams = source.streams(n_nodes * k if regions.allowed.shape[1] else 0)
        n_candidates = max(self.candidates.n_slots, 2)
        if splitter.looks_at_data:
            self.medians = Selection(
                receipts[0],
                median_streams,
                cost_range=splitter.median_range,
                n_candidates=n_candidates,
                times=splitter.n_charged,
            )
        else:
            self.medians = Selection.uniform(median_streams, n_candidates)
        self.choices: Selection | None = None
        if k > 1:
            self.choices = Selection(receipts[1], choice_streams, cost_range=splitter.quality_range, n_candidates=k)

    def _choose(self, histograms: NodeHistograms, first: int, last: int) -> None:
        k = self.candidates.per_node
        found, masks = self._draw_medians(histograms, first * k, last * k)
        if self.choices is None:
            picks = np.where(found, 0, -1)
        else:
            costs = np.full(len(found), ABSENT_COST, dtype=np.int64)
            costs[found] = self._qualities(histograms, first * k + np.flatnonzero(found), masks[found])
            picks = self.choices.pick(np.arange(first, last), costs.reshape(-1, k))
        nodes = np.flatnonzero(picks >= 0)
        pairs = nodes * k + picks[nodes]
        self._set(first + nodes, first * k + pairs, masks[pairs])

    def _qualities(
        self, histograms: NodeHistograms, pairs: npt.NDArray[np.int64], masks: Masks
    ) -> npt.NDArray[np.int64]:
        """Return the costs, in the choice, of the medians of some pairs of node and feature."""
        rows, features = histograms.rows(self.candidates.nodes[pairs]), self.candidates.features[pairs]
        costs = np.empty(len(pairs), dtype=np.int64)
        rule = self.splitter.quality.rule(histograms.layout)
        scoring.mask_costs(rule, histograms.view, rows, features, masks, histograms.scratch, costs)
        return costs

    def _draw_medians(self, histograms: NodeHistograms, begin: int, end: int) -> tuple[npt.NDArray[np.bool_], Masks]:
        """Draw a median for each pair of node and feature; return which pairs have one, and the masks."""
        all_subsets = self.splitter.draws_from_all_subsets
        found = np.zeros(end - begin, dtype=np.bool_)
        masks = np.zeros((end - begin, MASK_BYTES), dtype=np.uint8)
        costs, mirrored = self.candidates.costs(histograms, begin, end, MEDIAN_COST, categories=not all_subsets)
        categorical = self.candidates.kind[begin:end] == 1
        listed = np.flatnonzero(~categorical) if all_subsets else np.arange(end - begin)
        picks = self.medians.pick(begin + listed, costs[listed], mirrored[listed, None])
        picked = listed[picks >= 0]
        found[picked] = True
        masks[picked] = self.candidates.masks(begin + picked, picks[picks >= 0])
        if all_subsets:
            found[categorical] = True
            for pair in np.flatnonzero(categorical).tolist():
                masks[pair] = self._draw_subset(histograms, begin + pair)
        return found, masks

    def _draw_subset(self, histograms: NodeHistograms, pair: int) -> npt.NDArray[np.uint8]:
        """Draw a balanced split of the categories of one feature at one node, out of all splits.

        More categories than ``MAX_CATEGORIES`` are first put into so many random groups: all splits are listed.
        """
        node, feature = int(self.candidates.nodes[pair]), int(self.candidates.features[pair])
        allowed = np.unpackbits(self.regions.allowed[node, self.regions.categorical_index[feature]], bitorder="little")
        codes = np.flatnonzero(allowed)
        groups: npt.NDArray[np.int64] = np.arange(len(codes), dtype=np.int64)
        if len(codes) > MAX_CATEGORIES:
            groups = permutation(self.group_streams[pair], len(codes)) % MAX_CATEGORIES
        sums = np.zeros(int(np.max(groups)) + 1, dtype=np.int64)
        np.add.at(sums, groups, histograms.counts(node, feature)[codes])
        right = np.array(subset_median(self.medians, pair, sums.tolist()))
        bits = np.zeros(N_CODES, dtype=np.uint8)
        bits[codes] = right[groups]
        return np.packbits(bits, bitorder="little")
