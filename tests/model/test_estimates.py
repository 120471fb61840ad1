"""Released histograms without their noise.

What is estimated from released leaves: means that know how large their noise is.

Remarks on ranges that are too wide follow from released numbers, and only if these show it beyond the noise.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import Domain, Integer, Numeric
from diprime.boosting import train as boosting
from diprime.boosting.budget import DividedBudget
from diprime.boosting.clipping import Clipping
from diprime.domain.encoding import ClippingRanges
from diprime.forest import train as training
from diprime.kernels.constants import CELLS, N_CODES
from diprime.model.estimates import (
    balanced_weights,
    class_means,
    feature_notes,
    is_crowded,
    shrunken_means,
    shrunken_shares,
    smooth_histogram,
    to_simplex,
    weighted,
    window_notes,
    without_noise,
)
from diprime.report import render
from tests.forest.made_leaves import SUMS, assert_distributions, of_sums
from tests.small_data import BOOSTERS, ESTIMATORS, FEATURES, TARGETS, TASKS, make


def draw_counts(seed):
    """Return counts as noise of any size may leave them, some of them far below zero."""
    rng = np.random.default_rng(seed)
    return rng.normal(0, 10 ** rng.uniform(0, 4, CELLS)) + rng.choice([0, 0, 5, 5000], CELLS)


@given(st.integers(0, 2**32 - 1), st.floats(0, 1000))
@settings(deadline=None, max_examples=80)
def test_smoothing_keeps_totals_and_makes_nothing_negative(seed, noise):
    counts = draw_counts(seed)
    smooth = smooth_histogram(counts, noise)
    assert smooth.shape == counts.shape
    assert (smooth >= 0).all()
    assert smooth.sum() == pytest.approx(max(counts.sum(), 1.0), rel=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 255])
def test_without_noise_smoothing_changes_nothing(n):
    counts = np.random.default_rng(n).integers(1, 100, n).astype(float)
    assert smooth_histogram(counts, 0.0) == pytest.approx(counts, rel=1e-6)


def test_smoothing_removes_noise():
    rng = np.random.default_rng(0)
    truth = np.exp(-0.5 * ((np.arange(255) - 100) / 40) ** 2) * 50
    noisy = truth + rng.normal(0, 30, 255)
    assert np.abs(smooth_histogram(noisy, 30.0) - truth).mean() < 0.5 * np.abs(noisy - truth).mean()


@given(st.integers(0, 2**32 - 1), st.floats(0, 1000), st.floats(0, 1e6))
@settings(deadline=None, max_examples=80)
def test_counts_without_noise_have_the_given_total(seed, noise, total):
    counts = without_noise(draw_counts(seed), noise, total)
    assert (counts >= 0).all()
    assert counts.sum() == pytest.approx(total, rel=1e-9, abs=1e-6)


def test_categories_without_records_get_none():
    """Negative counts taken as zero would leave 0.4 standard deviations to each of 255 empty categories."""
    counts = np.random.default_rng(0).normal(0, 100, 256)
    counts[3] += 20_000
    assert np.maximum(counts, 0).sum() > 25_000
    found = without_noise(counts, 100.0, 20_000.0)
    assert found[3] == pytest.approx(20_000)
    assert np.count_nonzero(found) == 1


def test_many_small_categories_share_the_total():
    counts = 100 + np.random.default_rng(0).normal(0, 100, 200)
    found = without_noise(counts, 100.0, 20_000.0)
    assert np.count_nonzero(found) > 100
    assert found.max() < 500


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
def test_estimates_of_noisy_leaves_approach_the_pooled_mean(n_trees, of_classes):
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


def test_shrinking_reduces_error_under_noise():
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
def test_projection_gives_distributions_and_is_idempotent(sums):
    found = to_simplex(sums)
    assert_distributions(found, sums.shape)
    assert to_simplex(found) == pytest.approx(found)


@pytest.mark.parametrize("of_classes", [True, False])
def test_leaves_without_records_are_uniform(of_classes):
    nothing = of_sums(np.zeros((2, 4, 2)))
    assert (shrunken_means(nothing, of_classes=of_classes) == 0.5).all()


@pytest.mark.parametrize("of_classes", [True, False])
def test_empty_leaf_gets_its_parents_estimate(of_classes):
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
def test_class_shares_without_noise_equal_leaf_shares(n_trees):
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
def test_rare_class_wins_only_above_the_noise(seed):
    leaves = rare_class(seed)
    means, shares = class_means(leaves)
    values = weighted(means, balanced_weights(shares))
    assert values[0, -1].argmax() == 2
    elsewhere = values[0, :-1].argmax(axis=-1) == 2
    assert not elsewhere[:32].any()
    assert elsewhere.sum() <= 4, "next to it, noise hides now and then that there is none"
    plain = weighted(to_simplex(leaves.sums / leaves.counts[..., None]), balanced_weights(shares))
    assert (plain[0, :32].argmax(axis=-1) == 2).any(), "noise times the weight would win"


def test_balanced_classes_without_signal_have_equal_shares():
    sums = np.random.default_rng(0).laplace(0, 5, (1, 32, 4)) + np.array([400, 40, 40, 40])
    means, shares = class_means(of_sums(sums, 50.0))
    values, plain = (weighted(m, balanced_weights(shares)) for m in (means, to_simplex(sums / 520)))
    assert np.abs(values - 1 / 4).mean() < 0.0125
    assert np.abs(plain - 1 / 4).mean() > 0.025


def test_shares_are_at_least_their_noise_and_empty_classes_get_no_weight():
    shares = class_means(of_sums([[[900.0, -30.0]] * 4], 2500.0))[1]
    assert shares == pytest.approx([3600 / 3700, 100 / 3700])
    means, shares = class_means(of_sums([[[90.0, 10.0, 0.0], [5.0, 5.0, 0.0]]]))
    assert balanced_weights(shares).tolist() == pytest.approx([110 / 95 / 3, 110 / 15 / 3, 0])
    assert (weighted(means, balanced_weights(shares))[..., 2] == 0).all()


def test_weights_count_records_several_times():
    assert weighted(np.array([[0.5, 0.25, 0.25]]), np.array([1.0, 4.0, 2.0])) == pytest.approx(
        np.array([[0.25, 0.5, 0.25]])
    )


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_shrunken_shares_have_less_log_loss_than_released_ones(share):
    """Twenty standard deviations of noise in the counts, and a fifth: never certain, and exact where noise is small."""
    rng = np.random.default_rng(0)
    counts = 100 * np.array([1 - share, share])
    for _ in range(200):
        drowned = shrunken_shares(counts + rng.normal(0, 2000, 2), 2000.0)
        assert 0 < drowned.min() <= drowned.max() < 1
        assert drowned.sum() == pytest.approx(1)
    clear = shrunken_shares(counts, 1e-3)
    assert clear == pytest.approx(counts / 100, abs=1e-4)


def test_shrunken_shares_are_posterior_means():
    """The mean of the true share over simulations whose released share is near 0.05, for a uniform prior."""
    rng = np.random.default_rng(1)
    true = rng.random(2_000_000)
    released = true + rng.normal(0, 0.1, len(true))
    near = np.abs(released - 0.05) < 0.005
    expected = true[near].mean()
    assert shrunken_shares(np.array([95.0, 5.0]), 10.0)[1] == pytest.approx(expected, abs=0.01)


SPREAD = np.full(CELLS, 10.0)
NARROW = np.zeros(CELLS)
NARROW[100:112] = CELLS * 10 / 12
HALF = (SPREAD + NARROW) / 2


@pytest.mark.parametrize(
    ("counts", "noise", "crowded"),
    [(NARROW, 0, True), (NARROW, 20, True), (NARROW, 30, False), (SPREAD, 0, False), (HALF, 0, False)],
)
def test_most_records_in_a_twentieth_of_the_cells_are_crowded_beyond_the_noise(counts, noise, crowded):
    assert is_crowded(counts, noise, counts.sum()) == crowded


@pytest.mark.parametrize("counts", [SPREAD, np.zeros(CELLS)])
@pytest.mark.parametrize("noise", [3.0, 1000.0])
def test_noise_alone_makes_no_remark(counts, noise):
    """The largest of 244 sums exceeds six standard deviations with a probability below 244·1e-9 in each draw."""
    rng = np.random.default_rng()
    drawn = counts + noise * rng.normal(size=(1000, CELLS))
    assert not any(is_crowded(row, noise, max(counts.sum() + noise * rng.normal(), 1)) for row in drawn)


def test_remarks_cover_equal_bins_and_ignore_missing_values():
    kinds = {"wide": Numeric(0, 1), "edges": Numeric(edges=[1, 2]), "whole": Integer(0, 1000), "gaps": Numeric(0, 1)}
    counts = np.zeros((4, N_CODES))
    counts[:, 0] = 1000
    counts[3, 0], counts[3, -1] = 500, 500
    note = feature_notes(Domain(kinds, Numeric(0, 1)), counts, 1.0, 1000.0)
    assert [text.split(" are in ")[0] for text in note] == ["Most values of wide, gaps"]


def test_long_lists_of_names_are_cut():
    domain = Domain({f"x{i}": Numeric(0, 1) for i in range(12)}, Numeric(0, 1))
    counts = np.zeros((12, N_CODES))
    counts[:, 7] = 1000
    assert "x8, x9, 2 more are in" in feature_notes(domain, counts, 1.0, 1000.0)[0]


@pytest.mark.parametrize(
    ("high", "n_records", "n_remarks"), [(150, 1000, 1), (150, 400, 0), (151, 1000, 0), (1100, 1000, 0)]
)
def test_a_narrow_window_is_remarked_on_if_there_is_information(high, n_records, n_remarks):
    window = ClippingRanges(np.array([100]), np.array([high]))
    assert len(window_notes(window, 1000, 0.1, n_records)) == n_remarks


@pytest.mark.parametrize("kind", [ESTIMATORS, BOOSTERS])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("factor", [1, 100])
def test_fits_remark_on_ranges_that_are_too_wide(kind, task, factor):
    X, y = make(task, 4000)
    target = Numeric(0, 10 * factor) if task == "regression" else TARGETS[task]
    domain = Domain({**FEATURES, "level": Numeric(0, 10 * factor)}, target)
    settings = {"n_rounds": 5} if kind is BOOSTERS else {}
    model = kind[task](8.0, domain, n_jobs=1, **settings).fit(X, y)
    of_target = ["Most targets are in one twentieth of their range"] * (task == "regression")
    of_features = ["Most values of level are in one twentieth of their range"] * (kind is BOOSTERS)
    found = [note.split(" of their range, by")[0] for note in model.privacy_.notes]
    expected = [text.removesuffix(" of their range") for text in of_features + of_target]
    assert found == (expected if factor == 100 else [])
    assert all(note in str(model.privacy_) for note in model.privacy_.notes)
    assert all(note[:60] in render(model) for note in model.privacy_.notes)


def test_remarks_use_released_numbers_only(monkeypatch):
    """What decides on notes is on the model, or is what the mechanism returned."""
    seen, counted, released = {}, [], []
    X, y = make("regression", 1000)
    domain = Domain(FEATURES, TARGETS["regression"])
    release_counts, release = boosting.release_counts, DividedBudget.release

    def are_close(clipping, histogram):
        seen.update(of_target=histogram, n_of_target=clipping._n_rows)
        return True

    monkeypatch.setattr(boosting, "release_counts", lambda *args: counted.append(release_counts(*args)) or counted[-1])
    monkeypatch.setattr(DividedBudget, "release", lambda *args: released.append(release(*args)) or released[-1])
    monkeypatch.setattr(Clipping, "_are_close", are_close)
    monkeypatch.setattr(boosting, "feature_notes", lambda _, counts, noise, n: seen.update(counts=counts, n=n) or [])
    boosted = BOOSTERS["regression"](1.0, domain, n_rounds=2, n_jobs=1).fit(X, y)
    assert any(seen["of_target"] is histogram for histogram in released)
    assert seen["n"] == seen["n_of_target"] == counted[0].total
    assert np.array_equal(seen["counts"], boosted.forest_.code_weights)
    assert [note.split(" are in ")[0] for note in boosted.privacy_.notes] == ["Most targets"]

    window = ClippingRanges(np.array([0]), np.array([4096]))
    monkeypatch.setattr(training, "release_windows", lambda counts, layout, receipt, _: (receipt.cancel(), window)[1])
    monkeypatch.setattr(training, "window_notes", lambda of, units, epsilon, n: seen.update(window=of, rows=n) or [])
    forest = ESTIMATORS["regression"](1.0, domain, n_jobs=1).fit(X, y)
    assert seen["window"] is window
    assert seen["rows"] == pytest.approx(forest.forest_.counts.sum())
