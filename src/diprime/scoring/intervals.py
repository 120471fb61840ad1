"""Confidence intervals of ratios of released counts, which know of noise and of sampling.

A score is a ratio A/B of sums of cells: right records of all records, squared errors of all records. Both sums carry
noise of a known distribution, and the records are a sample. An interval holds every θ that the test of A - θ·B = 0 does
not reject (Fieller 1954). Where the noise may have made all of B, nothing is rejected, and the interval is the
whole range.

The test compares A - θ·B with its standard deviation. The variance of the noise is known. That of sampling is the sum
over cells of the count times the squared weight, because A - θ·B does not change with the number of records, so that
counts may be taken as independent Poisson variables. The quantile is that of a normal distribution, corrected for the
kurtosis of Laplace noise (Cornish and Fisher 1938).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from diprime.scoring.cells import Cells, Floats

UNIT = (0.0, 1.0)
"""The range of shares."""
PSEUDO_RECORDS = 1.0
"""Made-up records, spread over all cells, in the variance of sampling: a rare cell may be empty by chance."""

LAPLACE_KURTOSIS = 3.0


@dataclass(frozen=True)
class Estimate:
    """An estimate and its confidence interval.

    Attributes
    ----------
    value : float
        The estimate.
    low, high : float
        The interval. It covers the score on all people that the test rows are a sample of.

    Examples
    --------
    >>> print(Estimate(0.81, 0.78, 0.84))
    0.81 (0.78 to 0.84)
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"


@dataclass(frozen=True)
class Sum:
    """A sum of cells, or a function of them: its value, and its derivative by the count of each cell."""

    value: float
    weights: Floats

    @classmethod
    def of(cls, cells: Cells, weights: Floats) -> Sum:
        """Return a weighted sum of the counts."""
        return cls(float(weights @ cells.counts), weights)


@dataclass(frozen=True)
class Moments:
    """Variances and covariance of A and B; those of A - θ·B follow."""

    aa: float
    ab: float
    bb: float

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.aa + other.aa, self.ab + other.ab, self.bb + other.bb)

    def at(self, theta: float) -> float:
        """Return the variance of A - θ·B."""
        return self.aa - 2 * theta * self.ab + theta * theta * self.bb


def normal_quantile(confidence: float) -> float:
    """Return the quantile of the normal distribution that a two-sided interval needs."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def corrected_quantile(confidence: float, variance: float, fourth: float) -> float:
    """Return the quantile of a sum with this variance and this fourth cumulant, in standard deviations."""
    z = normal_quantile(confidence)
    return z + (z**3 - 3 * z) / 24 * min(fourth / variance**2, LAPLACE_KURTOSIS) if variance > 0 else z


def total(cells: Cells, confidence: float) -> Estimate:
    """Return the sum of all counts, with an interval for its noise alone."""
    spread = cells.spread(np.ones(len(cells.counts)))
    variance = float(spread @ spread)
    fourth = float((spread**4).sum()) * cells.kurtosis
    reach = corrected_quantile(confidence, variance, fourth) * math.sqrt(variance)
    n = max(float(cells.counts.sum()), 0.0)
    return Estimate(n, max(n - reach, 0.0), n + reach)


def ratio(
    cells: Cells, a: Sum, b: Sum, confidence: float, bounds: tuple[float, float] = UNIT, *, is_share: bool = False
) -> Estimate:
    """Estimate A/B.

    Parameters
    ----------
    cells : Cells
        The released counts.
    a, b : Sum
        The sums.
    confidence : float
        The probability that the interval covers the true ratio.
    bounds : pair of float
        The smallest and the largest ratio that there can be.
    is_share : bool
        Whether A counts some of the records that B counts. Then the variance of sampling is that of a binomial
        distribution with the share that is tested (Wilson 1927), which is right for shares near 0 and 1 as well.
    """
    spread_a, spread_b = cells.spread(a.weights), cells.spread(b.weights)
    noise = Moments(float(spread_a @ spread_a), float(spread_a @ spread_b), float(spread_b @ spread_b))
    if is_share:
        n = max(b.value, 1.0)
        sampling = Moments(0.0, -n / 2, -n)
    else:
        sampling = sampling_moments(cells, a.weights, b.weights)
    fourth = float(np.sum((spread_a - _middle(a, b, bounds) * spread_b) ** 4)) * cells.kurtosis
    return fieller(a.value, b.value, noise, sampling, fourth, confidence, bounds)


def sampling_moments(cells: Cells, a: Floats, b: Floats) -> Moments:
    """Return the variances and the covariance of two sums of Poisson counts."""
    counts = np.maximum(cells.counts, 0.0) + PSEUDO_RECORDS / len(a)
    return Moments(float(counts @ (a * a)), float(counts @ (a * b)), float(counts @ (b * b)))


def _middle(a: Sum, b: Sum, bounds: tuple[float, float]) -> float:
    """Return A/B within its bounds, or the nearest to zero of them if there is no B."""
    theta = a.value / b.value if b.value > 0 else 0.0
    return min(max(theta, bounds[0]), bounds[1])


def fieller(
    a: float,
    b: float,
    noise: Moments,
    sampling: Moments,
    fourth: float,
    confidence: float,
    bounds: tuple[float, float],
) -> Estimate:
    """Return A/B with the interval of all θ for which A - θ·B may be zero.

    Parameters
    ----------
    a, b : float
        The sums.
    noise, sampling : Moments
        What noise and sampling add to their variances.
    fourth : float
        The fourth cumulant of the noise of A - θ·B.
    confidence : float
        The probability that the interval covers the true ratio.
    bounds : pair of float
        The smallest and the largest ratio that there can be.
    """
    low, high = bounds
    no_idea = (low + high) / 2 if math.isfinite(high) else 1.0
    theta = min(max(a / b, low), high) if b > 0 else no_idea
    both = noise + sampling
    quantile = corrected_quantile(confidence, both.at(theta), fourth)
    squared = quantile**2
    leading = b * b - squared * both.bb
    if b <= quantile * math.sqrt(noise.bb) or b <= 0 or leading <= 0:
        return Estimate(theta, low, high)
    middle = a * b - squared * both.ab
    root = math.sqrt(max(middle * middle - leading * (a * a - squared * both.aa), 0.0))
    # Where noise has put the estimate out of bounds, the interval moves with it: what is left would be too narrow.
    shift = theta - a / b
    left, right = (middle - root) / leading + shift, (middle + root) / leading + shift
    return Estimate(theta, max(min(left, theta), low), min(max(right, theta), high))


def between(lower: Estimate, value: float, upper: Estimate) -> Estimate:
    """Return an estimate whose interval goes from the lower end of one to the upper end of another."""
    return Estimate(min(max(value, lower.low), upper.high), lower.low, upper.high)


def mean_of_independent(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of independent estimates: the squares of the sides of their intervals add up (Zou 2008)."""
    n = len(estimates)
    value = math.fsum(e.value for e in estimates) / n
    below = math.sqrt(math.fsum((e.value - e.low) ** 2 for e in estimates)) / n
    above = math.sqrt(math.fsum((e.high - e.value) ** 2 for e in estimates)) / n
    return Estimate(value, value - below, value + above)
