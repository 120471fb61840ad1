"""Candidate splits of the nodes of a tree level, and their costs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads
from diprime.domain import Domain
from diprime.domain.encoding import TargetLayout
from diprime.forest.engine import NodeHistograms
from diprime.kernels import split_costs
from diprime.kernels.constants import ABSENT_COST, MASK_BYTES, MISSING, N_CODES, OTHER
from diprime.model.trees import Features, Masks, Regions, threshold_mask
from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.measures import Epsilon
from diprime.privacy.randomness import RandomSource

MAX_UNITS = 1 << 10
MIN_UNITS = 1 << 5
MAX_UNITS_PER_EPSILON = 1 << 12
MAX_STEPS_PER_EPSILON = 1 << 15  # a 32nd of the table of weights, so that weights fall by e^-32 within the table
MEDIAN_RANGE = 2
UNBOUNDED_SHORTFALL = 1 << 41
SHORTFALL_LOG_ODDS = 5


@dataclass(frozen=True)
class Cost:
    """Cost of a candidate: ``balance·max(0, min_rows - min(n_L, n_R)) + floor(units·impurity)``.

    Terms common to all candidates are omitted. The impurity of a child with n rows and class shares p is ½·n·Σ f(p).
    With ``linear_tail = 0``, f(p) = p - p² and the impurity is the sum of squared errors. In general, f has slope 1 up
    to p = linear_tail, slope -1 from p = 1 - linear_tail on, and is a parabola in between. A longer tail means more
    curvature near ½ at the same sensitivity.

    ``linear_tail``: length of the intervals at 0 and at 1 in which f is linear: a multiple of 1/64 below one half.
    """

    units: int  # resolution: number of units in an impurity of one
    balance: int  # penalty, in units, for each row that the smaller child falls short of ``min_rows``
    min_rows: int = UNBOUNDED_SHORTFALL  # number of rows that a child should have
    linear_tail: Fraction = Fraction(0)
    person_weight: int = 1  # number of equal records that one person counts as; rows are counted by weight

    @property
    def range(self) -> int:
        """Length of an interval that contains the changes of all costs when one record is added.

        The impurity grows by at most 1 and never falls (docs/privacy.md, section 3). The floor adds less than one unit
        at either end, and the float error is below a quarter unit (kernels/split_costs.py): together ``units + 2``. The
        shortfall of the smaller child falls by at most one row and never grows: ``balance``.
        """
        return (self.units + 2 if self.units else 0) + self.balance

    @property
    def person_range(self) -> int:
        """The same length for one person, who counts as ``person_weight`` records. Selections are calibrated to it.

        If a node contains w of these records, its costs change by amounts in an interval of length w·range, which costs
        a fraction w/person_weight of epsilon. The nodes of a level contain disjoint records, so these fractions add up
        to at most one.
        """
        return self.range * self.person_weight

    @classmethod
    def joint(cls, epsilon: Epsilon, balance: Fraction, linear_tail: Fraction, person_weight: int = 1) -> Cost:
        """Return the cost for a selection over all features, in the finest units that its table of weights resolves.

        The table has a limited number of weights, which take about range/epsilon entries to fall by a factor of e. The
        units are therefore coarser for a smaller epsilon or a larger weight per person. ``min_rows`` is the number of
        rows at which a split with an empty child is selected with odds of at most e^-SHORTFALL_LOG_ODDS. A larger
        penalty would only compete with the impurity. All of this depends only on public numbers.
        """
        units = MAX_UNITS
        most = min(Fraction(MAX_UNITS_PER_EPSILON), Fraction(MAX_STEPS_PER_EPSILON, person_weight)) * epsilon
        while units > MIN_UNITS and units > most:
            units //= 2
        cost = cls(units, round(balance * units), 0, linear_tail, person_weight)
        if cost.balance == 0 or epsilon == math.inf:
            return cost
        min_rows = math.ceil(SHORTFALL_LOG_ODDS * cost.person_range / (cost.balance * epsilon))
        return replace(cost, min_rows=min(min_rows, UNBOUNDED_SHORTFALL))

    def rule(self, layout: TargetLayout) -> Any:
        """Return this cost as a ``CostRule`` of the kernels."""
        return split_costs.CostRule(
            scale=self.units * layout.column_weight / layout.units,
            units_per_record=float(layout.units),
            linear_tail=float(self.linear_tail),
            balance=self.balance,
            min_rows=self.min_rows,
        )


# |n_L - n_R|, up to a term common to all candidates, which is smallest at the median.
MEDIAN_COST = Cost(units=0, balance=2)


MAX_LEVELS_OF_ALL_SPLITS = 8
N_RANDOM_SPLITS = 254


@dataclass(frozen=True)
class CategoricalCandidates:
    """Candidate splits of categorical features, drawn independently of the data.

    For a feature with up to eight categories, all splits are candidates. Otherwise, the candidates are each category
    against the rest, and a fixed number of random splits.
    """

    masks: Masks  # shape (n_splits, 32): splits of all features, feature after feature
    starts: npt.NDArray[np.int64]  # shape (n_features,): index of a feature's first split
    sizes: npt.NDArray[np.int64]  # shape (n_features,): number of its splits

    @classmethod
    def draw(cls, domain: Domain, source: RandomSource) -> CategoricalCandidates:
        """Draw the candidates of one fit."""
        masks, sizes = [np.zeros((0, N_CODES), dtype=np.uint8)], np.zeros(domain.n_features, dtype=np.int64)
        for feature in np.flatnonzero(domain.is_categorical):
            codes = np.array([*range(domain.n_codes[feature]), OTHER, MISSING])
            if len(codes) <= MAX_LEVELS_OF_ALL_SPLITS + 2:
                # The first category always goes left, because a split is the same as its mirror image.
                numbers = np.arange(1, 1 << (len(codes) - 1), dtype=np.int64)[:, None]
                sides = (numbers << 1 >> np.arange(len(codes))) & 1
            else:
                random = source.integers(2, N_RANDOM_SPLITS * len(codes)).reshape(N_RANDOM_SPLITS, len(codes))
                sides = np.concatenate([np.eye(len(codes), dtype=np.int64), random.astype(np.int64)])
            bits = np.zeros((len(sides), N_CODES), dtype=np.uint8)
            bits[:, codes] = sides
            masks.append(bits)
            sizes[feature] = len(bits)
        starts = np.cumsum(sizes) - sizes
        return cls(np.packbits(np.concatenate(masks), axis=1, bitorder="little"), starts, sizes)


def draw_features(regions: Regions, k: int, source: RandomSource) -> npt.NDArray[np.int64]:
    """Draw k of the features that can be split at each node, padded with -1 if there are fewer."""
    splittable = regions.splittable()
    n_nodes, n_features = splittable.shape
    if k == n_features:
        return np.where(splittable, np.arange(n_features), -1)
    keys = source.integers(1 << 62, n_nodes * n_features).reshape(n_nodes, n_features)
    keys[~splittable] = np.uint64(1 << 63)
    chosen = np.argpartition(keys, k - 1, axis=1)[:, :k]
    chosen.sort(axis=1)
    return np.where(np.take_along_axis(splittable, chosen, axis=1), chosen, -1)


class Candidates:
    """Candidate splits of pairs of a node and a feature. Each pair has a row of slots.

    For a numeric feature, slot t of the first half is threshold t with missing values on the left, and slot t of the
    second half is the same threshold with missing values on the right (see kernels/split_costs.py). For a categorical
    feature, the slots are its candidate splits.

    Shapes: nodes (n_pairs,), features (n_pairs,), kind (n_pairs,).
    """

    def __init__(
        self, domain: Domain, categories: CategoricalCandidates, regions: Regions, chosen: npt.NDArray[np.int64]
    ) -> None:
        self.categories = categories
        self.regions = regions
        self.per_node = chosen.shape[1]
        self.features = chosen.ravel()
        self.nodes = np.repeat(np.arange(len(chosen)), self.per_node)
        n_cells = domain.n_codes[~domain.is_categorical].tolist()
        self.half = max([1, *n_cells, *(-(-categories.sizes // 2)).tolist()])
        self.n_slots = 2 * self.half
        self.kind = np.where(self.features < 0, -1, domain.is_categorical[self.features])

    def costs(
        self, histograms: NodeHistograms, begin: int, end: int, cost: Cost, *, categories: bool = True
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Return the costs of the candidates of some pairs.

        Shapes: costs (end - begin, n_slots), mirrored (end - begin,).
        """
        costs = np.empty((end - begin, self.n_slots), dtype=np.int64)
        mirrored = np.zeros(end - begin, dtype=np.uint8)
        kind = self.kind[begin:end]
        costs[kind < 0 if categories else kind != 0] = ABSENT_COST
        rule, view, scratch = cost.rule(histograms.layout), histograms.view, histograms.scratch
        numeric = np.flatnonzero(kind == 0)
        if len(numeric):
            nodes, features = self.nodes[begin + numeric], self.features[begin + numeric]
            regions = self.regions
            low, high, missing = (a[nodes, features] for a in (regions.low, regions.high, regions.missing))
            rows = histograms.rows(nodes)
            split_costs.numeric_costs(rule, view, rows, features, low, high, missing, numeric, scratch, mirrored, costs)
        categorical = np.flatnonzero(kind == 1)
        if len(categorical) and categories:
            nodes, features = self.nodes[begin + categorical], self.features[begin + categorical]
            allowed = self.regions.allowed[nodes, self.regions.categorical_index[features]]
            starts, sizes = self.categories.starts[features], self.categories.sizes[features]
            rows, masks = histograms.rows(nodes), self.categories.masks
            of_candidates = (starts, sizes, masks, allowed, categorical)
            split_costs.categorical_costs(rule, view, rows, features, *of_candidates, scratch, costs)
        return costs, mirrored

    def masks(self, pairs: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]) -> Masks:
        """Return the masks of some slots, each given by its pair and its index in the row."""
        features = self.features[pairs]
        masks = np.zeros((len(pairs), MASK_BYTES), dtype=np.uint8)
        numeric, categorical = self.kind[pairs] == 0, self.kind[pairs] == 1
        missing_right, threshold = np.divmod(slots[numeric], self.half)
        masks[numeric] = threshold_mask(threshold, missing_right > 0)
        masks[categorical] = self.categories.masks[self.categories.starts[features[categorical]] + slots[categorical]]
        return masks


BATCH_BYTES = 1 << 20  # size of the costs of a batch, which fit in the processor's cache


class Level(ABC):
    """Selections of one level, made as histograms arrive.

    Shapes: features (n_nodes,), masks (n_nodes, 32).
    """

    def __init__(self, candidates: Candidates, n_nodes: int) -> None:
        self.candidates = candidates
        self.features: Features = np.zeros(n_nodes, dtype=np.int32)
        self.masks: Masks = np.zeros((n_nodes, MASK_BYTES), dtype=np.uint8)

    def choose(self, histograms: NodeHistograms, begin: int, end: int, threads: Threads) -> None:
        """Choose the splits of the nodes from ``begin`` to ``end`` from their histograms."""
        batch = max(1, BATCH_BYTES // (8 * self.candidates.per_node * self.candidates.n_slots))

        def work(a: int, b: int) -> None:
            for first in range(begin + a, begin + b, batch):
                self._choose(histograms, first, min(first + batch, begin + b))

        threads.run(work, end - begin)

    @abstractmethod
    def _choose(self, histograms: NodeHistograms, first: int, last: int) -> None:
        """Choose the splits of one batch of nodes, from ``first`` to ``last``."""

    def _set(self, nodes: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64], masks: Masks) -> None:
        """Set the splits of some nodes, given their (node, feature) pairs and masks."""
        self.features[nodes] = self.candidates.features[pairs]
        self.masks[nodes] = masks


class Splitter(Protocol):
    """Method of choosing splits."""

    looks_at_data: bool  # whether the splits depend on histograms

    def charges(self, level: int, epsilon: Epsilon, times: int, composition: str) -> tuple[Charge, ...]:
        """Return the charges of one level, released ``times`` times on the same records, each time for ``epsilon``."""

    def level(self, regions: Regions, receipts: Sequence[Receipt], source: RandomSource) -> Level:
        """Prepare a level: make all data-independent choices, and use the receipts for the other selections."""
