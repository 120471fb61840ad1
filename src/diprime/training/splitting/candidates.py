"""Which splits a node can choose from: public, whatever the records are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.domain.codes import MISSING, N_CODES, OTHER
from diprime.domain.domain import Domain
from diprime.domain.target_layout import Bins, TargetLayout
from diprime.kernels import scoring
from diprime.model.masks import Masks, threshold_mask
from diprime.model.regions import Regions
from diprime.privacy.mechanisms.selection import ABSENT_COST
from diprime.privacy.randomness import RandomSource
from diprime.training.splitting.cost import Cost

ALL_SUBSETS_UP_TO = 8
N_RANDOM_SUBSETS = 254
BATCH_BYTES = 1 << 20


@dataclass(frozen=True)
class CategoricalCandidates:
    """The public candidate splits of the categorical features, drawn without looking at data.

    A feature with up to eight levels has all its splits; one with more has each level against the rest, and a fixed
    number of random ones.
    """

    masks: Masks
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]

    @classmethod
    def draw(cls, domain: Domain, source: RandomSource) -> CategoricalCandidates:
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
        self,
        domain: Domain,
        layout: TargetLayout,
        families: CategoricalCandidates,
        regions: Regions,
        chosen: npt.NDArray[np.int64],
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
        """Return the costs of the pairs from ``begin`` to ``end``, and which have a first half of slots to count twice.

        Row 0 of bins is node ``first_node``; where bins has one row only, it serves every node. Without ``families``
        categorical features have no candidates.
        """
        costs = np.empty((end - begin, self.n_slots), dtype=np.int64)
        twice = np.zeros(end - begin, dtype=np.uint8)
        kind = self.kind[begin:end]
        costs[kind < 0 if families else kind != 0] = ABSENT_COST
        arguments = cost.kernel_arguments(self.layout)
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
                    bins, here, features, starts, sizes, self.families.masks, allowed, rows, *arguments, costs
                )
            else:
                low, high, missing = (
                    a[nodes, features] for a in (self.regions.low, self.regions.high, self.regions.missing)
                )
                counts, sums = np.empty(N_CODES, dtype=np.int64), np.empty((3, N_CODES))
                scoring.numeric_costs(
                    bins, here, features, low, high, missing, rows, *arguments, counts, sums, twice, costs
                )
        return costs, twice

    def masks(self, pairs: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]) -> Masks:
        """Return the masks of chosen slots."""
        features = self.features[pairs]
        masks = np.zeros((len(pairs), 32), dtype=np.uint8)
        numeric, categorical = self.kind[pairs] == 0, self.kind[pairs] == 1
        missing_right, threshold = np.divmod(slots[numeric], self.half)
        masks[numeric] = threshold_mask(threshold, missing_right > 0)
        masks[categorical] = self.families.masks[self.families.starts[features[categorical]] + slots[categorical]]
        return masks
