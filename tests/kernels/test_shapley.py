"""Shapley values in one tree: compiled, interpreted, and by their definition over all sets of features."""

import math
from itertools import combinations

import numpy as np
import pytest

from diprime.inspection.explanation import level_means, node_shares
from tests.kernel_pairs import Both

BOTH = Both("shapley")


def known_value(row, known, features, masks, shares, values, node=0):
    """Return what a tree predicts if some features are known, from the root down, by the definition."""
    if node >= len(features):
        return values[node - len(features)]
    children = 2 * node + 1, 2 * node + 2
    if features[node] in known:
        code = int(row[features[node]])
        right = int(masks[node, code >> 3] >> (code & 7)) & 1
        return known_value(row, known, features, masks, shares, values, children[right])
    return sum(shares[c] * known_value(row, known, features, masks, shares, values, c) for c in children)


def by_definition(row, n_features, *tree):
    """Return Shapley values as the mean of what each feature adds to all sets of the others."""
    sets = [frozenset(s) for size in range(n_features + 1) for s in combinations(range(n_features), size)]
    value = {s: known_value(row, s, *tree) for s in sets}
    found = []
    for j in range(n_features):
        without = [s for s in sets if j not in s]
        weights = [1 / (n_features * math.comb(n_features - 1, len(s))) for s in without]
        found.append(sum(w * (value[s | {j}] - value[s]) for w, s in zip(weights, without, strict=True)))
    return np.array(found)


def draw_tree(rng, depth, n_features, n_outputs):
    features = rng.integers(0, n_features, size=2**depth - 1).astype(np.int32)
    masks = rng.integers(0, 256, size=(2**depth - 1, 32)).astype(np.uint8)
    counts = rng.integers(-3, 12, size=2**depth).astype(np.float64)
    return features, masks, node_shares(counts), rng.normal(size=(2**depth, n_outputs))


def quadrature(depth):
    points, weights = np.polynomial.legendre.leggauss(max(1, -(-depth // 2)))
    return (points + 1) / 2, weights / 2


def shapley(codes, tree, n_features, start=0.0):
    width = max(1, len(tree[3]).bit_length() - 1)
    memory = np.full((4, width), 7, dtype=np.int64), np.full((4, width), 7.0)
    out = np.full((len(codes), n_features * tree[3].shape[1]), start)
    after, _ = BOTH("shapley", codes, *tree, *quadrature(width), *memory, out)
    return after[-1].reshape(len(codes), n_features, tree[3].shape[1])


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("n_features", [1, 2, 4])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_shapley_values_are_those_of_the_definition(depth, n_features, n_outputs):
    rng = np.random.default_rng(depth * 10 + n_features)
    tree = draw_tree(rng, depth, n_features, n_outputs)
    codes = rng.integers(0, 256, size=(6, n_features)).astype(np.uint8)
    found = shapley(codes, tree, n_features)
    for row, values in zip(codes, found, strict=True):
        assert values == pytest.approx(by_definition(row, n_features, *tree), abs=1e-12)
        all_known = known_value(row, range(n_features), *tree)
        assert values.sum(axis=0) + level_means(tree[2], tree[3])[-1][0] == pytest.approx(all_known, abs=1e-12)


def test_deep_paths_on_many_features_are_added_up_exactly():
    rng = np.random.default_rng(0)
    tree = draw_tree(rng, 9, 20, 1)
    codes = rng.integers(0, 256, size=(3, 20)).astype(np.uint8)
    for row, values in zip(codes, shapley(codes, tree, 20), strict=True):
        expected = known_value(row, range(20), *tree) - level_means(tree[2], tree[3])[-1][0]
        assert values.sum() == pytest.approx(expected[0], abs=1e-12)
