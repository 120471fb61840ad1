"""Threads, memory and progress of a computation."""

from __future__ import annotations

import numbers
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier
from types import TracebackType

import numpy as np


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Return the number of threads for scikit-learn's ``n_jobs``, where None means all available cores."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral)):
        raise TypeError(f"n_jobs must be an integer or None, got {n_jobs!r}.")
    if n_jobs is None or n_jobs < 0:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cores if n_jobs is None else max(1, cores + 1 + n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; use None for all cores or a positive number of threads.")
    return n_jobs


class Threads:
    """Pool of threads, used as a context manager."""

    def __init__(self, n: int) -> None:
        self.n = n
        # With more shards than threads, a slow thread delays the others less.
        self.n_shards = n if n == 1 else 4 * n
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Threads:
        if self.n > 1:
            self._pool = ThreadPoolExecutor(self.n)
            self._start(self._pool)
        return self

    def _start(self, pool: ThreadPoolExecutor) -> None:
        """Start all threads, before a fit is charged, and raise `MemoryError` if one of them cannot start."""
        all_started = Barrier(self.n)
        try:
            for _ in range(self.n):
                pool.submit(all_started.wait)
        except RuntimeError:
            pool.shutdown(wait=False)
            raise MemoryError("There is not enough memory for another thread.") from None
        finally:
            all_started.abort()  # otherwise, threads would wait forever after an error or interrupt

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


TRAINING_BYTES = 1 << 28
"""Memory for allocations after a charge, apart from arrays of all rows: costs, sums and blocks of rows."""


def check_room(n_bytes: int = 0) -> None:
    """Raise `MemoryError` unless ``n_bytes``, and the memory of training, can be allocated. They are freed at once."""
    np.empty(TRAINING_BYTES + n_bytes, dtype=np.uint8)


_WIDTH = 30
_DELAY_SECONDS = 0.5


class Progress:
    """Counter of finished levels, rounds or partitions, but never rows, with a bar after half a second."""

    def __init__(self, total: int, unit: str, *, shown: bool, work: str = "Growing trees") -> None:
        self._total = total
        self._unit = unit
        self._shown = shown
        self._work = work
        self._done = 0
        self._started = time.monotonic()
        self._drawn = False

    def advance(self) -> None:
        """Count one finished step."""
        self._done += 1
        if self._shown and (self._drawn or time.monotonic() - self._started > _DELAY_SECONDS):
            self._drawn = True
            filled = _WIDTH * self._done // self._total
            bar = "#" * filled + "." * (_WIDTH - filled)
            end = "\n" if self._done == self._total else ""
            text = f"\r{self._work} [{bar}] {self._done}/{self._total} {self._unit}"
            print(text, end=end, file=sys.stderr, flush=True)
