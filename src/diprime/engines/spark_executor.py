"""Partitions in the executors of Spark. This module needs the extra ``diprime[spark]``.

Rows are encoded where Spark has them, and stay there, in an RDD that is cached in memory or on disk. A question, with
the steps before it, is one job: a pure function of the encoded rows and of all steps so far, which are broadcast. The
Python workers keep states, so that they take the last steps only (:mod:`~diprime.engines.spark_worker`). Each job
begins with the encoded rows, so that no lineage grows with the levels of a forest or the rounds of boosting.

Answers are added up in the executors, in a tree, until few are left, which the driver collects and adds up.

Jobs are described by what they do, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from typing import Any
from uuid import uuid4

import numpy as np
from pyspark import RDD, SparkContext, StorageLevel

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.engines import spark_worker
from diprime.engines.executor import Answer, Question, Step
from diprime.engines.remote import Outcome, RemotePartitions, Sealed, add_answers, opened, words_of
from diprime.engines.spark_worker import PIECE, Digests, Encoding, Order

FAN_IN = 8
"""How many answers a task adds up at most, or the driver: a further stage takes longer than to collect them."""

_DESCRIPTION = "spark.job.description"


@dataclass(frozen=True)
class Placed:
    """Encoded partitions in the executors.

    Attributes
    ----------
    rdd : RDD
        The pieces of each partition, sealed.
    sizes : sequence of int
        The number of rows of each partition; they are private, and stay with the coordinator.
    digests : sequence of sequences of bytes
        The digests of the pieces of each partition.
    """

    rdd: RDD[Outcome]
    sizes: Sequence[int]
    digests: Sequence[Digests]


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

    def advance(self, steps: Sequence[Step]) -> None:
        """Change the state of every partition by a step of its own, when something is asked."""
        self._steps.append(steps)

    def ask(self, question: Question, out: Answer | None = None) -> Answer:
        """Return the sum of the answers of all partitions, added up in the executors and what is left here.

        It does not use ``out``.
        """
        order = Sealed(Order(self._run, self._placed.digests, self._steps, question))
        rdd = self._placed.rdd
        with told(), _described(rdd.context, words_of(question)), _broadcast(rdd.context, order) as shared:
            answers = rdd.mapPartitionsWithIndex(
                lambda number, pieces: [spark_worker.answer(number, pieces, shared.value.content)]
            )
            outcomes = _tree(answers).collect()
        total: Answer = reduce(np.add, map(opened, outcomes))
        return total


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
def _broadcast(context: SparkContext, content: Sealed) -> Iterator[Any]:
    """Let all executors have something, until the end of a block."""
    shared = context.broadcast(content)
    try:
        yield shared
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
        numbered = X.toDF(*map(str, range(len(encoding.columns))))  # names with dots are none that mapInPandas can take
        pieces = numbered.mapInPandas(lambda batches: spark_worker.encode_pieces(batches, encoding), PIECE).rdd
        rdd: RDD[Outcome] = pieces.map(spark_worker.load_piece).setName("diprime encoded rows")
        rdd.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with told(), _described(context, "encode-rows"):
            measured = rdd.mapPartitions(lambda pieces: [spark_worker.measure(pieces)]).collect()
        sizes, digests = zip(*map(opened, measured), strict=True)
        yield SparkPartitions(Placed(rdd, sizes, digests))
        _forget(rdd)
    finally:
        with suppress(Exception):  # if Spark is lost, so are the rows
            rdd.unpersist()


def _forget(rdd: RDD[Outcome]) -> None:
    """Let Python workers drop their states, at the end of a fit.

    The tasks go where the encoded rows are, and so to the workers that had those of the fit. Workers that are left out
    drop their states with the next fit, or end, as all idle ones do after a while.
    """
    with suppress(Exception), _described(rdd.context, "forget"):
        rdd.foreachPartition(spark_worker.forget)
