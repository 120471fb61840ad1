"""Trees on one or two features, collapsed to functions of these features: the terms of an additive model."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.kernels import walking
from diprime.kernels.constants import N_CODES
from diprime.model.trees import WALK_BLOCK_ROWS, Codes, Floats, Trees

MAX_FEATURES = 2
"""The largest number of features of a term: more could not be looked at."""
MAX_TERM_VALUES = 1 << 26
"""The largest number of values in the tables of all terms: more than any model worth keeping has."""

MAX_SUMS = 1 << 32
"""The largest number of additions to make these tables, which take seconds: a file must not take hours."""

_Integers = npt.NDArray[np.int64]
_NO_CODES = np.zeros((1, 0), dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class Term:
    """A function of one or two features, constant on segments of their codes.

    Attributes
    ----------
    features : tuple of one or two int
        The features, in ascending order.
    segments : tuple of arrays of shape (256,)
        For each feature, the segment of each code. Segments are numbered by their first codes.
    table : array of shape (n_segments, [n_segments,] n_scores)
        What the term adds to the scores.
    """

    features: tuple[int, ...]
    segments: tuple[Codes, ...]
    table: Floats

    def values(self, codes: Codes) -> Floats:
        """Return what the term adds to the scores of rows, given the codes of all features."""
        cells = tuple(segments[codes[:, j]] for j, segments in zip(self.features, self.segments, strict=True))
        return np.asarray(self.table[cells])


def segments_of(codes_as_rows: npt.NDArray[np.generic]) -> Codes:
    """Return the segment of each code: codes with equal rows share one. Segments are numbered by their first codes."""
    _, first, inverse = np.unique(codes_as_rows, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.uint8)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse.ravel()])


def first_codes(segments: Codes) -> _Integers:
    """Return the first code of each segment."""
    return np.asarray(np.unique(segments, return_index=True)[1])


def collapse(trees: Trees) -> tuple[Floats, list[Term]]:
    """Return a constant and terms whose sum is that of the trees' values, one term for each set of features.

    The sum is exact if all sums of values are. Raise a ValueError if a tree depends on more than two features, or if
    the tables of the terms are too large to be of use.
    """
    firsts = trees.first_splits, trees.first_leaves
    groups = {features: _Group(trees, indices, *firsts) for features, indices in _group_by_features(trees).items()}
    constants = groups.pop((), None)
    constant = np.zeros(trees.values.shape[1]) if constants is None else constants.sums((), _NO_CODES)[0]
    segments = {features: tuple(group.segments(j) for j in features) for features, group in groups.items()}
    sizes = {features: math.prod(int(s.max()) + 1 for s in of) for features, of in segments.items()}
    n_sums = sum(size * groups[features].n_trees for features, size in sizes.items())
    if sum(sizes.values()) * len(constant) > MAX_TERM_VALUES or n_sums * len(constant) > MAX_SUMS:
        raise ValueError("the trees divide their features into too many cells.")
    return constant, [groups[features].term(features, segments[features]) for features in sorted(groups)]


def _group_by_features(trees: Trees) -> dict[tuple[int, ...], _Integers]:
    """Return the indices of the trees that depend on the same features, by these features."""
    separates = trees.masks.any(axis=1) & (trees.masks != N_CODES - 1).any(axis=1)
    tree_of_split = np.repeat(np.arange(trees.n_trees), (1 << trees.depths) - 1)
    used = np.unique(np.stack([tree_of_split[separates], trees.features[separates]]), axis=1)
    ends = np.searchsorted(used[0], np.arange(trees.n_trees + 1)).tolist()
    features = used[1].tolist()
    groups: dict[tuple[int, ...], list[int]] = {}
    for index in range(trees.n_trees):
        groups.setdefault(tuple(features[ends[index] : ends[index + 1]]), []).append(index)
    if max(map(len, groups), default=0) > MAX_FEATURES:
        raise ValueError(f"a tree splits on more than {MAX_FEATURES} features.")
    return {key: np.array(indices) for key, indices in groups.items()}


class _Group:
    """Trees that depend on the same features, taken from others whose first splits and leaves are known."""

    def __init__(self, trees: Trees, indices: _Integers, first_splits: _Integers, first_leaves: _Integers) -> None:
        splits = np.concatenate([np.arange(first_splits[i], first_splits[i + 1]) for i in indices])
        self._depths = trees.depths[indices]
        self._first_splits = np.cumsum((1 << self._depths) - 1) - ((1 << self._depths) - 1)
        self._first_leaves = first_leaves[indices]
        self._features, self._masks, self._values = trees.features[splits], trees.masks[splits], trees.values

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return len(self._depths)

    def segments(self, feature: int) -> Codes:
        """Return the segments of a feature's codes that no split divides."""
        masks = np.unique(self._masks[self._features == feature], axis=0)
        return segments_of(np.packbits(np.unpackbits(masks, axis=1, bitorder="little"), axis=0).T)

    def term(self, features: tuple[int, ...], segments: tuple[Codes, ...]) -> Term:
        """Return the sum of the trees, which depend on no other features."""
        codes = [first_codes(s).astype(np.uint8) for s in segments]
        grid = np.stack(np.meshgrid(*codes, indexing="ij"), axis=-1)
        sums = self.sums(features, grid.reshape(-1, len(features)))
        return Term(features, segments, sums.reshape(*grid.shape[:-1], -1))

    def sums(self, features: tuple[int, ...], codes: Codes) -> Floats:
        """Return the sums of the values of the leaves that rows reach, given their codes of the features.

        Splits on other features send all codes to the same side, so it does not matter which column they read.
        """
        sums = np.zeros((len(codes), self._values.shape[1]))
        walking.predict(
            np.hstack([codes, np.zeros((len(codes), 1), dtype=np.uint8)]),
            self._depths,
            self._first_splits,
            self._first_leaves,
            np.searchsorted(features, self._features).astype(np.int32),
            self._masks,
            self._values,
            np.empty(WALK_BLOCK_ROWS, dtype=np.int32),
            sums,
        )
        return sums
