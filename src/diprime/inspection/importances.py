"""Importances: the share of each feature in the variance of predictions, net of noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain import Domain
from diprime.inspection.words import share_text
from diprime.model.additive import AdditiveForest
from diprime.model.effects import Term, first_codes
from diprime.model.estimates import charged_noise_variance, has_true_counts, mean_variance
from diprime.model.trees import Floats, Forest

ERROR_RATE = 0.01
"""Fraction of models of data without any signal that have a feature above the noise."""
DOUBTFUL = 4.0
"""Standard deviations of noise that the record count of a category must exceed to count in interactions."""
NOTHING_ABOVE_NOISE = "No feature is above the noise."

_Flags = npt.NDArray[np.bool_]
_TINY = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Importances:
    """Shares of the features in the variance of the predictions, net of noise.

    For a boosted model, this is the variance of the scores; for a forest, it is the variance of the leaf estimates. The
    rest of the variance is noise from sampling and from the mechanisms. The latter is known exactly.

    Attributes
    ----------
    names : tuple of str
        Names of the features.
    shares : ndarray of shape (n_features,)
        Share of the variance that is due to each feature, minus the share that noise is expected to add; at least zero.
        For boosted models, these shares and the share of noise sum to about one.
    errors : ndarray of shape (n_features,)
        Standard deviation of each share. In a forest, if a feature is not above the noise, its share is added to the
        standard deviation, because it may be due to the selection of splits.
    above_noise : ndarray of bool of shape (n_features,)
        Whether noise alone cannot explain the share of the feature. In data without any signal, about one model in a
        hundred has such a feature.

    Examples
    --------
    >>> import numpy as np
    >>> importances = Importances(
    ...     ("age", "shoe"), np.array([0.6, 0.02]), np.array([0.04, 0.03]), np.array([True, False])
    ... )
    >>> print(importances)
    age   60.0 % ± 4.0 %
    shoe   2.0 % ± 3.0 %  not above noise
    >>> importances.normalized.tolist()
    [1.0, 0.0]
    """

    names: tuple[str, ...]
    shares: Floats
    errors: Floats
    above_noise: _Flags

    def __repr__(self) -> str:
        return f"<Importances of {len(self.names)} features, {int(self.above_noise.sum())} of them above the noise>"

    def __str__(self) -> str:
        width = max(map(len, self.names), default=0)
        lines = [f"{self.names[j]:{width}}  {self.text(j, ' >6')}" for j in self.order]
        return "\n".join(lines if self.above_noise.any() else [*lines, NOTHING_ABOVE_NOISE])

    @property
    def order(self) -> list[int]:
        """Indices of the features: first those above the noise, by decreasing share, then the others."""
        return list(np.lexsort((-self.shares, ~self.above_noise)).tolist())

    @property
    def normalized(self) -> Floats:
        """Shares of the features above the noise, divided by their sum, and zero for all others."""
        kept = np.where(self.above_noise, self.shares, 0.0)
        total = kept.sum()
        return np.asarray(kept / total if total > 0 else kept)

    def text(self, j: int, layout: str = "") -> str:
        """Return the share of a feature and its error, with a mark if it is not above the noise, as text."""
        mark = "" if self.above_noise[j] else "  not above noise"
        return f"{share_text(self.shares[j]):{layout}} ± {share_text(self.errors[j])}{mark}"

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the importances as columns, for example for a data frame."""
        return {"feature": list(self.names)} | {
            name: getattr(self, name).tolist() for name in ("shares", "errors", "above_noise")
        }


def importances_of(model: Any) -> Importances:
    """Return the importances of a fitted forest or boosted model."""
    forest = model.forest_
    if isinstance(forest, AdditiveForest):
        return additive_importances(forest, tuple(model.domain_.encoded_feature_names))
    return forest_importances(forest, model.domain_, SplitNoise.of(model))


# -- boosted models ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TermVariance:
    """Variance of an effect over the records."""

    total: float  # variance including noise
    noise: float  # part that noise is expected to add
    error: float  # standard deviation of the total
    chance: float  # probability that noise alone is at least as large as the total


def term_variances(forest: AdditiveForest) -> list[TermVariance]:
    """Return the variance of each effect of a boosted model."""
    shares = forest.code_shares
    # At a category without records, the model lacks the main effects of other features. This is not an interaction.
    doubtful = forest.is_categorical[:, None] & (forest.code_counts < DOUBTFUL * forest.code_noise)
    of_pairs = np.where(doubtful, 0.0, shares)
    return [
        _variance_of(term, forest, [(of_pairs if len(term.features) > 1 else shares)[j] for j in term.features])
        for term in forest.effects.terms
    ]


def _variance_of(term: Term, forest: AdditiveForest, shares: Sequence[Floats]) -> TermVariance:
    noise = forest.noise.at(term.features, tuple(first_codes(segments) for segments in term.segments))
    weights = np.ones(())
    for segments, of_codes in zip(term.segments, shares, strict=True):
        weights = np.multiply.outer(weights, np.bincount(segments, of_codes))
    weights = weights[..., None] / term.table.shape[-1]
    table, noise = _centred(term.table), _centred(noise)
    unit = 2.0 ** math.frexp(max(np.abs(table).max(), np.abs(noise).max()))[1]  # without it, sixth powers may overflow
    table, noise = table / unit, noise / unit
    total = float((weights * table**2).sum())
    scaled = (np.sqrt(weights) * noise).reshape(len(noise), -1)
    crossed = scaled @ (np.sqrt(weights) * table).ravel()
    gram = scaled @ scaled.T / len(noise)
    moments = float(np.trace(gram)), 2 * float((gram**2).sum()), 8 * float(((gram @ gram) * gram).sum())
    error, chance = math.sqrt(4 * float((crossed**2).mean()) + moments[1]), _chance(total, *moments)
    total, expected, error = (unit**2 * value for value in (total, moments[0], error))
    return TermVariance(total, expected, error, chance)


def _centred(values: Floats) -> Floats:
    """Return values minus their mean over several scores, because adding the same value to all changes nothing."""
    return values - values.mean(axis=-1, keepdims=True) if values.shape[-1] > 1 else values


def _chance(value: float, *cumulants: float) -> float:
    """Return the probability that a sum of squares of normal noise, given by three cumulants, exceeds a value.

    This is the approximation of Hall, Buckley and Eagleson by a χ² distribution with the same cumulants, whose cube
    root is approximately normal (Wilson and Hilferty).
    """
    mean, variance, third = cumulants
    if not mean > _TINY**2:
        return float(value <= mean)
    variance, third = variance / mean**2, third / mean**3
    df = 8 * variance**3 / third**2
    ratio = max((value / mean - 1) * math.sqrt(2 / (df * variance)) + 1, 0.0)
    deviations = (ratio ** (1 / 3) - 1 + 2 / (9 * df)) / math.sqrt(2 / (9 * df))
    return math.erfc(deviations / math.sqrt(2)) / 2


def terms_above_noise(variances: Sequence[TermVariance]) -> _Flags:
    """Return which effects are above the noise, with a Bonferroni correction for their number."""
    return np.array([variance.chance <= ERROR_RATE / len(variances) for variance in variances], dtype=np.bool_)


def additive_importances(forest: AdditiveForest, names: tuple[str, ...]) -> Importances:
    """Return the importances of a boosted model. An interaction counts half for each of its features."""
    variances = term_variances(forest)
    flags = terms_above_noise(variances)
    nets, errors, above = np.zeros(len(names)), np.zeros(len(names)), np.zeros(len(names), dtype=np.bool_)
    for term, variance, flag in zip(forest.effects.terms, variances, flags, strict=True):
        features = list(term.features)
        nets[features] += (variance.total - variance.noise) / len(features)
        errors[features] = np.hypot(errors[features], variance.error / len(features))
        above[features] |= flag
    total = max(sum(variance.total for variance in variances), _TINY**2)
    return Importances(names, np.maximum(nets, 0.0) / total, errors / total, above & (nets > 2 * errors))


# -- forests -----------------------------------------------------------------------------------------------------------


class _Nodes:
    """Nodes of a level of trees of equal depth: record counts, and sums and means of estimates."""

    def __init__(self, counts: Floats, sums: Floats, n_leaves: int) -> None:
        self.counts, self.sums, self.n_leaves = counts, sums, n_leaves
        self.means = sums / np.maximum(counts, _TINY)

    def parents(self) -> _Nodes:
        """Return the nodes of the previous level."""
        counts, sums = (a.reshape(-1, 2, a.shape[1]).sum(axis=1) for a in (self.counts, self.sums))
        return _Nodes(counts, sums, 2 * self.n_leaves)


def forest_importances(forest: Forest, domain: Domain, rule: SplitNoise) -> Importances:
    """Return the importances of a forest: the sums of squares between the children of each split, net of noise."""
    names, total = tuple(domain.encoded_feature_names), _TINY**2
    nets, errors, above = np.zeros(len(names)), np.zeros(len(names)), np.zeros(len(names), dtype=np.bool_)
    n_codes = domain.n_codes
    looks = math.log(max(len(forest.features), 1) * n_codes.sum() * forest.values.shape[1] / ERROR_RATE)
    scheffe = np.where(domain.is_categorical, np.sqrt(n_codes + 1.0), 0.0)
    for depth in np.unique(forest.depths).tolist():
        trees = np.flatnonzero(forest.depths == depth)
        leaves = (forest.first_leaves[trees, None] + np.arange(1 << depth)).ravel()
        counts = np.maximum(forest.counts[leaves], 0.0)[:, None]
        nodes = _Nodes(counts, forest.values[leaves] * counts, 1)
        for level in range(depth - 1, -1, -1):
            splits = forest.first_splits[trees, None] + np.arange((1 << level) - 1, (2 << level) - 1)
            features = forest.features[splits.ravel()]
            gains, noises, ratios, shares = rule.compare(nodes)
            total += float(gains.sum())
            net = np.maximum(gains - noises, 0.0)
            np.add.at(nets, features, net)
            np.add.at(errors, features, np.where(net > 0, 4 * gains * noises + 2 * noises**2, 0.0))
            tails = looks * np.sqrt(shares / nodes.n_leaves)  # for Laplace noise, by Bernstein's inequality
            needed = math.sqrt(2 * looks) + scheffe[features] + tails
            np.logical_or.at(above, features, (ratios > needed**2) & (net > 0))
            nodes = nodes.parents()
    # Splits are chosen because their children differ, so a gain that is not above the noise may be due to selection.
    errors = np.sqrt(errors) + np.where(above, 0.0, nets)
    return Importances(names, nets / total, errors / total, above)


@dataclass(frozen=True)
class SplitNoise:
    """Noise in the differences between the children of splits."""

    sum_variance: float  # variance of the noise in each sum of a leaf, in records
    low: float  # range of the estimates
    high: float
    n_sums: int  # number of sums of a leaf
    has_true_counts: bool  # whether the record counts have no noise
    of_classes: bool  # whether estimates are class shares

    @classmethod
    def of(cls, model: Any) -> SplitNoise:
        """Return the noise of the leaves of a fitted forest."""
        domain, ledger = model.domain_, model.privacy_
        variance, n_sums = charged_noise_variance(ledger, domain.layout), domain.layout.n_outputs
        low, high = domain.output_range
        return cls(variance, low, high, n_sums, has_true_counts(ledger), domain.task == "classification")

    def noise_variances(self, nodes: _Nodes) -> Floats:
        """Return the variance of the means of nodes due to noise, by output. It is huge for nodes without records."""
        of_sums, scale = self.sum_variance * nodes.n_leaves, self.high - self.low
        counts = np.maximum(nodes.counts, _TINY)
        if self.has_true_counts:
            return np.asarray(np.broadcast_to(of_sums / counts**2 * scale**2, nodes.means.shape))
        return mean_variance(of_sums, (nodes.means - self.low) / scale, counts, self.n_sums) * scale**2

    def compare(self, nodes: _Nodes) -> tuple[Floats, Floats, Floats, Floats]:
        """Return four numbers for each pair of siblings, which compare the gain of their split with the noise.

        These are the sum of squares between the siblings, its expected increase by noise, the largest squared
        difference of an output in units of its variance, and the mechanism's share of this variance. The variance of
        single targets is p(1 - p) for classes. For numeric targets it is not released, but is at most
        (mean - low)·(high - mean). Differences are compared with this bound, and nothing is subtracted for it.
        """
        left, right = nodes.counts[::2], nodes.counts[1::2]
        both = np.maximum(left + right, _TINY)
        factor = left * right / both
        pooled = (nodes.sums[::2] + nodes.sums[1::2]) / both
        squares = (nodes.means[::2] - nodes.means[1::2]) ** 2
        noise = self.noise_variances(nodes)
        noise = noise[::2] + noise[1::2]
        sampling = (pooled - self.low) * (self.high - pooled) / np.maximum(factor, _TINY)
        expected = noise + sampling if self.of_classes else noise
        ratios = squares / np.maximum(noise + sampling, _TINY)
        best = ratios.argmax(axis=1)[:, None]
        shares = np.take_along_axis(noise / np.maximum(noise + sampling, _TINY), best, axis=1)[:, 0]
        of_pair = [(factor * part).sum(axis=1) for part in (squares, expected)]
        return of_pair[0], of_pair[1], np.where(factor[:, 0] > 0, ratios.max(axis=1), 0.0), shares
