"""Rounds of boosting: released gradient sums in the cells of one or two features, and the resulting steps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Progress
from diprime.boosting import defaults
from diprime.boosting.budget import DividedBudget, as_share
from diprime.boosting.cells import Cut, FeatureChoice, Grid, cell_grid, cell_tree
from diprime.boosting.engine import BoostingEngine
from diprime.boosting.gradients import Gradients, ResidualGradients
from diprime.boosting.plan import BoostingSettings
from diprime.domain import Task
from diprime.model.trees import Structure
from diprime.privacy.randomness import RandomSource

Floats = npt.NDArray[np.float64]

_PAIR = 2


@dataclass(frozen=True)
class RoundSums:
    """Released sums of a round, in records or, with groups, in people."""

    gradients: Floats  # shape (n_cells, n_scores): sums of gradients
    weights: Floats  # shape (n_cells, n_scores): sums of Hessians or counts
    gradient_noise: float  # standard deviation of the noise of each sum of gradients
    weight_noise: float  # standard deviation of the noise of each sum of weights

    def ridge(self, factor: float) -> float:
        """Return the weight added to every cell: a multiple of the noise of its gradient, or a minimum if larger.

        Both limit random effects in small cells, so the larger of the two is enough.
        """
        return max(factor * self.gradient_noise, defaults.LEAST_RIDGE)

    def safe_weights(self, factor: float) -> Floats:
        """Return the weights, raised to a floor that exceeds their noise."""
        return np.maximum(self.weights, self.rule(factor)[0])

    def rule(self, factor: float) -> tuple[float, float]:
        """Return the floor of the weights and the ridge, which are the same for all cells."""
        return self.ridge(factor) + self.weight_noise, self.ridge(factor)

    def steps(self, factor: float) -> Floats:
        """Return the Newton steps of all cells, shrunk by the ridge."""
        return np.asarray(self.gradients / (self.safe_weights(factor) + self.ridge(factor)))

    def gain(self, factor: float) -> float:
        """Return the squared error that the cells explain, net of noise."""
        return float(((self.gradients**2 - self.gradient_noise**2) / self.safe_weights(factor)).sum())

    def interaction_gain(self, factor: float, shape: tuple[int, ...]) -> float:
        """Return the part of the gain that no sum of functions of the two features explains, net of noise."""
        if len(shape) < _PAIR:
            return 0.0
        weights = self.safe_weights(factor).reshape(*shape, -1)
        means = self.gradients.reshape(*shape, -1) / weights
        rows, columns = means.mean(axis=1, keepdims=True), means.mean(axis=0, keepdims=True)
        interaction = means - rows - columns + means.mean(axis=(0, 1), keepdims=True)
        free = (shape[0] - 1) * (shape[1] - 1) / (shape[0] * shape[1])
        return float((weights * interaction**2).sum() - self.gradient_noise**2 * free * (1 / weights).sum())


def integer_steps(steps: Floats, unit: float, n_rounds: int) -> npt.NDArray[np.int32]:
    """Return steps in units of a score, clipped so that scores fit in 32 bits after all rounds."""
    limit = (1 << 29) // n_rounds
    return np.clip(np.rint(steps * unit), -limit, limit).astype(np.int32)


_N_UNIFORMS = 10
"""Random numbers per round: for the number of features, for drawing them (three), and for each cut (three)."""


@dataclass(frozen=True)
class ReleasedRound:
    """Releases of one round."""

    structure: Structure  # tree of the round
    values: npt.NDArray[np.int32]  # shape (n_cells, n_scores): steps of the cells, in units of a score
    weights: Floats  # shape (n_cells,): released weights of the cells
    floor: float  # minimum weight of a cell
    ridge: float  # weight added to every cell
    gradient_noise: float  # standard deviation of the noise of the gradient sums, in units of a score
    gradient_spread: float  # standard deviation of a gradient, in units of a score and of the square root of the weight


class Rounds:
    """Runner of the rounds of a fit."""

    def __init__(
        self,
        engine: BoostingEngine,
        settings: BoostingSettings,
        gradients: Gradients,
        grid: Grid,
        energies: Floats,
        budget: DividedBudget,
        signal: float,
        n_rows: float,
    ) -> None:
        self._engine, self._settings, self._gradients, self._grid = engine, settings, gradients, grid
        self._budget, self._signal, self._n_rows = budget, signal, n_rows
        self._task: Task = "regression" if isinstance(gradients, ResidualGradients) else "classification"
        self._choice = FeatureChoice(energies)
        n_features = int((energies >= 0).sum())
        self._pairs = defaults.PAIRS[self._task] if settings.interactions and n_features > 1 else 0.0
        self.totals: list[tuple[float, float]] = []  # record counts released by rounds, with their noise
        spread = float(np.sqrt(np.maximum(energies, 0).sum()))
        rule = settings.n_rounds, settings.learning_rate, spread
        self._ridge = defaults.ridge(self._task, signal, n_features, *rule)

    def run(self, share: Fraction, source: RandomSource, progress: Progress) -> list[ReleasedRound]:
        """Release all rounds, which use up the given share of the budget in equal parts."""
        self._source = source
        self._share = as_share(float(share) / self._settings.n_rounds)
        self._noise = self._budget.noise(self._gradients.squared_sensitivity, self._share)
        rounds = []
        for _ in range(self._settings.n_rounds):
            rounds.append(self._round())
            progress.advance()
        return rounds

    def _round(self) -> ReleasedRound:
        gradients = self._gradients
        cuts = self._draw_cuts()
        grid = cell_grid(cuts)
        true = self._engine.gradient_sums(grid, gradients)
        released = self._budget.release(true, gradients.squared_sensitivity, self._share)
        sums = RoundSums(
            released[:, : gradients.n_scores] / gradients.unit,
            released[:, gradients.n_scores :] / gradients.weight_unit,
            self._noise / gradients.unit,
            self._noise / gradients.weight_unit,
        )
        shape = tuple(cut.n_cells for cut in cuts)
        gain, interaction = sums.gain(self._ridge), sums.interaction_gain(self._ridge, shape)
        self._choice.learn([cut.feature for cut in cuts], gain, interaction)
        of_residuals = isinstance(gradients, ResidualGradients)
        if of_residuals:  # the weights of residuals count records
            self.totals.append((float(sums.weights.sum()), sums.weight_noise * float(np.sqrt(grid.n_cells))))
        unit = gradients.score_unit
        steps = self._settings.learning_rate * sums.steps(self._ridge)
        moved = integer_steps(steps, unit, self._settings.n_rounds)
        self._engine.move_scores(moved)
        floor, ridge = sums.rule(self._ridge)
        spread = unit * (defaults.SPREAD_OF_RESIDUALS if of_residuals else 1.0)
        return ReleasedRound(
            cell_tree(cuts), moved, sums.weights.mean(axis=1), floor, ridge, unit * sums.gradient_noise, spread
        )

    def _draw_cuts(self) -> list[Cut]:
        uniforms: Any = (self._source.integers(1 << 32, _N_UNIFORMS) / (1 << 32)).tolist()
        n = 2 if uniforms[0] < self._pairs else 1
        features = self._choice.draw(n, uniforms[1:4])
        n_cells = defaults.cells_of_single(self._signal) if n == 1 else self._cells_of_pair(features)
        cuts = zip(features, (uniforms[4:7], uniforms[7:10]), strict=False)
        return [Cut.draw(self._grid, feature, n_cells, draws) for feature, draws in cuts]

    def _cells_of_pair(self, features: list[int]) -> int:
        """Return the number of cells per feature, which is larger if their interactions exceed the noise."""
        coarse = defaults.cells_of_pair(self._signal)
        weight = defaults.weight_of_record(self._gradients.n_scores, self._task) * self._n_rows
        gain = self._choice.mean_interaction(features) * weight
        needed = defaults.FINE_PAIR_GAIN * (self._noise / self._gradients.unit) ** 2
        return 8 if coarse == 4 and gain >= needed else coarse  # noqa: PLR2004 -- the next larger number of cells
