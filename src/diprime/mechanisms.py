"""The mechanisms: integer weight tables, exponential mechanism, permute-and-flip, subset medians, discrete Laplace.

Nothing here knows about trees. Each mechanism states what it assumes of its input and why it is private; the proofs
are those of docs/privacy.md. Each has its exact distribution beside it (``*_pmf``), in fractions, so that a test can
compute the privacy loss of neighbouring inputs instead of estimating it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from diprime.budget import Epsilon
from diprime.kernels import sampling
from diprime.kernels.constants import ABSENT_COST as ABSENT_COST
from diprime.randomness import Streams, big_integer_below

Rule = Literal["exponential", "permute-and-flip"]
Weights = npt.NDArray[np.uint64]
Costs = npt.NDArray[np.int64]

MOST_WEIGHT_BITS = 46
LONGEST_TABLE = 1 << 20
_FACTOR_BITS = 60


def exp_upper(x: Fraction, bits: int = _FACTOR_BITS) -> int:
    """Return an integer at least 2^bits·e^(-x), and less than two above it, for x > 0."""
    with localcontext(Context(prec=60, rounding=ROUND_FLOOR)) as context:
        exponent = Decimal(x.numerator) / Decimal(x.denominator)
        # decimal's exp is correctly rounded: the next number up is an upper bound.
        bound = (-exponent).exp().next_plus()
        context.rounding = ROUND_CEILING
        return int((bound * Decimal(2**bits)).to_integral_value(ROUND_CEILING))


@lru_cache(maxsize=64)
def weight_table(epsilon: Epsilon, cost_range: int, n_candidates: int) -> Weights:
    """Return W with W[0] a power of two and W[k+1] = max(1, ceil(W[k]·e^(-epsilon/cost_range))), rounded up throughout.

    Hence e^(-j·epsilon/cost_range) <= W[k+j]/W[k] <= 1 for all k and j, which is all that the proofs of privacy use.
    The last entry stands for all that follow, so the inequality also holds past the end, wherever the table is cut.
    W[0] is small enough for the weights of all candidates to add up below 2^63. At epsilon = inf only the least cost
    has weight.

    Examples
    --------
    >>> from fractions import Fraction
    >>> weight_table(Fraction(2), 2, 2)[:3] / 2.0**46
    array([1.        , 0.36787944, 0.13533528])
    """
    if epsilon == math.inf:
        return _frozen(np.array([1, 0], dtype=np.uint64))
    first_bits = min(MOST_WEIGHT_BITS, 63 - n_candidates.bit_length())
    if first_bits < 1:
        raise ValueError(f"{n_candidates} candidates are too many for one selection.")
    factor = min(exp_upper(Fraction(epsilon) / cost_range), (1 << _FACTOR_BITS) - 1)
    table = np.zeros(LONGEST_TABLE, dtype=np.uint64)
    table[0] = 1 << first_bits
    length = sampling.fill_table(factor >> 30, factor & ((1 << 30) - 1), table)
    return _frozen(table[:length].copy())


def _frozen(table: Weights) -> Weights:
    table.flags.writeable = False
    return table


def select(
    rule: Rule,
    costs: Costs,
    table: Weights,
    streams: Streams,
    mirrored: npt.NDArray[np.uint8] | None = None,
) -> npt.NDArray[np.int64]:
    """Pick one candidate from each row of costs, row i with stream i; -1 where a row holds none.

    Where ``mirrored[i, block]`` is set, the second half of a block of row i has the costs of the first and may be left
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
        if mirrored is None:
            mirrored = np.zeros((len(costs), 1), dtype=np.uint8)
        sums = np.empty(mirrored.shape[1], dtype=np.uint64)
        sampling.exponential(costs, mirrored, table, streams, sums, picks)
    else:
        if mirrored is not None:
            half = costs.shape[1] // mirrored.shape[1] // 2
            blocks = costs.reshape(*mirrored.shape, 2 * half)
            blocks[mirrored > 0, half:] = blocks[mirrored > 0, :half]
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


# Noise that reaches 2^42 is told from no other: what is released is clamped at 2^41, and true values stay below 2^38,
# so the clamped result is the same as if the sampler had gone on. Clamping a released value is post-processing.
_SATURATED = 1 << 42
_MOST_RELEASED = 1 << 41
_MOST_WHOLES_PRODUCT = 1 << 62
_EPSILON_BITS = 20
_LEAST_EPSILON_BITS = 40


def laplace_scale(epsilon: Fraction, sensitivity: int) -> tuple[int, int]:
    """Return numerator and denominator of a noise scale at least sensitivity/epsilon, small enough for the sampler.

    Epsilon is rounded down to 20 significant bits, which costs a millionth of the budget and leaves the guarantee
    on the safe side.
    """
    if epsilon < Fraction(1, 1 << _LEAST_EPSILON_BITS):
        raise ValueError("epsilon is too small: the part of it that pays for noise must be at least 2^-40.")
    rounded = min(epsilon, Fraction((1 << _EPSILON_BITS) - 1))
    bits = min(_LEAST_EPSILON_BITS, _EPSILON_BITS - math.floor(rounded).bit_length())
    while rounded * (1 << bits) < 1 << (_EPSILON_BITS - 1) and bits < _LEAST_EPSILON_BITS:
        bits += 1
    scale = Fraction(sensitivity << bits, math.floor(rounded * (1 << bits)))
    return scale.numerator, scale.denominator


def laplace_variance(epsilon: Epsilon, sensitivity: int) -> float:
    """Return the variance of the noise that :func:`discrete_laplace` adds."""
    if epsilon == math.inf:
        return 0.0
    numerator, denominator = laplace_scale(Fraction(epsilon), sensitivity)
    q = math.exp(-denominator / numerator)
    return 2 * q / math.expm1(-denominator / numerator) ** 2


def discrete_laplace(
    values: npt.NDArray[np.int64], epsilon: Epsilon, sensitivity: int, streams: Streams
) -> npt.NDArray[np.int64]:
    """Add discrete Laplace noise of scale sensitivity/epsilon to every value, row i with stream i.

    If one record changes the values by at most ``sensitivity`` in L1 norm, the result is epsilon-DP: Pr[x] is
    proportional to e^(-|x|·epsilon/sensitivity), coordinate by coordinate. The sampler is exact (Canonne, Kamath and
    Steinke 2020). At epsilon = inf nothing is added.
    """
    if epsilon == math.inf:
        return np.array(values)
    numerator, denominator = laplace_scale(Fraction(epsilon), sensitivity)
    noise = np.empty_like(values)
    sampling.draw_laplace(streams, numerator, denominator, _MOST_WHOLES_PRODUCT // numerator, _SATURATED, noise)
    return np.asarray(np.clip(values + noise, -_MOST_RELEASED, _MOST_RELEASED))


def discrete_laplace_pmf(x: int, epsilon: Fraction, sensitivity: int, bits: int = 120) -> tuple[Fraction, Fraction]:
    """Return bounds below and above Pr[noise = x], which is not a fraction: (1 - q)/(1 + q)·q^|x|, q = e^(-1/scale)."""
    numerator, denominator = laplace_scale(epsilon, sensitivity)
    above = Fraction(exp_upper(Fraction(denominator, numerator), bits), 1 << bits)
    below = max(above - Fraction(2, 1 << bits), Fraction(0))
    return (1 - above) / (1 + above) * below ** abs(x), (1 - below) / (1 + below) * above ** abs(x)
