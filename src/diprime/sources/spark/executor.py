"""Partitions in the executors of Spark. Requires the extra ``diprime[spark]``.

Rows are encoded where Spark has them, and stay there, in an RDD that is cached in memory or on disk. A query, with the
preceding updates, is one job: a pure function of the encoded rows and of all updates so far. The Python workers keep
states (:mod:`~diprime.sources.spark.workers`), so a job only sends new updates to the rows, and reads no rows. If
states have been lost, another job reads the rows and applies all updates. The lineage does not grow with the levels of
a forest or the rounds of boosting.

Partial sums are added in the executors, in a tree, until the driver collects the last few. Job descriptions state only
the purpose of a job.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import RDD, InheritableThread, SparkContext, StorageLevel

from diprime._util.resources import Threads
from diprime.execution import remote
from diprime.execution.executor import PartialSum, Query, StateUpdate
from diprime.execution.remote import (
    Opaque,
    RemoteExecutor,
    RemotePartitions,
    StaleState,
    TaskResult,
    WorkItem,
    add_sums,
    query_name,
    unwrap,
)
from diprime.sources.spark import workers
from diprime.sources.spark.workers import BLOCK_SCHEMA, EncodingJob, PartitionJob, Row, TallyJob

SMALL_BYTES = 1 << 19
"""Size from which work items are broadcast. Spark would do so itself, but keep them until the session ends."""

FORGET_SECONDS = 10
"""Maximum time that the end of a fit waits for Python workers to drop their states."""

_DESCRIPTION = "spark.job.description"


@dataclass(frozen=True)
class SparkPlacement:
    """Encoded partitions in the executors."""

    fit: str
    rdd: RDD[Row]  # pickled blocks of each partition
    places: RDD[Any]  # empty partitions at the same places
    sizes: Sequence[int]  # private number of rows of each partition, which stays with the coordinator
    digests: Sequence[bytes]  # digest of the rows of each partition


class SparkExecutor(RemoteExecutor):
    """Executor with partitions in the executors of Spark."""

    def __init__(
        self,
        placement: SparkPlacement,
        sizes: Sequence[int] | None = None,
        updates: Sequence[Sequence[StateUpdate]] = (),
    ) -> None:
        super().__init__(sizes or placement.sizes, updates)
        self._placement = placement

    def sum(self, query: Query, out: PartialSum | None = None) -> PartialSum:
        """Return the sum over all partitions, without using ``out``."""
        total: PartialSum = reduce(np.add, self._values(query))
        return total

    def collect(self, query: Query) -> list[Any]:
        """Return the value of each partition."""
        return [value for (value,) in self._values(query, is_each=True)]

    def _values(self, query: Query, *, is_each: bool = False) -> list[Any]:
        """Return a few sums, or each value. If any state has been lost, start again from the rows of all partitions."""
        results = self._results(query, self._n_applied, is_each=is_each)
        if any(isinstance(result, StaleState) for result in results):
            results = self._results(query, 0, is_each=is_each, with_rows=True)
        values = [unwrap(result) for result in results]
        self._n_applied = len(self._updates)
        return values

    def _results(self, query: Query, n_before: int, *, is_each: bool, with_rows: bool = False) -> list[TaskResult]:
        """Query all partitions that have applied ``n_before`` updates, and add the results until few are left."""
        placement, item = self._placement, WorkItem(self._run, n_before, self._updates[n_before:], query, is_each)
        job = Opaque(PartitionJob(placement.fit, item, placement.digests))
        rdd, answer = (placement.rdd, workers.answer_from_rows) if with_rows else (placement.places, workers.answer)
        with redact_cluster_errors(), _described(rdd.context, query_name(query)), _sent(rdd.context, job) as get:
            values = rdd.mapPartitionsWithIndex(lambda number, rows: [answer(number, rows, get().content)])
            results: list[TaskResult] = (values if is_each else _tree(values)).collect()
        return results


def _tree(sums: RDD[TaskResult]) -> RDD[TaskResult]:
    """Add sums in a tree until few are left."""
    n_parts = sums.getNumPartitions()
    fan_in = remote.FAN_IN  # tasks have the module of their own process
    while n_parts > fan_in:
        n_parts = -(-n_parts // fan_in)
        keyed = sums.mapPartitionsWithIndex(lambda i, parts: ((i // fan_in, part) for part in parts))
        sums = keyed.reduceByKey(add_sums, n_parts).values()
    return sums


@contextmanager
def _described(context: SparkContext, words: str) -> Iterator[None]:
    """Set the description of the jobs in a block for Spark's pages and logs, then restore the user's description."""
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"diprime {words}")
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # None removes it


@contextmanager
def _sent(context: SparkContext, content: Opaque) -> Iterator[Callable[[], Opaque]]:
    """Send a value to tasks until the end of a block, as part of the tasks if it is small, which is faster."""
    packed = pickle.dumps(content, protocol=5)
    if len(packed) <= SMALL_BYTES:
        yield partial(pickle.loads, packed)
        return
    shared = context.broadcast(packed)
    try:
        yield lambda: pickle.loads(shared.value)
    finally:
        shared.destroy()


@contextmanager
def redact_cluster_errors() -> Iterator[None]:
    """Replace an error of Spark by one sentence without its text, which may quote rows."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 -- of any kind
        raise RuntimeError(
            f"The fit failed because Spark or its data became unavailable ({type(error).__name__}). Check that "
            "X.count() succeeds, and that the executors have enough memory and this version of diprime, then "
            "fit again."
        ) from None


@dataclass(frozen=True)
class SparkPartitions(RemotePartitions):
    """Encoded rows in the executors of Spark."""

    placement: SparkPlacement
    of_persons: bool  # whether there are groups

    def executor(
        self, threads: Threads, first: Sequence[Sequence[StateUpdate]] = (), sizes: Sequence[int] | None = None
    ) -> SparkExecutor:
        """Return an executor. A task uses as many threads as Spark gives it processors."""
        return SparkExecutor(self.placement, sizes, first)


def tallied(X: Any, job: TallyJob) -> list[Any]:
    """Tally the partitions of a table in the executors, and return the results."""
    context: SparkContext = X.sparkSession.sparkContext
    with redact_cluster_errors(), _described(context, "tally"), _sent(context, Opaque(job)) as get:
        rows = _mapped(X, lambda batches: workers.tally_batches(batches, get().content)).collect()
    return [unwrap(pickle.loads(packed)) for (packed,) in rows]


@contextmanager
def encoded(X: Any, job: EncodingJob) -> Iterator[SparkPartitions]:
    """Encode a table in the executors, and keep its codes until the end of the block."""
    context: SparkContext = X.sparkSession.sparkContext
    with redact_cluster_errors(), _described(context, "encode-rows"):
        blocks = _mapped(X, lambda batches: workers.encode_blocks(batches, job))
        rdd = blocks.setName("diprime encoded rows").persist(StorageLevel.MEMORY_AND_DISK)
    fit = uuid4().hex[:16]  # socket names must be short
    try:
        yield SparkPartitions(place(rdd, fit), of_persons=job.digests is not None)
    finally:
        _forget(rdd, fit)
        with suppress(Exception):  # if Spark is lost, so are the rows
            rdd.unpersist()


def _mapped(X: Any, work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> RDD[Row]:
    """Return the results of a function on the partitions of a table, of which there is at least one.

    Spark gives no partitions to a table that it knows to be empty. A fit to it must succeed, as in memory, because
    whether there is an error must not depend on one row.
    """
    numbered = X.toDF(*map(str, range(len(X.columns))))  # mapInArrow does not support names with dots
    rdd: RDD[Row] = numbered.mapInArrow(work, BLOCK_SCHEMA).rdd
    if rdd.getNumPartitions() > 0:
        return rdd
    nothing: RDD[Any] = rdd.context.parallelize([], 1)
    return nothing.mapPartitions(work).map(lambda table: table["block"].to_pylist())


def place(rdd: RDD[Row], fit: str) -> SparkPlacement:
    """Build the first states in the Python workers near the cached blocks."""
    with redact_cluster_errors(), _described(rdd.context, "encode-rows"):
        begun = rdd.mapPartitionsWithIndex(lambda number, blocks: [workers.place(number, blocks, fit)]).collect()
        places = _places(rdd)
    sizes, digests = zip(*map(unwrap, begun), strict=True)
    return SparkPlacement(fit, rdd, places, sizes, digests)


def _places(rdd: RDD[Any]) -> RDD[Any]:
    """Return an RDD whose tasks run where the partitions of ``rdd`` are cached, without reading them.

    It contains all pairs of no elements and the elements of a partition. Spark evaluates the first of a pair first.
    """
    nothing: RDD[Any] = rdd.context.parallelize([], 1)
    return nothing.cartesian(rdd)


def _forget(rdd: RDD[Row], fit: str) -> None:
    """Make the Python workers of all executors with rows drop their states at the end of a fit."""

    def forget() -> None:
        with suppress(Exception), _described(rdd.context, "forget"):
            _places(rdd).foreachPartition(lambda nothing: workers.forget(nothing, fit))

    thread = InheritableThread(forget, daemon=True)
    thread.start()
    thread.join(FORGET_SECONDS)  # after a failure, perhaps none of them answers
