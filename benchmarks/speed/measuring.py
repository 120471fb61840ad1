"""The measurements of :mod:`benchmarks.speed`: time and memory of diprime and other libraries."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paths import ROOT
from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeClassifier, Domain, Numeric

N_FEATURES = 28
RANGE = (-5, 5)


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_data(n_rows: int) -> tuple[Any, Any]:
    """Return random data in the shape of HIGGS: speed does not depend on what the numbers mean."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n_rows, dtype=np.float32) > 0).astype(np.int64)
    return X, y


def domain() -> Domain:
    return Domain({f"x{i}": Numeric(*RANGE) for i in range(N_FEATURES)}, target=Categorical([0, 1]))


def ours() -> DiPriMeClassifier:
    return DiPriMeClassifier(epsilon=1.0, domain=domain())


def boosting() -> DiPriMeBoostingClassifier:
    return DiPriMeBoostingClassifier(epsilon=1.0, domain=domain())


ESTIMATORS: dict[str, Callable[[], Any]] = {"forest": ours, "boosting": boosting}


def take_turns(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Run all contenders one after the other, ``rounds`` times, and return the best time of each."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def measure_fit(X: Any, y: Any, rounds: int, cores: int) -> dict[str, float]:
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import ExtraTreesClassifier

    def trees(n_jobs: int | None) -> Any:
        return ExtraTreesClassifier(10, max_depth=11, n_jobs=n_jobs)

    return take_turns(
        {
            "one pass over the matrix": lambda: X.sum(),
            "diprime, defaults": lambda: ours().fit(X, y),
            "LightGBM, 10 rounds": lambda: LGBMClassifier(n_estimators=10, n_jobs=cores, verbose=-1).fit(X, y),
            "ExtraTrees, 10 trees of depth 11, all cores": lambda: trees(cores).fit(X, y),
            "ExtraTrees, 10 trees of depth 11, its default of one core": lambda: trees(None).fit(X, y),
        },
        rounds,
    )


def measure_predict(X: Any, y: Any, rounds: int, cores: int) -> dict[str, float]:
    from sklearn.ensemble import RandomForestClassifier

    model = ours().fit(X, y)
    n_trees, depth = model.forest_.n_trees, int(model.forest_.depths[0])
    forest = RandomForestClassifier(n_trees, max_depth=depth, n_jobs=cores).fit(X[:200_000], y[:200_000])
    name = f"RandomForest, {n_trees} trees of depth {depth}"
    return take_turns({"diprime, same size": lambda: model.predict(X), name: lambda: forest.predict(X)}, rounds)


def peak_memory() -> float:
    """Return the peak of resident memory of this process in bytes.

    On Linux, the peak that getrusage reports may be that of the parent process.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024.0 * int(line.split()[1])
    raise RuntimeError("The peak of memory is read from /proc, which this system does not have.")


def peak_extra_memory(directory: Path, estimator: str) -> dict[str, float]:
    """Return by how many bytes a fit raises the peak of a process that holds its input, and the size of the input."""
    X, y = np.load(directory / "X.npy"), np.load(directory / "y.npy")
    make = ESTIMATORS[estimator]
    make().fit(X[:1000], y[:1000])  # loads code and libraries before the measurement
    before = peak_memory()
    make().fit(X, y)
    return {"extra": peak_memory() - before, "input": float(X.nbytes)}


def measure_memory(X: Any, y: Any, estimator: str) -> dict[str, float]:
    """Measure in a fresh process that reads the data from files, as generating them would raise its peak."""
    with tempfile.TemporaryDirectory() as directory:
        np.save(Path(directory) / "X.npy", X)
        np.save(Path(directory) / "y.npy", y)
        command = [sys.executable, "-m", "benchmarks.speed", "--memory-of", directory, estimator]
        return dict(json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout))


def measure_start(rounds: int) -> dict[str, float]:
    """Return the time of a fresh process that fits 1,000 rows, and of one that imports scikit-learn's ensembles."""
    fit = (
        "import numpy as np; from diprime import *; X = np.random.default_rng(0).random((1000, 5));"
        "d = Domain({f'x{i}': Numeric(0, 1) for i in range(5)}, target=Categorical([False, True]));"
        "DiPriMeClassifier(1.0, d).fit(X, X[:, 0] > 0.5)"
    )

    def fresh(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    scripts = {
        "import diprime, fit 1,000 rows": fresh(fit),
        "import sklearn.ensemble": fresh("import sklearn.ensemble"),
    }
    return take_turns(scripts, rounds)


def measure_scaling(n_rows: int, rounds: int) -> dict[str, float]:
    times = {}
    for n in (n_rows, 10 * n_rows):
        X, y = make_data(n)
        ours().fit(X, y)
        times[f"{n:,} rows"] = statistics.median(
            take_turns({"fit": lambda X=X, y=y: ours().fit(X, y)}, 1)["fit"] for _ in range(rounds)
        )
    return times
