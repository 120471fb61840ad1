"""The noise of curves, which follows from the rules of their steps.

To first order, a step changes the error δ of the coefficients of a feature, and its velocity v, to

    v' = m·v + b²·(s - c·M·δ) + b·n,    δ' = δ + r·v',

with momentum m, rate r, lengths b of the basis functions, and their mean products M over the records. Here c is the sum
of the records' Hessians, n is the noise of the released projections, which is new in each step, and s is the sampling
error of the gradients, which is the same in all steps. Features are treated as independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.boosting import defaults

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Epoch:
    """Rules of the steps of an epoch."""

    n_steps: int
    rate: float
    noise: float  # standard deviation of the noise of a projection
    curvature: float  # sum of the Hessians of all records
    scales: Floats  # shape (n_features, n_coefficients): lengths of the basis functions


def noise_factors(epochs: Sequence[Epoch], products: Floats, variance: float) -> Floats:
    """Return matrices L, shape (n_features, n_coefficients, n_coefficients), of which L·Lᵀ is the covariance of δ.

    ``products`` has the same shape: the mean products of the basis functions. ``variance`` is the sum of the squared
    gradients of all records, in one score.
    """
    n_features, n, _ = products.shape
    identity = np.eye(n)
    covariance = np.zeros((n_features, 2 * n, 2 * n))
    response = np.zeros((n_features, 2 * n, n))  # to the sampling error
    for epoch in epochs:
        squares = epoch.scales[:, :, None] ** 2 * identity
        pull = epoch.curvature * squares @ products
        moved, kept = epoch.rate * identity, defaults.MOMENTUM * np.broadcast_to(identity, pull.shape)
        step = np.block([[identity - epoch.rate * pull, epoch.rate * kept], [-pull, kept]])
        inflow = np.concatenate([moved @ squares, squares], axis=1)
        added = np.concatenate([moved @ np.sqrt(squares), np.sqrt(squares)], axis=1) * epoch.noise
        new = added @ added.swapaxes(1, 2)
        power, total, pushed = _repeated(step, new, inflow, epoch.n_steps)
        covariance = power @ covariance @ power.swapaxes(1, 2) + total
        response = power @ response + pushed
    of_sampling = response[:, :n] @ (variance * products) @ response[:, :n].swapaxes(1, 2)
    values, vectors = np.linalg.eigh(covariance[:, :n, :n] + of_sampling)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])


def evidence(values: Sequence[Floats], parts: Sequence[Floats], shares: Sequence[Floats]) -> float:
    """Return how far the curves together are above their noise, in standard deviations of its mean square.

    For each curve: its values (256, n_scores), independent parts of its noise (n_parts, 256), where a single part is
    that of independent categories, and the share of the records with each code.
    """
    excess, variance = 0.0, 0.0
    for of_curve, noise, share in zip(values, parts, shares, strict=True):
        n_scores = of_curve.shape[1]
        covariance = noise * share @ noise.T if len(noise) > 1 else share * noise**2
        excess += float((share @ of_curve**2).sum() - n_scores * (share @ noise.T**2).sum())
        variance += 2 * n_scores * float((covariance**2).sum())
    return excess / math.sqrt(variance) if variance > 0 else math.inf


def _repeated(step: Floats, noise: Floats, inflow: Floats, n: int) -> tuple[Floats, Floats, Floats]:
    """Return the matrix, the noise and the inflow of n steps, by doubling."""
    if n == 1:
        return step, noise, inflow
    power, total, pushed = _repeated(step, noise, inflow, n // 2)
    total, pushed = power @ total @ power.swapaxes(1, 2) + total, power @ pushed + pushed
    power = power @ power
    if n % 2:
        total, pushed = step @ total @ step.swapaxes(1, 2) + noise, step @ pushed + inflow
        power = step @ power
    return power, total, pushed
