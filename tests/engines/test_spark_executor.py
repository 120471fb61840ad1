"""Partitions in Spark's executors answer as those in memory do, and nothing of them stays there."""

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="diprime[spark] is not installed")

from diprime._util.threads import Threads
from diprime.engines import spark_executor, spark_worker
from diprime.engines.assignment import IndependentAssignment
from diprime.engines.partition import total_weight
from diprime.engines.partitioned import PartitionedEngine
from diprime.engines.remote import Failure, Sealed, opened
from diprime.engines.spark_executor import Placed, SparkExecutor, _tree
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


def placed(context):
    """Let executors have rows in four partitions, one of them empty, as if they had encoded them."""
    codes, target, _ = drawn_rows(LAYOUT, 300)
    parts = list(zip(np.split(codes, CUTS), np.split(target, CUTS), strict=True))
    pieces = [Sealed(Piece(part, of_part, bytes([i]))) for i, (part, of_part) in enumerate(parts)]
    rdd = context.parallelize(pieces, len(pieces))
    return Placed(rdd, [len(part) for part, _ in parts], [[bytes([i])] for i in range(len(pieces))])


def test_answers_are_those_of_rows_in_memory(context):
    codes, target, _ = drawn_rows(LAYOUT, 300)
    with Threads(1) as threads:
        engine = PartitionedEngine(SparkExecutor(placed(context)), N_FEATURES, LAYOUT, threads)
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


def test_jobs_have_descriptions_and_the_caller_s_is_restored(context, monkeypatch):
    told = []
    monkeypatch.setattr(
        spark_executor, "_tree", lambda answers: told.append(context.getLocalProperty(_DESCRIPTION)) or answers
    )
    executor = SparkExecutor(placed(context))
    for before in (None, "the caller's"):
        context.setLocalProperty(_DESCRIPTION, before)
        assert executor.ask(total_weight) == 300
        assert context.getLocalProperty(_DESCRIPTION) == before
    context.setLocalProperty(_DESCRIPTION, None)
    assert told == ["diprime total-weight"] * 2


_DESCRIPTION = "spark.job.description"


def test_states_are_kept_by_workers_and_forgotten_at_the_end(context):
    rows = placed(context)
    rows.rdd.persist()
    executor = SparkExecutor(rows)
    executor.advance([_one_for_each] * 4)
    assert executor.ask(_see) == 4
    assert _n_kept(context) > 0
    spark_executor._forget(rows.rdd)
    assert _n_kept(context) == 0
    assert executor.ask(_see) == 4  # all steps are taken again
    rows.rdd.unpersist()


def _one_for_each(state, threads):
    return np.ones(1, dtype=np.int64)


def _see(state, threads):
    return state


def _n_kept(context):
    """Return how many states there are in the Python workers of both executors."""

    def kept(_):
        import time

        time.sleep(0.2)  # so that both executors get some of the tasks
        return [sum(map(len, spark_worker._kept.values()))]

    return sum(context.range(4, numSlices=4).mapPartitions(kept).collect())
