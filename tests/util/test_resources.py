"""Threads divide work into contiguous shards; results do not depend on their number."""

import os
import threading
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime._util.resources import Threads, resolve_n_jobs


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


def test_shards_run_concurrently():
    meeting = threading.Barrier(3, timeout=30)
    with Threads(3) as threads:
        threads.run(lambda begin, end: meeting.wait(), 3)  # would time out if one had to end before the next
    assert not meeting.broken


def test_single_thread_is_calling_thread():
    where = []
    with Threads(1) as threads:
        threads.run(lambda begin, end: where.append(threading.get_ident()), 5)
    assert where == [threading.get_ident()]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_error_in_shard_reaches_caller_and_closes_pool(n_threads):
    before = threading.active_count()

    def work(begin, end):
        if end == 6:
            raise RuntimeError("shard")

    with pytest.raises(RuntimeError, match="shard"), Threads(n_threads) as threads:
        threads.run(work, 6)
    assert threading.active_count() == before


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def test_n_jobs_counts_cores_like_scikit_learn():
    assert resolve_n_jobs(None) == resolve_n_jobs(-1) == cores()
    assert resolve_n_jobs(1) == 1
    assert resolve_n_jobs(7) == 7
    assert resolve_n_jobs(-2) == max(1, cores() - 1)
    assert resolve_n_jobs(-1000) == 1
    with pytest.raises(ValueError, match=r"^n_jobs .*0;"):
        resolve_n_jobs(0)
