"""Fits on a Dask cluster compared with fits in memory, and with LightGBM: ``python -m benchmarks.scale.on_dask``.

The rows are on the workers before a fit, and in this process as well. Contenders take turns, and each reports its best
round. Beside the time there is processor time, of this process and of the workers: it says what a fit costs where the
machine has other work, which delays each of the messages that a cluster needs. LightGBM is installed by ``pip install
'diprime[benchmark,dask]'``.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster, wait

import diprime
from benchmarks.paths import RESULTS
from benchmarks.speed.measuring import N_FEATURES, domain
from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier
from diprime.model.files import to_bytes

NAMES = list(domain().columns)
N_WORKERS = 2
PARTITIONS_PER_WORKER = 2

Fit = Callable[[Any, Any], Any]


def forest(X: Any, y: Any) -> DiPriMeClassifier:
    return DiPriMeClassifier(epsilon=1.0, domain=domain(), random_state=0).fit(X, y)


def boosting(X: Any, y: Any) -> DiPriMeBoostingClassifier:
    return DiPriMeBoostingClassifier(epsilon=1.0, domain=domain(), random_state=0).fit(X, y)


def lightgbm(X: Any, y: Any) -> Any:
    from lightgbm import DaskLGBMClassifier

    return DaskLGBMClassifier(n_estimators=10, verbose=-1).fit(X, y)


def make_part(number: int, n_rows: int) -> pd.DataFrame:
    """Return random rows in the shape of HIGGS: speed does not depend on what the numbers mean."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n_rows, dtype=np.float32) > 0
    return pd.DataFrame(X, columns=NAMES).assign(target=y.astype(np.int64))


def spent(client: Client) -> np.ndarray[Any, Any]:
    """Return the time, and the processor time of this process and of all workers."""
    return np.array([time.perf_counter(), time.process_time(), sum(client.run(time.process_time).values())])


def take_turns(client: Client, contenders: dict[str, Callable[[], Any]], rounds: int) -> Iterator[tuple[str, Any, Any]]:
    """Run all contenders one after the other, and yield the least time of each, processor times, and the model."""
    best: dict[str, Any] = {}
    models: dict[str, Any] = {}
    for _ in range(rounds):
        for name, run in contenders.items():
            before = spent(client)
            models[name] = run()
            took = spent(client) - before
            best[name] = np.minimum(best.get(name, took), took)
    for name, took in best.items():
        yield name, took, models[name]


def report(client: Client, n_rows: int, rounds: int) -> Iterator[str]:
    """Yield the lines of the report."""
    yield from [
        "# Dask",
        "",
        f"`python -m benchmarks.scale.on_dask`: {n_rows:,} × {N_FEATURES} float32 in pandas DataFrames, binary target, "
        f"{N_WORKERS} workers of one thread on {os.cpu_count()} cores ({platform.machine()}), diprime "
        f"{diprime.__version__}, best of {rounds} rounds taken in turns. In memory, a fit has {N_WORKERS} threads. "
        f"Load at the start: {os.getloadavg()[0]:.1f}.",
        "",
        "| fit | seconds | processor seconds, here | processor seconds, workers | × in memory |",
        "|---|---:|---:|---:|---:|",
    ]
    n_parts = N_WORKERS * PARTITIONS_PER_WORKER
    table = dd.from_map(make_part, range(n_parts), n_rows=n_rows // n_parts, meta=make_part(0, 0)).persist()
    on_dask = table[NAMES].persist(), table["target"].persist()
    wait(on_dask)
    here = table.compute()
    in_memory = here[NAMES], here["target"]
    del table, here
    seconds = {}
    for name, fit in {"forest": forest, "boosting": boosting}.items():
        pair = {"memory": lambda fit=fit: fit(*in_memory), "dask": lambda fit=fit: fit(*on_dask)}
        digits = set()
        for where, took, model in take_turns(client, pair, rounds):
            seconds[name, where] = took[0]
            digits.add(to_bytes(model._to_content()))
            yield _row(f"{name}, {where}", took, f"{took[0] / seconds[name, 'memory']:.2f}")
        assert len(digits) == 1, "the models differ"
    for _, took, _ in take_turns(client, {"": lambda: lightgbm(*on_dask)}, rounds):
        yield _row("LightGBM's Dask interface, 10 rounds", took, "")
        ratio = took[0] / seconds["forest", "dask"]
    yield ""
    yield "The models in memory and on Dask are equal, bit for bit. " + (
        f"LightGBM takes {ratio:.1f} times as long as the forest on Dask."
    )


def _row(name: str, took: Any, ratio: str) -> str:
    return f"| {name} | {took[0]:.1f} | {took[1]:.1f} | {took[2]:.1f} | {ratio} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.scale.on_dask")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="keep the report in benchmarks/results")
    options = parser.parse_args()
    cluster = LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster, direct_to_workers=True) as client:
        lines = []
        for line in report(client, options.rows, options.rounds):
            print(line, flush=True)
            lines.append(line)
    if options.write:
        (RESULTS / "scale_dask.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
