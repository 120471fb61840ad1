"""Tasks notice a lost cluster; queries of actors give the sums of tasks, which replace actors that are lost."""

import asyncio
import math
import signal
import threading

import numpy as np
import pytest

from diprime._util.resources import Threads
from diprime.domain.records import EncodedBatches
from diprime.execution.partition import Partition, SampledRecords, total_weight
from diprime.execution.remote import Opaque, PartitionBundle, WorkItem, unwrap

pytest.importorskip("distributed", reason="diprime[dask] is not installed")

from diprime.sources.dask import executor as dask_executor
from diprime.sources.dask import workers as dask_workers
from diprime.sources.dask.workers import Tasks, redact_cluster_errors
from tests.dask_clusters import cluster, replicate
from tests.sources.test_dask_executor import DieOnce, no_rows_stay, partitions, rows  # noqa: F401 -- a fixture

pytestmark = pytest.mark.filterwarnings(
    # A cluster that is closed, or a worker that is killed, leaves sockets to the garbage collector.
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
N_PARTITIONS = 8


@pytest.fixture(scope="module")
def client():
    with cluster(3) as client:
        yield client


@pytest.fixture(autouse=True)
def all_queries_are_short(monkeypatch):
    monkeypatch.setattr(dask_executor, "SHORT_SECONDS", math.inf)


def executor_of(client):
    return partitions(client, *rows()).executor(Threads(1))


def keep(state, threads):
    return state


def fail(state, threads):
    raise LookupError("Jane Doe")


class Answer:
    """The query whose value is a number."""

    def __init__(self, number):
        self.number = number

    def __call__(self, state, threads):
        return np.array([self.number])


def test_actor_has_all_bundles_of_its_worker():
    bundles = [
        Opaque(PartitionBundle([Partition(EncodedBatches(1, []), SampledRecords(np.zeros(0)))])) for _ in range(3)
    ]
    handle = dask_workers.WorkerActor(*bundles)
    tasks = [Opaque(WorkItem("run", 0, [], Answer(number))) for number in (1, 10, 100)]
    assert unwrap(handle.work(*tasks)).tolist() == [111]


def test_replicated_bundle_has_one_actor(client):
    """The copies have taken all steps, so that each of them could answer."""
    executor = executor_of(client)
    assert executor.sum(total_weight) == 300
    bundles = executor._placement.bundles
    client.amm.stop()  # Dask's memory manager would delete surplus copies
    replicate(client, bundles, 3)
    assert executor.sum(total_weight) == 300
    assert sorted(i for handle in executor._actors._actors for i in handle.numbers) == [0, 1, 2]


def test_failing_actors_are_started_a_few_times(client, monkeypatch):
    executor = executor_of(client)
    tried = []

    def lost(self, bundles):
        tried.append(1)
        raise OSError

    monkeypatch.setattr(type(client), "who_has", lost)
    for _ in range(6):
        assert executor.sum(total_weight) == 300
    assert len(tried) == dask_workers.N_TRIES


def test_wait_for_a_slow_actor_is_short(client, monkeypatch):
    monkeypatch.setattr(dask_workers, "START_SECONDS", 0.01)
    monkeypatch.setattr(
        dask_workers.ActorPool, "_submit", lambda *_: client.submit(int, pure=False, workers=["tcp://nowhere:1"])
    )
    executor = executor_of(client)
    for _ in range(2):
        assert executor.sum(total_weight) == 300


def test_tasks_update_stale_bundles(client):
    executor = executor_of(client)
    for _ in range(2):
        executor.apply([keep] * N_PARTITIONS)
        assert executor.sum(total_weight) == 300
    executor._run = "another"
    for _ in range(2):
        executor.apply([keep] * N_PARTITIONS)
        assert executor.sum(total_weight) == 300


def test_actor_errors_are_not_quoted(client):
    executor = executor_of(client)
    for _ in range(2):
        executor.sum(total_weight)
    executor.apply([keep] * (N_PARTITIONS - 1) + [fail])
    with pytest.raises(RuntimeError, match=r"work on rows \(LookupError\)") as caught:
        executor.sum(total_weight)
    assert "Jane" not in str(caught.value)


@pytest.mark.audit  # test_dask.py kills a worker in the middle of a boosted fit
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed in another way here")
def test_killed_actor_does_not_change_sums(tmp_path):
    with cluster(2, processes=True) as client:
        executor = executor_of(client)
        n = len(executor.sizes)
        for name in ("first", "second"):  # others open actors, and lose one once more
            (tmp_path / f"{name}-begun").touch()
            executor.apply([DieOnce(str(tmp_path / f"{name}-begun"))] * n)
            assert executor.sum(total_weight) == 300
            assert bool(executor._actors._actors) == (name == "second")
            died = tmp_path / f"{name}-died"
            executor.apply([DieOnce(str(died))] * n)
            assert executor.sum(total_weight) == 300
            assert died.exists()
            assert not executor._actors._actors
        assert executor.sum(total_weight) == 300


@pytest.fixture
def polled(monkeypatch):
    monkeypatch.setattr(dask_workers, "POLL_SECONDS", 0.05)
    with cluster(1) as client:
        yield client


def same(value):
    return value


async def _forever():
    await asyncio.Event().wait()


def test_disconnected_client_ends_the_wait(polled):
    tasks = Tasks(polled)

    def lose():
        polled.status = "connecting"

    timer = threading.Timer(0.2, lose)
    timer.start()
    try:
        with pytest.raises(ConnectionError):
            tasks.wait_for(_forever)
        with pytest.raises(RuntimeError, match=r"Dask .*unavailable \(ConnectionError\)"):
            tasks.map("same", same, [Opaque(1)])
    finally:
        timer.join()
        polled.status = "running"


def test_lost_result_ends_the_wait(polled):
    needed = polled.submit(_fail, pure=False)
    with pytest.raises(ConnectionError):
        Tasks(polled).wait_for(_forever, [needed])


def _fail():
    raise ValueError


def test_cluster_errors_are_not_quoted():
    with pytest.raises(RuntimeError, match="KeyError") as caught, redact_cluster_errors():
        raise KeyError("Jane Doe")
    assert "Jane" not in str(caught.value)
    assert caught.value.__suppress_context__
