"""The paper's theorems on the utility of one split, as published and as corrected.

Consul and Williamson (2021) compare a private split near the median of a node of N rows with the exact median split.
They bound the increase of the squared error (Theorem 1), the loss of accuracy (Theorem 2) and the probability that the
private split is balanced (Theorem 3, Corollary 1). This module contains each statement as printed (``published_*``) and
as corrected. See docs/theory.md for the proofs and for counter-examples to the printed statements, which are tested.

Throughout, ``n_rows`` is N and ``least_rows`` is t. The bounds hold whenever both children have at least t rows.
Expectations are over the noise of the leaves, for a given split.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = [
    "accuracy_loss",
    "against_random",
    "flip_probability",
    "left_count_probabilities",
    "occupancy",
    "published_accuracy_loss",
    "published_sse_excess",
    "random_occupancy",
    "sse_excess",
]

Floats = npt.NDArray[np.float64]

# In a leaf whose majority leads by z/epsilon rows, noise costs (z/2 + z²/4)·e^(-z)/epsilon expected mistakes. This z
# maximizes this cost.
_WORST_MARGIN = math.sqrt(2)
_MIN_PURITY = 0.5  # one of two classes has at least half of the rows


def published_sse_excess(n_rows: int, least_rows: float, epsilon: float, bound: float = 1.0) -> float:
    """Return Theorem 1's bound on the increase of the sum of squared errors (SSE), as printed. It holds, but is weak.

    No split of targets in [-bound, bound] has an SSE above N·bound², and for t < 3N/8 the printed bound exceeds even
    that. Moreover, the leaves of the theorem are not private for any epsilon: they add Laplace noise of scale
    2·bound/(n·epsilon) to the mean of n rows, and this scale reveals n.

    Parameters
    ----------
    n_rows : int
        The number of rows of the node.
    least_rows : float
        A lower bound on the number of rows of each child, above 0 and below half of ``n_rows``.
    epsilon : float
        The budget of the leaves.
    bound : float, default=1.0
        The largest absolute value of the target.

    Returns
    -------
    bound : float
        4B²N - 8B²t + 16B²/(epsilon²·t).

    Examples
    --------
    >>> published_sse_excess(1000, 100, epsilon=1.0)
    3200.16
    >>> round(sse_excess(1000, 100, epsilon=1.0, private_leaves=False), 2)
    888.98
    """
    _check_split(n_rows, least_rows)
    _check_positive(epsilon=epsilon, bound=bound)
    return bound**2 * (4 * n_rows - 8 * least_rows + 16 / (epsilon**2 * least_rows))


def sse_excess(
    n_rows: int, least_rows: float, epsilon: float, bound: float = 1.0, *, private_leaves: bool = True
) -> float:
    """Return a bound on the increase of the sum of squared errors over that of the median split with exact means.

    Parameters
    ----------
    n_rows, least_rows, epsilon, bound
        As in :func:`published_sse_excess`.
    private_leaves : bool, default=True
        Whether the leaves are private, or those of the paper. A private leaf is the quotient of a noisy sum and a noisy
        count, clipped to the range of the target. A leaf of the paper adds noise to the mean, with a scale that reveals
        the count; for such leaves, the bound is attained.

    Returns
    -------
    bound : float
        The cost of the split, 4B²·c·(N - t - c)/(N - t) with c = ⌊N/2⌋, plus the cost of the noise.

    Examples
    --------
    >>> round(sse_excess(1000, 450, epsilon=1.0), 2)
    181.95
    """
    _check_split(n_rows, least_rows)
    _check_positive(epsilon=epsilon, bound=bound)
    half, larger = n_rows // 2, n_rows - least_rows
    split = 4 * half * (larger - half) / larger
    if private_leaves:
        noise = _private_leaf_excess(least_rows, epsilon) + _private_leaf_excess(n_rows / 2, epsilon)
        return bound**2 * min(split + noise, 4 * n_rows)  # targets and clipped means are in [-B, B]
    return bound**2 * (split + 8 / epsilon**2 * (1 / least_rows + 1 / larger))


def _private_leaf_excess(n_rows: float, epsilon: float) -> float:
    """Return a bound on the squared error that noise adds to a leaf of at least ``n_rows`` rows, in units of B².

    If the noisy count is at least half of the true count, the error of the mean is at most twice the noise divided by
    the count. Otherwise it is at most 2B.
    """
    worst = max(_WORST_MARGIN, epsilon * n_rows / 2)
    return 32 / (epsilon**2 * n_rows) + 8 / epsilon * worst * flip_probability(worst, 1.0)


def flip_probability(margin: float, epsilon: float) -> float:
    """Return the probability that noise flips the majority class of a leaf, for two classes.

    The majority class leads by ``margin`` rows. Both counts get Laplace noise of scale 1/epsilon and are clipped at
    zero. If both are zero, the class is chosen at random.

    Parameters
    ----------
    margin : float
        Number of rows by which the majority class leads.
    epsilon : float
        The budget of the leaves.

    Returns
    -------
    probability : float
        (z/4 + 1/2)·e^(-z) with z = epsilon·margin.

    Examples
    --------
    >>> round(flip_probability(3, epsilon=1.0), 4)
    0.0622
    """
    z = epsilon * margin
    return (z / 4 + 1 / 2) * math.exp(-z)


def published_accuracy_loss(least_rows: float, epsilon: float, purity: float) -> float:
    """Return Theorem 2's bound on the loss of accuracy, as printed. It does not hold.

    The statement compares the noisy leaves with the exact leaves of the median split, but its proof compares them with
    the exact leaves of the *same* split, and so omits the loss from moving the split. The bound tends to zero as
    epsilon grows; the loss does not.

    Parameters
    ----------
    least_rows : float
        A lower bound on the number of rows of each child.
    epsilon : float
        The budget of the leaves.
    purity : float
        A lower bound on the share of the majority class in each child, from 0.5 to 1.

    Returns
    -------
    bound : float
        The probability that noise flips the majority class of a leaf of ``least_rows`` rows.

    Examples
    --------
    Fifty rows of one class are followed by fifty of the other. The split sends eleven rows left instead of fifty.

    >>> round(published_accuracy_loss(10, epsilon=10.0, purity=50 / 89), 6)
    1.5e-05
    >>> loss_of_the_split_alone = 1.0 - (11 + 50) / 100
    >>> loss_of_the_split_alone
    0.39
    >>> round(accuracy_loss(100, 10, epsilon=10.0, purity=50 / 89), 6)
    0.4
    """
    _check_positive(least_rows=least_rows, epsilon=epsilon)
    return flip_probability(least_rows * _margin(purity), epsilon)


def accuracy_loss(n_rows: int, least_rows: float, epsilon: float, purity: float = 0.5) -> float:
    """Return a bound on the loss of accuracy relative to the median split with exact counts, for two classes.

    The split costs at most (⌈N/2⌉ - t)/N. The noise costs a leaf less than 0.2935/epsilon mistakes *whatever its size*,
    because noise easily flips only small majorities. Contrary to the printed theorem, imbalance therefore does not harm
    a classifier through the noise.

    Parameters
    ----------
    n_rows : int
        The number of rows of the node.
    least_rows, epsilon, purity
        As in :func:`published_accuracy_loss`. A purity of 0.5 holds for all data.

    Returns
    -------
    bound : float
        The cost of the split, which is attained, plus the cost of the noise.

    Examples
    --------
    >>> round(accuracy_loss(1000, 400, epsilon=0.1), 4)
    0.1059
    """
    _check_split(n_rows, least_rows)
    _check_positive(epsilon=epsilon)
    margin = epsilon * least_rows * _margin(purity)
    worst = max(_WORST_MARGIN, margin)
    mistakes = 2 * worst * flip_probability(worst, 1.0) / epsilon
    return ((n_rows + 1) // 2 - least_rows + min(mistakes, n_rows * flip_probability(margin, 1.0))) / n_rows


def occupancy(width: float, core: float, epsilon: float, *, inner: float | None = None, rows_between: int = 0) -> float:
    """Return Theorem 3's bound on the probability of a balanced split, or a better bound if more is known.

    The theorem holds as printed, and even for children with more than t rows instead of at least t. However, it is
    weak: it weights every threshold in the middle as if it were only one row better than those outside. The odds
    therefore improve on a random split by a factor of only e^epsilon, for any number of rows. In fact, the weight of a
    threshold that is s - t rows further inside is larger by a factor of e^(epsilon·(s - t)).

    Parameters
    ----------
    width : float
        The length R of the feature's range at the node. On a grid, lengths are numbers of thresholds.
    core : float
        The length d of the interval that the N - 2t middle rows span, or a lower bound on it.
    epsilon : float
        The budget of the median, chosen by the exponential mechanism.
    inner : float, optional
        The length of the interval that the N - 2s middle rows span, or a lower bound on it, for some s ≥ t. The default
        is the printed theorem: s = t and inner = core.
    rows_between : int, default=0
        The difference s - t.

    Returns
    -------
    bound : float
        A lower bound on the probability that both children have more than t rows.

    Examples
    --------
    A thousand rows are spread evenly, and each child should get more than 250 of them.

    >>> round(occupancy(1.0, 0.5, epsilon=0.1), 3)
    0.525
    >>> round(occupancy(1.0, 0.5, epsilon=0.1, inner=0.25, rows_between=125), 6)
    0.999993
    """
    return 1 - _imbalance(width, core, epsilon, inner, rows_between)


def _imbalance(width: float, core: float, epsilon: float, inner: float | None, rows_between: int) -> float:
    """Return an upper bound on the probability that the smaller child has at most t rows."""
    _check_positive(width=width)
    inner = core if inner is None else inner
    if not 0 <= inner <= core <= width:
        raise ValueError(f"0 <= inner <= core <= width must hold, got inner={inner}, core={core} and width={width}.")
    if epsilon < 0 or rows_between < 0:
        raise ValueError(f"epsilon and rows_between must not be negative, got {epsilon} and {rows_between}.")
    if inner == 0:
        return float(core < width)
    outer = (width - core) * math.exp(-epsilon * (rows_between + 1))
    return outer / (inner + outer)


def random_occupancy(width: float, core: float) -> float:
    """Return the probability that both children of a uniformly random split have more than t rows.

    Parameters
    ----------
    width, core
        As in :func:`occupancy`; ``core`` is exact, not a lower bound.

    Returns
    -------
    probability : float
        d/R.
    """
    return occupancy(width, core, 0.0)


def against_random(
    width: float, core: float, epsilon: float, *, inner: float | None = None, rows_between: int = 0
) -> float:
    """Return Corollary 1 as a number: a bound on the relative probability of imbalance of median and random splits.

    The bound is at most 1. This holds for every mechanism that never favours the less balanced of two splits, relative
    to random splits. It includes the exponential mechanism with rounded weights, and permute-and-flip, both on a grid.
    The bound does not hold for categorical features with the score as printed, because the sign of that score is wrong.
    Nor does it hold for DiPriMeExp and DiPriMeFlip, which choose among K medians by the target.

    Parameters
    ----------
    width, core, epsilon, inner, rows_between
        As in :func:`occupancy`; ``core`` is exact, not a lower bound.

    Returns
    -------
    ratio : float
        A bound on Pr[smaller child of a median split <= t] / Pr[smaller child of a random split <= t].

    Examples
    --------
    >>> round(against_random(1.0, 0.5, epsilon=0.1), 2)
    0.95
    >>> round(against_random(1.0, 0.5, epsilon=0.1, inner=0.25, rows_between=125), 6)
    1.3e-05
    """
    random_imbalance = 1 - random_occupancy(width, core)
    if random_imbalance <= 0:
        return 0.0
    return min(1.0, _imbalance(width, core, epsilon, inner, rows_between) / random_imbalance)


def left_count_probabilities(values: npt.ArrayLike, low: float, high: float, epsilon: float) -> Floats:
    """Return the exact distribution of a private median split of one feature, for comparison with the bounds.

    Parameters
    ----------
    values : array of shape (n,)
        The feature's values, between ``low`` and ``high``.
    low, high : float
        The feature's range at the node.
    epsilon : float
        The budget of the median; 0 means a random split.

    Returns
    -------
    probabilities : array of shape (n + 1,)
        The probabilities that 0, 1, …, n rows go left.

    Examples
    --------
    >>> left_count_probabilities([0.25, 0.5, 0.75], 0.0, 1.0, epsilon=1.0).round(3)
    array([0.134, 0.366, 0.366, 0.134])
    """
    edges = np.concatenate([[low], np.sort(np.asarray(values, dtype=np.float64)), [high]])
    gaps = np.diff(edges)
    if low >= high or gaps.min() < 0:
        raise ValueError(f"low must be below high and values between them, got low={low} and high={high}.")
    n = len(gaps) - 1
    scores = np.where(gaps > 0, -epsilon * np.abs(2.0 * np.arange(n + 1) - n) / 2, -np.inf)
    weights = gaps * np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def _margin(purity: float) -> float:
    """Return the lead of a leaf's majority class, as a share of its rows, given the purity of the leaf."""
    if not _MIN_PURITY <= purity <= 1:
        raise ValueError(f"purity must be between 0.5 and 1, got {purity}.")
    return 2 * purity - 1


def _check_split(n_rows: int, least_rows: float) -> None:
    if not 0 < least_rows < n_rows / 2:
        raise ValueError(f"least_rows must be above 0 and below half of n_rows, got {least_rows} of {n_rows}.")


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}.")
