"""What a released model says of records, one by one, and of made-up rows.

Each record is mapped by itself: neither its class nor its scores depend on other records, to the last bit. Sums of
scores of a boosted model are exact, exponentials are taken one by one, and the kernels add up the trees of a forest in
the same order for each row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.domain.batches import EncodedBatches, check_lengths
from diprime.domain.encoding import Rows
from diprime.domain.persons import MIXED_GROUPS, PersonIndex, has_groups
from diprime.engines.persons import choose_records
from diprime.estimators.base import sorted_classes
from diprime.estimators.parameters import N_JOBS
from diprime.estimators.trees import PrivateTrees
from diprime.model.additive import AdditiveForest
from diprime.model.forest import Forest
from diprime.privacy.randomness import RandomSource
from diprime.scoring.bins import Reference
from diprime.scoring.cells import Floats

N_MADE_UP = 8192
TWO = 2

_exponentials = np.frompyfunc(math.exp, 1, 1)


@dataclass(frozen=True)
class Records:
    """Encoded targets of records, and what a model says of them.

    Attributes
    ----------
    targets : array of shape (n,)
        The index of the class in ``classes_``, or a number in units of the target's range.
    decisions : array of shape (n,)
        The index of the predicted class; zero for numbers.
    scores : array of shape (n, n_scores)
        For two classes the probability, or the log-odds, of the second; for more classes the probability of each; the
        predicted number otherwise.
    """

    targets: npt.NDArray[np.int64]
    decisions: npt.NDArray[np.int64]
    scores: Floats


def read_records(
    model: PrivateTrees, batches: Iterable[tuple[Any, ...]], source: RandomSource | None = None
) -> Records:
    """Read records in batches. Those without a valid target are left out, as they are in a fit, and nothing tells.

    With a source, the batches have persons, and one record of each is kept, drawn as in a fit.
    """
    layout, n_rows = model.domain_.layout, 0
    none = np.zeros(0, dtype=np.int64)
    parts = [(none, none, np.zeros((0, layout.n_outputs if layout.n_outputs != TWO else 1)))]
    index, persons = PersonIndex(), [none]
    for batch in batches:
        X, y, *groups = batch
        if has_groups(batch) != (source is not None):
            raise ValueError(MIXED_GROUPS)
        rows = model._reader(X)
        n_rows += rows.n_rows
        if n_rows > layout.max_rows:  # as in a fit: sums of more could exceed what the mechanism allows
            raise ValueError(f"There are more rows than the {layout.max_rows:,} that are supported.")
        parts.append(_read_batch(model, rows, y))
        if source is not None:
            persons.append(index.encode(groups[0]))
            check_lengths(rows.n_rows, parts[-1][0], persons[-1])
    targets, decisions, scores = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    if source is not None:
        targets = choose_records(targets, np.concatenate(persons), 1, source).target
    known = targets >= 0
    return Records(targets[known], decisions[known], scores[known])


_Batch = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]


def _read_batch(model: PrivateTrees, rows: Rows, y: Any) -> _Batch:
    domain, n_threads = model.domain_, N_JOBS.check(model.n_jobs)
    targets = domain.encode_target(y, n_threads=n_threads).astype(np.int64)
    if len(targets) != rows.n_rows:
        sizes = [rows.n_rows, len(targets)]
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {sizes}.")
    with Threads(n_threads) as threads:
        decisions, scores = _scores(model, rows, threads)
    if domain.task == "classification":
        rank = np.argsort(sorted_classes(domain)[0])  # of each class of the domain in classes_
        targets = np.where(targets < 0, -1, rank[targets])
    return targets, decisions, scores


def _scores(model: PrivateTrees, rows: Rows, threads: Threads) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the decision about each row, and its scores."""
    forest = model.forest_
    if model.domain_.task == "regression":
        means = np.clip(forest.predict(rows, threads), *model.domain_.output_range)
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
    """Return probabilities proportional to the exponentials of scores.

    Exponentials of arrays may differ in the last bit with the place in the array, which depends on other records. So
    they are taken one by one, and added up class by class.
    """
    odds = _exponentials(scores - scores.max(axis=1, keepdims=True)).astype(np.float64)
    total = np.zeros(len(odds))
    for k in range(odds.shape[1]):
        total += odds[:, k]
    return np.asarray(odds / total[:, None])


def reference_scores(model: PrivateTrees) -> tuple[npt.NDArray[np.int64], list[Reference]]:
    """Return decisions about rows that there may be, and what scores the model gives them, from the model alone.

    The scores of a single tree are those of its leaves. Otherwise they are those of made-up rows, drawn by the numbers
    of records that a boosted model has released for each code, or weighted by those that a forest has for each leaf.
    """
    forest = model.forest_
    if isinstance(forest, Forest) and forest.n_trees == 1 and model.domain_.task == "classification":
        values = forest.weighted_values
        is_binary = values.shape[1] == TWO
        decisions = values[:, 1] > values[:, 0] if is_binary else values.argmax(axis=1)
        columns = values[:, 1:] if is_binary else values
        return decisions.astype(np.int64), [Reference(column, forest.counts, True) for column in columns.T]
    rows = _made_up_rows(model.domain_, forest)
    with Threads(1) as threads:
        decisions, scores = _scores(model, rows, threads)
        weights = np.ones(N_MADE_UP) if isinstance(forest, AdditiveForest) else _leaf_weights(forest, rows, threads)
    is_log_odds = isinstance(forest, AdditiveForest) and model.domain_.task == "classification" and scores.shape[1] == 1
    ranges = score_ranges(model)
    return decisions, [Reference(c, weights, False, is_log_odds, r) for c, r in zip(scores.T, ranges, strict=True)]


def score_ranges(model: PrivateTrees) -> list[tuple[float, float]]:
    """Return bounds of all scores that a model can give, from the model alone."""
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


def _made_up_rows(domain: Domain, forest: Forest | AdditiveForest) -> EncodedBatches:
    """Return rows whose features are independent; the same ones for every test of a model."""
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
    """Return weights with which the rows fill the leaves of each tree, on average, as records did in the fit."""
    leaves = forest.apply(rows, threads)
    weights = np.zeros(rows.n_rows)
    for tree in range(forest.n_trees):
        counts = np.maximum(forest.counts[slice(*forest.first_leaves[tree : tree + 2])], 0.0)
        made_up = np.bincount(leaves[:, tree], minlength=len(counts))
        weights += (counts / np.maximum(made_up, 1))[leaves[:, tree]]
    return weights if weights.sum() > 0 else np.ones(rows.n_rows)
