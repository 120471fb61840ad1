"""Training of a boosted model: counts, code sums, starting scores, curves, and rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Progress
from diprime.boosting import defaults
from diprime.boosting.budget import DividedBudget, as_share, noise_of
from diprime.boosting.cells import CodeSums, Cut, Grid, cell_tree, release_code_sums
from diprime.boosting.clipping import Clipping
from diprime.boosting.curves import CurveFit
from diprime.boosting.engine import BoostingEngine
from diprime.boosting.gradients import RANGE_BITS, SCORE_BITS, gradients_of
from diprime.boosting.plan import BoostingPlan, BoostingSettings
from diprime.boosting.rounds import ReleasedRound, Rounds
from diprime.boosting.start import Counts, combine, release_counts, release_start
from diprime.domain import Domain, Task
from diprime.kernels.constants import MASK_BYTES, MISSING, N_CODES, OTHER
from diprime.model.estimates import CONSTANT_NOTE, TARGET, feature_notes
from diprime.model.trees import Structure
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Account

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReleasedCurve:
    """Curve of a feature, as a tree that separates all of its codes."""

    structure: Structure
    values: npt.NDArray[np.int32]  # shape (n_leaves, n_scores): contribution to the scores
    weights: Floats  # shape (n_leaves,): released number of records
    noise: Floats  # shape (n_modes, 256): independent parts of its noise, in units of a score


@dataclass(frozen=True)
class BoostingReleases:
    """Releases of a boosted fit, in units of a score and in the order of the domain's classes."""

    start: npt.NDArray[np.int32]  # shape (n_scores,): scores of the released class shares, or of the mean target
    offset: npt.NDArray[np.int32]  # shape (n_scores,): scores of all records without curves and rounds
    curves: list[ReleasedCurve]
    rounds: list[ReleasedRound]
    n_records: float  # released number of records, or of people
    records_noise: float  # standard deviation of its noise
    code_sums: CodeSums
    score_unit: int  # units of a score in a log-odds of one, or in the range of a numeric target

    @property
    def trees(self) -> list[ReleasedCurve | ReleasedRound]:
        """All curves and rounds, in the order of the fit."""
        return [*self.curves, *self.rounds]


@dataclass(frozen=True)
class Shares:
    """Division of the budget that is left after the starting scores."""

    curves: Fraction
    rounds: Fraction

    @classmethod
    def of(cls, left: Fraction, task: Task, signal: float) -> Shares:
        """Return the shares of curves and rounds. In regression, the clips have theirs."""
        rounds = as_share(float(left) * defaults.round_share(task, signal))
        clips = Fraction(0)
        if task == "regression":
            n_clips = len(defaults.clipped_epochs(signal)) + (rounds > 0)
            clips = n_clips * as_share(defaults.clip_share(signal))
        return cls(left - rounds - clips, rounds)


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
    target_counts = engine.target_counts()
    counts = release_counts(target_counts, layout, noise_of(plan.counts), receipt, source)
    n_rows = max(counts.total, 1.0)
    signal = defaults.information(n_rows, float(plan.mu_squared))

    receipt = account.pay(plan.grid)
    code_sums = release_code_sums(engine.code_sums(), layout.person_units, receipt, noise_of(plan.grid), source)
    account.note(feature_notes(domain, code_sums.counts, code_sums.count_noise, n_rows))

    budget = DividedBudget(account.pay(plan.gradients), layout, source)
    start, counts = release_start(target_counts, counts, layout, signal, budget)
    unit = 1 << (RANGE_BITS if layout.task == "regression" else SCORE_BITS)
    if not budget.left:
        account.note([CONSTANT_NOTE])
        numbers = number_of_records(counts, code_sums, [])
        return BoostingReleases(start, start, [_no_curve(len(start), numbers[0])], [], *numbers, code_sums, unit)

    shares = Shares.of(budget.left, layout.task, signal)
    clipping = Clipping(engine, budget, layout.units, n_rows, signal) if layout.task == "regression" else None
    gradients = gradients_of(layout) if clipping is None else clipping.gradients
    fit = CurveFit(engine, budget, gradients, code_sums.shares(domain, n_rows), domain, start, n_rows, signal)
    n_rounds = settings.n_rounds if shares.rounds else 0
    progress = Progress(fit.n_steps + n_rounds, "steps", shown=settings.verbose)
    for epoch in range(defaults.N_EPOCHS):
        if clipping is not None and epoch in defaults.clipped_epochs(signal):
            are_close = clipping.measure(fit.grid())
            fit.gradients = clipping.gradients
            if epoch == 0 and are_close:
                account.note([TARGET])
        fit.run_epoch(epoch, shares.curves, progress)
    scores, noise = fit.result()
    rounds, totals = [], []
    if n_rounds:
        engine.start(scores)
        if clipping is not None:
            clipping.measure(scores)
            gradients = clipping.gradients
        runner = Rounds(
            engine, settings, gradients.for_rounds, Grid(code_sums, domain), fit.net_energies(), budget, signal, n_rows
        )
        rounds, totals = runner.run(shares.rounds, source, progress), runner.totals
    budget.close()
    curves = [
        _curve_tree(int(j), values, unit * of_curve, code_sums.counts[j], domain)
        for j, values, of_curve in zip(scores.features, scores.values, noise, strict=True)
    ]
    numbers = number_of_records(counts, code_sums, totals)
    return BoostingReleases(start, scores.offset, curves, rounds, *numbers, code_sums, unit)


def number_of_records(counts: Counts, code_sums: CodeSums, of_rounds: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the inverse-variance weighted mean of all released totals of records, and its noise."""
    of_feature = code_sums.count_noise * math.sqrt(N_CODES)
    of_features = [(total, of_feature) for total in code_sums.counts.sum(axis=1)]
    totals, noises = np.array([(counts.total, counts.total_noise), *of_features, *of_rounds]).T
    total, noise = combine(totals, noises)
    return float(total), noise


def _curve_tree(
    feature: int, values: npt.NDArray[np.int32], noise: Floats, counts: Floats, domain: Domain
) -> ReleasedCurve:
    n_codes = int(domain.n_codes[feature])
    codes = np.append(np.arange(n_codes), [OTHER, MISSING] if domain.is_categorical[feature] else [MISSING])
    cells = np.full(N_CODES, n_codes - 1)  # splits on numbers are thresholds, even beyond the last bin
    cells[codes] = np.arange(len(codes))
    cut = Cut(feature, cells, (len(codes) - 1).bit_length())
    leaves = np.zeros((cut.n_cells, values.shape[1]), dtype=np.int32)
    weights = np.zeros(cut.n_cells)
    leaves[: len(codes)], weights[: len(codes)] = values[codes], counts[codes]
    return ReleasedCurve(cell_tree([cut]), leaves, weights, noise)


def _no_curve(n_scores: int, n_records: float) -> ReleasedCurve:
    """Return a tree without splits, because a model has at least one tree."""
    structure = Structure(np.zeros((1, 0), dtype=np.int32), np.zeros((1, 0, MASK_BYTES), dtype=np.uint8))
    values = np.zeros((1, n_scores), dtype=np.int32)
    return ReleasedCurve(structure, values, np.array([n_records]), np.zeros((0, N_CODES)))
