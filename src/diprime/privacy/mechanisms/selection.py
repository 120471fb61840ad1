"""Private selection: the exponential mechanism and permute-and-flip."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from diprime.kernels import sampling
from diprime.privacy.mechanisms.weights import Weights
from diprime.privacy.randomness import Streams

Rule = Literal["exponential", "permute-and-flip"]
Costs = npt.NDArray[np.int64]
ABSENT_COST = 1 << 62  # the cost of a slot that holds no candidate


def select(
    rule: Rule,
    costs: Costs,
    table: Weights,
    streams: Streams,
    twice: npt.NDArray[np.uint8] | None = None,
) -> npt.NDArray[np.int64]:
    """Pick one candidate from each row of costs, row i with stream i; -1 where a row holds none.

    Where ``twice[i, block]`` is set, the second half of a block of row i has the costs of the first and may be left
    unwritten: the same candidates, read once.

    If adding one record changes every cost of a row by an amount in an interval of length ``cost_range``, the pick is
    epsilon-DP for the pair that made the table, for either rule. Slots of cost ``ABSENT_COST`` are no candidates; which
    ones are must not depend on private data.

    *Exponential mechanism*: Pr[s] = W[c(s) - m]/total, m the least cost. Let δ(s) be the change of c(s), and δ* that
    of m; both lie in one interval of length R. The index of s moves by δ(s) - δ*, so its weight, and with it
    the total, changes by a factor in an interval [x, y] with y/x = e^epsilon. The quotient of two such factors
    is at most e^epsilon.

    *Permute-and-flip*: with uniform arrival times Pr[r] = p(r)·∫(0,1) Π_{s≠r} (1 - t·p(s)) dt, p(s) = W[c(s) - m]/W[0].
    New p / old p lies in [1/A, B] with A, B >= 1 and A·B = e^epsilon. So Pr'[r] <= B·p(r)·∫(0,1) Π (1 - t·p(s)/A) dt =
    A·B·p(r)·∫(0,1/A) Π (1 - u·p(s)) du <= e^epsilon·Pr[r].
    """
    picks = np.empty(len(costs), dtype=np.int64)
    if rule == "exponential":
        if twice is None:
            twice = np.zeros((len(costs), 1), dtype=np.uint8)
        sums = np.empty(twice.shape[1], dtype=np.uint64)
        sampling.exponential(costs, twice, table, streams, sums, picks)
    else:
        if twice is not None:
            half = costs.shape[1] // twice.shape[1] // 2
            blocks = costs.reshape(*twice.shape, 2 * half)
            blocks[twice > 0, half:] = blocks[twice > 0, :half]
        order = np.empty(costs.shape[1], dtype=np.int64)
        sampling.permute_and_flip(costs, table, streams, order, picks)
    return picks


def _weights(costs: Sequence[int], table: Weights) -> list[int]:
    least = min(costs)
    if least == ABSENT_COST:
        raise ValueError("There is no candidate.")
    return [int(table[min(c - least, len(table) - 1)]) if c != ABSENT_COST else 0 for c in costs]


def exponential_pmf(costs: Sequence[int], table: Weights) -> list[Fraction]:
    """Return the exact distribution of the exponential mechanism over one row of costs."""
    weights = _weights(costs, table)
    total = sum(weights)
    return [Fraction(w, total) for w in weights]


def permute_and_flip_pmf(costs: Sequence[int], table: Weights) -> list[Fraction]:
    """Return the exact distribution of permute-and-flip over one row of costs."""
    biases = [Fraction(w, int(table[0])) for w in _weights(costs, table)]

    def win(candidate: int) -> Fraction:
        polynomial = [Fraction(1)]  # of Π (1 - t·p(s)) over the others, by powers of t
        for other, bias in enumerate(biases):
            if other != candidate:
                shifted = [Fraction(0), *(-bias * c for c in polynomial)]
                polynomial = [a + b for a, b in zip([*polynomial, Fraction(0)], shifted, strict=True)]
        return biases[candidate] * sum((c / (power + 1) for power, c in enumerate(polynomial)), Fraction(0))

    return [win(candidate) for candidate in range(len(costs))]
