"""Membership of a worst-case record and of typical ones, in models of several learners.

*Worst case*: the attacker knows all other records. The record is the only one of its class, in a corner of the domain.
That is whom differential privacy speaks of, and what the bound is for.

*Typical*: real records, whose companions are drawn from the same table, as in the published attack: the attacker knows
the population, and fits shadow models to tables of his own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_breast_cancer

from benchmarks.attacks.evidence import CONFIDENCE, Guesses, count_guesses
from benchmarks.attacks.membership.learners import (
    Boosting,
    Classes,
    Floats,
    Forest,
    HistBoosting,
    Learner,
    RandomForest,
    RandomTree,
)
from benchmarks.attacks.membership.likelihood import log_ratio
from diprime import Categorical, Domain, Numeric

N_FEATURES = 6
N_OTHERS = 200
N_TYPICAL = 40
FALSE_RATE = 0.05
RESAMPLES = 1000
LONE_CLASS = 2

FITS = {Forest: 1000, RandomTree: 1000, Boosting: 200, RandomForest: 100, HistBoosting: 50}
"""Shadow models of each side, and as many under attack."""
LEAST_FITS = 20


def learners(*, quick: bool) -> list[Learner]:
    """Return the learners under attack."""
    epsilons = (1.0,) if quick else (0.1, 1.0, 3.0, 10.0)
    private: list[Learner] = [kind(epsilon) for kind in (Forest, RandomTree, Boosting) for epsilon in epsilons]
    return [*private, RandomForest(), HistBoosting()]


def _table() -> tuple[Floats, Classes, Domain]:
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :N_FEATURES]
    features = {f"x{i}": Numeric(float(low), float(high)) for i, (low, high) in enumerate(zip(X.min(0), X.max(0)))}  # noqa: B905
    return X, y.astype(np.int64), Domain(features, target=Categorical([0, 1, LONE_CLASS]))


def worst_case(learner: Learner, fits: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Return the scores of models with the worst-case record, and of models without."""
    X, y, domain = _table()
    others = np.random.default_rng(seed).permutation(len(y))[:N_OTHERS]
    record, its_class = X.max(axis=0)[None, :], np.array([LONE_CLASS])
    tables = (np.vstack([X[others], record]), np.append(y[others], LONE_CLASS)), (X[others], y[others])
    shadows, attacked = (
        [
            np.vstack([learner.statistics(learner.fit(*table, domain), record, its_class) for _ in range(fits)])
            for table in tables
        ]
        for _ in range(2)
    )
    inside, outside = (log_ratio(shadows[0], shadows[1], statistics) for statistics in attacked)
    return inside, outside


def typical(learner: Learner, fits: int, seed: int = 0) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the scores of typical records in models, of shape (n_models, n_records), and whether they were in them.

    A record is in a table with probability one half, as all others are. Half of the models are shadows.
    """
    X, y, domain = _table()
    rng = np.random.default_rng(seed)
    records = rng.permutation(len(y))[:N_TYPICAL]
    chosen = rng.random((4 * fits, len(y))) < 0.5
    statistics = np.stack(
        [learner.statistics(learner.fit(X[rows], y[rows], domain), X[records], y[records]) for rows in chosen]
    )
    is_in, shadow = chosen[:, records], slice(0, 2 * fits)
    scores = np.column_stack(
        [
            log_ratio(
                statistics[shadow, i][is_in[shadow, i]],
                statistics[shadow, i][~is_in[shadow, i]],
                statistics[2 * fits :, i],
            )
            for i in range(N_TYPICAL)
        ]
    )
    return scores, is_in[2 * fits :]


def power(inside: Floats, outside: Floats) -> float:
    """Return the rate of true hits at the threshold that `FALSE_RATE` of the models without the record exceed."""
    return float((inside > np.quantile(outside, 1 - FALSE_RATE, method="higher")).mean())


def _typical_guesses(scores: Floats, is_in: npt.NDArray[np.bool_]) -> tuple[Guesses, tuple[float, float]]:
    """Return the guesses about all records, and a confidence interval of the advantage by resampling models.

    The records of one model share its noise, so models are drawn, not records.
    """
    said = scores > 0
    counts = np.stack([(said & is_in).sum(1), is_in.sum(1), (said & ~is_in).sum(1), (~is_in).sum(1)], axis=1)
    draws = np.random.default_rng(0).integers(0, len(counts), size=(RESAMPLES, len(counts)))
    sums = counts[draws].sum(axis=1)
    advantages = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(advantages, [tail, 1 - tail]).tolist()
    return Guesses(*counts.sum(axis=0).tolist()), (low, high)


def measure(scale: float, *, quick: bool) -> Iterator[dict[str, Any]]:
    """Attack all learners; yield a line for each and each kind of record."""
    for learner in learners(quick=quick):
        fits = max(LEAST_FITS, round(scale * FITS[type(learner)]))
        facts = {
            "learner": learner.name,
            "epsilon": str(learner.epsilon),
            "fits": fits,
            "bound": learner.largest_advantage(),
            "power_bound": learner.largest_power(FALSE_RATE),
        }
        inside, outside = worst_case(learner, fits)
        guesses = count_guesses(inside, outside)
        low, high = guesses.advantage_interval()
        yield {
            **facts,
            "record": "worst case",
            "advantage": guesses.advantage,
            "low": low,
            "high": high,
            "power": power(inside, outside),
        }
        scores, is_in = typical(learner, fits // 2)
        guesses, (low, high) = _typical_guesses(scores, is_in)
        yield {
            **facts,
            "record": "typical",
            "advantage": guesses.advantage,
            "low": low,
            "high": high,
            "power": power(scores[is_in], scores[~is_in]),
        }
