"""Partitions in Spark's executors answer as those in memory do, and nothing of them stays there."""

import os
import pickle
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="diprime[spark] is not installed")

from diprime._util.threads import Threads
from diprime.engines import spark_executor, spark_states
from diprime.engines.assignment import IndependentAssignment
from diprime.engines.partition import total_weight
from diprime.engines.partitioned import PartitionedEngine
from diprime.engines.remote import Failure, Sealed, Task, opened
from diprime.engines.spark_executor import SparkExecutor, _tree, place
from diprime.engines.spark_worker import Piece
from tests.encoded_rows import EncodedRows, tree_engine
from tests.engines.direct_counts import LAYOUTS
from tests.engines.test_executor import N_FEATURES, answers, assert_same, drawn_rows
from tests.spark_sessions import NEEDED

pytestmark = NEEDED
CUTS = [0, 90, 200]
LAYOUT = LAYOUTS["number"]


@pytest.fixture(scope="module")
def context(spark):
    return spark.sparkContext


@pytest.fixture(name="placed")
def rows_in_executors(context):
    """Let executors have rows in four partitions, one of them empty, as if they had encoded them."""
    codes, target, _ = drawn_rows(LAYOUT, 300)
    parts = zip(np.split(codes, CUTS), np.split(target, CUTS), strict=True)
    pieces = [[pickle.dumps(Sealed(Piece(part, of_part, bytes([i]))))] for i, (part, of_part) in enumerate(parts)]
    rdd = context.parallelize(pieces, len(pieces)).persist()
    yield place(rdd, uuid4().hex[:16])
    rdd.unpersist()


def advance(executor, n=1):
    """Let every partition take a step, which counts one, some times."""
    answers = []
    for _ in range(n):
        executor.advance([_step] * 4)
        answers.append(executor.ask(_one).item())
    return answers


def _step(state, threads):
    return state


def test_answers_are_those_of_rows_in_memory(placed):
    codes, target, _ = drawn_rows(LAYOUT, 300)
    with Threads(1) as threads:
        engine = PartitionedEngine(SparkExecutor(placed), N_FEATURES, LAYOUT, threads)
        found = answers(engine, LAYOUT, IndependentAssignment(3))
        assert_same(
            found, answers(tree_engine(EncodedRows(codes), target, LAYOUT, threads), LAYOUT, IndependentAssignment(3))
        )


@pytest.mark.parametrize(("fan_in", "left"), [(2, 2), (3, 2), (5, 5)])
def test_answers_are_added_up_in_the_executors(context, monkeypatch, fan_in, left):
    monkeypatch.setattr(spark_executor, "FAN_IN", fan_in)
    parts = context.parallelize([Sealed(np.array([i, 1])) for i in range(5)], 5)
    sums = _tree(parts).collect()
    assert len(sums) == left
    assert sum(map(opened, sums)).tolist() == [10, 5]


def test_failures_are_handed_on(context, monkeypatch):
    monkeypatch.setattr(spark_executor, "FAN_IN", 2)
    failure = Failure("It failed.", of_input=False)
    parts = context.parallelize([Sealed(np.array([1])), failure, Sealed(np.array([1]))], 3)
    assert failure in _tree(parts).collect()


def test_jobs_have_descriptions_and_the_caller_s_is_restored(context, placed, monkeypatch):
    told = []
    monkeypatch.setattr(
        spark_executor, "_tree", lambda answers: told.append(context.getLocalProperty(_DESCRIPTION)) or answers
    )
    executor = SparkExecutor(placed)
    for before in (None, "the caller's"):
        context.setLocalProperty(_DESCRIPTION, before)
        assert executor.ask(total_weight) == 300
        assert context.getLocalProperty(_DESCRIPTION) == before
    context.setLocalProperty(_DESCRIPTION, None)
    assert told == ["diprime total-weight"] * 2


_DESCRIPTION = "spark.job.description"


class TestStates:
    """Executors of two cores have two Python workers at least, any of which may get a task."""

    def test_jobs_do_not_read_rows(self, placed):
        assert advance(SparkExecutor(replace(placed, rdd=None)), 3) == [4, 4, 4]

    def test_each_is_in_one_worker_which_takes_each_step_once(self, placed, tmp_path):
        executor = SparkExecutor(placed)
        for _ in range(5):
            executor.advance([CountedStep(str(tmp_path / str(i))) for i in range(4)])
            assert executor.ask(_one) == 4
        for i in range(4):
            workers = (tmp_path / str(i)).read_text().split()
            assert len(workers) == 5
            assert len(set(workers)) == 1

    def test_they_are_made_anew_if_they_are_lost(self, placed):
        executor = SparkExecutor(placed)
        advance(executor, 2)
        spark_executor._forget(placed.rdd, placed.fit)
        assert advance(executor, 2) == [4, 4]
        assert n_states(placed) == 4

    def test_new_steps_alone_are_sent(self, placed, monkeypatch):
        sent = []
        send = spark_executor._sent
        monkeypatch.setattr(spark_executor, "_sent", lambda c, order: sent.append(order.content.task) or send(c, order))
        executor = SparkExecutor(placed)
        advance(executor, 2)
        executor.ask(_one)
        spark_executor._forget(placed.rdd, placed.fit)
        advance(executor)
        assert [(task.n_before, len(task.steps)) for task in sent] == [(0, 1), (1, 1), (2, 0), (2, 1), (0, 3)]

    @pytest.mark.parametrize("small_bytes", [0, 1 << 19])
    def test_large_steps_are_broadcast(self, placed, monkeypatch, small_bytes):
        monkeypatch.setattr(spark_executor, "SMALL_BYTES", small_bytes)
        assert advance(SparkExecutor(placed), 2) == [4, 4]

    def test_nothing_stays_when_they_are_forgotten(self, context, placed):
        folders = partial(Path(context.getConf().get("spark.executorEnv.TMPDIR")).glob, f"diprime-{placed.fit}-*")
        assert (n_states(placed), len(list(folders()))) == (4, 2)
        spark_executor._forget(placed.rdd, placed.fit)
        assert (n_states(placed), len(list(folders()))) == (0, 0)


def test_nobody_waits_for_long_for_executors_that_do_not_forget(context, placed, monkeypatch):
    monkeypatch.setattr(spark_executor, "FORGET_SECONDS", 0.1)
    monkeypatch.setattr(spark_executor, "_places", lambda rdd: time.sleep(60))
    began = time.monotonic()
    spark_executor._forget(placed.rdd, placed.fit)
    assert time.monotonic() - began < 30


class CountedStep:
    """A step that notes the process that takes it."""

    def __init__(self, file):
        self.file = file

    def __call__(self, state, threads):
        with open(self.file, "a") as file:
            file.write(f"{os.getpid()}\n")
        return state


def _one(state, threads):
    return np.ones(1, dtype=np.int64)


def n_states(placed):
    """Return how many partitions have a state in some worker."""
    fit, digests = placed.fit, placed.digests

    def answered(number, nothing):
        task = Sealed(Task("other run", 0, [], _one))
        return [len(list(nothing)) + (spark_states.States(fit).work(number, digests[number], task) is not None)]

    return sum(placed.places.mapPartitionsWithIndex(answered).collect())
