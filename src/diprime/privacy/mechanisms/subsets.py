"""Private selection of a balanced split of categories from all possible splits.

All splits are listed, whatever the numbers of records are: time and memory depend on the number of categories and on
the length of the table of weights, both of which are public. selection.md has the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.privacy.mechanisms.selection import Selection, exponential_pmf
from diprime.privacy.mechanisms.weights import Weights
from diprime.privacy.randomness import big_integer_below

MIN_CATEGORIES = 2
MAX_CATEGORIES = 16
"""The largest number of categories whose splits are listed. 2^16 weights of 46 bits add up to less than 2^63."""


def subset_median(selection: Selection, place: int, counts: Sequence[int]) -> list[bool]:
    """Draw a split of categories into two non-empty sides by the exponential mechanism, cost |n_C - n_notC|.

    All 2^k - 2 ordered splits of k categories are candidates, ``MIN_CATEGORIES`` <= k <= ``MAX_CATEGORIES``. Adding a
    record changes every cost by one, up or down: the range is 2.

    Parameters
    ----------
    selection : Selection
        The selection, whose receipt must be charged for the exponential mechanism.
    place : int
        The index of the set that the splits are the candidates of.
    counts : sequence of int
        The number of records of each category.

    Returns
    -------
    right : list of bool
        Whether each category is on the right.
    """
    if not MIN_CATEGORIES <= len(counts) <= MAX_CATEGORIES:
        raise ValueError(f"There must be from {MIN_CATEGORIES} to {MAX_CATEGORIES} categories.")
    (stream,) = selection.take_streams(np.array([place]), "exponential mechanism")
    table, costs = selection.table, _costs_of_splits(counts)
    # Costs past the end of the table have the weight of its last entry.
    indices = np.minimum(costs - costs.min(), len(table) - 1)
    numbers = np.bincount(indices, minlength=len(table)).astype(np.uint64)
    up_to = np.cumsum(numbers * table)
    draw = big_integer_below(stream, int(up_to[-1]))
    index = int(np.searchsorted(up_to, np.uint64(draw), side="right"))
    draw -= int(up_to[index]) - int(numbers[index] * table[index])
    # A running count finds the split by the same work wherever it is.
    number = 1 + int(np.searchsorted(np.cumsum(indices == index), draw % int(numbers[index]), side="right"))
    return [bool(number >> j & 1) for j in range(len(counts))]


def _costs_of_splits(counts: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the cost of every split, in the order of their numbers.

    Bit j of the number of a split says whether category j is on the right. The first and the last number are left out:
    the empty and the full set are no splits.
    """
    excess = np.array([-sum(counts)], dtype=np.int64)  # of the records on the right over those on the left
    for count in counts:
        excess = np.concatenate([excess, excess + 2 * count])
    return np.abs(excess[1:-1])


def subset_median_pmf(counts: Sequence[int], table: Weights) -> dict[tuple[bool, ...], Fraction]:
    """Return the exact distribution of :func:`subset_median` by listing every split."""
    k = len(counts)
    splits = [tuple(bool(subset >> j & 1) for j in range(k)) for subset in range(1, 2**k - 1)]
    costs = [abs(sum(c if right else -c for c, right in zip(counts, split, strict=True))) for split in splits]
    return dict(zip(splits, exponential_pmf(costs, table), strict=True))
