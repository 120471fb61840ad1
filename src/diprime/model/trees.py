"""Released trees: their nodes and splits, the regions of nodes, and forests, which average their trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads
from diprime.domain import Domain
from diprime.domain.encoding import Rows
from diprime.domain.features import OTHER
from diprime.kernels import trees as trees_kernel
from diprime.kernels.constants import MASK_BYTES, MISSING, N_CODES

Masks = npt.NDArray[np.uint8]
Features = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]
FlatArrays = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.uint8], Floats, Floats]
"""The depths, features, masks, values and counts of `Trees`."""

WALK_BLOCK_ROWS = 256
"""Number of rows that descend a tree together, level by level."""
READ_BLOCK_ROWS = 1 << 14
"""Number of rows that are encoded together, so that their codes stay in the processor's cache."""
CHECK_BLOCK_SPLITS = 1 << 14
"""Number of masks that are unpacked and checked together."""
MAX_COUNT = 2.0**53
"""Maximum count of a leaf. Float64 represents all integers up to it."""
MAX_SUM_ERROR = 1e-9
"""Maximum deviation of the sum of a leaf's probabilities from one, because they are rounded."""
MIN_ROWS_TO_COMPARE_NUMBERS = 1 << 14
"""Number of rows from which comparing numbers with thresholds is faster than encoding them first."""

_BINARY = 2
Dtype = TypeVar("Dtype", bound=np.generic)


def threshold_mask(threshold: npt.NDArray[np.int64], missing_right: npt.NDArray[np.bool_]) -> Masks:
    """Return the masks of numeric splits, shape (n_splits, 32). Codes above the threshold go right."""
    bits = (np.arange(N_CODES) > threshold[:, None]).astype(np.uint8)
    bits[:, MISSING] = missing_right
    return np.packbits(bits, axis=1, bitorder="little")


def read_threshold_mask(masks: Masks) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the thresholds of numeric splits, and whether missing values go right. Inverse of `threshold_mask`."""
    bits = np.unpackbits(masks, axis=1, bitorder="little")
    return MISSING - 1 - bits[:, :MISSING].sum(axis=1, dtype=np.int64), np.ascontiguousarray(bits[:, MISSING])


@dataclass(frozen=True)
class Structure:
    """Splits of complete binary trees of equal depth: a forest before its leaves are released.

    Splits are in heap order: the children of split i are 2i + 1 and 2i + 2.

    ``masks`` (n_trees, 2^depth - 1, 32): mask of each split. Rows go right if the bit of their code is set.
    """

    features: Features  # shape (n_trees, 2^depth - 1): feature of each split
    masks: Masks

    @classmethod
    def concatenate(cls, structures: Sequence[Structure]) -> Structure:
        """Return the trees of all structures, in order."""
        return cls(np.concatenate([s.features for s in structures]), np.concatenate([s.masks for s in structures]))


@dataclass(frozen=True, eq=False, repr=False)
class Trees:
    """Complete binary trees, stored one after the other in flat arrays; see `Forest` and `AdditiveForest`."""

    depths: npt.NDArray[np.int64]
    features: npt.NDArray[np.int32]
    masks: npt.NDArray[np.uint8]
    values: Floats
    counts: Floats

    MAX_DEPTH: ClassVar[int] = 20

    def __repr__(self) -> str:
        depths = ", ".join(map(str, np.unique(self.depths)))
        return f"<{type(self).__name__} of {self.n_trees} trees of depth {depths} with {len(self.values)} leaves>"

    @property
    def arrays(self) -> FlatArrays:
        """The five arrays, in the order of `FlatArrays`."""
        return self.depths, self.features, self.masks, self.values, self.counts

    @property
    def file_arrays(self) -> list[npt.NDArray[Any]]:
        """The arrays in the format and order of model files. The depths are in the header."""
        arrays: Sequence[npt.NDArray[Any]] = self.arrays[1:]
        return [array.astype(dtype) for array, dtype in zip(arrays, ("<i4", "u1", "<f8", "<f8"), strict=True)]

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of all arrays, which identifies the model in score files."""
        digest = sha256(self.depths.astype("<i8").tobytes())
        for array in self.file_arrays:
            digest.update(array.tobytes())
        return digest.hexdigest()

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.depths)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # without cached properties

    @cached_property
    def first_splits(self) -> npt.NDArray[np.int64]:
        """Index of each tree's first split, followed by the number of splits."""
        return np.concatenate([[0], np.cumsum((1 << self.depths) - 1)])

    @cached_property
    def first_leaves(self) -> npt.NDArray[np.int64]:
        """Index of each tree's first leaf, followed by the number of leaves."""
        return np.concatenate([[0], np.cumsum(1 << self.depths)])

    @cached_property
    def tree_of_split(self) -> npt.NDArray[np.int64]:
        """Tree of each split."""
        return np.repeat(np.arange(self.n_trees), (1 << self.depths) - 1)

    def apply(self, rows: Rows, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the index, from the left, of the leaf that each row reaches in each tree."""
        leaves = np.empty((rows.n_rows, self.n_trees), dtype=np.int32)
        first_splits = self.first_splits

        def walk(begin: int, end: int, codes: Codes) -> None:
            nodes = np.empty(WALK_BLOCK_ROWS, dtype=np.int32)
            trees_kernel.leaves(codes, self.depths, first_splits, self.features, self.masks, nodes, leaves[begin:end])

        encode_blocks(rows, threads, walk)
        return leaves

    def check_trees(self, domain: Domain) -> None:
        """Raise a ValueError unless the splits and counts are possible in a domain. Kernels rely on this."""
        if ((self.features < 0) | (self.features >= domain.n_features)).any():
            raise ValueError("a split is on a feature that the domain does not have.")
        for begin in range(0, len(self.features), CHECK_BLOCK_SPLITS):
            block = slice(begin, begin + CHECK_BLOCK_SPLITS)
            masks = self.masks[block][~domain.is_categorical[self.features[block]]]
            threshold, missing_right = read_threshold_mask(masks)
            if not np.array_equal(masks, threshold_mask(threshold, missing_right.astype(bool))):
                raise ValueError("a split on a numeric feature is not at a threshold.")
        if not (np.abs(self.counts) <= MAX_COUNT).all():
            raise ValueError("a leaf's number of records is impossible.")


def flat_arrays(structure: Structure, values: Floats, counts: Floats) -> FlatArrays:
    """Return the arrays of `Trees` for trees of equal depth.

    Shapes: values (n_trees, 2^depth, n_outputs), counts (n_trees, 2^depth).
    """
    n_trees, n_leaves, n_outputs = values.shape
    return (
        np.full(n_trees, n_leaves.bit_length() - 1, dtype=np.int64),
        np.ascontiguousarray(structure.features.reshape(-1)),
        np.ascontiguousarray(structure.masks.reshape(-1, MASK_BYTES)),
        np.ascontiguousarray(values.reshape(-1, n_outputs)),
        np.ascontiguousarray(counts.reshape(-1)),
    )


def joined_arrays(parts: Sequence[FlatArrays]) -> FlatArrays:
    """Return the arrays of all given trees, in order."""
    depths, features, masks, values, counts = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return depths, features, masks, values, counts


def run_blocks(n_rows: int, threads: Threads, work: Callable[[int, int], None]) -> None:
    """Call ``work(begin, end)`` for blocks of rows that cover all rows."""

    def run(first: int, last: int) -> None:
        for begin in range(first, last, READ_BLOCK_ROWS):
            work(begin, min(begin + READ_BLOCK_ROWS, last))

    threads.run(run, n_rows, at_least=READ_BLOCK_ROWS)


def encode_blocks(rows: Rows, threads: Threads, work: Callable[[int, int, Codes], None]) -> None:
    """Call ``work(begin, end, codes)`` for blocks of rows that cover all rows, with their codes."""

    def encode(begin: int, end: int) -> None:
        codes = np.empty((end - begin, rows.n_features), dtype=np.uint8)
        rows.read(begin, end, codes)
        work(begin, end, codes)

    run_blocks(rows.n_rows, threads, encode)


@dataclass
class Regions:
    """Codes of each feature that can occur at each node of a level.

    A numeric feature has a range of bins and, possibly, missing values. A categorical feature has a set of codes.

    ``high`` (n_nodes, n_features): last bin of a numeric feature. The range is empty if low > high.
    ``categorical_index`` (n_features,): index of a categorical feature in ``allowed``; -1 for numeric features.
    """

    low: npt.NDArray[np.uint8]  # shape (n_nodes, n_features): first bin of a numeric feature
    high: npt.NDArray[np.uint8]
    missing: npt.NDArray[np.uint8]  # shape (n_nodes, n_features): whether a numeric feature can be missing
    allowed: npt.NDArray[np.uint8]  # shape (n_nodes, n_categorical, 32): codes of a categorical feature, as a mask
    categorical_index: npt.NDArray[np.int64]

    @classmethod
    def roots(cls, domain: Domain, n_trees: int) -> Regions:
        """Return the regions of the roots, which contain all codes of the domain."""
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
        """Return the regions of the next level, left child first, given the split of each node."""
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


@dataclass(frozen=True, eq=False, repr=False)
class Forest(Trees):
    """Complete binary trees whose estimates are averaged, stored one after the other in flat arrays.

    Attributes
    ----------
    depths : array of shape (n_trees,)
        Depth of each tree. A tree of depth d has 2^d - 1 splits, in heap order, and 2^d leaves.
    features : array of shape (n_splits,)
        Feature of each split.
    masks : array of shape (n_splits, 32)
        Mask of each split. Rows go right if the bit of their code is set.
    values : array of shape (n_leaves, n_outputs)
        Estimate of each leaf: class probabilities, or one number.
    counts : array of shape (n_leaves,)
        Released number of records in each leaf. Because of the noise, it may be negative.
    """

    @classmethod
    def of_trees(cls, structure: Structure, values: Floats, counts: Floats) -> Forest:
        """Return a forest of trees of equal depth. See `flat_arrays` for the shapes."""
        return cls(*flat_arrays(structure, values, counts))

    @classmethod
    def merge(cls, forests: Sequence[Forest]) -> Forest:
        """Return a forest with the trees of all given forests, in order."""
        return cls(*joined_arrays([forest.arrays for forest in forests]))

    def check(self, domain: Domain) -> None:
        """Raise a ValueError unless a fit could have produced these arrays.

        Leaf values must be in the range of outputs, and the probabilities of each leaf must add up to one.
        """
        self.check_trees(domain)
        low, high = domain.output_range
        slack = 1e-9 * max(abs(low), abs(high))  # leaf means are rounded
        if not ((self.values >= low - slack) & (self.values <= high + slack)).all():
            raise ValueError("a leaf's value is not a number in the range of the target.")
        if domain.task == "classification" and not (np.abs(self.values.sum(axis=1) - 1) <= MAX_SUM_ERROR).all():
            raise ValueError("the probabilities of a leaf do not add up to one.")

    @property
    def tree_counts(self) -> Floats:
        """Released number of records in each tree."""
        return np.asarray(np.add.reduceat(self.counts, self.first_leaves[:-1]))

    @property
    def tree_weights(self) -> Floats:
        """Weight of each tree in predictions: its share of the released record counts, each raised to at least one."""
        sizes = np.maximum(self.tree_counts, 1.0)
        return np.asarray(sizes / sizes.sum())

    @property
    def weighted_values(self) -> Floats:
        """Contribution of each leaf to predictions: its estimate times the weight of its tree."""
        return np.asarray(self.values * np.repeat(self.tree_weights, 1 << self.depths)[:, None])

    def _map_means(
        self, rows: Rows, threads: Threads, out: npt.NDArray[Dtype], function: Callable[[Floats], npt.NDArray[Any]]
    ) -> npt.NDArray[Dtype]:
        """Fill ``out`` with a function of the rows' weighted mean leaf estimates, block by block."""
        values = self.weighted_values
        arrays = (self.depths, self.first_splits, self.first_leaves, self.features)

        def write_means(begin: int, end: int, predict: Callable[[npt.NDArray[np.int32], Floats], None]) -> None:
            nodes = np.empty(WALK_BLOCK_ROWS, dtype=np.int32)
            means = np.zeros((end - begin, values.shape[1]))
            predict(nodes, means)
            out[begin:end] = function(means)

        def predict_codes(begin: int, end: int, codes: Codes) -> None:
            write_means(begin, end, lambda *scratch: trees_kernel.predict(codes, *arrays, self.masks, values, *scratch))

        if rows.numbers is None or rows.n_rows < MIN_ROWS_TO_COMPARE_NUMBERS:
            encode_blocks(rows, threads, predict_codes)
            return out

        # Encoding reads every feature of a row, but a tree compares only a few.
        matrix = rows.numbers
        thresholds, missing_right = self._float_thresholds(rows.thresholds(), matrix.dtype)

        def predict_numbers(begin: int, end: int) -> None:
            part = matrix[begin:end], *arrays, thresholds, missing_right, values
            write_means(begin, end, lambda *scratch: trees_kernel.predict_numbers(*part, *scratch))

        run_blocks(rows.n_rows, threads, predict_numbers)
        return out

    def _float_thresholds(
        self, edges: Sequence[Floats], dtype: np.dtype[Any]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
        """Return the smallest numbers that go right, NaN if there is none, and whether missing values go right."""
        codes, missing_right = read_threshold_mask(self.masks)
        thresholds = np.full(len(codes), np.nan)
        for feature, feature_edges in enumerate(edges):
            splits = np.flatnonzero((self.features == feature) & (codes < len(feature_edges)))
            thresholds[splits] = feature_edges[codes[splits]]
        with np.errstate(over="ignore"):
            rounded = thresholds.astype(dtype)
        below = rounded < thresholds  # rounded up, so that the same numbers of this dtype go right
        rounded[below] = np.nextafter(rounded[below], np.array(np.inf, dtype=dtype))
        return rounded, missing_right

    def predict(self, rows: Rows, threads: Threads) -> Floats:
        """Return the mean leaf estimate of each row, weighted by `tree_weights`."""
        return self._map_means(rows, threads, np.empty((rows.n_rows, self.values.shape[1])), lambda means: means)

    def decide(self, rows: Rows, threads: Threads) -> npt.NDArray[np.intp]:
        """Return the index of the largest output of :meth:`predict` for each row, or the first in case of ties."""

        def largest(means: Floats) -> npt.NDArray[np.intp]:
            # For two classes, a comparison gives the same result as argmax, ten times faster.
            return (means[:, 1] > means[:, 0]).astype(np.intp) if means.shape[1] == _BINARY else means.argmax(axis=1)

        return self._map_means(rows, threads, np.empty(rows.n_rows, dtype=np.intp), largest)
