"""Private selection: the exponential mechanism and permute-and-flip, in integers.

selection.md, beside this file, has the proofs. Each mechanism has its exact distribution here (``*_pmf``), in
fractions, so that a test computes the privacy loss of neighbouring inputs instead of estimating it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, NoReturn, final, get_args

import numpy as np
import numpy.typing as npt

from diprime.kernels import sampling
from diprime.privacy.ledger import Receipt, UnpaidReleaseError, check_receipt
from diprime.privacy.mechanisms.weights import Weights, weight_table
from diprime.privacy.randomness import Streams

Rule = Literal["exponential mechanism", "permute-and-flip"]
Costs = npt.NDArray[np.int64]

ABSENT_COST = 1 << 62  # the cost of a slot that holds no candidate
_MAX_SUM_OF_WEIGHTS = 1 << 63


@final
class Selection:
    """Selections that were paid for: one from each of several sets of candidates, over disjoint records.

    If adding one record changes every cost of its set by an amount in an interval of length ``cost_range``, all picks
    together cost what the receipt says. Every set is picked from once.

    Parameters
    ----------
    receipt : Receipt
        What pays. Its charge names the mechanism.
    table : array
        The weight of a candidate whose cost is k above the least.
    streams : array of shape (n_sets, STREAM_WORDS)
        The random bits of each set.
    times : int, default=1
        How many of the releases that were paid for these selections are: how many sets one record can be part of.
    """

    def __init__(self, receipt: Receipt, table: Weights, streams: Streams, times: int = 1) -> None:
        check_receipt(receipt)
        rule = receipt.charge.mechanism
        if rule not in get_args(Rule):
            raise UnpaidReleaseError(f"{receipt.charge.what}: charged for {rule}, but released by a selection.")
        receipt.use(rule, times)
        self._set_up(rule, table, streams)

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
    def calibrated(
        cls, receipt: Receipt, streams: Streams, *, cost_range: int, n_candidates: int, times: int = 1
    ) -> Selection:
        """Return selections whose weights follow from what was paid: e^(-epsilon/cost_range) for each unit of cost."""
        check_receipt(receipt)
        return cls(receipt, weight_table(receipt.charge.epsilon, cost_range, n_candidates), streams, times)

    @classmethod
    def uniform(cls, streams: Streams, n_candidates: int) -> Selection:
        """Return selections in which all candidates weigh the same: they look at no cost, so nobody pays for them."""
        selection = cls.__new__(cls)
        selection._set_up("exponential mechanism", weight_table(Fraction(0), 1, n_candidates), streams)
        return selection

    def take_streams(self, sets: npt.NDArray[np.int64], rule: Rule) -> Streams:
        """Return the random bits of some sets, for one pick from each by ``rule``; refuse a second pick."""
        if rule != self._rule:
            raise UnpaidReleaseError(f"A selection was charged for {self._rule}, but made by {rule}.")
        # Masks, slices and negative numbers are other names of the same sets, which np.unique does not know.
        if sets.ndim != 1 or sets.dtype.kind not in "iu" or (sets < 0).any():
            raise ValueError("The sets must be a one-dimensional array of places, which are not negative.")
        with self._lock:
            if self._picked[sets].any() or len(np.unique(sets)) < len(sets):
                raise UnpaidReleaseError("A set of candidates that was paid for once is picked from twice.")
            self._picked[sets] = True
        return self._streams[sets]

    def pick(
        self, sets: npt.NDArray[np.int64], costs: Costs, mirrored: npt.NDArray[np.uint8] | None = None
    ) -> npt.NDArray[np.int64]:
        """Pick one candidate from each of some sets.

        Parameters
        ----------
        sets : array of shape (n,)
            The places of the sets among those of the selection.
        costs : array of shape (n, n_slots)
            The costs of their candidates. Slots of cost ``ABSENT_COST`` hold none; which ones must not depend on
            private data.
        mirrored : array of shape (n, n_blocks), optional
            Where it is set, the second half of a block of slots has the costs of the first and need not be written.

        Returns
        -------
        picks : array of shape (n,)
            The slots picked; -1 where a row holds no candidate.
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
        """Refuse what the kernels, which check no bounds, would read as other sets or other random bits."""
        if len(costs) != len(sets) or (mirrored is not None and len(mirrored) != len(sets)):
            raise ValueError("There must be one row of costs for each set.")
        if costs.shape[1] * int(self._table[0]) >= _MAX_SUM_OF_WEIGHTS:
            raise ValueError("There are more candidates than the weights were made for.")


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
