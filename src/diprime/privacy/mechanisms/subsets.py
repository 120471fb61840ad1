"""Private selection of a balanced split of categories from all possible splits.

There are too many candidates to list. But the cost of a split depends only on the number of records on its right side,
so splits are counted and drawn by that number, exactly. selection.md has the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from diprime.privacy.mechanisms.selection import Selection, exponential_pmf
from diprime.privacy.mechanisms.weights import Weights
from diprime.privacy.randomness import big_integer_below


class _SplitCounts:
    """The number of splits of categories by the number of records on their right side.

    They are counted by the recursion of the knapsack problem. ``ways[j]`` is one integer that packs the numbers of
    subsets of the first j categories with 0, 1, 2, … records, in ``size`` bytes each.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = counts
        self.total = sum(counts)
        self.size = (len(counts) + 8) // 8  # enough bytes for the number of all subsets
        self.ways = [1]
        for count in counts:
            self.ways.append(self.ways[-1] + (self.ways[-1] << (8 * self.size * count)))
        self._packed = self.ways[-1].to_bytes(self.size * (self.total + 1), "little")

    def with_records(self, records: int) -> int:
        """Return the number of splits with ``records`` on the right; the empty and the full set are no splits."""
        subsets = int.from_bytes(self._packed[self.size * records : self.size * (records + 1)], "little")
        return subsets - (records == 0) - (records == self.total)

    def right_sides(self, cost: int) -> list[int]:
        """Return the numbers of records on the right for which a split has this cost."""
        return [(self.total + cost) // 2, (self.total - cost) // 2] if cost else [self.total // 2]

    def of_cost(self, cost: int) -> int:
        """Return the number of splits of this cost."""
        return sum(self.with_records(records) for records in self.right_sides(cost))

    def split(self, cost: int, index: int) -> list[bool]:
        """Return split number ``index`` of those with this cost, as whether each category is on the right."""
        records = self.right_sides(cost)[0]
        if index >= self.with_records(records):
            index -= self.with_records(records)
            records = self.right_sides(cost)[1]
        index += records == 0  # in the order of this walk, the empty set comes first and the full set last
        right = [False] * len(self.counts)
        for j in range(len(self.counts), 0, -1):
            without = (self.ways[j - 1] >> (8 * self.size * records)) & ((1 << (8 * self.size)) - 1)
            if index >= without:
                index -= without
                records -= self.counts[j - 1]
                right[j - 1] = True
        return right


def subset_median(selection: Selection, place: int, counts: Sequence[int]) -> list[bool]:
    """Draw a split of categories into two non-empty sides by the exponential mechanism, cost |n_C - n_notC|.

    All 2^k - 2 ordered splits of k >= 2 categories are candidates. Adding a record changes every cost by one, up or
    down: the range is 2.

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
    (stream,) = selection.take_streams(np.array([place]), "exponential mechanism")
    table = selection.table
    splits = _SplitCounts(counts)
    total = splits.total
    # Costs have the parity of the total. Costs past the end of the table have the same weight, so they are counted as
    # one, and listed only if one of them is drawn.
    least = next(cost for cost in range(total % 2, total + 1, 2) if splits.of_cost(cost))
    inner = range(least, min(total + 1, least + len(table) - 1), 2)
    numbers = [splits.of_cost(cost) for cost in inner]
    weights = [n * int(table[cost - least]) for n, cost in zip(numbers, inner, strict=True)]
    n_outer = (1 << len(counts)) - 2 - sum(numbers)
    draw = big_integer_below(stream, sum(weights) + n_outer * int(table[-1]))
    if draw < sum(weights):
        at = 0
        while draw >= weights[at]:
            draw -= weights[at]
            at += 1
        return splits.split(inner[at], draw % numbers[at])
    cost, index = least + 2 * len(inner), (draw - sum(weights)) % n_outer
    while index >= splits.of_cost(cost):
        index -= splits.of_cost(cost)
        cost += 2
    return splits.split(cost, index)


def subset_median_pmf(counts: Sequence[int], table: Weights) -> dict[tuple[bool, ...], Fraction]:
    """Return the exact distribution of :func:`subset_median` by listing every split."""
    k = len(counts)
    splits = [tuple(bool(subset >> j & 1) for j in range(k)) for subset in range(1, 2**k - 1)]
    costs = [abs(sum(c if right else -c for c, right in zip(counts, split, strict=True))) for split in splits]
    return dict(zip(splits, exponential_pmf(costs, table), strict=True))
