"""Bins of a classifier's scores, from the released model alone.

Records are counted in bins of what the model says of them. The bins should hold about as many records each, and may
not depend on the records. The model itself tells which scores are frequent: made-up rows, drawn from its
released counts, have scores that are distributed roughly as those of real ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.privacy.measures import Epsilon
from diprime.scoring.cells import Floats

MAX_BINS = 2048
MIN_BINS = 2
BINS_FACTOR = 0.8
UNIFORM_SHARE = 0.1
"""The share of the bins that is placed evenly over the scores that occurred, whatever their frequency."""


@dataclass(frozen=True)
class Reference:
    """Scores that a model gives, and how frequent they are.

    Attributes
    ----------
    scores : array of shape (n,)
        Scores, by which records are ranked: probabilities, or log-odds.
    weights : array of shape (n,)
        How frequent they are, in any unit.
    is_complete : bool
        Whether the model can give no other scores.
    is_log_odds : bool
        Whether they are log-odds.
    limits : pair of float
        Bounds of all scores that the model can give.
    """

    scores: Floats
    weights: Floats
    is_complete: bool
    is_log_odds: bool = False
    limits: tuple[float, float] = (-math.inf, math.inf)

    def where(self, kept: npt.NDArray[np.bool_]) -> Reference:
        """Return some of the scores."""
        return Reference(self.scores[kept], self.weights[kept], self.is_complete, self.is_log_odds, self.limits)

    def probabilities(self, scores: Floats) -> Floats:
        """Return the probabilities that scores stand for."""
        return 1 / (1 + np.exp(-np.clip(scores, -700, 700))) if self.is_log_odds else scores


@dataclass(frozen=True)
class Bins:
    """Bins of a score, in ascending order.

    Attributes
    ----------
    edges : array of shape (n_bins - 1,)
        The scores at which a new bin begins.
    low, middle, high : arrays of shape (n_bins,)
        The smallest, a typical and the largest probability in a bin.
    """

    edges: Floats
    low: Floats
    middle: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.low)

    @property
    def is_exact(self) -> npt.NDArray[np.bool_]:
        """Whether all records in a bin have the same score."""
        return np.asarray(self.low == self.high)

    def place(self, scores: Floats) -> npt.NDArray[np.intp]:
        """Return the bin of each score, a function of the score alone."""
        return np.searchsorted(self.edges, scores, side="right")


def number_of_bins(n_records: float, epsilon: Epsilon) -> int:
    """Return how many bins to count records in, if the smaller of two classes has so many.

    With more bins, less is unknown about records in the same one, and there is more noise in all of them together. The
    sum of both is least for about this number.
    """
    if epsilon == math.inf:
        return MAX_BINS
    wanted = BINS_FACTOR * (2 * max(n_records, 0.0) * float(epsilon)) ** (2 / 3)
    return int(min(max(wanted, MIN_BINS), MAX_BINS))


def make_bins(reference: Reference, n_bins: int, lowest: float = 0.0, highest: float = 1.0) -> Bins:
    """Return at most ``n_bins`` bins of about equal frequency, for probabilities from ``lowest`` to ``highest``."""
    if not len(reference.scores):
        return Bins(np.zeros(0), *(np.array([p]) for p in (lowest, (lowest + highest) / 2, highest)))
    values, index = np.unique(reference.scores, return_inverse=True)
    weights = np.bincount(index, np.maximum(reference.weights, 0.0)).astype(np.float64)
    probabilities = reference.probabilities(values)
    last = _last_of_bins(weights, n_bins)
    first = np.concatenate([[0], last[:-1] + 1])
    edges = values[first[1:]] / 2 + values[last[:-1]] / 2
    share = weights + max(weights.sum(), 1.0) * 1e-9  # of values that no record had
    middle = np.add.reduceat(share * probabilities, first) / np.add.reduceat(share, first)
    if reference.is_complete:
        return Bins(edges, probabilities[first], middle, probabilities[last])
    borders = np.clip(reference.probabilities(edges), lowest, highest)
    rounding = 1e-9  # of sums over the trees
    ends = reference.probabilities(np.array(reference.limits)) + np.array([-rounding, rounding])
    lowest, highest = np.clip(ends, lowest, highest)
    low, high = np.concatenate([[lowest], borders]), np.concatenate([borders, [highest]])
    return Bins(edges, low, np.clip(middle, low, high), high)


def _last_of_bins(weights: Floats, n_bins: int) -> npt.NDArray[np.intp]:
    """Return the index of the last value of each bin."""
    n = len(weights)
    if n <= n_bins:
        return np.arange(n)
    shares = weights / max(weights.sum(), 1e-300)
    up_to = np.cumsum((1 - UNIFORM_SHARE) * shares + UNIFORM_SHARE / n)
    places = np.searchsorted(up_to, up_to[-1] * np.arange(1, n_bins) / n_bins)
    return np.unique(np.append(np.minimum(places, n - 2), n - 1))
