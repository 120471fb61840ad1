"""A second engine, in plain NumPy: rows as a matrix, a node number for each, and ``np.add.at``."""

import numpy as np

from diprime.forest.engine import NodeHistograms
from tests.encoded_rows import drawn_trees, joined


class NumpyEngine:
    """An engine that counts every histogram anew, row by row, without kernels, threads or subtraction."""

    def __init__(self, executor, n_features, layout, threads):
        self._layout = layout
        codes, target, weights = joined(executor)
        known = target >= 0
        self._all_rows, self._known = len(target), known
        self._known_codes, self._known_target = codes[known], target[known]
        self._known_weights = weights[known].astype(np.uint64)
        self._threads = threads

    def target_counts(self):
        counts = np.zeros(self._layout.n_targets, dtype=np.int64)
        np.add.at(counts, self._known_target, self._known_weights.astype(np.int64))
        return counts

    def assign_trees(self, assignment, source):
        trees = drawn_trees(assignment, self._all_rows, source, self._threads)[self._known].astype(np.int64)
        kept = trees < assignment.n_trees
        self._roots, self._n_roots = trees[kept], assignment.n_trees
        self._codes, self._target = self._known_codes[kept], self._known_target[kept]
        self._weights = self._known_weights[kept]

    def start(self):
        self._nodes, self._n_nodes = self._roots, self._n_roots
        self.set_windows(self._layout.whole_range)

    def set_windows(self, windows):
        self._amounts = self._layout.contributions(windows).amounts
        self._windows = self._nodes if len(windows) > 1 else np.zeros_like(self._nodes)

    def chunks(self):
        yield from ((node, node + 1) for node in range(self._n_nodes))

    def histograms(self, begin, end):
        columns = self._layout.contributions(self._layout.whole_range).columns
        n_features = self._codes.shape[1]
        bins = np.zeros((end - begin, n_features, 256, self._layout.n_columns), dtype=np.uint64)
        here = (self._nodes >= begin) & (self._nodes < end)
        codes, target = self._codes[here], self._target[here]
        amounts = self._amounts[self._windows[here], target] * self._weights[here]
        for feature in range(n_features):
            np.add.at(bins, (self._nodes[here] - begin, feature, codes[:, feature], columns[target]), amounts)
        return NodeHistograms(bins.reshape(end - begin, -1), self._layout, begin, np.arange(end - begin))

    def route(self, features, masks):
        code = self._codes[np.arange(len(self._nodes)), features[self._nodes]]
        right = (masks[self._nodes, code >> 3] >> (code & 7)) & 1
        self._nodes = 2 * self._nodes + right
        self._n_nodes *= 2

    def node_target_counts(self):
        counts = np.zeros((self._n_nodes, self._layout.n_targets), dtype=np.int64)
        np.add.at(counts, (self._nodes, self._target), self._weights.astype(np.int64))
        return counts

    def node_sums(self, window):
        adds = self._layout.contributions(window)
        bins = np.zeros((self._n_nodes, self._layout.n_columns), dtype=np.uint64)
        amounts = adds.amounts[0, self._target] * self._weights
        np.add.at(bins, (self._nodes, adds.columns[self._target]), amounts)
        return self._layout.vectors(bins)
