"""Estimates from released leaves: post-processing that knows how large the noise is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.model.noise import mean_variance

Floats = npt.NDArray[np.float64]

RISE_VARIANCES, FALL_VARIANCES = 16, 4
"""How many variances of its noise a squared difference has to exceed to be believed; found by measurement.

A rise asks for more, because a weight multiplies it.
"""
TINY = 1e-9  # avoids division by zero counts


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
        counts = np.maximum(leaves.counts.reshape(n_trees, n_nodes, -1).sum(axis=2), TINY)[..., None]
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


def class_means(leaves: LeafSums) -> tuple[Floats, Floats]:
    """Return each leaf's shares of the classes, and those of all records: estimates that may be weighted.

    A weight multiplies the noise of a rare class as it multiplies its records. So each class is estimated by itself,
    from the shares of all records down: its share at a node is that of the parent, moved towards the node's own by
    max(0, 1 - v/d²), where d is their difference. Here v is the variance that sampling gives d, and `RISE_VARIANCES`
    or `FALL_VARIANCES` times the one that noise gives it. Where a class does not stand out, its share stays what it is
    further up, and with balanced weights counts as much as that of any other class.

    The share of a class in all records is at least the standard deviation of its noise.
    """
    n_trees, n_leaves, n_outputs = leaves.sums.shape
    pooled = np.maximum(leaves.sums.sum(axis=(0, 1)), math.sqrt(leaves.noise_variance * n_trees * n_leaves))
    shares = to_simplex(pooled / max(pooled.sum(), TINY))
    means = np.broadcast_to(shares, (n_trees, 1, n_outputs))
    for level in range(n_leaves.bit_length()):
        n_nodes = 2**level
        sums = leaves.sums.reshape(n_trees, n_nodes, -1, n_outputs).sum(axis=2)
        counts = np.maximum(leaves.counts.reshape(n_trees, n_nodes, -1).sum(axis=2), TINY)[..., None]
        parents = np.repeat(means, n_nodes // means.shape[1], axis=1)
        differences = to_simplex(sums / counts) - parents
        noise = mean_variance(leaves.noise_variance * (n_leaves // n_nodes), parents, counts, n_outputs)
        variance = np.where(differences > 0, RISE_VARIANCES, FALL_VARIANCES) * noise + parents * (1 - parents) / counts
        squares = differences**2
        kept = np.divide(squares - variance, squares, out=np.zeros_like(squares), where=squares > variance)
        means = to_simplex(parents + kept * differences)
    return np.asarray(means), shares


def balanced_weights(shares: Floats) -> Floats:
    """Return weights that give all classes with a share the same part of all records."""
    return np.divide(1.0, shares * len(shares), out=np.zeros_like(shares), where=shares > 0)


def weighted(means: Floats, weights: Floats) -> Floats:
    """Return class shares as they would be if every record of a class counted as many times as its weight says."""
    return to_simplex(means * (weights / weights.max()))


def to_simplex(means: Floats) -> Floats:
    """Clip means to probabilities that sum to one; uniform where nothing is left."""
    clipped = np.clip(means, 0, 1)
    total = clipped.sum(axis=-1, keepdims=True)
    uniform = np.full_like(clipped, 1 / clipped.shape[-1])
    return np.asarray(np.divide(clipped, total, out=uniform, where=total > 0))
