"""A fitted forest: flat arrays of released numbers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from diprime.domain import Domain
from diprime.growth import Structure
from diprime.histograms import Rows
from diprime.kernels import walking
from diprime.kernels.constants import MASK_BYTES
from diprime.parallel import Threads
from diprime.splitters import read_threshold_mask, threshold_mask

Floats = npt.NDArray[np.float64]
WALKED_TOGETHER = 256
READ_TOGETHER = 1 << 14
MOST_ROWS = 2.0**53  # that a leaf can be said to have
WORTH_LIMITS = 1 << 14  # rows from which on finding the limits of splits pays


@dataclass(frozen=True, eq=False, repr=False)
class Forest:
    """Complete binary trees, one after the other.

    Attributes
    ----------
    depths : array of shape (n_trees,)
        Levels of splits of each tree: a tree of depth d has 2^d - 1 splits in heap order and 2^d leaves.
    features : array of shape (n_splits,)
        The feature of each split.
    masks : array of shape (n_splits, 32)
        Bit ``code`` says whether rows with that code go right.
    values : array of shape (n_leaves, n_outputs)
        The estimate of each leaf.
    counts : array of shape (n_leaves,)
        The released number of records of each leaf, noise included: it may be negative.
    """

    depths: npt.NDArray[np.int64]
    features: npt.NDArray[np.int32]
    masks: npt.NDArray[np.uint8]
    values: Floats
    counts: Floats

    MOST_DEPTH: ClassVar[int] = 20

    @classmethod
    def of_trees(cls, structure: Structure, values: Floats, counts: Floats) -> Forest:
        """Put trees of one depth together."""
        n_trees, n_leaves, n_outputs = values.shape
        return cls(
            np.full(n_trees, n_leaves.bit_length() - 1, dtype=np.int64),
            np.ascontiguousarray(structure.features.reshape(-1)),
            np.ascontiguousarray(structure.masks.reshape(-1, MASK_BYTES)),
            np.ascontiguousarray(values.reshape(-1, n_outputs)),
            np.ascontiguousarray(counts.reshape(-1)),
        )

    @classmethod
    def merge(cls, forests: Sequence[Forest]) -> Forest:
        """Put the trees of several forests together."""
        return cls(
            np.concatenate([f.depths for f in forests]),
            np.concatenate([f.features for f in forests]),
            np.concatenate([f.masks for f in forests]),
            np.concatenate([f.values for f in forests]),
            np.concatenate([f.counts for f in forests]),
        )

    def check(self, domain: Domain, low: float, high: float) -> None:
        """Refuse arrays that no fit has made: the compiled walk down the trees trusts them.

        Their shapes must follow from the depths. Leaf values must be numbers from ``low`` to ``high``.
        """
        if ((self.features < 0) | (self.features >= domain.n_features)).any():
            raise ValueError("a split is on a feature that the domain does not have.")
        for begin in range(0, len(self.features), READ_TOGETHER):
            block = slice(begin, begin + READ_TOGETHER)
            masks = self.masks[block][~domain.is_categorical[self.features[block]]]
            threshold, missing_right = read_threshold_mask(masks)
            if not np.array_equal(masks, threshold_mask(threshold, missing_right.astype(bool))):
                raise ValueError("a split on a numeric feature is not at a threshold.")
        slack = 1e-9 * max(abs(low), abs(high))  # of the means' rounding
        if not ((self.values >= low - slack) & (self.values <= high + slack)).all():
            raise ValueError("a leaf's value is not a number in the range of the target.")
        if not (np.abs(self.counts) <= MOST_ROWS).all():
            raise ValueError("a leaf's number of records is impossible.")

    def __repr__(self) -> str:
        depths = ", ".join(map(str, np.unique(self.depths)))
        return f"<Forest of {self.n_trees} trees of depth {depths} with {len(self.values)} leaves>"

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return len(self.depths)

    @property
    def first_splits(self) -> npt.NDArray[np.int64]:
        """Where each tree's splits begin, and where the last one's end."""
        return np.concatenate([[0], np.cumsum((1 << self.depths) - 1)])

    @property
    def first_leaves(self) -> npt.NDArray[np.int64]:
        """Where each tree's leaves begin, and where the last one's end."""
        return np.concatenate([[0], np.cumsum(1 << self.depths)])

    @property
    def tree_counts(self) -> Floats:
        """The released number of records of each tree."""
        return np.asarray(np.add.reduceat(self.counts, self.first_leaves[:-1]))

    @property
    def tree_weights(self) -> Floats:
        """Each tree's weight in a prediction: its released number of records, as a share of all."""
        sizes = np.maximum(self.tree_counts, 1.0)
        return np.asarray(sizes / sizes.sum())

    @property
    def weighted_values(self) -> Floats:
        """What each leaf adds to a prediction."""
        return np.asarray(self.values * np.repeat(self.tree_weights, 1 << self.depths)[:, None])

    def apply(self, rows: Rows, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the leaf, from the left, that each row reaches in each tree."""
        leaves = np.empty((rows.n_rows, self.n_trees), dtype=np.int32)
        first_splits = self.first_splits

        def walk(begin: int, end: int, codes: npt.NDArray[np.uint8]) -> None:
            nodes = np.empty(WALKED_TOGETHER, dtype=np.int32)
            walking.leaves(codes, self.depths, first_splits, self.features, self.masks, nodes, leaves[begin:end])

        _read_in_blocks(rows, threads, walk)
        return leaves

    def _predict_blocks(self, rows: Rows, threads: Threads, write: Callable[[int, int, Floats], None]) -> None:
        """Call ``write(begin, end, means)`` on all rows with the mean of the leaf estimates, weighted by tree."""
        first_splits, first_leaves = self.first_splits, self.first_leaves
        values = self.weighted_values
        arrays = (self.depths, first_splits, first_leaves, self.features)

        def write_means(begin: int, end: int, predict: Callable[[npt.NDArray[np.int32], Floats], None]) -> None:
            nodes = np.empty(WALKED_TOGETHER, dtype=np.int32)
            means = np.zeros((end - begin, values.shape[1]))
            predict(nodes, means)
            write(begin, end, means)

        def predict_codes(begin: int, end: int, codes: npt.NDArray[np.uint8]) -> None:
            write_means(begin, end, lambda *scratch: walking.predict(codes, *arrays, self.masks, values, *scratch))

        if rows.numbers is None or rows.n_rows < WORTH_LIMITS:
            _read_in_blocks(rows, threads, predict_codes)
            return

        # A row passes fewer splits than it has features: to compare numbers as they are beats encoding them all.
        matrix = rows.numbers
        limits, missing_right = self._limits(rows.thresholds(), matrix.dtype)

        def predict_numbers(begin: int, end: int) -> None:
            write_means(
                begin,
                end,
                lambda *scratch: walking.predict_numbers(
                    matrix[begin:end], *arrays, limits, missing_right, values, *scratch
                ),
            )

        _in_blocks(rows.n_rows, threads, predict_numbers)

    def _limits(
        self, thresholds: Sequence[npt.NDArray[np.float64]], dtype: np.dtype[Any]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
        """Return the number of a dtype from which on each split sends numbers right, and whether it sends NaN there.

        NaN, which nothing is at or above, stands for splits that send no number right.
        """
        threshold, missing_right = read_threshold_mask(self.masks)
        limits = np.full(len(threshold), np.nan)
        for feature, edges in enumerate(thresholds):
            here = np.flatnonzero((self.features == feature) & (threshold < len(edges)))
            limits[here] = edges[threshold[here]]
        with np.errstate(over="ignore"):
            rounded = limits.astype(dtype)
        below = rounded < limits  # the first number of the dtype at or above the limit says the same
        rounded[below] = np.nextafter(rounded[below], np.array(np.inf, dtype=dtype))
        return rounded, missing_right

    def predict(self, rows: Rows, threads: Threads) -> Floats:
        """Return the mean of the leaf estimates that each row reaches, trees weighted by their size."""
        out = np.empty((rows.n_rows, self.values.shape[1]))

        def write(begin: int, end: int, means: Floats) -> None:
            out[begin:end] = means

        self._predict_blocks(rows, threads, write)
        return out

    def decide(self, rows: Rows, threads: Threads) -> npt.NDArray[np.intp]:
        """Return the place of the largest output of :meth:`predict`, the first of equals, for each row."""
        out = np.empty(rows.n_rows, dtype=np.intp)

        def write(begin: int, end: int, means: Floats) -> None:
            # For two outputs a comparison says the same, in a tenth of the time.
            out[begin:end] = means[:, 1] > means[:, 0] if means.shape[1] == 2 else means.argmax(axis=1)

        self._predict_blocks(rows, threads, write)
        return out

    def importances(self, n_features: int) -> Floats:
        """Return how much the splits on each feature spread the estimates, from released numbers only, summing to 1."""
        gains = np.zeros(n_features)
        for tree, depth in enumerate(self.depths):
            leaves = slice(*self.first_leaves[tree : tree + 2])
            counts = np.maximum(self.counts[leaves], 0.0)[:, None]
            sums = self.values[leaves] * counts
            features = self.features[slice(*self.first_splits[tree : tree + 2])]
            for level in range(int(depth) - 1, -1, -1):
                explained = _between_siblings(counts, sums)
                np.add.at(gains, features[2**level - 1 : 2 ** (level + 1) - 1], explained)
                counts, sums = (a.reshape(-1, 2, a.shape[1]).sum(axis=1) for a in (counts, sums))
        total = gains.sum()
        return gains / total if total > 0 else gains


def _in_blocks(n_rows: int, threads: Threads, work: Callable[[int, int], None]) -> None:
    """Call ``work(begin, end)`` on all rows, a block that stays in the processor's cache at a time."""

    def run(first: int, last: int) -> None:
        for begin in range(first, last, READ_TOGETHER):
            work(begin, min(begin + READ_TOGETHER, last))

    threads.run(run, n_rows, at_least=READ_TOGETHER)


def _read_in_blocks(rows: Rows, threads: Threads, work: Callable[[int, int, npt.NDArray[np.uint8]], None]) -> None:
    """Call ``work(begin, end, codes)`` on all rows."""

    def read(begin: int, end: int) -> None:
        codes = np.empty((end - begin, rows.n_features), dtype=np.uint8)
        rows.read(begin, end, codes)
        work(begin, end, codes)

    _in_blocks(rows.n_rows, threads, read)


def _between_siblings(counts: Floats, sums: Floats) -> Floats:
    """Return the sum of squares between the means of each two siblings, weighted by their counts."""
    means = sums / np.maximum(counts, 1e-12)
    left, right = counts[::2, 0], counts[1::2, 0]
    distance = ((means[::2] - means[1::2]) ** 2).sum(axis=1)
    return np.asarray(distance * left * right / np.maximum(left + right, 1e-12))
