"""Partitions of the encoded rows of a fit, their storage, and the weights of records."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads
from diprime.domain import Domain
from diprime.domain.encoding import Codes, Rows
from diprime.domain.records import (
    MIXED_GROUPS,
    NO_PERSONS,
    EncodedBatches,
    PersonDigests,
    Persons,
    check_lengths,
    new_key,
)
from diprime.execution.executor import Executor, InProcess, PartialSum, StateUpdate

Weights = npt.NDArray[np.uint8]

NO_WEIGHTS: Weights = np.zeros(0, dtype=np.uint8)
"""Stands for weights that are all one."""


MAX_WEIGHT = 255
MAX_ROWS = 1 << 40
"""Maximum number of rows of a fit, and maximum sum of their weights."""
MAX_PARTITION_ROWS = 1 << 31
"""Maximum number of rows of a partition."""
_BLOCK_ROWS = 1 << 18


def check_sizes(sizes: Sequence[int]) -> None:
    """Raise `ValueError` if a partition, or all together, have more rows than the integers of engines can count."""
    if max(sizes) > MAX_PARTITION_ROWS:
        raise ValueError(
            f"A partition has more than the maximum of {MAX_PARTITION_ROWS:,} rows. Divide the data into more "
            "partitions."
        )
    if sum(sizes) > MAX_ROWS:
        raise ValueError(f"The data have more than the maximum of {MAX_ROWS:,} rows.")


def check_weight(weight: int) -> None:
    """Raise `ValueError` if the sum of weights exceeds what the integers of engines can count."""
    if weight > MAX_ROWS:
        raise ValueError(
            f"The total record weight exceeds the supported maximum of {MAX_ROWS:,}. Reduce max_records_per_group."
        )


def total_of(weights: Weights | None, n: int) -> int:
    """Return the sum of the weights of n records."""
    return n if weights is None else int(weights.sum(dtype=np.int64))


def blocks_of(n: int) -> Iterator[slice]:
    """Yield blocks of n records, so that intermediate results need little memory."""
    for begin in range(0, n, _BLOCK_ROWS):
        yield slice(begin, min(begin + _BLOCK_ROWS, n))


def weighted_counts(values: npt.NDArray[Any], weights: Weights | None, n: int) -> npt.NDArray[np.int64]:
    """Return the total weight of the records with each value below n."""
    # Float64 adds integers exactly up to 2^53, far above any engine's sum of weights.
    return np.bincount(values, weights, minlength=n).astype(np.int64)


_BLOCK_BYTES = 1 << 24


class ArrayStorage(Protocol):
    """Allocator of arrays."""

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a new array with arbitrary content."""


@dataclass(frozen=True)
class InMemoryStorage:
    """Storage in the memory of the process."""

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a new array with arbitrary content."""
        return np.empty(shape, dtype=dtype)


@dataclass(frozen=True)
class ScratchStorage:
    """Storage in memory-mapped files of a directory.

    A file has no name, or loses it before anything is written, and no other user can open it. It is deleted with its
    mapping, or when the process ends.
    """

    folder: Path

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise ValueError(f"The scratch directory {self.folder} does not exist. Create it, or choose another.")

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a new array on reserved disk space. Writing to a mapped page without any would end the process."""
        n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if n_bytes == 0:
            return np.empty(shape, dtype=dtype)
        with self.file("about two bytes of free space per value") as file:
            _preallocate(file.fileno(), n_bytes)
            mapped: npt.NDArray[Any] = np.memmap(file, dtype=dtype, mode="r+", shape=shape)
        return mapped.view(np.ndarray)

    @contextmanager
    def file(self, needed: str) -> Iterator[IO[bytes]]:
        """Open a new file; an error states what the disk needs."""
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                yield file
        except OSError as error:
            advice = f"choose a directory on a disk with {needed}"
            raise OSError(error.errno, f"{self._problem(error)} {self.folder}; {advice}") from None

    @staticmethod
    def _problem(error: OSError) -> str:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return "No space is left in the scratch directory" if full else "Cannot create a file in the scratch directory"


def _preallocate(file: int, n_bytes: int) -> None:
    """Reserve disk space for a file."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, n_bytes)
        return
    for begin in range(0, n_bytes, _BLOCK_BYTES):
        os.write(file, bytes(min(_BLOCK_BYTES, n_bytes - begin)))


IN_MEMORY = InMemoryStorage()


def stored(values: npt.NDArray[Any], storage: ArrayStorage, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a copy of an array, allocated in a storage."""
    copy = storage.empty(values.shape, dtype)
    copy[:] = values
    return copy


Target = npt.NDArray[np.int32]


@dataclass(frozen=True)
class SampledRecords:
    """Targets, weights and groups of the records that a fit uses."""

    target: Target  # shape (n,): encoded targets, negative for dropped records
    weights: Weights | None = None  # shape (n,): weights of the records; None if all are one
    persons: Persons | None = None  # shape (n, 2): digests of people; None without groups


@dataclass(frozen=True)
class Partition:
    """Encoded rows, the first state of a partition."""

    rows: Rows  # features
    records: SampledRecords  # targets, weights and groups
    memory: ArrayStorage = IN_MEMORY  # storage of the arrays that a fit derives from the rows

    def copy(self) -> Partition:
        """Return this partition itself, because no update changes it."""
        return self

    @property
    def total_weight(self) -> int:
        """Number of rows, or the sum of their weights."""
        return total_of(self.records.weights, self.rows.n_rows)


class Partitions(Protocol):
    """All rows of a fit, wherever they are stored."""

    @property
    def of_persons(self) -> bool:
        """Whether the rows have group identifiers."""

    def whole(self) -> Partition:
        """Return all rows as one partition. Raise an error unless they are in memory."""

    def executor(
        self, threads: Threads, first: Sequence[Sequence[StateUpdate]] = (), sizes: Sequence[int] | None = None
    ) -> Executor:
        """Return an executor that has applied the first updates, and has partitions of the given sizes."""


@dataclass(frozen=True)
class LocalPartitions:
    """Rows in this process, in one or more partitions."""

    parts: Sequence[Partition]

    @property
    def of_persons(self) -> bool:
        """Whether the rows have group identifiers."""
        return self.parts[0].records.persons is not None

    def whole(self) -> Partition:
        """Return the only partition. Raise `ValueError` if there are several, or if it is in files."""
        if len(self.parts) > 1 or self.parts[0].memory is not IN_MEMORY:
            raise ValueError("This estimator requires all rows in memory. Do not pass scratch.")
        return self.parts[0]

    def executor(
        self, threads: Threads, first: Sequence[Sequence[StateUpdate]] = (), sizes: Sequence[int] | None = None
    ) -> Executor:
        """Return an executor in this process."""
        return InProcess(self.parts, sizes or [part.rows.n_rows for part in self.parts], threads, first)


@dataclass(frozen=True)
class UpdatedPartitions:
    """Partitions with updates that every executor applies first."""

    partitions: Partitions
    updates: Sequence[Sequence[StateUpdate]]
    sizes: Sequence[int]  # number of rows of each partition after the updates

    @property
    def of_persons(self) -> bool:
        """Whether the rows have group identifiers."""
        return self.partitions.of_persons

    def whole(self) -> Partition:
        """Raise `AssertionError`, because rows that are needed in memory never have updates."""
        raise AssertionError("Updated partitions are not in memory.")

    def executor(
        self, threads: Threads, first: Sequence[Sequence[StateUpdate]] = (), sizes: Sequence[int] | None = None
    ) -> Executor:
        """Return an executor that has applied these updates and then ``first``."""
        return self.partitions.executor(threads, [*self.updates, *first], sizes or self.sizes)


class Weighed(Protocol):
    """State with a total weight."""

    @property
    def total_weight(self) -> int:
        """Number of records, or the sum of their weights."""


def total_weight(state: Weighed, threads: Threads, out: PartialSum | None = None) -> PartialSum:
    """Return the number of records, or the sum of their weights."""
    return np.array(state.total_weight, dtype=np.int64)


class EncodedTargets(Protocol):
    """State with the encoded targets and weights of its records. Targets of dropped records are negative."""

    @property
    def targets(self) -> npt.NDArray[np.integer[Any]]:
        """Encoded targets."""

    @property
    def weights(self) -> Weights | None:
        """Weights of the records; None if all are one."""


@dataclass(frozen=True)
class TargetCountsQuery:
    """Query for the total weight of the records with each value of the target."""

    n_targets: int

    def __call__(self, state: EncodedTargets, threads: Threads, out: PartialSum | None = None) -> PartialSum:
        """Return the counts, shape (n_targets,)."""
        counts = np.zeros(self.n_targets, dtype=np.int64)
        for block in blocks_of(len(state.targets)):
            known = state.targets[block] >= 0
            weights = None if state.weights is None else state.weights[block][known]
            counts += weighted_counts(state.targets[block][known], weights, self.n_targets)
        return counts


PARTITION_ROWS = 1 << 22
"""Number of rows of a partition in scratch files. A fit also needs a few bytes of memory for each row."""


def _encoded(
    batches: Iterable[tuple[Any, ...]],
    domain: Domain,
    n_threads: int,
    mark_outside: bool,
    digests: PersonDigests | None,
) -> Iterator[tuple[Codes, Target, Persons | None]]:
    """Encode batches of records, targets and, if present, groups as they arrive."""
    digests = digests or PersonDigests(new_key(), domain.missing_texts)
    of_persons: bool | None = None
    for X, y, *groups in batches:
        codes = domain.encode(X, n_threads=n_threads)
        target = domain.encode_target(y, n_threads=n_threads, mark_outside=mark_outside)
        persons = digests.encode(groups[0]) if groups and groups[0] is not None else None
        check_lengths(len(codes), target, persons)
        if of_persons not in (None, persons is not None):
            raise ValueError(MIXED_GROUPS)
        of_persons = persons is not None
        yield codes, target, persons


def encode_batches(
    batches: Iterable[tuple[Any, ...]],
    domain: Domain,
    n_threads: int,
    *,
    scratch: ScratchStorage | None = None,
    of_persons: bool = False,
    mark_outside: bool = False,
    digests: PersonDigests | None = None,
) -> LocalPartitions:
    """Encode batches into one partition in memory, or into several in scratch files with one batch in memory.

    ``of_persons`` states whether there are groups, in case there are no batches. ``digests`` is shared with other
    partitions. ``mark_outside`` gives targets outside the domain codes of their own.
    """
    encoded = _encoded(batches, domain, n_threads, mark_outside, digests)
    if scratch is not None:
        writer = _Writer(domain.n_features, scratch, PARTITION_ROWS)
        for batch in encoded:
            writer.write(*batch)
        return LocalPartitions(writer.partitions(of_persons=of_persons))
    parts = list(encoded)
    persons = [of_batch for _, _, of_batch in parts if of_batch is not None]
    whose = np.concatenate([NO_PERSONS, *persons]) if persons or ((of_persons or digests) and not parts) else None
    target = np.concatenate([np.zeros(0, dtype=np.int32), *(of_batch for _, of_batch, _ in parts)])
    rows = EncodedBatches(domain.n_features, [codes for codes, _, _ in parts])
    return LocalPartitions([Partition(rows, SampledRecords(target, persons=whose))])


class _Writer:
    """Writer of encoded rows to partitions of equal size, except for the last."""

    def __init__(self, n_features: int, scratch: ScratchStorage, partition_rows: int) -> None:
        self._scratch = scratch
        self._shape = (partition_rows, n_features)
        self._parts: list[tuple[Codes, Target, Persons | None]] = []
        self._n_free = 0

    def write(self, codes: Codes, target: Target, persons: Persons | None) -> None:
        """Append rows."""
        begin = 0
        while begin < len(codes):
            if self._n_free == 0:
                self._n_free = self._shape[0]
                n_rows = self._shape[0]
                empty = self._scratch.empty
                whose = None if persons is None else empty((n_rows, 2), np.uint64)
                self._parts.append((empty(self._shape, np.uint8), empty((n_rows,), np.int32), whose))
            n = min(self._n_free, len(codes) - begin)
            here = slice(self._shape[0] - self._n_free, self._shape[0] - self._n_free + n)
            for kept, of_batch in zip(self._parts[-1], (codes, target, persons), strict=True):
                if kept is not None and of_batch is not None:
                    kept[here] = of_batch[begin : begin + n]
            self._n_free -= n
            begin += n

    def partitions(self, *, of_persons: bool) -> list[Partition]:
        """Return the partitions, or one empty partition if there are no rows."""
        n_rows, n_features = self._shape
        sizes = [n_rows] * (len(self._parts) - 1) + [n_rows - self._n_free]
        nobody = NO_PERSONS if of_persons else None
        parts = self._parts or [(np.zeros((0, n_features), dtype=np.uint8), np.zeros(0, dtype=np.int32), nobody)]
        return [
            Partition(
                EncodedBatches(n_features, [codes[:n]]),
                SampledRecords(target[:n], persons=None if persons is None else persons[:n]),
                self._scratch,
            )
            for (codes, target, persons), n in zip(parts, sizes, strict=True)
        ]
