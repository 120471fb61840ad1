"""Functions for the Python workers of Spark's executors: encoding, and queries of encoded rows.

The workers keep the states of partitions between tasks, so that a task needs only the last updates and no rows. A lost
state is rebuilt from the encoded rows and all updates so far, and is bit-identical.

An executor that runs k tasks at a time has k Python workers, processes that run one task after the other, and gives a
task to any idle worker. If each of them kept its own states, all would eventually have all partitions of the executor,
and apply all of their updates. Therefore, the worker that has built a state keeps it and listens at a socket. Other
workers forward tasks for this partition to it, and return its answers.

The sockets are in a directory that only the user of the executor can open. If there is no such directory, workers keep
their own states. If the worker with a state is gone, there is no answer, and the state is rebuilt. Spark ends workers
that have been idle for a minute, even while they run a forwarded task.

Requires the extra ``diprime[spark]``.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Thread, current_thread
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from diprime.domain import Domain
from diprime.domain.records import NO_PERSONS, DrawnPart, EncodedBatches, PersonDigests, Persons, Records, Tally
from diprime.execution.partition import Partition, SampledRecords, Target
from diprime.execution.remote import (
    CHANGED_ROWS,
    Opaque,
    PartitionBundle,
    StaleState,
    TaskFailure,
    TaskResult,
    WorkItem,
    digest_of,
    encode_rows,
    redact_errors,
    tally_rows,
    work_on_rows,
)

BLOCK_BYTES = 1 << 25
"""Approximate size of codes in one element of an RDD, in bytes. Java's arrays are limited to 2 GiB."""

BLOCK_SCHEMA = "block binary"

Row = Sequence[bytes]  # of a table of pickled blocks


@dataclass(frozen=True)
class Columns:
    """Names of a table's columns, which arrive numbered, and of the two that are not features."""

    names: Sequence[str]
    target: str | None
    groups: str | None

    def records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Records]:
        """Yield the records of each batch."""
        roles = [name for name in (self.target, self.groups) if name is not None]
        for batch in batches:
            named = pa.Table.from_batches([batch]).rename_columns(list(self.names))
            y, groups = (None if name is None else named[name] for name in (self.target, self.groups))
            yield Records(named.drop_columns(roles), y, groups)


@dataclass(frozen=True)
class EncodingJob:
    """Encoding of all partitions."""

    domain: Domain
    columns: Columns
    digests: PersonDigests | None  # for the ids of persons
    mark_outside: bool  # whether targets outside the domain have codes of their own
    key: bytes  # key of digests of rows, unique to the fit


@dataclass(frozen=True)
class TallyJob:
    """Tally of all partitions."""

    columns: Columns
    tally: Tally[Any]
    drawn: Sequence[DrawnPart] | None  # used records of each partition

    def part(self, number: int) -> DrawnPart | None:
        """Return the used records of a partition: none, if it did not exist when records were sampled."""
        nothing = DrawnPart(b"", np.zeros(0, dtype=np.uint8))
        return None if self.drawn is None else self.drawn[number] if number < len(self.drawn) else nothing


@dataclass(frozen=True)
class EncodedBlock:
    """Consecutive encoded rows of a partition."""

    codes: npt.NDArray[np.uint8]  # shape (n, n_features)
    records: SampledRecords
    digest: bytes  # shows whether recomputed rows are the same


@dataclass(frozen=True)
class PartitionJob:
    """Work item for all partitions."""

    fit: str
    item: WorkItem  # with updates for every partition
    digests: Sequence[bytes]  # digest of the rows of each partition

    def for_partition(self, number: int) -> Opaque:
        """Return the work item of one partition."""
        return Opaque(replace(self.item, updates=[[update[number]] for update in self.item.updates]))


def tally_batches(batches: Iterable[pa.RecordBatch], job: TallyJob) -> Iterator[pa.RecordBatch]:
    """Tally the rows of one partition, batch by batch, and yield one row with the result."""
    number = _task().partitionId()
    arguments = job.columns.records(batches), job.tally, job.part(number), number
    yield _row(tally_rows(*map(Opaque, arguments)))


def encode_blocks(batches: Iterable[pa.RecordBatch], job: EncodingJob) -> Iterator[pa.RecordBatch]:
    """Encode the rows of one partition, batch by batch, and yield at least one block."""
    how = job.domain, job.digests, job.mark_outside, _task().partitionId()
    pending: list[TaskResult] = []
    n_bytes = 0
    for records in job.columns.records(batches):
        encoded = encode_rows(*map(Opaque, (records, *how)))
        pending.append(encoded)
        if isinstance(encoded, TaskFailure):
            break
        n_bytes += records.X.num_rows * job.domain.n_features
        if n_bytes >= BLOCK_BYTES:
            yield _packed(job, pending)
            pending, n_bytes = [], 0
    yield _packed(job, pending)


def _packed(job: EncodingJob, encoded: Sequence[TaskResult]) -> pa.RecordBatch:
    """Return encoded rows as one row of a table of blocks."""
    return _row(join_rows(Opaque(job), *encoded))


def _row(outcome: TaskResult) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"block": [pickle.dumps(outcome, protocol=5)]})


@redact_errors
def join_rows(job: EncodingJob, *parts: Partition) -> EncodedBlock:
    """Join encoded rows, and compute their digest."""
    n_rows = [part.rows.n_rows for part in parts]
    codes = np.empty((sum(n_rows), job.domain.n_features), dtype=np.uint8)
    for part, begin, n in zip(parts, np.cumsum([0, *n_rows]), n_rows, strict=False):
        part.rows.read(0, n, codes[begin : begin + n])
    records = _joined([part.records for part in parts], of_persons=job.digests is not None)
    joined = Partition(EncodedBatches(job.domain.n_features, [codes]), records)
    return EncodedBlock(codes, records, digest_of(joined, job.key))


def _joined(records: Sequence[SampledRecords], *, of_persons: bool) -> SampledRecords:
    """Concatenate records."""
    target: Target = np.concatenate([np.empty(0, dtype=np.int32), *(some.target for some in records)])
    if not of_persons:
        return SampledRecords(target)
    persons: Persons = np.concatenate([NO_PERSONS, *(some.persons for some in records if some.persons is not None)])
    return SampledRecords(target, persons=persons)


def place(number: int, blocks: Iterable[Row], fit: str) -> TaskResult:
    """Build the first state of a partition, and return the number and the digest of its rows.

    If Spark repeats this with different rows, only the state whose digest reaches the driver is used.
    """
    read = _unpacked(blocks)
    if not isinstance(read, Opaque):
        return read
    bundle, n_rows, digest = read.content
    cache_of(fit).put(number, digest, Opaque(bundle))
    return Opaque((n_rows, digest))


def answer(number: int, nothing: Iterable[object], job: PartitionJob) -> TaskResult:
    """Run a job for a partition from its state. Without a state, the partition is stale."""
    list(nothing)  # otherwise, Spark ends the worker
    done = cache_of(job.fit).work(number, job.digests[number], job.for_partition(number))
    return StaleState(0) if done is None else done


def answer_from_rows(number: int, blocks: Iterable[Row], job: PartitionJob) -> TaskResult:
    """Run a job for a partition, starting from its rows if there is no state.

    All blocks are read even if there is a state, because Spark ends workers that leave some unread. Recomputed rows
    that have changed could let a record count twice, so they are refused.
    """
    read = _unpacked(blocks)
    if not isinstance(read, Opaque):
        return read
    bundle, _, digest = read.content
    if digest != job.digests[number]:
        return CHANGED_ROWS
    states, task = cache_of(job.fit), job.for_partition(number)
    done = states.work(number, digest, task)
    if done is None:
        states.put(number, digest, Opaque(bundle))
        done = work_on_rows(Opaque(bundle), task)
    return done


def forget(nothing: Iterable[object], fit: str) -> None:
    """Make the Python workers of an executor drop the states of a fit."""
    list(nothing)
    clear_cache(fit)


def _unpacked(blocks: Iterable[Row]) -> TaskResult:
    """Return the result of `read_blocks`, or the failure of a block."""
    return read_blocks(*(pickle.loads(packed) for (packed,) in blocks))


@redact_errors
def read_blocks(*blocks: EncodedBlock) -> tuple[PartitionBundle, int, bytes]:
    """Return a bundle with the blocks of a partition, the number of rows, and their digest."""
    rows = EncodedBatches(blocks[0].codes.shape[1], [block.codes for block in blocks])
    records = _joined([block.records for block in blocks], of_persons=blocks[0].records.persons is not None)
    bundle = PartitionBundle([Partition(rows, records)], n_threads=_task().cpus())
    return bundle, rows.n_rows, hashlib.blake2b(b"".join(block.digest for block in blocks), digest_size=32).digest()


def _task() -> TaskContext:
    """Return the context of the current task."""
    context = TaskContext.get()
    assert context is not None
    return context


_BACKLOG = 128
_END_SECONDS = 1
_PAUSE_SECONDS = 0.1
_NO_ANSWER = (OSError, EOFError)

_caches: dict[str, StateCache] = {}  # of at most one fit


def cache_of(fit: str) -> StateCache:
    """Return the states of a fit, and drop those of any other fit."""
    if fit not in _caches:
        clear_all()
        # Spark collects garbage after each task, which takes longer than the task, because it visits all objects of the
        # imported modules. Existing objects are therefore exempt until the end of the fit.
        gc.collect()
        gc.freeze()
        _caches[fit] = StateCache(fit)
    return _caches[fit]


def clear_cache(fit: str) -> None:
    """Make all workers of the executor drop the states of a fit."""
    (_caches[fit] if fit in _caches else StateCache(fit)).clear_everywhere()


def clear_all() -> None:
    """Drop all states in this process."""
    for states in list(_caches.values()):
        states.clear()


class StateCache:
    """States of a fit, in this process and in other workers of the executor."""

    def __init__(self, fit: str) -> None:
        self._fit = fit
        self._bundles: dict[int, tuple[bytes, TaskResult]] = {}
        self._directory = Path(tempfile.gettempdir(), f"diprime-{fit}-{os.getppid()}")  # common to all workers
        self._listening: Thread | None = None

    def put(self, number: int, digest: bytes, bundle: TaskResult) -> None:
        """Store the state of a partition with the digest of its rows, and link the partition to this worker."""
        self._bundles[number] = digest, bundle
        with suppress(OSError):  # if this fails, others build their own states
            self._listen()
            link = self._directory / f"{number}-{os.getpid()}"
            link.symlink_to(str(os.getpid()))
            link.replace(self._directory / f"of-{number}")  # replaces a link to a previous worker

    def work(self, number: int, digest: bytes, task: Opaque) -> TaskResult | None:
        """Run a work item wherever the partition's state is, or return None if there is no state for these rows."""
        done = self._work_here(number, digest, task)
        return self._ask(f"of-{number}", (number, digest, task)) if done is None else done

    def _work_here(self, number: int, digest: bytes, task: Opaque) -> TaskResult | None:
        of_rows, bundle = self._bundles.get(number, (b"", None))
        return None if bundle is None or of_rows != digest else work_on_rows(bundle, task)

    def clear_everywhere(self) -> None:
        """Make all workers of the executor drop their states at the end of a fit."""
        with suppress(OSError):
            for name in [path.name for path in self._directory.iterdir() if path.name.isdigit()]:
                self._ask(name, None)
        self.clear()
        if _is_private(self._directory):
            with suppress(OSError):  # another worker may be doing the same
                for path in filter(_is_dead, list(self._directory.iterdir())):
                    path.unlink(missing_ok=True)
                self._directory.rmdir()

    def clear(self) -> None:
        """Drop the states in this process and stop listening, at the end of a fit."""
        if _caches.get(self._fit) is self:
            del _caches[self._fit]
            gc.unfreeze()
        numbers, self._bundles = list(self._bundles), {}
        thread, self._listening = self._listening, None
        if thread is not None:
            self._ask(str(os.getpid()), None)  # wakes the thread up, which ends
            thread.join(_END_SECONDS)
            with suppress(OSError):
                for number in numbers:
                    link = self._directory / f"of-{number}"
                    if str(link.readlink()) == str(os.getpid()):
                        link.unlink()
        with suppress(OSError):
            self._directory.rmdir()  # succeeds for the last worker, and for one that could not listen

    def _listen(self) -> None:
        """Start to answer other workers."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(self._directory):
            raise PermissionError
        if self._listening is None:
            listener = Listener(str(self._directory / str(os.getpid())), "AF_UNIX", _BACKLOG)
            self._listening = Thread(target=self._serve, args=[listener], daemon=True)
            self._listening.start()

    def _serve(self, listener: Listener) -> None:
        """Answer other workers, each in its own thread, until the states are dropped."""
        with suppress(OSError), listener:  # the socket may have been removed with the directory
            while self._listening is current_thread():
                try:
                    connection = listener.accept()
                except OSError:  # for example, too many open files
                    time.sleep(_PAUSE_SECONDS)
                else:
                    Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        """Run the work item of another worker, or drop the states of this process if there is none."""
        with suppress(*_NO_ANSWER), connection:
            request = connection.recv()
            if request is None:
                self.clear()
                return
            connection.send(self._work_here(*request))

    def _ask(self, name: str, request: tuple[int, bytes, Opaque] | None) -> TaskResult | None:
        """Return the answer of the worker at a socket, or None if there is none."""
        if _is_private(self._directory):
            with suppress(*_NO_ANSWER), Client(str(self._directory / name), "AF_UNIX") as connection:
                connection.send(request)
                answer: TaskResult | None = connection.recv()
                return answer
        return None


def _is_dead(path: Path) -> bool:
    """Return whether no process listens at a socket, or at the target of a link."""
    try:
        Client(str(path), "AF_UNIX").close()
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    return False


def _is_private(directory: Path) -> bool:
    """Return whether only this user can open a directory, so that its sockets are trusted. On Windows, return False."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    of_others = stat.S_IRWXG | stat.S_IRWXO
    return (
        hasattr(os, "geteuid")
        and found.st_uid == os.geteuid()
        and stat.S_ISDIR(found.st_mode)
        and not found.st_mode & of_others
    )
