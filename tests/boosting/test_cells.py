"""The private grid: ordered bins of about equal mass, and categories in order of their targets.

Which features rounds cut: all of them now and then, those that gained most of the time.

The cells of a round and the tree that they are: walking the tree of any code leads to its cell.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime._util.resources import Threads
from diprime.boosting import defaults
from diprime.boosting.cells import CodeSums, Cut, FeatureChoice, Grid, cell_grid, cell_tree, release_code_sums
from diprime.domain import Categorical, Domain, Numeric
from diprime.kernels.constants import CELLS, MISSING, N_CODES
from diprime.privacy.charges import Mechanism
from diprime.privacy.measures import GaussianDP
from diprime.privacy.randomness import RandomSource
from tests.encoded_rows import EncodedRows
from tests.made_additive import additive_forest
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
def test_bins_of_numbers_are_ordered_for_any_release(seed, noise):
    bins = Grid(CodeSums(made_sums(draw_counts(seed)), noise), DOMAIN).bins(0, 0)
    assert_bins(bins)
    assert (np.diff(bins[:CELLS]) >= 0).all()
    assert bins[MISSING] == bins[CELLS - 1] // 2


@given(st.integers(0, 2**32 - 1), st.floats(0, 1000))
@settings(deadline=None, max_examples=60)
def test_bins_of_categories_have_no_gaps_for_any_release(seed, noise):
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


def test_bins_without_records():
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


# -- the release ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", [1, 4096])
def test_code_sums_are_released_with_the_noise_of_all_features(units):
    n_features = 4
    true = np.full((n_features, N_CODES, 2), 10 * units)
    paid = gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN, 1, calibrated_to=n_features * units**2)
    released = release_code_sums(true, units, paid, 2.0 * units, RandomSource(0))
    assert released.noise == 2.0
    assert released.counts.shape == (n_features, N_CODES)
    assert released.count_noise == pytest.approx(2.0 * np.sqrt(2))
    noise = released.sums - 10
    assert 1.85 < noise.std() < 2.15
    assert np.abs(noise.mean()) < 0.2
    assert isinstance(paid.charge.measure, GaussianDP)


uniform = st.floats(0, 1, exclude_max=True)
AFTER_EXPLORING = 0.999  # a draw that is not for exploring


def trained(gains, n_rounds=10, energies=None):
    """Return a choice that has seen every feature as often, with these gains."""
    choice = FeatureChoice(np.zeros(len(gains)) if energies is None else np.array(energies))
    for _ in range(n_rounds):
        for feature, gain in enumerate(gains):
            choice.learn([feature], gain, 0.0)
    return choice


def shares(choice, first, n=1, n_features=4):
    """Return how often each feature is drawn first, over a grid of the other random numbers."""
    drawn = [choice.draw(n, [first, u, v])[0] for u in np.linspace(0, 0.9999, 400) for v in (0.3,)]
    return np.bincount(drawn, minlength=n_features) / len(drawn)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), st.integers(1, 2), uniform, uniform, uniform)
@settings(deadline=None, max_examples=100)
def test_features_drawn_together_are_different(gains, n, first, second, third):
    n = min(n, len(gains))
    drawn = trained(gains).draw(n, [first, second, third])
    assert len(drawn) == n == len(set(drawn))
    assert all(0 <= feature < len(gains) for feature in drawn)


def test_first_rounds_draw_features_by_the_energies_of_their_curves():
    choice = FeatureChoice(np.array([3.0, 0.0, 1.0, 0.0]))
    assert shares(choice, AFTER_EXPLORING) == pytest.approx([0.75, 0, 0.25, 0], abs=0.01)
    choice.learn([1], 100.0, 0.0)
    assert shares(choice, AFTER_EXPLORING) == pytest.approx([0.75, 0, 0.25, 0], abs=0.01), "one gain says little"
    choice.learn([2], 100.0, 0.0)
    assert shares(choice, AFTER_EXPLORING) == pytest.approx([0, 0.5, 0.5, 0], abs=0.01)
    assert shares(FeatureChoice(np.zeros(4)), AFTER_EXPLORING) == pytest.approx([0.25] * 4, abs=0.01)


@given(
    st.lists(st.floats(0, 1e6) | st.just(-1.0), min_size=3, max_size=6).filter(lambda e: sum(x >= 0 for x in e) > 1),
    st.integers(0, 3),
    st.tuples(uniform, uniform, uniform),
)
@settings(deadline=None, max_examples=100)
def test_features_without_a_curve_are_never_drawn(energies, n_rounds, uniforms):
    drawn = trained([5.0 if energy < 0 else 1.0 for energy in energies], 0, energies)
    for _ in range(n_rounds):
        drawn.learn([int(np.argmax(energies))], 0.0, 0.0)
    assert all(energies[feature] >= 0 for feature in drawn.draw(2, uniforms))


def test_later_features_are_drawn_by_their_gains():
    choice = trained([3.0, 1.0, 0.0, -5.0])
    assert shares(choice, AFTER_EXPLORING) == pytest.approx([0.75, 0.25, 0, 0], abs=0.01)
    assert shares(choice, 0.99 * defaults.EXPLORE) == pytest.approx([0.25] * 4, abs=0.01)


def test_gains_that_are_noise_lead_to_uniform_draws():
    assert shares(trained([-1.0, -2.0, 0.0, -3.0]), AFTER_EXPLORING) == pytest.approx([0.25] * 4, abs=0.01)


def test_old_gains_are_forgotten():
    choice = FeatureChoice(np.zeros(2))
    for gain in [100.0] * 30 + [0.0] * 60:
        choice.learn([0], gain, 0.0)
        choice.learn([1], 1.0, 0.0)
    assert shares(choice, AFTER_EXPLORING, n_features=2)[1] > 0.8


def test_every_feature_keeps_a_chance():
    choice = trained([1000.0, 0.0, 0.0, 0.0])
    assert choice.draw(1, [AFTER_EXPLORING, 0.9999, 0.0]) == [3]


def test_interactions_are_means_over_the_rounds_of_their_features():
    choice = FeatureChoice(np.zeros(3))
    assert choice.mean_interaction([0, 1]) == 0.0
    choice.learn([0, 1], 5.0, 8.0)
    choice.learn([1, 2], 5.0, 2.0)
    choice.learn([0], 5.0, 99.0)
    assert choice.mean_interaction([0]) == 8.0
    assert choice.mean_interaction([1]) == 5.0
    assert choice.mean_interaction([0, 1]) == pytest.approx(18 / 3)


GRID_DOMAIN = Domain({"x": Numeric(0, 1), "kind": Categorical(range(30)), "z": Numeric(0, 1)}, Categorical(["a", "b"]))
three = st.tuples(uniform, uniform, uniform)


def made_grid(seed, n_codes=N_CODES):
    """Return a grid whose numeric features have records in so many codes."""
    sums = np.zeros((3, N_CODES, 2))
    rng = np.random.default_rng(seed)
    codes = rng.permutation(CELLS)[:n_codes]
    sums[:, codes] = rng.uniform(1, 100, (3, len(codes), 2))
    return Grid(CodeSums(sums, 0.1), GRID_DOMAIN)


def walk(structure, codes):
    """Return the leaf that each row of codes reaches."""
    depth = (structure.features.shape[1] + 1).bit_length() - 1
    n_leaves = 1 << depth
    forest = additive_forest(
        [(structure, np.zeros((1, n_leaves, 1)), np.zeros((1, n_leaves)))],
        np.zeros(1),
        2.0**-40,
        np.ones((3, N_CODES)),
        GRID_DOMAIN,
    )
    with Threads(1) as threads:
        return forest.apply(EncodedRows(codes), threads)[:, 0]


@given(
    st.integers(0, 99),
    st.sampled_from([1, 2, 5, 256]),
    st.permutations([0, 1, 2]),
    st.integers(1, 2),
    st.sampled_from([2, 4, 8, 16]),
    st.tuples(three, three),
)
@settings(deadline=None, max_examples=80)
def test_tree_of_a_round_leads_every_code_to_its_cell(seed, n_codes, features, n, n_cells, uniforms):
    grid = made_grid(seed, n_codes)
    cuts = [Cut.draw(grid, feature, n_cells, draws) for feature, draws in zip(features[:n], uniforms, strict=False)]
    some = range(0, N_CODES, 5) if n == 2 else range(N_CODES)
    codes = np.zeros((len(some) ** n, 3), dtype=np.uint8)
    codes[:, features[:n]] = list(itertools.product(some, repeat=n))
    cells = cell_grid(cuts)
    expected = sum(cells.cells[k][codes[:, cut.feature]].astype(int) for k, cut in enumerate(cuts))
    assert cells.n_cells == np.prod([cut.n_cells for cut in cuts])
    assert expected.max() < cells.n_cells
    assert np.array_equal(walk(cell_tree(cuts), codes), expected)


@given(st.integers(0, 99), st.sampled_from([1, 2, 3, 7, 256]), st.sampled_from([2, 4, 8, 16]), three)
@settings(deadline=None, max_examples=80)
def test_number_of_cells_is_a_power_of_two_within_the_limit(seed, n_codes, n_cells, uniforms):
    grid = made_grid(seed, n_codes)
    for feature in range(3):
        cut = Cut.draw(grid, feature, n_cells, uniforms)
        bins = grid.bins(feature, 0)
        assert cut.n_cells == 1 << cut.depth
        assert 2 <= cut.n_cells <= n_cells
        assert cut.cells.min() >= 0
        assert cut.cells.max() < cut.n_cells
        known = cut.cells[:CELLS] if feature != 1 else cut.cells
        for code_bin in range(int(bins.max()) + 1):
            assert len(set(known[bins[: len(known)] == code_bin].tolist())) == 1, "a bin is not cut"


@given(st.integers(0, 99), st.sampled_from([2, 8, 16]), three)
@settings(deadline=None, max_examples=60)
def test_masks_of_numbers_are_thresholds(seed, n_cells, uniforms):
    cut = Cut.draw(made_grid(seed), 0, n_cells, uniforms)
    assert (np.diff(cut.cells[:CELLS]) >= 0).all()
    for level in range(cut.depth):
        for mask in cut.masks(level):
            right = np.unpackbits(mask, bitorder="little")[:CELLS].astype(int)
            assert (np.diff(right) >= 0).all()


def test_missing_numbers_are_in_a_random_cell():
    grid = made_grid(0)
    cells = {int(Cut.draw(grid, 0, 8, (0, 0.5, u)).cells[MISSING]) for u in np.linspace(0, 0.999, 64)}
    assert cells == set(range(8))
    kept = {int(Cut.draw(grid, 1, 8, (0, 0.5, u)).cells[MISSING]) for u in np.linspace(0, 0.999, 64)}
    assert len(kept) == 1


def test_cuts_move_by_up_to_a_cell():
    grid = made_grid(0)
    places = {tuple(Cut.draw(grid, 0, 4, (0, u, 0)).cells[:CELLS].tolist()) for u in np.linspace(0, 0.999, 40)}
    assert len(places) > 8


def test_few_bins_are_cells_of_their_own():
    grid = made_grid(0, 3)
    bins = grid.bins(0, 0)
    n_bins = int(bins.max()) + 1
    cut = Cut.draw(grid, 0, 16, (0.3, 0.9, 0.1))
    assert cut.n_cells == 1 << max(n_bins - 1, 1).bit_length()
    assert np.array_equal(cut.cells[:CELLS], bins[:CELLS])


@pytest.mark.parametrize("features", [(0, 1), (1, 0), (2, 0)])
def test_cells_of_a_pair_are_all_pairs_of_cells(features):
    grid = made_grid(1)
    cuts = [Cut.draw(grid, feature, 8, (0, 0.5, 0.2)) for feature in features]
    cells = cell_grid(cuts)
    assert cells.features.tolist() == list(features)
    of_pairs = cells.cells[0].astype(int)[:, None] + cells.cells[1][None, :]
    assert np.array_equal(of_pairs, cuts[0].cells[:, None] * cuts[1].n_cells + cuts[1].cells[None, :])
