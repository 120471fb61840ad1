"""Constants of boosting found by experiment, and rules that choose parameters from released counts."""

from __future__ import annotations

import math
from fractions import Fraction

from diprime.boosting.gradients import RANGE_BITS
from diprime.domain import Task
from diprime.privacy.measures import Epsilon

TOTAL_RATE = 100.0  # sum of the learning rates of all rounds: results hardly depend on the number of rounds
MIN_LEARNING_RATE = 0.15
MAX_LEARNING_RATE = 0.5
LITTLE_NOISE = 4  # μ² above which more rounds improve models

COUNTS_SHARE = Fraction(1, 100)
GRID_SHARE = Fraction(1, 20)

CONSTANT = 25.0  # information below which the model is a constant
COUNT_OF_CONSTANT = 0.2  # share of the number of records in the budget of a constant number
LEAST_START_SHARE = 0.0025
LEAST_CLIP_SHARE = 0.0025
FIRST_CLIP = 1 << (RANGE_BITS - 3)  # an eighth of the target's range
PARTS, CLOSE, DEVIATIONS = 20, 0.8, 6  # of the range; share of targets in one part that calls for a note, and evidence
FINE_CLIPS = 150.0  # information above which clips are measured finely and often

NORM_SHARE = 0.9  # squared norm of a record's basis vector beyond which its gradient is shortened, relative to the mean
CONSTANT_WEIGHT = 0.25  # squared norm of the constant function in regression; all features together have one
SPECTRUM_DECAY = 1.5  # squared norm of the cosine of frequency k: k^-1.5
WAVES, FEW_WAVES, MANY_WAVES = 8, 4, 24  # cosines per feature: usually, with little information, for rough functions
ROUGH, ROUGH_DEVIATIONS = 0.035, 5  # share of high frequencies in the energy of rough functions, and its evidence
ROUGH_DECAY = 0.75
EVEN_WEIGHT, EVEN_FEATURES = 0.3, 4.0  # part of the weights that all features share, and that of few features
MAX_CURVES = 64
N_EPOCHS = 5
WIDE_STEPS = 5  # steps over all features if there are more than `MAX_CURVES`
MOMENTUM = 0.9
CLEAR = 4.0  # standard deviations above the noise at which the curves of classes are not shrunk
PLENTY, MANY_ROWS = 20_000.0, 500_000.0  # information, and number of records, above which there are fewer steps
MAX_PATH = {False: 6000.0, True: 1000.0}  # for classification and regression

MAX_BINS = 64  # bins of a feature, with about the same number of records each
SPREAD_OF_RESIDUALS = 0.6  # standard deviation of normal residuals clipped at the usual quantile, in units of the clip

EXPLORE = 0.3  # fraction of rounds that draw their features uniformly
PAIRS = {"classification": 0.9, "regression": 0.6}  # fraction of rounds with two features
GAIN_MEMORY = 0.9  # factor applied to a feature's earlier gains when it is chosen again

RIDGE = {"classification": 12.0, "regression": 6.0}
RIDGE_SCORE, LEAST_RIDGE_FACTOR = 2.0, 0.25  # spread of scores above which the ridge of classifiers shrinks
RIDGE_PER_FEATURE = 160.0  # for regression with scarce information
FINE_PAIR_GAIN = 0.3 * 4096
LEAST_RIDGE = 10.0  # in units of weight (records in regression): limits chance in small cells if there is little noise


def n_rounds(mu_squared: Epsilon) -> int:
    """Return the number of rounds. It is public, because a fit is planned before any row is read."""
    return 400 if mu_squared < LITTLE_NOISE else 1000


def learning_rate(n_rounds: int) -> float:
    """Return the shrinkage of each Newton step."""
    return min(MAX_LEARNING_RATE, max(MIN_LEARNING_RATE, TOTAL_RATE / n_rounds))


def information(n_rows: float, mu_squared: float) -> float:
    """Return the number of records times μ, which determines the signal-to-noise ratio."""
    return max(n_rows, 1.0) * math.sqrt(mu_squared)


def start_share(signal: float) -> float:
    """Return the share of the budget that measures the starting scores."""
    return min(0.4, max(LEAST_START_SHARE, (10 / signal) ** 2))


def clip_share(signal: float) -> float:
    """Return the share of the budget of each histogram of residuals."""
    return min(0.05, max(LEAST_CLIP_SHARE, (7 / signal) ** 2))


def clipped_share(signal: float) -> float:
    """Return the share of residuals that are clipped. With much noise, a smaller clip is better."""
    return 0.1 + 0.15 / (1 + (signal / 400) ** 2)


def clipped_epochs(signal: float) -> tuple[int, ...]:
    """Return the epochs of the curves before which the clip is set. It is set before the rounds as well."""
    return (0, 1, 2, 3, 4) if signal >= FINE_CLIPS else (0, 2)


def round_share(task: Task, signal: float) -> float:
    """Return the share of the budget of rounds. A small share is worse than none."""
    effective = signal if task == "classification" else 10 * signal
    return 0.0 if effective < 2500 else min(0.75, 0.5 * math.log10(min(effective, 1e9) / 1000))  # noqa: PLR2004 -- found by measurement, used once


def least_share(n_rounds: int) -> Fraction:
    """Return a lower bound on the shares of all releases. It is public."""
    return min(Fraction(2, 1000), Fraction(19, 100 * n_rounds))


def n_waves(signal: float) -> int:
    """Return the number of cosines per feature."""
    return WAVES if signal >= 100 else FEW_WAVES  # noqa: PLR2004 -- found by measurement, used once


def curve_steps(signal: float, n_rows: float) -> int:
    """Return the number of steps in which curves are fitted: fewer if there is little noise, or if they take long."""
    return 30 if signal >= PLENTY else 50 if n_rows >= MANY_ROWS else 100


def path(task: Task, signal: float, share: float) -> float:
    """Return the length of the path of the coefficients, in gradients. It limits noise along weak directions."""
    noise = min(2.0, 0.2 * math.sqrt(signal)) if task == "classification" else min(1.0, 0.02 * math.sqrt(signal))
    return min(noise * signal * math.sqrt(share), MAX_PATH[task == "regression"])


def cells_of_single(signal: float) -> int:
    """Return the number of cells of a round with one feature."""
    return 16 if signal > 250 else 8 if signal > 80 else 4  # noqa: PLR2004 -- found by measurement, used once


def cells_of_pair(signal: float) -> int:
    """Return the number of cells per feature of a round with two, unless their interaction exceeds the noise."""
    return 4 if signal > 80 else 2  # noqa: PLR2004 -- found by measurement, used once


def ridge(task: Task, signal: float, n_features: int, n_rounds: int, rate: float, spread: float) -> float:
    """Return the weight added to every cell, in standard deviations of the noise of a gradient sum.

    It limits the noise of a step to rate/ridge of the largest gradient. In regression with few records per feature, the
    noise of predictions over all rounds, (rate/ridge)²·rounds, must be small compared with the information per feature.

    In classification, a ridge also slows learning in cells where most records are classified well and thus have small
    Hessians. If scores have a large ``spread``, this does more harm than the noise in these cells.
    """
    if task == "classification":
        return RIDGE[task] * min(1.0, max(LEAST_RIDGE_FACTOR, (RIDGE_SCORE / max(spread, 1e-9)) ** 2))
    return max(RIDGE[task], rate * math.sqrt(n_rounds) * RIDGE_PER_FEATURE * n_features / signal)


def weight_of_record(n_scores: int, task: Task) -> float:
    """Return the approximate weight of a record in the sums: one if it is counted, or its Hessian p·(1 - p)."""
    n_classes = max(n_scores, 2)
    return 1.0 if task == "regression" else 0.8 * (n_classes - 1) / n_classes**2
