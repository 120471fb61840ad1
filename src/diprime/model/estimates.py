"""Post-processing of released sums, which costs no privacy: denoised histograms and leaves, and notes on ranges."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.domain import Domain, Numeric
from diprime.domain.encoding import ClippingRanges, TargetLayout
from diprime.kernels.constants import CELLS, MISSING, N_CODES, OTHER
from diprime.privacy.charges import ReleaseKind
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import Epsilon
from diprime.privacy.mechanisms.laplace import laplace_variance

Floats = npt.NDArray[np.float64]

RISE_VARIANCES, FALL_VARIANCES = 16, 4
"""Number of noise variances that a squared difference must exceed. Class weights multiply rises, which need more."""
TINY = 1e-9  # avoids division by zero counts
_CLEAR = 8.0  # standard deviations from 0 and 1 beyond which shrinkage is negligible
_N_POINTS = 2001  # number of points of the quadrature

PARTS = 20  # number of parts of a range; a note is added if one part contains most values
SHARE = 0.8  # fraction of the values that counts as most
DEVIATIONS = 6  # standard deviations of the noise that a note must exceed
MIN_INFORMATION = 50  # records·epsilon of a quantile above which a clipping range reflects the targets
MAX_NAMES = 10

FEATURES = (
    "Most values of {names} are in one twentieth of their range, by released counts. If these "
    "values differ, declare a narrower range from prior knowledge, or use scale='log'."
)
TARGET = (
    "Most targets are in one twentieth of their range, by released numbers. The noise is "
    "proportional to this range, so declare a narrower one from prior knowledge, or transform the "
    "target."
)

CONSTANT_NOTE = (
    "The released number of records times epsilon is too small to learn from the features, so the model predicts the "
    "same for all rows."
)


def charged_noise_variance(ledger: Ledger, layout: TargetLayout) -> float:
    """Return the variance of the noise in the leaf sums that a ledger charged, in units of one record or person.

    For a merged ledger, which does not identify the trees of each model, return the largest variance of the models.
    """
    if ledger.merged:
        return max(charged_noise_variance(part, layout) for part in ledger.merged)
    epsilon = next(charge.epsilon for charge in ledger.charges if charge.kind is ReleaseKind.LEAF_SUMS)
    return noise_variance(epsilon, layout.of_persons(ledger.max_records_per_group or 1))


def has_true_counts(ledger: Ledger) -> bool:
    """Return whether leaves were released with noisy sums but true counts, which have an unbounded cost."""
    if ledger.merged:
        return any(has_true_counts(part) for part in ledger.merged)
    leaves = next(charge for charge in ledger.charges if charge.kind is ReleaseKind.LEAF_SUMS)
    return leaves.strict_measure is not None and leaves.strict_measure.cost == math.inf


def noise_variance(epsilon: Epsilon, layout: TargetLayout) -> float:
    """Return the variance of the noise in each leaf sum, in units of one record or person."""
    return laplace_variance(epsilon, layout.person_units) / layout.person_units**2


def mean_variance(sum_variance: Floats | float, means: Floats, counts: Floats, n_outputs: int) -> Floats:
    """Return the variance of quotients of sums and counts due to noise.

    Numerator and denominator share noise: Var[S̃/ñ] ≈ σ²·((1 - p)² + (C - 1)·p²)/n².
    """
    return np.asarray(sum_variance * ((1 - means) ** 2 + (n_outputs - 1) * means**2) / counts**2)


def without_noise(counts: Floats, noise: float, total: float) -> Floats:
    """Return the non-negative counts that add up to a total and are nearest to the given counts.

    If the counts that exceed the noise explain the total, all others are zero.

    >>> without_noise(np.array([100.0, 12.0, -9.0, 5.0]), 9.0, 105.0).tolist()
    [105.0, 0.0, 0.0, 0.0]
    >>> without_noise(np.array([100.0, 12.0, -9.0, 5.0]), 1.0, 105.0).tolist()
    [96.0, 8.0, 0.0, 1.0]
    """
    seen = counts > noise * math.sqrt(2 * math.log(2 * len(counts)))
    rest = total - counts[seen].sum()
    if seen.any() and rest <= 2 * noise * math.sqrt(seen.sum() + 1):
        found = np.zeros_like(counts)
        found[seen] = on_simplex(counts[seen], total)
        return found
    return on_simplex(counts, total)


def on_simplex(counts: Floats, total: float) -> Floats:
    """Return counts that add up to a total, by subtracting the same number from all and clipping them at zero."""
    descending = np.sort(counts)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(counts) + 1)
    n_positive = max(int(np.count_nonzero(descending > excess)), 1)
    return np.asarray(np.maximum(counts - excess[n_positive - 1], 0.0)) if total > 0 else np.zeros_like(counts)


def code_counts(weights: Floats, noise: float, n_codes: int, *, is_categorical: bool, total: float) -> Floats:
    """Return denoised counts: smoothed over neighbouring bins, or zero for categories that noise explains."""
    counts = np.zeros(N_CODES)
    if is_categorical:
        codes = [*range(n_codes), OTHER, MISSING]
        counts[codes] = without_noise(weights[codes], noise, total)
        return counts
    missing = float(weights[MISSING])
    if missing > math.sqrt(2) * noise:
        counts[MISSING] = min(missing * (1 - 2 * (noise / missing) ** 2), total)
    if total > counts[MISSING]:
        counts[:n_codes] = smooth_histogram(weights[:n_codes], noise, total - counts[MISSING])
    return counts


def smooth_histogram(counts: Floats, noise: float, total: float | None = None) -> Floats:
    """Return non-negative counts, smoothed where neighbouring codes differ by no more than the noise.

    Counts are added up in a binary tree. From the root down, the deviation of two halves from equal densities is
    multiplied by 1 - 2·variance/deviation², or by zero if this is negative. The estimates add up to the total, if it is
    given.
    """
    n = 1 << (len(counts) - 1).bit_length()
    sums = [np.pad(counts, (0, n - len(counts)))]
    widths = [np.pad(np.ones(len(counts)), (0, n - len(counts)))]
    while len(sums[-1]) > 1:
        sums.append(sums[-1][0::2] + sums[-1][1::2])
        widths.append(widths[-1][0::2] + widths[-1][1::2])
    estimate = np.maximum(sums[-1] if total is None else np.array([total]), 1.0)
    for of_level, width in zip(sums[-2::-1], widths[-2::-1], strict=True):
        estimate = _split_estimate(estimate, of_level, width, noise)
    return np.asarray(estimate[: len(counts)])


def _split_estimate(estimate: Floats, sums: Floats, widths: Floats, noise: float) -> Floats:
    """Return the estimates of the halves of each node of a level."""
    left_width, right_width = widths[0::2], widths[1::2]
    share = left_width / np.maximum(left_width + right_width, 1.0)
    difference = sums[0::2] - share * (sums[0::2] + sums[1::2])
    variance = noise**2 * (left_width * (1 - share) ** 2 + right_width * share**2)
    shrink = np.maximum(0.0, 1 - 2 * variance / np.maximum(difference**2, TINY))
    left = np.clip(share * estimate + shrink * difference, 0.0, estimate)
    halves = np.empty(len(sums))
    halves[0::2], halves[1::2] = left, estimate - left
    return halves


@dataclass(frozen=True)
class LeafSums:
    """Released sums of the leaves, in units of one record or, with groups, of one person.

    ``counts`` are the sums over the outputs, or the exact numbers of records in the paper's accounting of regression.
    """

    sums: Floats  # shape (n_trees, n_leaves, n_outputs): noisy sums of the records' vectors, each scaled to sum 1
    counts: Floats  # shape (n_trees, n_leaves)
    noise_variance: float  # variance of the noise in each entry of the sums
    low: float = 0.0  # clipping range: the target values of (1, 0) and (0, 1), as fractions of the target's range
    high: float = 1.0

    def levels(self) -> Iterator[tuple[Floats, Floats, float]]:
        """Yield the sums, record counts and noise variance of all nodes, level by level."""
        n_trees, n_leaves, n_outputs = self.sums.shape
        for n_nodes in (2**level for level in range(n_leaves.bit_length())):
            sums = self.sums.reshape(n_trees, n_nodes, -1, n_outputs).sum(axis=2)
            counts = np.maximum(self.counts.reshape(n_trees, n_nodes, -1).sum(axis=2), TINY)[..., None]
            yield sums, counts, self.noise_variance * (n_leaves // n_nodes)

    @property
    def total(self) -> Floats:
        """Sums over all leaves of all trees."""
        return np.asarray(self.sums.sum(axis=(0, 1)))

    @property
    def total_noise(self) -> float:
        """Standard deviation of the noise of ``total``."""
        n_trees, n_leaves, _ = self.sums.shape
        return math.sqrt(self.noise_variance * n_trees * n_leaves)


def shrunken_means(leaves: LeafSums, *, of_classes: bool) -> Floats:
    """Return each leaf's mean, shrunk towards the means of the nodes above it.

    The sums and the noise of an inner node are the totals of its leaves. From the mean of all trees down, the estimate
    of a node is its parent's estimate, moved towards the node's own mean by the weight τ²/(τ² + v). Here v is the
    variance of the node's own mean, from the known noise and from sampling, and τ² is the variance of true means around
    their parents' means. τ² is estimated over all nodes of a level of all trees, as the observed variance minus v.

    If ``of_classes`` is set, the variance of a single row is p(1 - p). Numeric targets vary far less, so the variance
    among the nodes of the level is used instead.
    """
    n_trees, _, n_outputs = leaves.sums.shape
    means = np.broadcast_to(shrunken_shares(leaves.total, leaves.total_noise), (n_trees, 1, n_outputs))
    for sums, counts, noise in leaves.levels():
        parents = np.repeat(means, sums.shape[1] // means.shape[1], axis=1)
        own = to_simplex(sums / counts)
        variance = mean_variance(noise, parents, counts, n_outputs)
        row_variance = parents * (1 - parents)
        # Nodes are weighted by their rows, and hardly count if they have none or are dominated by noise: as the number
        # of rows goes to zero, trust falls faster than the variance grows.
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


def shrunken_shares(sums: Floats, noise: float) -> Floats:
    """Return the share of each entry in the total of released sums, shrunk towards equal shares by the known noise.

    The share of an entry is its posterior mean for a uniform prior on [0, 1]: the released share if the noise is small,
    and ½ if the noise dominates. Shares are then scaled to add up to one. ``noise`` is the standard deviation.
    """
    total = max(float(sums.sum()), noise * math.sqrt(len(sums)), TINY)
    return to_simplex(np.array([_posterior_mean(float(s) / total, noise / total) for s in sums]))


def _posterior_mean(share: float, noise: float) -> float:
    """Return the mean of a share in [0, 1], given its released value, for a uniform prior."""
    if _CLEAR * noise <= share <= 1 - _CLEAR * noise:
        return share
    nearest = min(max(share, 0.0), 1.0)
    # If the released share is outside [0, 1], the density decreases from the nearest end on a scale of noise²/distance.
    width = 2 * _CLEAR * noise * min(1.0, noise / max(abs(share - nearest), TINY * noise, TINY))
    points = np.linspace(max(nearest - width, 0.0), min(nearest + width, 1.0), _N_POINTS)
    if width <= 0:
        return nearest
    logs = -(((points - share) / noise) ** 2) / 2
    weights = np.exp(logs - logs.max())
    return float(points @ weights / weights.sum())


def class_means(leaves: LeafSums) -> tuple[Floats, Floats]:
    """Return the class shares of each leaf and of all records, as estimates that class weights may multiply.

    A weight multiplies both the noise and the records of a rare class, so each class is estimated separately. From the
    shares of all records down, the share at a node is the parent's share, moved towards the node's own share by
    max(0, 1 - v/d²), where d is their difference. Here v is the variance of d due to sampling, plus `RISE_VARIANCES` or
    `FALL_VARIANCES` times its variance due to noise. If a class does not stand out, it keeps its share from further up,
    which with balanced weights counts as much as the share of any other class.

    The share of a class in all records is at least the standard deviation of its noise.
    """
    n_trees, _, n_outputs = leaves.sums.shape
    pooled = np.maximum(leaves.total, leaves.total_noise)
    shares = to_simplex(pooled / max(pooled.sum(), TINY))
    means = np.broadcast_to(shares, (n_trees, 1, n_outputs))
    for sums, counts, noise_variance in leaves.levels():
        parents = np.repeat(means, sums.shape[1] // means.shape[1], axis=1)
        differences = to_simplex(sums / counts) - parents
        noise = mean_variance(noise_variance, parents, counts, n_outputs)
        variance = np.where(differences > 0, RISE_VARIANCES, FALL_VARIANCES) * noise + parents * (1 - parents) / counts
        squares = differences**2
        kept = np.divide(squares - variance, squares, out=np.zeros_like(squares), where=squares > variance)
        means = to_simplex(parents + kept * differences)
    return np.asarray(means), shares


def balanced_weights(shares: Floats) -> Floats:
    """Return weights that give all classes with a nonzero share the same total weight."""
    return np.divide(1.0, shares * len(shares), out=np.zeros_like(shares), where=shares > 0)


def weighted(means: Floats, weights: Floats) -> Floats:
    """Return the class shares if every record counted as many times as the weight of its class."""
    return to_simplex(means * (weights / weights.max()))


def to_simplex(means: Floats) -> Floats:
    """Clip means to probabilities that sum to one, or return uniform probabilities if all are clipped to zero."""
    clipped = np.clip(means, 0, 1)
    total = clipped.sum(axis=-1, keepdims=True)
    uniform = np.full_like(clipped, 1 / clipped.shape[-1])
    return np.asarray(np.divide(clipped, total, out=uniform, where=total > 0))


def is_crowded(counts: Floats, noise: float, n_records: float) -> bool:
    """Return whether most records with a value are in one twentieth of the bins, beyond the noise of the counts.

    All numbers are released. ``noise`` is a standard deviation.
    """
    width = len(counts) // PARTS
    most = np.convolve(counts, np.ones(width), mode="valid").max()
    return bool(most - DEVIATIONS * noise * math.sqrt(width) >= SHARE * n_records)


def feature_notes(domain: Domain, counts: Floats, noise: float, n_records: float) -> list[str]:
    """Return a note on features whose range is too wide by the released counts of all codes, if there are any."""
    names = [
        name
        for (name, feature), of_codes in zip(domain.encoded_features.items(), counts, strict=True)
        if isinstance(feature, Numeric)
        and feature.edges is None  # given edges were chosen on purpose
        and is_crowded(of_codes[:CELLS], noise, n_records - of_codes[MISSING])
    ]
    if len(names) > MAX_NAMES:
        names[MAX_NAMES:] = [f"{len(names) - MAX_NAMES} more"]
    return [FEATURES.format(names=", ".join(names))] if names else []


def window_notes(window: ClippingRanges, units: int, epsilon: Epsilon, n_records: float) -> list[str]:
    """Return a note if the released clipping range, of five sevenths of the records, is narrow.

    If fewer than a third of n records were in it, the costs of its quantiles, of range 12, would add up to at least
    8/3·n. At ``MIN_INFORMATION``, each pair of thresholds would have odds of e^-11.
    """
    narrow = PARTS * int(window.high[0] - window.low[0]) <= units
    return [TARGET] if narrow and n_records * float(epsilon) >= MIN_INFORMATION else []
