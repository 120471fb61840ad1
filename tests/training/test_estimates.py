"""What is estimated from released leaves: means that know how large their noise is."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.training.estimates import balanced_weights, class_means, shrunken_means, to_simplex, weighted
from tests.training.made_leaves import SUMS, assert_distributions, of_sums


def plain_means(leaves):
    """Return sums over counts, for comparison."""
    return to_simplex(leaves.sums / leaves.counts[..., None])


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


@given(SUMS, st.sampled_from([0.0, 1e-6, 1.0, 1e6, 1e15]), st.booleans())
@settings(deadline=None)
def test_estimates_are_always_distributions(sums, noise_variance, of_classes):
    assert_distributions(shrunken_means(of_sums(sums, noise_variance), of_classes=of_classes), sums.shape)


@given(SUMS)
@settings(deadline=None)
def test_projection_gives_distributions_and_leaves_those_that_are_as_they_are(sums):
    found = to_simplex(sums)
    assert_distributions(found, sums.shape)
    assert to_simplex(found) == pytest.approx(found)


@pytest.mark.parametrize("of_classes", [True, False])
def test_nothing_at_all_is_uniform(of_classes):
    nothing = of_sums(np.zeros((2, 4, 2)))
    assert (shrunken_means(nothing, of_classes=of_classes) == 0.5).all()


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


# -- class shares that may be weighted --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_trees", [1, 3])
def test_class_shares_without_noise_are_those_of_the_leaves(n_trees):
    means, sums = example(n_trees, 16, 4)
    found, shares = class_means(of_sums(sums))
    assert found == pytest.approx(means, abs=1e-4)
    assert shares == pytest.approx(sums.sum(axis=(0, 1)) / sums.sum())


@given(SUMS, st.sampled_from([0.0, 1e-6, 1.0, 1e6, 1e15]))
@settings(deadline=None)
def test_class_shares_are_always_distributions(sums, noise_variance):
    found, shares = class_means(of_sums(sums, noise_variance))
    assert_distributions(found, sums.shape)
    assert_distributions(shares, sums.shape[-1:])
    assert_distributions(weighted(found, balanced_weights(shares)), sums.shape)


def rare_class(seed):
    """Return 64 leaves with noise of deviation 14: two large classes, and a rare one, 500 records in the last leaf."""
    rng = np.random.default_rng(seed)
    sums = np.zeros((1, 64, 3))
    sums[0, :, 0], sums[0, :, 1] = rng.permutation([900.0] * 32 + [100.0] * 32), 500
    sums[0, -1, 2] = 500
    return of_sums(sums + rng.laplace(0, 10, sums.shape), 200.0)


@pytest.mark.parametrize("seed", range(5))
def test_a_rare_class_counts_where_it_stands_out_from_the_noise_and_nowhere_else(seed):
    leaves = rare_class(seed)
    means, shares = class_means(leaves)
    values = weighted(means, balanced_weights(shares))
    assert values[0, -1].argmax() == 2
    elsewhere = values[0, :-1].argmax(axis=-1) == 2
    assert not elsewhere[:32].any()
    assert elsewhere.sum() <= 4, "next to it, noise hides now and then that there is none"
    plain = weighted(to_simplex(leaves.sums / leaves.counts[..., None]), balanced_weights(shares))
    assert (plain[0, :32].argmax(axis=-1) == 2).any(), "noise times the weight would win"


def test_where_nothing_stands_out_balanced_classes_are_alike():
    sums = np.random.default_rng(0).laplace(0, 5, (1, 32, 4)) + np.array([400, 40, 40, 40])
    means, shares = class_means(of_sums(sums, 50.0))
    values, plain = (weighted(m, balanced_weights(shares)) for m in (means, to_simplex(sums / 520)))
    assert np.abs(values - 1 / 4).mean() < 0.0125
    assert np.abs(plain - 1 / 4).mean() > 0.025


def test_shares_are_not_below_their_noise_and_a_class_without_any_gets_no_weight():
    shares = class_means(of_sums([[[900.0, -30.0]] * 4], 2500.0))[1]
    assert shares == pytest.approx([3600 / 3700, 100 / 3700])
    means, shares = class_means(of_sums([[[90.0, 10.0, 0.0], [5.0, 5.0, 0.0]]]))
    assert balanced_weights(shares).tolist() == pytest.approx([110 / 95 / 3, 110 / 15 / 3, 0])
    assert (weighted(means, balanced_weights(shares))[..., 2] == 0).all()


def test_weights_count_records_several_times():
    assert weighted(np.array([[0.5, 0.25, 0.25]]), np.array([1.0, 4.0, 2.0])) == pytest.approx(
        np.array([[0.25, 0.5, 0.25]])
    )
