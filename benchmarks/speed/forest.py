"""The part of :mod:`benchmarks.speed` about the forest, which is also about scaling and the start of a process."""

from __future__ import annotations

from typing import Any

from benchmarks.speed.measuring import (
    measure_fit,
    measure_memory,
    measure_predict,
    measure_scaling,
    measure_start,
)
from benchmarks.speed.tables import memory_line, table, verdict


def report_forest(X: Any, y: Any, rounds: int, cores: int) -> list[str]:
    """Measure, and return tables and bars."""
    fit = measure_fit(X, y, rounds, cores)
    predict = measure_predict(X, y, rounds, cores)
    memory = measure_memory(X, y, "forest")
    start = measure_start(rounds)
    scaling = measure_scaling(len(X), 3)
    _, us, lightgbm, extra_trees, default_extra_trees = fit.values()
    our_predict, their_predict = predict.values()
    our_start, their_start = start.values()
    small, large = scaling.values()
    return [
        table("Fit", fit, "diprime, defaults"),
        table("Predict", predict, "diprime, same size"),
        table("Ten times the rows", scaling, next(iter(scaling))),
        table("A fresh process", start, "import sklearn.ensemble"),
        memory_line("the fit", memory),
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
    ]
