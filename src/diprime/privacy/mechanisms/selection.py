"""Private selection: the exponential mechanism and permute-and-flip, in integers.

selection.md has the proofs. The exact distribution of each mechanism (``*_pmf``) is a list of fractions, from which
tests compute the privacy loss of neighbouring inputs instead of estimating it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, NoReturn, final, get_args

import numpy as np
import numpy.typing as npt

from diprime.kernels import sampling
from diprime.kernels.constants import ABSENT_COST
from diprime.privacy.charges import Receipt, UnpaidReleaseError, check_receipt
from diprime.privacy.mechanisms.weights import Weights, weight_table
from diprime.privacy.randomness import STREAM_WORDS, Streams, secret_words

Rule = Literal["exponential mechanism", "permute-and-flip"]
Costs = npt.NDArray[np.int64]

_MAX_SUM_OF_WEIGHTS = 1 << 63


@final
class Selection:
    """Private selection of one candidate from each of several sets of candidates.

    The weight of a candidate falls by e^(-epsilon/cost_range) for each unit of cost, where epsilon is the receipt's. If
    adding one record changes all costs of a set by amounts in an interval of length ``cost_range``, and changes the
    costs of at most ``times`` sets, all picks together cost ``times``·epsilon. Each set can be picked from only once.

    Parameters
    ----------
    receipt : Receipt
        The receipt of the selections. Its charge names the mechanism.
    streams : array of shape (n_sets, STREAM_WORDS)
        The random bits of each set.
    cost_range : int
        The range of the costs: the one that was charged.
    n_candidates : int
        The largest number of candidates of a set.
    times : int, default=1
        The number of paid releases that the selections use up: the number of sets whose costs one record can change.
    """

    def __init__(
        self, receipt: Receipt, streams: Streams, *, cost_range: int, n_candidates: int, times: int = 1
    ) -> None:
        rule = _use(receipt, times, cost_range)
        self._set_up(rule, weight_table(receipt.charge.epsilon, cost_range, n_candidates), streams)

    def _set_up(self, rule: str, table: Weights, streams: Streams) -> None:
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
        """The weight of a candidate whose cost is k above the least."""
        return self._table

    @classmethod
    def with_published_weights(cls, receipt: Receipt, table: Weights, streams: Streams) -> Selection:
        """Return selections with weights of their own, for baselines whose published weights cost more than is charged.

        Nothing ties the weights to the receipt: only its mechanism is checked, and that it is used up.
        """
        selection = cls.__new__(cls)
        selection._set_up(_use(receipt, 1, None), table, streams)
        return selection

    @classmethod
    def uniform(cls, streams: Streams, n_candidates: int) -> Selection:
        """Return selections in which all candidates have the same weight: they ignore all costs, and so are free."""
        selection = cls.__new__(cls)
        selection._set_up("exponential mechanism", weight_table(Fraction(0), 1, n_candidates), streams)
        return selection

    def take_streams(self, sets: npt.NDArray[np.int64], rule: Rule) -> Streams:
        """Return the random bits of some sets, for one pick from each by ``rule``; refuse a second pick."""
        if rule != self._rule:
            raise UnpaidReleaseError(f"A selection was charged for {self._rule}, but made by {rule}.")
        # A mask or a negative index would name a set twice without np.unique noticing.
        if sets.ndim != 1 or sets.dtype.kind not in "iu" or (sets < 0).any():
            raise ValueError("The sets must be a one-dimensional array of indices, none of them negative.")
        with self._lock:
            if self._picked[sets].any() or len(np.unique(sets)) < len(sets):
                raise UnpaidReleaseError("A set of candidates that was paid for once is picked from twice.")
            self._picked[sets] = True
        taken = secret_words(len(sets), STREAM_WORDS)
        # Any mode but this one makes another copy, which is not overwritten. The indices were checked by _picked.
        return np.take(self._streams, sets, axis=0, out=taken, mode="clip")

    def pick(
        self, sets: npt.NDArray[np.int64], costs: Costs, mirrored: npt.NDArray[np.uint8] | None = None
    ) -> npt.NDArray[np.int64]:
        """Pick one candidate from each of some sets.

        Parameters
        ----------
        sets : array of shape (n,)
            The indices of the sets.
        costs : array of shape (n, n_slots)
            The costs of their candidates. A slot of cost ``ABSENT_COST`` has no candidate; which slots these are must
            not depend on private data.
        mirrored : array of shape (n, n_blocks), optional
            Where nonzero, the second half of a block of slots has the same costs as the first half, and its own entries
            are ignored.

        Returns
        -------
        picks : array of shape (n,)
            The slots that were picked; -1 where a set has no candidate.
        """
        self._check_shapes(sets, costs, mirrored)
        picks = np.empty(len(costs), dtype=np.int64)
        if self._rule == "exponential mechanism":
            streams = self.take_streams(sets, "exponential mechanism")
            if mirrored is None:
                mirrored = np.zeros((len(costs), 1), dtype=np.uint8)
            sums = np.empty(mirrored.shape[1], dtype=np.uint64)
            sampling.exponential(costs, mirrored, self.table, streams, sums, picks)
        else:
            streams = self.take_streams(sets, "permute-and-flip")
            if mirrored is not None:
                half = costs.shape[1] // mirrored.shape[1] // 2
                blocks = costs.reshape(*mirrored.shape, 2 * half)
                blocks[mirrored > 0, half:] = blocks[mirrored > 0, :half]
            order = np.empty(costs.shape[1], dtype=np.int64)
            sampling.permute_and_flip(costs, self.table, streams, order, picks)
        return picks

    def _check_shapes(self, sets: npt.NDArray[np.int64], costs: Costs, mirrored: npt.NDArray[np.uint8] | None) -> None:
        """Check what the kernels rely on: they read past the end of short arrays, and sums of weights wrap around."""
        if len(costs) != len(sets) or (mirrored is not None and len(mirrored) != len(sets)):
            raise ValueError("There must be one row of costs for each set.")
        if costs.shape[1] * int(self._table[0]) >= _MAX_SUM_OF_WEIGHTS:
            raise ValueError("There are more candidates than the weights were made for.")


def _use(receipt: Receipt, times: int, cost_range: int | None) -> str:
    """Use a receipt up and return its mechanism, which must be a selection."""
    check_receipt(receipt)
    rule = receipt.charge.mechanism
    if rule not in get_args(Rule):
        raise UnpaidReleaseError(f"{receipt.charge.what}: charged for {rule}, but released by a selection.")
    receipt.use(rule, times, calibrated_to=cost_range)
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
