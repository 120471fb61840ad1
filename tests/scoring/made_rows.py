"""Records and references of made-up classifiers and regressors, for tests of single steps of a score."""

import numpy as np

from diprime._util.resources import Threads
from diprime.execution.partition import encode_batches
from diprime.privacy.measures import exact_epsilon
from diprime.privacy.randomness import RandomSource
from diprime.scoring.intervals import Reference, TableReleases
from diprime.scoring.rows import PredictRows, ScoredRows
from tests.paid import open_account


def read_records(model, batches):
    """Return the records of batches, with predictions."""
    (part,) = encode_batches(batches, model.domain_, 1, mark_outside=True).parts
    with Threads(1) as threads:
        return PredictRows(model.forest_, model.domain_)(part, threads)


def records_of_two(scores, targets):
    """Return records with log-odds of the second class."""
    scores = np.asarray(scores, dtype=float)
    return ScoredRows(np.asarray(targets, dtype=np.int64), (scores > 0).astype(np.int64), scores[:, None])


def records_of_many(scores, targets):
    """Return records with probabilities of several classes."""
    scores = np.asarray(scores, dtype=float)
    return ScoredRows(np.asarray(targets, dtype=np.int64), scores.argmax(axis=1), scores)


def reference_of_two(scores):
    """Return the reference of a classifier that gives such log-odds."""
    scores = np.asarray(scores, dtype=float)
    return (scores > 0).astype(np.int64), [Reference(scores, np.ones(len(scores)), False, True)]


def reference_of_many(scores):
    """Return the reference of a classifier that gives such probabilities."""
    scores = np.asarray(scores, dtype=float)
    return scores.argmax(axis=1), [Reference(column, np.ones(len(scores)), False) for column in scores.T]


def tables(plan, epsilon=1.0, seed=0):
    """Return tables that release for a given plan, a function of epsilon."""
    exact = exact_epsilon(epsilon)
    return TableReleases(plan(exact), open_account(exact), RandomSource(seed))
