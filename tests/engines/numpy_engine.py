"""A second engine, in plain NumPy: rows as a matrix, a node number for each, and ``np.add.at``."""

import numpy as np


class NumpyEngine:
    """An engine that counts every histogram anew, row by row, without kernels, threads or subtraction."""

    def __init__(self, rows, target, layout, threads, weights=None):
        self._layout = layout
        known = target >= 0
        codes = np.empty((rows.n_rows, rows.n_features), dtype=np.uint8)
        rows.read(0, rows.n_rows, codes)
        self._all_rows, self._known = rows.n_rows, known
        self._known_codes, self._known_target = codes[known], target[known]
        weights = np.ones(len(target), dtype=np.uint8) if weights is None else weights
        self._known_weights = weights[known].astype(np.uint64)
        self._threads = threads

    def target_counts(self):
        counts = np.zeros(self._layout.n_targets, dtype=np.int64)
        np.add.at(counts, self._known_target, self._known_weights.astype(np.int64))
        return counts

    def assign_trees(self, assignment, source):
        trees = assignment.draw(self._all_rows, source, self._threads)[self._known].astype(np.int64)
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
        return bins.reshape(end - begin, -1)

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
