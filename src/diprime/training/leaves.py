"""Leaves: one noisy release of their sums, then estimates that know how large the noise is.

Only :func:`release` touches private numbers. Everything after it is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout, Windows
from diprime.model.noise import LEAF_SUMS, _noise_variance, mean_variance
from diprime.privacy.ledger import Charge, Ledger
from diprime.privacy.measures import Epsilon
from diprime.privacy.mechanisms.laplace import discrete_laplace
from diprime.privacy.randomness import RandomSource

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LeafSums:
    """Released sums of the leaves, in units of one record.

    Attributes
    ----------
    sums : array of shape (n_trees, n_leaves, n_outputs)
        Noisy sums of the records' vectors, each scaled to sum 1.
    counts : array of shape (n_trees, n_leaves)
        Numbers of records: the sums over the outputs, or exact ones in the paper's accounting of regression.
    noise_variance : float
        The variance of the noise in each entry of ``sums``.
    low, high : float
        The shares of a numeric target's range that the entries (1, 0) and (0, 1) stand for.
    """

    sums: Floats
    counts: Floats
    noise_variance: float
    low: float = 0.0
    high: float = 1.0


def charge_leaves(
    ledger: Ledger, layout: TargetLayout, epsilon: Epsilon, composition: str, times: int, *, exact_counts: bool
) -> None:
    """Charge the leaves of a forest; nothing bounds the cost of exact counts."""
    bound = f"L1 sensitivity {layout.units}" + (", true counts released beside the sums" if exact_counts else "")
    strict = math.inf if exact_counts else None
    ledger.charge(Charge(LEAF_SUMS, "discrete Laplace", bound, epsilon, times, composition, strict_epsilon=strict))


def release(
    sums: npt.NDArray[np.int64],
    layout: TargetLayout,
    window: Windows,
    epsilon: Epsilon,
    source: RandomSource,
    *,
    exact_counts: bool,
) -> LeafSums:
    """Release the sums of all leaves of trees, which :func:`charge_leaves` has paid for.

    One record is in one leaf of a tree, and changes its vector by exactly ``layout.units`` in L1 norm, so all leaves of
    the tree together are epsilon-DP. ``exact_counts`` is the paper's leaf for regression, noise on the sum alone and
    the true count beside it, and not private.

    Parameters
    ----------
    sums : array of shape (n_trees, n_leaves, n_outputs)
        The true sums.
    window : Windows
        The one part of a numeric target's range that they were formed in.
    """
    n_trees, n_leaves, n_outputs = sums.shape
    streams = source.streams(n_trees * n_leaves)
    noisy = discrete_laplace(sums.reshape(-1, n_outputs), epsilon, layout.units, streams).reshape(sums.shape)
    if exact_counts:
        noisy[..., 0] = sums.sum(axis=-1) - noisy[..., 1]
    scaled = noisy / layout.units
    low, high = window.low[0] / layout.units, window.high[0] / layout.units
    return LeafSums(scaled, scaled.sum(axis=-1), _noise_variance(epsilon, layout), low, high)


def plain_means(leaves: LeafSums) -> Floats:
    """Return each leaf's mean as the paper has it: noisy sums over counts, clamped; uniform where nothing is left."""
    counts = leaves.counts[..., None]
    return _to_simplex(np.divide(leaves.sums, counts, out=np.zeros_like(leaves.sums), where=counts > 0))


def shrunken_means(leaves: LeafSums, *, of_classes: bool) -> Floats:
    """Return each leaf's mean, shrunk along its path by what the noise has left of it.

    The sums of an inner node are those of its leaves, with as many times their noise. From the mean of all trees down,
    a node's estimate is its parent's, moved towards its own mean by the weight τ²/(τ² + v): v is the variance of its
    own mean, from the known noise and from sampling, and τ² the spread of true means around their parents. That
    spread is estimated over all nodes of a level of all trees: what is left of the observed one when v is taken off.

    ``of_classes`` says that the targets of single rows vary as p(1 - p), as classes do. Numbers vary far less; for
    them the spread among the nodes of the level stands in for the variance of a row.
    """
    n_trees, n_leaves, n_outputs = leaves.sums.shape
    pooled = leaves.sums.sum(axis=(0, 1))
    means = np.broadcast_to(_to_simplex(pooled / max(pooled.sum(), 1.0)), (n_trees, 1, n_outputs))
    for level in range(n_leaves.bit_length()):
        n_nodes = 2**level
        sums = leaves.sums.reshape(n_trees, n_nodes, -1, n_outputs).sum(axis=2)
        counts = np.maximum(leaves.counts.reshape(n_trees, n_nodes, -1).sum(axis=2), 1e-9)[..., None]
        noise = leaves.noise_variance * (n_leaves // n_nodes)
        parents = np.repeat(means, n_nodes // means.shape[1], axis=1)
        own = _to_simplex(sums / counts)
        variance = mean_variance(noise, parents, counts, n_outputs)
        row_variance = parents * (1 - parents)
        # Nodes count by their rows, and hardly at all where they have none or the noise outweighs them: the trust in a
        # node falls faster towards zero rows than its variance grows.
        trust = counts**2 / (counts + 1) * (counts**2 / (counts**2 + noise / np.maximum(row_variance, 1e-6))) ** 2
        if of_classes:
            variance = variance + row_variance / counts
        spread = max(float(np.sum(trust * ((own - parents) ** 2 - variance)) / np.sum(trust)), 0.0)
        if not of_classes:
            variance = variance + spread / counts
        total = spread + variance
        weight = np.divide(spread, total, out=np.zeros_like(total), where=total > 0)
        means = _to_simplex(parents + weight.mean(axis=-1, keepdims=True) * (own - parents))
    return means


def _to_simplex(means: Floats) -> Floats:
    clipped = np.clip(means, 0, 1)
    total = clipped.sum(axis=-1, keepdims=True)
    uniform = np.full_like(clipped, 1 / clipped.shape[-1])
    return np.asarray(np.divide(clipped, total, out=uniform, where=total > 0))
