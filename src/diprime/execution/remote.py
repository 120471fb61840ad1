"""Functions that run on cluster workers, with private values and error messages redacted.

When a task fails, a cluster logs its arguments and its error message, shows them on a dashboard, and sends them to
clients. Any of these may contain private data. Arguments and results are therefore wrapped in :class:`Opaque`, and
tasks never raise: a task that fails returns a :class:`TaskFailure`, whose message reveals nothing about the data.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce, wraps
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np

from diprime._util import InputError
from diprime._util.resources import Threads
from diprime.domain import Domain
from diprime.domain.columns import BLOCK_ROWS, row_blocks
from diprime.domain.records import DrawnPart, EncodedBatches, PersonDigests, Records, Tally, check_lengths
from diprime.execution.executor import PartialSum, PartitionState, Query, StateUpdate
from diprime.execution.partition import Partition, SampledRecords

FAN_IN = 8
"""The largest number of sums that a task or the driver adds: another stage takes longer than to collect them."""


@dataclass(frozen=True, repr=False, eq=False)
class Opaque:
    """Wrapper that hides a private value from logs and dashboards.

    >>> Opaque([1, 2, 3])
    <opaque>
    """

    content: Any

    def __repr__(self) -> str:
        return "<opaque>"

    def __sizeof__(self) -> int:
        """Return the size including all arrays. Clusters use it to decide where to move data and when to spill."""
        arrays: list[pickle.PickleBuffer] = []
        rest = pickle.dumps(self.content, protocol=5, buffer_callback=arrays.append)
        return len(rest) + sum(array.raw().nbytes for array in arrays)


@dataclass(frozen=True)
class TaskFailure:
    """Result of a task that failed."""

    sentence: str  # error message that reveals nothing about the data
    of_input: bool  # whether the input to the fit caused the failure


@dataclass(frozen=True, order=True)
class StaleState:
    """Result of a task whose partitions lack earlier updates, because the worker that held them was lost."""

    n_updates: int  # number of updates that the partitions have applied


TaskResult = Opaque | TaskFailure | StaleState

CHANGED_ROWS = TaskFailure(
    "The cluster recomputed a partition of X after losing a worker, and the rows had changed, so there "
    "is no model. Fit to a deterministic table, for example one read from files.",
    of_input=False,
)


def unwrap(result: TaskResult) -> Any:
    """Return the content of a result, or raise the error of a failure. A `StaleState` is returned unchanged."""
    if isinstance(result, TaskFailure):
        raise (ValueError if result.of_input else RuntimeError)(result.sentence)
    return result if isinstance(result, StaleState) else result.content


def redact_errors(work: Callable[..., Any]) -> Callable[..., TaskResult]:
    """Decorate a function to take and return opaque values, and to return failures instead of raising errors.

    If an argument is a failure or a stale state, it is returned and the function is not called.
    """

    @wraps(work)
    def run(*arguments: TaskResult) -> TaskResult:
        failures = [argument for argument in arguments if isinstance(argument, TaskFailure)]
        stale = [argument for argument in arguments if isinstance(argument, StaleState)]
        if failures or stale:
            return failures[0] if failures else min(stale)
        try:
            result = work(*map(unwrap, arguments))
            return result if isinstance(result, StaleState | TaskFailure) else Opaque(result)
        except InputError as error:  # its message contains only names, types and shapes
            return TaskFailure(str(error), of_input=True)
        except Exception as error:  # noqa: BLE001 -- the message of any error may quote rows
            kind = type(error).__name__
            return TaskFailure(
                f"A worker of the cluster could not {work.__name__.replace('_', ' ')} ({kind}). Check that workers "
                "have enough memory, and the same version of diprime as this process.",
                of_input=False,
            )

    return run


class PartitionBundle:
    """Partitions that one task processes together, with their states.

    A result is a pure function of the encoded partitions, all updates so far, and a query. The states are cached
    between tasks, so that a task applies only the latest updates. They can be out of date if a worker was lost and its
    partitions were encoded again, or if a task runs again. The task then applies the missing updates if it carries
    them, and returns :class:`StaleState` otherwise.
    """

    def __init__(self, partitions: Sequence[Partition], n_threads: int = 1) -> None:
        self._partitions = partitions
        self._n_threads = n_threads
        self._run = ""
        self._lock = Lock()
        self._begin()

    def _begin(self) -> None:
        """Discard all updates and return to the encoded rows."""
        self._states: Sequence[PartitionState] = self._partitions
        self._n_updates = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return copied states. A pickle shares arrays, which the next update could overwrite before they are sent."""
        with self._lock:
            attributes = {name: value for name, value in vars(self).items() if name != "_lock"}
            return {**attributes, "_states": [state.copy() for state in self._states]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def work(self, item: WorkItem) -> Any:
        """Apply the missing updates and return the sum or list of the query's values, or else `StaleState`."""
        with self._lock, Threads(self._n_threads) as threads:
            if item.run != self._run or self._n_updates > item.n_before + len(item.updates):
                self._run = item.run
                self._begin()
            if self._n_updates < item.n_before:
                return StaleState(self._n_updates)
            for updates in item.updates[self._n_updates - item.n_before :]:
                self._apply(updates, threads)
            values = (item.query(state, threads) for state in self._states)
            return list(values) if item.is_each else _sum_of(values)

    def _apply(self, updates: Sequence[StateUpdate], threads: Threads) -> None:
        """Apply one update to each partition, which consumes its state."""
        states, n_updates = self._states, self._n_updates
        self._begin()  # if an update fails, no valid state is left
        self._states = [update(state, threads) for state, update in zip(states, updates, strict=True)]
        self._n_updates = n_updates + 1


@dataclass(frozen=True)
class WorkItem:
    """Query for a bundle, with the updates that precede it."""

    run: str  # identifier of the sequence of updates, which begins with the encoded rows
    n_before: int  # number of updates that precede ``updates``
    updates: Sequence[Sequence[StateUpdate]]  # updates to apply in order, each with one entry per partition
    query: Query
    is_each: bool = False  # whether to return the value of each partition instead of their sum


def query_name(query: Query) -> str:
    """Return the name of a query without "Query", for use in task names.

    >>> from diprime.execution.partition import total_weight
    >>> from diprime.forest.rows import NodeSumsQuery
    >>> query_name(total_weight), query_name(NodeSumsQuery(None))
    ('total-weight', 'node-sums')
    """
    name = getattr(query, "__name__", type(query).__name__).removesuffix("Query")
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", "-", name).lower()


class RemoteExecutor:
    """Base class of executors on clusters, which keep all updates in case states are lost."""

    def __init__(self, sizes: Sequence[int], updates: Sequence[Sequence[StateUpdate]]) -> None:
        self.sizes = sizes
        self._run = uuid4().hex
        self._updates = list(updates)
        self._n_applied = 0  # number of updates that all partitions have applied, unless their states were lost

    def apply(self, updates: Sequence[StateUpdate]) -> None:
        """Apply one update to each partition at the next query."""
        self._updates.append(updates)


class RemotePartitions:
    """Encoded rows on a cluster."""

    def whole(self) -> Partition:
        """Raise `ValueError`, because the rows cannot be collected in this process."""
        raise ValueError("This estimator requires all rows in this process, not on a cluster. Pass tables in memory.")


@contextmanager
def input_errors(where: str) -> Iterator[None]:
    """Mark `ValueError` and `TypeError` as safe to show. Their subclasses, such as Arrow's errors, may quote rows."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if type(error) not in (ValueError, TypeError):
            raise
        raise InputError(f"In {where}: {error}") from None


@redact_errors
def tally_rows(batches: Iterable[Records], tally: Tally[Any], drawn: DrawnPart | None, number: int) -> Any:
    """Return the tally of one partition of a distributed table."""
    with input_errors(f"partition {number} of the data"):
        return tally(batches, drawn)


@redact_errors
def encode_rows(
    records: Records, domain: Domain, digests: PersonDigests | None, mark_outside: bool, number: int
) -> Partition:
    """Encode one partition of a distributed table. Identifiers, if any, are replaced by digests."""
    with input_errors(f"partition {number} of the data"):
        reader = domain.reader(records.X)
        target = domain.encode_target(records.y, mark_outside=mark_outside)
        persons = None if digests is None else digests.encode(records.groups)
        check_lengths(reader.n_rows, target, persons)
    codes = np.empty((reader.n_rows, domain.n_features), dtype=np.uint8)
    reader.read(0, reader.n_rows, codes)
    return Partition(EncodedBatches(domain.n_features, [codes]), SampledRecords(target, persons=persons))


def digest_of(partition: Partition, key: bytes) -> bytes:
    """Return a keyed digest of encoded rows, to detect whether recomputed rows have changed."""
    digest = hashlib.blake2b(key=key)
    rows = partition.rows
    codes = np.empty((min(BLOCK_ROWS, rows.n_rows), rows.n_features), dtype=np.uint8)
    for start, stop in row_blocks(0, rows.n_rows, BLOCK_ROWS):
        block = codes[: stop - start]
        rows.read(start, stop, block)
        digest.update(block.data)
    digest.update(partition.records.target.data)
    if partition.records.persons is not None:
        digest.update(partition.records.persons.data)
    return digest.digest()


def encode_with_digest(encode: Callable[..., TaskResult], key: Opaque, *arguments: Any) -> TaskResult:
    """Encode a partition and return it with its digest."""
    return add_digest(encode(*arguments), key)


@redact_errors
def add_digest(partition: Partition, key: bytes) -> tuple[Partition, bytes]:
    """Return a partition with its digest."""
    return partition, digest_of(partition, key)


@redact_errors
def identify_rows(encoded: tuple[Partition, bytes]) -> tuple[int, bytes]:
    """Return the number of rows of a partition and its digest."""
    partition, digest = encoded
    return partition.rows.n_rows, digest


@redact_errors
def bundle_partitions(digests: Sequence[bytes], *encoded: tuple[Partition, bytes]) -> PartitionBundle | TaskFailure:
    """Return a bundle of partitions on the same worker, or a failure if their digests have changed."""
    if [digest for _, digest in encoded] != digests:
        return CHANGED_ROWS
    return PartitionBundle([partition for partition, _ in encoded])


@redact_errors
def work_on_rows(bundle: PartitionBundle, item: WorkItem) -> Any:
    """Run a work item on a bundle."""
    return bundle.work(item)


@redact_errors
def add_sums(*sums: PartialSum) -> PartialSum:
    """Add partial sums."""
    return _sum_of(sums)


def _sum_of(sums: Iterable[PartialSum]) -> PartialSum:
    """Add partial sums without changing any of them."""
    total: PartialSum = reduce(np.add, sums)
    return total
