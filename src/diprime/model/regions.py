"""The region of a node: the codes that can occur there. It follows from the splits above, which are released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.domain.codes import MISSING, N_CODES, OTHER
from diprime.domain.domain import Domain
from diprime.model.masks import Features, Masks, read_threshold_mask


@dataclass
class Regions:
    """The codes that can occur at each node of a level, feature by feature.

    A numeric feature keeps a range of cells and, possibly, missing values. A categorical feature keeps a set of codes.

    Attributes
    ----------
    low, high : arrays of shape (n_nodes, n_features)
        The first and last cell of a numeric feature. The range is empty where low > high.
    missing : array of shape (n_nodes, n_features)
        Whether a numeric feature can be missing.
    allowed : array of shape (n_nodes, n_categorical, 32)
        The codes of a categorical feature, as a mask.
    categorical_index : array of shape (n_features,)
        The index of a categorical feature in ``allowed``; -1 for numeric features.
    """

    low: npt.NDArray[np.uint8]
    high: npt.NDArray[np.uint8]
    missing: npt.NDArray[np.uint8]
    allowed: npt.NDArray[np.uint8]
    categorical_index: npt.NDArray[np.int64]

    @classmethod
    def roots(cls, domain: Domain, n_trees: int) -> Regions:
        """Return the regions of the roots: all codes of the domain."""
        is_categorical, n_codes = domain.is_categorical, domain.n_codes
        index = np.where(is_categorical, np.cumsum(is_categorical) - 1, -1).astype(np.int64)
        bits = np.zeros((int(is_categorical.sum()), N_CODES), dtype=np.uint8)
        for i, n in enumerate(n_codes[is_categorical]):
            bits[i, [*range(n), OTHER, MISSING]] = 1
        return cls(
            np.zeros((n_trees, len(n_codes)), dtype=np.uint8),
            np.tile((n_codes - 1).astype(np.uint8), (n_trees, 1)),
            np.ones((n_trees, len(n_codes)), dtype=np.uint8),
            np.tile(np.packbits(bits, axis=1, bitorder="little"), (n_trees, 1, 1)),
            index,
        )

    def __len__(self) -> int:
        return len(self.low)

    def splittable(self) -> npt.NDArray[np.bool_]:
        """Return an array of shape (n_nodes, n_features): whether at least two codes of the feature can occur."""
        splittable = (self.high > self.low) | ((self.missing > 0) & (self.high >= self.low))
        if self.allowed.shape[1]:
            n_allowed = np.unpackbits(self.allowed, axis=2).sum(axis=2)
            splittable[:, self.categorical_index >= 0] = n_allowed > 1
        return np.asarray(splittable)

    def children(self, features: Features, masks: Masks) -> Regions:
        """Return the regions of the next level, given the split of each node: left child first."""
        nodes = np.arange(len(self))
        left, right = 2 * nodes, 2 * nodes + 1
        low, high, missing, allowed = (
            np.repeat(a, 2, axis=0) for a in (self.low, self.high, self.missing, self.allowed)
        )
        index = self.categorical_index[features]
        numeric, categorical = np.flatnonzero(index < 0), np.flatnonzero(index >= 0)
        threshold, missing_right = read_threshold_mask(masks[numeric])
        on_left, on_right = (left[numeric], features[numeric]), (right[numeric], features[numeric])
        high[on_left] = np.minimum(high[on_left], threshold)
        low[on_right] = np.maximum(low[on_right], threshold + 1)
        missing[on_left] &= 1 - missing_right
        missing[on_right] &= missing_right
        allowed[left[categorical], index[categorical]] &= ~masks[categorical]
        allowed[right[categorical], index[categorical]] &= masks[categorical]
        return Regions(low, high, missing, allowed, self.categorical_index)
