"""Partitions in the executors of Spark. This module needs the extra ``diprime[spark]``.

Rows are encoded where Spark has them, and stay there, in an RDD that is cached in memory or on disk. A question, with
the steps before it, is one job: a pure function of the encoded rows and of all steps so far. The Python workers keep
states (:mod:`~diprime.engines.spark_states`), so that a job sends new steps only, to where the rows are, and reads no
rows. If states have been lost, another job reads the rows, and takes all steps. No lineage grows with the levels of a
forest or the rounds of boosting.

Answers are added up in the executors, in a tree, until few are left, which the driver collects and adds up.

Jobs are described by what they do, and nothing else.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any
from uuid import uuid4

import numpy as np
from pyspark import RDD, InheritableThread, SparkContext, StorageLevel

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.engines import spark_worker
from diprime.engines.executor import Answer, Question, Step
from diprime.engines.remote import Behind, Outcome, RemotePartitions, Sealed, Task, add_answers, opened, words_of
from diprime.engines.spark_worker import PIECE, Encoding, Order, Row

FAN_IN = 8
"""How many answers a task adds up at most, or the driver: a further stage takes longer than to collect them."""

SMALL_BYTES = 1 << 19
"""What is larger is broadcast: Spark would do so, and keep it until the session ends."""

FORGET_SECONDS = 10
"""How long the end of a fit waits for Python workers to drop their states."""

_DESCRIPTION = "spark.job.description"


@dataclass(frozen=True)
class Placed:
    """Encoded partitions in the executors.

    Attributes
    ----------
    fit : str
        The name of the fit.
    rdd : RDD
        The pieces of each partition, packed.
    places : RDD
        As many partitions, at the same places, with nothing in them.
    sizes : sequence of int
        The number of rows of each partition; they are private, and stay with the coordinator.
    digests : sequence of bytes
        The digest of the rows of each partition.
    """

    fit: str
    rdd: RDD[Row]
    places: RDD[Any]
    sizes: Sequence[int]
    digests: Sequence[bytes]


class SparkExecutor:
    """The executor whose partitions are in the executors of Spark.

    Parameters
    ----------
    placed : Placed
        The partitions.
    """

    def __init__(self, placed: Placed) -> None:
        self.sizes = placed.sizes
        self._placed = placed
        self._run = uuid4().hex
        self._steps: list[Sequence[Step]] = []  # all so far: whoever has no state takes them again
        self._n_taken = 0  # the steps that all partitions have taken

    def advance(self, steps: Sequence[Step]) -> None:
        """Change the state of every partition by a step of its own, when something is asked."""
        self._steps.append(steps)

    def ask(self, question: Question, out: Answer | None = None) -> Answer:
        """Return the sum of the answers of all partitions, added up in the executors and what is left here.

        It does not use ``out``. If some partitions have lost their states, all answer from their rows on.
        """
        outcomes = self._outcomes(question, self._n_taken)
        if any(isinstance(outcome, Behind) for outcome in outcomes):
            outcomes = self._outcomes(question, 0, with_rows=True)
        total: Answer = reduce(np.add, map(opened, outcomes))
        self._n_taken = len(self._steps)
        return total

    def _outcomes(self, question: Question, n_before: int, *, with_rows: bool = False) -> list[Outcome]:
        """Let all partitions answer that have taken so many steps; add up in the executors, until few are left."""
        placed, task = self._placed, Task(self._run, n_before, self._steps[n_before:], question)
        order = Sealed(Order(placed.fit, task, placed.digests))
        rdd, answer = (placed.rdd, spark_worker.answer_from_rows) if with_rows else (placed.places, spark_worker.answer)
        with told(), _described(rdd.context, words_of(question)), _sent(rdd.context, order) as get:
            answers = rdd.mapPartitionsWithIndex(lambda number, rows: [answer(number, rows, get().content)])
            outcomes: list[Outcome] = _tree(answers).collect()
        return outcomes


def _tree(answers: RDD[Outcome]) -> RDD[Outcome]:
    """Add up answers, some at a time, until they are few."""
    n_parts = answers.getNumPartitions()
    while n_parts > FAN_IN:
        n_parts = -(-n_parts // FAN_IN)
        keyed = answers.mapPartitionsWithIndex(lambda i, parts: ((i // FAN_IN, part) for part in parts))
        answers = keyed.reduceByKey(add_answers, n_parts).values()
    return answers


@contextmanager
def _described(context: SparkContext, words: str) -> Iterator[None]:
    """Describe the jobs of a block in the pages and logs of Spark; then restore what the user had."""
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"diprime {words}")
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # None takes it away


@contextmanager
def _sent(context: SparkContext, content: Sealed) -> Iterator[Callable[[], Sealed]]:
    """Let tasks have something, until the end of a block: as a part of them if it is small, which is faster."""
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
def told() -> Iterator[None]:
    """Tell in one sentence what happened to Spark, without the text of an error: it may quote rows."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 -- whatever it is
        raise RuntimeError(
            f"The fit has lost Spark or its data ({type(error).__name__}), and there is no model; see that Spark runs, "
            "that its executors have enough memory and this version of diprime, and that they can read the data "
            "(X.count() tells), and fit again."
        ) from None


@dataclass(frozen=True)
class SparkPartitions(RemotePartitions):
    """Encoded rows in the executors of Spark.

    Attributes
    ----------
    placed : Placed
        The rows.
    """

    placed: Placed

    def executor(self, threads: Threads) -> SparkExecutor:
        """Return what runs the steps of a fit on them; a task has as many threads as Spark gives it processors."""
        return SparkExecutor(self.placed)


@contextmanager
def encoded(X: Any, target: str, domain: Domain) -> Iterator[SparkPartitions]:
    """Let the executors of Spark encode a table, and keep its codes until the end of a block.

    Parameters
    ----------
    X : pyspark.sql.DataFrame
        The records, with their targets.
    target : str
        The column of the targets.
    domain : Domain
        What is public about them.
    """
    context: SparkContext = X.sparkSession.sparkContext
    encoding = Encoding(domain, X.columns, target, uuid4().bytes)
    with told(), _described(context, "encode-rows"):
        rdd = _pieces(X, encoding).setName("diprime encoded rows").persist(StorageLevel.MEMORY_AND_DISK)
    fit = uuid4().hex[:16]  # the names of sockets are short
    try:
        yield SparkPartitions(place(rdd, fit))
    finally:
        _forget(rdd, fit)
        with suppress(Exception):  # if Spark is lost, so are the rows
            rdd.unpersist()


def _pieces(X: Any, encoding: Encoding) -> RDD[Row]:
    """Return the pieces of each partition of a table, of which there is one at least.

    Where Spark finds that a table has no rows, it has no partitions. A fit to it is one to no rows, as in memory:
    whether there is an error must not depend on one row.
    """
    numbered = X.toDF(*map(str, range(len(encoding.columns))))  # names with dots are none that mapInPandas can take
    rdd: RDD[Row] = numbered.mapInPandas(lambda batches: spark_worker.encode_pieces(batches, encoding), PIECE).rdd
    if rdd.getNumPartitions() > 0:
        return rdd
    nothing: RDD[Any] = rdd.context.parallelize([], 1)
    tables = nothing.mapPartitions(lambda batches: spark_worker.encode_pieces(batches, encoding))
    return tables.flatMap(lambda table: table.itertuples(index=False, name=None))


def place(rdd: RDD[Row], fit: str) -> Placed:
    """Let Python workers that are where pieces are cached begin with their rows."""
    with told(), _described(rdd.context, "encode-rows"):
        begun = rdd.mapPartitionsWithIndex(lambda number, pieces: [spark_worker.place(number, pieces, fit)]).collect()
        places = _places(rdd)
    sizes, digests = zip(*map(opened, begun), strict=True)
    return Placed(fit, rdd, places, sizes, digests)


def _places(rdd: RDD[Any]) -> RDD[Any]:
    """Return an RDD whose tasks go where the partitions of another one are cached, and which reads nothing of them.

    It has all pairs of no elements and those of each partition: Spark looks for the first of a pair first.
    """
    nothing: RDD[Any] = rdd.context.parallelize([], 1)
    return nothing.cartesian(rdd)


def _forget(rdd: RDD[Row], fit: str) -> None:
    """Let Python workers drop their states, at the end of a fit: all of the executors that have rows.

    After a failure there may be none that answers, and nobody waits for them for long.
    """

    def forget() -> None:
        with suppress(Exception), _described(rdd.context, "forget"):
            _places(rdd).foreachPartition(lambda nothing: spark_worker.forget(nothing, fit))

    thread = InheritableThread(forget, daemon=True)
    thread.start()
    thread.join(FORGET_SECONDS)
