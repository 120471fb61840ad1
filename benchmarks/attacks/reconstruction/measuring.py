"""Reconstruction over epsilon: our forests, a forest that is not private, and guesses without any forest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.attacks.reconstruction.released import Released, fit_ours, fit_random_forest
from benchmarks.attacks.reconstruction.scores import Closeness, closeness
from benchmarks.attacks.reconstruction.solver import reconstruct
from benchmarks.attacks.reconstruction.tables import (
    BinaryTable,
    Rows,
    breast_cancer,
    credit,
    population_prior,
)

EPSILONS = (0.1, 1.0, 10.0, 100.0, math.inf)
N_TREES = 20
SIZES = (25, 100)
REPEATS = 3
EFFORT = 15.0  # of the solver for one table: about as many seconds on one core
DEFAULTS = "diprime, defaults"
MANY_TREES = f"diprime, {N_TREES} random trees of depth 5"
NOT_PRIVATE = f"scikit-learn, {N_TREES} trees, not private"
MOST_LIKELY, INFORMED = "most likely table", "with the population known"


class Case(NamedTuple):
    """Rows under attack, and what an attacker may know of the population that they are from."""

    table: BinaryTable
    rows: Rows
    population: Rows
    prior: npt.NDArray[np.float64]
    repeat: int

    @property
    def n_features(self) -> int:
        """The number of columns without the class."""
        return self.rows.shape[1] - 1


def guesses(case: Case, effort: float) -> dict[str, Rows]:
    """Return tables that are made up without any forest."""
    n_rows, n_columns = case.rows.shape
    rng = np.random.default_rng(case.repeat)
    mode = (case.population.mean(axis=0) > 0.5).astype(np.int64)
    probable = reconstruct([], n_rows, case.n_features, prior=case.prior, effort=effort)
    return {
        "coins": rng.integers(0, 2, size=(n_rows, n_columns)),
        "the most frequent value of each column": np.tile(mode, (n_rows, 1)),
        "columns drawn from their frequencies": (rng.random((n_rows, n_columns)) < case.population.mean(axis=0)).astype(
            np.int64
        ),
        "the most probable table of the population": probable.rows,
        "other rows of the same population": case.population[:n_rows],
    }


def forests(case: Case, epsilons: tuple[float, ...]) -> Iterator[tuple[str, float, Released]]:
    """Fit the forests under attack."""
    for epsilon in epsilons:
        domain = case.table.domain
        yield DEFAULTS, epsilon, fit_ours(case.rows, domain, epsilon)
        settings = {"method": "random", "n_estimators": N_TREES, "max_depth": 5, "disjoint_rows": False}
        yield MANY_TREES, epsilon, fit_ours(case.rows, domain, epsilon, **settings)
    yield NOT_PRIVATE, math.inf, fit_random_forest(case.rows, N_TREES, case.repeat)


def attack(case: Case, released: Released, effort: float) -> Iterator[tuple[str, Closeness, bool]]:
    """Run both attacks on a forest: with nothing but the forest, and with the population known besides."""
    for name, prior in ((MOST_LIKELY, None), (INFORMED, case.prior)):
        found = reconstruct([released], len(case.rows), case.n_features, prior=prior, effort=effort, seed=case.repeat)
        yield name, closeness(case.rows, found.rows), found.proven


def cases(scale: float, *, quick: bool) -> Iterator[Case]:
    """Draw the rows under attack."""
    tables = (breast_cancer(),) if quick else (breast_cancer(), credit())
    for repeat in range(max(1, round(scale * REPEATS))):
        for table in tables:
            for n_rows in SIZES[:1] if quick else SIZES:
                rows, population = table.draw(n_rows, repeat)
                yield Case(table, rows, population, population_prior(population), repeat)


def measure(scale: float, *, quick: bool) -> Iterator[dict[str, Any]]:
    """Attack everything; yield a line for each table that was made up or reconstructed."""
    for case in cases(scale, quick=quick):
        facts = {"table": case.table.name, "n_rows": len(case.rows), "repeat": case.repeat}
        for name, rows in guesses(case, EFFORT).items():
            yield {**facts, "forest": "none", "epsilon": "0", "attack": name, **closeness(case.rows, rows)._asdict()}
        for forest, epsilon, released in forests(case, (1.0, math.inf) if quick else EPSILONS):
            for name, score, proven in attack(case, released, EFFORT):
                yield {
                    **facts,
                    "forest": forest,
                    "epsilon": str(epsilon),
                    "attack": name,
                    **score._asdict(),
                    "proven": proven,
                }
