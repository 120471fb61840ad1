"""Batches of records become partitions: they are encoded when they arrive, in one byte for each value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain import Domain
from diprime.domain.batches import EncodedBatches, check_lengths
from diprime.domain.encoding import Codes
from diprime.domain.persons import MIXED_GROUPS, PersonIndex, Persons
from diprime.engines.memory import Scratch
from diprime.engines.partition import LocalPartitions, Partition
from diprime.engines.persons import Target, UsedRecords

PARTITION_ROWS = 1 << 22
"""How many rows a partition in scratch files has: what is made of it beside, in memory, is a few bytes for each."""
GROUPS_WITH_SCRATCH = (
    "Groups cannot be given with scratch, because the records of each person are chosen in memory; leave out scratch."
)


def _encoded(
    batches: Iterable[tuple[Any, ...]], domain: Domain, n_threads: int
) -> Iterator[tuple[Codes, Target, Persons | None]]:
    """Encode batches of records, targets and perhaps persons as they arrive."""
    index = PersonIndex()
    of_persons: bool | None = None
    for X, y, *groups in batches:
        codes = domain.encode(X, n_threads=n_threads)
        target = domain.encode_target(y, n_threads=n_threads)
        persons = index.encode(groups[0]) if groups and groups[0] is not None else None
        check_lengths(len(codes), target, persons)
        if of_persons not in (None, persons is not None):
            raise ValueError(MIXED_GROUPS)
        of_persons = persons is not None
        yield codes, target, persons


def encode_batches(
    batches: Iterable[tuple[Any, ...]], domain: Domain, n_threads: int, *, of_persons: bool = False
) -> LocalPartitions:
    """Encode batches into one partition in memory.

    ``of_persons`` says that there are persons, even if there is no batch to tell.
    """
    codes: list[Codes] = []
    targets: list[Target] = [np.zeros(0, dtype=np.int32)]
    persons: list[Persons] = []
    for codes_of_batch, target, persons_of_batch in _encoded(batches, domain, n_threads):
        codes.append(codes_of_batch)
        targets.append(target)
        if persons_of_batch is not None:
            persons.append(persons_of_batch)
    whose = np.concatenate([np.zeros(0, dtype=np.int64), *persons]) if persons or of_persons else None
    rows = EncodedBatches(domain.n_features, codes)
    return LocalPartitions([Partition(rows, UsedRecords(np.concatenate(targets), persons=whose))])


def write_batches(
    batches: Iterable[tuple[Any, ...]], domain: Domain, n_threads: int, scratch: Scratch
) -> LocalPartitions:
    """Encode batches into partitions in scratch files; however many there are, they take the memory of one batch."""
    writer = _Writer(domain.n_features, scratch, PARTITION_ROWS)
    for codes, target, persons in _encoded(batches, domain, n_threads):
        if persons is not None:
            raise ValueError(GROUPS_WITH_SCRATCH)
        writer.write(codes, target)
    return LocalPartitions(writer.partitions())


class _Writer:
    """Cuts encoded rows into partitions of the same size.

    Parameters
    ----------
    n_features : int
        The number of features.
    scratch : Scratch
        Where the partitions are kept.
    partition_rows : int
        The number of rows of each partition but the last.
    """

    def __init__(self, n_features: int, scratch: Scratch, partition_rows: int) -> None:
        self._scratch = scratch
        self._shape = (partition_rows, n_features)
        self._parts: list[tuple[Codes, Target]] = []
        self._n_free = 0

    def write(self, codes: Codes, target: Target) -> None:
        """Append rows."""
        begin = 0
        while begin < len(codes):
            if self._n_free == 0:
                self._n_free = self._shape[0]
                self._parts.append((self._empty(self._shape, np.uint8), self._empty(self._shape[:1], np.int32)))
            n = min(self._n_free, len(codes) - begin)
            here = slice(self._shape[0] - self._n_free, self._shape[0] - self._n_free + n)
            self._parts[-1][0][here] = codes[begin : begin + n]
            self._parts[-1][1][here] = target[begin : begin + n]
            self._n_free -= n
            begin += n

    def _empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        return self._scratch.empty(shape, dtype)

    def partitions(self) -> list[Partition]:
        """Return the partitions; one without rows if there are no rows."""
        n_rows, n_features = self._shape
        sizes = [n_rows] * (len(self._parts) - 1) + [n_rows - self._n_free]
        parts = self._parts or [(np.zeros((0, n_features), dtype=np.uint8), np.zeros(0, dtype=np.int32))]
        return [
            Partition(EncodedBatches(n_features, [codes[:n]]), UsedRecords(target[:n]), self._scratch)
            for (codes, target), n in zip(parts, sizes, strict=True)
        ]
