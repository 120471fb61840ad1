"""Leaf sums and what is estimated from them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from diprime import Ledger
from diprime.domain.target_layout import TargetLayout, Windows
from diprime.privacy.mechanisms.laplace import laplace_variance
from diprime.privacy.randomness import RandomSource
from diprime.training.leaves import LeafSums, charge_leaves, plain_means, release, shrunken_means


def one_window(low, high):
    return Windows(np.array([low]), np.array([high]))


def of_sums(sums, noise_variance=0.0):
    sums = np.asarray(sums, dtype=np.float64)
    return LeafSums(sums, sums.sum(axis=-1), noise_variance)


# -- the release ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [TargetLayout.of_classes(3), TargetLayout.of_number(4096)])
def test_without_noise_the_release_is_the_truth_in_units_of_a_record(layout):
    sums = np.arange(4 * 2 * layout.n_outputs).reshape(2, 4, -1).astype(np.int64) * layout.units
    leaves = release(sums, layout, layout.whole, math.inf, RandomSource(0), exact_counts=False)
    assert np.array_equal(leaves.sums * layout.units, sums)
    assert np.array_equal(leaves.counts * layout.units, sums.sum(axis=-1))
    assert leaves.noise_variance == 0
    assert (leaves.low, leaves.high) == (0, 1)


@pytest.mark.parametrize("exact_counts", [True, False])
def test_a_window_is_public_and_says_only_what_the_sums_mean(exact_counts):
    layout = TargetLayout.of_number(4096)
    sums = np.full((1, 64, 2), 50 * 4096, dtype=np.int64)
    whole, part = (
        release(sums, layout, window, Fraction(1), RandomSource(0), exact_counts=exact_counts)
        for window in (layout.whole, one_window(1024, 3072))
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
    leaves = release(sums, layout, layout.whole, epsilon, RandomSource(0), exact_counts=False)
    noise = leaves.sums - 1000
    assert leaves.noise_variance == pytest.approx(laplace_variance(epsilon, layout.units) / layout.units**2)
    assert leaves.noise_variance == pytest.approx(8, rel=0.03)
    # 16,384 draws with a kurtosis of 6: the variance is known to 1.8 %, the mean to 0.022; four of them each.
    assert noise.var() == pytest.approx(leaves.noise_variance, rel=0.072)
    assert abs(noise.mean()) < 0.09
    assert abs(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1]) < 0.05
    assert np.array_equal(leaves.counts, leaves.sums.sum(axis=-1))  # the count is known from the sums alone


def test_the_paper_s_leaf_of_a_number_has_its_exact_count():
    layout = TargetLayout.of_number(4096)
    sums = np.full((1, 64, 2), 50 * 4096, dtype=np.int64)
    leaves = release(sums, layout, layout.whole, Fraction(1), RandomSource(0), exact_counts=True)
    assert (leaves.counts == 100).all()
    assert np.ptp(leaves.sums[..., 1]) > 0


@pytest.mark.parametrize(("layout", "bound"), [(TargetLayout.of_classes(5), 1), (TargetLayout.of_number(4096), 4096)])
def test_the_charge_names_the_norm_of_one_record(layout, bound):
    ledger = Ledger(Fraction(1))
    charge_leaves(ledger, layout, Fraction(1, 4), "disjoint", 4, exact_counts=False)
    (charge,) = ledger.charges
    assert (charge.bound, charge.total) == (f"L1 sensitivity {bound}", 1)


# -- estimates --------------------------------------------------------------------------------------------------------


def example(n_trees=2, n_leaves=8, n_outputs=3, size=1e9):
    rng = np.random.default_rng(0)
    means = rng.dirichlet(np.ones(n_outputs), (n_trees, n_leaves))
    return means, means * size * rng.uniform(1, 2, (n_trees, n_leaves, 1))


@pytest.mark.parametrize("of_classes", [True, False])
@pytest.mark.parametrize("n_trees", [1, 3])
@pytest.mark.parametrize("n_outputs", [2, 5])
def test_with_huge_counts_and_no_noise_the_estimates_are_the_means(n_trees, n_outputs, of_classes):
    means, sums = example(n_trees, 16, n_outputs)
    assert shrunken_means(of_sums(sums), of_classes=of_classes) == pytest.approx(means, abs=1e-6)


@pytest.mark.parametrize("of_classes", [True, False])
@pytest.mark.parametrize("n_trees", [1, 3])
def test_where_noise_drowns_the_leaves_the_estimates_are_the_pooled_mean(n_trees, of_classes):
    rng = np.random.default_rng(1)
    noise_variance = 1e8
    sums = np.broadcast_to([40_000.0, 60_000.0], (n_trees, 64, 2)).copy()  # 100,000 rows a leaf, all alike
    sums += rng.laplace(0, math.sqrt(noise_variance / 2), sums.shape)
    estimates = shrunken_means(of_sums(sums, noise_variance), of_classes=of_classes)
    pooled = sums.sum(axis=(0, 1))
    pooled /= pooled.sum()
    plain = plain_means(of_sums(sums))
    assert np.abs(plain - pooled).max() > 0.1
    assert np.sqrt(np.mean((estimates - pooled) ** 2)) < 0.25 * np.sqrt(np.mean((plain - pooled) ** 2))


def test_noise_far_above_the_counts_leaves_only_the_pooled_mean():
    sums = np.array([[[5.0, 1.0], [0.0, 6.0], [3.0, 3.0], [4.0, 2.0]]])
    estimates = shrunken_means(of_sums(sums, 1e12), of_classes=True)
    assert estimates == pytest.approx(np.broadcast_to([0.5, 0.5], (1, 4, 2)), abs=0.01)


def test_shrinking_is_worth_it_where_there_is_noise():
    rng = np.random.default_rng(2)
    truth = np.repeat(rng.dirichlet([2, 2], (1, 8)), 8, axis=1)  # eight groups of eight leaves that are alike
    better = []
    for _ in range(20):
        sums = truth * 30 + rng.laplace(0, 5, truth.shape)
        leaves = of_sums(sums, 50.0)
        errors = [np.mean((m - truth) ** 2) for m in (shrunken_means(leaves, of_classes=True), plain_means(leaves))]
        better.append(errors[0] < errors[1])
    assert all(better)


@given(
    st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(1, 4)).flatmap(
        lambda shape: arrays(
            np.float64, (shape[0], 2 ** shape[1], shape[2]), elements=st.floats(-1e6, 1e6, allow_subnormal=False)
        )
    ),
    st.sampled_from([0.0, 1e-6, 1.0, 1e6, 1e15]),
    st.booleans(),
)
@settings(deadline=None)
def test_estimates_are_always_distributions(sums, noise_variance, of_classes):
    leaves = of_sums(sums, noise_variance)
    for means in (shrunken_means(leaves, of_classes=of_classes), plain_means(leaves)):
        assert means.shape == sums.shape
        assert (means >= 0).all()
        assert (means <= 1).all()
        assert means.sum(axis=-1) == pytest.approx(np.ones(sums.shape[:2]))


@pytest.mark.parametrize("of_classes", [True, False])
def test_nothing_at_all_is_uniform(of_classes):
    nothing = of_sums(np.zeros((2, 4, 2)))
    assert (shrunken_means(nothing, of_classes=of_classes) == 0.5).all()
    assert (plain_means(nothing) == 0.5).all()


@pytest.mark.parametrize("of_classes", [True, False])
def test_an_empty_leaf_takes_its_parent_s_estimate_and_spoils_no_other(of_classes):
    means, sums = example(1, 8, 2)
    sums[0, 5] = 0
    estimates = shrunken_means(of_sums(sums), of_classes=of_classes)
    others = np.arange(8) != 5
    assert estimates[0, others] == pytest.approx(means[0, others], abs=1e-6)
    assert estimates[0, 5] == pytest.approx(means[0, 4], abs=1e-3)  # its parent holds the rows of its sibling alone


def peeled(n_classes, size):
    """Return the leaves of one tree that splits off one class a level: every leaf is pure, most are empty."""
    depth = n_classes - 1
    sums = np.zeros((1, 2**depth, n_classes))
    for i in range(depth):
        sums[0, 2**depth - 2 ** (depth - i), i] = size
    sums[0, -1, -1] = size
    return sums


@pytest.mark.parametrize("n_classes", [3, 5, 8, 12])
def test_pure_leaves_without_noise_keep_their_class(n_classes):
    sums = peeled(n_classes, 50.0)
    full = sums.sum(axis=-1) > 0
    means = shrunken_means(of_sums(sums), of_classes=True)
    assert np.array_equal(means[full].argmax(axis=-1), sums[full].argmax(axis=-1))


def test_plain_means_are_sums_over_counts_clamped():
    leaves = of_sums([[[3.0, 1.0], [-2.0, 8.0], [-1.0, -1.0], [0.0, 0.0]]])
    assert plain_means(leaves).tolist() == [[[0.75, 0.25], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]]


# -- how targets become sums ------------------------------------------------------------------------------------------


def packed(layout, target, window=None):
    """Add up the bins of records as the kernels do."""
    adds = layout.contributions(window or layout.whole)
    bins = np.zeros(layout.n_columns, dtype=np.uint64)
    for value in target:
        bins[adds.columns[value]] += adds.amounts[0, value]
    return bins


@pytest.mark.parametrize("n_classes", [1, 2, 3, 7])
def test_the_vector_of_classes_counts_each(n_classes):
    layout = TargetLayout.of_classes(n_classes)
    target = np.random.default_rng(n_classes).integers(0, n_classes, 50)
    vector = layout.vectors(packed(layout, target))
    assert vector.tolist() == np.bincount(target, minlength=n_classes).tolist()
    assert vector.sum() == 50 * layout.units


def test_the_vector_of_numbers_is_what_is_left_and_their_sum():
    layout = TargetLayout.of_number(4096)
    vector = layout.vectors(packed(layout, [0, 4096, 1000, 7]))
    assert vector.tolist() == [4 * 4096 - 5103, 5103]
    through_a_window = layout.vectors(packed(layout, [0, 4096, 1000, 7], one_window(500, 1500)))
    assert through_a_window.tolist() == [2 * 4096 + 2048, 4096 + 2048]


def test_a_bin_holds_as_many_rows_as_are_allowed():
    for layout in (TargetLayout.of_classes(2), TargetLayout.of_number(4096)):
        rows = layout.max_rows
        for value in (0, layout.units):
            total = rows * ((1 << layout.shift) + value)
            assert total < 1 << 64
            assert value * rows < 1 << layout.shift
            assert layout.vectors(np.array([total], dtype=np.uint64)).tolist() == [
                rows * (layout.units - value),
                rows * value,
            ]


def test_too_many_classes_are_refused():
    with pytest.raises(ValueError, match="The target has 1001 classes; at most 1000 are supported"):
        TargetLayout.of_classes(1001)
