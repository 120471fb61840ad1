"""Ways of choosing a split: each states its costs and their range, and leaves the draw to a mechanism.

A split is a feature and a 32-byte mask: bit ``code`` says whether rows with that code go right. What can occur at a
node, its *region*, follows from the splits above it, which are released: regions, and with them the candidates of a
node, are public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diprime.budget import Charge, Epsilon
from diprime.domain import MISSING, OTHER, Domain
from diprime.histograms import N_CODES, Bins, TargetLayout
from diprime.kernels import scoring
from diprime.mechanisms import ABSENT_COST, Rule, select, subset_median, weight_table
from diprime.parallel import Threads
from diprime.randomness import RandomSource, permutation

Masks = npt.NDArray[np.uint8]
Features = npt.NDArray[np.int32]

MOST_UNITS = 1 << 10
LONGEST_RANGE = 1 << 12
MEDIAN_RANGE = 2
NEVER_ENOUGH = 1 << 32
BEYOND_LUCK = 5
ALL_SUBSETS_UP_TO = 8
N_RANDOM_SUBSETS = 254
MOST_GROUPS = 32
BATCH_BYTES = 1 << 20


@dataclass
class Regions:
    """What can still occur at each node of a level: a range of cells, missing values, a set of categories.

    Attributes
    ----------
    low, high : arrays of shape (n_nodes, n_features)
        The first and last cell of a numeric feature; empty where low > high.
    missing : array of shape (n_nodes, n_features)
        Whether a numeric feature can be missing.
    allowed : array of shape (n_nodes, n_categorical, 32)
        The codes of a categorical feature, as a mask.
    """

    low: npt.NDArray[np.uint8]
    high: npt.NDArray[np.uint8]
    missing: npt.NDArray[np.uint8]
    allowed: npt.NDArray[np.uint8]
    categorical_index: npt.NDArray[np.int64]  # place of a feature in ``allowed``, -1 if it is numeric

    @classmethod
    def roots(cls, domain: Domain, n_trees: int) -> Regions:
        """Return the regions of the roots: everything."""
        is_categorical, n_codes = domain.is_categorical, domain.n_codes
        index = np.where(is_categorical, np.cumsum(is_categorical) - 1, -1).astype(np.int64)
        bits = np.zeros((int(is_categorical.sum()), N_CODES), dtype=np.uint8)
        for place, n in enumerate(n_codes[is_categorical]):
            bits[place, [*range(n), OTHER, MISSING]] = 1
        shape = (n_trees, 1)
        return cls(
            np.zeros((n_trees, len(n_codes)), dtype=np.uint8),
            np.tile((n_codes - 1).astype(np.uint8), shape),
            np.ones((n_trees, len(n_codes)), dtype=np.uint8),
            np.tile(np.packbits(bits, axis=1, bitorder="little"), (n_trees, 1, 1)),
            index,
        )

    def __len__(self) -> int:
        return len(self.low)

    def splittable(self) -> npt.NDArray[np.bool_]:
        """Return which features have at least two values left at each node."""
        numeric = (self.high > self.low) | ((self.missing > 0) & (self.high >= self.low))
        if self.allowed.shape[1]:
            counts = np.unpackbits(self.allowed, axis=2).sum(axis=2)
            is_categorical = self.categorical_index >= 0
            numeric[:, is_categorical] = counts >= 2
        return np.asarray(numeric)

    def children(self, features: Features, masks: Masks) -> Regions:
        """Return the regions of the next level."""
        nodes = np.arange(len(self))
        left, right = 2 * nodes, 2 * nodes + 1
        low, high, missing, allowed = (
            np.repeat(a, 2, axis=0) for a in (self.low, self.high, self.missing, self.allowed)
        )
        place = self.categorical_index[features]
        numeric, categorical = np.flatnonzero(place < 0), np.flatnonzero(place >= 0)
        threshold, missing_right = read_threshold_mask(masks[numeric])
        at = features[numeric]
        high[left[numeric], at] = np.minimum(high[left[numeric], at], threshold)
        low[right[numeric], at] = np.maximum(low[right[numeric], at], threshold + 1)
        missing[left[numeric], at] &= 1 - missing_right
        missing[right[numeric], at] &= missing_right
        allowed[left[categorical], place[categorical]] &= ~masks[categorical]
        allowed[right[categorical], place[categorical]] &= masks[categorical]
        return Regions(low, high, missing, allowed, self.categorical_index)


def threshold_mask(threshold: npt.NDArray[np.int64], missing_right: npt.NDArray[np.bool_]) -> Masks:
    """Return the masks of numeric splits: codes above the threshold go right, missing values as told."""
    bits = (np.arange(N_CODES) > threshold[:, None]).astype(np.uint8)
    bits[:, MISSING] = missing_right
    return np.packbits(bits, axis=1, bitorder="little")


def read_threshold_mask(masks: Masks) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the thresholds of numeric splits, and whether missing values go right: what made their masks.

    A mask has the bits of the codes above its threshold, and only those: their number tells it.
    """
    bits = np.unpackbits(masks, axis=1, bitorder="little")
    return MISSING - 1 - bits[:, :MISSING].sum(axis=1, dtype=np.int64), np.ascontiguousarray(bits[:, MISSING])


@dataclass(frozen=True)
class Families:
    """The public candidate splits of the categorical features, drawn without looking at data.

    A feature with up to eight levels has all its splits; one with more has each level against the rest, and a fixed
    number of random ones.
    """

    masks: Masks
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]

    @classmethod
    def draw(cls, domain: Domain, source: RandomSource) -> Families:
        """Draw the families of a fit."""
        masks, sizes = [np.zeros((0, N_CODES), dtype=np.uint8)], np.zeros(domain.n_features, dtype=np.int64)
        for feature in np.flatnonzero(domain.is_categorical):
            codes = np.array([*range(domain.n_codes[feature]), OTHER, MISSING])
            if len(codes) <= ALL_SUBSETS_UP_TO + 2:
                # The first level stays left: a split and its mirror image are the same.
                numbers = np.arange(1, 1 << (len(codes) - 1), dtype=np.int64)[:, None]
                sides = (numbers << 1 >> np.arange(len(codes))) & 1
            else:
                random = source.integers(2, N_RANDOM_SUBSETS * len(codes)).reshape(N_RANDOM_SUBSETS, len(codes))
                sides = np.concatenate([np.eye(len(codes), dtype=np.int64), random.astype(np.int64)])
            bits = np.zeros((len(sides), N_CODES), dtype=np.uint8)
            bits[:, codes] = sides
            masks.append(bits)
            sizes[feature] = len(bits)
        starts = np.cumsum(sizes) - sizes
        return cls(np.packbits(np.concatenate(masks), axis=1, bitorder="little"), starts, sizes)


@dataclass(frozen=True)
class Cost:
    """What a candidate costs: ``balance·max(0, enough - min(n_L, n_R)) + floor(units·impurity)``.

    Terms common to all candidates are left out. The impurity of a child of n rows with class shares p is ½·n·Σ f(p),
    where f(p) = p - p² if ``ends`` is 0, which makes it the sum of squared errors. In general f has slope 1 up to
    p = ends and -1 from p = 1 - ends on, and is a parabola between: more curved where a decision is open, for the same
    price, and blind where it is not.

    Attributes
    ----------
    units : int
        Steps of the impurity that a record can change by one.
    balance : int
        What one row costs that the smaller side lacks, in units.
    enough : int
        The number of rows from which on a side lacks nothing.
    ends : Fraction
        The share at either end where impurity is a straight line: a multiple of 1/64 below one half.
    """

    units: int
    balance: int
    enough: int = NEVER_ENOUGH
    ends: Fraction = Fraction(0)

    @property
    def range(self) -> int:
        """The length of the interval that holds every cost's change when one record is added.

        The impurity only grows, by at most 1 (docs/privacy.md, section 3). The floor adds less than one at either end,
        and a float error below a quarter unit (kernels/scoring.py) does not reach the next integer: units + 2. What the
        smaller side lacks only falls, by at most one: balance.
        """
        return (self.units + 2 if self.units else 0) + self.balance

    @classmethod
    def joint(cls, epsilon: Epsilon, balance: Fraction, ends: Fraction) -> Cost:
        """Return the cost of one selection over all features, in the finest units that a table can tell apart.

        The weights of a table stop falling near range/epsilon, so the units are coarser where epsilon is small. A side
        has enough rows when lacking so many would outweigh any luck of the draw: e^-BEYOND_LUCK. More balance would
        only compete with the impurity. All depends on public numbers only.
        """
        units = MOST_UNITS
        while units > 32 and units > LONGEST_RANGE * epsilon:
            units //= 2
        cost = cls(units, round(balance * units), 0, ends)
        if cost.balance == 0 or epsilon == math.inf:
            return cost
        enough = math.ceil(BEYOND_LUCK * cost.range / (cost.balance * epsilon))
        return replace(cost, enough=min(enough, NEVER_ENOUGH))

    def rule(self, layout: TargetLayout) -> Any:
        """Return the rule, a ``CostRule``, by which the kernels compute this cost."""
        return scoring.CostRule(
            scale=self.units * layout.column_weight / layout.units,
            whole=float(layout.units),
            linear_tail=float(self.ends),
            balance=self.balance,
            enough=self.enough,
        )


# |n_L - n_R|, up to the rows of the node: the least cost is at the median.
MEDIAN_COST = Cost(units=0, balance=2)


class Level(Protocol):
    """The selections of one level, ready for the histograms."""

    def choose(self, bins: Bins, begin: int, end: int, threads: Threads) -> None:
        """Choose the splits of the nodes from ``begin`` to ``end``, whose histograms ``bins`` holds."""

    features: Features
    masks: Masks


class Splitter(Protocol):
    """A way of choosing splits."""

    looks_at_data: bool

    def charges(self, level: int, epsilon: Epsilon, composition: str, times: int) -> list[Charge]:
        """Return what one level costs."""

    def level(self, regions: Regions, epsilon: Epsilon, source: RandomSource) -> Level:
        """Prepare a level: make the choices that do not look at data, and take the streams for those that do."""


def draw_features(regions: Regions, k: int, source: RandomSource) -> npt.NDArray[np.int64]:
    """Draw k of the features that can be split at each node; -1 where there are fewer."""
    splittable = regions.splittable()
    n_nodes, n_features = splittable.shape
    if k == n_features:
        return np.where(splittable, np.arange(n_features), -1)
    keys = source.integers(1 << 62, n_nodes * n_features).reshape(n_nodes, n_features)
    keys[~splittable] = np.uint64(1 << 63)
    chosen = np.argpartition(keys, k - 1, axis=1)[:, :k]
    chosen.sort(axis=1)
    return np.where(np.take_along_axis(splittable, chosen, axis=1), chosen, -1)


class _Candidates:
    """The candidate splits of features at nodes, a row of slots for each pair of the two.

    Slots of a numeric feature: threshold t with the missing values left, and in the second half with the missing values
    right (see kernels/scoring.py). Slots of a categorical feature: its family.
    """

    def __init__(
        self, domain: Domain, layout: TargetLayout, families: Families, regions: Regions, chosen: npt.NDArray[np.int64]
    ) -> None:
        self.layout = layout
        self.families = families
        self.regions = regions
        self.per_node = chosen.shape[1]
        self.features = chosen.ravel()
        self.nodes = np.repeat(np.arange(len(chosen)), self.per_node)
        n_cells = domain.n_codes[~domain.is_categorical].tolist()
        self.half = max([1, *n_cells, *(-(-families.sizes // 2)).tolist()])
        self.n_slots = 2 * self.half
        self.kind = np.where(self.features < 0, -1, domain.is_categorical[self.features])

    def costs(
        self, bins: Bins, begin: int, end: int, first_node: int, cost: Cost, *, families: bool = True
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Return the costs of the pairs from ``begin`` to ``end``, and whose second half of slots mirrors the first.

        Row 0 of bins is node ``first_node``; where bins has one row only, it serves every node. Without ``families``
        categorical features have no candidates.
        """
        costs = np.empty((end - begin, self.n_slots), dtype=np.int64)
        mirrored = np.zeros(end - begin, dtype=np.uint8)
        kind = self.kind[begin:end]
        costs[kind < 0 if families else kind != 0] = ABSENT_COST
        rule, view = cost.rule(self.layout), scoring.BinsView(bins, self.layout.n_columns, self.layout.shift)
        for is_categorical in (0, 1):
            rows = np.flatnonzero(kind == is_categorical)
            if not len(rows) or (is_categorical and not families):
                continue
            nodes, features = self.nodes[begin + rows], self.features[begin + rows]
            here = np.minimum(nodes - first_node, len(bins) - 1)
            if is_categorical:
                allowed = self.regions.allowed[nodes, self.regions.categorical_index[features]]
                starts, sizes = self.families.starts[features], self.families.sizes[features]
                scoring.family_costs(
                    rule, view, here, features, starts, sizes, self.families.masks, allowed, rows, costs
                )
            else:
                low, high, missing = (
                    a[nodes, features] for a in (self.regions.low, self.regions.high, self.regions.missing)
                )
                scratch = np.empty((4, N_CODES))
                scoring.numeric_costs(rule, view, here, features, low, high, missing, rows, scratch, mirrored, costs)
        return costs, mirrored

    def masks(self, pairs: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]) -> Masks:
        """Return the masks of chosen slots."""
        features = self.features[pairs]
        masks = np.zeros((len(pairs), 32), dtype=np.uint8)
        numeric, categorical = self.kind[pairs] == 0, self.kind[pairs] == 1
        missing_right, threshold = np.divmod(slots[numeric], self.half)
        masks[numeric] = threshold_mask(threshold, missing_right > 0)
        masks[categorical] = self.families.masks[self.families.starts[features[categorical]] + slots[categorical]]
        return masks


@dataclass
class JointSplitter:
    """One selection over all features and thresholds, by impurity and by what the smaller side lacks.

    The balance term keeps the paper's insight: where a node is too small to show a signal, the split falls near the
    median instead of anywhere. In a large node it only keeps children from being tiny.
    """

    domain: Domain
    layout: TargetLayout
    families: Families
    max_features: int
    balance: Fraction
    ends: Fraction
    looks_at_data: bool = True

    def charges(self, level: int, epsilon: Epsilon, composition: str, times: int) -> list[Charge]:
        """Return what one level costs: one selection a node."""
        cost = Cost.joint(epsilon, self.balance, self.ends)
        bound = f"cost range {cost.range} in units of 1/{cost.units}"
        return [Charge(f"splits of level {level}", "exponential mechanism", bound, epsilon, times, composition)]

    def level(self, regions: Regions, epsilon: Epsilon, source: RandomSource) -> Level:
        """Prepare the selections of a level."""
        return _JointLevel(self, regions, epsilon, source)


class _JointLevel:
    def __init__(self, splitter: JointSplitter, regions: Regions, epsilon: Epsilon, source: RandomSource) -> None:
        chosen = draw_features(regions, splitter.max_features, source)
        self.candidates = _Candidates(splitter.domain, splitter.layout, splitter.families, regions, chosen)
        self.cost = Cost.joint(epsilon, splitter.balance, splitter.ends)
        self.table = weight_table(epsilon, self.cost.range, self.candidates.n_slots * self.candidates.per_node)
        self.streams = source.streams(len(regions))
        self.features: Features = np.zeros(len(regions), dtype=np.int32)
        self.masks: Masks = np.zeros((len(regions), 32), dtype=np.uint8)

    def choose(self, bins: Bins, begin: int, end: int, threads: Threads) -> None:
        per_node, n_slots = self.candidates.per_node, self.candidates.n_slots
        batch = max(1, BATCH_BYTES // (8 * per_node * n_slots))

        def work(a: int, b: int) -> None:
            for first in range(begin + a, begin + b, batch):
                last = min(first + batch, begin + b)
                costs, twice = self.candidates.costs(bins, first * per_node, last * per_node, begin, self.cost)
                costs, twice = costs.reshape(last - first, -1), twice.reshape(last - first, -1)
                picks = select("exponential", costs, self.table, self.streams[first:last], twice)
                # Where nothing is left to split, every row goes left.
                nodes = first + np.flatnonzero(picks >= 0)
                pairs, slots = np.divmod(picks[picks >= 0], n_slots)
                pairs += nodes * per_node
                self.features[nodes] = self.candidates.features[pairs]
                self.masks[nodes] = self.candidates.masks(pairs, slots)

        threads.run(work, end - begin)


@dataclass
class MedianSplitter:
    """The paper's splits: private medians of K features, then a private choice among them by split quality.

    With ``looks_at_data=False`` the medians are those of an empty histogram: random splits (DP-ERT).

    In strict accounting each median pays for itself, because one record is in all K of them. In the paper's, K medians
    are charged as one, and the range of the split quality is that of the published sensitivity 4B²/N with B = 1.
    """

    domain: Domain
    layout: TargetLayout
    families: Families
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
        return Cost(units=MOST_UNITS, balance=0)

    @property
    def quality_range(self) -> int:
        """The range of the split quality."""
        return self.quality.range if self.strict else 8 * MOST_UNITS

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
            f"cost range {self.quality_range} in units of 1/{MOST_UNITS}",
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
            layout = self.splitter.layout
            rule, view = self.splitter.quality.rule(layout), scoring.BinsView(bins, layout.n_columns, layout.shift)
            here = np.minimum(self.candidates.nodes[pairs] - first_node, len(bins) - 1)
            scoring.mask_costs(rule, view, here, self.candidates.features[pairs], masks[found], quality)
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
        if len(codes) > MOST_GROUPS:
            groups = permutation(self.group_streams[pair], len(codes)) % MOST_GROUPS
        sums = np.zeros(int(np.max(groups)) + 1, dtype=np.int64)
        np.add.at(sums, groups, counts)
        right = np.array(subset_median(sums.tolist(), self.median_table, stream))
        bits = np.zeros(N_CODES, dtype=np.uint8)
        bits[codes] = right[groups]
        return np.packbits(bits, bitorder="little")
