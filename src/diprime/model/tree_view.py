"""Fitted trees for people: what each node asks, holds and estimates, in words and released numbers only."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from diprime.domain import MISSING, OTHER, Categorical, Domain, Numeric
from diprime.domain.codes import BUCKETS
from diprime.domain.features import Feature, bounds
from diprime.model.forest import Forest
from diprime.model.masks import read_threshold_mask
from diprime.model.noise import charged_noise_variance, mean_variance
from diprime.model.regions import Regions

Floats = npt.NDArray[np.float64]
MAX_NAMES = 40
MAX_NAME_LENGTH = 60


@dataclass(frozen=True)
class Tree:
    """One tree, its nodes in heap order: the children of node i are 2i + 1 and 2i + 2.

    Attributes
    ----------
    depth : int
        Levels of splits that are kept.
    levels_below : int
        Levels of splits below them that are not.
    features : list of str or None, one for each node
        The feature that the node splits on; None at leaves, and where all records go on to the left child, because
        nothing was left to split or no split was the choice.
    conditions : list of str, one for each node
        What brings a row here from the parent; empty at the root.
    counts, count_noise : arrays of shape (n_nodes,)
        The released number of records, and the standard deviation of its noise. A node's is the sum of its leaves'.
    values : array of shape (n_nodes, n_outputs)
        The estimates: probabilities of the classes, or the number. A node's is the mean of its leaves', by counts.
    value_noise : array of shape (n_nodes,)
        About the most that the standard deviation of an estimate's noise can be: that of the least certain entry of
        the node's own mean, over the whole range of the target. Shrinkage towards the parent and, for numbers, the
        window of the range that leaves are summed in make it smaller.
    """

    depth: int
    levels_below: int
    features: list[str | None]
    conditions: list[str]
    counts: Floats
    count_noise: Floats
    values: Floats
    value_noise: Floats


def fitted_forest(model: Any) -> Forest:
    """Return the forest of a fitted DiPriMe estimator; refuse anything else."""
    check_is_fitted(model)
    if not isinstance(getattr(model, "forest_", None), Forest):
        raise TypeError(f"This needs a DiPriMeClassifier or a DiPriMeRegressor, got a {type(model).__name__}.")
    forest: Forest = model.forest_
    return forest


def read_tree(model: Any, index: int, max_depth: int | None = None) -> Tree:
    """Return a tree of a fitted model, or its upper levels.

    Parameters
    ----------
    model : DiPriMeClassifier or DiPriMeRegressor
        The fitted model.
    index : int
        Which of its trees, from 0.
    max_depth : int, optional
        How many levels of splits to keep.

    Returns
    -------
    tree : Tree
        Its nodes.

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
    forest, domain = fitted_forest(model), model.domain_
    if not 0 <= index < forest.n_trees:
        raise ValueError(f"There is no tree {index}: this model has trees 0 to {forest.n_trees - 1}.")
    whole = int(forest.depths[index])
    depth = whole if max_depth is None else min(max_depth, whole)
    n_nodes = 2 ** (depth + 1) - 1

    leaves = slice(*forest.first_leaves[index : index + 2])
    counts, values = _sum_up(forest.counts[leaves], forest.values[leaves])
    leaves_below = np.repeat(2.0 ** np.arange(whole, -1, -1), 2 ** np.arange(whole + 1))
    count_noise, value_noise = _noise(model, counts, values, leaves_below)

    first = forest.first_splits[index]
    splits = slice(first, first + 2**depth - 1)
    features, conditions = _in_words(domain, forest.features[splits], forest.masks[splits], depth)
    return Tree(
        depth,
        whole - depth,
        features,
        conditions,
        counts[:n_nodes],
        count_noise[:n_nodes],
        values[:n_nodes],
        value_noise[:n_nodes],
    )


def _sum_up(counts: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return counts and estimates of all nodes, from those of the leaves."""
    weights = np.maximum(counts, 0.0)[:, None]
    levels = [(counts, weights, values)]
    while len(counts) > 1:
        counts = counts.reshape(-1, 2).sum(axis=1)
        pairs, shares = values.reshape(-1, 2, values.shape[1]), weights.reshape(-1, 2, 1)
        weights = shares.sum(axis=1)
        # Where no record is left on either side, both count the same.
        shares = np.divide(shares, weights[:, None], out=np.full_like(shares, 0.5), where=weights[:, None] > 0)
        values = (pairs * shares).sum(axis=1)
        levels.append((counts, weights, values))
    return np.concatenate([level[0] for level in levels[::-1]]), np.concatenate([level[2] for level in levels[::-1]])


def _noise(model: Any, counts: Floats, values: Floats, leaves_below: Floats) -> tuple[Floats, Floats]:
    """Return the standard deviations of the noise in counts and in means."""
    domain: Domain = model.domain_
    of_classes, layout = domain.task == "classification", domain.layout
    variance = leaves_below * charged_noise_variance(model.privacy_, layout)
    n_outputs = layout.n_outputs
    low, high = bounds(domain.target) if isinstance(domain.target, Numeric) else (0.0, 1.0)
    means = (values - low) / (high - low)
    some = np.maximum(counts, 1.0)
    if model.privacy_.accounting == "paper" and not of_classes:
        count_noise, of_means = np.zeros_like(counts), variance / some**2  # noise on the sums alone
    else:
        count_noise = np.sqrt(n_outputs * variance)
        of_means = mean_variance(variance[:, None], means, some[:, None], n_outputs).max(axis=1)
    return count_noise, np.minimum(np.sqrt(of_means), 1.0) * (high - low)


def _in_words(
    domain: Domain, features: npt.NDArray[np.int32], masks: npt.NDArray[np.uint8], depth: int
) -> tuple[list[str | None], list[str]]:
    """Return the features of all nodes of a tree, and their conditions."""
    thresholds, missing_right = read_threshold_mask(masks)
    rights = np.unpackbits(masks, axis=1, bitorder="little")
    regions = Regions.roots(domain, 1)
    asked: list[str | None] = []
    conditions = [""]
    for level in range(depth):
        nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
        for node, split in enumerate(range(nodes.start, nodes.stop)):
            j = int(features[split])
            name = shortened(domain.names[j])
            feature = domain.features[domain.names[j]]
            if isinstance(feature, Numeric):
                highest, missing = int(regions.high[node, j]), bool(regions.missing[node, j])
                sides = _sides_of_number(
                    name, feature, int(thresholds[split]), bool(missing_right[split]), highest, missing
                )
            else:
                allowed = regions.allowed[node, regions.categorical_index[j]]
                sides = _sides_of_levels(name, feature.levels, np.unpackbits(allowed, bitorder="little"), rights[split])
            asked.append(name if sides else None)
            conditions += sides or ("every record", "no record")
        regions = regions.children(features[nodes], masks[nodes])
    return asked + [None] * 2**depth, conditions


def _sides_of_number(
    name: str, feature: Numeric, threshold: int, missing_right: bool, highest: int, missing: bool
) -> tuple[str, str] | None:
    if threshold >= highest:
        return (f"{name} is known", f"{name} is missing") if missing_right else None
    limit = threshold_texts(feature)[threshold]
    aside = " or missing" if missing else ""
    return f"{name} < {limit}{'' if missing_right else aside}", f"{name} ≥ {limit}{aside if missing_right else ''}"


@lru_cache(maxsize=256)
def threshold_texts(feature: Numeric) -> list[str]:
    """Return the thresholds of a feature in as few digits as tell them apart, six at least."""
    thresholds = feature.thresholds.tolist()
    for digits in range(6, 18):
        texts = [f"{threshold:.{digits}g}" for threshold in thresholds]
        if len(set(texts)) == len(set(thresholds)):
            break
    return texts


def _sides_of_levels(
    name: str, levels: Sequence[Hashable], allowed: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8]
) -> tuple[str, str] | None:
    sides = [np.flatnonzero(allowed & (right == side)).tolist() for side in (0, 1)]
    if not all(sides):
        return None
    # A long side is what the short one is not: together they are all that can come here.
    short = min(sides, key=len)
    texts = []
    for side in sides:
        inverted = len(side) > 2 * len(short)
        texts.append(f"{name} is {'not ' if inverted else ''}{_listed(levels, short if inverted else side)}")
    return texts[0], texts[1]


def _listed(levels: Sequence[Hashable], codes: Sequence[int]) -> str:
    names = [_code_name(levels, code) for code in codes]
    if len(names) > MAX_NAMES:
        return f"{', '.join(names[:MAX_NAMES])} or {len(names) - MAX_NAMES} more"
    return " or ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])


def _code_name(levels: Sequence[Hashable], code: int) -> str:
    if code == MISSING:
        return "missing"
    if code == OTHER:
        return "unlisted"
    sharing = levels[code::BUCKETS]
    return "/".join([shortened(str(level)) for level in sharing[:3]] + ["…"] * (len(sharing) > 3))


def shortened(name: str) -> str:
    """Return a name, cut where it is too long to read."""
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"


def feature_text(feature: Feature) -> str:
    """Return what a domain says of a feature or target, in words."""
    if isinstance(feature, Categorical):
        names = [shortened(str(level)) for level in feature.levels[:MAX_NAMES]]
        more = len(feature.levels) - len(names)
        return f"{len(feature.levels)} levels: {', '.join(names)}{f' and {more} more' if more else ''}"
    if feature.edges is not None:
        return f"numbers in {feature.n_cells} cells between given edges"
    low, high = bounds(feature)
    return f"numbers from {low:.6g} to {high:.6g}{', on a log scale' if feature.scale == 'log' else ''}"
