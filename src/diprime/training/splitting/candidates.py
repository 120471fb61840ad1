"""The candidate splits of a node. They are public: which candidates there are does not depend on the records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.domain import Domain
from diprime.kernels import scoring
from diprime.kernels.constants import ABSENT_COST, MASK_BYTES, MISSING, N_CODES, OTHER
from diprime.model.masks import Masks, threshold_mask
from diprime.model.regions import Regions
from diprime.privacy.randomness import RandomSource
from diprime.training.splitting.cost import Cost
from diprime.training.splitting.histograms import NodeHistograms

MAX_LEVELS_OF_ALL_SPLITS = 8
N_RANDOM_SPLITS = 254


@dataclass(frozen=True)
class CategoricalCandidates:
    """The candidate splits of categorical features, drawn without looking at data.

    For a feature with up to eight levels, all splits are candidates. For a feature with more levels, the candidates are
    each level against the rest and a fixed number of random splits.

    Attributes
    ----------
    masks : array of shape (n_splits, 32)
        The splits of all features, feature after feature.
    starts, sizes : arrays of shape (n_features,)
        The index of a feature's first split, and the number of its splits.
    """

    masks: Masks
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]

    @classmethod
    def draw(cls, domain: Domain, source: RandomSource) -> CategoricalCandidates:
        """Draw the candidates of one fit."""
        masks, sizes = [np.zeros((0, N_CODES), dtype=np.uint8)], np.zeros(domain.n_features, dtype=np.int64)
        for feature in np.flatnonzero(domain.is_categorical):
            codes = np.array([*range(domain.n_codes[feature]), OTHER, MISSING])
            if len(codes) <= MAX_LEVELS_OF_ALL_SPLITS + 2:
                # The first level always goes left, because a split and its mirror image are the same split.
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
    """Draw k of the features that can be split at each node; -1 fills up where there are fewer than k."""
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
    """The candidate splits of pairs of a node and a feature. Each pair has a row of slots.

    For a numeric feature, slot t of the first half is threshold t with missing values on the left, and slot t of the
    second half is the same threshold with missing values on the right (see kernels/scoring.py). For a categorical
    feature, the slots are its candidate splits.

    Attributes
    ----------
    per_node : int
        The number of features tried at each node.
    nodes, features : arrays of shape (n_pairs,)
        The node and the feature of each pair; -1 if there is no feature.
    kind : array of shape (n_pairs,)
        0 for a numeric feature, 1 for a categorical feature, -1 for none.
    n_slots : int
        The number of slots in a row.
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

        Parameters
        ----------
        histograms : NodeHistograms
            The histograms of the nodes of the pairs.
        begin, end : int
            The range of pairs.
        cost : Cost
            The cost of a candidate.
        categories : bool, default=True
            Whether categorical features have candidates.

        Returns
        -------
        costs : array of shape (end - begin, n_slots)
            The costs; ``ABSENT_COST`` in slots without a candidate.
        mirrored : array of shape (end - begin,)
            Whether the second half of a row has the costs of the first half. It is then not written.
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
            scoring.numeric_costs(rule, view, rows, features, low, high, missing, numeric, scratch, mirrored, costs)
        categorical = np.flatnonzero(kind == 1)
        if len(categorical) and categories:
            nodes, features = self.nodes[begin + categorical], self.features[begin + categorical]
            allowed = self.regions.allowed[nodes, self.regions.categorical_index[features]]
            starts, sizes = self.categories.starts[features], self.categories.sizes[features]
            rows, masks = histograms.rows(nodes), self.categories.masks
            of_candidates = (starts, sizes, masks, allowed, categorical)
            scoring.categorical_costs(rule, view, rows, features, *of_candidates, scratch, costs)
        return costs, mirrored

    def masks(self, pairs: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]) -> Masks:
        """Return the masks of some slots, each given by its pair and its place in the row."""
        features = self.features[pairs]
        masks = np.zeros((len(pairs), MASK_BYTES), dtype=np.uint8)
        numeric, categorical = self.kind[pairs] == 0, self.kind[pairs] == 1
        missing_right, threshold = np.divmod(slots[numeric], self.half)
        masks[numeric] = threshold_mask(threshold, missing_right > 0)
        masks[categorical] = self.categories.masks[self.categories.starts[features[categorical]] + slots[categorical]]
        return masks
