"""A fitted tree for people: the condition, count and estimate of each node, from released numbers only."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from diprime.domain import Categorical, Domain
from diprime.model.additive import AdditiveForest
from diprime.model.feature_words import MAX_LISTED_LEVELS, code_name, shortened, split_texts
from diprime.model.forest import Forest
from diprime.model.masks import Features, Masks, read_threshold_mask
from diprime.model.noise import charged_noise_variance, has_true_counts, mean_variance
from diprime.model.regions import Regions

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Tree:
    """A tree, or its upper levels, with nodes in heap order: the children of node i are 2i + 1 and 2i + 2.

    Attributes
    ----------
    depth : int
        The number of levels of splits.
    levels_below : int
        The number of levels of splits that were left out, below these.
    features : list of str or None, one for each node
        The feature that the node splits on. None at leaves, and at nodes that send all records left because no
        feature can be split any more or because the chosen split is trivial.
    conditions : list of str, one for each node
        The condition under which a row goes from the parent to this node; empty at the root.
    counts : array of shape (n_nodes,)
        The released number of records, or weight, of the node. That of an inner node is the sum over its leaves.
    values : array of shape (n_nodes, n_outputs)
        The estimates: class probabilities, or one number. In a boosted model, what the tree adds to the scores. The
        estimate of an inner node is the mean of its leaves' estimates, weighted by their counts.
    count_noise : array of shape (n_nodes,) or None
        The standard deviation of the noise in the counts. None in a boosted model.
    value_noise : array of shape (n_nodes,) or None
        An approximate upper bound on the standard deviation of the noise in the estimate: that of the noisiest entry
        of the node's own mean, over the whole range of the target. Shrinkage towards the parent and, for numbers, the
        window that targets are clamped to make the noise smaller. None in a boosted model, whose trees correct the
        errors, and so the noise, of those before them, and where classes have weights, which multiply it.
    unit : {"record", "person"}
        What the counts are of. Records of a person weigh as one together where persons are protected.
    """

    depth: int
    levels_below: int
    features: list[str | None]
    conditions: list[str]
    counts: Floats
    values: Floats
    count_noise: Floats | None = None
    value_noise: Floats | None = None
    unit: str = "record"


def fitted_forest(model: Any) -> Forest | AdditiveForest:
    """Return the trees of a fitted DiPriMe estimator; raise an error for anything else."""
    check_is_fitted(model)
    if not isinstance(getattr(model, "forest_", None), (Forest, AdditiveForest)):
        raise TypeError(
            f"This needs a DiPriMeClassifier, a DiPriMeRegressor or a boosted model, got a {type(model).__name__}."
        )
    forest: Forest | AdditiveForest = model.forest_
    return forest


def fitted_additive_forest(model: Any) -> AdditiveForest:
    """Return the trees of a fitted boosted model; raise an error for anything else."""
    forest = fitted_forest(model)
    if not isinstance(forest, AdditiveForest):
        raise TypeError(
            "This needs a DiPriMeBoostingClassifier or a DiPriMeBoostingRegressor, whose trees add up, got a "
            f"{type(model).__name__}."
        )
    return forest


def read_tree(model: Any, index: int, max_depth: int | None = None) -> Tree:
    """Return a tree of a fitted model, or its upper levels.

    Parameters
    ----------
    model : fitted estimator
        A forest or a boosted model.
    index : int
        The index of the tree, from 0.
    max_depth : int, optional
        The number of levels of splits to keep; all by default.

    Returns
    -------
    tree : Tree
        The nodes of the tree.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import DiPriMeRegressor, Domain, Numeric
    >>> X = np.random.default_rng(0).uniform(0, 51, size=(1000, 1))
    >>> domain = Domain({"age": Numeric(0, 51)}, target=Numeric(0, 1))
    >>> model = DiPriMeRegressor(100, domain, n_estimators=1, max_depth=1, balance=0).fit(X, X[:, 0] > 25)
    >>> tree = read_tree(model, 0)
    >>> tree.features
    ['age', None, None]
    >>> tree.values.round(1).tolist()
    [[0.5], [0.0], [1.0]]
    """
    forest = fitted_forest(model)
    if not 0 <= index < forest.n_trees:
        raise ValueError(f"There is no tree {index}: this model has trees 0 to {forest.n_trees - 1}.")
    full_depth = int(forest.depths[index])
    depth = full_depth if max_depth is None else min(max_depth, full_depth)
    n_nodes = 2 ** (depth + 1) - 1

    leaves = slice(*forest.first_leaves[index : index + 2])
    counts, values = _aggregate_leaves(forest.counts[leaves], forest.values[leaves])
    first = forest.first_splits[index]
    splits = slice(first, first + 2**depth - 1)
    features, conditions = _describe_splits(model.domain_, forest.features[splits], forest.masks[splits])
    unit = model.privacy_.unit
    tree = Tree(depth, full_depth - depth, features, conditions, counts[:n_nodes], values[:n_nodes], unit=unit)
    if isinstance(forest, AdditiveForest):
        return tree
    n_leaves = np.repeat(2.0 ** np.arange(full_depth, -1, -1), 2 ** np.arange(full_depth + 1))
    count_noise, value_noise = _noise_deviations(model, counts, values, n_leaves)
    tree = replace(tree, count_noise=count_noise[:n_nodes])
    if model.fitted_params_.get("class_weight") is not None:
        return tree
    return replace(tree, value_noise=value_noise[:n_nodes])


def contribution_text(values: Floats, classes: Sequence[Any] | None) -> str:
    """Return in words what a node of a boosted tree adds to the scores; with several, to that which gains most.

    Examples
    --------
    >>> contribution_text(np.array([0.25]), ["no", "yes"])
    'adds +0.25'
    >>> contribution_text(np.array([0.25, -0.5, 1]), ["a", "b", "c"])
    'adds +1 to c'
    """
    best = int(values.argmax())
    to = f" to {shortened(str(classes[best]))}" if classes is not None and len(values) > 1 else ""
    return f"adds {values[best]:+.4g}{to}"


def _aggregate_leaves(counts: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the counts and estimates of all nodes, given those of the leaves."""
    weights = np.maximum(counts, 0.0)[:, None]
    levels = [(counts, weights, values)]
    while len(counts) > 1:
        counts = counts.reshape(-1, 2).sum(axis=1)
        pairs, shares = values.reshape(-1, 2, values.shape[1]), weights.reshape(-1, 2, 1)
        weights = shares.sum(axis=1)
        # Children without a positive count get equal weights.
        shares = np.divide(shares, weights[:, None], out=np.full_like(shares, 0.5), where=weights[:, None] > 0)
        values = (pairs * shares).sum(axis=1)
        levels.append((counts, weights, values))
    return np.concatenate([level[0] for level in levels[::-1]]), np.concatenate([level[2] for level in levels[::-1]])


def _noise_deviations(model: Any, counts: Floats, values: Floats, n_leaves: Floats) -> tuple[Floats, Floats]:
    """Return the standard deviations of the noise in counts and in means of nodes that have ``n_leaves`` leaves."""
    domain: Domain = model.domain_
    layout = domain.layout
    sum_variance = n_leaves * charged_noise_variance(model.privacy_, layout)
    n_outputs = layout.n_outputs
    low, high = domain.output_range
    means = (values - low) / (high - low)
    positive_counts = np.maximum(counts, 1.0)
    if has_true_counts(model.privacy_):
        count_variance = np.zeros_like(counts)
        value_variance = sum_variance / positive_counts**2
    else:
        count_variance = n_outputs * sum_variance
        value_variance = mean_variance(sum_variance[:, None], means, positive_counts[:, None], n_outputs).max(axis=1)
    return np.sqrt(count_variance), np.minimum(np.sqrt(value_variance), 1.0) * (high - low)


def _describe_splits(domain: Domain, features: Features, masks: Masks) -> tuple[list[str | None], list[str]]:
    """Return `Tree.features` and `Tree.conditions`, given all splits of a tree."""
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
            name, feature = shortened(domain.names[j]), domain.coded[domain.names[j]]
            if isinstance(feature, Categorical):
                allowed = np.unpackbits(regions.allowed[node, regions.categorical_index[j]], bitorder="little")
                pair = _categorical_conditions(name, feature.levels, allowed, goes_right[split])
            elif thresholds[split] < regions.high[node, j]:
                sides = split_texts(feature, thresholds[split])
                pair = _ordered_conditions(name, sides, bool(regions.missing[node, j]), missing_right[split])
            else:  # all known values go left
                pair = (f"{name} is known", f"{name} is missing") if missing_right[split] else None
            split_features.append(name if pair else None)
            conditions += pair or ("every record", "no record")
        regions = regions.children(features[splits], masks[splits])
    return split_features + [None] * n_leaves, conditions


def _ordered_conditions(name: str, sides: tuple[str, str], missing: bool, missing_right: bool) -> tuple[str, str]:
    """Return the conditions of the left and right child; ``missing`` says whether missing values can occur."""
    left, right = (f"{name} {side}" for side in sides)
    if missing and missing_right:
        right += " or missing"
    elif missing:
        left += " or missing"
    return left, right


def _categorical_conditions(
    name: str, levels: Sequence[Hashable], allowed: npt.NDArray[np.uint8], goes_right: npt.NDArray[np.uint8]
) -> tuple[str, str] | None:
    """Return the conditions of the left and right child; None if one of them is empty."""
    sides = [np.flatnonzero(allowed & (goes_right == side)).tolist() for side in (0, 1)]
    if not all(sides):
        return None
    # The two sides are complements, so a long list is better written as "not" the short one.
    short = min(sides, key=len)
    texts = []
    for side in sides:
        negated = len(side) > 2 * len(short)
        texts.append(f"{name} is {'not ' if negated else ''}{_join_codes(levels, short if negated else side)}")
    return texts[0], texts[1]


def _join_codes(levels: Sequence[Hashable], codes: Sequence[int]) -> str:
    *names, last = [code_name(levels, code) for code in codes[:MAX_LISTED_LEVELS]]
    if len(codes) > MAX_LISTED_LEVELS:
        names, last = [*names, last], f"{len(codes) - MAX_LISTED_LEVELS} more"
    return f"{', '.join(names)} or {last}" if names else last
