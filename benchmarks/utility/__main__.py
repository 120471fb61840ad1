"""Accuracy at each epsilon, compared with other libraries and the paper: ``python -m benchmarks.utility``.

All learners are trained on the same random nine tenths of the rows, and scored on the others, once for each repeat.
diprime runs with its defaults and without a seed. The command stores scores in ``benchmarks/results/utility.json`` and
measures only missing ones, so a run can be interrupted at any time. The report and the figures show the stored scores.
``pip install 'diprime[benchmark]'`` installs the other libraries. diffprivlib needs an old scikit-learn, so it gets a
separate environment.
"""

from __future__ import annotations

import argparse
import os
import time

from benchmarks.data import ALL_NAMES, load
from benchmarks.paths import FIGURES, RESULTS
from benchmarks.utility.contenders import CONTENDERS, old_python
from benchmarks.utility.figure import draw, draw_summary
from benchmarks.utility.measuring import missing, run
from benchmarks.utility.report import report
from benchmarks.utility.results import Results
from benchmarks.utility.scores import Facts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="python -m benchmarks.utility",
    )
    names = list(ALL_NAMES)
    parser.add_argument("--methods", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS), metavar="METHOD")
    parser.add_argument("--sets", nargs="+", choices=names, default=names, metavar="SET")
    parser.add_argument("--data", help="the directory of Parquet files (default: see benchmarks.data)")
    parser.add_argument("--fresh", action="store_true", help="measure the methods again, even if scores are stored")
    parser.add_argument("--report", action="store_true", help="measure nothing; write the report and draw the figures")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="number of processes (default: all cores)"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing new after this many minutes")
    options = parser.parse_args()
    if options.data:
        os.environ["DIPRIME_DATA"] = options.data  # worker processes inherit it
    start = time.monotonic()
    results = Results(RESULTS / "utility.json")
    if not options.report:
        if options.fresh:
            for contender in options.methods:
                results.drop(contender)
        units = list(missing(results, options.methods, options.sets))
        if any(unit.contender == "diffprivlib" for unit in units):
            old_python()  # created once, before worker processes need it
        run(results, units, options.jobs, start + 60 * options.minutes)
        print(f"{time.monotonic() - start:.0f} s.")
    facts = [Facts.of(load(name)) for name in names]
    text = report(results, facts)
    print(text)
    (RESULTS / "utility.md").write_text(text, encoding="utf-8")
    draw(results, facts, FIGURES / "utility.svg")
    draw_summary(results, facts, FIGURES / "utility-summary.svg")


if __name__ == "__main__":
    main()
