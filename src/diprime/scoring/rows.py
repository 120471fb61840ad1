"""Predictions of a released model for partitioned test rows and for synthetic rows.

The decision and the scores of a record do not depend on other records, not even in the last bit: boosted scores are
exact sums, exponentials are computed one by one, and the kernels add up the trees of a forest in the same order for
each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads
from diprime.domain import Domain
from diprime.domain.encoding import Rows
from diprime.domain.features import TARGET_UNITS
from diprime.domain.records import EncodedBatches
from diprime.estimators.base import sorted_classes
from diprime.estimators.trees import PrivateTrees
from diprime.execution.executor import PartialSum
from diprime.execution.partition import Partition, Partitions, check_sizes, stored
from diprime.model.additive import AdditiveForest
from diprime.model.trees import Forest
from diprime.scoring.intervals import Floats, Reference

N_MADE_UP = 8192
N_NUMBERS = TARGET_UNITS + 1
"""Number of codes of numeric targets within their range."""
TWO = 2

Integers = npt.NDArray[np.int64]

_exponentials = np.frompyfunc(math.exp, 1, 1)


@dataclass(frozen=True)
class ScoredRows:
    """Encoded targets of records, with the predictions of a model.

    Targets are indices in ``classes_``, or numbers in units of 1/``TARGET_UNITS`` of the target's range. Outside the
    domain, the code of a class is the number of classes, and that of a number is ``N_NUMBERS`` plus its clipped code.
    """

    targets: npt.NDArray[np.int64]
    decisions: npt.NDArray[np.int64]  # shape (n,): index of the predicted class; zero for numbers
    # Shape (n, n_scores): the predicted number; for two classes, the probability or log-odds of the second one; for
    # more classes, the probability of each.
    scores: Floats

    def copy(self) -> ScoredRows:
        """Return the same records, because no update changes them in place."""
        return self

    def count(self, table: Callable[..., Integers], *arguments: Any) -> Integers:
        """Return a table of counts."""
        return table(self, *arguments)


class Counted(Protocol):
    """Scored records, in any storage."""

    def count(self, table: Callable[..., Integers], *arguments: Any) -> Integers:
        """Return the sum of a table over all records, given public arguments."""


@dataclass(frozen=True)
class TableCounts:
    """Query for a table of counts, which is a function of records and public arguments."""

    table: Callable[..., Integers]
    arguments: tuple[Any, ...]

    def __call__(self, state: ScoredRows, threads: Threads, out: PartialSum | None = None) -> Integers:
        """Count the records of a partition."""
        return self.table(state, *self.arguments)


@dataclass(frozen=True)
class PredictRows:
    """Update that replaces encoded rows by records with predictions, and drops records without a target."""

    forest: Forest | AdditiveForest
    domain: Domain

    def __call__(self, state: Partition, threads: Threads) -> ScoredRows:
        """Predict all rows."""
        decisions, scores = predicted_scores(self.forest, self.domain, state.rows, threads)
        known = np.flatnonzero(state.records.target >= 0)
        targets = state.records.target[known].astype(np.int64)
        if self.domain.task == "classification":
            rank = np.argsort(sorted_classes(self.domain)[0])  # position in classes_ of each class of the domain
            targets = np.append(rank, len(rank))[targets]
        kept = ((targets, np.int64), (decisions[known], np.int64), (scores[known], np.float64))
        return ScoredRows(*(stored(values, state.memory, dtype) for values, dtype in kept))


class ScoredPartitions:
    """Partitioned records, with the predictions of a model."""

    def __init__(self, model: PrivateTrees, partitions: Partitions, threads: Threads) -> None:
        self._executor = partitions.executor(threads)
        sizes = self._executor.sizes
        check_sizes(sizes)  # as in a fit: 2^40 records of weight 4096 reach the mechanism's limit of 2^52
        self._executor.apply([PredictRows(model.forest_, model.domain_)] * len(sizes))
        self._executor.sum(TableCounts(count_records, ()))  # predict now, so that failures precede the charge

    def count(self, table: Callable[..., Integers], *arguments: Any) -> Integers:
        """Return a table of counts."""
        return np.asarray(self._executor.sum(TableCounts(table, arguments)))


def count_records(records: ScoredRows) -> Integers:
    """Return the number of records."""
    return np.array(len(records.targets), dtype=np.int64)


def predicted_scores(
    forest: Forest | AdditiveForest, domain: Domain, rows: Rows, threads: Threads
) -> tuple[Integers, Floats]:
    """Return the decision for each row, and its scores."""
    if domain.task == "regression":
        means = np.clip(forest.predict(rows, threads), *domain.output_range)
        return np.zeros(len(means), dtype=np.int64), means
    if isinstance(forest, AdditiveForest):
        scores = forest.scores(rows, threads)
        decisions = forest.link.decide(scores)
        return decisions.astype(np.int64), scores if forest.link.n_scores == 1 else shares(scores)
    means = forest.predict(rows, threads)
    if means.shape[1] == TWO:
        return (means[:, 1] > means[:, 0]).astype(np.int64), means[:, 1:]
    return means.argmax(axis=1), means


def shares(scores: Floats) -> Floats:
    """Return probabilities proportional to the exponentials of scores (softmax).

    The last bit of a vectorized exponential may depend on the position in the array, and thus on other records.
    Exponentials are therefore computed one by one and added up class by class.
    """
    odds = _exponentials(scores - scores.max(axis=1, keepdims=True)).astype(np.float64)
    total = np.zeros(len(odds))
    for k in range(odds.shape[1]):
        total += odds[:, k]
    return np.asarray(odds / total[:, None])


def reference_scores(model: PrivateTrees) -> tuple[Integers, list[Reference]]:
    """Return decisions and scores for rows like those of the fit, computed from the model alone.

    For a single classification tree, they are those of its leaves. Otherwise, they are those of synthetic rows: for a
    boosted model, sampled by the released record counts of the codes; for a forest, weighted by those of the leaves.
    """
    forest = model.forest_
    if isinstance(forest, Forest) and forest.n_trees == 1 and model.domain_.task == "classification":
        values = forest.weighted_values
        is_binary = values.shape[1] == TWO
        decisions = values[:, 1] > values[:, 0] if is_binary else values.argmax(axis=1)
        columns = values[:, 1:] if is_binary else values
        return decisions.astype(np.int64), [Reference(column, forest.counts, True) for column in columns.T]
    rows = _synthetic_rows(model.domain_, forest)
    with Threads(1) as threads:
        decisions, scores = predicted_scores(forest, model.domain_, rows, threads)
        weights = np.ones(N_MADE_UP) if isinstance(forest, AdditiveForest) else _leaf_weights(forest, rows, threads)
    is_log_odds = isinstance(forest, AdditiveForest) and model.domain_.task == "classification" and scores.shape[1] == 1
    ranges = score_ranges(model)
    return decisions, [Reference(c, weights, False, is_log_odds, r) for c, r in zip(scores.T, ranges, strict=True)]


def score_ranges(model: PrivateTrees) -> list[tuple[float, float]]:
    """Return bounds on all possible scores of a model, computed from the model alone."""
    forest = model.forest_
    if isinstance(forest, AdditiveForest):
        if len(forest.offset) > 1:
            return [(0.0, 1.0)] * len(forest.offset)
        tables = [term.table for term in forest.effects.terms]
        ends = [forest.effects.offset + sum(end(table) for table in tables) for end in (np.min, np.max)]
    else:
        values, first = forest.weighted_values, forest.first_leaves[:-1]
        ends = [end.reduceat(values, first).sum(axis=0) for end in (np.minimum, np.maximum)]
    low, high = (end[1:] if len(end) == TWO else end for end in ends)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _synthetic_rows(domain: Domain, forest: Forest | AdditiveForest) -> EncodedBatches:
    """Return synthetic rows with independent features, always the same ones for a model."""
    rng = np.random.default_rng(0)
    codes = np.empty((N_MADE_UP, domain.n_features), dtype=np.uint8)
    for j, n_codes in enumerate(domain.n_codes.tolist()):
        chances = np.ones(n_codes)
        if isinstance(forest, AdditiveForest):
            released = np.maximum(forest.code_weights[j], 0.0)
            chances = released if released.sum() > 0 else chances
        places = np.cumsum(chances) / chances.sum()
        codes[:, j] = np.minimum(np.searchsorted(places, rng.random(N_MADE_UP), side="right"), len(places) - 1)
    return EncodedBatches(domain.n_features, [codes])


def _leaf_weights(forest: Forest, rows: EncodedBatches, threads: Threads) -> Floats:
    """Return row weights that reproduce, on average over the trees, the released record counts of the leaves."""
    leaves = forest.apply(rows, threads)
    weights = np.zeros(rows.n_rows)
    for tree in range(forest.n_trees):
        counts = np.maximum(forest.counts[slice(*forest.first_leaves[tree : tree + 2])], 0.0)
        n_synthetic = np.bincount(leaves[:, tree], minlength=len(counts))
        weights += (counts / np.maximum(n_synthetic, 1))[leaves[:, tree]]
    return weights if weights.sum() > 0 else np.ones(rows.n_rows)
