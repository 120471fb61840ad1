"""Complete binary trees in flat arrays: what all models share, however they combine the leaves of their trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.domain.encoding import Rows
from diprime.kernels import walking
from diprime.kernels.constants import MASK_BYTES
from diprime.model.masks import Features, Masks, read_threshold_mask, threshold_mask

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]
FlatArrays = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.uint8], Floats, Floats]
"""The depths, features, masks, values and counts of `Trees`."""

WALK_BLOCK_ROWS = 256
"""How many rows walk down a tree together, level by level."""
READ_BLOCK_ROWS = 1 << 14
"""How many rows are encoded together. Their codes stay in the processor's cache."""
CHECK_BLOCK_SPLITS = 1 << 14
"""How many masks are unpacked together to check them."""
MAX_COUNT = 2.0**53
"""The largest possible count of a leaf: float64 holds all integers up to it."""


@dataclass(frozen=True)
class Structure:
    """The splits of complete binary trees of equal depth: a forest before its leaves are released.

    Splits are in heap order: the children of split i are 2i + 1 and 2i + 2.

    Attributes
    ----------
    features : array of shape (n_trees, 2^depth - 1)
        The feature of each split.
    masks : array of shape (n_trees, 2^depth - 1, 32)
        The mask of each split: bit ``code`` says whether rows with that code go right.
    """

    features: Features
    masks: Masks

    @classmethod
    def concatenate(cls, structures: Sequence[Structure]) -> Structure:
        """Put the trees of several structures together."""
        return cls(np.concatenate([s.features for s in structures]), np.concatenate([s.masks for s in structures]))


@dataclass(frozen=True, eq=False, repr=False)
class Trees:
    """Complete binary trees, stored one after the other in flat arrays.

    Attributes
    ----------
    depths : array of shape (n_trees,)
        The depth of each tree. A tree of depth d has 2^d - 1 splits, in heap order, and 2^d leaves.
    features : array of shape (n_splits,)
        The feature of each split.
    masks : array of shape (n_splits, 32)
        The mask of each split: bit ``code`` says whether rows with that code go right.
    values : array of shape (n_leaves, n_outputs)
        The value of each leaf.
    counts : array of shape (n_leaves,)
        The released weight of each leaf. Because of the noise it may be negative.
    """

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
        """The five arrays, in their order."""
        return self.depths, self.features, self.masks, self.values, self.counts

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return len(self.depths)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # nothing that is cached

    @cached_property
    def first_splits(self) -> npt.NDArray[np.int64]:
        """The index of each tree's first split; then the number of splits."""
        return np.concatenate([[0], np.cumsum((1 << self.depths) - 1)])

    @cached_property
    def first_leaves(self) -> npt.NDArray[np.int64]:
        """The index of each tree's first leaf; then the number of leaves."""
        return np.concatenate([[0], np.cumsum(1 << self.depths)])

    def apply(self, rows: Rows, threads: Threads) -> npt.NDArray[np.int32]:
        """Return the index of the leaf, counted from the left, that each row reaches in each tree."""
        leaves = np.empty((rows.n_rows, self.n_trees), dtype=np.int32)
        first_splits = self.first_splits

        def walk(begin: int, end: int, codes: Codes) -> None:
            nodes = np.empty(WALK_BLOCK_ROWS, dtype=np.int32)
            walking.leaves(codes, self.depths, first_splits, self.features, self.masks, nodes, leaves[begin:end])

        encode_blocks(rows, threads, walk)
        return leaves

    def check_trees(self, domain: Domain) -> None:
        """Raise a ValueError unless the splits and counts are possible in a domain.

        The compiled kernels trust the arrays, so whatever comes from a file is checked first. The caller has checked
        that the shapes agree with the depths.
        """
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

    Parameters
    ----------
    structure : Structure
        The splits.
    values : array of shape (n_trees, 2^depth, n_outputs)
        The values of the leaves.
    counts : array of shape (n_trees, 2^depth)
        The released weights of the leaves.
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
    """Return the arrays of all given trees, in their order."""
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
