"""A pool of threads for work that releases the GIL. Results do not depend on the number of threads."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType

import numpy as np


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Return the number of threads for scikit-learn's ``n_jobs``; None means all cores available to this process."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral)):
        raise TypeError(f"n_jobs must be an integer or None, got {n_jobs!r}.")
    if n_jobs is None or n_jobs < 0:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cores if n_jobs is None else max(1, cores + 1 + n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; use None for all cores or a positive number of threads.")
    return n_jobs


class Threads:
    """A pool of threads, used as a context manager.

    Parameters
    ----------
    n : int
        The number of threads. With one, the work runs in the calling thread.

    Attributes
    ----------
    n_shards : int
        The largest number of shards that `run` divides work into.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        # With more shards than threads, a slow thread delays the others less.
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
