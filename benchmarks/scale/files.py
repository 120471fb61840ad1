"""Time and memory of fits from Parquet files by the number of rows: a part of ``python -m benchmarks.scale``.

Files are made in a folder and removed afterwards. Every fit has a process of its own. It runs on Linux only, where
memory is read in /proc.
"""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import diprime
from benchmarks.scale.data import N_FEATURES, write_files
from benchmarks.scale.measuring import Fit, measure

IN_MEMORY = 1_000_000
ROWS = (1_000_000, 10_000_000, 100_000_000)
FITS = (("forest", "classification"), ("forest", "regression"), ("boosting", "classification"))
N_SHORT = 3
"""How often a fit of few rows is repeated, for the median of its times."""


def report(
    sizes: Sequence[int] = ROWS, folder: Path | None = None, fits: Sequence[tuple[str, str]] = FITS
) -> Iterator[str]:
    """Yield the lines of the report."""
    yield from [
        "# Files larger than memory",
        "",
        "`python -m benchmarks.scale --parts files` prints this report.",
        f"The data have {N_FEATURES} features with one decimal place, in Parquet files.",
        f"The machine has {os.cpu_count()} cores ({platform.machine()}), a load of {os.getloadavg()[0]:.1f} at the "
        f"start, and diprime {diprime.__version__}.",
        "",
        "* **Time from files** includes reading, encoding and the process that reads ahead.",
        "* **Time in memory** begins when the matrix is in memory.",
        "* **Imports** of modules are not part of the time.",
        "* **Processor seconds** are the sum over all cores.",
        "  Unlike seconds, they hardly depend on the other load of the machine.",
        "* **Ratios** compare the time per row with that of a fit in memory.",
        f"* **Repeats**: times of up to a million rows are medians of {N_SHORT} fits.",
        "* **Memory** is the memory of all processes that belongs to no file (RssAnon and RssShmem of /proc, every "
        "50 ms).",
        "  It includes the interpreter, but not the system's file cache.",
        "",
        "| fit | rows | source | seconds | processor seconds | processor µs per row | ratio, processor seconds "
        "| ratio, seconds | memory, MiB |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    bases: dict[tuple[str, str], Fit] = {}
    with made_files(IN_MEMORY, folder) as (paths, _):
        for fit in fits:
            bases[fit] = _measured(fit, paths, None, IN_MEMORY)
            yield row(fit, IN_MEMORY, "memory", bases[fit], bases[fit])
    for n_rows in sizes:
        with made_files(n_rows, folder) as (paths, made):
            size = sum(path.stat().st_size for path in paths)
            for fit in fits:
                found = _measured(fit, paths, made, n_rows)
                yield row(fit, n_rows, f"files, {size / 2**30:.2f} GiB", found, bases[fit])


def _measured(fit: tuple[str, str], paths: list[Path], scratch: Path | None, n_rows: int) -> Fit:
    """Return what a fit takes, or the median of several short ones by processor time."""
    found = [measure(*fit, paths, scratch=scratch) for _ in range(N_SHORT if n_rows <= IN_MEMORY else 1)]
    return Fit(
        statistics.median(one.seconds for one in found),
        statistics.median(one.cpu_seconds for one in found),
        max(one.peak_bytes for one in found),
    )


@contextmanager
def made_files(n_rows: int, folder: Path | None) -> Iterator[tuple[list[Path], Path]]:
    """Make files of so many rows, and remove them afterwards."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        yield write_files(Path(made), n_rows), Path(made)


def row(fit: tuple[str, str], n_rows: int, source: str, found: Fit, base: Fit) -> str:
    """Return a line of the table."""
    more = n_rows / IN_MEMORY
    return (
        f"| {fit[0]}, {fit[1]} | {n_rows:,} | {source} | {found.seconds:.1f} | {found.cpu_seconds:.1f} "
        f"| {1e6 * found.cpu_seconds / n_rows:.2f} | {found.cpu_seconds / base.cpu_seconds / more:.2f} "
        f"| {found.seconds / base.seconds / more:.2f} | {found.peak_bytes / 2**20:,.0f} |"
    )
