"""Leaves: one noisy release of their sums. Everything after it is post-processing (estimates.py)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout, Windows
from diprime.model.noise import LEAF_SUMS, noise_variance
from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.measures import Epsilon, PureEpsilon
from diprime.privacy.mechanisms.laplace import DISCRETE_LAPLACE, discrete_laplace
from diprime.privacy.randomness import RandomSource
from diprime.training.estimates import LeafSums
from diprime.training.policy import AccountingPolicy


def leaf_charge(
    layout: TargetLayout, epsilon: Epsilon, times: int, composition: str, policy: AccountingPolicy
) -> Charge:
    """Return the charge of the leaves of a forest."""
    bound, true_cost = policy.leaf_bound(layout)
    measure = PureEpsilon(epsilon)
    return Charge(
        LEAF_SUMS,
        DISCRETE_LAPLACE,
        bound,
        measure,
        times,
        composition,
        strict_measure=true_cost,
        calibrated_to=layout.person_units,
    )


def release_leaves(
    sums: npt.NDArray[np.int64],
    layout: TargetLayout,
    window: Windows,
    receipt: Receipt,
    policy: AccountingPolicy,
    source: RandomSource,
) -> LeafSums:
    """Release the sums of all leaves of all trees.

    One record is in one leaf of a tree, and changes its vector by exactly ``layout.units`` in L1 norm, times its
    weight: one person changes all leaves of a tree by ``layout.person_units``, so they are epsilon-DP together. A
    record is in as many trees as the charge counts.

    Parameters
    ----------
    sums : array of shape (n_trees, n_leaves, n_outputs)
        The true sums.
    layout : TargetLayout
        What the sums are of.
    window : Windows
        The one part of a numeric target's range that they were formed in.
    receipt : Receipt
        The receipt of the release.
    policy : AccountingPolicy
        What is released of the sums.
    source : RandomSource
        The random bits.

    Returns
    -------
    leaves : LeafSums
        The released sums, in units of one person, whose records weigh as one.
    """
    n_trees, n_leaves, n_outputs = sums.shape
    streams = source.streams(n_trees * n_leaves)
    times = receipt.charge.times
    units = layout.person_units
    noisy = discrete_laplace(sums.reshape(-1, n_outputs), receipt, units, streams, times).reshape(sums.shape)
    scaled = policy.released_leaves(sums, noisy, layout) / units
    low, high = window.low[0] / layout.units, window.high[0] / layout.units
    return LeafSums(scaled, scaled.sum(axis=-1), noise_variance(receipt.charge.epsilon, layout), low, high)
