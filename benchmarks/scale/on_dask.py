"""Fits on a Dask cluster compared with fits in memory, and with LightGBM: ``python -m benchmarks.scale --parts dask``.

The rows are on the workers before a fit, and in this process as well. Contenders take turns, so that whatever else the
machine does befalls both, and each reports its median. Beside the time there is processor time, of this process and of
the workers: it says what a fit costs where the machine has other work, which delays each of the messages that a cluster
needs. LightGBM is installed by ``pip install 'diprime[benchmark,dask]'``.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.dataframe as dd
import numpy as np
import numpy.typing as npt
import pandas as pd
from distributed import Client, LocalCluster, wait

import diprime
from benchmarks.speed.measuring import N_FEATURES, domain
from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier
from diprime.model.files import to_bytes

NAMES = list(domain().column_names)
N_WORKERS = 2
PARTITIONS_PER_WORKER = 2
N_ROUNDS = 3
PEER_ROUNDS = 10
"""Of boosting, which LightGBM has."""

Floats = npt.NDArray[np.float64]


def forest(X: Any, y: Any) -> DiPriMeClassifier:
    return DiPriMeClassifier(epsilon=1.0, domain=domain(), random_state=0).fit(X, y)


def boosting(X: Any, y: Any, **others: Any) -> DiPriMeBoostingClassifier:
    return DiPriMeBoostingClassifier(epsilon=1.0, domain=domain(), random_state=0, **others).fit(X, y)


def lightgbm(X: Any, y: Any) -> Any:
    from lightgbm import DaskLGBMClassifier

    return DaskLGBMClassifier(n_estimators=PEER_ROUNDS, verbose=-1).fit(X, y)


def make_part(number: int, n_rows: int) -> pd.DataFrame:
    """Return random rows in the shape of HIGGS: speed does not depend on what the numbers mean."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n_rows, dtype=np.float32) > 0
    return pd.DataFrame(X, columns=NAMES).assign(target=y.astype(np.int64))


def spent(client: Client) -> Floats:
    """Return the time, and the processor time of this process and of all workers."""
    return np.array([time.perf_counter(), time.process_time(), sum(client.run(time.process_time).values())])


@dataclass(frozen=True)
class Taken:
    """What a contender took in each round.

    Attributes
    ----------
    rounds : array of shape (n_rounds, 3)
        Seconds, processor seconds here and processor seconds of the workers.
    model : object
        The last model.
    """

    rounds: Floats
    model: Any

    @property
    def median(self) -> Floats:
        """The median of each."""
        return np.median(self.rounds, axis=0)

    def ratio(self, base: Taken) -> float:
        """Return the median, over the rounds, of how many times as long as another contender it took."""
        return float(np.median(self.rounds[:, 0] / base.rounds[:, 0]))


def take_turns(client: Client, contenders: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Taken]:
    """Run all contenders one after the other, in so many rounds; return what each took."""
    spans: dict[str, list[Floats]] = {name: [] for name in contenders}
    models: dict[str, Any] = {}
    for _ in range(rounds):
        for name, run in contenders.items():
            before = spent(client)
            models[name] = run()
            spans[name].append(spent(client) - before)
    return {name: Taken(np.array(spans[name]), models[name]) for name in contenders}


def report(client: Client, n_rows: int, rounds: int = N_ROUNDS) -> Iterator[str]:
    """Yield the lines of the report."""
    yield from [
        "# Dask",
        "",
        "`python -m benchmarks.scale --parts dask` prints this report.",
        f"The data are {n_rows:,} × {N_FEATURES} float32 values in pandas DataFrames with a binary target.",
        f"The cluster has {N_WORKERS} workers with one thread each, and a fit in memory has {N_WORKERS} threads.",
        f"The machine has {os.cpu_count()} cores ({platform.machine()}), a load of {os.getloadavg()[0]:.1f} at the "
        f"start, and diprime {diprime.__version__}.",
        f"Times are medians of {rounds} rounds, in which the fits take turns.",
        "",
        "| fit | seconds | processor seconds, client | processor seconds, workers | ratio to memory |",
        "|---|---:|---:|---:|---:|",
    ]
    on_dask, in_memory = make_rows(n_rows)
    taken = {}
    for name, fit in {"forest": forest, "boosting": boosting}.items():
        pair = take_turns(client, {"memory": partial(fit, *in_memory), "dask": partial(fit, *on_dask)}, rounds)
        for where, took in pair.items():
            yield _row(f"{name}, {where}", took, f"{took.ratio(pair['memory']):.2f}")
        assert len({to_bytes(took.model._to_content()) for took in pair.values()}) == 1, "the models differ"
        taken[name] = pair["dask"]
    fits = {"ours": partial(boosting, *on_dask, n_rounds=PEER_ROUNDS), "LightGBM": partial(lightgbm, *on_dask)}
    short, peer = take_turns(client, fits, rounds).values()
    yield _row(f"boosting, {PEER_ROUNDS} rounds, dask", short, "")
    yield _row(f"LightGBM's Dask interface, {PEER_ROUNDS} rounds", peer, "")
    yield ""
    yield "The models in memory and on Dask are bit-identical."
    yield (
        f"LightGBM takes {peer.ratio(taken['forest']):.1f} times as long as the forest on Dask, and "
        f"{peer.ratio(short):.1f} times as long as boosting with the same number of rounds."
    )


def make_rows(n_rows: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return records and targets on the workers, and the same in memory."""
    n_parts = N_WORKERS * PARTITIONS_PER_WORKER
    table = dd.from_map(make_part, range(n_parts), n_rows=n_rows // n_parts, meta=make_part(0, 0)).persist()
    on_dask = table[NAMES].persist(), table["target"].persist()
    wait(on_dask)
    here = table.compute()
    return on_dask, (here[NAMES], here["target"])


def report_here(n_rows: int, rounds: int = N_ROUNDS) -> Iterator[str]:
    """Yield the lines of the report, of a cluster on this machine."""
    cluster = LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster, direct_to_workers=True) as client:
        yield from report(client, n_rows, rounds)


def _row(name: str, took: Taken, ratio: str) -> str:
    seconds, here, workers = took.median
    return f"| {name} | {seconds:.1f} | {here:.1f} | {workers:.1f} | {ratio} |"
