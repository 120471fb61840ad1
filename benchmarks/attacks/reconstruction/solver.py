"""The most likely training table given a forest's counts, found by a constraint solver (OR-tools' CP-SAT).

Gorgé, Ferry, Gambs and Vidal (SaTML 2026) give the solver a variable for each value of each row, and one for each row
and leaf. Rows can be exchanged, so that every solution has n! copies, and the search rarely ends. Here a table is its
histogram: a variable for each possible row says how often it occurs. Counts of leaves are sums of these variables,
discrete Laplace noise makes the logarithm of the likelihood a sum of absolute differences, and most problems are
solved to proven optimality within seconds.

With a prior, what is maximised is the posterior probability: n rows drawn from probabilities π form the histogram h
with probability n!·∏ π^h / h!. Without a forest, that is the best guess of somebody who knows the population only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.attacks.reconstruction.released import Released
from benchmarks.attacks.reconstruction.tables import Rows, possible_rows

PRECISION = 1000  # of logarithms of probabilities, which the solver takes as integers
REPEATS = (1, 2, 3, 5, 8)  # where the bound of log h! from below by straight lines is exact


@dataclass(frozen=True)
class Reconstruction:
    """A table that a solver found.

    Attributes
    ----------
    rows : array of shape (n_rows, n_columns)
        The rows, in no particular order.
    proven : bool
        Whether no table is more likely. If not, the solver gave up.
    """

    rows: Rows
    proven: bool


class _Problem:
    """The constraint program: one integer variable for each kind of row, and terms to minimise."""

    def __init__(self, n_kinds: int, n_rows: int) -> None:
        from ortools.sat.python import cp_model

        self.model = cp_model.CpModel()
        self.n_rows = n_rows
        self.numbers = [self.model.new_int_var(0, n_rows, "") for _ in range(n_kinds)]
        self.model.add(sum(self.numbers) == n_rows)
        self.terms: list[Any] = []

    def observe(self, kinds: npt.NDArray[np.int64], count: int, epsilon: float) -> None:
        """Let the sum of some numbers be a published count, exactly or up to discrete Laplace noise."""
        total = sum(self.numbers[kind] for kind in kinds.tolist())
        if epsilon == math.inf:
            self.model.add(total == count)
            return
        error = self.model.new_int_var(0, self.n_rows + abs(count), "")
        self.model.add(error >= total - count)
        self.model.add(error >= count - total)
        self.terms.append(max(1, round(PRECISION * epsilon)) * error)

    def expect(self, log_prior: npt.NDArray[np.float64]) -> None:
        """Add the logarithm of the multinomial probability of the numbers."""
        for number, log_share in zip(self.numbers, log_prior.tolist(), strict=True):
            self.terms.append(round(-PRECISION * log_share) * number)
            repeats = self.model.new_int_var(0, PRECISION * self.n_rows * 10, "")  # log h!, convex: above its chords
            for h in REPEATS:
                slope = round(PRECISION * math.log(h + 1))
                self.model.add(repeats >= slope * number - slope * h + round(PRECISION * math.lgamma(h + 1)))
            self.terms.append(repeats)

    def solve(self, effort: float) -> tuple[npt.NDArray[np.int64], bool]:
        """Return the best numbers that were found with the given effort, and whether they are proven to be the best."""
        from ortools.sat.python import cp_model

        self.model.minimize(sum(self.terms))
        solver = cp_model.CpSolver()
        solver.parameters.max_deterministic_time = effort  # not seconds: the same result on every machine
        solver.parameters.num_workers = 1
        status = solver.solve(self.model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return np.zeros(len(self.numbers), dtype=np.int64), False
        return np.array([solver.value(n) for n in self.numbers], dtype=np.int64), status == cp_model.OPTIMAL


def reconstruct(
    released: Sequence[Released],
    n_rows: int,
    n_features: int,
    *,
    prior: npt.NDArray[np.float64] | None = None,
    effort: float = 15.0,
    seed: int = 0,
) -> Reconstruction:
    """Return the table that makes what was released most likely, or most probable given a prior.

    Parameters
    ----------
    released : sequence of Released
        The leaves of forests that were fitted to the table; empty for a guess from the prior alone.
    n_rows : int
        The number of rows. Our forests keep it private; an attacker who is told it is stronger.
    n_features : int
        The number of two-valued features; one column more is the class, of two values too.
    prior : array of shape (2^(n_features + 1),), optional
        The probability of each possible row, in the order of `possible_rows`.
    effort : float
        The limit of the solver's deterministic time, which is about as many seconds.
    seed : int
        Of the random choice among rows that no tree tells apart, where there is no prior.
    """
    problem = _Problem(2 << n_features, n_rows)
    for forest in released:
        for leaf_of, sums in zip(forest.leaf_of, forest.sums, strict=True):
            for leaf, counts in enumerate(sums.tolist()):
                cells = np.flatnonzero(leaf_of == leaf)
                for of_class, count in enumerate(counts):
                    if len(cells):
                        problem.observe(2 * cells + of_class, count, forest.epsilon)
    if prior is not None:
        problem.expect(np.log(prior))
    numbers, proven = problem.solve(effort)
    rng = np.random.default_rng(seed)
    if prior is None:
        numbers = _spread(numbers, released, rng)
    rows = np.repeat(possible_rows(n_features + 1), numbers, axis=0)
    lacking = n_rows - len(rows)  # none, unless the solver found nothing at all
    return Reconstruction(np.vstack([rows, rng.integers(0, 2, size=(lacking, n_features + 1))]), proven)


def _spread(
    numbers: npt.NDArray[np.int64], released: Sequence[Released], rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Distribute rows at random among those that no tree tells apart: all of these tables are equally likely."""
    leaves = np.vstack([forest.leaf_of for forest in released])
    groups = np.unique(leaves, axis=1, return_inverse=True)[1].reshape(-1)
    spread = np.zeros_like(numbers)
    for group in range(groups.max() + 1):
        cells = np.flatnonzero(groups == group)
        for of_class in (0, 1):
            kinds = 2 * cells + of_class
            drawn = rng.choice(kinds, size=int(numbers[kinds].sum()))
            spread += np.bincount(drawn, minlength=len(numbers))
    return spread
