"""The paper's forests the way its authors' code grows them, four of its oddities each with a switch.

Where the library, which follows the text of the paper, gives another number than the one published, this shows which
line of the code made it. It works on the raw values, in floating point and without a ledger: a reconstruction for
comparison, private in no sense.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ranges = dict[int, Floats]
Cut = float | Floats  # a threshold, or the levels that go up
Rule = Literal["exact", "exponential", "permute-and-flip"]

SPLIT_SHARE = 0.5
NUMERIC_FLOOR = 1e-12
CATEGORICAL_FLOOR = 1e-6
MOST_LEVELS = 32


@dataclass(frozen=True)
class Oddities:
    """What is done as in the authors' code; off, it is done as in the paper.

    Attributes
    ----------
    random_leaves : bool
        7: a leaf without rows is recognised and predicts a random number, instead of the middle of the range.
    left_twice : bool
        8: the quality of a categorical split is twice that of its left child, the right one is not looked at.
    floors : bool
        9: every candidate of a median has at least a probability of 1e-12, or 1e-6 if it is a set of categories.
    true_median : bool
        17: the median without privacy is that of the values, and rows that have this value all go up, instead of the
        threshold that parts the rows most evenly: where a value is frequent, one child may get all rows.
    """

    random_leaves: bool = True
    left_twice: bool = True
    floors: bool = True
    true_median: bool = True

    @classmethod
    def only(cls, *names: str) -> Oddities:
        """Return these switched on, and the others off."""
        return cls(**{f.name: f.name in names for f in fields(cls)})


# As in the list of section 6 of the protocol, which ends at 16.
NUMBERS = {"random_leaves": 7, "left_twice": 8, "floors": 9, "true_median": 17}


def _squared_error(y: Floats) -> float:
    return float(np.square(y).sum() - y.sum() ** 2 / len(y))


def _median(values: Floats) -> float:
    """Return what np.median does, without its overhead, which is most of the time of small nodes."""
    middle = (len(values) - 1) // 2
    parted = np.partition(values, [middle, len(values) // 2])
    return float(parted[middle] + parted[len(values) // 2]) / 2


@lru_cache(maxsize=32)
def _subsets(n_levels: int) -> Floats:
    """Return the sets of levels that can go left, as rows of 0 and 1: all but the empty one, without the first."""
    numbers = np.arange(1, 1 << (n_levels - 1))[:, None]
    return ((numbers >> np.arange(n_levels - 1, -1, -1)) & 1).astype(np.float64)


@dataclass(frozen=True)
class Forest:
    """Ten trees of one of the paper's methods.

    Attributes
    ----------
    rule : {"exact", "exponential", "permute-and-flip"}
        How medians and splits are drawn; "exact" is the non-private Median.
    depth, max_features : int
        The depth of the trees, and K.
    epsilon : float
        The budget of a tree, the published one.
    partition : bool
        Whether trees have disjoint parts of the rows.
    classes : bool
        Whether the target is a class, 0 or 1.
    oddities : Oddities
        What is done as in the code.
    """

    rule: Rule
    depth: int
    max_features: int
    epsilon: float
    partition: bool
    classes: bool
    oddities: Oddities
    n_trees: int = 10

    def fit_predict(
        self, X: Floats, y: Floats, X_new: Floats, ranges: Ranges, categorical: set[int], rng: np.random.Generator
    ) -> Floats:
        """Return the mean prediction of the trees: nothing else is kept of them.

        Parameters
        ----------
        X, y, X_new : ndarray
            The rows to learn from, their targets in [0, 1], and the rows to predict.
        ranges : dict
            For each feature its least and greatest value, or its levels if it is one of ``categorical``.
        categorical : set of int
            The features that are categories.
        rng : Generator
            The source of all randomness.
        """
        X, X_new = np.asfortranarray(X), np.asfortranarray(X_new)  # they are read by columns
        parts = np.array_split(rng.permutation(len(X)), self.n_trees)
        predictions = np.empty((self.n_trees, len(X_new)))
        for tree, part in enumerate(parts):
            rows = part if self.partition else np.arange(len(X))
            grower = _Grower(self, X, y, X_new, categorical, rng, predictions[tree])
            grower.grow(rows, np.arange(len(X_new)), ranges, self.depth)
        return np.asarray(predictions.mean(axis=0))


@dataclass
class _Grower:
    forest: Forest
    X: Floats
    y: Floats
    X_new: Floats
    categorical: set[int]
    rng: np.random.Generator
    predictions: Floats

    def grow(self, rows: npt.NDArray[np.int64], new: npt.NDArray[np.int64], ranges: Ranges, left: int) -> None:
        """Split rows and the rows to be predicted until the depth is used up, or no feature is left."""
        if not len(new):  # a node that predicts nothing need not be grown
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
        """Half of a level's share: as much for each median as for the choice, even where there is none (K = 1)."""
        return self.forest.epsilon * SPLIT_SHARE / self.forest.depth / 2

    def up(self, values: Floats, cut: Cut, feature: int) -> npt.NDArray[np.bool_]:
        """Return which values go up; levels are numbered from 0."""
        if feature not in self.categorical:
            return np.asarray(values >= cut)
        goes_up = np.zeros(MOST_LEVELS, dtype=bool)
        goes_up[np.asarray(cut, dtype=np.int64)] = True
        return goes_up[values.astype(np.int64)]

    def narrowed(self, ranges: Ranges, feature: int, cut: Cut, *, upper: bool) -> Ranges:
        """Return what is left of the ranges in a child; a feature that cannot be split again is taken out."""
        here = dict(ranges)
        if feature in self.categorical:
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
        if feature in self.categorical:
            subsets = _subsets(len(possible))
            counts = np.bincount(values.astype(np.int64), minlength=MOST_LEVELS)[possible.astype(np.int64)]
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
        """Draw a candidate; those on a line weigh as much as they are long."""
        if self.forest.rule == "exact":
            return int(np.argmin(imbalances if lengths is None else np.where(lengths > 0, imbalances, np.inf)))
        with np.errstate(divide="ignore"):
            bonus = 0.0 if lengths is None else np.log(lengths)
        if self.forest.rule == "permute-and-flip":
            # 2: the length is part of the utility here, which no record changes by a bounded amount.
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
        """Return the mean squared error that a split leaves."""
        twice = feature in self.categorical and self.forest.oddities.left_twice
        children = [y[up], y[up] if twice else y[~up]]
        if not any(map(len, children)):
            return 40.0 if twice else 0.0
        if not all(map(len, children)):
            return _squared_error(y) / len(y)
        return sum(map(_squared_error, children)) / len(y)

    def draw(self, costs: Floats, epsilon: float) -> int:
        """Draw one of the K splits, whose costs have sensitivity one as published."""
        if self.forest.rule == "exact":
            return int(np.argmin(costs))
        exponents = -0.5 * epsilon * (costs - costs.min())
        if self.forest.rule == "permute-and-flip":
            return self.flip(exponents)
        weights = np.exp(exponents)
        return int(self.rng.choice(len(weights), p=weights / weights.sum()))

    def leaf(self, y: Floats) -> float:
        """Return the noisy mean of a leaf, with noise that knows the true number of its rows."""
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
