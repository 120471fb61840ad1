"""A second engine for boosting, in plain NumPy: one float-free formula for all records, and ``np.add.at``."""

import math
from itertools import pairwise

import numpy as np

from diprime.boosting import gradients as maps
from diprime.boosting.gradients import CLIP, UNIT, UNIT_BITS, LogisticGradients, ResidualGradients
from tests.encoded_rows import joined

_SHIFT = maps._TABLE_SHIFT


class NumpyBoostingEngine:
    """An engine that moves every record at once, without kernels, blocks or threads."""

    def __init__(self, executor, layout):
        codes, target, weights = joined(executor)
        self._codes = codes[target >= 0].astype(np.int64)
        self._targets = target[target >= 0].astype(np.int64)
        self._layout = layout
        self._weights = weights[target >= 0].astype(np.int64)

    def target_counts(self):
        counts = np.zeros(self._layout.n_targets, dtype=np.int64)
        np.add.at(counts, self._targets, self._weights)
        return counts

    def code_sums(self):
        layout, n_features = self._layout, self._codes.shape[1]
        if layout.task == "classification":
            vectors = np.eye(layout.n_outputs, dtype=np.int64)[self._targets]
        else:
            vectors = np.stack([layout.units - self._targets, self._targets], axis=1)
        sums = np.zeros((n_features, 256, layout.n_outputs), dtype=np.int64)
        for feature in range(n_features):
            np.add.at(sums[feature], self._codes[:, feature], vectors * self._weights[:, None])
        return sums

    def curve_sums(self, grid, gradients):
        vectors = vectors_of(gradients, self._scores_of(grid), self._targets)[:, : gradients.n_scores]
        of_features = zip(grid.features, grid.norms, strict=True)
        squares = grid.constant + sum(norms[self._codes[:, feature]] for feature, norms in of_features)
        squares = np.broadcast_to(squares, len(vectors)).tolist()
        shortened = [
            [shortened_by(value, square, grid.unit) for value in vector]
            for vector, square in zip(vectors.tolist(), squares, strict=True)
        ]
        weighted = np.array(shortened, dtype=np.int64).reshape(vectors.shape) * self._weights[:, None]
        sums = np.zeros((len(grid.features), 256, gradients.n_scores), dtype=np.int64)
        for k, feature in enumerate(grid.features):
            np.add.at(sums[k], self._codes[:, feature], weighted)
        return sums

    def _scores_of(self, grid):
        scores = np.tile(grid.offset.astype(np.int64), (len(self._targets), 1))
        for feature, values in zip(grid.features, grid.values, strict=True):
            scores += values[self._codes[:, feature]]
        return scores

    def start(self, grid):
        self._scores = self._scores_of(grid)

    def gradient_sums(self, grid, gradients):
        self._cells = np.zeros(len(self._targets), dtype=np.int64)
        for feature, cells in zip(grid.features, grid.cells, strict=True):
            self._cells += cells[self._codes[:, feature]]
        sums = np.zeros((grid.n_cells, gradients.n_columns), dtype=np.int64)
        vectors = vectors_of(gradients, self._scores, self._targets)
        np.add.at(sums, self._cells, vectors * self._weights[:, None])
        return sums

    def move_scores(self, steps):
        self._scores = self._scores + steps[self._cells]

    def residual_counts(self, scale, edges):
        residuals = np.abs(self._targets * scale - self._scores[:, 0])
        bounds = [-1, *(edges - 1).tolist(), np.inf]
        inside = [(residuals > low) & (residuals <= high) for low, high in pairwise(bounds)]
        return np.array([self._weights[here].sum() for here in inside])


def shortened_by(value, square, unit):
    """Return the largest integer, towards zero, of which ``n²·square`` is at most ``(value·unit)²``."""
    magnitude = math.isqrt((value * unit) ** 2 // max(square, unit**2))
    return magnitude if value >= 0 else -magnitude


def vectors_of(gradients, scores, targets):
    """Return the vector of every record."""
    if isinstance(gradients, ResidualGradients):
        residuals = np.clip(targets * gradients.scale - scores[:, 0], -gradients.clip, gradients.clip)
        scaled = (residuals * ((CLIP << 32) // gradients.clip) + (1 << 31)) >> 32
        return np.stack([scaled, np.full(len(scaled), int(gradients.weight_unit))], axis=1)
    if isinstance(gradients, LogisticGradients):
        table = maps.logistic_table().astype(np.int64)
        row = np.clip((scores[:, 0] >> _SHIFT) + len(table) // 2, 0, len(table) - 1)
        return np.stack([table[row, targets], table[row, 2]], axis=1)
    table = np.append(maps._exp_table().astype(np.int64), 0)
    places = np.minimum((scores.max(axis=1, keepdims=True) - scores) >> _SHIFT, len(table) - 1)
    exps = table[places]
    shares = (exps * (2**42 // exps.sum(axis=1, keepdims=True))) >> (42 - UNIT_BITS)
    own = UNIT * np.eye(gradients.n_classes, dtype=np.int64)[targets] - shares
    norms = (own**2).sum(axis=1).tolist()
    clip = gradients.clip
    roots = np.array([math.isqrt(norm - 1) + 1 if norm > clip**2 else clip for norm in norms], dtype=np.int64)
    own = np.sign(own) * (clip * np.abs(own) // roots.reshape(-1, 1))
    return np.concatenate([own, (shares * (UNIT - shares)) >> UNIT_BITS], axis=1)
