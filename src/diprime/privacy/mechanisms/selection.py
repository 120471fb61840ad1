"""Private selection by the exponential mechanism, permute-and-flip and random stopping.

weights.md proves the inequality of the integer weights, selection.md the mechanisms, and stopping.md that the best of a
random number of repetitions costs three times as much as one. The exact distributions (``*_pmf``) are lists of
fractions, from which tests compute the privacy loss between neighbouring inputs instead of estimating it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NoReturn, TypeVar, final

import numpy as np
import numpy.typing as npt

from diprime.kernels import sampling
from diprime.kernels.constants import ABSENT_COST
from diprime.privacy.charges import Bound, BoundKind, Mechanism, Receipt, UnpaidReleaseError, check_receipt
from diprime.privacy.measures import Epsilon, PureEpsilon
from diprime.privacy.randomness import STREAM_WORDS, RandomSource, Streams, big_integer_below, secret_words

Weights = npt.NDArray[np.uint64]

MAX_WEIGHT_BITS = 46
MAX_TABLE_LENGTH = 1 << 20
_FACTOR_BITS = 60
_GUARD_DIGITS = 40


def exp_upper(x: Fraction, bits: int = _FACTOR_BITS) -> int:
    """Return an integer that is at least 2^bits·e^(-x) and exceeds it by less than two, for x > 0."""
    # The exponent is too small by less than x·10^(1 - digits). As x·e^(-x) < 1, the power is too large by less than
    # 10^(2 - digits), which times 2^bits < 10^(bits/3 + 1) is far below one.
    digits = _GUARD_DIGITS + bits // 3
    exponent = decimal_below(x, digits)
    with localcontext(Context(prec=digits, rounding=ROUND_CEILING)):
        # Decimal.exp is correctly rounded, so the next larger number is an upper bound.
        bound = (-exponent).exp().next_plus()
        return int((bound * Decimal(2**bits)).to_integral_value(ROUND_CEILING))


def decimal_below(x: Fraction, digits: int) -> Decimal:
    """Return the largest decimal number with the given number of digits that is at most x."""
    with localcontext(Context(prec=digits, rounding=ROUND_FLOOR)):
        return Decimal(x.numerator) / Decimal(x.denominator)


@lru_cache(maxsize=64)
def weight_table(epsilon: Epsilon, cost_range: int, n_candidates: int) -> Weights:
    """Return W with W[0] a power of two and W[k+1] = max(1, ceil(W[k]·e^(-epsilon/cost_range))), rounded up throughout.

    Hence e^(-j·epsilon/cost_range) <= W[k+j]/W[k] <= 1 for all k and j, which is all that the privacy proofs use. The
    last entry also applies to all larger costs, so the inequality still holds beyond the end of the table. W[0] is
    small enough for the weights of all candidates to add up to less than 2^63. At epsilon = inf, only the lowest cost
    has a positive weight. At epsilon = 0, all weights are equal.
    """
    if epsilon == math.inf:
        return _frozen(np.array([1, 0], dtype=np.uint64))
    first_bits = min(MAX_WEIGHT_BITS, 63 - n_candidates.bit_length())
    if first_bits < 1:
        raise ValueError(f"{n_candidates} candidates are too many for one selection.")
    factor = min(exp_upper(Fraction(epsilon) / cost_range), (1 << _FACTOR_BITS) - 1)
    table = np.zeros(MAX_TABLE_LENGTH, dtype=np.uint64)
    table[0] = 1 << first_bits
    length = sampling.fill_table(factor >> 30, factor & ((1 << 30) - 1), table)
    return _frozen(table[:length].copy())


def _frozen(table: Weights) -> Weights:
    table.flags.writeable = False
    return table


Rule = Literal[Mechanism.EXPONENTIAL, Mechanism.PERMUTE_AND_FLIP]
Costs = npt.NDArray[np.int64]

_MAX_SUM_OF_WEIGHTS = 1 << 63


@final
class Selection:
    """Private selection of one candidate from each of several sets of candidates.

    The weight of a candidate decreases by e^(-epsilon/cost_range) for each unit of cost, where epsilon is the
    receipt's. If adding one record changes all costs of a set by amounts in an interval of length ``cost_range``, and
    changes the costs of at most ``times`` sets, all selections together cost ``times``·epsilon. Each set can be used
    only once.

    Shapes: streams (n_sets, STREAM_WORDS). ``times``: number of paid releases that the selections use up, which is the
    number of sets whose costs one record can change.
    """

    def __init__(
        self, receipt: Receipt, streams: Streams, *, cost_range: int, n_candidates: int, times: int = 1
    ) -> None:
        rule = _use(receipt, times, cost_range)
        self._set_up(rule, weight_table(receipt.charge.epsilon, cost_range, n_candidates), streams)

    def _set_up(self, rule: Rule, table: Weights, streams: Streams) -> None:
        self._rule = rule
        self._streams = streams
        self._picked = np.zeros(len(streams), dtype=np.bool_)
        self._lock = threading.Lock()
        self._table = table

    def __init_subclass__(cls) -> None:
        raise TypeError("Selection cannot be subclassed: a subclass could skip the payment.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("A selection cannot be copied or pickled: a copy would pick from the same sets again.")

    @property
    def table(self) -> Weights:
        """Weights of candidates, by how much their cost exceeds the lowest."""
        return self._table

    @classmethod
    def with_published_weights(cls, receipt: Receipt, table: Weights, streams: Streams) -> Selection:
        """Return selections with custom weights, for baselines whose published weights cost more than is charged.

        The weights are not checked against the receipt: only its mechanism is checked, and that it is used up.
        """
        selection = cls.__new__(cls)
        selection._set_up(_use(receipt, 1, None), table, streams)
        return selection

    @classmethod
    def uniform(cls, streams: Streams, n_candidates: int) -> Selection:
        """Return selections that give all candidates the same weight. They ignore costs, so they cost no privacy."""
        selection = cls.__new__(cls)
        selection._set_up(Mechanism.EXPONENTIAL, weight_table(Fraction(0), 1, n_candidates), streams)
        return selection

    def take_streams(self, sets: npt.NDArray[np.int64], rule: Rule) -> Streams:
        """Return the streams of some sets, for one selection from each by ``rule``, and refuse a second selection."""
        if rule is not self._rule:
            raise UnpaidReleaseError(f"A selection was charged for {self._rule}, but used {rule}.")
        # Masks and negative indices could name a set twice without np.unique noticing.
        if sets.ndim != 1 or sets.dtype.kind not in "iu" or (sets < 0).any():
            raise ValueError("The sets must be a one-dimensional array of indices, none of them negative.")
        with self._lock:
            if self._picked[sets].any() or len(np.unique(sets)) < len(sets):
                raise UnpaidReleaseError("A set of candidates was charged once but used twice.")
            self._picked[sets] = True
        taken = secret_words(len(sets), STREAM_WORDS)
        # Any other mode makes another copy, which is not overwritten. Indexing _picked has checked the indices.
        return np.take(self._streams, sets, axis=0, out=taken, mode="clip")

    def pick(
        self, sets: npt.NDArray[np.int64], costs: Costs, mirrored: npt.NDArray[np.uint8] | None = None
    ) -> npt.NDArray[np.int64]:
        """Select one candidate from each of some sets.

        Shapes: sets (n,), costs (n, n_slots), mirrored (n, n_blocks), result (n,). ``costs``: the costs of their
        candidates. A slot of cost ``ABSENT_COST`` has no candidate; which slots these are must not depend on private
        data. ``mirrored``: where nonzero, the second half of a block of slots has the same costs as the first half, and
        its own entries are ignored.
        """
        self._check_shapes(sets, costs, mirrored)
        picks = np.empty(len(costs), dtype=np.int64)
        if self._rule is Mechanism.EXPONENTIAL:
            streams = self.take_streams(sets, self._rule)
            if mirrored is None:
                mirrored = np.zeros((len(costs), 1), dtype=np.uint8)
            sums = np.empty(mirrored.shape[1], dtype=np.uint64)
            sampling.exponential(costs, mirrored, self.table, streams, sums, picks)
        else:
            streams = self.take_streams(sets, self._rule)
            if mirrored is not None:
                half = costs.shape[1] // mirrored.shape[1] // 2
                blocks = costs.reshape(*mirrored.shape, 2 * half)
                blocks[mirrored > 0, half:] = blocks[mirrored > 0, :half]
            order = np.empty(costs.shape[1], dtype=np.int64)
            sampling.permute_and_flip(costs, self.table, streams, order, picks)
        return picks

    def _check_shapes(self, sets: npt.NDArray[np.int64], costs: Costs, mirrored: npt.NDArray[np.uint8] | None) -> None:
        """Check sizes, because kernels read past the end of short arrays, and sums of weights would wrap around."""
        if len(costs) != len(sets) or (mirrored is not None and len(mirrored) != len(sets)):
            raise ValueError("There must be one row of costs for each set.")
        if costs.shape[1] * int(self._table[0]) >= _MAX_SUM_OF_WEIGHTS:
            raise ValueError("There are more candidates than the table of weights supports.")


def _use(receipt: Receipt, times: int, cost_range: int | None) -> Rule:
    """Use up a receipt and return its mechanism, which must be a selection."""
    check_receipt(receipt)
    rule = receipt.charge.mechanism
    if rule is not Mechanism.EXPONENTIAL and rule is not Mechanism.PERMUTE_AND_FLIP:
        raise UnpaidReleaseError(f"{receipt.charge.description}: charged for {rule}, but released by a selection.")
    receipt.use(rule, times, bound=None if cost_range is None else Bound(BoundKind.COST_RANGE, cost_range))
    return rule


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
        polynomial = [Fraction(1)]  # coefficients in t of the product of 1 - t·p(s) over the other candidates s
        for other, bias in enumerate(biases):
            if other != candidate:
                shifted = [Fraction(0), *(-bias * c for c in polynomial)]
                polynomial = [a + b for a, b in zip([*polynomial, Fraction(0)], shifted, strict=True)]
        return biases[candidate] * sum((c / (power + 1) for power, c in enumerate(polynomial)), Fraction(0))

    return [win(candidate) for candidate in range(len(costs))]


MIN_CATEGORIES = 2
MAX_CATEGORIES = 16
"""Largest number of categories whose splits are enumerated. 2^16 weights of 46 bits add up to less than 2^63."""


def subset_median(selection: Selection, place: int, counts: Sequence[int]) -> list[bool]:
    """Split categories into two non-empty sides by the exponential mechanism, with cost |n_C - n_notC|.

    All 2^k - 2 ordered splits of k categories are candidates, ``MIN_CATEGORIES`` <= k <= ``MAX_CATEGORIES``. Adding a
    record changes every cost by plus or minus one, so the cost range is 2.
    """
    if not MIN_CATEGORIES <= len(counts) <= MAX_CATEGORIES:
        raise ValueError(f"There must be from {MIN_CATEGORIES} to {MAX_CATEGORIES} categories.")
    (stream,) = selection.take_streams(np.array([place]), Mechanism.EXPONENTIAL)
    table, costs = selection.table, _costs_of_splits(counts)
    # Costs beyond the end of the table have the weight of its last entry.
    indices = np.minimum(costs - costs.min(), len(table) - 1)
    numbers = np.bincount(indices, minlength=len(table)).astype(np.uint64)
    up_to = np.cumsum(numbers * table)
    draw = big_integer_below(stream, int(up_to[-1]))
    index = int(np.searchsorted(up_to, np.uint64(draw), side="right"))
    draw -= int(up_to[index]) - int(numbers[index] * table[index])
    # Counting all matches takes the same time wherever the split is.
    number = 1 + int(np.searchsorted(np.cumsum(indices == index), draw % int(numbers[index]), side="right"))
    return [bool(number >> j & 1) for j in range(len(counts))]


def _costs_of_splits(counts: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the costs of all splits, ordered by number.

    Bit j of the number of a split tells whether category j is on the right. The first and the last number, which are
    the empty and the full set, are left out.
    """
    excess = np.array([-sum(counts)], dtype=np.int64)  # records on the right minus records on the left
    for count in counts:
        excess = np.concatenate([excess, excess + 2 * count])
    return np.abs(excess[1:-1])


def subset_median_pmf(counts: Sequence[int], table: Weights) -> dict[tuple[bool, ...], Fraction]:
    """Return the exact distribution of :func:`subset_median` by enumerating all splits."""
    k = len(counts)
    splits = [tuple(bool(subset >> j & 1) for j in range(k)) for subset in range(1, 2**k - 1)]
    costs = [abs(sum(c if right else -c for c, right in zip(counts, split, strict=True))) for split in splits]
    return dict(zip(splits, exponential_pmf(costs, table), strict=True))


COST_FACTOR = 3
"""Cost of the best of a random number of repetitions, relative to the cost of one."""

_Outcome = TypeVar("_Outcome")


def best_of_random_number(
    repeat: Callable[[PureEpsilon], tuple[int, _Outcome]], receipt: Receipt, max_repetitions: int, source: RandomSource
) -> _Outcome:
    """Return the outcome of lowest cost among a random number of repetitions, and reveal nothing else about them.

    The number is uniform from 1 to ``max_repetitions``, independently of the data. In a tie, the first outcome wins.

    ``repeat``: makes one repetition of the given privacy cost, and returns the cost of its outcome and the outcome.
    Repetitions must be independent and identically distributed. Nothing about them may be revealed in any other way,
    including the costs of outcomes. ``receipt``: must be charged for random stopping, at `COST_FACTOR` times the cost
    of one repetition.
    """
    check_receipt(receipt)
    measure = receipt.use(Mechanism.RANDOM_STOPPING, COST_FACTOR, bound=Bound(BoundKind.REPETITIONS, max_repetitions))
    n_repetitions = 1 + int(source.integers(max_repetitions, 1)[0])
    least, best = repeat(measure)
    for _ in range(n_repetitions - 1):
        cost, outcome = repeat(measure)
        if cost < least:
            least, best = cost, outcome
    return best


def best_of_random_number_pmf(
    repetition: Mapping[tuple[int, _Outcome], Fraction], max_repetitions: int
) -> dict[tuple[int, _Outcome], Fraction]:
    """Return the exact distribution of the best repetition, given that of one repetition, as (cost, outcome) pairs."""
    best: dict[tuple[int, _Outcome], Fraction] = {}
    worse = Fraction(1)  # probability that a repetition costs at least as much as the next group
    for cost in sorted({cost for cost, _ in repetition}):
        equal = {pair: p for pair, p in repetition.items() if pair[0] == cost and p}
        chance = sum(equal.values(), Fraction(0))
        if chance:
            wins = _no_better(worse, max_repetitions) - _no_better(worse - chance, max_repetitions)
            best |= {pair: wins * p / chance for pair, p in equal.items()}
            worse -= chance
    return best


def _no_better(p: Fraction, max_repetitions: int) -> Fraction:
    """Return the probability that an event of probability p happens in every repetition."""
    return sum((p**n for n in range(1, max_repetitions + 1)), Fraction(0)) / max_repetitions
