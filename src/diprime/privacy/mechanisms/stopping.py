"""Random stopping: the best of a random number of repetitions costs three times what one of them costs.

stopping.md has the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeVar

from diprime.privacy.charges import Receipt, check_receipt
from diprime.privacy.measures import PureEpsilon
from diprime.privacy.randomness import RandomSource

RANDOM_STOPPING = "random stopping"
COST_FACTOR = 3
"""How many times the cost of one repetition the best of a random number of them costs."""

_Outcome = TypeVar("_Outcome")


def best_of_random_number(
    repeat: Callable[[PureEpsilon], tuple[int, _Outcome]], receipt: Receipt, max_repetitions: int, source: RandomSource
) -> _Outcome:
    """Return the outcome of least cost among a random number of repetitions, and nothing else about them.

    The number is uniform from 1 to ``max_repetitions``, whatever the data. Of several outcomes of the same cost, the
    first is returned.

    Parameters
    ----------
    repeat : callable
        Makes one repetition, which costs what it is given, and returns the cost of its outcome and the outcome.
        Repetitions must be independent, and all be made in the same way. What they release must not leave them by any
        other way, the cost included.
    receipt : Receipt
        The receipt, which must be charged for random stopping, `COST_FACTOR` times what one repetition costs.
    max_repetitions : int
        The largest number of repetitions: the one that was charged.
    source : RandomSource
        The random bits.

    Returns
    -------
    outcome : object
        The outcome of least cost.
    """
    check_receipt(receipt)
    measure = receipt.use(RANDOM_STOPPING, COST_FACTOR, calibrated_to=max_repetitions)
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
    """Return the exact distribution of the best repetition, given that of one: pairs of a cost and an outcome."""
    best: dict[tuple[int, _Outcome], Fraction] = {}
    worse = Fraction(1)  # the probability of a repetition that costs as much as those that are yet to be seen, or more
    for cost in sorted({cost for cost, _ in repetition}):
        equal = {pair: p for pair, p in repetition.items() if pair[0] == cost and p}
        chance = sum(equal.values(), Fraction(0))
        if chance:
            wins = _no_better(worse, max_repetitions) - _no_better(worse - chance, max_repetitions)
            best |= {pair: wins * p / chance for pair, p in equal.items()}
            worse -= chance
    return best


def _no_better(p: Fraction, max_repetitions: int) -> Fraction:
    """Return the probability that something happens in all repetitions, whose probability in each of them is p."""
    return sum((p**n for n in range(1, max_repetitions + 1)), Fraction(0)) / max_repetitions
