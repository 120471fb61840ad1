"""All figures of fits to large data: ``python -m benchmarks.scale``.

The parts are: *identity*, the same model wherever the rows are; *files*, time and memory of fits from Parquet files by
the number of rows; *dask*, time on a Dask cluster compared with memory, and with LightGBM; *spark*, time in Spark
compared with memory.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.paths import RESULTS
from benchmarks.scale import files, identity
from benchmarks.scale.measuring import fit_here


@dataclass(frozen=True)
class Part:
    """A part of the figures.

    Attributes
    ----------
    report : callable
        Yields the lines of its report, for the options of the command.
    file : str
        Where they are kept in benchmarks/results.
    minutes : callable
        About how long it takes on two cores that have nothing else to do, for the options of the command.
    """

    report: Callable[[argparse.Namespace], Iterator[str]]
    file: str
    minutes: Callable[[argparse.Namespace], float]


def on_dask(options: argparse.Namespace) -> Iterator[str]:
    from benchmarks.scale import on_dask  # needs the extra diprime[dask]

    return on_dask.report_here(options.dask_rows)


def on_spark(options: argparse.Namespace) -> Iterator[str]:
    from benchmarks.scale import on_spark  # needs the extra diprime[spark]

    return on_spark.report_here(options.spark_rows)


PARTS = {
    "identity": Part(lambda options: identity.report(folder=options.folder), "scale_identity.md", lambda options: 2.0),
    "files": Part(
        lambda options: files.report(options.rows, options.folder),
        "scale.md",
        lambda options: 1.0 + sum(options.rows) * 4e-6 / 60,
    ),
    "dask": Part(on_dask, "scale_dask.md", lambda options: 0.5 + options.dask_rows * 17e-6 / 60),
    "spark": Part(on_spark, "scale_spark.md", lambda options: 1.0 + options.spark_rows * 60e-6 / 60),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.scale")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--rows", type=int, nargs="+", default=list(files.ROWS), help="of the part files")
    parser.add_argument("--dask-rows", type=int, default=10_000_000, help="of the part dask")
    parser.add_argument("--spark-rows", type=int, default=1_000_000, help="of the part spark")
    parser.add_argument("--folder", type=Path, help="where files are made, on a disk with room")
    parser.add_argument("--write", action="store_true", help="keep the reports in benchmarks/results")
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        print(json.dumps(fit_here(options.fit)))
        return
    minutes = sum(PARTS[name].minutes(options) for name in options.parts)
    print(f"On two cores that have nothing else to do, this takes about {minutes:.0f} minutes.", file=sys.stderr)
    for name in options.parts:
        run(PARTS[name], options)


def run(part: Part, options: argparse.Namespace) -> None:
    """Print the report of a part, and keep it if that is asked for; what is measured is kept, whatever follows."""
    lines: list[str] = []
    for line in part.report(options):
        print(line, flush=True)
        lines.append(line)
        if options.write:
            (RESULTS / part.file).write_text("\n".join([*lines, ""]), encoding="utf-8")
    print()


if __name__ == "__main__":
    main()
