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
from benchmarks.speed.tables import at_least, at_most, memory_line, table


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
        table("Prediction", predict, "diprime, same size"),
        table("Ten times the rows", scaling, next(iter(scaling))),
        table("Start of a process", start, "import sklearn.ensemble"),
        memory_line("the fit", memory),
        "",
        "## Bars",
        "",
        at_least(10, "LightGBM's time over diprime's", lightgbm / us),
        at_least(20, "ExtraTrees' time over diprime's, all cores", extra_trees / us),
        at_least(20, "ExtraTrees' time over diprime's, its default", default_extra_trees / us),
        at_least(3, "RandomForest's prediction time over diprime's", their_predict / our_predict),
        at_most(1, "additional peak memory over input", memory["extra"] / memory["input"]),
        at_most(11, "factor of time for ten times the rows", large / small),
        at_most(0.5, "additional seconds compared with `import sklearn.ensemble`", our_start - their_start),
    ]
