"""The same seed gives the same model, bit for bit, wherever the rows are: a part of ``python -m benchmarks.scale``.

The rows have numbers, on a plain and on a log scale, categories of text and of numbers, missing values, values out of
range and unknown categories, among features and targets alike.
"""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import diprime
from benchmarks.scale.measuring import MODELS, SEED
from diprime import Categorical, Domain, Numeric, sources
from diprime.model.files import to_bytes

N_ROWS = 200_000
N_FILES = 6
FEATURES = {
    "age": Numeric(0, 100),
    "income": Numeric(1, 1e6, scale="log"),
    "kind": Categorical(["a", "b", "c", "d"]),
    "side": Categorical([0, 1]),
}
TARGETS = {"classification": Categorical(["high", "low", "mid"]), "regression": Numeric(0, 10)}

Models = Sequence[Any]
Way = Callable[[Models, "Table"], None]
"""Fits models to a table; each has the domain of its task, whose target is the column of that name."""


class Table:
    """The rows, in files and in memory.

    Parameters
    ----------
    folder : Path
        Where the files are made.
    n_rows : int
        The number of rows.

    Attributes
    ----------
    folder : Path
        The folder of the files.
    frame : DataFrame
        All rows; a column of targets for each task.
    files : list of Path
        Parquet files that have them in this order.
    """

    def __init__(self, folder: Path, n_rows: int) -> None:
        self.folder = folder
        self.frame = make_rows(n_rows)
        self.files = [folder / f"part{number}.parquet" for number in range(N_FILES)]
        for file, rows in zip(self.files, np.array_split(np.arange(n_rows), N_FILES), strict=True):
            self.frame.iloc[rows].to_parquet(file, index=False)


def make_rows(n: int) -> pd.DataFrame:
    """Return the rows, which follow from their number."""
    rng = np.random.default_rng(0)
    age, side = rng.uniform(-5, 105, n), rng.integers(0, 2, n).astype(float)
    value = age / 20 + 4 * side + rng.normal(0, 0.5, n)
    table = pd.DataFrame(
        {
            "age": age,
            "income": rng.lognormal(10, 2, n),
            "kind": rng.choice(np.array(["a", "b", "c", "d", "unknown"], dtype=object), n),
            "side": side,
            "regression": value,
            "classification": np.array(["low", "mid", "high", "unknown"], dtype=object)[np.digitize(value, [3, 6, 9])],
        }
    )
    return table.mask(rng.random(table.shape) < 0.05)


def domain_of(task: str) -> Domain:
    """Return the domain of a task."""
    return Domain(FEATURES, target=TARGETS[task], target_name=task)


def in_memory(models: Models, table: Table) -> None:
    for model in models:
        model.fit(table.frame[list(FEATURES)], table.frame[model.domain.target_name])


def from_files(models: Models, table: Table, n_partitions: int) -> None:
    n_rows = -(-len(table.frame) // n_partitions)
    with mock.patch.object(diprime.execution.partition, "PARTITION_ROWS", n_rows):
        for model in models:
            model.fit(sources.files(table.files, scratch=table.folder))


def on_dask(models: Models, table: Table, n_workers: int) -> None:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    frame = dd.from_map(pd.read_parquet, table.files)
    cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster):
        for model in models:
            model.fit(frame[list(FEATURES)], frame[model.domain.target_name])


def on_spark(models: Models, table: Table) -> None:
    from benchmarks.scale.on_spark import two_executors

    with two_executors() as spark:
        fit_on(spark, models, table)


def fit_on(spark: Any, models: Models, table: Table) -> None:
    """Fit models to a table in a session of Spark."""
    # One file after the other: Spark may read those of one call in another order, and a seed numbers rows.
    frame = reduce(lambda rows, more: rows.union(more), [spark.read.parquet(str(file)) for file in table.files])
    for model in models:
        target = model.domain.target_name
        model.fit(frame.select(*FEATURES, target), target)


WAYS: dict[str, Way] = {
    "memory": in_memory,
    **{f"files, {n} partition{'s' * (n > 1)}": partial(from_files, n_partitions=n) for n in (1, 7, 64)},
    **{f"Dask, {n} worker{'s' * (n > 1)}": partial(on_dask, n_workers=n) for n in (1, 3)},
    "Spark, 2 executors": on_spark,
}
"""Where the rows can be; the first one is what the others are compared with."""


def digests(way: Way, table: Table, kinds: Sequence[tuple[str, str]] = tuple(MODELS)) -> list[str]:
    """Return a digest of the model of each kind and task."""
    models = [MODELS[kind, task](domain=domain_of(task), random_state=SEED) for kind, task in kinds]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", diprime.PrivacyWarning)  # of the seed
        way(models, table)
    return [hashlib.sha256(to_bytes(model._to_content())).hexdigest() for model in models]


def report(n_rows: int = N_ROWS, folder: Path | None = None) -> Iterator[str]:
    """Yield the lines of the report; raise an error if models differ."""
    yield from [
        "# Identical models from all sources",
        "",
        f"`python -m benchmarks.scale --parts identity` prints this report, last with diprime {diprime.__version__}.",
        "Cells are digests of model files with the same seed.",
        f"The {n_rows:,} rows include categories, missing values, values out of range and unknown categories.",
        "",
        "| source | " + " | ".join(f"{kind}, {task}" for kind, task in MODELS) + " |",
        "|---|" + "---|" * len(MODELS),
    ]
    with _table(n_rows, folder) as table:
        expected: list[str] | None = None
        for name, way in WAYS.items():
            found = digests(way, table)
            expected = expected or found
            if found != expected:
                raise AssertionError(f"Models of {name} differ.")
            yield f"| {name} | " + " | ".join(f"`{digest[:12]}`" for digest in found) + " |"


@contextmanager
def _table(n_rows: int, folder: Path | None) -> Iterator[Table]:
    with tempfile.TemporaryDirectory(dir=folder) as made:
        yield Table(Path(made), n_rows)
