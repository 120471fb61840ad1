"""The noise in released leaves, as the ledger tells it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import Epsilon
from diprime.privacy.mechanisms.laplace import laplace_variance

Floats = npt.NDArray[np.float64]

LEAF_SUMS = "leaf sums"  # the kind of charge that pays for the leaves of a forest
ROUND_SUMS = "round sums"  # the kind of charge that pays for the leaves of boosted trees


def charged_noise_variance(ledger: Ledger, layout: TargetLayout) -> float:
    """Return the variance of the noise in the leaf sums that a ledger charged, in units of one record or person.

    A merged ledger does not tell which trees are whose; then it is the largest variance of the merged models.
    """
    if ledger.merged:
        return max(charged_noise_variance(part, layout) for part in ledger.merged)
    epsilon = next(charge.epsilon for charge in ledger.charges if charge.kind == LEAF_SUMS)
    return noise_variance(epsilon, layout.of_persons(ledger.unit_records or 1))


def has_true_counts(ledger: Ledger) -> bool:
    """Return whether leaves were released with noise on their sums alone and true counts, whose cost has no bound."""
    if ledger.merged:
        return any(has_true_counts(part) for part in ledger.merged)
    leaves = next(charge for charge in ledger.charges if charge.kind == LEAF_SUMS)
    return leaves.strict_measure is not None and leaves.strict_measure.cost == math.inf


def noise_variance(epsilon: Epsilon, layout: TargetLayout) -> float:
    """Return the variance of the noise in each leaf sum, in units of one record, or of several that weigh as one."""
    return laplace_variance(epsilon, layout.person_units) / layout.person_units**2


def mean_variance(sum_variance: Floats | float, means: Floats, counts: Floats, n_outputs: int) -> Floats:
    """Return the variance that the noise gives the quotients of sums and counts.

    Numerator and denominator share noise: Var[S̃/ñ] ≈ σ²·((1 - p)² + (C - 1)·p²)/n².
    """
    return np.asarray(sum_variance * ((1 - means) ** 2 + (n_outputs - 1) * means**2) / counts**2)
