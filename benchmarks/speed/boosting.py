"""The part of :mod:`benchmarks.speed` about boosting: fit, predict and memory beside LightGBM and DP-EBM."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.speed.measuring import N_FEATURES, RANGE, boosting, measure_memory, take_turns
from benchmarks.speed.tables import at_least, at_most, memory_line, table

OURS = "diprime boosting, defaults"
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


def measure_boosting(X: Any, y: Any, rounds: int, cores: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds of one fit of each, and of predictions by our model and LightGBM's."""
    models: dict[str, Any] = {OURS: boosting().fit(X[:1000], y[:1000])}
    n_rounds = models[OURS].forest_.n_trees
    all_cores = f"LightGBM, {n_rounds} rounds"
    # On a busy machine its threads wait for each other, and one alone may be faster.
    makers: dict[str, Callable[[], Any]] = {
        OURS: boosting,
        all_cores: lambda: _lightgbm(n_rounds, cores),
        f"{all_cores}, one core": lambda: _lightgbm(n_rounds, 1),
        "DP-EBM, its defaults": _ebm,
    }

    def fit(name: str) -> None:
        models[name] = makers[name]().fit(X, y)

    def predict(name: str) -> None:
        models[name].predict(X)

    fits = take_turns({name: partial(fit, name) for name in makers}, 1)
    return fits, take_turns({name: partial(predict, name) for name in (OURS, all_cores)}, rounds)


def report_boosting(X: Any, y: Any, rounds: int, cores: int) -> list[str]:
    """Measure, and return tables and bars."""
    fit, predict = measure_boosting(X, y, rounds, cores)
    memory = measure_memory(X, y, "boosting")
    us, lightgbm, lightgbm_alone, ebm = fit.values()
    our_predict, their_predict = predict.values()
    return [
        table("Fit (one run per learner)", fit, OURS),
        table("Prediction with the same number of trees", predict, OURS),
        memory_line("the fit", memory),
        "",
        "## Bars",
        "",
        at_least(10, "DP-EBM's time over diprime's", ebm / us),
        at_least(
            10, "LightGBM's better time over diprime's, same number of rounds", min(lightgbm, lightgbm_alone) / us
        ),
        at_least(1, "LightGBM's prediction time over diprime's, same number of trees", their_predict / our_predict),
        at_most(1, "additional peak memory over input", memory["extra"] / memory["input"]),
    ]
