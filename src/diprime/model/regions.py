"""What can still occur at a node: it follows from the splits above it, which are released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.domain.codes import MISSING, N_CODES, OTHER
from diprime.domain.domain import Domain
from diprime.model.masks import Features, Masks, read_threshold_mask


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
