"""A fit that waits for a cluster notices when it is lost, whatever the client does meanwhile."""

import asyncio
import threading

import pytest

pytest.importorskip("distributed", reason="diprime[dask] is not installed")

from diprime.engines import dask_tasks
from diprime.engines.dask_tasks import Tasks, told
from diprime.engines.remote import Sealed
from tests.dask_clusters import cluster

pytestmark = pytest.mark.filterwarnings(
    # A cluster that is closed leaves sockets to the garbage collector.
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setattr(dask_tasks, "LOOK_SECONDS", 0.05)
    with cluster(1) as client:
        yield client


def same(value):
    return value


async def _forever():
    await asyncio.Event().wait()


def test_results_are_fetched_in_order_however_long_they_take(client):
    tasks = Tasks(client)
    made = tasks.map("same", _slow, [0.3, 0])
    assert tasks.results(made) == [0.3, 0]


def _slow(seconds):
    threading.Event().wait(seconds)
    return Sealed(seconds)


def test_no_name_is_used_twice(client):
    one, other = Tasks(client), Tasks(client)
    assert len({tasks.name("words") for tasks in (one, one, other)}) == 3


def test_a_client_that_looks_for_its_scheduler_is_not_waited_for(client):
    tasks = Tasks(client)

    def lose():
        client.status = "connecting"

    timer = threading.Timer(0.2, lose)
    timer.start()
    try:
        with pytest.raises(ConnectionError):
            tasks.wait_for(_forever)
        with pytest.raises(RuntimeError, match="has lost the Dask cluster or its data \\(ConnectionError\\)"):
            tasks.map("same", same, [Sealed(1)])
    finally:
        timer.join()
        client.status = "running"


def test_a_result_that_is_needed_and_lost_ends_the_wait(client):
    needed = client.submit(_fail, pure=False)
    with pytest.raises(ConnectionError):
        Tasks(client).wait_for(_forever, [needed])


def _fail():
    raise ValueError


def test_errors_of_the_cluster_are_one_sentence_without_their_text():
    with pytest.raises(RuntimeError, match="KeyError") as caught, told():
        raise KeyError("Jane Doe")
    assert "Jane" not in str(caught.value)
    assert caught.value.__suppress_context__
