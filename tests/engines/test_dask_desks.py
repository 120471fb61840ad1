"""Questions that go straight to workers give the same answers, and whatever is lost there is mended by tasks."""

import math
import signal

import numpy as np
import pytest

from diprime._util.threads import Threads
from diprime.domain.batches import EncodedBatches
from diprime.engines.partition import Partition, total_weight
from diprime.engines.persons import UsedRecords
from diprime.engines.remote import Bundle, Sealed, Task, opened

pytest.importorskip("distributed", reason="diprime[dask] is not installed")

from diprime.engines import dask_desks, dask_executor
from tests.dask_clusters import cluster
from tests.engines.test_dask_executor import DieOnce, partitions, rows

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
def all_questions_are_short(monkeypatch):
    monkeypatch.setattr(dask_executor, "SHORT_SECONDS", math.inf)


def executor_of(client):
    return partitions(client, *rows()).executor(Threads(1))


def keep(state, threads):
    return state


def fail(state, threads):
    raise LookupError("Jane Doe")


class Answer:
    """The question that is answered with a number."""

    def __init__(self, number):
        self.number = number

    def __call__(self, state, threads):
        return np.array([self.number])


def test_a_desk_has_all_bundles_of_its_worker():
    bundles = [Sealed(Bundle([Partition(EncodedBatches(1, []), UsedRecords(np.zeros(0)))])) for _ in range(3)]
    desk = dask_desks.Desk(*bundles)
    tasks = [Sealed(Task("run", 0, [], Answer(number))) for number in (1, 10, 100)]
    assert opened(desk.work(*tasks)).tolist() == [111]


def test_there_is_a_desk_on_every_worker(client):
    executor = executor_of(client)
    for _ in range(2):
        assert executor.ask(total_weight) == 300
    desks = executor._desks._desks
    assert sorted(i for desk in desks for i in desk.numbers) == [0, 1, 2]
    assert len(desks) == 3


def test_desks_that_cannot_be_opened_are_tried_a_few_times(client, monkeypatch):
    executor = executor_of(client)
    tried = []

    def lost(self, bundles):
        tried.append(1)
        raise OSError

    monkeypatch.setattr(type(client), "who_has", lost)
    for _ in range(6):
        assert executor.ask(total_weight) == 300
    assert len(tried) == dask_desks.N_TRIES


def test_a_desk_that_is_not_opened_in_time_is_not_waited_for(client, monkeypatch):
    monkeypatch.setattr(dask_desks, "OPEN_SECONDS", 0.01)
    monkeypatch.setattr(dask_desks.Desks, "_submitted", lambda *_: client.submit(int, workers=["tcp://nowhere:1"]))
    executor = executor_of(client)
    for _ in range(2):
        assert executor.ask(total_weight) == 300


def test_bundles_that_are_behind_are_mended_by_tasks(client):
    executor = executor_of(client)
    for _ in range(2):
        executor.advance([keep] * N_PARTITIONS)
        assert executor.ask(total_weight) == 300
    executor._run = "another"
    for _ in range(2):
        executor.advance([keep] * N_PARTITIONS)
        assert executor.ask(total_weight) == 300


def test_what_goes_wrong_at_a_desk_is_told_without_its_text(client):
    executor = executor_of(client)
    for _ in range(2):
        executor.ask(total_weight)
    executor.advance([keep] * (N_PARTITIONS - 1) + [fail])
    with pytest.raises(RuntimeError, match=r"could not work on rows \(LookupError\)") as caught:
        executor.ask(total_weight)
    assert "Jane" not in str(caught.value)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed in another way here")
def test_a_worker_that_is_killed_at_its_desk_costs_time_only(tmp_path):
    with cluster(2, processes=True) as client:
        executor = executor_of(client)
        n = len(executor.sizes)
        for name in ("first", "second"):  # others open desks, and lose one once more
            (tmp_path / f"{name}-begun").touch()
            executor.advance([DieOnce(str(tmp_path / f"{name}-begun"))] * n)
            assert executor.ask(total_weight) == 300
            assert bool(executor._desks._desks) == (name == "second")
            died = tmp_path / f"{name}-died"
            executor.advance([DieOnce(str(died))] * n)
            assert executor.ask(total_weight) == 300
            assert died.exists()
            assert not executor._desks._desks
        assert executor.ask(total_weight) == 300
