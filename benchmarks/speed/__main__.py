"""Time and memory compared with peers, in one run on the same data: ``python -m benchmarks.speed``.

Timings are noisy, so contenders take turns and each reports its best of several rounds; ratios say more than seconds.
Peers are installed by ``pip install 'diprime[benchmark]'``.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

import diprime
from benchmarks.paths import RESULTS
from benchmarks.speed.boosting import report_boosting
from benchmarks.speed.measuring import (
    N_FEATURES,
    make_data,
    measure_fit,
    measure_memory,
    measure_predict,
    measure_scaling,
    measure_start,
    n_cores,
    peak_extra_memory,
)
from benchmarks.speed.tables import memory_line, table, verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.speed")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--write", action="store_true", help="keep the report in benchmarks/results/speed.md")
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        directory, estimator = options.memory_of
        print(json.dumps(peak_extra_memory(Path(directory), estimator)))
        return
    cores = n_cores()
    X, y = make_data(options.rows)
    fit = measure_fit(X, y, options.rounds, cores)
    predict = measure_predict(X, y, options.rounds, cores)
    memory = measure_memory(X, y, "forest")
    of_boosting, bars_of_boosting = report_boosting(X, y, cores)
    del X, y
    start = measure_start(options.rounds)
    scaling = measure_scaling(options.rows, 3)
    _, us, lightgbm, extra_trees, default_extra_trees = fit.values()
    our_predict, their_predict = predict.values()
    our_start, their_start = start.values()
    small, large = scaling.values()
    report = "\n".join(
        [
            "# Speed",
            "",
            f"`python -m benchmarks.speed`: {options.rows:,} × {N_FEATURES} float32, binary target, {cores} cores "
            f"({platform.machine()}), diprime {diprime.__version__}, best of {options.rounds} rounds taken in turns "
            "unless said otherwise.",
            "",
            table("Fit", fit, "diprime, defaults"),
            table("Predict", predict, "diprime, same size"),
            table("Ten times the rows", scaling, next(iter(scaling))),
            table("A fresh process", start, "import sklearn.ensemble"),
            memory_line("the fit", memory),
            "",
            *of_boosting,
            "### Bars",
            "",
            verdict("LightGBM's time over ours", lightgbm / us, 10, at_least=True),
            verdict("ExtraTrees' time over ours, all cores", extra_trees / us, 20, at_least=True),
            verdict("ExtraTrees' time over ours, its default", default_extra_trees / us, 20, at_least=True),
            verdict("RandomForest's time to predict over ours", their_predict / our_predict, 3, at_least=True),
            verdict("peak extra memory over input", memory["extra"] / memory["input"], 1, at_least=False),
            verdict("time for ten times the rows", large / small, 11, at_least=False),
            verdict("seconds a fresh process takes more", our_start - their_start, 0.5, at_least=False),
            *bars_of_boosting,
            "",
        ]
    )
    print(report)
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "speed.md").write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
