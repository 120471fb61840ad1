"""Private choice of a balanced split of categories, out of all splits there are."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.privacy.mechanisms.selection import exponential_pmf
from diprime.privacy.mechanisms.weights import Weights
from diprime.privacy.randomness import big_integer_below


def subset_median(counts: Sequence[int], table: Weights, stream: npt.NDArray[np.uint32]) -> list[bool]:
    """Draw a split of categories into two non-empty sides by the exponential mechanism, cost |n_C - n_notC|.

    All 2^k - 2 ordered splits of k >= 2 categories are candidates. The cost depends on a split through the number of
    records on its right side alone, so the splits are counted by that number with the recursion of the knapsack
    problem, the cost is drawn, and then one of its splits by walking the recursion back. Adding a record changes
    every cost by one, up or down: the range is 2. Returns whether each category is on the right.
    """
    k, total = len(counts), sum(counts)
    size = (k + 8) // 8  # bytes that hold any number of subsets
    # ways[j] packs, size bytes each, how many subsets of the first j categories hold 0, 1, 2, … records.
    ways = [1]
    for count in counts:
        ways.append(ways[-1] + (ways[-1] << (8 * size * count)))
    packed = ways[-1].to_bytes(size * (total + 1), "little")

    def n_splits(records: int) -> int:
        subsets = int.from_bytes(packed[size * records : size * (records + 1)], "little")
        return subsets - (records == 0) - (records == total)  # the empty and the full set are no splits

    def sides(cost: int) -> list[int]:
        return [(total + cost) // 2, (total - cost) // 2] if cost else [total // 2]

    def n_of_cost(cost: int) -> int:
        return sum(n_splits(records) for records in sides(cost))

    # Costs have the parity of the total. Those from the table's end on weigh the same: they are told apart only when
    # one of them is drawn.
    least = next(cost for cost in range(total % 2, total + 1, 2) if n_of_cost(cost))
    inner = range(least, min(total + 1, least + len(table) - 1), 2)
    splits = [n_of_cost(cost) for cost in inner]
    weights = [n * int(table[cost - least]) for n, cost in zip(splits, inner, strict=True)]
    n_outer = (1 << k) - 2 - sum(splits)
    draw = big_integer_below(stream, sum(weights) + n_outer * int(table[-1]))
    if draw < sum(weights):
        at = 0
        while draw >= weights[at]:
            draw -= weights[at]
            at += 1
        cost, draw = inner[at], draw % splits[at]
    else:
        cost, draw = least + 2 * len(inner), (draw - sum(weights)) % n_outer
        while draw >= n_of_cost(cost):
            draw -= n_of_cost(cost)
            cost += 2
    records = sides(cost)[0]
    if draw >= n_splits(records):
        draw -= n_splits(records)
        records = sides(cost)[1]
    draw += records == 0  # in the order of the walk below, the empty set comes first and the full set last
    right = [False] * k
    for j in range(k, 0, -1):
        without = (ways[j - 1] >> (8 * size * records)) & ((1 << (8 * size)) - 1)
        if draw >= without:
            draw -= without
            records -= counts[j - 1]
            right[j - 1] = True
    return right


def subset_median_pmf(counts: Sequence[int], table: Weights) -> dict[tuple[bool, ...], Fraction]:
    """Return the exact distribution of :func:`subset_median` by listing every split."""
    k = len(counts)
    splits = [tuple(bool(subset >> j & 1) for j in range(k)) for subset in range(1, 2**k - 1)]
    costs = [abs(sum(c if right else -c for c, right in zip(counts, split, strict=True))) for split in splits]
    return dict(zip(splits, exponential_pmf(costs, table), strict=True))
