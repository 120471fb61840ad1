"""The paper's forests as the authors' code grows them, with a switch for each of four oddities of that code.

Where the library, which follows the text of the paper, does not reproduce a published number, this shows which line of
the authors' code is responsible. It is a reconstruction for comparison, on raw values, in floating point and without a
ledger: it is not private in any sense.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ranges = dict[int, Floats]
Cut = float | Floats  # a threshold, or the levels in the upper child
Rule = Literal["exact", "exponential", "permute-and-flip"]

SPLIT_SHARE = 0.5
NUMERIC_FLOOR = 1e-12
CATEGORICAL_FLOOR = 1e-6
MAX_LEVELS = 32


@dataclass(frozen=True)
class Oddities:
    """What is done as in the authors' code; what is switched off is done as in the paper.

    Attributes
    ----------
    random_leaves : bool
        7: an empty leaf is recognised, and predicts a random number instead of the middle of the range.
    left_twice : bool
        8: the quality of a categorical split is twice that of its left child; the right child is ignored.
    floors : bool
        9: every candidate for a median has a weight of at least 1e-12, or 1e-6 if it is a set of categories.
    true_median : bool
        17: the non-private threshold is the median of the values, and all rows with this value go to the upper child,
        instead of the threshold that splits the rows most evenly. If a value is frequent, one child may get all rows.
    """

    random_leaves: bool = True
    left_twice: bool = True
    floors: bool = True
    true_median: bool = True

    @classmethod
    def only(cls, *names: str) -> Oddities:
        """Return these oddities switched on and the others off."""
        return cls(**{f.name: f.name in names for f in fields(cls)})


# The numbers of the list in section 6 of the protocol, which ends at 16.
NUMBERS = {"random_leaves": 7, "left_twice": 8, "floors": 9, "true_median": 17}


def _squared_error(y: Floats) -> float:
    return float(np.square(y).sum() - y.sum() ** 2 / len(y))


def _median(values: Floats) -> float:
    """Return the same as np.median, without the overhead that dominates its time on small nodes."""
    middle = (len(values) - 1) // 2
    parted = np.partition(values, [middle, len(values) // 2])
    return float(parted[middle] + parted[len(values) // 2]) / 2


@lru_cache(maxsize=32)
def _subsets(n_levels: int) -> Floats:
    """Return the sets of levels that can go left, as rows of 0 and 1: all non-empty sets without the first level."""
    numbers = np.arange(1, 1 << (n_levels - 1))[:, None]
    return ((numbers >> np.arange(n_levels - 1, -1, -1)) & 1).astype(np.float64)


@dataclass(frozen=True)
class Forest:
    """Ten trees of one of the paper's methods.

    Attributes
    ----------
    rule : {"exact", "exponential", "permute-and-flip"}
        How medians and splits are selected; "exact" is the non-private Median.
    depth, max_features : int
        The depth of the trees, and K.
    epsilon : float
        The published budget, which each tree gets.
    partition : bool
        Whether trees get disjoint subsets of the rows.
    classes : bool
        Whether the target is a class, 0 or 1.
    categorical : frozenset of int
        The features that are categorical.
    oddities : Oddities
        What is done as in the authors' code.
    """

    rule: Rule
    depth: int
    max_features: int
    epsilon: float
    partition: bool
    classes: bool
    categorical: frozenset[int]
    oddities: Oddities
    n_trees: int = 10

    def fit_predict(self, X: Floats, y: Floats, X_new: Floats, ranges: Ranges, rng: np.random.Generator) -> Floats:
        """Return the mean prediction of the trees, which are not kept.

        Parameters
        ----------
        X, y, X_new : ndarray
            The rows to learn from, their targets in [0, 1], and the rows to predict.
        ranges : dict
            The lowest and highest value of each feature, or its levels if it is categorical.
        rng : Generator
            The source of all randomness.
        """
        X, X_new = np.asfortranarray(X), np.asfortranarray(X_new)  # columns are read one at a time
        parts = np.array_split(rng.permutation(len(X)), self.n_trees)
        predictions = np.empty((self.n_trees, len(X_new)))
        for tree, part in enumerate(parts):
            rows = part if self.partition else np.arange(len(X))
            grower = _Grower(self, X, y, X_new, rng, predictions[tree])
            grower.grow(rows, np.arange(len(X_new)), ranges, self.depth)
        return np.asarray(predictions.mean(axis=0))


@dataclass
class _Grower:
    forest: Forest
    X: Floats
    y: Floats
    X_new: Floats
    rng: np.random.Generator
    predictions: Floats

    def grow(self, rows: npt.NDArray[np.int64], new: npt.NDArray[np.int64], ranges: Ranges, left: int) -> None:
        """Split the training rows and the new rows until the depth is reached or no feature is left."""
        if not len(new):  # there is nothing to predict below this node
            return
        if not left or not ranges:
            self.predictions[new] = self.leaf(self.y[rows])
            return
        features = self.rng.permutation(list(ranges))[: self.forest.max_features]
        y, values = self.y[rows], [self.X[rows, j] for j in features]
        cuts = [self.median(v, ranges[j], j) for j, v in zip(features, values, strict=True)]
        ups = [self.up(v, cut, j) for j, v, cut in zip(features, values, cuts, strict=True)]
        qualities = np.array([self.quality(up, y, j) for j, up in zip(features, ups, strict=True)])
        pick = self.draw(qualities * len(rows) / 4, self.level_epsilon)
        j, cut, up = int(features[pick]), cuts[pick], ups[pick]
        new_up = self.up(self.X_new[new, j], cut, j)
        for rows_side, new_side, here in (
            (rows[up], new[new_up], self.narrowed(ranges, j, cut, upper=True)),
            (rows[~up], new[~new_up], self.narrowed(ranges, j, cut, upper=False)),
        ):
            self.grow(rows_side, new_side, here, left - 1)

    @property
    def level_epsilon(self) -> float:
        """Half the budget of a level, for each median and again for the choice, even if there is none (K = 1)."""
        return self.forest.epsilon * SPLIT_SHARE / self.forest.depth / 2

    def up(self, values: Floats, cut: Cut, feature: int) -> npt.NDArray[np.bool_]:
        """Return which values go to the upper child; levels are numbered from 0."""
        if feature not in self.forest.categorical:
            return np.asarray(values >= cut)
        goes_up = np.zeros(MAX_LEVELS, dtype=bool)
        goes_up[np.asarray(cut, dtype=np.int64)] = True
        return goes_up[values.astype(np.int64)]

    def narrowed(self, ranges: Ranges, feature: int, cut: Cut, *, upper: bool) -> Ranges:
        """Return the ranges in a child, without the feature if it cannot be split again."""
        here = dict(ranges)
        if feature in self.forest.categorical:
            here[feature] = np.asarray(cut) if upper else np.setdiff1d(ranges[feature], cut)
            splittable = len(here[feature]) > 1
        else:
            low, high = ranges[feature]
            here[feature] = np.array([cut, high] if upper else [low, cut])
            splittable = high > cut if upper else low < cut
        if not splittable:
            del here[feature]
        return here

    # -- medians -------------------------------------------------------------------------------------------------------

    def median(self, values: Floats, possible: Floats, feature: int) -> Cut:
        """Return the cut of one feature."""
        if feature in self.forest.categorical:
            subsets = _subsets(len(possible))
            counts = np.bincount(values.astype(np.int64), minlength=MAX_LEVELS)[possible.astype(np.int64)]
            imbalances = np.abs(2 * (subsets @ counts) - len(values))
            return possible[subsets[self.draw_median(imbalances, None)] == 1]
        if len(values) <= 1:
            return float(self.rng.uniform(*possible))
        if self.forest.rule == "exact" and self.forest.oddities.true_median:
            return _median(values)
        edges = np.concatenate([possible[:1], np.sort(values), possible[1:]])
        lengths = np.maximum(np.diff(edges), 0)
        imbalances = np.abs(np.arange(-len(values), len(values) + 1, 2.0))
        place = self.draw_median(imbalances, lengths)
        return float(self.rng.uniform(edges[place], edges[place + 1]))

    def draw_median(self, imbalances: Floats, lengths: Floats | None) -> int:
        """Draw a candidate; those of numeric features are intervals, weighted by their lengths."""
        if self.forest.rule == "exact":
            return int(np.argmin(imbalances if lengths is None else np.where(lengths > 0, imbalances, np.inf)))
        with np.errstate(divide="ignore"):
            bonus = 0.0 if lengths is None else np.log(lengths)
        if self.forest.rule == "permute-and-flip":
            # Oddity 2 of the protocol: the length is part of the utility, which one record can change without bound.
            factor = 1.0 if lengths is None else 2.0
            utilities = factor * bonus - imbalances
            return self.flip(0.5 * self.level_epsilon * (utilities - utilities.max()))
        exponents = bonus - 0.5 * self.level_epsilon * imbalances
        floor = NUMERIC_FLOOR if lengths is not None else CATEGORICAL_FLOOR
        if self.forest.oddities.floors:
            weights = np.exp(exponents) + floor
        else:
            weights = np.exp(exponents - exponents.max())
        return int(self.rng.choice(len(weights), p=weights / weights.sum()))

    def flip(self, exponents: Floats) -> int:
        """Draw by permute-and-flip."""
        chances = np.exp(exponents) + (NUMERIC_FLOOR if self.forest.oddities.floors else 0.0)
        while True:
            order = self.rng.permutation(len(chances))
            heads = np.flatnonzero(self.rng.random(len(chances)) < chances[order])
            if len(heads):
                return int(order[heads[0]])

    # -- the choice among medians, and leaves --------------------------------------------------------------------------

    def quality(self, up: npt.NDArray[np.bool_], y: Floats, feature: int) -> float:
        """Return the mean squared error after a split."""
        twice = feature in self.forest.categorical and self.forest.oddities.left_twice
        children = [y[up], y[up] if twice else y[~up]]
        if not any(map(len, children)):
            return 40.0 if twice else 0.0
        if not all(map(len, children)):
            return _squared_error(y) / len(y)
        return sum(map(_squared_error, children)) / len(y)

    def draw(self, costs: Floats, epsilon: float) -> int:
        """Draw one of the K splits; as published, their costs have sensitivity one."""
        if self.forest.rule == "exact":
            return int(np.argmin(costs))
        exponents = -0.5 * epsilon * (costs - costs.min())
        if self.forest.rule == "permute-and-flip":
            return self.flip(exponents)
        weights = np.exp(exponents)
        return int(self.rng.choice(len(weights), p=weights / weights.sum()))

    def leaf(self, y: Floats) -> float:
        """Return the noisy mean of a leaf, whose noise is scaled by the true number of rows."""
        if not len(y):
            return float(self.rng.uniform()) if self.forest.oddities.random_leaves else 0.5
        if self.forest.rule == "exact":
            return float(y.mean())
        epsilon = self.forest.epsilon * (1 - SPLIT_SHARE)
        if not self.forest.classes:
            return float(np.clip(y.mean() + self.rng.laplace(scale=1 / (len(y) * epsilon)), 0, 1))
        counts = np.array([np.count_nonzero(y == 0), np.count_nonzero(y == 1)])
        zeros, ones = np.maximum(counts + self.rng.laplace(scale=1 / epsilon, size=2), 0)
        return float(ones / (zeros + ones)) if zeros + ones > 0 else 0.5
