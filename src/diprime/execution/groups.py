"""Contribution bounds: the sampled records of each person share a fixed total weight.

A fit uses at most ``max_records`` of each person's records that have a target, sampled with random bits per record.
Whatever their number, their weights are integers that add up to the public W
(:func:`~diprime.domain.records.person_weight`). A record of weight w counts as w equal records, so each person counts
as W records or none. Neither the sample nor the weights depend on other people. docs/privacy.md contains the proof.

A person's records may be in several partitions. Each partition returns its candidates: for each person, the digests and
bits of the ``max_records`` records with the smallest bits. The coordinator chooses among the candidates of all
partitions, and sends each partition the weights of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads
from diprime.domain.records import Persons, drawn_records, person_weight, sorted_by_person
from diprime.execution.executor import PartialSum
from diprime.execution.partition import Partition, Partitions, SampledRecords, UpdatedPartitions, Weights, stored
from diprime.privacy.randomness import RandomSource, StreamCarrier, Streams, bits_of_rows

CANDIDATES = 1 << 24
"""Approximate number of candidates that the coordinator holds in memory at a time."""

_Bits = npt.NDArray[np.uint64]


class GroupCandidates(NamedTuple):
    """Records of a partition that may be used: their rows, digests of people, and random bits."""

    rows: npt.NDArray[np.int64]
    persons: Persons
    bits: _Bits


@dataclass(frozen=True)
class DrawnPartition:
    """State of a partition that has drawn its candidates. No update changes it."""

    candidates: GroupCandidates

    def copy(self) -> DrawnPartition:
        """Return this state itself."""
        return self


@dataclass(frozen=True)
class DrawCandidates(StreamCarrier):
    """Update that draws 64 bits per row, determined by its number in all partitions, and keeps the smallest."""

    streams: Streams  # shape (1, 33): stream of all rows
    first_row: int  # number of the first row of this partition
    max_records: int  # contribution bound

    def __call__(self, state: Partition, threads: Threads) -> DrawnPartition:
        """Keep at most ``max_records`` records with a target per person."""
        target, persons, memory = state.records.target, state.records.persons, state.memory
        assert persons is not None
        usable = np.flatnonzero(target >= 0)
        bits = bits_of_rows(self.streams, self.first_row, len(target))
        rows = usable[drawn_records(persons[usable], bits[usable], self.max_records)]
        kept = ((rows, np.int64), (persons[rows], np.uint64), (bits[rows], np.uint64))
        return DrawnPartition(GroupCandidates(*(stored(values, memory, dtype) for values, dtype in kept)))


@dataclass(frozen=True)
class CandidatesBetween:
    """Query for the candidates with digests in a range, which contains all records of a person or none."""

    low: int  # minimum of the first integer of the digests
    high: int  # its maximum

    def __call__(self, state: DrawnPartition, threads: Threads, out: PartialSum | None = None) -> GroupCandidates:
        """Return the candidates in the order of their rows."""
        found = state.candidates
        first = found.persons[:, 0]
        here = (first >= np.uint64(self.low)) & (first <= np.uint64(self.high))
        return GroupCandidates(found.rows[here], found.persons[here], found.bits[here])


@dataclass(frozen=True)
class KeepRecords:
    """Update that sets the weights of the sampled records and drops all others."""

    content: npt.NDArray[np.uint8]  # weight of each row, 0 for dropped rows; packed bits if all weights are 0 or 1
    weighted: bool  # whether ``content`` contains weights

    @classmethod
    def of_weights(cls, weights: Weights, *, weighted: bool) -> KeepRecords:
        """Return the update for the weights of all rows."""
        return cls(weights if weighted else np.packbits(weights > 0), weighted)

    def __call__(self, state: Partition, threads: Threads) -> Partition:
        """Set the weights, and a negative target for dropped rows."""
        used, memory = state.records, state.memory
        weights = self.content if self.weighted else np.unpackbits(self.content, count=len(used.target))
        target = stored(np.where(weights > 0, used.target, -1), memory, np.int32)
        kept = stored(weights, memory, np.uint8) if self.weighted else None
        return replace(state, records=SampledRecords(target, kept, used.persons))


def bound_contributions(partitions: Partitions, max_records: int, source: RandomSource, threads: Threads) -> Partitions:
    """Sample at most ``max_records`` records of each person, and set their weights.

    Every record gets 64 fresh random bits, and the records of a person with the smallest bits are kept. These bits come
    from a stream of their own, so if everyone has one record, the fit is bit-identical to a fit without groups.
    """
    executor, stream = partitions.executor(threads), source.stream_apart()
    sizes = executor.sizes
    firsts = np.cumsum([0, *sizes]).tolist()
    executor.apply([DrawCandidates(stream, first, max_records) for first in firsts[:-1]])
    weights = [np.zeros(n, dtype=np.uint8) for n in sizes]
    for low, high in _ranges(-(-sum(sizes) // CANDIDATES)):
        _weigh(executor.collect(CandidatesBetween(low, high)), max_records, weights)
    updates = [KeepRecords.of_weights(of_rows, weighted=max_records > 1) for of_rows in weights]
    return UpdatedPartitions(partitions, [updates], sizes)


def _ranges(n: int) -> Iterator[tuple[int, int]]:
    """Divide all 64-bit integers into n ranges of about the same size."""
    bounds = [(i << 64) // max(n, 1) for i in range(max(n, 1) + 1)]
    return ((low, high - 1) for low, high in pairwise(bounds))


def _weigh(candidates: Sequence[GroupCandidates], max_records: int, weights: Sequence[Weights]) -> None:
    """Choose among the candidates of all partitions, and write the weights of the chosen records."""
    persons, bits = (np.concatenate([getattr(found, name) for found in candidates]) for name in ("persons", "bits"))
    order, ranks, sizes = sorted_by_person(persons, bits)  # in a tie, the first record
    kept = ranks < max_records
    chosen = np.zeros(len(order), dtype=np.uint8)
    n_kept = np.minimum(sizes, max_records)
    chosen[order[kept]] = split_weight(ranks[kept], n_kept[kept], person_weight(max_records))
    begin = 0
    for found, of_rows in zip(candidates, weights, strict=True):
        of_rows[found.rows] = chosen[begin : begin + len(found.rows)]
        begin += len(found.rows)


def split_weight(ranks: npt.NDArray[np.int64], n_kept: npt.NDArray[np.int64], weight: int) -> Weights:
    """Divide a weight among the records of a person, as equally as integers allow.

    >>> split_weight(np.arange(5), np.full(5, 5), 12)
    array([3, 3, 2, 2, 2], dtype=uint8)
    """
    return (weight // n_kept + (ranks < weight % n_kept)).astype(np.uint8)
