"""The private grid: ordered bins of about equal mass, and categories in order of their targets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain import Categorical, Domain, Numeric
from diprime.kernels.constants import CELLS, MISSING, N_CODES
from diprime.privacy.measures import GaussianDP
from diprime.privacy.mechanisms.gaussian import ROUNDED_GAUSSIAN
from diprime.privacy.randomness import RandomSource
from diprime.training.boosting import defaults
from diprime.training.boosting.grid import CodeSums, Grid, release_code_sums, smooth_histogram
from tests.paid import gaussian_receipt

DOMAIN = Domain({"x": Numeric(0, 1), "kind": Categorical(range(30))}, Categorical(["a", "b"]))
THREE = Domain({"x": Numeric(0, 1), "kind": Categorical(range(30))}, Categorical(["a", "b", "c"]))


def draw_counts(seed):
    """Return counts as noise of any size may leave them, some of them far below zero."""
    rng = np.random.default_rng(seed)
    return rng.normal(0, 10 ** rng.uniform(0, 4, CELLS)) + rng.choice([0, 0, 5, 5000], CELLS)


def made_sums(counts, n_outputs=2, shares=None):
    """Return sums of two features whose codes have these counts, and of each output its share."""
    counts = np.asarray(counts, dtype=float)
    of_codes = np.zeros((2, N_CODES, n_outputs))
    of_codes[:, : counts.shape[-1]] = np.broadcast_to(counts, (2, counts.shape[-1]))[:, :, None] / n_outputs
    if shares is not None:
        of_codes[1, : len(shares)] = of_codes[1, : len(shares)].sum(axis=1)[:, None] * shares
    return of_codes


def assert_bins(bins, n_max=defaults.MAX_BINS):
    assert bins.shape == (N_CODES,)
    assert sorted(set(bins.tolist())) == list(range(int(bins.max()) + 1)), "numbered without gaps"
    assert bins.max() < n_max


@given(st.integers(0, 2**32 - 1), st.floats(0, 1000))
@settings(deadline=None, max_examples=60)
def test_bins_of_numbers_are_in_order_whatever_was_released(seed, noise):
    bins = Grid(CodeSums(made_sums(draw_counts(seed)), noise), DOMAIN).bins(0, 0)
    assert_bins(bins)
    assert (np.diff(bins[:CELLS]) >= 0).all()
    assert bins[MISSING] == bins[CELLS - 1] // 2


@given(st.integers(0, 2**32 - 1), st.floats(0, 1000))
@settings(deadline=None, max_examples=60)
def test_bins_of_categories_have_no_gaps_whatever_was_released(seed, noise):
    rng = np.random.default_rng(seed)
    released = CodeSums(rng.normal(0, 50, (2, N_CODES, 3)), noise)
    for order in range(3):
        assert_bins(Grid(released, THREE).bins(1, order))


def test_without_noise_bins_have_about_equal_mass():
    rng = np.random.default_rng(0)
    counts = np.zeros(N_CODES)
    counts[:CELLS] = np.bincount(np.clip(rng.normal(127, 30, 100_000), 0, 254).astype(int), minlength=CELLS)
    bins = Grid(CodeSums(made_sums(counts), 0.0), DOMAIN).bins(0, 0)
    mass = np.bincount(bins[:CELLS], counts[:CELLS])
    assert len(mass) > 40
    fair = 100_000 / defaults.MAX_BINS
    assert mass.max() <= fair + counts.max()
    assert mass[1:-1].min() > 0


def test_one_code_with_all_records_gives_few_bins():
    counts = np.zeros(CELLS)
    counts[77] = 10_000
    bins = Grid(CodeSums(made_sums(counts), 0.0), DOMAIN).bins(0, 0)
    assert bins.max() <= 2
    assert_bins(bins)


def test_nobody_at_all_gives_bins_as_well():
    for feature in (0, 1):
        assert_bins(Grid(CodeSums(np.zeros((2, N_CODES, 2)), 0.0), DOMAIN).bins(feature, 0))
        assert_bins(Grid(CodeSums(np.full((2, N_CODES, 2), -5.0), 1.0), DOMAIN).bins(feature, 0))


def test_categories_are_in_order_of_their_means():
    rng = np.random.default_rng(1)
    rate = rng.permutation(30) / 29
    shares = np.stack([1 - rate, rate], axis=1)
    released = CodeSums(made_sums(np.full(30, 1000), 2, shares), 1.0)
    grid = Grid(released, DOMAIN)
    assert grid.n_orders == 1
    bins = grid.bins(1, 0)[:30]
    assert (np.diff(bins[np.argsort(rate)]) >= 0).all()
    assert bins.max() == 29, "all of them are told apart"
    unseen = grid.bins(1, 0)[30:]
    assert set(unseen.tolist()) == {bins[np.argsort(rate)][15]}, "what nobody has is in the middle"


def test_several_classes_order_categories_by_each_class():
    rng = np.random.default_rng(2)
    shares = rng.dirichlet([1, 1, 1], 30)
    grid = Grid(CodeSums(made_sums(np.full(30, 1000), 3, shares), 1.0), THREE)
    assert grid.n_orders == 3
    for order in range(3):
        assert (np.diff(grid.bins(1, order)[np.argsort(shares[:, order])[:30]]) >= 0).all()
    assert np.array_equal(grid.bins(0, 0), grid.bins(0, 2)), "numbers have an order of their own"


# -- smoothing --------------------------------------------------------------------------------------------------------


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


# -- the release ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", [1, 4096])
def test_code_sums_are_released_with_the_noise_of_all_features(units):
    n_features = 4
    true = np.full((n_features, N_CODES, 2), 10 * units)
    paid = gaussian_receipt(ROUNDED_GAUSSIAN, 1, calibrated_to=n_features * units**2)
    released = release_code_sums(true, units, paid, 2.0 * units, RandomSource(0))
    assert released.noise == 2.0
    assert released.counts.shape == (n_features, N_CODES)
    assert released.count_noise == pytest.approx(2.0 * np.sqrt(2))
    noise = released.sums - 10
    assert 1.85 < noise.std() < 2.15
    assert np.abs(noise.mean()) < 0.2
    assert isinstance(paid.charge.measure, GaussianDP)
