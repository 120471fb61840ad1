"""The effects of a boosted model in the units of its features: what plots and reports draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain import MISSING, OTHER, Categorical, Date, Domain, Integer, Numeric
from diprime.domain.dates import DatePart
from diprime.domain.kinds import Ordered
from diprime.domain.moments import DAY
from diprime.model.additive import AdditiveForest
from diprime.model.effects import deviation
from diprime.model.explanation import targets_of
from diprime.model.feature_words import code_name, interval_names, moment_text, shortened
from diprime.model.terms import Term
from diprime.model.trees import Codes, Floats

ASIDE = 0.06
"""The width of the cells aside of a numeric axis, for missing values, as a share of its length."""

N_INTERVALS_OF_DATES = 4
"""How many intervals the ticks of an axis of dates make."""

_Integers = npt.NDArray[np.int64]
_HALF = 0.5  # a whole number is drawn in the middle of its cell
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
        The ends of the intervals: numbers, days since 1970 for dates, and halves beside whole numbers and the parts of
        dates. None if the feature is categorical.
    ticks : list of (float, str)
        Places on the axis and their names; the first and the last are the ends of the range. Empty if the feature is
        categorical. More than these two are all that should be drawn.
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
    ticks: list[tuple[float, str]]
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
    name, feature = domain.names[j], domain.coded[domain.names[j]]
    weights = np.maximum(code_weights, 0.0)
    if isinstance(feature, Categorical):
        codes = np.array([*range(feature.n_codes), OTHER, MISSING])
        labels = [code_name(feature.levels, code) for code in codes.tolist()]
        return Axis(shortened(name), labels, feature.n_codes, None, [], False, weights[codes], codes)
    firsts = np.flatnonzero(np.diff(segments[: feature.n_cells].astype(int), prepend=-1))
    codes = np.append(firsts, MISSING)
    edges = _drawn_edges(feature)[[*firsts, feature.n_cells]]
    of_intervals = np.add.reduceat(weights[: feature.n_cells], firsts)
    return Axis(
        shortened(name),
        [*interval_names(feature, firsts.tolist()), "missing"],
        len(firsts),
        np.maximum.accumulate(edges),
        _ticks(feature),
        isinstance(feature, Numeric) and feature.scale == "log" and edges[0] > 0,
        np.append(of_intervals, weights[MISSING]),
        codes,
    )


def _drawn_edges(feature: Ordered) -> Floats:
    """Return where the cells of a feature begin, and where the last one ends."""
    if isinstance(feature, DatePart):
        return np.arange(feature.n_cells + 1.0) - _HALF
    if isinstance(feature, Integer):
        return np.array([feature.low, *feature.first_values, feature.high + 1], dtype=np.float64) - _HALF
    if isinstance(feature, Date):
        ends = (feature.first_moment, *feature.thresholds.tolist(), feature.last_moment)
        return np.array([end / DAY for end in ends])
    low, high = _drawn_range(feature)
    return np.array([low, *feature.thresholds.tolist(), high])


def _ticks(feature: Ordered) -> list[tuple[float, str]]:
    if isinstance(feature, DatePart):
        return [(float(i), label) for i, label in enumerate(feature.labels)]
    if isinstance(feature, Date):
        first, last = feature.first_moment, feature.last_moment
        moments = [first + (last - first) * i // N_INTERVALS_OF_DATES for i in range(N_INTERVALS_OF_DATES + 1)]
        return [(moment / DAY, moment_text(moment, feature.unit)) for moment in moments]
    if isinstance(feature, Integer):
        return [(float(feature.low), str(feature.low)), (float(feature.high), str(feature.high))]
    return [(end, f"{end:.4g}") for end in _drawn_range(feature)]


def _drawn_range(feature: Numeric) -> tuple[float, float]:
    """Return a range that has all thresholds of a feature inside; a feature with edges may have no range."""
    first, last = float(feature.thresholds[0]), float(feature.thresholds[-1])
    margin = (last - first) / len(feature.thresholds) or 1.0
    low = feature.low if feature.low is not None and feature.low < first else first - margin
    high = feature.high if feature.high is not None and feature.high > last else last + margin
    return max(low, -_LARGEST), min(high, _LARGEST)
