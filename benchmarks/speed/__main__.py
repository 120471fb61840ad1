"""Time and memory compared with other libraries, on the same data: ``python -m benchmarks.speed``.

Timings are noisy, so contenders take turns and each reports its best of several rounds; ratios say more than seconds.
Boosting in other libraries takes minutes, so each of its fits is timed once. Other libraries are installed by
``pip install 'diprime[benchmark]'``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path

import diprime
from benchmarks.paths import RESULTS
from benchmarks.speed.boosting import report_boosting
from benchmarks.speed.forest import report_forest
from benchmarks.speed.measuring import N_FEATURES, make_data, n_cores, peak_extra_memory

# The title of each part, the file that it is kept in, and what measures it.
PARTS = {
    "forest": ("Speed of forests", "speed.md", report_forest),
    "boosting": ("Speed of boosting", "speed_boosting.md", report_boosting),
}


def head(title: str, rows: int, rounds: int, cores: int) -> list[str]:
    """Return the title and the conditions. The load shows whether the machine had other work."""
    return [
        f"# {title}",
        "",
        "`python -m benchmarks.speed` prints this report.",
        f"The data are {rows:,} × {N_FEATURES} float32 values with a binary target, except where stated.",
        f"The machine has {cores} cores ({platform.machine()}), a load of {os.getloadavg()[0]:.1f} at the start, and "
        f"diprime {diprime.__version__}.",
        f"Times are the best of {rounds} rounds, in which the learners take turns, except where stated.",
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.speed")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--write", action="store_true", help="keep the reports in benchmarks/results")
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        directory, estimator = options.memory_of
        print(json.dumps(peak_extra_memory(Path(directory), estimator)))
        return
    cores = n_cores()
    X, y = make_data(options.rows)
    for part in options.parts:
        title, file, measure = PARTS[part]
        text = head(title, options.rows, options.rounds, cores)
        report = "\n".join([*text, *measure(X, y, options.rounds, cores), ""])
        print(report, flush=True)
        if options.write:
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / file).write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
