"""Partitions in Spark's executors give the sums of those in memory, and leave nothing there."""

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

from pyspark import TaskContext

from diprime.execution import remote
from diprime.execution.partition import SampledRecords, total_weight
from diprime.execution.remote import Opaque, TaskFailure, WorkItem, unwrap
from diprime.sources.spark import executor as spark_executor
from diprime.sources.spark import workers as spark_workers
from diprime.sources.spark.executor import SparkExecutor, _tree, place
from diprime.sources.spark.workers import EncodedBlock
from tests.execution.direct_counts import LAYOUTS
from tests.execution.test_executor import drawn_rows
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
    blocks = [
        [pickle.dumps(Opaque(EncodedBlock(part, SampledRecords(of_part), bytes([i]))))]
        for i, (part, of_part) in enumerate(parts)
    ]
    rdd = context.parallelize(blocks, len(blocks)).persist()
    yield place(rdd, uuid4().hex[:16])
    rdd.unpersist()


def advance(executor, n=1):
    """Let every partition apply an update, and count one, some times."""
    answers = []
    for _ in range(n):
        executor.apply([_step] * 4)
        answers.append(executor.sum(_one).item())
    return answers


def _step(state, threads):
    return state


@pytest.mark.parametrize(("fan_in", "left"), [(2, 2), (3, 2), (5, 5)])
def test_sums_are_added_in_the_executors(context, monkeypatch, fan_in, left):
    monkeypatch.setattr(remote, "FAN_IN", fan_in)
    parts = context.parallelize([Opaque(np.array([i, 1])) for i in range(5)], 5)
    sums = _tree(parts).collect()
    assert len(sums) == left
    assert sum(map(unwrap, sums)).tolist() == [10, 5]


def test_failures_are_passed_on(context, monkeypatch):
    monkeypatch.setattr(remote, "FAN_IN", 2)
    failure = TaskFailure("It failed.", of_input=False)
    parts = context.parallelize([Opaque(np.array([1])), failure, Opaque(np.array([1]))], 3)
    assert failure in _tree(parts).collect()


def test_job_descriptions_are_set_and_restored(context, placed, monkeypatch):
    described = []
    monkeypatch.setattr(
        spark_executor,
        "_tree",
        lambda answers: described.append(context.getLocalProperty(_DESCRIPTION)) or answers,
    )
    executor = SparkExecutor(placed)
    for before in (None, "the caller's"):
        context.setLocalProperty(_DESCRIPTION, before)
        assert executor.sum(total_weight) == 300
        assert context.getLocalProperty(_DESCRIPTION) == before
    context.setLocalProperty(_DESCRIPTION, None)
    assert described == ["diprime total-weight"] * 2


_DESCRIPTION = "spark.job.description"


class TestStates:
    """Executors of two cores have two Python workers at least, any of which may get a task."""

    def test_jobs_do_not_read_rows(self, placed):
        assert advance(SparkExecutor(replace(placed, rdd=None)), 3) == [4, 4, 4]

    def test_one_worker_applies_each_update_once(self, placed, tmp_path):
        executor = SparkExecutor(placed)
        for _ in range(5):
            executor.apply([CountedStep(str(tmp_path / str(i))) for i in range(4)])
            assert executor.sum(_one) == 4
        for i in range(4):
            workers = (tmp_path / str(i)).read_text().split()
            assert len(workers) == 5
            assert len(set(workers)) == 1

    def test_lost_states_are_rebuilt(self, placed):
        executor = SparkExecutor(placed)
        advance(executor, 2)
        spark_executor._forget(placed.rdd, placed.fit)
        assert advance(executor, 2) == [4, 4]
        assert n_states(placed) == 4

    def test_only_new_updates_are_sent(self, placed, monkeypatch):
        sent = []
        send = spark_executor._sent
        monkeypatch.setattr(spark_executor, "_sent", lambda c, job: sent.append(job.content.item) or send(c, job))
        executor = SparkExecutor(placed)
        advance(executor, 2)
        executor.sum(_one)
        spark_executor._forget(placed.rdd, placed.fit)
        advance(executor)
        assert [(item.n_before, len(item.updates)) for item in sent] == [(0, 1), (1, 1), (2, 0), (2, 1), (0, 3)]

    def test_repeated_task_counts_once(self, placed, monkeypatch):
        """Spark drops the first answer, as that of a speculative copy, when the steps have been taken for it."""
        monkeypatch.setattr(spark_workers, "answer", TriedTwice())
        executor = SparkExecutor(placed)
        for n in (1, 2):  # each try ends a process
            executor.apply([_count_steps] * 4)
            assert executor.sum(_see).tolist() == [300, 4 * n]

    @pytest.mark.parametrize("small_bytes", [0, 1 << 19])
    def test_large_updates_are_broadcast(self, placed, monkeypatch, small_bytes):
        monkeypatch.setattr(spark_executor, "SMALL_BYTES", small_bytes)
        assert advance(SparkExecutor(placed), 2) == [4, 4]

    def test_forget_removes_states_and_directories(self, context, placed):
        folders = partial(Path(context.getConf().get("spark.executorEnv.TMPDIR")).glob, f"diprime-{placed.fit}-*")
        assert (n_states(placed), len(list(folders()))) == (4, 2)
        spark_executor._forget(placed.rdd, placed.fit)
        assert (n_states(placed), len(list(folders()))) == (0, 0)


def test_wait_for_executors_that_do_not_forget_is_short(context, placed, monkeypatch):
    monkeypatch.setattr(spark_executor, "FORGET_SECONDS", 0.1)
    monkeypatch.setattr(spark_executor, "_places", lambda rdd: time.sleep(60))
    began = time.monotonic()
    spark_executor._forget(placed.rdd, placed.fit)
    assert time.monotonic() - began < 30


def _count_steps(state, threads):
    """Return the numbers of rows and of steps."""
    return state + np.array([0, 1]) if isinstance(state, np.ndarray) else np.array([state.rows.n_rows, 1])


def _see(state, threads):
    return state


class TriedTwice:
    """An answer whose first task fails when it has done its work."""

    def __call__(self, number, nothing, job):
        result = spark_workers.answer(number, nothing, job)
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError
        return result


class CountedStep:
    """An update that notes the process that applies it."""

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
        task = Opaque(WorkItem("other run", 0, [], _one))
        return [len(list(nothing)) + (spark_workers.StateCache(fit).work(number, digests[number], task) is not None)]

    return sum(placed.places.mapPartitionsWithIndex(answered).collect())
