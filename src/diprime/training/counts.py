"""The first release of a fit: how many records there are, and of which classes.

The rules of :mod:`diprime.training.defaults` choose the trees, their depth and their costs from it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout
from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.measures import Epsilon, PureEpsilon
from diprime.privacy.mechanisms.laplace import DISCRETE_LAPLACE, discrete_laplace
from diprime.privacy.randomness import RandomSource


def counts_charge(layout: TargetLayout, epsilon: Epsilon) -> Charge:
    """Return the charge of the counts of a fit's records."""
    kind = "class counts" if layout.task == "classification" else "row count"
    weight = layout.person_weight
    return Charge(kind, DISCRETE_LAPLACE, f"L1 sensitivity {weight}", PureEpsilon(epsilon), calibrated_to=weight)


def release_counts(
    target_counts: npt.NDArray[np.int64], layout: TargetLayout, receipt: Receipt, source: RandomSource
) -> list[int]:
    """Release how many records each class has, or how many have a numeric target.

    One record adds one to one of the counts, and one person the weights of her records. What is returned is in persons,
    each of whom counts in parts for the classes of several records.
    """
    weight = layout.person_weight
    counts = target_counts if layout.task == "classification" else target_counts.sum(keepdims=True)
    released = discrete_laplace(counts[None, :], receipt, weight, source.streams(1))
    return [(int(count) + weight // 2) // weight for count in released[0]]
