"""Memory of ``diprime fit`` and ``diprime predict`` on CSV files: ``python -m benchmarks.speed.memory``.

Each command runs in a process of its own, whose peak of resident memory the operating system reports. Compared with
the peak on a file of few rows, it shows what the rows cost.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import diprime
from benchmarks.paths import RESULTS
from benchmarks.speed.measuring import n_cores
from diprime import Categorical, Domain, Numeric

N_NUMBERS, N_CATEGORIES = 26, 2
COLOURS = ["red", "green", "blue"]
ROWS_AT_A_TIME = 250_000


def domain() -> Domain:
    features = {f"x{i}": Numeric(-5, 5) for i in range(N_NUMBERS)}
    categories = {f"c{i}": Categorical(COLOURS) for i in range(N_CATEGORIES)}
    return Domain({**features, **categories}, Categorical(["no", "yes"]), target_name="y")


def write_data(path: Path, n_rows: int) -> None:
    """Write random rows, one block after the other."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for start in range(0, n_rows, ROWS_AT_A_TIME):
            n = min(ROWS_AT_A_TIME, n_rows - start)
            X = rng.standard_normal((n, N_NUMBERS)).round(4)
            columns = {f"x{i}": X[:, i] for i in range(N_NUMBERS)}
            columns |= {f"c{i}": rng.choice(COLOURS, n) for i in range(N_CATEGORIES)}
            columns["y"] = np.where(X[:, 0] + rng.standard_normal(n) > 0, "yes", "no")
            pl.DataFrame(columns).write_csv(file, include_header=start == 0)


def peak_of(*arguments: object) -> float:
    """Run ``diprime`` with these arguments, and return its peak of resident memory in MiB."""
    command = [sys.executable, "-m", "diprime", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} failed.")
    return usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.speed.memory")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 1_000_000, 5_000_000])
    parser.add_argument("--write", action="store_true", help="keep the report in benchmarks/results")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "domain.toml").write_text(domain().to_toml())
        for n_rows in options.rows:
            data = place / "data.csv"
            write_data(data, n_rows)
            size = data.stat().st_size / 2**20
            fit = peak_of("fit", data, "-d", place / "domain.toml", "-e", 1, "-o", place / "model.diprime")
            predict = peak_of("predict", place / "model.diprime", data, "-o", place / "out.csv")
            lines.append(f"| {n_rows:,} | {size:,.0f} | {fit:,.0f} | {predict:,.0f} |")
    report = "\n".join(
        [
            "# Memory of the command line",
            "",
            "`python -m benchmarks.speed.memory` prints this report.",
            f"CSV files have {N_NUMBERS} numeric columns, {N_CATEGORIES} categorical columns and a class.",
            "Peaks are peaks of resident memory, including Python and its libraries.",
            f"The machine has {n_cores()} cores ({platform.machine()}) and diprime {diprime.__version__}.",
            "",
            "| rows | file, MiB | fit, peak MiB | predict, peak MiB |",
            "|---|---|---|---|",
            *lines,
            "",
        ]
    )
    print(report)
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "memory.md").write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
