"""Threads divide work into contiguous shards; results do not depend on their number."""

import os
import threading
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime._util.threads import Threads, resolve_n_jobs


def shards_of(n_threads, n_items, **how):
    seen, lock = [], threading.Lock()

    def work(begin, end):
        with lock:
            seen.append((begin, end))

    with Threads(n_threads) as threads:
        threads.run(work, n_items, **how)
    return sorted(seen)


@given(st.integers(1, 9), st.integers(0, 10**7), st.integers(1, 5000))
@settings(deadline=None)
def test_shards_cover_all_items_once(n_threads, n_items, at_least):
    seen, threads = [], Threads(n_threads)  # without a pool, the same shards run one after the other
    threads.run(lambda begin, end: seen.append((begin, end)), n_items, at_least=at_least)
    assert seen[0][0] == 0
    assert seen[-1][1] == n_items
    assert all(a[1] == b[0] for a, b in pairwise(seen))
    assert len(seen) <= threads.n_shards
    assert threads.n_shards == (1 if n_threads == 1 else 4 * n_threads)
    sizes = [end - begin for begin, end in seen]
    assert max(sizes) - min(sizes) <= 1
    assert len(seen) == 1 or min(sizes) >= at_least


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("n_items", [0, 1, 2, 10, 1001])
def test_shards_in_threads_cover_all_items_once(n_threads, n_items):
    seen = shards_of(n_threads, n_items)
    assert seen[0][0] == 0
    assert seen[-1][1] == n_items
    assert sum(end - begin for begin, end in seen) == n_items
    assert len(seen) == max(1, min(1 if n_threads == 1 else 4 * n_threads, n_items))


def test_shards_run_concurrently():
    meeting = threading.Barrier(3, timeout=30)
    with Threads(3) as threads:
        threads.run(lambda begin, end: meeting.wait(), 3)  # would time out if one had to end before the next
    assert not meeting.broken


def test_one_thread_is_the_calling_thread():
    where = []
    with Threads(1) as threads:
        threads.run(lambda begin, end: where.append(threading.get_ident()), 5)
    assert where == [threading.get_ident()]


def test_bounds_may_be_empty_and_uneven():
    seen = []
    with Threads(2) as threads:
        threads.run_between(lambda begin, end: seen.append((begin, end)), [0, 0, 7, 7, 9])
    assert sorted(seen) == [(0, 0), (0, 7), (7, 7), (7, 9)]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_in_a_shard_reaches_the_caller_and_the_pool_is_closed(n_threads):
    before = threading.active_count()

    def work(begin, end):
        if end == 6:
            raise RuntimeError("shard")

    with pytest.raises(RuntimeError, match="shard"), Threads(n_threads) as threads:
        threads.run(work, 6)
    assert threading.active_count() == before


def test_threads_can_be_used_again():
    threads, seen = Threads(2), []
    for _ in range(2):
        with threads:
            threads.run(lambda begin, end: seen.append(end - begin), 4)
    assert sum(seen) == 8


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def test_n_jobs_has_the_meaning_of_scikit_learn():
    assert resolve_n_jobs(None) == resolve_n_jobs(-1) == cores()
    assert resolve_n_jobs(1) == 1
    assert resolve_n_jobs(7) == 7
    assert resolve_n_jobs(-2) == max(1, cores() - 1)
    assert resolve_n_jobs(-1000) == 1
    with pytest.raises(ValueError, match="n_jobs must not be 0"):
        resolve_n_jobs(0)


def test_one_thread_if_the_number_of_cores_is_unknown(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert resolve_n_jobs(None) == 1
