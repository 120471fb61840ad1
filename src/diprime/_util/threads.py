"""Threads for work that releases the lock: contiguous shards of items, results never dependent on their number."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType

import numpy as np


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Turn scikit-learn's ``n_jobs`` into a number of threads; ``None`` means all cores this process may use."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral)):
        raise TypeError(f"n_jobs must be an integer or None, got {n_jobs!r}.")
    if n_jobs is None or n_jobs < 0:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cores if n_jobs is None else max(1, cores + 1 + n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; use None for all cores or a positive number of threads.")
    return n_jobs


class Threads:
    """A pool of ``n`` threads, used as a context; with one thread the work runs where it is asked for."""

    def __init__(self, n: int) -> None:
        self.n = n
        # More shards than threads: where one thread is held up, another takes what is left.
        self.n_shards = n if n == 1 else 4 * n
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Threads:
        if self.n > 1:
            self._pool = ThreadPoolExecutor(self.n)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def run(self, work: Callable[[int, int], None], n_items: int, *, at_least: int = 1) -> None:
        """Call ``work(begin, end)`` on contiguous shards of ``range(n_items)``, each of at least ``at_least`` items."""
        n_shards = max(1, min(self.n_shards, n_items // at_least))
        self.run_between(work, np.linspace(0, n_items, n_shards + 1).astype(np.int64).tolist())

    def run_between(self, work: Callable[[int, int], None], bounds: list[int]) -> None:
        """Call ``work(begin, end)`` between consecutive bounds."""
        shards = list(pairwise(bounds))
        if self._pool is None or len(shards) == 1:
            for begin, end in shards:
                work(begin, end)
            return
        for done in [self._pool.submit(work, begin, end) for begin, end in shards]:
            done.result()
