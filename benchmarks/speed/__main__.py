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


def table(title: str, times: dict[str, float], reference: str) -> str:
    lines = [f"### {title}", "", "| | seconds | ratio |", "|---|---|---|"]
    lines += [f"| {name} | {seconds:.3f} | {seconds / times[reference]:.2f} |" for name, seconds in times.items()]
    return "\n".join([*lines, ""])


def verdict(what: str, value: float, bar: float, *, at_least: bool) -> str:
    good = value >= bar if at_least else value <= bar
    return f"* {'met' if good else 'MISSED'}: {what}: {value:.2f} ({'at least' if at_least else 'at most'} {bar:g})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.speed")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--write", action="store_true", help="keep the report in benchmarks/results/speed.md")
    parser.add_argument("--memory-of", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        print(json.dumps(peak_extra_memory(options.memory_of)))
        return
    cores = n_cores()
    X, y = make_data(options.rows)
    fit = measure_fit(X, y, options.rounds, cores)
    predict = measure_predict(X, y, options.rounds, cores)
    memory = measure_memory(X, y)
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
            f"({platform.machine()}), diprime {diprime.__version__}, best of {options.rounds} rounds taken in turns.",
            "",
            table("Fit", fit, "diprime, defaults"),
            table("Predict", predict, "diprime, same size"),
            table("Ten times the rows", scaling, next(iter(scaling))),
            table("A fresh process", start, "import sklearn.ensemble"),
            f"Peak extra memory of the fit: {memory['extra'] / 2**20:.0f} MiB beside an input of "
            f"{memory['input'] / 2**20:.0f} MiB.",
            "",
            "### Bars",
            "",
            verdict("LightGBM's time over ours", lightgbm / us, 10, at_least=True),
            verdict("ExtraTrees' time over ours, all cores", extra_trees / us, 20, at_least=True),
            verdict("ExtraTrees' time over ours, its default", default_extra_trees / us, 20, at_least=True),
            verdict("RandomForest's time to predict over ours", their_predict / our_predict, 3, at_least=True),
            verdict("peak extra memory over input", memory["extra"] / memory["input"], 1, at_least=False),
            verdict("time for ten times the rows", large / small, 11, at_least=False),
            verdict("seconds a fresh process takes more", our_start - their_start, 0.5, at_least=False),
            "",
        ]
    )
    print(report)
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "speed.md").write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
