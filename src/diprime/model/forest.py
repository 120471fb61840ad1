"""A fitted forest: trees whose estimates are averaged, weighted by released counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.domain.encoding import Rows
from diprime.kernels import walking
from diprime.model.masks import read_threshold_mask
from diprime.model.trees import (
    WALK_BLOCK_ROWS,
    Codes,
    Floats,
    Structure,
    Trees,
    encode_blocks,
    flat_arrays,
    joined_arrays,
    run_blocks,
)

MIN_ROWS_TO_COMPARE_NUMBERS = 1 << 14
"""From this many rows on, comparing raw numbers with thresholds is faster than encoding them first."""

_BINARY = 2
_TINY = 1e-12  # avoids division by zero counts


@dataclass(frozen=True, eq=False, repr=False)
class Forest(Trees):
    """Complete binary trees whose estimates are averaged, stored one after the other in flat arrays.

    Attributes
    ----------
    depths : array of shape (n_trees,)
        The depth of each tree. A tree of depth d has 2^d - 1 splits, in heap order, and 2^d leaves.
    features : array of shape (n_splits,)
        The feature of each split.
    masks : array of shape (n_splits, 32)
        The mask of each split: bit ``code`` says whether rows with that code go right.
    values : array of shape (n_leaves, n_outputs)
        The estimate of each leaf: class probabilities, or one number.
    counts : array of shape (n_leaves,)
        The released number of records in each leaf. Because of the noise it may be negative.
    """

    @classmethod
    def of_trees(cls, structure: Structure, values: Floats, counts: Floats) -> Forest:
        """Return the forest of trees of equal depth.

        Parameters
        ----------
        structure : Structure
            The splits.
        values : array of shape (n_trees, 2^depth, n_outputs)
            The estimates of the leaves.
        counts : array of shape (n_trees, 2^depth)
            The released numbers of records in the leaves.
        """
        return cls(*flat_arrays(structure, values, counts))

    @classmethod
    def merge(cls, forests: Sequence[Forest]) -> Forest:
        """Return a forest with the trees of all given forests, in their order."""
        return cls(*joined_arrays([forest.arrays for forest in forests]))

    def check(self, domain: Domain) -> None:
        """Raise a ValueError unless a fit could have produced these arrays; leaf values are in the range of outputs."""
        self.check_trees(domain)
        low, high = domain.output_range
        slack = 1e-9 * max(abs(low), abs(high))  # leaf means are rounded
        if not ((self.values >= low - slack) & (self.values <= high + slack)).all():
            raise ValueError("a leaf's value is not a number in the range of the target.")

    @property
    def tree_counts(self) -> Floats:
        """The released number of records in each tree."""
        return np.asarray(np.add.reduceat(self.counts, self.first_leaves[:-1]))

    @property
    def tree_weights(self) -> Floats:
        """The weight of each tree in a prediction: its share of the released number of records, at least one each."""
        sizes = np.maximum(self.tree_counts, 1.0)
        return np.asarray(sizes / sizes.sum())

    @property
    def weighted_values(self) -> Floats:
        """The contribution of each leaf to a prediction: its estimate times the weight of its tree."""
        return np.asarray(self.values * np.repeat(self.tree_weights, 1 << self.depths)[:, None])

    def _predict_blocks(self, rows: Rows, threads: Threads, write: Callable[[int, int, Floats], None]) -> None:
        """Call ``write(begin, end, means)`` for blocks of rows, with their predictions."""
        first_splits, first_leaves = self.first_splits, self.first_leaves
        values = self.weighted_values
        arrays = (self.depths, first_splits, first_leaves, self.features)

        def write_means(begin: int, end: int, predict: Callable[[npt.NDArray[np.int32], Floats], None]) -> None:
            nodes = np.empty(WALK_BLOCK_ROWS, dtype=np.int32)
            means = np.zeros((end - begin, values.shape[1]))
            predict(nodes, means)
            write(begin, end, means)

        def predict_codes(begin: int, end: int, codes: Codes) -> None:
            write_means(begin, end, lambda *scratch: walking.predict(codes, *arrays, self.masks, values, *scratch))

        if rows.numbers is None or rows.n_rows < MIN_ROWS_TO_COMPARE_NUMBERS:
            encode_blocks(rows, threads, predict_codes)
            return

        # Encoding touches every feature of a row, while a walk down a tree compares only a few.
        matrix = rows.numbers
        thresholds, missing_right = self._float_thresholds(rows.thresholds(), matrix.dtype)

        def predict_numbers(begin: int, end: int) -> None:
            write_means(
                begin,
                end,
                lambda *scratch: walking.predict_numbers(
                    matrix[begin:end], *arrays, thresholds, missing_right, values, *scratch
                ),
            )

        run_blocks(rows.n_rows, threads, predict_numbers)

    def _float_thresholds(
        self, edges: Sequence[Floats], dtype: np.dtype[Any]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
        """Return the thresholds of numeric splits as numbers, and whether missing values go right.

        Numbers at or above a threshold go right. A split that sends no number right has the threshold NaN, because no
        number compares as at or above it.

        Parameters
        ----------
        edges : sequence of arrays, one for each feature
            The thresholds of the feature: ``edges[code]`` is the smallest number whose code is above ``code``.
        dtype : dtype
            The floating-point type of the numbers to compare.
        """
        codes, missing_right = read_threshold_mask(self.masks)
        thresholds = np.full(len(codes), np.nan)
        for feature, feature_edges in enumerate(edges):
            splits = np.flatnonzero((self.features == feature) & (codes < len(feature_edges)))
            thresholds[splits] = feature_edges[codes[splits]]
        with np.errstate(over="ignore"):
            rounded = thresholds.astype(dtype)
        below = rounded < thresholds  # rounding must go up, so that the same numbers of this dtype go right
        rounded[below] = np.nextafter(rounded[below], np.array(np.inf, dtype=dtype))
        return rounded, missing_right

    def predict(self, rows: Rows, threads: Threads) -> Floats:
        """Return the mean of the leaf estimates that each row reaches, weighted by `tree_weights`."""
        out = np.empty((rows.n_rows, self.values.shape[1]))

        def write(begin: int, end: int, means: Floats) -> None:
            out[begin:end] = means

        self._predict_blocks(rows, threads, write)
        return out

    def decide(self, rows: Rows, threads: Threads) -> npt.NDArray[np.intp]:
        """Return the index of the largest output of :meth:`predict` for each row; the first one in case of ties."""
        out = np.empty(rows.n_rows, dtype=np.intp)

        def write(begin: int, end: int, means: Floats) -> None:
            # For two classes a comparison gives the same result as argmax, ten times faster.
            out[begin:end] = means[:, 1] > means[:, 0] if means.shape[1] == _BINARY else means.argmax(axis=1)

        self._predict_blocks(rows, threads, write)
        return out

    def importances(self, n_features: int) -> Floats:
        """Return the importance of each feature: its share of the squared error that all splits remove.

        A split removes the sum of squares between the means of its two children. It is computed from the released
        leaves only; negative counts are taken as zero. The importances sum to 1, or are all 0 if no split removes
        anything.
        """
        gains = np.zeros(n_features)
        for depth in np.unique(self.depths).tolist():
            trees = np.flatnonzero(self.depths == depth)
            leaves = (self.first_leaves[trees, None] + np.arange(1 << depth)).ravel()
            counts = np.maximum(self.counts[leaves], 0.0)[:, None]
            sums = self.values[leaves] * counts
            for level in range(depth - 1, -1, -1):
                explained = _between_sum_of_squares(counts, sums)
                splits = self.first_splits[trees, None] + np.arange((1 << level) - 1, (2 << level) - 1)
                np.add.at(gains, self.features[splits.ravel()], explained)
                counts, sums = (a.reshape(-1, 2, a.shape[1]).sum(axis=1) for a in (counts, sums))
        total = gains.sum()
        return gains / total if total > 0 else gains


def _between_sum_of_squares(counts: Floats, sums: Floats) -> Floats:
    """Return the sum of squares between the means of each pair of siblings: n₁·n₂/(n₁ + n₂)·‖m₁ - m₂‖²."""
    means = sums / np.maximum(counts, _TINY)
    left, right = counts[::2, 0], counts[1::2, 0]
    distance = ((means[::2] - means[1::2]) ** 2).sum(axis=1)
    return np.asarray(distance * left * right / np.maximum(left + right, _TINY))
