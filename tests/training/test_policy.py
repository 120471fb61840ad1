"""Strict accounting: every release is charged at what it costs, and what is released is what has noise."""

import math
from fractions import Fraction

import numpy as np
import pytest

from diprime._util.threads import Threads
from diprime.domain.target_layout import TargetLayout
from diprime.engines.assignment import IndependentAssignment
from diprime.privacy.randomness import RandomSource
from diprime.training.estimates import shrunken_means
from diprime.training.policy import STRICT
from tests.encoded_rows import drawn_trees
from tests.training.made_leaves import of_sums

ONE = Threads(1)
LAYOUTS = [TargetLayout.of_classes(1), TargetLayout.of_classes(3), TargetLayout.of_number(4096)]


def drawn(n_rows, n_trees, seed=0):
    return drawn_trees(STRICT.assignment(n_trees), n_rows, RandomSource(seed), ONE).astype(np.int64)


def test_rows_are_assigned_independently():
    assert STRICT.assignment(7) == IndependentAssignment(7)
    assert (drawn(1000, 5) == drawn(1001, 5)[:1000]).all(), "a further row moves no other"


@pytest.mark.parametrize("n_trees", [2, 3, 7, 64])
def test_parts_are_uniform_and_vary_as_those_of_independent_coins_do(n_trees):
    n, per_stream = 140_000, 65_536  # more than one stream
    trees = drawn(n, n_trees)
    # By the chi-square statistic, of mean d and variance 2d: of single rows, of neighbours, and of rows of two streams.
    for cells, size in [
        (trees, n_trees),
        (trees[::2] * n_trees + trees[1::2], n_trees**2),
        (trees[:per_stream] * n_trees + trees[per_stream : 2 * per_stream], n_trees**2),
    ]:
        counts, expected = np.bincount(cells, minlength=size), len(cells) / size
        assert len(counts) == size
        statistic = ((counts - expected) ** 2 / expected).sum()
        assert abs(statistic - (size - 1)) < 5 * math.sqrt(2 * (size - 1)) + 5
    sizes = [np.bincount(drawn(600, n_trees, seed))[0] for seed in range(1, 300)]
    variance = 600 / n_trees * (1 - 1 / n_trees)
    assert 0.7 < np.var(sizes) / variance < 1.35, "equal parts do not vary"


def test_every_release_is_charged_at_what_it_costs():
    assert STRICT.name == "strict"
    assert [STRICT.n_charged_medians(k) for k in (1, 2, 9)] == [1, 2, 9]
    assert STRICT.quality_range(1026, 1024) == 1026
    assert STRICT.true_cost(Fraction(1, 3)) is None
    for layout in LAYOUTS:
        assert STRICT.leaf_bound(layout) == (f"L1 sensitivity {layout.units}", None)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_released_of_leaves_has_noise_and_nothing_is_taken_from_the_truth(layout):
    noisy = np.random.default_rng(0).integers(-9, 9, size=(2, 4, layout.n_outputs))
    for true in (noisy + 1, np.zeros_like(noisy)):
        assert (STRICT.released_leaves(true, noisy, layout) == noisy).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_estimates_are_shrunken_means_by_the_kind_of_target(layout):
    leaves = of_sums(np.random.default_rng(0).uniform(0, 20, size=(2, 8, layout.n_outputs)), 3.0)
    expected, other = (shrunken_means(leaves, of_classes=kind) for kind in (layout.units == 1, layout.units > 1))
    assert (STRICT.leaf_means(leaves, layout) == expected).all()
    assert layout.n_outputs == 1 or (expected != other).any()
