"""Splitters: private selection of one split for each node of a tree level, by each of the methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.domain import Domain
from diprime.domain.records import person_weight
from diprime.forest import defaults
from diprime.forest.candidates import (
    MAX_UNITS,
    MEDIAN_COST,
    MEDIAN_RANGE,
    MIN_UNITS,
    Candidates,
    CategoricalCandidates,
    Cost,
    Level,
    Splitter,
    draw_features,
)
from diprime.forest.engine import NodeHistograms
from diprime.forest.plan import ForestSettings
from diprime.forest.sums import AccountingPolicy
from diprime.kernels import split_costs
from diprime.kernels.constants import ABSENT_COST, MASK_BYTES, N_CODES
from diprime.model.trees import Masks, Regions
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, Receipt, ReleaseKind
from diprime.privacy.measures import Epsilon, PureEpsilon
from diprime.privacy.mechanisms.selection import MAX_CATEGORIES, Rule, Selection, subset_median
from diprime.privacy.randomness import RandomSource, permutation


@dataclass
class JointSplitter:
    """Single selection over all features and thresholds, by impurity and by the shortfall of the smaller child.

    The balance term follows the paper: at a node too small to show a signal, the split is near a median rather than
    arbitrary. At a large node, the term only prevents tiny children.

    If their costs are equal, features have equal weights, whatever the number of their thresholds or subsets of
    categories at the node. A feature with more bins has more candidates, but no larger weight.

    ``person_weight``: total weight of one person's records: this many equal records may be added at once.
    """

    domain: Domain
    categories: CategoricalCandidates
    max_features: int  # number of features tried at each node
    balance: Fraction  # penalty for each row that the smaller child falls short, as a multiple of one squared error
    linear_tail: Fraction  # see :class:`~diprime.forest.candidates.Cost`
    person_weight: int = 1
    looks_at_data: bool = True

    def cost(self, epsilon: Epsilon) -> Cost:
        """Return the cost of a candidate, in units chosen for epsilon."""
        return Cost.joint(epsilon, self.balance, self.linear_tail, self.person_weight)

    def charges(self, level: int, epsilon: Epsilon, times: int, composition: str) -> tuple[Charge, ...]:
        """Return the charge of one level: one selection at each node."""
        cost = self.cost(epsilon)
        bound = Bound(BoundKind.COST_RANGE_IN_UNITS, cost.person_range, cost.units)
        measure = PureEpsilon(epsilon)
        return (Charge(ReleaseKind.SPLITS, Mechanism.EXPONENTIAL, bound, measure, times, composition, level),)

    def level(self, regions: Regions, receipts: Sequence[Receipt], source: RandomSource) -> Level:
        """Prepare the selections of a level."""
        return _JointLevel(self, regions, receipts, source)


def offsets_of_equal_features(cost_range: int, epsilon: Epsilon, n_slots: int) -> npt.NDArray[np.int64]:
    """Return, for each number n of candidates of a feature, the added cost that divides their weights by n.

    Weights fall by a factor of e per ``cost_range / epsilon`` units of cost. The numbers of candidates are public, so
    the offsets are a public base measure of the selection, which costs no privacy (selection.md).
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
        self.offsets = offsets_of_equal_features(
            self.cost.person_range, receipt.charge.epsilon, self.candidates.n_slots
        )

    def _choose(self, histograms: NodeHistograms, first: int, last: int) -> None:
        per_node, n_slots = self.candidates.per_node, self.candidates.n_slots
        costs, mirrored = self.candidates.costs(histograms, first * per_node, last * per_node, self.cost)
        split_costs.add_offsets(self.offsets, mirrored, costs)
        costs, mirrored = costs.reshape(last - first, -1), mirrored.reshape(last - first, -1)
        picks = self.selection.pick(np.arange(first, last), costs, mirrored)
        nodes = first + np.flatnonzero(picks >= 0)
        pairs, slots = np.divmod(picks[picks >= 0], n_slots)
        pairs += nodes * per_node
        self._set(nodes, pairs, self.candidates.masks(pairs, slots))


def quality(person_weight: int) -> Cost:
    """Return the cost of a median in the choice among K: the sum of squared errors.

    The units are coarser for larger weights per person, so that the table of weights covers the same range.
    """
    units = max(MIN_UNITS, MAX_UNITS >> (person_weight - 1).bit_length())
    return Cost(units, balance=0, person_weight=person_weight)


@dataclass
class MedianSplitter:
    """Splits of the paper: private medians of K features, then a private choice among them by split quality.

    In strict accounting, every median is charged, because each record contributes to all K medians.

    With ``looks_at_data=False``, splits are drawn uniformly and cost no privacy: the random splits of DP-ERT.

    ``categories``: candidate splits of categorical features, for permute-and-flip. The exponential mechanism chooses
    among all subsets. ``person_weight``: total weight of one person's records: this many equal records may be added
    at once.
    """

    domain: Domain
    categories: CategoricalCandidates
    max_features: int  # K, the number of features tried at each node
    rule: Rule  # mechanism of medians and choices
    policy: AccountingPolicy  # number of charged medians, and range of the split quality
    looks_at_data: bool = True
    person_weight: int = 1

    @property
    def quality(self) -> Cost:
        """Cost of a median in the choice among K."""
        return quality(self.person_weight)

    @property
    def median_range(self) -> int:
        """Cost range of a median."""
        return MEDIAN_RANGE * self.person_weight

    @property
    def draws_from_all_subsets(self) -> bool:
        """Whether medians of categories are drawn from all splits, rather than from a list of candidates."""
        return self.rule is Mechanism.EXPONENTIAL

    @property
    def n_charged(self) -> int:
        """Number of charged medians per node."""
        return self.policy.n_charged_medians(self.max_features)

    @property
    def quality_range(self) -> int:
        """Range of the split quality for calibrating choices."""
        return self.policy.quality_range(self.quality.range, self.quality.units) * self.person_weight

    def charges(self, level: int, epsilon: Epsilon, times: int, composition: str) -> tuple[Charge, ...]:
        """Return the charges of one level: K medians and one choice at each node."""
        if not self.looks_at_data:
            return ()
        k = self.max_features
        for_medians, for_choice = (epsilon, Fraction(0)) if k == 1 else (epsilon / 2, epsilon / 2)
        medians = Charge(
            ReleaseKind.MEDIANS,
            self.rule,
            Bound(BoundKind.COST_RANGE, self.median_range),
            PureEpsilon(for_medians / self.n_charged),
            times * self.n_charged,
            composition + (f", {k} features a node" if k > 1 else ""),
            level,
            self.policy.true_cost(for_medians / self.n_charged * k),
        )
        if k == 1:
            return (medians,)
        choices = Charge(
            ReleaseKind.CHOICES,
            self.rule,
            Bound(BoundKind.COST_RANGE_IN_UNITS, self.quality_range, self.quality.units),
            PureEpsilon(for_choice),
            times,
            composition,
            level,
            self.policy.true_cost(for_choice * Fraction(self.quality.person_range, self.quality_range)),
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
        """Return the costs of the medians of some (node, feature) pairs in the choice."""
        rows, features = histograms.rows(self.candidates.nodes[pairs]), self.candidates.features[pairs]
        costs = np.empty(len(pairs), dtype=np.int64)
        rule = self.splitter.quality.rule(histograms.layout)
        split_costs.mask_costs(rule, histograms.view, rows, features, masks, histograms.scratch, costs)
        return costs

    def _draw_medians(self, histograms: NodeHistograms, begin: int, end: int) -> tuple[npt.NDArray[np.bool_], Masks]:
        """Draw a median for each (node, feature) pair. Return which pairs have one, and the masks."""
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
        """Draw a balanced split of the categories of one feature at one node, from all splits.

        All splits are listed, so if there are more than ``MAX_CATEGORIES`` categories, they are first merged into this
        number of random groups.
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


def make_splitter(domain: Domain, settings: ForestSettings, linear_tail: Fraction, source: RandomSource) -> Splitter:
    """Return the splitter for the settings. Only ``"joint"`` uses ``linear_tail``."""
    categories = CategoricalCandidates.draw(domain, source)
    weight = person_weight(settings.max_records_per_group)
    if settings.method == "joint":
        balance = settings.balance
        if balance is None:
            classification = domain.task == "classification"
            balance = defaults.balance(classification=classification, epsilon=settings.epsilon)
        return JointSplitter(domain, categories, settings.max_features, balance, linear_tail, weight)
    return MedianSplitter(
        domain,
        categories,
        settings.max_features,
        Mechanism.PERMUTE_AND_FLIP if settings.method == "diprime-flip" else Mechanism.EXPONENTIAL,
        settings.policy,
        looks_at_data=settings.method != "random",
        person_weight=weight,
    )
