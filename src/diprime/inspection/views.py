"""Views of single trees as text and numbers, and of effects of boosted models in the units of their features."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from diprime.domain import MISSING, OTHER, Categorical, Date, Domain, Integer, Numeric
from diprime.domain.features import DatePart, Ordered
from diprime.domain.values import DAY
from diprime.inspection.explanation import level_means, node_shares, targets_of
from diprime.inspection.importances import term_variances, terms_above_noise
from diprime.inspection.words import (
    MAX_LISTED_CATEGORIES,
    code_name,
    interval_names,
    moment_text,
    plural,
    shortened,
    split_texts,
)
from diprime.model.additive import AdditiveForest
from diprime.model.effects import Term, deviation
from diprime.model.estimates import charged_noise_variance, has_true_counts, mean_variance
from diprime.model.trees import Codes, Features, Floats, Forest, Masks, Regions, read_threshold_mask


@dataclass(frozen=True)
class TreeView:
    """Tree, or its upper levels, with nodes in heap order: the children of node i are 2i + 1 and 2i + 2.

    The count of an inner node is the sum of its leaves' counts, and its estimate is the mean of their estimates,
    weighted by these counts. Boosted models have no ``count_noise`` or ``value_noise``, because each tree corrects the
    errors, including the noise, of earlier trees.

    ``value_noise`` is an approximate upper bound for the noisiest entry of the node's own mean. It contains the noise
    over the whole range of the target and, for class shares, the sampling variance p(1 - p)/n; the spread of single
    numbers is not released. Shrinkage towards the parent and clipping of numbers reduce the noise. Class weights
    multiply it by an unknown factor, so it is None with class weights.
    """

    depth: int  # number of levels of splits
    levels_below: int  # number of omitted levels of splits below these
    features: list[str | None]  # feature of each split; None at leaves, and if all records go to the same side
    conditions: list[str]  # condition under which a row goes from the parent to this node; empty at the root
    counts: Floats  # released number of records, or weight, of each node
    values: Floats  # shape (n_nodes, n_outputs): class probabilities, one number, or contribution of a boosted tree
    count_noise: Floats | None = None  # standard deviation of the noise in the counts
    value_noise: Floats | None = None  # standard deviation of the estimates
    unit: str = "record"  # privacy unit of the counts, "record" or "person"


def fitted_forest(model: Any) -> Forest | AdditiveForest:
    """Return the trees of a fitted diprime estimator. Raise `TypeError` for anything else."""
    if hasattr(model, "fit"):  # check_is_fitted would print other objects, such as data frames
        check_is_fitted(model)
    if not isinstance(getattr(model, "forest_", None), (Forest, AdditiveForest)):
        raise TypeError(
            "The model must be a DiPriMeClassifier, a DiPriMeRegressor or a boosted model, got a "
            f"{type(model).__name__}."
        )
    forest: Forest | AdditiveForest = model.forest_
    return forest


def fitted_additive_forest(model: Any) -> AdditiveForest:
    """Return the trees of a fitted boosted model. Raise `TypeError` for anything else."""
    forest = fitted_forest(model)
    if not isinstance(forest, AdditiveForest):
        raise TypeError(
            "The model must be a DiPriMeBoostingClassifier or a DiPriMeBoostingRegressor, got a "
            f"{type(model).__name__}."
        )
    return forest


def drawn_trees(forest: Forest | AdditiveForest) -> Sequence[int]:
    """Return the indices of the trees that are drawn as trees: all but curves, which are plotted as functions."""
    return forest.rounds if isinstance(forest, AdditiveForest) else range(forest.n_trees)


def read_tree(model: Any, index: int, max_depth: int | None = None) -> TreeView:
    """Return a tree of a fitted forest, or a round of a boosted model, or its upper levels."""
    forest = fitted_forest(model)
    trees = drawn_trees(forest)
    if not trees:
        raise ValueError("The model has no rounds. Plot its functions with diprime.plots.plot_shape.")
    if not 0 <= index < len(trees):
        raise ValueError(f"The index of the tree must be from 0 to {len(trees) - 1}, got {index}.")
    index = trees[index]
    full_depth = int(forest.depths[index])
    depth = full_depth if max_depth is None else min(max_depth, full_depth)
    n_nodes = 2 ** (depth + 1) - 1

    leaves = slice(*forest.first_leaves[index : index + 2])
    counts, values = _aggregate_leaves(forest.counts[leaves], forest.values[leaves])
    first = forest.first_splits[index]
    splits = slice(first, first + 2**depth - 1)
    features, conditions = _describe_splits(model.domain_, forest.features[splits], forest.masks[splits])
    unit = model.privacy_.privacy_unit
    tree = TreeView(depth, full_depth - depth, features, conditions, counts[:n_nodes], values[:n_nodes], unit=unit)
    if isinstance(forest, AdditiveForest):
        return tree
    n_leaves = np.repeat(2.0 ** np.arange(full_depth, -1, -1), 2 ** np.arange(full_depth + 1))
    count_noise, value_noise = _noise_deviations(model, counts, values, n_leaves)
    tree = replace(tree, count_noise=count_noise[:n_nodes])
    if model.fitted_params_.get("class_weight") is not None:
        return tree
    return replace(tree, value_noise=value_noise[:n_nodes])


def noise_of_trees_text(model: Any) -> str:
    """Return an explanation of the numbers in trees: of ± in forests, and of the weights in boosted models."""
    units = plural(model.privacy_.privacy_unit)
    if isinstance(model.forest_, AdditiveForest):
        weight = "sum of second derivatives of the loss" if hasattr(model, "classes_") else f"number of {units}"
        return f"The weight of a node is its {weight}. Weights and contributions contain noise."
    estimates = (
        "After an estimate, ± is the standard deviation of its noise, before the estimate is shrunk and clipped."
    )
    if model.fitted_params_.get("class_weight") is not None:
        estimates = "Estimates are weighted by class_weight, so their noise is not known."
    elif hasattr(model, "classes_"):
        estimates = "After a class share, ± also includes the sampling error, p(1 − p)/n, before the share is shrunk."
    return f"Numbers of {units} contain noise, and ± is its standard deviation. {estimates}"


def contribution_text(values: Floats, classes: Sequence[Any] | None) -> str:
    """Return the contribution of a node of a boosted tree as text: with several scores, the largest one."""
    best = int(values.argmax())
    to = f" to {shortened(str(classes[best]))}" if classes is not None and len(values) > 1 else ""
    return f"adds {values[best]:+.4g}{to}"


def _aggregate_leaves(counts: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the counts and estimates of all nodes, given the counts and estimates of the leaves."""
    sums, means = [counts], level_means(node_shares(counts), values)
    while len(sums[-1]) > 1:
        sums.append(sums[-1].reshape(-1, 2).sum(axis=1))
    return np.concatenate(sums[::-1]), np.concatenate(means[::-1])


def _noise_deviations(model: Any, counts: Floats, values: Floats, n_leaves: Floats) -> tuple[Floats, Floats]:
    """Return the standard deviations of the noise in the counts and means of nodes with ``n_leaves`` leaves."""
    domain: Domain = model.domain_
    sum_variance = n_leaves * charged_noise_variance(model.privacy_, domain.layout)
    n_outputs, (low, high) = domain.layout.n_outputs, domain.output_range
    means = (values - low) / (high - low)
    positive_counts = np.maximum(counts, 1.0)
    if has_true_counts(model.privacy_):
        count_variance = np.zeros_like(counts)
        value_variance = sum_variance / positive_counts**2
    else:
        count_variance = n_outputs * sum_variance
        value_variance = mean_variance(sum_variance[:, None], means, positive_counts[:, None], n_outputs).max(axis=1)
    if domain.task == "classification":
        value_variance += (means * (1 - means)).max(axis=1) / positive_counts
    return np.sqrt(count_variance), np.minimum(np.sqrt(value_variance), 1.0) * (high - low)


def _describe_splits(domain: Domain, features: Features, masks: Masks) -> tuple[list[str | None], list[str]]:
    """Return `TreeView.features` and `TreeView.conditions`, given all splits of a tree."""
    thresholds, missing_right = (column.tolist() for column in read_threshold_mask(masks))
    goes_right = np.unpackbits(masks, axis=1, bitorder="little")
    regions = Regions.roots(domain, 1)
    split_features: list[str | None] = []
    conditions = [""]
    n_leaves = len(features) + 1
    for level in range(n_leaves.bit_length() - 1):
        splits = slice(2**level - 1, 2 ** (level + 1) - 1)
        for split in range(splits.start, splits.stop):
            node, j = split - splits.start, int(features[split])
            name, feature = (
                shortened(domain.encoded_feature_names[j]),
                domain.encoded_features[domain.encoded_feature_names[j]],
            )
            if isinstance(feature, Categorical):
                allowed = np.unpackbits(regions.allowed[node, regions.categorical_index[j]], bitorder="little")
                pair = _categorical_conditions(name, feature.categories, allowed, goes_right[split])
            elif thresholds[split] < regions.high[node, j]:
                sides = split_texts(feature, thresholds[split])
                pair = _ordered_conditions(name, sides, bool(regions.missing[node, j]), missing_right[split])
            else:  # all values go left, except perhaps missing ones
                pair = (f"{name} is known", f"{name} is missing") if missing_right[split] else None
            split_features.append(name if pair else None)
            conditions += pair or ("every record", "no record")
        regions = regions.children(features[splits], masks[splits])
    return split_features + [None] * n_leaves, conditions


def _ordered_conditions(name: str, sides: tuple[str, str], missing: bool, missing_right: bool) -> tuple[str, str]:
    """Return the conditions of the left and right child. ``missing`` is whether missing values can occur."""
    left, right = (f"{name} {side}" for side in sides)
    if missing and missing_right:
        right += " or missing"
    elif missing:
        left += " or missing"
    return left, right


def _categorical_conditions(
    name: str, categories: Sequence[Hashable], allowed: npt.NDArray[np.uint8], goes_right: npt.NDArray[np.uint8]
) -> tuple[str, str] | None:
    """Return the conditions of the left and right child, or None if one of them is empty."""
    sides = [np.flatnonzero(allowed & (goes_right == side)).tolist() for side in (0, 1)]
    if not all(sides):
        return None
    # The two sides are complements, so a long list is better written as "not" and the short list.
    short = min(sides, key=len)
    texts = []
    for side in sides:
        negated = len(side) > 2 * len(short)
        texts.append(f"{name} is {'not ' if negated else ''}{_join_codes(categories, short if negated else side)}")
    return texts[0], texts[1]


def _join_codes(categories: Sequence[Hashable], codes: Sequence[int]) -> str:
    *names, last = [code_name(categories, code) for code in codes[:MAX_LISTED_CATEGORIES]]
    if len(codes) > MAX_LISTED_CATEGORIES:
        names, last = [*names, last], f"{len(codes) - MAX_LISTED_CATEGORIES} more"
    return f"{', '.join(names)} or {last}" if names else last


ASIDE = 0.06
"""Width of the bin for missing values beside a numeric axis, as a fraction of the axis."""

N_INTERVALS_OF_DATES = 4
"""Number of intervals between the ticks of a date axis."""

_Integers = npt.NDArray[np.int64]
_TINY = 1e-9  # avoids division by zero
_HALF = 0.5  # an integer is plotted in the middle of its bin
_LARGEST = math.ldexp(1.0, 1000)  # leaves room for the margins of plots


@dataclass(frozen=True, eq=False)
class Axis:
    """Axis of an effect, divided into groups: intervals or categories, then unlisted and missing values."""

    name: str  # feature name, shortened for plots
    feature: str  # feature name
    labels: list[str]  # name of each group
    n_regular: int  # number of intervals or categories; groups of unlisted and missing values follow
    edges: Floats | None  # ends of the intervals, for dates in days since 1970; None for categorical features
    ticks: list[tuple[float, str]]  # positions and labels: the ends of the range, and more only if all are to be shown
    is_logarithmic: bool  # whether the feature is best plotted on a logarithmic scale
    weights: Floats  # shape (n_groups,): released number of records of each group, at least zero
    codes: _Integers  # shape (n_groups,): one code of each group

    @property
    def positions(self) -> Floats:
        """Boundaries of the groups in a plot: the edges of intervals, or consecutive integers for categories."""
        n_aside = len(self.labels) - self.n_regular
        if self.edges is None:
            return np.arange(len(self.labels) + 1.0)
        ends = np.log(self.edges) if self.is_logarithmic else self.edges
        aside = ends[-1] + ASIDE * (ends[-1] - ends[0]) * np.arange(1, n_aside + 1)
        return np.concatenate([self.edges, np.exp(aside) if self.is_logarithmic else aside])


@dataclass(frozen=True, eq=False)
class Shape:
    """Main effect or interaction."""

    axes: tuple[Axis, ...]  # one axis per feature
    values: Floats  # shape (n_groups, [n_groups,] n_scores): contribution of the effect to the scores
    targets: tuple[Any, ...]  # class of each score, or None for a numeric target
    noise: Floats  # standard deviation of the noise of the values, from sampling and from the mechanism

    @property
    def net(self) -> Floats:
        """Values, set to zero if they are within two standard deviations of their noise."""
        return np.where(np.abs(self.values) > 2 * self.noise, self.values, 0.0)


def shape_of(model: Any, features: tuple[int, ...]) -> Shape:
    """Return an effect of a fitted boosted model, which is zero everywhere if the model does not contain it."""
    forest: AdditiveForest = model.forest_
    term = next((term for term in forest.effects.terms if term.features == features), None)
    if term is None:
        whole = np.zeros(MISSING + 1, dtype=np.uint8)
        flat = np.zeros((*(1 for _ in features), len(forest.offset)))
        term = Term(features, tuple(whole for _ in features), flat)
    axes = tuple(
        _axis(model.domain_, j, segments, forest.code_counts[j])
        for j, segments in zip(features, term.segments, strict=True)
    )
    cells = np.ix_(*(segments[axis.codes] for segments, axis in zip(term.segments, axes, strict=True)))
    values = np.asarray(term.table[cells])
    codes = tuple(axis.codes for axis in axes)
    noise = forest.noise.deviations(features, codes) if features in forest.noise.terms else np.zeros_like(values)
    return Shape(axes, values, targets_of(model), noise)


def largest_effects(forest: AdditiveForest, n_features: int) -> list[tuple[int, ...]]:
    """Return the features of all effects with ``n_features`` features, by decreasing standard deviation."""
    terms = [term for term in forest.effects.terms if len(term.features) == n_features]
    return [term.features for term in sorted(terms, key=lambda term: -deviation(term, forest.code_counts))]


def effects_above_noise(forest: AdditiveForest, n_features: int) -> list[tuple[int, ...]]:
    """Return the `largest_effects` that are above the noise."""
    flags = terms_above_noise(term_variances(forest))
    above = {term.features for term, flag in zip(forest.effects.terms, flags.tolist(), strict=True) if flag}
    return [features for features in largest_effects(forest, n_features) if features in above]


def _axis(domain: Domain, j: int, segments: Codes, code_counts: Floats) -> Axis:
    name, feature = domain.encoded_feature_names[j], domain.encoded_features[domain.encoded_feature_names[j]]
    if isinstance(feature, Categorical):
        codes = np.array([*range(feature.n_codes), OTHER, MISSING])
        labels = [code_name(feature.categories, code) for code in codes.tolist()]
        return Axis(shortened(name), name, labels, feature.n_codes, None, [], False, code_counts[codes], codes)
    firsts = np.flatnonzero(np.diff(segments[: feature.n_cells].astype(int), prepend=-1))
    codes = np.append(firsts, MISSING)
    edges = _drawn_edges(feature)[[*firsts, feature.n_cells]]
    of_intervals = np.add.reduceat(code_counts[: feature.n_cells], firsts)
    return Axis(
        shortened(name),
        name,
        [*interval_names(feature, firsts.tolist()), "missing"],
        len(firsts),
        np.maximum.accumulate(edges),
        _ticks(feature),
        isinstance(feature, Numeric) and feature.scale == "log" and edges[0] > 0,
        np.append(of_intervals, code_counts[MISSING]),
        codes,
    )


def _drawn_edges(feature: Ordered) -> Floats:
    """Return the boundaries of a feature's bins in plots."""
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
    """Return a range that contains all thresholds of a feature. A feature with given edges may have no range."""
    first, last = float(feature.thresholds[0]), float(feature.thresholds[-1])
    margin = (last - first) / len(feature.thresholds) or 1.0
    low = feature.low if feature.low is not None and feature.low < first else first - margin
    high = feature.high if feature.high is not None and feature.high > last else last + margin
    return max(low, -_LARGEST), min(high, _LARGEST)
