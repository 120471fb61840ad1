"""Accuracy at each epsilon, untuned, compared with peers and the paper: ``python -m benchmarks.utility``.

Every contender learns from the same random nine tenths of the rows and is scored on the rest, once for each repeat.
Ours runs with its defaults and without a seed. Scores are kept in ``benchmarks/results/utility.json`` and only missing
ones are measured, so a run can be interrupted at any time; the report and the figure show the scores that are there.
Peers are installed by ``pip install 'diprime[benchmark]'``; diffprivlib, which needs an old scikit-learn, gets a
separate environment.
"""

from __future__ import annotations

import argparse
import os
import time

from benchmarks.data import MULTICLASS, NAMES, load
from benchmarks.paths import FIGURES, RESULTS
from benchmarks.utility.contenders import CONTENDERS, old_python
from benchmarks.utility.figure import draw
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
    names = [*NAMES, *MULTICLASS]
    parser.add_argument("--methods", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS), metavar="METHOD")
    parser.add_argument("--sets", nargs="+", choices=names, default=names, metavar="SET")
    parser.add_argument("--data", help="the directory of Parquet files (default: see benchmarks.data)")
    parser.add_argument("--fresh", action="store_true", help="measure the methods again, even where scores are kept")
    parser.add_argument("--report", action="store_true", help="measure nothing; write the report and draw the figure")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes (default: all cores)")
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


if __name__ == "__main__":
    main()
