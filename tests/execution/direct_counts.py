"""Rows for tests of engines, and their sums counted directly: no bins, no windows' tables, no subtraction."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from diprime.domain.encoding import ClippingRanges, TargetLayout
from tests.encoded_rows import rooted_engine

LAYOUTS = {
    "one class": TargetLayout.of_classes(1),
    "binary": TargetLayout.of_classes(2),
    "classes": TargetLayout.of_classes(5),
    "number": TargetLayout.of_number(4096),
}
N_FEATURES = 3


def windows_of(*pairs):
    """Return windows from pairs of their ends."""
    low, high = np.array(pairs, dtype=np.int64).T
    return ClippingRanges(low, high)


def seen_through(windows, target, nodes, layout):
    """Return numeric targets as the windows of their nodes show them: ends are those of the range, in whole units."""
    if layout.units == 1:
        return target
    low, high = windows.low[nodes].tolist(), windows.high[nodes].tolist()
    values = np.asarray(target).tolist()
    return np.array([_seen(*each, layout.units) for each in zip(values, low, high, strict=True)], dtype=np.int32)


@cache
def _seen(value, low, high, units):
    share = min(max(Fraction(value - low, high - low), Fraction(0)), Fraction(1))
    return math.floor(share * units + Fraction(1, 2))


def vectors_of(target, layout):
    """Return the vector of every record."""
    if layout.units > 1:
        return np.stack([layout.units - target, target], axis=1).astype(np.int64)
    return np.eye(layout.n_outputs, dtype=np.int64)[target]


@dataclass
class MadeRows:
    """Rows of a test, and the trees that they are in."""

    layout: TargetLayout
    n_trees: int
    codes: Any
    target: Any
    trees: Any

    @classmethod
    def draw(cls, layout, n, seed, n_trees=1, left_out=0.1):
        """Draw rows; a share of them has no valid target."""
        rng = np.random.default_rng(seed)
        codes = rng.integers(0, 256, size=(n, N_FEATURES)).astype(np.uint8)
        codes[:, 0] %= 5  # a feature of few codes
        target = rng.integers(0, layout.n_targets, size=n).astype(np.int32)
        target[rng.random(n) < left_out] = -1
        return cls(layout, n_trees, codes, target, rng.integers(0, n_trees, size=n).astype(np.uint16))

    def engine(self, threads):
        """Return an engine with these rows at the roots."""
        return rooted_engine(self.codes, self.target, self.trees, self.n_trees, self.layout, threads)

    def only(self, kept):
        """Return some of the rows, in any order."""
        return MadeRows(self.layout, self.n_trees, self.codes[kept], self.target[kept], self.trees[kept])


class DirectCounts:
    """The sums that an engine with these rows should give, level by level."""

    def __init__(self, made):
        kept = made.target >= 0
        self.layout, self.codes, self.target = made.layout, made.codes[kept], made.target[kept]
        self.nodes, self.n_nodes = made.trees[kept].astype(np.int64), made.n_trees
        self.seen = self.target

    def set_windows(self, windows):
        """See targets through the windows of the nodes, or through the one of all."""
        nodes = self.nodes if len(windows) > 1 else np.zeros_like(self.nodes)
        self.seen = seen_through(windows, self.target, nodes, self.layout)

    def histograms(self):
        """Return counts and sums of values: a row for each node, in the order of an engine's bins."""
        shape = (self.n_nodes, N_FEATURES, 256, self.layout.n_columns)
        counts, values = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        several = self.layout.n_columns > 1
        column = self.seen if several else np.zeros_like(self.seen)
        value = np.ones_like(self.seen) if several else self.seen
        for j in range(N_FEATURES):
            np.add.at(counts, (self.nodes, j, self.codes[:, j], column), 1)
            np.add.at(values, (self.nodes, j, self.codes[:, j], column), value)
        return counts.reshape(self.n_nodes, -1), values.reshape(self.n_nodes, -1)

    def route(self, features, masks):
        """Send the rows to the children of their nodes."""
        at = self.codes[np.arange(len(self.nodes)), features[self.nodes]]
        self.nodes = 2 * self.nodes + ((masks[self.nodes, at >> 3] >> (at & 7)) & 1)
        self.n_nodes *= 2

    def node_target_counts(self):
        """Return how many records of every node have each value of the target."""
        n = self.layout.n_targets
        return np.bincount(self.nodes * n + self.target, minlength=self.n_nodes * n).reshape(self.n_nodes, n)

    def node_sums(self, window):
        """Return the sum of the records' vectors at every node, through one window."""
        sums = np.zeros((self.n_nodes, self.layout.n_outputs), dtype=np.int64)
        seen = seen_through(window, self.target, np.zeros_like(self.nodes), self.layout)
        np.add.at(sums, self.nodes, vectors_of(seen, self.layout))
        return sums
