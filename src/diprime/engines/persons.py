"""Which of a person's records are used, and how much each weighs: all of a person's records together weigh as one.

A person keeps at most ``max_records`` of the records that have a target, chosen by random bits of their own. Whatever
their number, their weights are whole numbers that add up to W (:func:`~diprime.domain.persons.person_weight`), which
is public. A record of weight w counts as w equal records; so a person is W of them, or none, and neither the choice nor
the weights depend on anybody else. docs/privacy.md has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.domain.persons import Persons, person_weight
from diprime.engines.weights import Weights
from diprime.privacy.randomness import RandomSource

Target = npt.NDArray[np.int32]


@dataclass(frozen=True)
class UsedRecords:
    """The records that a fit uses.

    Attributes
    ----------
    target : array of shape (n,)
        The encoded targets, negative where a record is left out.
    weights : array of shape (n,) or None
        The weights of the records; None if all weigh one.
    persons : array of shape (n,) or None
        The number of the person of each record; None if every record is a person of its own.
    """

    target: Target
    weights: Weights | None = None
    persons: Persons | None = None

    def part(self, rows: npt.NDArray[np.bool_]) -> UsedRecords:
        """Return some of the records."""
        weights = None if self.weights is None else self.weights[rows]
        persons = None if self.persons is None else self.persons[rows]
        return UsedRecords(self.target[rows], weights, persons)


def choose_records(target: Target, persons: Persons, max_records: int, source: RandomSource) -> UsedRecords:
    """Choose at most ``max_records`` records of each person, and weigh them.

    Every record gets 64 fresh random bits, and a person keeps those with the least. Nothing else of a fit is drawn from
    these bits: where everybody has one record, the fit is the one without persons, to the bit.

    Parameters
    ----------
    target : array of shape (n,)
        The encoded target; rows where it is negative are left out.
    persons : array of shape (n,)
        The person of each record; records where it is negative are left out.
    max_records : int
        The largest number of records of a person.
    source : RandomSource
        The random bits.

    Returns
    -------
    used : UsedRecords
        Targets and weights.
    """
    bits = source.bits_apart(len(target))
    usable = np.flatnonzero((target >= 0) & (persons >= 0))
    order = usable[np.lexsort((bits[usable], persons[usable]))]  # person after person; in a tie, the first record
    sizes = np.unique(persons[order], return_counts=True)[1]
    ranks = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    n_kept = np.repeat(np.minimum(sizes, max_records), sizes)
    kept = ranks < n_kept
    used = np.full_like(target, -1)
    used[order[kept]] = target[order[kept]]
    if max_records == 1:
        return UsedRecords(used, persons=persons)
    weights = np.zeros(len(target), dtype=np.uint8)
    weights[order[kept]] = shares_of_weight(ranks[kept], n_kept[kept], person_weight(max_records))
    return UsedRecords(used, weights, persons)


def shares_of_weight(ranks: npt.NDArray[np.int64], n_kept: npt.NDArray[np.int64], weight: int) -> Weights:
    """Divide a weight among the records of a person: as equally as whole numbers can be, and without a rest.

    Examples
    --------
    >>> shares_of_weight(np.arange(5), np.full(5, 5), 12)
    array([3, 3, 2, 2, 2], dtype=uint8)
    """
    return (weight // n_kept + (ranks < weight % n_kept)).astype(np.uint8)
