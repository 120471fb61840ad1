"""Partitions on Dask workers answer as those in memory do, and stay where they are."""

import math
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from diprime._util.threads import Threads
from diprime.domain.batches import EncodedBatches
from diprime.engines.assignment import IndependentAssignment
from diprime.engines.partition import Partition, total_weight
from diprime.engines.partitioned import PartitionedEngine
from diprime.engines.persons import UsedRecords
from diprime.engines.remote import Sealed
from tests.encoded_rows import EncodedRows, tree_engine
from tests.engines.direct_counts import LAYOUTS
from tests.engines.test_executor import N_FEATURES, answers, assert_same, drawn_rows

pytest.importorskip("distributed", reason="diprime[dask] is not installed")

from diprime.engines import dask_desks, dask_executor, dask_tasks
from diprime.engines.dask_executor import encode_on_workers
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
        Sealed(Partition(EncodedBatches(N_FEATURES, [c]), UsedRecords(t)))
        for c, t in zip(np.split(codes, CUTS), np.split(target, CUTS), strict=True)
    ]
    return encode_on_workers(client, _same, parts, shown=False)


def _same(part):
    return part


def rows():
    codes, target, _ = drawn_rows(LAYOUT, 300)
    return codes, target


def engine(client):
    with Threads(1) as threads:
        return PartitionedEngine(partitions(client, *rows()).executor(threads), N_FEATURES, LAYOUT, threads)


def expected():
    codes, target = rows()
    with Threads(1) as threads:
        return answers(tree_engine(EncodedRows(codes), target, LAYOUT, threads), LAYOUT, IndependentAssignment(3))


@pytest.mark.parametrize("fan_in", [2, 8])
@pytest.mark.parametrize("short", [0, math.inf])
def test_answers_are_those_of_rows_in_memory(client, monkeypatch, fan_in, short):
    monkeypatch.setattr(dask_tasks, "FAN_IN", fan_in)
    monkeypatch.setattr(dask_executor, "SHORT_SECONDS", short)
    assert_same(answers(engine(client), LAYOUT, IndependentAssignment(3)), expected())


def test_one_sum_is_fetched_and_of_small_answers_few(client, monkeypatch):
    monkeypatch.setattr(dask_tasks, "FAN_IN", 2)
    fetched = []
    results = dask_tasks.Tasks.results

    def watched(self, futures):
        fetched.append(len(futures))
        return results(self, futures)

    placed = partitions(client, *rows())
    assert len(placed.placed.bundles) == 3
    monkeypatch.setattr(dask_tasks.Tasks, "results", watched)
    executor = placed.executor(Threads(1))
    monkeypatch.setattr(dask_executor, "SHORT_SECONDS", 0)
    for question, then in ((total_weight, 2), (many_numbers, 1)):
        assert (executor.ask(question) == 300).all()
        assert fetched == [1]  # how large it is is not known
        assert (executor.ask(question) == 300).all()
        assert fetched == [1, then]
        fetched.clear()


def many_numbers(state, threads, out=None):
    return np.full(1 << 14, state.rows.n_rows)


def test_all_steps_are_taken_that_come_before_a_question(client):
    executor = partitions(client, *rows()).executor(Threads(1))
    executor.advance([Append()] * 8)
    executor.advance([Append(i) for i in range(8)])
    assert executor.ask(see).tolist() == [300, 28]
    assert executor.ask(see).tolist() == [300, 28]
    executor.advance([Append(100)] * 8)
    assert executor.ask(see).tolist() == [300, 28, 800]


class Append:
    """The step that appends a number; the first one begins with the number of rows."""

    def __init__(self, *numbers):
        self.numbers = numbers

    def __call__(self, state, threads):
        before = state if isinstance(state, np.ndarray) else [state.rows.n_rows]
        return np.array([*before, *self.numbers])


def see(state, threads):
    return state


def test_a_bundle_has_the_partitions_of_its_worker(client):
    placed = partitions(client, *rows()).placed
    assert sorted(i for bundle in placed.numbers for i in bundle) == list(range(8))
    assert sum(placed.n_of_workers) == len(placed.bundles)
    assert placed.sizes == [0, 40, 0, 50, 40, 70, 60, 40]


def test_bundles_stay_on_their_workers(client):
    made = engine(client)
    bundles = made._executor._placed.bundles
    before = client.who_has(bundles)
    answers(made, LAYOUT, IndependentAssignment(3))
    assert client.who_has(bundles) == before


def test_states_of_two_runs_are_not_mixed_up(client):
    placed = partitions(client, *rows())
    with Threads(1) as threads:
        first, second = (placed.executor(threads) for _ in range(2))
        engines = [PartitionedEngine(executor, N_FEATURES, LAYOUT, threads) for executor in (first, second)]
        found = [answers(made, LAYOUT, IndependentAssignment(3)) for made in engines]
        again = engines[0].node_target_counts()
    assert_same(*found)
    assert (again == found[0][-2]).all()


class DieOnce:
    """The step that ends the process of its worker when it is taken for the first time."""

    def __init__(self, file):
        self.file = file

    def __call__(self, state, threads):
        if not Path(self.file).exists():
            Path(self.file).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return state


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed in another way here")
def test_a_worker_that_is_killed_during_a_step_costs_time_only(tmp_path):
    with cluster(2, processes=True) as client:
        executor = partitions(client, *rows()).executor(Threads(1))
        n = len(executor.sizes)
        assert executor.ask(total_weight) == 300
        executor.advance([DieOnce(str(tmp_path / "died"))] * n)
        assert executor.ask(total_weight) == 300
        assert (tmp_path / "died").exists()


def test_a_question_whose_kind_was_short_goes_to_desks(client, monkeypatch):
    monkeypatch.setattr(dask_executor, "SHORT_SECONDS", math.inf)
    executor = partitions(client, *rows()).executor(Threads(1))
    assert executor.ask(total_weight) == 300  # how long it takes is not known
    monkeypatch.delattr(dask_tasks.Tasks, "map")
    assert executor.ask(total_weight) == 300


@pytest.mark.parametrize(("question", "short"), [(total_weight, 1e-9), (many_numbers, math.inf)])
def test_a_question_whose_kind_was_long_or_large_is_a_task(client, monkeypatch, question, short):
    monkeypatch.setattr(dask_executor, "SHORT_SECONDS", short)
    monkeypatch.delattr(dask_desks.Desks, "outcomes")
    executor = partitions(client, *rows()).executor(Threads(1))
    for _ in range(3):
        assert (executor.ask(question) == 300).all()
