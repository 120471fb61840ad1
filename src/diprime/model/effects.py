"""Parts of additive models: steps, terms and their effects, and the link from scores to predictions.

A function of two features contains functions of each. These are moved to the main effects of the features, and all
means to the offset, so that every term has mean zero over each of its features. Means are weighted by the released
record counts of the codes. Features are treated as independent, because nothing is released about pairs of codes.

All values are integer multiples of a quantum, and sums of such numbers are exact in float64. Moved values are rounded
to the quantum, so the sum of the offset and all terms does not change at all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from diprime.domain import Categorical, Domain, Numeric
from diprime.domain.features import bounds
from diprime.kernels import effects as effects_kernel
from diprime.kernels import trees as trees_kernel
from diprime.kernels.constants import N_CODES
from diprime.model.trees import WALK_BLOCK_ROWS, Codes, Floats, Trees

N_COLUMNS = 5
"""Number of columns in the table of steps in a model file."""
LARGEST = 1e100
"""Maximum of these numbers, so that their squares do not overflow."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Rules that turned released sums into the leaf values of trees, and the noise of curves.

    The first trees of a fit are curves, and all others are rounds. A leaf of a round with the noisy gradient sum G and
    the noisy weight W has the value rate·unit·G / (max(W, floor) + ridge).

    ``table`` (n_trees, 5): rate, floor and ridge of each round; standard deviation of the noise of G, times unit; and
    standard deviation of a record's gradient, times unit, if W is the number of records. If W is the sum of Hessians,
    which is about the variance of G, the last column is 1. The rows of curves are zero.

    ``curve_noise``: for each curve, independent parts of its noise at all codes, shape (n_parts, 256). The curve of a
    categorical feature has one part: the standard deviation of the independent noise of each category.
    """

    table: Floats
    sizes: tuple[int, ...]  # number of trees of each fit, in order: one fit, or those of all merged models
    curve_noise: tuple[Floats, ...] = ()

    @classmethod
    def merge(cls, parts: Sequence[Steps], weights: Sequence[float]) -> Steps:
        """Return the steps of a weighted sum of models."""
        scale = np.array([1, 1, 1, 0, 0], dtype=np.float64)
        tables = [part.table * (scale + weight * (1 - scale)) for part, weight in zip(parts, weights, strict=True)]
        noise = tuple(weight * n for part, weight in zip(parts, weights, strict=True) for n in part.curve_noise)
        return cls(np.concatenate(tables), tuple(size for part in parts for size in part.sizes), noise)

    @property
    def is_curve(self) -> npt.NDArray[np.bool_]:
        """Whether each tree is a curve. Rounds have a positive ridge, but their rate may be zero."""
        return np.asarray(self.table[:, 2] == 0)

    def check(self, n_trees: int) -> None:
        """Raise a ValueError unless a fit of ``n_trees`` trees could have taken these steps."""
        if not ((self.table >= 0) & (self.table <= LARGEST)).all():
            raise ValueError("a number of a step is impossible.")
        rounds = self.table[~self.is_curve]
        if not ((rounds[:, 0] <= 1) & (rounds[:, 2] > 0)).all() or self.table[self.is_curve].any():
            raise ValueError("a step is longer than a Newton step.")
        if not (self.table[:, 3:] <= LARGEST * self.table[:, 2:3]).all():
            raise ValueError("the noise of a step is impossible.")
        if sum(self.sizes) != n_trees or min(self.sizes) < 1:
            raise ValueError("the numbers of trees of its fits do not add up.")
        ends = np.cumsum(self.sizes)
        if any(np.diff(of_fit.astype(int)).max(initial=0) > 0 for of_fit in np.split(self.is_curve, ends[:-1])):
            raise ValueError("a curve of a fit follows a round.")
        if len(self.curve_noise) != self.is_curve.sum() or not all(
            (np.abs(noise) <= LARGEST).all() for noise in self.curve_noise
        ):
            raise ValueError("the noise of a curve is impossible.")


_BINARY = 2


class Link(ABC):
    """Map from scores of shape (n, n_scores) to predictions."""

    n_scores: int

    @property
    def magnitude(self) -> float:
        """Maximum magnitude of the bounds that predictions are clipped to."""
        return 0.0

    @abstractmethod
    def predict(self, scores: Floats) -> Floats:
        """Return the class probabilities, or the numeric prediction, of each row."""

    def in_quanta_of(self, quantum: float) -> Link:
        """Return the link for scores in multiples of another quantum."""
        return self

    def decide(self, scores: Floats) -> npt.NDArray[np.intp]:
        """Return the index of the class with the largest score, or the first one in case of ties."""
        return np.asarray(scores.argmax(axis=1))


@dataclass(frozen=True)
class Logistic(Link):
    """Link for two classes. The score is the log-odds of the second class."""

    n_scores = 1

    def predict(self, scores: Floats) -> Floats:
        """Return the probabilities of both classes."""
        odds = np.exp(-np.abs(scores))  # odds of the less likely class, so that nothing overflows
        likely, unlikely = 1 / (1 + odds), odds / (1 + odds)
        positive = scores > 0
        return np.hstack([np.where(positive, unlikely, likely), np.where(positive, likely, unlikely)])

    def decide(self, scores: Floats) -> npt.NDArray[np.intp]:
        """Return 1 for positive scores and 0 otherwise."""
        return (scores[:, 0] > 0).astype(np.intp)


@dataclass(frozen=True)
class Softmax(Link):
    """Link for other numbers of classes. Probabilities are proportional to the exponentials of the scores."""

    n_scores: int  # number of classes

    def predict(self, scores: Floats) -> Floats:
        """Return the probabilities of the classes."""
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Clip(Link):
    """Link for numeric targets. The score is in units of the target, and is clipped to its range."""

    low: float  # range of the target
    high: float
    quantum: float  # number of which all scores are multiples
    n_scores = 1

    @property
    def limits(self) -> tuple[float, float]:
        """Range of predictions: the target's range, rounded inwards to multiples of the quantum."""
        return math.ceil(self.low / self.quantum) * self.quantum, math.floor(self.high / self.quantum) * self.quantum

    @property
    def magnitude(self) -> float:
        """Maximum magnitude of the ends of the range."""
        return max(abs(self.low), abs(self.high))

    def in_quanta_of(self, quantum: float) -> Link:
        """Return the link for scores in multiples of another quantum."""
        return replace(self, quantum=quantum)

    def predict(self, scores: Floats) -> Floats:
        """Return the scores, clipped to the range."""
        return np.clip(scores, *self.limits)


def link_of(domain: Domain, quantum: float) -> Link:
    """Return the link of a domain's target, for scores that are multiples of ``quantum``."""
    if isinstance(domain.target, Numeric):
        return Clip(*bounds(domain.target), quantum)
    assert isinstance(domain.target, Categorical)
    n_classes = len(domain.target.categories)
    return Logistic() if n_classes == _BINARY else Softmax(n_classes)


MAX_FEATURES = 2
"""Maximum number of features of a term, because more could not be plotted."""
MAX_TERM_VALUES = 1 << 26
"""Maximum number of values in the tables of all terms, which is more than any useful model has."""

MAX_SUMS = 1 << 32
"""Maximum number of additions to make these tables. They take seconds, and a malicious file must not take hours."""

_Integers = npt.NDArray[np.int64]
_NO_CODES = np.zeros((1, 0), dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class Term:
    """Function of one or two features, constant on segments of their codes. Segments are ordered by first code."""

    features: tuple[int, ...]  # in ascending order
    segments: tuple[Codes, ...]  # shape (256,) each: segment of each code of each feature
    table: Floats  # shape (n_segments, [n_segments,] n_scores): contribution to the scores

    def values(self, codes: Codes) -> Floats:
        """Return the term's contribution to the scores of rows, given the codes of all features."""
        cells = tuple(segments[codes[:, j]] for j, segments in zip(self.features, self.segments, strict=True))
        return np.asarray(self.table[cells])


def segments_of(codes_as_rows: npt.NDArray[np.generic]) -> Codes:
    """Return the segment of each code. Codes with equal rows share a segment. Segments are ordered by first code."""
    _, first, inverse = np.unique(codes_as_rows, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.uint8)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse.ravel()])


def first_codes(segments: Codes) -> _Integers:
    """Return the first code of each segment."""
    return np.asarray(np.unique(segments, return_index=True)[1])


def collapse(trees: Trees) -> tuple[Floats, list[Term]]:
    """Return a constant and one term for each set of features that add up to the trees' values.

    The sum is exact if the values add up exactly. Raise a ValueError if a tree depends on more than two features, or if
    the tables would be too large.
    """
    firsts = trees.first_splits, trees.first_leaves
    by_features: dict[tuple[int, ...], list[int]] = {}
    for index, features in enumerate(features_of_trees(trees)):
        by_features.setdefault(features, []).append(index)
    if max(map(len, by_features), default=0) > MAX_FEATURES:
        raise ValueError(f"a tree splits on more than {MAX_FEATURES} features.")
    groups = {features: _Group(trees, np.array(indices), *firsts) for features, indices in by_features.items()}
    constants = groups.pop((), None)
    constant = np.zeros(trees.values.shape[1]) if constants is None else constants.sums((), _NO_CODES)[0]
    segments = {features: tuple(group.segments(j) for j in features) for features, group in groups.items()}
    sizes = {features: math.prod(int(s.max()) + 1 for s in of) for features, of in segments.items()}
    n_sums = sum(size * groups[features].n_trees for features, size in sizes.items())
    if sum(sizes.values()) * len(constant) > MAX_TERM_VALUES or n_sums * len(constant) > MAX_SUMS:
        raise ValueError("the trees divide their features into too many cells.")
    return constant, [groups[features].term(features, segments[features]) for features in sorted(groups)]


def dividing_splits(trees: Trees) -> npt.NDArray[np.bool_]:
    """Return which splits send at least one code to each side."""
    return np.asarray(trees.masks.any(axis=1) & (trees.masks != N_CODES - 1).any(axis=1))


def features_of_trees(trees: Trees) -> list[tuple[int, ...]]:
    """Return the features that each tree depends on, in ascending order."""
    divides = dividing_splits(trees)
    used = np.unique(np.stack([trees.tree_of_split[divides], trees.features[divides]]), axis=1)
    ends = np.searchsorted(used[0], np.arange(trees.n_trees + 1)).tolist()
    features = used[1].tolist()
    return [tuple(features[begin:end]) for begin, end in pairwise(ends)]


class _Group:
    """The trees of a model that depend on the same features."""

    def __init__(self, trees: Trees, indices: _Integers, first_splits: _Integers, first_leaves: _Integers) -> None:
        splits = np.concatenate([np.arange(first_splits[i], first_splits[i + 1]) for i in indices])
        self._depths, self.n_trees = trees.depths[indices], len(indices)
        self._first_splits = np.cumsum((1 << self._depths) - 1) - ((1 << self._depths) - 1)
        self._first_leaves = first_leaves[indices]
        self._features, self._masks, self._values = trees.features[splits], trees.masks[splits], trees.values

    def segments(self, feature: int) -> Codes:
        """Return the segments of a feature's codes. No split divides a segment."""
        masks = np.unique(self._masks[self._features == feature], axis=0)
        return segments_of(np.packbits(np.unpackbits(masks, axis=1, bitorder="little"), axis=0).T)

    def term(self, features: tuple[int, ...], segments: tuple[Codes, ...]) -> Term:
        """Return the sum of the trees as a term."""
        codes = [first_codes(s).astype(np.uint8) for s in segments]
        grid = np.stack(np.meshgrid(*codes, indexing="ij"), axis=-1)
        sums = self.sums(features, grid.reshape(-1, len(features)))
        return Term(features, segments, sums.reshape(*grid.shape[:-1], -1))

    def sums(self, features: tuple[int, ...], codes: Codes) -> Floats:
        """Return the sums of the leaf values of rows, given their codes of the features."""
        # Splits on other features send all codes to the same side, so they may read any column.
        sums = np.zeros((len(codes), self._values.shape[1]))
        trees_kernel.predict(
            np.hstack([codes, np.zeros((len(codes), 1), dtype=np.uint8)]),
            self._depths,
            self._first_splits,
            self._first_leaves,
            np.searchsorted(features, self._features).astype(np.int32),
            self._masks,
            self._values,
            np.empty(WALK_BLOCK_ROWS, dtype=np.int32),
            sums,
        )
        return sums


ADD_BLOCK_ROWS = 512
"""Number of rows per block in scoring, whose codes stay in the processor's first-level cache."""


@dataclass(frozen=True, eq=False)
class Effects:
    """Offset, main effects and interactions of an additive model."""

    offset: Floats  # shape (n_scores,): mean of the scores
    terms: tuple[Term, ...]  # nonzero terms: main effects, then interactions, in the order of their features

    def add_scores(self, codes: Codes, out: Floats) -> None:
        """Add the terms of rows to ``out``, of shape (n, n_scores)."""
        effects_kernel.scores(codes, *self.flat_terms, ADD_BLOCK_ROWS, out)

    @cached_property
    def flat_terms(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint16], _Integers, Floats]:
        """The terms as flat arrays, the arguments of `effects.scores`."""
        n_scores = len(self.offset)
        features = np.full((len(self.terms), 2), -1, dtype=np.int32)
        cells = np.zeros((2 * len(self.terms), N_CODES), dtype=np.uint16)
        for t, term in enumerate(self.terms):
            features[t, : len(term.features)] = term.features
            strides = np.cumprod([1, *term.table.shape[1:-1]])[::-1]
            for side, (segments, stride) in enumerate(zip(term.segments, strides, strict=True)):
                cells[2 * t + side] = segments.astype(np.int64) * stride  # NumPy 1 would wrap at 255
        tables = [term.table.reshape(-1, n_scores) for term in self.terms]
        first_values = np.cumsum([0, *map(len, tables)])[:-1]
        return features, cells, first_values, np.concatenate([*tables, np.zeros((0, n_scores))])


def separate(offset: Floats, terms: list[Term], quantum: float, code_weights: Floats) -> Effects:
    """Return the effects that add up to the given terms. ``code_weights`` has the shape (n_features, 256)."""
    constant = _to_integers(offset, quantum)
    used = {j for term in terms for j in term.features}
    main = {j: np.zeros((N_CODES, len(offset)), dtype=np.int64) for j in sorted(used)}
    pairs = []
    for term in terms:
        table = _to_integers(term.table, quantum)
        if len(term.features) == 1:
            main[term.features[0]] += table[term.segments[0]]
            continue
        mean, by_first, by_second = _means(table, *segment_shares(term, code_weights))
        constant += mean
        main[term.features[0]] += by_first[term.segments[0]]
        main[term.features[1]] += by_second[term.segments[1]]
        pure = table - mean - by_first[:, None] - by_second
        pairs.append(Term(term.features, term.segments, _to_floats(pure, quantum)))
    mains = []
    for j, by_code in main.items():
        mean = _rounded(code_shares(code_weights[j]) @ by_code)
        constant += mean
        segments = segments_of(by_code)
        mains.append(Term((j,), (segments,), _to_floats(by_code[first_codes(segments)] - mean, quantum)))
    return Effects(_to_floats(constant, quantum), tuple(term for term in (*mains, *pairs) if term.table.any()))


def _means(table: _Integers, first: Floats, second: Floats) -> tuple[_Integers, _Integers, _Integers]:
    """Return the mean of a table, and the deviations of its row and column means from it, all rounded."""
    by_first, by_second = np.tensordot(table, second, ([1], [0])), np.tensordot(first, table, ([0], [0]))
    mean = first @ by_first
    return _rounded(mean), _rounded(by_first - mean), _rounded(by_second - mean)


def code_shares(code_weights: Floats) -> Floats:
    """Return the share of the records with each code of a feature, or equal shares if there are no records."""
    weights = np.maximum(code_weights, 0.0)
    largest = weights.max()
    if largest == 0:
        return np.full(N_CODES, 1 / N_CODES)
    return np.asarray(weights / largest / (weights / largest).sum())  # scaled, because the sum could overflow


def segment_shares(term: Term, code_weights: Floats) -> list[Floats]:
    """Return the share of the records in each segment, for each feature of a term."""
    return [
        np.bincount(segments, code_shares(code_weights[j])).astype(np.float64)
        for j, segments in zip(term.features, term.segments, strict=True)
    ]


def deviation(term: Term, code_weights: Floats) -> float:
    """Return the standard deviation of a term over the records, for several scores without their common mean."""
    table = term.table
    if table.shape[-1] > 1:  # adding the same value to all scores does not change probabilities
        table = table - table.mean(axis=-1, keepdims=True)
    squares = np.asarray((table**2).mean(axis=-1))
    for shares in segment_shares(term, code_weights):
        squares = np.tensordot(shares, squares, ([0], [0]))
    return float(np.sqrt(squares))


def _to_integers(values: Floats, quantum: float) -> _Integers:
    return np.asarray((values / quantum).astype(np.int64))


def _to_floats(integers: _Integers, quantum: float) -> Floats:
    return np.asarray(integers * np.float64(quantum))


def _rounded(values: Floats) -> _Integers:
    return np.rint(values).astype(np.int64)
