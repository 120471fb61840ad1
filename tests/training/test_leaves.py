"""Leaf sums: their noise, and what the ledger is told of them."""

import math
from fractions import Fraction

import numpy as np
import pytest

from diprime.domain.target_layout import TargetLayout, Windows
from diprime.paper.accounting import PUBLISHED
from diprime.privacy.charges import UnpaidReleaseError
from diprime.privacy.mechanisms.laplace import laplace_variance
from diprime.privacy.randomness import RandomSource
from diprime.training.leaves import leaf_charge, release_leaves
from diprime.training.policy import STRICT
from tests.paid import pay
from tests.spies import Draws, Releases


def released(sums, layout, epsilon, window=None, policy=STRICT, times=1):
    """Release leaf sums that are paid for."""
    receipt = pay(leaf_charge(layout, epsilon, times, "", policy))
    return release_leaves(sums, layout, window or layout.whole_range, receipt, policy, RandomSource(0))


@pytest.mark.parametrize("layout", [TargetLayout.of_classes(3), TargetLayout.of_number(4096)])
def test_without_noise_the_release_is_the_truth_in_units_of_a_record(layout):
    sums = np.arange(4 * 2 * layout.n_outputs).reshape(2, 4, -1).astype(np.int64) * layout.units
    leaves = released(sums, layout, math.inf)
    assert np.array_equal(leaves.sums * layout.units, sums)
    assert np.array_equal(leaves.counts * layout.units, sums.sum(axis=-1))
    assert leaves.noise_variance == 0
    assert (leaves.low, leaves.high) == (0, 1)


@pytest.mark.parametrize("policy", [STRICT, PUBLISHED])
def test_a_window_is_public_and_says_only_what_the_sums_mean(policy):
    layout = TargetLayout.of_number(4096)
    sums = np.full((1, 64, 2), 50 * 4096, dtype=np.int64)
    whole, part = (
        released(sums, layout, Fraction(1), window, policy)
        for window in (layout.whole_range, Windows(np.array([1024]), np.array([3072])))
    )
    assert np.array_equal(whole.sums, part.sums)
    assert np.array_equal(whole.counts, part.counts)
    assert whole.noise_variance == part.noise_variance
    assert (whole.low, whole.high) == (0, 1)
    assert (part.low, part.high) == (0.25, 0.75)


@pytest.mark.parametrize("layout", [TargetLayout.of_classes(2), TargetLayout.of_number(4096)])
def test_the_noise_has_the_variance_that_is_stated(layout):
    sums = np.full((4, 2048, 2), 1000 * layout.units, dtype=np.int64)
    epsilon = Fraction(1, 2)
    leaves = released(sums, layout, epsilon)
    noise = leaves.sums - 1000
    assert leaves.noise_variance == pytest.approx(laplace_variance(epsilon, layout.units) / layout.units**2)
    assert leaves.noise_variance == pytest.approx(8, rel=0.03)
    # 16,384 draws with a kurtosis of 6: the variance is known to 1.8 %, the mean to 0.022; four of them each.
    assert noise.var() == pytest.approx(leaves.noise_variance, rel=0.072)
    assert abs(noise.mean()) < 0.09
    assert abs(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1]) < 0.05
    assert np.array_equal(leaves.counts, leaves.sums.sum(axis=-1))  # the count is known from the sums alone


@pytest.mark.parametrize(("layout", "bound"), [(TargetLayout.of_classes(5), 1), (TargetLayout.of_number(4096), 4096)])
def test_the_charge_names_the_norm_of_one_record_and_the_noise_is_made_for_it(monkeypatch, layout, bound):
    releases, draws = Releases(monkeypatch), Draws(monkeypatch)
    sums = np.arange(4 * 8 * layout.n_outputs).reshape(4, 8, -1)
    found = released(sums, layout, Fraction(1, 4), times=4)
    (noise,), (receipt,) = releases.events, releases.receipts
    assert (noise.charge.bound, noise.charge.total) == (f"L1 sensitivity {bound}", 1)
    assert (noise.sensitivity, noise.charge.epsilon) == (bound, Fraction(1, 4))
    assert (noise.values == sums.reshape(32, -1)).all()
    assert (found.sums * layout.units == noise.drawn.reshape(sums.shape)).all()
    assert len(draws.handed_out) == 32, "each leaf has its own noise"
    draws.assert_each_bit_is_used_once()
    assert (noise.times, receipt.unused) == (4, 0), "a record is in a leaf of each of four trees"


def test_leaves_are_released_once_for_what_was_paid():
    layout = TargetLayout.of_classes(2)
    receipt = pay(leaf_charge(layout, Fraction(1), 3, "", STRICT))
    arguments = np.zeros((3, 2, 2), dtype=np.int64), layout, layout.whole_range, receipt, STRICT
    release_leaves(*arguments, RandomSource(0))
    with pytest.raises(UnpaidReleaseError, match="leaf sums: 0 of 3 paid releases are left"):
        release_leaves(*arguments, RandomSource(0))
