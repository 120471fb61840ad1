"""Rows with given codes, for tests of engines and forests."""

import numpy as np

from diprime._util.resources import Threads
from diprime.boosting.engine import BoostingEngine
from diprime.boosting.gradients import CurveGrid
from diprime.execution import groups
from diprime.execution.partition import LocalPartitions, Partition, SampledRecords
from diprime.forest.engine import ForestEngine
from diprime.forest.rows import DrawnTrees
from diprime.privacy.randomness import RandomSource


class EncodedRows:
    numbers = None

    def __init__(self, codes):
        self.codes = codes
        self.n_rows, self.n_features = codes.shape

    def read(self, start, stop, out):
        out[:] = self.codes[start:stop]


class FixedAssignment:
    """Assignment of rows to given trees."""

    def __init__(self, trees, n_trees):
        self.trees = trees
        self.n_trees = n_trees

    def draws(self, sizes, source):
        assert sum(sizes) == len(self.trees)
        return [DrawnTrees(part) for part in np.split(self.trees, np.cumsum(sizes)[:-1])]


def draws_by(coins):
    """Return a replacement for an assignment's ``draws`` that assigns trees by the given coins."""

    def draws(assignment, sizes, source):
        trees = (coins[: sum(sizes)] % assignment.n_trees).astype(np.uint16)
        return FixedAssignment(trees, assignment.n_trees).draws(sizes, source)

    return draws


def drawn_trees(assignment, n_rows, source, threads):
    """Return the tree of each row in a single partition."""
    (draws,) = assignment.draws([n_rows], source)
    return draws.draw(threads)


def partitions_of(rows, target, weights=None, cuts=()):
    """Return partitioned rows; the partitions begin at 0 and at the cuts."""
    if not len(cuts):
        return LocalPartitions([Partition(rows, SampledRecords(target, weights))])
    parts = [np.split(array, cuts) for array in (rows.codes, target)]
    parts.append([None] * (len(cuts) + 1) if weights is None else np.split(weights, cuts))
    return LocalPartitions([Partition(EncodedRows(c), SampledRecords(t, w)) for c, t, w in zip(*parts, strict=True)])


def digests_of(people):
    """Return digests of numbered people, which sort differently than the numbers. A negative number means no person."""
    people = np.asarray(people, dtype=np.int64)
    mixed = (people.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return np.where(people[:, None] < 0, np.uint64(0), np.stack([mixed, ~mixed], axis=1))


def bound_contributions(target, people, k, source, cuts=(), executor=None):
    """Return the used records of numbered people; the partitions begin at 0 and at the cuts."""
    parts = [
        Partition(
            EncodedRows(np.zeros((len(some), 1), dtype=np.uint8)), SampledRecords(some, persons=digests_of(whose))
        )
        for some, whose in zip(np.split(target, cuts), np.split(np.asarray(people), cuts), strict=True)
    ]
    partitions = LocalPartitions(parts)
    if executor is not None:
        partitions = Executed(parts, executor)
    with Threads(1) as threads:
        (updates,) = groups.bound_contributions(partitions, k, source, threads).updates
        used = [update(part, threads).records for update, part in zip(updates, parts, strict=True)]
    weights = [some.weights for some in used]
    whole = None if weights[0] is None else np.concatenate(weights)
    return SampledRecords(np.concatenate([some.target for some in used]), whole)


class Executed:
    """Partitions with a given class of executors."""

    of_persons = True

    def __init__(self, parts, kind):
        self.parts = parts
        self.kind = kind

    def executor(self, threads, first=(), sizes=None):
        made = self.kind(self.parts, sizes or [part.rows.n_rows for part in self.parts], threads)
        for steps in first:
            made.apply(steps)
        return made


def tree_engine(rows, target, layout, threads, weights=None, *, kind=ForestEngine, cuts=()):
    """Return a forest engine whose rows are not assigned to trees yet."""
    executor = partitions_of(rows, target, weights, cuts).executor(threads)
    return kind(executor, rows.n_features, layout, threads)


def random_curves(rng, n_features, n_scores, unit=1 << 10):
    """Return random curves of some features, with basis vectors that are shorter or longer than the unit."""
    features = rng.permutation(n_features)[: rng.integers(1, n_features + 1)].astype(np.int32)
    values = rng.integers(-(2**20), 2**20, (len(features), 256, n_scores)).astype(np.int32)
    norms = rng.integers(0, 2 * unit**2 // len(features) + 1, (len(features), 256))
    offset = rng.integers(-(2**20), 2**20, n_scores).astype(np.int32)
    return CurveGrid(features, offset, values, norms, int(rng.integers(0, unit**2)), unit)


def score_engine(rows, target, layout, threads, weights=None, *, kind=BoostingEngine, cuts=()):
    """Return a boosting engine."""
    return kind(partitions_of(rows, target, weights, cuts).executor(threads), layout)


def rooted_engine(codes, target, trees, n_trees, layout, threads, kind=ForestEngine, cuts=()):
    """Return a forest engine whose rows are at the roots of the given trees."""
    engine = tree_engine(EncodedRows(codes), target, layout, threads, kind=kind, cuts=cuts)
    engine.assign_trees(FixedAssignment(np.asarray(trees, dtype=np.uint16), n_trees), RandomSource(0))
    engine.start()
    return engine


def joined(executor):
    """Return the concatenated codes, targets and weights of an executor in this process."""
    codes, targets, weights = [], [], []
    for part in executor._states:
        codes.append(np.empty((part.rows.n_rows, part.rows.n_features), dtype=np.uint8))
        part.rows.read(0, part.rows.n_rows, codes[-1])
        targets.append(part.records.target)
        given = part.records.weights
        weights.append(np.ones(len(targets[-1]), dtype=np.uint8) if given is None else given)
    return np.concatenate(codes), np.concatenate(targets), np.concatenate(weights)


def bins_of(engine, begin, end):
    """Return the histograms of the nodes from ``begin`` to ``end``, with one row per node."""
    found = engine.histograms(begin, end)
    if found.values is None:
        return found.bins[found.row_of_node]
    return (found.bins[found.row_of_node] << np.uint64(engine._layout.shift)) | found.values[found.row_of_node]
