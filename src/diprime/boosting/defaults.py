"""Constants of boosting found by experiment, and rules that choose parameters from released counts."""

from __future__ import annotations

import math
from fractions import Fraction

from diprime.domain import Task
from diprime.privacy.measures import Epsilon

TOTAL_RATE = 100.0  # sum of the learning rates of all rounds: results hardly depend on the number of rounds
MIN_LEARNING_RATE = 0.15
MAX_LEARNING_RATE = 0.5
LITTLE_NOISE = 4  # μ² above which more rounds improve models

COUNTS_SHARE = Fraction(1, 100)
GRID_SHARE = Fraction(1, 20)
CLIP_SHARE = Fraction(1, 40)
N_CLIPS = 6

N_TARGET_BINS = 64  # bins of the histogram of a numeric target
MAX_BINS = 64  # bins of a feature, with about the same number of records each
CLIP_QUANTILE = 0.9  # quantile of |residual| at which residuals are clipped
SPREAD_OF_RESIDUALS = 0.6  # standard deviation of normal residuals clipped at this quantile, in units of the clip

EXPLORE = 0.3  # fraction of rounds that draw their features uniformly
PAIRS = 0.5  # fraction of rounds with two features
GAIN_MEMORY = 0.9  # factor applied to a feature's earlier gains when it is chosen again

SCARCE = 400.0  # information below which some rounds only measure the first scores
MEASURED_INFORMATION = 20.0  # the fraction of these rounds is this value divided by the information
MEASURED = 0.5  # maximum fraction of these rounds

RIDGE = 6.0
RIDGE_PER_FEATURE = 160.0  # for regression with scarce information
PLENTIFUL = 50_000.0  # information above which the ridge of classifiers shrinks
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


def measuring_rounds(signal: float, n_rounds: int) -> int:
    """Return the number of rounds that only measure the class counts, or the mean of a numeric target.

    The first counts get little of the budget, because later rounds correct them. If information is scarce, the ridge
    prevents that, and predictions would be worse than the best constant.
    """
    return int(n_rounds * min(MEASURED, MEASURED_INFORMATION / signal)) if signal < SCARCE else 0


def cells_of_single(signal: float) -> int:
    """Return the number of cells of a round with one feature."""
    return 16 if signal > 250 else 8 if signal > 80 else 4  # noqa: PLR2004 -- found by measurement, used once


def cells_of_pair(signal: float) -> int:
    """Return the number of cells per feature of a round with two, unless their interaction exceeds the noise."""
    return 4 if signal > 80 else 2  # noqa: PLR2004 -- found by measurement, used once


def ridge(task: Task, signal: float, n_features: int, n_rounds: int, rate: float) -> float:
    """Return the weight added to every cell, in standard deviations of the noise of a gradient sum.

    It limits the noise of a step to rate/ridge of the largest gradient. In regression with few records per feature, the
    noise of predictions over all rounds, (rate/ridge)²·rounds, must be small compared with the information per feature.

    In classification, a ridge also slows learning in cells where most records are classified well and thus have small
    Hessians. With plentiful information, this does more harm than the noise in these cells.
    """
    if task == "classification":
        return RIDGE * min(1.0, math.sqrt(PLENTIFUL / signal))
    return max(RIDGE, rate * math.sqrt(n_rounds) * RIDGE_PER_FEATURE * n_features / signal)


def weight_of_record(n_scores: int, task: Task) -> float:
    """Return the approximate weight of a record in the sums: one if it is counted, or its Hessian p·(1 - p)."""
    n_classes = max(n_scores, 2)
    return 1.0 if task == "regression" else 0.8 * (n_classes - 1) / n_classes**2
