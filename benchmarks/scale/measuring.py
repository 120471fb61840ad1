"""One fit in a process of its own: its time, and the most memory that it takes beside the system's file cache."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diprime
from benchmarks.paths import ROOT
from benchmarks.scale.data import N_FEATURES, TARGETS, domain_of
from diprime import sources

MODELS = {
    ("forest", "classification"): diprime.DiPriMeClassifier,
    ("forest", "regression"): diprime.DiPriMeRegressor,
    ("boosting", "classification"): diprime.DiPriMeBoostingClassifier,
    ("boosting", "regression"): diprime.DiPriMeBoostingRegressor,
}
SEED = 1
_SAMPLE_SECONDS = 0.05
_PRIVATE = ("RssAnon:", "RssShmem:")


@dataclass(frozen=True)
class Fit:
    """What a fit took.

    Attributes
    ----------
    seconds, cpu_seconds : float
        By the clock, and of all processors together, child processes included.
    peak_bytes : int
        The most memory of this process and its children that belongs to no file.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def measure(kind: str, task: str, files: list[Path], *, scratch: Path | None) -> Fit:
    """Fit in a new process: from files with scratch, or else to a matrix that is in memory before the clock starts."""
    request = json.dumps([kind, task, [str(path) for path in files], scratch and str(scratch)])
    command = [sys.executable, "-m", "benchmarks.scale", "--fit", request]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return Fit(**json.loads(done.stdout.splitlines()[-1]))


def fit_here(request: str) -> dict[str, Any]:
    """Fit in this process, as :func:`measure` asks."""
    kind, task, files, scratch = json.loads(request)
    import polars  # noqa: F401 -- before the clock starts

    model = MODELS[kind, task](domain=domain_of(task), random_state=SEED)
    data = None if scratch else _in_memory(files, task)
    warnings.simplefilter("ignore", diprime.PrivacyWarning)  # of the seed
    with _PeakMemory() as memory:
        start, cpu = time.perf_counter(), _cpu_seconds()
        if data is None:
            model.fit(sources.files(files, scratch=scratch))
        else:
            model.fit(*data)
        seconds, cpu = time.perf_counter() - start, _cpu_seconds() - cpu
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_bytes": memory.peak}


def _in_memory(files: list[str], task: str) -> tuple[Any, Any]:
    """Return all rows as a matrix, and the targets."""
    import polars as pl

    table = pl.concat([pl.read_parquet(file) for file in files])
    names = [f"x{i}" for i in range(N_FEATURES)]
    return table.select(names).to_numpy(order="c"), table[TARGETS[task]].to_numpy()


def _cpu_seconds() -> float:
    """Return the time that processors have worked for this process and for its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in used)


class _PeakMemory:
    """Watches memory in a thread.

    Attributes
    ----------
    peak : int
        The most bytes so far of this process and its children that belong to no file: RssAnon and RssShmem.
    """

    def __init__(self) -> None:
        self.peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            self.peak = max(self.peak, sum(_private_bytes(process) for process in [os.getpid(), *_children()]))


def _children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found += map(int, (task / "children").read_text().split())
        except OSError:  # the thread has ended
            continue
    return found


def _private_bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # the process has ended
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(_PRIVATE))
