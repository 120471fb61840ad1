"""The numbers of boosting that were found by measurement, and rules that choose them from released counts."""

from __future__ import annotations

import math
from fractions import Fraction

from diprime.domain import Task
from diprime.privacy.measures import Epsilon

TOTAL_RATE = 100.0  # of all rounds together: the result hardly depends on their number
MIN_LEARNING_RATE = 0.15
MAX_LEARNING_RATE = 0.5
LITTLE_NOISE = 4  # μ² from which more rounds pay

COUNTS_SHARE = Fraction(1, 100)
GRID_SHARE = Fraction(1, 20)
CLIP_SHARE = Fraction(1, 40)
N_CLIPS = 6

N_TARGET_BINS = 64  # of the histogram of a numeric target
MAX_BINS = 64  # of a feature: about equally many records each
CLIP_QUANTILE = 0.9  # of |residual|: those above are clamped

EXPLORE = 0.3  # the share of draws of features that do not depend on earlier rounds
PAIRS = 0.5  # the share of rounds that cut two features
GAIN_MEMORY = 0.9

RIDGE = 6.0
RIDGE_PER_FEATURE = 160.0  # of numbers, where information is scarce
PLENTIFUL = 50_000.0  # the information from which the ridge of classes shrinks
FINE_PAIR_GAIN = 0.3 * 4096
LEAST_RIDGE = 10.0  # of weight, which for numbers is records: against chance in small cells with little noise or none


def n_rounds(mu_squared: Epsilon) -> int:
    """Return the number of rounds. It is public: the plan of a fit is made before a row is read."""
    return 400 if mu_squared < LITTLE_NOISE else 1000


def learning_rate(n_rounds: int) -> float:
    """Return the part of a Newton step that a round goes."""
    return min(MAX_LEARNING_RATE, max(MIN_LEARNING_RATE, TOTAL_RATE / n_rounds))


def information(n_rows: float, mu_squared: float) -> float:
    """Return the number of records times μ, on which the ratio of signal to noise depends."""
    return max(n_rows, 1.0) * math.sqrt(mu_squared)


def cells_of_single(signal: float) -> int:
    """Return into how many cells a round on one feature cuts it."""
    return 16 if signal > 250 else 8 if signal > 80 else 4  # noqa: PLR2004 -- found by measurement, used once


def cells_of_pair(signal: float) -> int:
    """Return into how many cells a round on two features cuts each, unless their interaction stands out."""
    return 4 if signal > 80 else 2  # noqa: PLR2004 -- found by measurement, used once


def ridge(task: Task, signal: float, n_features: int, n_rounds: int, rate: float) -> float:
    """Return the weight, in standard deviations of the noise of a gradient sum, that is added to every cell.

    The noise of a step is then at most rate/ridge of the largest gradient. For numbers, where the records are few for
    their number of features, what noise adds to the predictions over all rounds, (rate/ridge)²·rounds, must be small
    beside what can be learnt about each feature.

    For classes, a ridge also slows learning down in cells where most records are classified well, and so have small
    Hessians. Where information is plentiful, that costs more than the noise in these cells does.

    Parameters
    ----------
    task : {"regression", "classification"}
        The kind of target.
    signal : float
        The :func:`information`.
    n_features, n_rounds : int
        The numbers of features and rounds.
    rate : float
        The learning rate.
    """
    if task == "classification":
        return RIDGE * min(1.0, math.sqrt(PLENTIFUL / signal))
    return max(RIDGE, rate * math.sqrt(n_rounds) * RIDGE_PER_FEATURE * n_features / signal)


def weight_of_record(n_scores: int, task: Task) -> float:
    """Return about how much a record weighs in the sums: one if it is counted, p·(1 - p) if its Hessian is added."""
    n_classes = max(n_scores, 2)
    return 1.0 if task == "regression" else 0.8 * (n_classes - 1) / n_classes**2
