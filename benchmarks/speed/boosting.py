"""The part of :mod:`benchmarks.speed` about boosting: fit, predict and memory beside LightGBM and DP-EBM."""

from __future__ import annotations

import time
import warnings
from typing import Any

from benchmarks.speed.measuring import N_FEATURES, RANGE, boosting, measure_memory, take_turns
from benchmarks.speed.tables import memory_line, table, verdict

OURS = "diprime boosting, defaults"
ROUNDS = 2  # LightGBM takes most of a minute
DELTA = 1e-6


def _lightgbm(n_rounds: int, cores: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=n_rounds, n_jobs=cores, verbose=-1)


def _ebm() -> Any:
    from interpret.privacy import DPExplainableBoostingClassifier

    return DPExplainableBoostingClassifier(
        feature_names=[f"x{i}" for i in range(N_FEATURES)],
        feature_types=["continuous"] * N_FEATURES,
        privacy_bounds={f"x{i}": RANGE for i in range(N_FEATURES)},
        epsilon=1.0,
        delta=DELTA,
    )


def time_of_ebm(X: Any, y: Any) -> float:
    """Return the seconds of one fit of DP-EBM by its defaults."""
    start = time.perf_counter()
    _ebm().fit(X, y)
    return time.perf_counter() - start


def lightgbm_name(n_rounds: int) -> str:
    return f"LightGBM, {n_rounds} rounds"


def measure_boosting(X: Any, y: Any, cores: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds of fits and of predictions; the models that predict are those that were fitted last."""
    models = {"ours": boosting().fit(X[:1000], y[:1000])}
    n_rounds = models["ours"].forest_.n_trees
    peer = lightgbm_name(n_rounds)

    def fit(name: str, model: Any) -> None:
        models[name] = model.fit(X, y)

    times = take_turns(
        {OURS: lambda: fit("ours", boosting()), peer: lambda: fit("lightgbm", _lightgbm(n_rounds, cores))}, ROUNDS
    )
    times["DP-EBM, its defaults, one run"] = time_of_ebm(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # LightGBM made up names of features, and misses them
        predict = take_turns(
            {OURS: lambda: models["ours"].predict(X), peer: lambda: models["lightgbm"].predict(X)}, ROUNDS
        )
    return times, predict


def report_boosting(X: Any, y: Any, cores: int) -> tuple[list[str], list[str]]:
    """Measure, and return the tables and the bars."""
    fit, predict = measure_boosting(X, y, cores)
    memory = measure_memory(X, y, "boosting")
    us, lightgbm, ebm = fit.values()
    our_predict, their_predict = predict.values()
    tables = [
        table(f"Fit of boosting, best of {ROUNDS} rounds", fit, OURS),
        table("Predict of boosting, as many trees", predict, OURS),
        memory_line("a boosted fit", memory),
        "",
    ]
    bars = [
        verdict("boosting: DP-EBM's time over ours", ebm / us, 10, at_least=True),
        verdict("boosting: LightGBM's time over ours, as many rounds", lightgbm / us, 10, at_least=True),
        verdict("boosting: LightGBM's time to predict over ours", their_predict / our_predict, 1, at_least=True),
        verdict("boosting: peak extra memory over input", memory["extra"] / memory["input"], 1, at_least=False),
    ]
    return tables, bars
