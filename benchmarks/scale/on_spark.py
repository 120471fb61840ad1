"""Fits in Spark compared with fits in memory: ``python -m benchmarks.scale --parts spark``.

Spark has two executors of one processor each, which are processes of their own on this machine, and the rows are cached
there before a fit. In memory, a fit has two threads. Contenders take turns, and each reports its best round. The seeded
models must be equal, bit for bit. Needs ``pip install 'diprime[spark]'`` and Java.
"""

from __future__ import annotations

import atexit
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyspark
from pyspark.sql import SparkSession

import diprime
from benchmarks.speed.measuring import N_FEATURES, domain
from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier
from diprime.model.files import to_bytes

NAMES = list(domain().column_names)
N_EXECUTORS = 2
PARTITIONS_PER_EXECUTOR = 2
ROUNDS = 2
ROWS_AT_A_TIME = 10_000
_SOCKETS = "spark.python.unix.domain.socket.enabled"
SCHEMA = ", ".join([*(f"{name} float" for name in NAMES), "target bigint"])

Fit = Callable[..., Any]


def forest(*data: Any) -> DiPriMeClassifier:
    return DiPriMeClassifier(epsilon=1.0, domain=domain(), random_state=0).fit(*data)


def boosting(*data: Any) -> DiPriMeBoostingClassifier:
    return DiPriMeBoostingClassifier(epsilon=1.0, domain=domain(), random_state=0).fit(*data)


def make_rows(numbers: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Yield random rows in the shape of HIGGS: speed does not depend on what the numbers mean."""
    for number in (number for table in numbers for number in table["id"]):
        rng = np.random.default_rng(number)
        X = rng.standard_normal((ROWS_AT_A_TIME, N_FEATURES), dtype=np.float32)
        y = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(ROWS_AT_A_TIME, dtype=np.float32) > 0
        yield pd.DataFrame(X, columns=NAMES).assign(target=y.astype(np.int64))


@contextmanager
def two_executors() -> Iterator[SparkSession]:
    """Start Spark."""
    os.environ |= {"SPARK_HOME": home(), "PYSPARK_PYTHON": sys.executable}
    builder = SparkSession.builder.master(f"local-cluster[{N_EXECUTORS},1,2048]").config("spark.log.level", "ERROR")
    builder = builder.config("spark.executor.memory", "2g").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config(_SOCKETS, "true").config("spark.executorEnv.PYTHONPATH", str(Path(__file__).parents[2]))
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    try:
        yield session
    finally:
        session.stop()


@cache
def home() -> str:
    """Make a home of Spark that is removed at the end: executors write their logs there.

    There is one for all sessions of this process, because their Java is one.
    """
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for item in Path(pyspark.__file__).parent.iterdir():
        Path(folder, item.name).symlink_to(item)
    return folder


def best_of(fit: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """Return the least time of a fit, and its model."""
    seconds = []
    for _ in range(rounds):
        before = time.perf_counter()
        model = fit()
        seconds.append(time.perf_counter() - before)
    return min(seconds), model


def report(spark: SparkSession, n_rows: int, rounds: int, fits: dict[str, Fit]) -> Iterator[str]:
    """Yield the lines of the report."""
    n_parts = -(-n_rows // ROWS_AT_A_TIME)
    yield from [
        "# Spark",
        "",
        "`python -m benchmarks.scale --parts spark` prints this report.",
        f"The data are {n_parts * ROWS_AT_A_TIME:,} × {N_FEATURES} float32 values with a binary target.",
        f"The cluster has {N_EXECUTORS} executors with one core each, and a fit in memory has {N_EXECUTORS} threads.",
        f"Spark is version {spark.version} with `{_SOCKETS}`.",
        f"The machine has {os.cpu_count()} cores ({platform.machine()}), a load of {os.getloadavg()[0]:.1f} at the "
        f"start, and diprime {diprime.__version__}.",
        f"Times are the best of {rounds} rounds.",
        "",
        "| fit | seconds in memory | seconds in Spark | ratio to memory |",
        "|---|---:|---:|---:|",
    ]
    numbers = spark.range(0, n_parts, numPartitions=N_EXECUTORS * PARTITIONS_PER_EXECUTOR)
    table = numbers.mapInPandas(make_rows, SCHEMA).persist()
    try:
        here = table.toPandas()
        for name, fit in fits.items():
            in_memory, model = best_of(partial(fit, here[NAMES], here["target"]), rounds)
            in_spark, same = best_of(partial(fit, table, "target"), rounds)
            assert to_bytes(model._to_content()) == to_bytes(same._to_content()), "the models differ"
            yield f"| {name} | {in_memory:.1f} | {in_spark:.1f} | {in_spark / in_memory:.2f} |"
    finally:
        table.unpersist()
    yield ""
    yield "The models in memory and in Spark are bit-identical."


def report_here(n_rows: int) -> Iterator[str]:
    """Start Spark, and yield the lines of the report."""
    with two_executors() as spark:
        yield from report(spark, n_rows, ROUNDS, {"forest": forest, "boosting": boosting})
