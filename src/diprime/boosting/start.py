"""The starting scores of all records: released class shares, or the released mean of a numeric target."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.boosting import defaults
from diprime.boosting.budget import DividedBudget, as_share
from diprime.boosting.gradients import RANGE_BITS, SCORE_BITS
from diprime.domain.encoding import TargetLayout
from diprime.model.estimates import shrunken_shares
from diprime.privacy.charges import Receipt
from diprime.privacy.mechanisms.gaussian import rounded_gaussian
from diprime.privacy.randomness import RandomSource

Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Counts:
    """Released class counts, or the released number of records, in records or people."""

    values: Floats
    noise: float  # standard deviation of the noise of each count

    @property
    def total(self) -> float:
        """Released number of records."""
        return float(self.values.sum())

    @property
    def total_noise(self) -> float:
        """Standard deviation of its noise."""
        return self.noise * math.sqrt(len(self.values))

    def with_more(self, values: Floats, noise: float) -> Counts:
        """Return the inverse-variance weighted mean with other releases of the same counts."""
        combined, combined_noise = combine(np.stack([self.values, values]), np.array([self.noise, noise]))
        return Counts(combined, combined_noise)


def combine(numbers: Floats, noises: Floats) -> tuple[Floats, float]:
    """Return the inverse-variance weighted mean of released rows of numbers, and its noise. Exact rows come first."""
    if not noises.all():
        return np.asarray(numbers[0]), 0.0
    weights = 1 / noises**2
    return np.asarray(weights @ numbers / weights.sum()), float(1 / math.sqrt(weights.sum()))


def release_counts(
    target_counts: _Integers, layout: TargetLayout, noise: float, receipt: Receipt, source: RandomSource
) -> Counts:
    """Release the class counts, or the number of records."""
    counts = target_counts if layout.task == "classification" else target_counts.sum(keepdims=True)
    weight = layout.person_weight
    released = rounded_gaussian(counts[None, :], receipt, weight**2, source.streams(1))[0]
    return Counts(released / weight, noise / weight)


def release_start(
    target_counts: _Integers, counts: Counts, layout: TargetLayout, signal: float, budget: DividedBudget
) -> tuple[npt.NDArray[np.int32], Counts]:
    """Release the starting scores more accurately if there is little information, and fully if there is hardly any.

    Return the scores, and all counts together.
    """
    share = budget.left if signal < defaults.CONSTANT else as_share(defaults.start_share(signal))
    if layout.task == "classification":
        if share > as_share(defaults.LEAST_START_SHARE):
            counts = counts.with_more(budget.release(target_counts, 1, share), budget.noise(1, share))
        return class_scores(counts), counts
    if signal < defaults.CONSTANT:
        of_count = as_share(float(share) * defaults.COUNT_OF_CONSTANT)
        total = target_counts.sum(keepdims=True)
        counts = counts.with_more(budget.release(total, 1, of_count), budget.noise(1, of_count))
        share -= of_count
    units = layout.units
    moments = (2 * np.arange(len(target_counts)) - units) @ target_counts  # twice the deviations from the middle
    moment = float(budget.release(np.array([moments]), units**2, share)[0]) / (2 * units)
    noise = budget.noise(units**2, share) / (2 * units)
    return _mean_score(moment, noise, counts), counts


def class_scores(counts: Counts) -> npt.NDArray[np.int32]:
    """Return the scores that predict the class shares of released counts."""
    shares = shrunken_shares(counts.values, counts.noise)
    logs = np.log(np.maximum(shares, 1 / max(counts.total, 1)))
    scores = logs[1:] - logs[0] if len(logs) == 2 else logs - logs.mean()  # noqa: PLR2004 -- one score for two classes
    return np.asarray(np.rint(scores * (1 << SCORE_BITS)).astype(np.int32))


def _mean_score(moment: float, noise: float, counts: Counts) -> npt.NDArray[np.int32]:
    """Return the score of the mean target, shrunk to the middle of the range by the known noise."""
    total = max(counts.total, 2 * counts.total_noise, 1.0)
    kept = max(0.0, 1 - (noise / moment) ** 2) if moment else 0.0
    mean = min(max(0.5 + kept * moment / total, 0.0), 1.0)
    return np.array([round(mean * (1 << RANGE_BITS))], dtype=np.int32)
