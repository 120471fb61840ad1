"""The paper's theorems on the utility of one split, as published and as corrected.

Consul and Williamson (2021) bound what is lost when a node of N rows is split near its median privately instead of at
its median exactly: in squared error (Theorem 1), in accuracy (Theorem 2), and by how much balance is to be expected
(Theorem 3, Corollary 1). Each statement is here as printed (``published_*``) and as it should be. The proofs, and
counter-examples to what was printed, are in docs/theory.md; tests run them.

Throughout, ``n_rows`` is N, and ``least_rows`` is t: the bounds hold whenever both children have at least t rows, and
expectations are over the noise of the leaves, for a given split.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Where the expected number of mistakes that a leaf's noise costs, (z/2 + z²/4)·e^(-z)/epsilon, is largest.
_WORST_MARGIN = math.sqrt(2)


def published_sse_excess(n_rows: int, least_rows: float, epsilon: float, bound: float = 1.0) -> float:
    """Return Theorem 1's bound on the rise of the sum of squared errors, as printed. It holds, but says little.

    No split of targets in [-bound, bound] has an SSE above N·bound²; for t < 3N/8 the printed bound exceeds even that.
    And the leaf it is about, Laplace noise of scale 2·bound/(n·epsilon) on the mean of n rows, is not private for any
    epsilon: the scale gives n away.

    Parameters
    ----------
    n_rows : int
        The number of rows of the node.
    least_rows : float
        The least number of rows of a child, above 0 and below half of ``n_rows``.
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
    """Return a bound on the rise of the sum of squared errors over that of the median split with exact means.

    Parameters
    ----------
    n_rows, least_rows, epsilon, bound
        As in :func:`published_sse_excess`.
    private_leaves : bool, default=True
        Whether the leaves are private ones, a mean made from a noisy sum and a noisy count and clamped, or the paper's,
        with noise on the mean of a scale that tells the count. For the paper's leaves the bound is attained.

    Returns
    -------
    bound : float
        What the split costs, 4B²·c·(N - t - c)/(N - t) with c = ⌊N/2⌋, and what the noise costs.

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
        return bound**2 * min(split + noise, 4 * n_rows)  # both the target and a clamped mean are in [-B, B]
    return bound**2 * (split + 8 / epsilon**2 * (1 / least_rows + 1 / larger))


def _private_leaf_excess(n_rows: float, epsilon: float) -> float:
    """Return what the noise costs a leaf of at least ``n_rows`` rows in squared error, in units of B².

    As long as the noisy count is at least half of the true one, the mean is off by at most twice the noise over the
    count; and otherwise by at most 2B.
    """
    worst = max(_WORST_MARGIN, epsilon * n_rows / 2)
    return 32 / (epsilon**2 * n_rows) + 8 / epsilon * worst * flip_probability(worst, 1.0)


def flip_probability(margin: float, epsilon: float) -> float:
    """Return the probability that noise overturns a majority of ``margin`` rows in a leaf of two classes.

    Each count gets Laplace noise of scale 1/epsilon and is clamped at zero; if both are zero, a coin decides.

    Examples
    --------
    >>> round(flip_probability(3, epsilon=1.0), 4)
    0.0622
    """
    z = epsilon * margin
    return (z / 4 + 1 / 2) * math.exp(-z)


def published_accuracy_loss(least_rows: float, epsilon: float, purity: float) -> float:
    """Return Theorem 2's bound on the loss of accuracy, as printed. It does not hold.

    Its proof compares the noisy leaves with exact leaves of the *same* split; the statement compares them with those of
    the median split, and what is lost by moving the split is forgotten. It tends to zero as epsilon grows; the loss
    does not.

    Parameters
    ----------
    least_rows : float
        The least number of rows of a child.
    epsilon : float
        The budget of the leaves.
    purity : float
        The least share of a child's rows that its more frequent class has, from 0.5 to 1.

    Returns
    -------
    bound : float
        The probability that noise overturns the majority of a leaf of ``least_rows`` rows.

    Examples
    --------
    Fifty rows of one class, then fifty of the other; the split leaves eleven on the left instead of fifty.

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
    """Return a bound on the loss of accuracy against that of the median split with exact counts, for two classes.

    The split costs at most (⌈N/2⌉ - t)/N. The noise costs a leaf less than 0.2935/epsilon mistakes *whatever its size*:
    where a majority is easily overturned, little hangs on it. So it is not through noise that imbalance harms a
    classifier, as the printed theorem has it.

    Parameters
    ----------
    n_rows : int
        The number of rows of the node.
    least_rows, epsilon, purity
        As in :func:`published_accuracy_loss`; a purity of 0.5 assumes nothing.

    Returns
    -------
    bound : float
        The bound; what the split costs in it is attained.

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
    """Return Theorem 3's bound on the probability of a balanced split, and a better one if more is known.

    As printed the theorem holds, and more: both children have not only at least t rows, but above t. It is weak: it
    weighs the middle as if all of it were one row better than the edge, and so gains a factor of e^epsilon over random
    splits, however many rows there are. A part that is s - t rows further inside weighs e^(epsilon·(s - t)) more.

    Parameters
    ----------
    width : float
        The length R of the feature's range at the node. On a grid of thresholds, lengths are numbers of thresholds.
    core : float
        The length d that the N - 2t rows in the middle cover, or less.
    epsilon : float
        The budget of the median, chosen by the exponential mechanism.
    inner : float, optional
        The length that the N - 2s rows in the middle cover, or less, for some s of at least t. By default s = t and
        inner = core, the printed theorem.
    rows_between : int, default=0
        s - t.

    Returns
    -------
    bound : float
        A lower bound on the probability that both children have more than t rows.

    Examples
    --------
    A thousand rows spread evenly; both children shall have more than 250 of them.

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
        raise ValueError(f"Lengths must rise from 0 over inner and core to width, got {inner}, {core}, {width}.")
    if epsilon < 0 or rows_between < 0:
        raise ValueError(f"epsilon and rows_between must not be negative, got {epsilon} and {rows_between}.")
    if inner == 0:
        return float(core < width)
    outer = (width - core) * math.exp(-epsilon * (rows_between + 1))
    return outer / (inner + outer)


def random_occupancy(width: float, core: float) -> float:
    """Return the probability that a uniformly random split leaves both children more than t rows.

    Parameters
    ----------
    width, core
        As in :func:`occupancy`, ``core`` exactly.
    """
    return occupancy(width, core, 0.0)


def against_random(
    width: float, core: float, epsilon: float, *, inner: float | None = None, rows_between: int = 0
) -> float:
    """Return Corollary 1 as a number: how often a median split is unbalanced, for once that a random one is, at most.

    It is never above 1. That holds for any mechanism which, measured against random splits, never prefers the
    less balanced of two: the exponential mechanism with rounded weights and permute-and-flip over a grid too. It does
    not hold for categories if their score is the one printed, whose sign is wrong, nor for DiPriMeExp and
    DiPriMeFlip, whose choice among K medians looks at the target.

    Parameters
    ----------
    width, core, epsilon, inner, rows_between
        As in :func:`occupancy`, ``core`` exactly.

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
    at_random = 1 - random_occupancy(width, core)
    return min(1.0, _imbalance(width, core, epsilon, inner, rows_between) / at_random) if at_random > 0 else 0.0


def left_count_probabilities(values: npt.ArrayLike, low: float, high: float, epsilon: float) -> Floats:
    """Return the exact law of a split near the median of one feature, to hold the bounds against.

    Parameters
    ----------
    values : array of shape (n,)
        The feature's values, between ``low`` and ``high``.
    low, high : float
        The feature's range at the node.
    epsilon : float
        The budget of the median; 0 is a random split.

    Returns
    -------
    probabilities : array of shape (n + 1,)
        How probable it is that 0, 1, …, n rows go left.

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
    """Return what part of a leaf of that purity its majority is ahead by."""
    if not 0.5 <= purity <= 1:
        raise ValueError(f"purity must be between 0.5 and 1, got {purity}.")
    return 2 * purity - 1


def _check_split(n_rows: int, least_rows: float) -> None:
    if not 0 < least_rows < n_rows / 2:
        raise ValueError(f"least_rows must be above 0 and below half of n_rows, got {least_rows} of {n_rows}.")


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}.")
