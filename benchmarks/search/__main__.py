"""Choices and errors of private searches: ``python -m benchmarks.search``.

Results are kept in ``benchmarks/results/search.jsonl`` and only missing ones are measured, so a run can be interrupted
at any time.
"""

from __future__ import annotations

import argparse
import os
import time

from benchmarks.data import MULTICLASS, NAMES
from benchmarks.paths import RESULTS
from benchmarks.search.measuring import Results, measure_all
from benchmarks.search.report import report


def main() -> None:
    names = [*NAMES, *MULTICLASS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m benchmarks.search"
    )
    parser.add_argument("--sets", nargs="+", choices=names, default=names, metavar="SET")
    parser.add_argument("--data", help="the directory of Parquet files (default: see benchmarks.data)")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="number of processes (default: all cores)"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing new after this many minutes")
    options = parser.parse_args()
    if options.data:
        os.environ["DIPRIME_DATA"] = options.data  # worker processes inherit it
    path = RESULTS / "search.jsonl"
    if options.fresh:
        path.unlink(missing_ok=True)
    results = Results(path)
    deadline = time.monotonic() + 60 * options.minutes
    measure_all(results, list(results.missing(options.sets)), options.jobs, deadline)
    text = report(results, names)
    print(text)
    (RESULTS / "search.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
