"""The cells of a round and the tree that they are: walking the tree of any code leads to its cell."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime._util.threads import Threads
from diprime.domain import Categorical, Domain, Numeric
from diprime.kernels.constants import CELLS, MISSING, N_CODES
from diprime.model.additive import AdditiveForest
from diprime.training.boosting.cells import Cut, cell_grid, cell_tree
from diprime.training.boosting.grid import CodeSums, Grid
from tests.encoded_rows import EncodedRows

DOMAIN = Domain({"x": Numeric(0, 1), "kind": Categorical(range(30)), "z": Numeric(0, 1)}, Categorical(["a", "b"]))
uniform = st.floats(0, 1, exclude_max=True)
three = st.tuples(uniform, uniform, uniform)


def made_grid(seed, n_codes=N_CODES):
    """Return a grid whose numeric features have records in so many codes."""
    sums = np.zeros((3, N_CODES, 2))
    rng = np.random.default_rng(seed)
    codes = rng.permutation(CELLS)[:n_codes]
    sums[:, codes] = rng.uniform(1, 100, (3, len(codes), 2))
    return Grid(CodeSums(sums, 0.1), DOMAIN)


def walk(structure, codes):
    """Return the leaf that each row of codes reaches."""
    depth = (structure.features.shape[1] + 1).bit_length() - 1
    n_leaves = 1 << depth
    forest = AdditiveForest.of_rounds(
        [(structure, np.zeros((1, n_leaves, 1)), np.zeros((1, n_leaves)))],
        np.zeros(1),
        2.0**-40,
        np.ones((3, N_CODES)),
        DOMAIN,
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
def test_the_tree_of_a_round_leads_every_code_to_its_cell(seed, n_codes, features, n, n_cells, uniforms):
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
def test_cells_are_a_power_of_two_and_no_more_than_asked_for(seed, n_codes, n_cells, uniforms):
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


def test_missing_numbers_are_in_any_cell_and_missing_categories_in_that_of_their_code():
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
