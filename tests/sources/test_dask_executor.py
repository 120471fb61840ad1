"""Partitions on Dask workers answer as those in memory do, and stay where they are."""

import math
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from diprime._util.resources import Threads
from diprime.domain.records import EncodedBatches
from diprime.execution import remote
from diprime.execution.partition import Partition, SampledRecords, total_weight
from diprime.execution.remote import Opaque
from diprime.forest.engine import ForestEngine, IndependentAssignment
from tests.encoded_rows import EncodedRows, tree_engine
from tests.execution.direct_counts import LAYOUTS
from tests.execution.test_executor import N_FEATURES, answers, assert_same, drawn_rows

pytest.importorskip("distributed", reason="diprime[dask] is not installed")

from diprime.sources.dask import executor as dask_executor
from diprime.sources.dask import workers as dask_workers
from diprime.sources.dask.executor import encoded_on_workers
from diprime.sources.dask.workers import Tasks
from tests.dask_clusters import cluster

pytestmark = pytest.mark.filterwarnings(
    # A cluster that is closed, or a worker that is killed, leaves sockets to the garbage collector.
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
CUTS = [0, 40, 40, 90, 130, 200, 260]
LAYOUT = LAYOUTS["number"]


@pytest.fixture(scope="module")
def client():
    with cluster(3) as client:
        yield client


def partitions(client, codes, target):
    """Let workers have rows in eight partitions, one of them empty, as if they had encoded them."""
    parts = [
        Opaque(Partition(EncodedBatches(N_FEATURES, [c]), SampledRecords(t)))
        for c, t in zip(np.split(codes, CUTS), np.split(target, CUTS), strict=True)
    ]
    return _entered.enter_context(encoded_on_workers(Tasks(client), _same, parts, shown=False))


_entered = ExitStack()


@pytest.fixture(autouse=True)
def no_rows_stay():
    """Let workers drop the rows of a test."""
    yield
    _entered.close()


def _same(part):
    return part


def rows():
    codes, target, _ = drawn_rows(LAYOUT, 300)
    return codes, target


def engine(client):
    with Threads(1) as threads:
        return ForestEngine(partitions(client, *rows()).executor(threads), N_FEATURES, LAYOUT, threads)


def expected():
    codes, target = rows()
    with Threads(1) as threads:
        return answers(tree_engine(EncodedRows(codes), target, LAYOUT, threads), LAYOUT, IndependentAssignment(3))


@pytest.mark.parametrize("fan_in", [2, 8])
@pytest.mark.parametrize("short", [0, math.inf])
def test_sums_equal_those_of_rows_in_memory(client, monkeypatch, fan_in, short):
    monkeypatch.setattr(remote, "FAN_IN", fan_in)
    monkeypatch.setattr(dask_executor, "SHORT_SECONDS", short)
    assert_same(answers(engine(client), LAYOUT, IndependentAssignment(3)), expected())


def test_one_sum_is_fetched_or_a_few_small_ones(client, monkeypatch):
    monkeypatch.setattr(remote, "FAN_IN", 2)
    fetched = []
    results = dask_workers.Tasks.results

    def watched(self, futures):
        fetched.append(len(futures))
        return results(self, futures)

    placed = partitions(client, *rows())
    assert len(placed.placement.bundles) == 3
    monkeypatch.setattr(dask_workers.Tasks, "results", watched)
    executor = placed.executor(Threads(1))
    monkeypatch.setattr(dask_executor, "SHORT_SECONDS", 0)
    for question, then in ((total_weight, 2), (many_numbers, 1)):
        assert (executor.sum(question) == 300).all()
        assert fetched == [1]  # how large it is is not known
        assert (executor.sum(question) == 300).all()
        assert fetched == [1, then]
        fetched.clear()


def many_numbers(state, threads, out=None):
    return np.full(1 << 14, state.rows.n_rows)


def test_all_updates_are_applied_before_a_query(client):
    executor = partitions(client, *rows()).executor(Threads(1))
    executor.apply([Append()] * 8)
    executor.apply([Append(i) for i in range(8)])
    assert executor.sum(see).tolist() == [300, 28]
    assert executor.sum(see).tolist() == [300, 28]
    executor.apply([Append(100)] * 8)
    assert executor.sum(see).tolist() == [300, 28, 800]


class Append:
    """The update that appends a number; the first one starts with the number of rows."""

    def __init__(self, *numbers):
        self.numbers = numbers

    def __call__(self, state, threads):
        before = state if isinstance(state, np.ndarray) else [state.rows.n_rows]
        return np.array([*before, *self.numbers])


def see(state, threads):
    return state


def test_bundles_stay_on_their_workers(client):
    made = engine(client)
    bundles = made._executor._placement.bundles
    before = client.who_has(bundles)
    answers(made, LAYOUT, IndependentAssignment(3))
    assert client.who_has(bundles) == before


def test_runs_have_separate_states(client):
    placed = partitions(client, *rows())
    with Threads(1) as threads:
        first, second = (placed.executor(threads) for _ in range(2))
        engines = [ForestEngine(executor, N_FEATURES, LAYOUT, threads) for executor in (first, second)]
        found = [answers(made, LAYOUT, IndependentAssignment(3)) for made in engines]
        again = engines[0].node_target_counts()
    assert_same(*found)
    assert (again == found[0][-2]).all()


class DieOnce:
    """The update that ends the process of its worker the first time."""

    def __init__(self, file):
        self.file = file

    def __call__(self, state, threads):
        if not Path(self.file).exists():
            Path(self.file).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return state


@pytest.mark.audit  # test_dask.py kills a worker during a fit
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed in another way here")
def test_killed_worker_does_not_change_sums(tmp_path):
    with cluster(2, processes=True) as client:
        executor = partitions(client, *rows()).executor(Threads(1))
        n = len(executor.sizes)
        assert executor.sum(total_weight) == 300
        executor.apply([DieOnce(str(tmp_path / "died"))] * n)
        assert executor.sum(total_weight) == 300
        assert (tmp_path / "died").exists()


def test_short_query_goes_to_actors(client, monkeypatch):
    monkeypatch.setattr(dask_executor, "SHORT_SECONDS", math.inf)
    executor = partitions(client, *rows()).executor(Threads(1))
    assert executor.sum(total_weight) == 300  # how long it takes is not known
    monkeypatch.delattr(dask_workers.Tasks, "map")
    assert executor.sum(total_weight) == 300


@pytest.mark.parametrize(("question", "short"), [(total_weight, 1e-9), (many_numbers, math.inf)])
def test_long_or_large_query_is_a_task(client, monkeypatch, question, short):
    monkeypatch.setattr(dask_executor, "SHORT_SECONDS", short)
    monkeypatch.delattr(dask_workers.ActorPool, "results")
    executor = partitions(client, *rows()).executor(Threads(1))
    for _ in range(3):
        assert (executor.sum(question) == 300).all()
