"""One boosted fit, from an engine to released steps: plan the budget, pay, release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime._util.progress import Progress
from diprime.domain import Domain
from diprime.engines.gradients import RANGE_BITS, SCORE_BITS, UNIT, Gradients, ResidualGradients, gradients_of
from diprime.engines.scores import ScoreEngine
from diprime.model.trees import Structure
from diprime.privacy.charges import Receipt
from diprime.privacy.ledger import Ledger
from diprime.privacy.mechanisms.gaussian import rounded_gaussian
from diprime.privacy.randomness import RandomSource
from diprime.training.boosting import defaults
from diprime.training.boosting.cells import Cut, cell_grid, cell_tree
from diprime.training.boosting.choice import FeatureChoice
from diprime.training.boosting.clipping import clip_rounds, release_clip
from diprime.training.boosting.grid import CodeSums, Grid, release_code_sums
from diprime.training.boosting.plan import BoostingPlan, noise_of, of_person
from diprime.training.boosting.settings import BoostingSettings
from diprime.training.boosting.steps import RoundSums, integer_steps

Floats = npt.NDArray[np.float64]

_N_UNIFORMS = 10
"""The random numbers of a round: for the kind, two features, and three for each cut, and one to choose how."""


@dataclass(frozen=True)
class Round:
    """A released round.

    Attributes
    ----------
    structure : Structure
        Its tree.
    steps : array of shape (n_cells, n_scores)
        The steps of its cells, in units of a score.
    weights : array of shape (n_cells,)
        The released weights of its cells.
    """

    structure: Structure
    steps: npt.NDArray[np.int32]
    weights: Floats


@dataclass(frozen=True)
class Boosted:
    """What a boosted fit released, in units of a score and in the order of the domain's classes.

    Attributes
    ----------
    offset : array of shape (n_scores,)
        What the scores start from.
    rounds : list of Round
        The rounds.
    code_sums : CodeSums
        The sums of all codes.
    score_unit : int
        What a log-odds of one, or the range of a numeric target, is in scores.
    """

    offset: npt.NDArray[np.int32]
    rounds: list[Round]
    code_sums: CodeSums
    score_unit: int


def train_boosting(
    engine: ScoreEngine,
    domain: Domain,
    settings: BoostingSettings,
    plan: BoostingPlan,
    ledger: Ledger,
    source: RandomSource,
) -> Boosted:
    """Spend the budget: everything that is released is computed here, from an engine's sums, after it is paid for."""
    layout = domain.layout.of_persons(settings.max_records_per_group)
    receipt = ledger.pay(plan.counts)
    start = _numeric_start if layout.task == "regression" else _class_start
    offset, n_rows = start(engine.target_counts, layout.person_weight, receipt, source)

    receipt = ledger.pay(plan.grid)
    code_sums = release_code_sums(engine.code_sums(), layout.person_units, receipt, noise_of(plan.grid), source)
    clip_receipt = None if plan.clips is None else ledger.pay(plan.clips)
    booster = _Booster(engine, domain, settings, plan, n_rows, Grid(code_sums, domain), source)
    engine.start(offset)
    rounds = booster.run(ledger.pay(plan.rounds), clip_receipt)
    unit = 1 << (RANGE_BITS if layout.task == "regression" else SCORE_BITS)
    return Boosted(offset, rounds, code_sums, unit)


_Counts = Callable[[], npt.NDArray[np.int64]]


def _class_start(
    target_counts: _Counts, person_weight: int, receipt: Receipt, source: RandomSource
) -> tuple[npt.NDArray[np.int32], float]:
    """Release the counts of classes; return the scores that predict their shares, and the number of persons."""
    counts = rounded_gaussian(target_counts()[None, :], receipt, person_weight**2, source.streams(1))[0]
    released = counts / person_weight
    logs = np.log(np.maximum(released, 1))
    scores = logs[1:] - logs[0] if len(logs) == 2 else logs - logs.mean()  # noqa: PLR2004 -- one score for two classes
    return np.rint(scores * (1 << SCORE_BITS)).astype(np.int32), float(max(released.sum(), 1))


def _numeric_start(
    target_counts: _Counts, person_weight: int, receipt: Receipt, source: RandomSource
) -> tuple[npt.NDArray[np.int32], float]:
    """Release a histogram of the target; return the score of its median, and the number of persons."""
    counts = target_counts()
    bins = np.arange(len(counts)) * defaults.N_TARGET_BINS // len(counts)
    histogram = np.zeros((1, defaults.N_TARGET_BINS), dtype=np.int64)
    np.add.at(histogram[0], bins, counts)
    released = rounded_gaussian(histogram, receipt, person_weight**2, source.streams(1))[0]
    masses = np.cumsum(np.maximum(released, 0))
    median = np.searchsorted(masses, masses[-1] / 2) + 0.5
    score = np.rint(median / defaults.N_TARGET_BINS * (1 << RANGE_BITS))
    return np.array([score], dtype=np.int32), float(max(released.sum() / person_weight, 1))


class _Booster:
    """The rounds of a fit."""

    def __init__(
        self,
        engine: ScoreEngine,
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
        self._ridge = defaults.ridge(
            self._task, self._signal, domain.n_features, settings.n_rounds, settings.learning_rate
        )

    def run(self, receipt: Receipt, clip_receipt: Receipt | None) -> list[Round]:
        """Release all rounds, and before some of them the clip of residuals."""
        n_rounds = self._settings.n_rounds
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

    def _round(self, receipt: Receipt) -> Round:
        cuts = self._draw_cuts()
        grid = cell_grid(cuts)
        true = self._engine.gradient_sums(grid, self._gradients)
        sensitivity = of_person(self._gradients.squared_sensitivity, self._layout)
        released = rounded_gaussian(true, receipt, sensitivity, self._source.streams(grid.n_cells))
        sums = self._in_persons(released)
        shape = tuple(cut.n_cells for cut in cuts)
        gain, interaction = sums.gain(self._ridge), sums.interaction_gain(self._ridge, shape)
        self._choice.learn([cut.feature for cut in cuts], gain, interaction)
        unit = self._gradients.clip if isinstance(self._gradients, ResidualGradients) else 1 << SCORE_BITS
        steps = self._settings.learning_rate * sums.steps(self._ridge)
        moved = integer_steps(steps, unit, self._settings.n_rounds)
        self._engine.move_scores(moved)
        return Round(cell_tree(cuts), moved, sums.weights.mean(axis=1))

    def _draw_cuts(self) -> list[Cut]:
        uniforms: Any = (self._source.integers(1 << 32, _N_UNIFORMS) / (1 << 32)).tolist()
        n = 2 if self._max_features > 1 and uniforms[0] < defaults.PAIRS else 1
        features = self._choice.draw(n, uniforms[1:4])
        n_cells = defaults.cells_of_single(self._signal) if n == 1 else self._cells_of_pair(features)
        cuts = zip(features, (uniforms[4:7], uniforms[7:10]), strict=False)
        return [Cut.draw(self._grid, feature, n_cells, draws) for feature, draws in cuts]

    def _cells_of_pair(self, features: list[int]) -> int:
        """Return the number of cells of each feature: more if interactions with them stand out from the noise."""
        coarse = defaults.cells_of_pair(self._signal)
        weight = defaults.weight_of_record(self._gradients.n_scores, self._task) * self._n_rows
        gain = self._choice.mean_interaction(features) * weight
        needed = defaults.FINE_PAIR_GAIN * (self._noise / UNIT) ** 2
        return 8 if coarse == 4 and gain >= needed else coarse  # noqa: PLR2004 -- the next larger number of cells

    def _in_persons(self, released: npt.NDArray[np.int64]) -> RoundSums:
        n_scores, weight_unit = self._gradients.n_scores, self._gradients.weight_unit
        weight = self._layout.person_weight
        return RoundSums(
            released[:, :n_scores] / (UNIT * weight),
            released[:, n_scores:] / (weight_unit * weight),
            self._noise / UNIT,
            self._noise / weight_unit,
        )
