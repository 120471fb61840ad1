"""The paper's splits: private medians, then a private choice among them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain.codes import N_CODES
from diprime.domain.domain import Domain
from diprime.domain.target_layout import Bins, TargetLayout
from diprime.kernels import scoring
from diprime.model.masks import Features, Masks
from diprime.model.regions import Regions
from diprime.privacy.ledger import Charge
from diprime.privacy.measures import Epsilon
from diprime.privacy.mechanisms.selection import ABSENT_COST, Rule, select
from diprime.privacy.mechanisms.subsets import subset_median
from diprime.privacy.mechanisms.weights import weight_table
from diprime.privacy.randomness import RandomSource, permutation
from diprime.training.splitting.candidates import BATCH_BYTES, CategoricalCandidates, _Candidates, draw_features
from diprime.training.splitting.cost import MAX_UNITS, MEDIAN_COST, MEDIAN_RANGE, Cost
from diprime.training.splitting.protocol import Level

MAX_GROUPS = 32


@dataclass
class MedianSplitter:
    """The paper's splits: private medians of K features, then a private choice among them by split quality.

    With ``looks_at_data=False`` the medians are those of an empty histogram: random splits (DP-ERT).

    In strict accounting each median pays for itself, because one record is in all K of them. In the paper's, K medians
    are charged as one, and the range of the split quality is that of the published sensitivity 4B²/N with B = 1.
    """

    domain: Domain
    layout: TargetLayout
    families: CategoricalCandidates
    max_features: int
    rule: Rule
    strict: bool = True
    looks_at_data: bool = True

    def shares(self, epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
        """Return what each median gets, and what the choice among them gets."""
        if self.max_features == 1:
            return epsilon, Fraction(0)
        half = epsilon / 2
        return (half / self.max_features if self.strict else half), half

    @property
    def quality(self) -> Cost:
        """The cost of a candidate among K: its SSE."""
        return Cost(units=MAX_UNITS, balance=0)

    @property
    def quality_range(self) -> int:
        """The range of the split quality."""
        return self.quality.range if self.strict else 8 * MAX_UNITS

    def charges(self, level: int, epsilon: Epsilon, composition: str, times: int) -> list[Charge]:
        """Return what one level costs: K medians and one choice a node."""
        if not self.looks_at_data:
            return []
        of_median, of_choice = self.shares(epsilon)
        mechanism = "exponential mechanism" if self.rule == "exponential" else "permute-and-flip"
        k = self.max_features
        medians = Charge(
            f"medians of level {level}",
            mechanism,
            f"cost range {MEDIAN_RANGE}",
            of_median,
            times * (k if self.strict else 1),
            composition + (f", {k} features a node" if k > 1 else ""),
            strict_epsilon=None if self.strict else k * of_median,
        )
        if k == 1:
            return [medians]
        choices = Charge(
            f"choices of level {level}",
            mechanism,
            f"cost range {self.quality_range} in units of 1/{MAX_UNITS}",
            of_choice,
            times,
            composition,
            strict_epsilon=None if self.strict else of_choice * Fraction(self.quality.range, self.quality_range),
        )
        return [medians, choices]

    def level(self, regions: Regions, epsilon: Epsilon, source: RandomSource) -> Level:
        """Prepare the selections of a level."""
        return _MedianLevel(self, regions, epsilon, source)


class _MedianLevel:
    def __init__(self, splitter: MedianSplitter, regions: Regions, epsilon: Epsilon, source: RandomSource) -> None:
        self.splitter = splitter
        self.regions = regions
        k = splitter.max_features
        chosen = draw_features(regions, k, source)
        self.candidates = _Candidates(splitter.domain, splitter.layout, splitter.families, regions, chosen)
        of_median, of_choice = splitter.shares(epsilon)
        self.median_table = weight_table(of_median, MEDIAN_RANGE, max(self.candidates.n_slots, 2))
        self.choice_table = weight_table(of_choice, splitter.quality_range, k) if k > 1 else None
        self.median_streams = source.streams(len(regions) * k)
        self.choice_streams = source.streams(len(regions))
        self.group_streams = source.streams(len(regions) * k if regions.allowed.shape[1] else 0)
        self.features: Features = np.zeros(len(regions), dtype=np.int32)
        self.masks: Masks = np.zeros((len(regions), 32), dtype=np.uint8)

    def choose(self, bins: Bins, begin: int, end: int, threads: Threads) -> None:
        k = self.candidates.per_node
        batch = max(1, BATCH_BYTES // (8 * k * self.candidates.n_slots))

        def work(a: int, b: int) -> None:
            for first in range(begin + a, begin + b, batch):
                self._choose(bins, first, min(first + batch, begin + b), begin)

        threads.run(work, end - begin)

    def _choose(self, bins: Bins, first: int, last: int, first_node: int) -> None:
        k = self.candidates.per_node
        found, masks = self._medians(bins, first * k, last * k, first_node)
        if self.choice_table is None:
            picks = np.where(found, 0, -1)
        else:
            costs = np.full(len(found), ABSENT_COST, dtype=np.int64)
            pairs = first * k + np.flatnonzero(found)
            quality = np.empty(len(pairs), dtype=np.int64)
            arguments = self.splitter.quality.kernel_arguments(self.splitter.layout)
            here = np.minimum(self.candidates.nodes[pairs] - first_node, len(bins) - 1)
            scoring.mask_costs(bins, here, self.candidates.features[pairs], masks[found], *arguments, quality)
            costs[found] = quality
            picks = select(self.splitter.rule, costs.reshape(-1, k), self.choice_table, self.choice_streams[first:last])
        nodes = np.flatnonzero(picks >= 0)
        pairs = nodes * k + picks[nodes]
        self.features[first + nodes] = self.candidates.features[first * k + pairs]
        self.masks[first + nodes] = masks[pairs]

    def _medians(self, bins: Bins, begin: int, end: int, first_node: int) -> tuple[npt.NDArray[np.bool_], Masks]:
        """Draw a median split for each pair of node and feature; return which pairs have one, and the masks."""
        exact_subsets = self.splitter.rule == "exponential"
        costs, twice = self.candidates.costs(bins, begin, end, first_node, MEDIAN_COST, families=not exact_subsets)
        streams = self.median_streams[begin:end]
        picks = select(self.splitter.rule, costs, self.median_table, streams, twice[:, None])
        found = picks >= 0
        masks = np.zeros((end - begin, 32), dtype=np.uint8)
        masks[found] = self.candidates.masks(begin + np.flatnonzero(found), picks[found])
        if exact_subsets:
            for pair in np.flatnonzero(self.candidates.kind[begin:end] == 1).tolist():
                masks[pair] = self._subset_median(bins, begin + pair, first_node, streams[pair])
                found[pair] = True
        return found, masks

    def _subset_median(
        self, bins: Bins, pair: int, first_node: int, stream: npt.NDArray[np.uint32]
    ) -> npt.NDArray[np.uint8]:
        """Draw a balanced split of the categories of one feature at one node, out of all there are.

        More than 32 categories are first dealt into 32 groups, blind to the data: the knapsack recursion grows with
        the square of their number.
        """
        node, feature = self.candidates.nodes[pair], self.candidates.features[pair]
        layout = self.splitter.layout
        allowed = np.unpackbits(self.regions.allowed[node, self.regions.categorical_index[feature]], bitorder="little")
        codes = np.flatnonzero(allowed)
        row = bins[min(node - first_node, len(bins) - 1)].reshape(-1, N_CODES, layout.n_columns)[feature]
        counts = (row[codes] >> np.uint64(layout.shift)).sum(axis=1).astype(np.int64)
        groups: npt.NDArray[np.int64] = np.arange(len(codes), dtype=np.int64)
        if len(codes) > MAX_GROUPS:
            groups = permutation(self.group_streams[pair], len(codes)) % MAX_GROUPS
        sums = np.zeros(int(np.max(groups)) + 1, dtype=np.int64)
        np.add.at(sums, groups, counts)
        right = np.array(subset_median(sums.tolist(), self.median_table, stream))
        bits = np.zeros(N_CODES, dtype=np.uint8)
        bits[codes] = right[groups]
        return np.packbits(bits, bitorder="little")
