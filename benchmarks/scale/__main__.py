"""Time and memory of fits from Parquet files by the number of rows: ``python -m benchmarks.scale``.

Files are made in a folder and removed afterwards. Every fit has a process of its own. It runs on Linux only, where
memory is read in /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import diprime
from benchmarks.paths import RESULTS
from benchmarks.scale.data import N_FEATURES, write_files
from benchmarks.scale.measuring import MODELS, Fit, fit_here, measure

IN_MEMORY = 1_000_000
N_PARTITIONS = (1, 7, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.scale")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000, 100_000_000])
    parser.add_argument("--fits", nargs="+", default=["-".join(names) for names in MODELS], metavar="KIND-TASK")
    parser.add_argument("--folder", type=Path, help="where the files are made, on a disk with room")
    parser.add_argument("--write", nargs="?", const="scale.md", help="keep the report in benchmarks/results")
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        print(json.dumps(fit_here(options.fit)))
        return
    fits = [(kind, task) for kind, task in MODELS if f"{kind}-{task}" in options.fits]
    lines: list[str] = []
    for line in report(options.rows, fits, options.folder):
        print(line, flush=True)
        lines.append(line)
        if options.write:  # what is measured is kept, whatever happens to the rest
            (RESULTS / options.write).write_text("\n".join([*lines, ""]), encoding="utf-8")


def report(sizes: list[int], fits: list[tuple[str, str]], folder: Path | None) -> Iterator[str]:
    """Yield the lines of the report."""
    yield from [
        "# Scale",
        "",
        f"`python -m benchmarks.scale`: {N_FEATURES} features of one decimal in Parquet files, {os.cpu_count()} cores "
        f"({platform.machine()}), diprime {diprime.__version__}. Load at the start: {os.getloadavg()[0]:.1f}.",
        "",
        "From files, reading and encoding are part of the time; in memory, the matrix is there before. Processor time "
        "is that of all cores, and of the process that reads ahead: unlike seconds, it hardly depends on what else the "
        "machine has to do. Memory is what the processes have that belongs to no file (RssAnon and RssShmem of /proc, "
        "every 50 ms): the interpreter is part of it, the system's file cache is not.",
        "",
    ]
    yield from identity(fits, folder)
    yield from [
        "",
        "| fit | rows | from | seconds | processor seconds | µs of a processor a row | × in memory | memory, MiB |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    bases: dict[tuple[str, str], float] = {}
    with _files(IN_MEMORY, folder) as (paths, _):
        for fit in fits:
            base = measure(*fit, paths, scratch=None)
            bases[fit] = base.cpu_seconds / IN_MEMORY
            yield row(fit, IN_MEMORY, "memory", base, bases[fit])
    for n_rows in sizes:
        with _files(n_rows, folder) as (paths, made):
            size = sum(path.stat().st_size for path in paths)
            for fit in fits:
                found = measure(*fit, paths, scratch=made)
                yield row(fit, n_rows, f"files, {size / 2**30:.2f} GiB", found, bases[fit])


@contextmanager
def _files(n_rows: int, folder: Path | None) -> Iterator[tuple[list[Path], Path]]:
    """Make files of so many rows, and remove them afterwards."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        yield write_files(Path(made), n_rows), Path(made)


def row(fit: tuple[str, str], n_rows: int, source: str, found: Fit, base: float) -> str:
    """Return a line of the table."""
    per_row = found.cpu_seconds / n_rows
    return (
        f"| {fit[0]}, {fit[1]} | {n_rows:,} | {source} | {found.seconds:.1f} | {found.cpu_seconds:.1f} "
        f"| {1e6 * per_row:.2f} | {per_row / base:.2f} | {found.peak_bytes / 2**20:,.0f} |"
    )


def identity(fits: list[tuple[str, str]], folder: Path | None) -> Iterator[str]:
    """Yield whether model files are the same in memory and from files in partitions; raise an error if not."""
    yield f"Model files of one seed, for {IN_MEMORY:,} rows in memory and from files in {N_PARTITIONS} partitions:"
    yield ""
    with _files(IN_MEMORY, folder) as (paths, made):
        for fit in fits:
            digests = {measure(*fit, paths, scratch=None).digest}
            for n in N_PARTITIONS:
                digests.add(measure(*fit, paths, scratch=made, partition_rows=-(-IN_MEMORY // n)).digest)
            if len(digests) > 1:
                raise AssertionError(f"{fit} differs.")
            yield f"- {fit[0]}, {fit[1]}: the same, `{digests.pop()[:16]}`"


if __name__ == "__main__":
    main()
