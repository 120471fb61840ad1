"""Estimates from released leaves: post-processing that knows how large the noise is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.model.noise import mean_variance

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LeafSums:
    """Released sums of the leaves, in units of one person: a record, or several that weigh as one.

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


def shrunken_means(leaves: LeafSums, *, of_classes: bool) -> Floats:
    """Return each leaf's mean, shrunk towards the means of the nodes above it.

    The sums of an inner node are those of its leaves, and its noise is the sum of theirs. From the mean of all trees
    down, the estimate of a node is its parent's, moved towards its own mean by the weight τ²/(τ² + v). Here v is the
    variance of the node's own mean, from the known noise and from sampling, and τ² is the variance of true means around
    their parents' means. τ² is estimated over all nodes of a level of all trees: the observed variance less v.

    ``of_classes`` says that targets of single rows vary as p(1 - p), as classes do. Numbers vary far less; for them the
    variance among the nodes of the level stands in for the variance of a row.
    """
    n_trees, n_leaves, n_outputs = leaves.sums.shape
    pooled = leaves.sums.sum(axis=(0, 1))
    means = np.broadcast_to(to_simplex(pooled / max(pooled.sum(), 1.0)), (n_trees, 1, n_outputs))
    for level in range(n_leaves.bit_length()):
        n_nodes = 2**level
        sums = leaves.sums.reshape(n_trees, n_nodes, -1, n_outputs).sum(axis=2)
        counts = np.maximum(leaves.counts.reshape(n_trees, n_nodes, -1).sum(axis=2), 1e-9)[..., None]
        noise = leaves.noise_variance * (n_leaves // n_nodes)
        parents = np.repeat(means, n_nodes // means.shape[1], axis=1)
        own = to_simplex(sums / counts)
        variance = mean_variance(noise, parents, counts, n_outputs)
        row_variance = parents * (1 - parents)
        # Nodes count by their rows, and hardly at all where they have none or the noise outweighs them: trust falls
        # faster towards zero rows than the variance grows.
        trust = counts**2 / (counts + 1) * (counts**2 / (counts**2 + noise / np.maximum(row_variance, 1e-6))) ** 2
        if of_classes:
            variance = variance + row_variance / counts
        spread = max(float(np.sum(trust * ((own - parents) ** 2 - variance)) / np.sum(trust)), 0.0)
        if not of_classes:
            variance = variance + spread / counts
        total = spread + variance
        weight = np.divide(spread, total, out=np.zeros_like(total), where=total > 0)
        means = to_simplex(parents + weight.mean(axis=-1, keepdims=True) * (own - parents))
    return means


def to_simplex(means: Floats) -> Floats:
    """Clip means to probabilities that sum to one; uniform where nothing is left."""
    clipped = np.clip(means, 0, 1)
    total = clipped.sum(axis=-1, keepdims=True)
    uniform = np.full_like(clipped, 1 / clipped.shape[-1])
    return np.asarray(np.divide(clipped, total, out=uniform, where=total > 0))
