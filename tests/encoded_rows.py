"""Codes that a test has made itself, as the rows that engines and forests read."""

import numpy as np

from diprime.engines.assignment import DrawnTrees
from diprime.engines.partition import LocalPartitions, Partition
from diprime.engines.partitioned import PartitionedEngine
from diprime.engines.partitioned_scores import PartitionedScoreEngine
from diprime.engines.persons import UsedRecords
from diprime.privacy.randomness import RandomSource


class EncodedRows:
    numbers = None

    def __init__(self, codes):
        self.codes = codes
        self.n_rows, self.n_features = codes.shape

    def read(self, start, stop, out):
        out[:] = self.codes[start:stop]


class FixedAssignment:
    """Trees that a test has chosen for the rows."""

    def __init__(self, trees, n_trees):
        self.trees = trees
        self.n_trees = n_trees

    def draws(self, sizes, source):
        assert sum(sizes) == len(self.trees)
        return [DrawnTrees(part) for part in np.split(self.trees, np.cumsum(sizes)[:-1])]


def draws_by(coins):
    """Return what draws the trees of rows in place of an assignment: by coins that the test has tossed."""

    def draws(assignment, sizes, source):
        trees = (coins[: sum(sizes)] % assignment.n_trees).astype(np.uint16)
        return FixedAssignment(trees, assignment.n_trees).draws(sizes, source)

    return draws


def drawn_trees(assignment, n_rows, source, threads):
    """Return the tree of each row, of which all are in one partition."""
    (draws,) = assignment.draws([n_rows], source)
    return draws.draw(threads)


def partitions_of(rows, target, weights=None, cuts=()):
    """Return rows in partitions that begin at 0 and at the cuts."""
    if not len(cuts):
        return LocalPartitions([Partition(rows, UsedRecords(target, weights))])
    parts = [np.split(array, cuts) for array in (rows.codes, target)]
    parts.append([None] * (len(cuts) + 1) if weights is None else np.split(weights, cuts))
    return LocalPartitions([Partition(EncodedRows(c), UsedRecords(t, w)) for c, t, w in zip(*parts, strict=True)])


def tree_engine(rows, target, layout, threads, weights=None, *, kind=PartitionedEngine, cuts=()):
    """Return an engine of rows that are in no tree yet."""
    executor = partitions_of(rows, target, weights, cuts).executor(threads)
    return kind(executor, rows.n_features, layout, threads)


def score_engine(rows, target, layout, threads, weights=None, *, kind=PartitionedScoreEngine, cuts=()):
    """Return an engine of boosting."""
    return kind(partitions_of(rows, target, weights, cuts).executor(threads), layout)


def rooted_engine(codes, target, trees, n_trees, layout, threads, kind=PartitionedEngine, cuts=()):
    """Return an engine whose rows are at the roots of trees that the test has chosen."""
    engine = tree_engine(EncodedRows(codes), target, layout, threads, kind=kind, cuts=cuts)
    engine.assign_trees(FixedAssignment(np.asarray(trees, dtype=np.uint16), n_trees), RandomSource(0))
    engine.start()
    return engine


def joined(executor):
    """Return all codes, targets and weights of the partitions of an executor in this process."""
    codes, targets, weights = [], [], []
    for part in executor._states:
        codes.append(np.empty((part.rows.n_rows, part.rows.n_features), dtype=np.uint8))
        part.rows.read(0, part.rows.n_rows, codes[-1])
        targets.append(part.records.target)
        given = part.records.weights
        weights.append(np.ones(len(targets[-1]), dtype=np.uint8) if given is None else given)
    return np.concatenate(codes), np.concatenate(targets), np.concatenate(weights)


def bins_of(engine, begin, end):
    """Return the histograms of a chunk, a row for each node."""
    found = engine.histograms(begin, end)
    if found.values is None:
        return found.bins[found.rows]
    return (found.bins[found.rows] << np.uint64(engine._layout.shift)) | found.values[found.rows]
