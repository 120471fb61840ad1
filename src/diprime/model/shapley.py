"""Explanations of forests: what each feature adds to a prediction, by Shapley values of the released trees.

What a tree predicts if some features are not known is the mean over the leaves that a row could reach, weighted by the
released numbers of records. Released counts are noisy: negative ones are taken as zero. Nothing else is used, so
explanations cost no privacy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.domain.encoding import Rows
from diprime.kernels import explaining
from diprime.model.explanation import Explanation
from diprime.model.forest import Forest
from diprime.model.trees import Codes, Floats

BLOCK_ROWS = 64
"""How many rows are explained together: the path to a leaf is looked up once for all of them."""
_BINARY = 2


def node_shares(counts: Floats) -> Floats:
    """Return, for all nodes of a tree in heap order, the share of the parent's records; half where there are none.

    Examples
    --------
    >>> node_shares(np.array([3.0, 1.0, -2.0, 0.0])).tolist()
    [1.0, 1.0, 0.0, 0.75, 0.25, 0.5, 0.5]
    """
    level = np.maximum(counts, 0.0)
    shares = []
    while len(level) > 1:
        pairs = level.reshape(-1, 2)
        level = pairs.sum(axis=1)
        shares.append(np.divide(pairs, level[:, None], out=np.full_like(pairs, 0.5), where=level[:, None] > 0).ravel())
    return np.concatenate([np.ones(1), *shares[::-1]])


def mean_value(shares: Floats, values: Floats) -> Floats:
    """Return what a tree predicts if nothing is known of a row."""
    while len(values) > 1:
        weighted = values * shares[len(values) - 1 : 2 * len(values) - 1, None]
        values = weighted.reshape(-1, 2, values.shape[1]).sum(axis=1)
    return np.asarray(values[0])


def explain_forest(
    forest: Forest, domain: Domain, rows: Rows, threads: Threads, classes: list[Any] | None
) -> Explanation:
    """Return what each feature adds to the predictions of rows.

    Parameters
    ----------
    forest : Forest
        The model.
    domain : Domain
        Its domain.
    rows : Rows
        The rows.
    threads : Threads
        The threads that share the work.
    classes : list or None
        The classes, in the order of the outputs; None if the target is a number. Of two, only the second is explained.
    """
    first = 1 if classes is not None and len(classes) == _BINARY else 0
    values = np.ascontiguousarray(forest.weighted_values[:, first:])
    n_outputs = values.shape[1]
    trees = [_Tree(forest, values, tree) for tree in range(forest.n_trees)]
    contributions = np.zeros((rows.n_rows, domain.n_features, n_outputs))
    flat = contributions.reshape(rows.n_rows, domain.n_features * n_outputs)

    def add(first_row: int, last_row: int) -> None:
        for begin in range(first_row, last_row, BLOCK_ROWS):
            end = min(begin + BLOCK_ROWS, last_row)
            codes = np.empty((end - begin, rows.n_features), dtype=np.uint8)
            rows.read(begin, end, codes)
            for tree in trees:
                tree.add(codes, flat[begin:end])

    threads.run(add, rows.n_rows)
    offset = np.sum([tree.mean for tree in trees], axis=0)
    targets = (None,) if classes is None else tuple(classes[first:])
    scores = forest.predict(rows, threads)[:, first:]
    terms = tuple((name,) for name in domain.names)
    return Explanation(terms, targets, offset, contributions, scores, are_probabilities=classes is not None)


class _Tree:
    """One tree of a forest, as the kernel takes it."""

    def __init__(self, forest: Forest, values: Floats, tree: int) -> None:
        splits, leaves = (slice(*first[tree : tree + 2]) for first in (forest.first_splits, forest.first_leaves))
        self._depth = int(forest.depths[tree])
        self._splits = forest.features[splits], forest.masks[splits]
        self._values, self._shares = values[leaves], node_shares(forest.counts[leaves])
        points, weights = np.polynomial.legendre.leggauss(max(1, -(-self._depth // 2)))
        self._quadrature = (points + 1) / 2, weights / 2

    @property
    def mean(self) -> Floats:
        """What the tree predicts if nothing is known of a row."""
        return mean_value(self._shares, self._values)

    def add(self, codes: Codes, out: Floats) -> None:
        """Add the Shapley values of some rows."""
        width = max(1, self._depth)
        path, factors = np.empty((4, width), dtype=np.int64), np.empty((4, width))
        explaining.shapley(codes, *self._splits, self._shares, self._values, *self._quadrature, path, factors, out)
