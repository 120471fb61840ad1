"""Training of a boosted model: rounds of released gradient sums, their clipping bounds, and the resulting steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Progress
from diprime.boosting import defaults
from diprime.boosting.cells import CodeSums, Cut, FeatureChoice, Grid, cell_grid, cell_tree, release_code_sums
from diprime.boosting.engine import BoostingEngine
from diprime.boosting.gradients import (
    RANGE_BITS,
    SCORE_BITS,
    UNIT,
    CellGrid,
    Gradients,
    ResidualGradients,
    gradients_of,
)
from diprime.boosting.plan import BoostingPlan, BoostingSettings, noise_of, of_person
from diprime.domain import Domain
from diprime.kernels.constants import N_CODES
from diprime.model.estimates import TARGET, feature_notes, is_crowded, shrunken_shares, smooth_histogram
from diprime.model.trees import Structure
from diprime.privacy.charges import Receipt
from diprime.privacy.mechanisms.gaussian import rounded_gaussian
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Account

_STEPS_PER_OCTAVE = 2
_N_EDGES = 16 * _STEPS_PER_OCTAVE

EDGES: npt.NDArray[np.int64] = np.array(
    [math.ceil(2 ** (RANGE_BITS - i / _STEPS_PER_OCTAVE)) for i in range(_N_EDGES - 1, -1, -1)]
)
"""Candidate clips, in units of a score: from about 2^-15 of the target's range to all of it."""


def clip_rounds(n_rounds: int) -> dict[int, int]:
    """Return how many times the clip is released before each round. Releases are more frequent at the beginning."""
    rounds = [n_rounds * i**2 // defaults.N_CLIPS**2 for i in range(defaults.N_CLIPS)]
    return {number: rounds.count(number) for number in rounds}


def release_clip(
    counts: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]],
    n_rows: float,
    person_weight: int,
    receipt: Receipt,
    source: RandomSource,
) -> int:
    """Release the histogram of residuals and return the smallest clip that few enough residuals exceed.

    A record is in one bin. The records of a person, of total weight ``person_weight``, may all be in the same bin.
    """
    released = rounded_gaussian(counts(EDGES)[None, :], receipt, person_weight**2, source.streams(1))[0]
    at_or_above = np.cumsum(released[::-1])[::-1][1:] / person_weight
    enough = at_or_above <= (1 - defaults.CLIP_QUANTILE) * max(n_rows, 1.0)
    return int(EDGES[np.flatnonzero(enough)[0]] if enough.any() else EDGES[-1])


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
    limit = (1 << 30) // n_rounds
    return np.clip(np.rint(steps * unit), -limit, limit).astype(np.int32)


_N_UNIFORMS = 10
"""Random numbers per round: for the number of features, for drawing them (three), and for each cut (three)."""


@dataclass(frozen=True)
class ReleasedRound:
    """Releases of one round."""

    structure: Structure  # tree of the round
    steps: npt.NDArray[np.int32]  # shape (n_cells, n_scores): steps of the cells, in units of a score
    weights: Floats  # shape (n_cells,): released weights of the cells
    floor: float  # minimum weight of a cell
    ridge: float  # weight added to every cell
    gradient_noise: float  # standard deviation of the noise of the gradient sums, in units of a score
    gradient_spread: float  # standard deviation of a gradient, in units of a score and of the square root of the weight


@dataclass(frozen=True)
class BoostingReleases:
    """Releases of a boosted fit, in units of a score and in the order of the domain's classes."""

    offset: npt.NDArray[np.int32]  # shape (n_scores,): first scores of all records
    n_records: float  # released number of records, or of people
    records_noise: float  # standard deviation of its noise
    rounds: list[ReleasedRound]
    code_sums: CodeSums
    score_unit: int  # units of a score in a log-odds of one, or in the range of a numeric target


def train_boosting(
    engine: BoostingEngine,
    domain: Domain,
    settings: BoostingSettings,
    plan: BoostingPlan,
    account: Account,
    source: RandomSource,
) -> BoostingReleases:
    """Make all releases of a fit from the sums of an engine, each after it is charged."""
    layout = domain.layout.of_persons(settings.max_records_per_group)
    receipt = account.pay(plan.counts)
    start = _numeric_start if layout.task == "regression" else _class_start
    noise = noise_of(plan.counts) / layout.person_weight
    offset, counts = start(engine.target_counts, layout.person_weight, noise, receipt, source)
    n_rows = float(max(counts.sum(), 1))

    receipt = account.pay(plan.grid)
    code_sums = release_code_sums(engine.code_sums(), layout.person_units, receipt, noise_of(plan.grid), source)
    account.note(feature_notes(domain, code_sums.counts, code_sums.count_noise, n_rows))
    if layout.task == "regression" and is_crowded(counts, noise, n_rows):
        account.note([TARGET])
    clip_receipt = None if plan.clips is None else account.pay(plan.clips)
    booster = _Booster(engine, domain, settings, plan, n_rows, Grid(code_sums, domain), source)
    receipt = account.pay(plan.rounds)
    if booster.n_measuring:
        offset = booster.measured_start(counts, noise, receipt)
    engine.start(offset)
    rounds = booster.run(receipt, clip_receipt)
    unit = 1 << (RANGE_BITS if layout.task == "regression" else SCORE_BITS)
    numbers = _number_of_records(counts, noise, code_sums, booster.totals)
    return BoostingReleases(offset, *numbers, rounds, code_sums, unit)


def _number_of_records(
    counts: Floats, noise: float, code_sums: CodeSums, of_rounds: list[tuple[float, float]]
) -> tuple[float, float]:
    """Return the inverse-variance weighted mean of all released totals of records, and its noise."""
    of_feature = code_sums.count_noise * math.sqrt(N_CODES)
    of_features = [(total, of_feature) for total in code_sums.counts.sum(axis=1)]
    totals, noises = np.array([(counts.sum(), noise * math.sqrt(len(counts))), *of_features, *of_rounds]).T
    if not noises.all():
        return float(totals[0]), 0.0
    total, total_noise = _combined(totals, noises)
    return float(total), total_noise


def _combined(numbers: Floats, noises: Floats) -> tuple[Any, float]:
    """Return the inverse-variance weighted mean of released numbers, or of rows of them, and its noise."""
    weights = 1 / noises**2
    return weights @ numbers / weights.sum(), float(1 / math.sqrt(weights.sum()))


_Counts = Callable[[], npt.NDArray[np.int64]]


def _class_start(
    target_counts: _Counts, person_weight: int, noise: float, receipt: Receipt, source: RandomSource
) -> tuple[npt.NDArray[np.int32], Floats]:
    """Release the class counts. Return the scores that predict the class shares, and the counts in people."""
    counts = rounded_gaussian(target_counts()[None, :], receipt, person_weight**2, source.streams(1))[0]
    released = counts / person_weight
    return _class_scores(released, noise), released


def _class_scores(counts: Floats, noise: float) -> npt.NDArray[np.int32]:
    """Return the scores that predict the class shares of released counts."""
    shares = shrunken_shares(counts, noise)
    logs = np.log(np.maximum(shares, 1 / max(counts.sum(), 1)))
    scores = logs[1:] - logs[0] if len(logs) == 2 else logs - logs.mean()  # noqa: PLR2004 -- one score for two classes
    return np.asarray(np.rint(scores * (1 << SCORE_BITS)).astype(np.int32))


def _numeric_start(
    target_counts: _Counts, person_weight: int, noise: float, receipt: Receipt, source: RandomSource
) -> tuple[npt.NDArray[np.int32], Floats]:
    """Release a histogram of the target. Return the score of its median, and the histogram in people."""
    counts = target_counts()
    bins = np.arange(len(counts)) * defaults.N_TARGET_BINS // len(counts)
    histogram = np.zeros((1, defaults.N_TARGET_BINS), dtype=np.int64)
    np.add.at(histogram[0], bins, counts)
    released = rounded_gaussian(histogram, receipt, person_weight**2, source.streams(1))[0] / person_weight
    masses = np.cumsum(smooth_histogram(released, noise))
    median = np.searchsorted(masses, masses[-1] / 2) + 0.5
    score = np.rint(median / defaults.N_TARGET_BINS * (1 << RANGE_BITS))
    return np.array([score], dtype=np.int32), released


class _Booster:
    """Runner of the rounds of a fit."""

    def __init__(
        self,
        engine: BoostingEngine,
        domain: Domain,
        settings: BoostingSettings,
        plan: BoostingPlan,
        n_rows: float,
        grid: Grid,
        source: RandomSource,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._grid = grid
        self._source = source
        self._n_rows = n_rows
        self._layout = domain.layout.of_persons(settings.max_records_per_group)
        self._task = self._layout.task
        self._gradients: Gradients = gradients_of(self._layout)
        self._choice = FeatureChoice(domain.n_features)
        self._max_features = 2 if settings.interactions and domain.n_features > 1 else 1
        self._signal = defaults.information(n_rows, float(plan.mu_squared))
        self._noise = noise_of(plan.rounds) / self._layout.person_weight
        self.totals: list[tuple[float, float]] = []  # record counts released by rounds, with their noise
        self._ridge = defaults.ridge(
            self._task, self._signal, domain.n_features, settings.n_rounds, settings.learning_rate
        )

    @property
    def n_measuring(self) -> int:
        """Number of rounds that only measure the first scores."""
        of_one_class = self._layout.n_outputs == 1
        return 0 if of_one_class else defaults.measuring_rounds(self._signal, self._settings.n_rounds)

    def measured_start(self, counts: Floats, noise: float, receipt: Receipt) -> npt.NDArray[np.int32]:
        """Release rounds with a single cell. Return scores that predict the class shares, or the mean of the target.

        All records have the scores of equal class shares, or of the middle of the range. The gradients of a class thus
        add up to its count minus that of equal shares, and the weights to a multiple of the number of records.
        """
        gradients, n = self._gradients, self.n_measuring
        middle, weight = np.zeros(gradients.n_scores, dtype=np.int32), 1.0
        if isinstance(gradients, ResidualGradients):
            gradients = replace(gradients, clip=1 << (RANGE_BITS - 1))  # the largest residual
            middle[:] = gradients.clip
        else:
            n_classes = len(counts)
            weight = (n_classes - 1) / n_classes**2
        self._engine.start(middle)
        grid = CellGrid(np.zeros(1, dtype=np.int32), np.zeros((1, N_CODES), dtype=np.uint8), 1)
        sums = self._in_persons(np.mean([self._release(grid, gradients, receipt) for _ in range(n)], axis=0))
        total = float(sums.weights.mean()) / weight
        total_noise = sums.weight_noise / weight / math.sqrt(n * sums.weights.size)
        self.totals.append((total, total_noise))
        n_rows, n_noise = _combined(
            np.array([counts.sum(), total]), np.array([noise * math.sqrt(len(counts)), total_noise])
        )
        moved, moved_noise = sums.gradients[0], sums.gradient_noise / math.sqrt(n)
        if isinstance(gradients, ResidualGradients):
            halves = (n_rows + np.array([-1, 1]) * moved) / 2
            return np.rint(shrunken_shares(halves, moved_noise / 2)[1:] * (1 << RANGE_BITS)).astype(np.int32)
        moved = np.array([-moved[0], moved[0]]) if len(moved) == 1 else moved
        measured_noise = math.hypot(moved_noise, n_noise / len(counts))
        combined, combined_noise = _combined(
            np.stack([counts, n_rows / len(counts) + moved]), np.array([noise, measured_noise])
        )
        return _class_scores(combined, combined_noise)

    def _release(self, grid: CellGrid, gradients: Gradients, receipt: Receipt) -> npt.NDArray[np.int64]:
        true = self._engine.gradient_sums(grid, gradients)
        sensitivity = of_person(gradients.squared_sensitivity, self._layout)
        return rounded_gaussian(true, receipt, sensitivity, self._source.streams(grid.n_cells))

    def run(self, receipt: Receipt, clip_receipt: Receipt | None) -> list[ReleasedRound]:
        """Release the remaining rounds, and the clip of the residuals before some of them."""
        n_rounds = self._settings.n_rounds - self.n_measuring
        clips = {} if clip_receipt is None else clip_rounds(n_rounds)
        progress = Progress(n_rounds, "rounds", shown=self._settings.verbose)
        rounds = []
        for number in range(n_rounds):
            for _ in range(clips.get(number, 0)):
                assert clip_receipt is not None
                self._set_clip(clip_receipt)
            rounds.append(self._round(receipt))
            progress.advance()
        return rounds

    def _set_clip(self, receipt: Receipt) -> None:
        gradients = self._gradients
        assert isinstance(gradients, ResidualGradients)

        def counts(edges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
            return self._engine.residual_counts(gradients.scale, edges)

        clip = release_clip(counts, self._n_rows, self._layout.person_weight, receipt, self._source)
        self._gradients = replace(gradients, clip=clip)

    def _round(self, receipt: Receipt) -> ReleasedRound:
        cuts = self._draw_cuts()
        grid = cell_grid(cuts)
        sums = self._in_persons(self._release(grid, self._gradients, receipt))
        shape = tuple(cut.n_cells for cut in cuts)
        gain, interaction = sums.gain(self._ridge), sums.interaction_gain(self._ridge, shape)
        self._choice.learn([cut.feature for cut in cuts], gain, interaction)
        of_residuals = isinstance(self._gradients, ResidualGradients)
        unit = self._gradients.clip if isinstance(self._gradients, ResidualGradients) else 1 << SCORE_BITS
        if of_residuals:  # the weights of residuals count records
            self.totals.append((float(sums.weights.sum()), sums.weight_noise * math.sqrt(grid.n_cells)))
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
        n = 2 if self._max_features > 1 and uniforms[0] < defaults.PAIRS else 1
        features = self._choice.draw(n, uniforms[1:4])
        n_cells = defaults.cells_of_single(self._signal) if n == 1 else self._cells_of_pair(features)
        cuts = zip(features, (uniforms[4:7], uniforms[7:10]), strict=False)
        return [Cut.draw(self._grid, feature, n_cells, draws) for feature, draws in cuts]

    def _cells_of_pair(self, features: list[int]) -> int:
        """Return the number of cells per feature, which is larger if their interactions exceed the noise."""
        coarse = defaults.cells_of_pair(self._signal)
        weight = defaults.weight_of_record(self._gradients.n_scores, self._task) * self._n_rows
        gain = self._choice.mean_interaction(features) * weight
        needed = defaults.FINE_PAIR_GAIN * (self._noise / UNIT) ** 2
        return 8 if coarse == 4 and gain >= needed else coarse  # noqa: PLR2004 -- the next larger number of cells

    def _in_persons(self, released: npt.NDArray[np.int64] | Floats) -> RoundSums:
        n_scores, weight_unit = self._gradients.n_scores, self._gradients.weight_unit
        weight = self._layout.person_weight
        return RoundSums(
            released[:, :n_scores] / (UNIT * weight),
            released[:, n_scores:] / (weight_unit * weight),
            self._noise / UNIT,
            self._noise / weight_unit,
        )
