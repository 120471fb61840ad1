"""Parquet files of any size, written row group by row group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from diprime import Categorical, Domain, Numeric

N_FEATURES = 28
ROW_GROUP = 100_000
ROWS_OF_FILE = 10_000_000
RANGE = (-5, 5)
TARGETS = {"classification": "positive", "regression": "value"}


def domain_of(task: str) -> Domain:
    """Return the domain of the files, with the target of a task."""
    target = Categorical([0, 1]) if task == "classification" else Numeric(-8, 8)
    return Domain({f"x{i}": Numeric(*RANGE) for i in range(N_FEATURES)}, target=target, target_name=TARGETS[task])


def row_group(number: int, n_rows: int) -> dict[str, Any]:
    """Return the columns of a row group, which follow from its number: values of one decimal, and both targets."""
    rng = np.random.default_rng(number)
    X = np.round(rng.standard_normal((N_FEATURES, n_rows), dtype=np.float32), 1)
    value = X[0] + X[1] * X[2] + rng.standard_normal(n_rows, dtype=np.float32)
    targets = {"positive": (value > 0).astype(np.int8), "value": np.round(value, 1)}
    return {f"x{i}": column for i, column in enumerate(X)} | targets


def sizes_of_groups(n_rows: int) -> Iterator[int]:
    """Yield the number of rows of each row group."""
    for begin in range(0, n_rows, ROW_GROUP):
        yield min(ROW_GROUP, n_rows - begin)


def write_files(folder: Path, n_rows: int) -> list[Path]:
    """Write so many rows to Parquet files in a folder, and return the files. No more than a row group is in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths: list[Path] = []
    writer = None
    for number, size in enumerate(sizes_of_groups(n_rows)):
        table = pa.table(row_group(number, size))
        if number * ROW_GROUP % ROWS_OF_FILE == 0:
            if writer is not None:
                writer.close()
            paths.append(folder / f"part-{len(paths):04d}.parquet")
            writer = pq.ParquetWriter(paths[-1], table.schema)
        assert writer is not None
        writer.write_table(table, row_group_size=ROW_GROUP)
    if writer is not None:
        writer.close()
    return paths
