"""Strict accounting: every release is charged at what it costs, and what is released is what has noise."""

from fractions import Fraction

import numpy as np
import pytest

from diprime.domain.target_layout import TargetLayout
from diprime.engines.assignment import IndependentAssignment
from diprime.training.estimates import shrunken_means
from diprime.training.policy import STRICT
from tests.training.made_leaves import of_sums

LAYOUTS = [TargetLayout.of_classes(1), TargetLayout.of_classes(3), TargetLayout.of_number(4096)]


def test_rows_are_assigned_independently():
    assert STRICT.assignment(7) == IndependentAssignment(7)


def test_every_release_is_charged_at_what_it_costs():
    assert STRICT.name == "strict"
    assert [STRICT.n_charged_medians(k) for k in (1, 2, 9)] == [1, 2, 9]
    assert STRICT.quality_range(1026) == 1026
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
