"""The effects of a boosted model in the units of its features: what plots and reports draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain import MISSING, OTHER, Categorical, Domain, Numeric
from diprime.model.additive import AdditiveForest
from diprime.model.effects import deviation
from diprime.model.explanation import targets_of
from diprime.model.terms import Term
from diprime.model.tree_view import code_name, shortened, threshold_texts
from diprime.model.trees import Codes, Floats

ASIDE = 0.06
"""The width of the cells aside of a numeric axis, for missing values, as a share of its length."""

_Integers = npt.NDArray[np.int64]
_LARGEST = math.ldexp(1.0, 1000)  # so that drawings can go a little further


@dataclass(frozen=True, eq=False)
class Axis:
    """A feature of a shape, divided into groups: intervals of numbers, or levels, and then unlisted and missing values.

    Attributes
    ----------
    name : str
        The feature.
    labels : list of str
        The name of each group.
    n_regular : int
        The number of intervals or levels; after them come the groups of values aside.
    edges : array of shape (n_regular + 1,) or None
        The ends of the intervals. None if the feature is categorical.
    is_logarithmic : bool
        Whether the range of the feature is best drawn on a logarithmic scale.
    weights : array of shape (n_groups,)
        The released number of records of each group, at least zero.
    codes : array of shape (n_groups,)
        A code of each group.
    """

    name: str
    labels: list[str]
    n_regular: int
    edges: Floats | None
    is_logarithmic: bool
    weights: Floats
    codes: _Integers

    @property
    def positions(self) -> Floats:
        """Where the groups begin and end on a drawing: at their numbers, or one after the other."""
        n_aside = len(self.labels) - self.n_regular
        if self.edges is None:
            return np.arange(len(self.labels) + 1.0)
        ends = np.log(self.edges) if self.is_logarithmic else self.edges
        aside = ends[-1] + ASIDE * (ends[-1] - ends[0]) * np.arange(1, n_aside + 1)
        return np.concatenate([self.edges, np.exp(aside) if self.is_logarithmic else aside])


@dataclass(frozen=True, eq=False)
class Shape:
    """A main effect or an interaction.

    Attributes
    ----------
    axes : tuple of one or two Axis
        The features.
    values : array of shape (n_groups, [n_groups,] n_scores)
        What the effect adds to the scores.
    targets : tuple
        What the scores are about: classes, or None for a numeric target.
    """

    axes: tuple[Axis, ...]
    values: Floats
    targets: tuple[Any, ...]


def shape_of(model: Any, features: tuple[int, ...]) -> Shape:
    """Return an effect of a fitted boosted model; it is zero everywhere if the model does not have it.

    Parameters
    ----------
    model : DiPriMeBoostingClassifier or DiPriMeBoostingRegressor
        The fitted model.
    features : tuple of one or two int
        The features, in ascending order.
    """
    forest: AdditiveForest = model.forest_
    term = next((term for term in forest.effects.terms if term.features == features), None)
    if term is None:
        whole = np.zeros(MISSING + 1, dtype=np.uint8)
        flat = np.zeros((*(1 for _ in features), len(forest.offset)))
        term = Term(features, tuple(whole for _ in features), flat)
    axes = tuple(
        _axis(model.domain_, j, segments, forest.code_weights[j])
        for j, segments in zip(features, term.segments, strict=True)
    )
    cells = np.ix_(*(segments[axis.codes] for segments, axis in zip(term.segments, axes, strict=True)))
    return Shape(axes, np.asarray(term.table[cells]), targets_of(model))


def largest_effects(forest: AdditiveForest, n_features: int) -> list[tuple[int, ...]]:
    """Return the features of the effects of ``n_features`` features, by decreasing standard deviation."""
    terms = [term for term in forest.effects.terms if len(term.features) == n_features]
    return [term.features for term in sorted(terms, key=lambda term: -deviation(term, forest.code_weights))]


def _axis(domain: Domain, j: int, segments: Codes, code_weights: Floats) -> Axis:
    name, feature = domain.names[j], domain.features[domain.names[j]]
    weights = np.maximum(code_weights, 0.0)
    if isinstance(feature, Categorical):
        codes = np.array([*range(feature.n_codes), OTHER, MISSING])
        labels = [code_name(feature.levels, code) for code in codes.tolist()]
        return Axis(shortened(name), labels, feature.n_codes, None, False, weights[codes], codes)
    firsts = np.flatnonzero(np.diff(segments[: feature.n_cells].astype(int), prepend=-1))
    codes = np.append(firsts, MISSING)
    low, high = _drawn_range(feature)
    edges = np.array([low, *feature.thresholds[firsts[1:] - 1].tolist(), high])
    of_intervals = np.add.reduceat(weights[: feature.n_cells], firsts)
    return Axis(
        shortened(name),
        [*_interval_labels(feature, firsts.tolist()), "missing"],
        len(firsts),
        np.maximum.accumulate(edges),
        feature.scale == "log" and low > 0,
        np.append(of_intervals, weights[MISSING]),
        codes,
    )


def _drawn_range(feature: Numeric) -> tuple[float, float]:
    """Return a range that has all thresholds of a feature inside; a feature with edges may have no range."""
    first, last = float(feature.thresholds[0]), float(feature.thresholds[-1])
    margin = (last - first) / len(feature.thresholds) or 1.0
    low = feature.low if feature.low is not None and feature.low < first else first - margin
    high = feature.high if feature.high is not None and feature.high > last else last + margin
    return max(low, -_LARGEST), min(high, _LARGEST)


def _interval_labels(feature: Numeric, firsts: list[int]) -> list[str]:
    """Return the names of intervals of cells, given the first cell of each."""
    limits = [threshold_texts(feature)[first - 1] for first in firsts[1:]]
    if not limits:
        return ["all"]
    between = [f"{a} to {b}" for a, b in pairwise(limits)]
    return [f"below {limits[0]}", *between, f"from {limits[-1]}"]
