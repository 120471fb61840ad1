"""Which tree a record is in: uniform, independent of the other rows, and the same for any number of threads."""

import pickle

import numpy as np
import pytest

from diprime._util.threads import Threads
from diprime.engines import assignment
from diprime.engines.assignment import BagAssignment, IndependentAssignment
from diprime.kernels import sampling
from diprime.paper.accounting import EqualParts
from diprime.privacy.randomness import RandomSource, secret_words
from tests.encoded_rows import drawn_trees
from tests.goodness import fits

DRAWS = 60_000


def draw(how, n_rows, n_threads=1, *, seed=0):
    with Threads(n_threads) as threads:
        return drawn_trees(how, n_rows, RandomSource(seed), threads)


@pytest.mark.parametrize("n_trees", [2, 3, 5, 7, 11, 200])
def test_trees_are_uniform_and_independent(n_trees):
    trees = draw(IndependentAssignment(n_trees), DRAWS, seed=n_trees)
    assert fits(np.bincount(trees, minlength=n_trees), [1 / n_trees] * n_trees)
    if n_trees < 20:
        pairs = n_trees * trees[:-1:2].astype(int) + trees[1::2]
        assert fits(np.bincount(pairs, minlength=n_trees**2), [1 / n_trees**2] * n_trees**2)
    out = np.zeros(DRAWS, dtype=np.uint32)
    sampling.draw_words(RandomSource(0).streams(1)[0], out)
    bits = (n_trees - 1).bit_length()
    biased = (out & np.uint32(2**bits - 1)) % n_trees  # what would come out if nothing were thrown away
    assert fits(np.bincount(biased, minlength=n_trees), [1 / n_trees] * n_trees) == (n_trees == 2)


def test_trees_do_not_depend_on_threads_and_a_new_row_moves_no_other():
    n_rows = 3 * assignment._ROWS_PER_STREAM + 17
    how = IndependentAssignment(7)
    trees = draw(how, n_rows)
    assert trees.dtype == np.uint16
    for n_threads in (2, 3):
        np.testing.assert_array_equal(draw(how, n_rows, n_threads), trees)
    for fewer in (n_rows - 1, 3 * assignment._ROWS_PER_STREAM, assignment._ROWS_PER_STREAM + 1, 1):
        np.testing.assert_array_equal(draw(how, fewer), trees[:fewer])


def test_rows_are_assigned_uniformly_and_every_stream_is_used_once():
    rows = assignment._ROWS_PER_STREAM
    trees = draw(IndependentAssignment(5), 2 * rows + 5)
    assert fits(np.bincount(trees, minlength=5), [1 / 5] * 5)
    pairs = 5 * trees[:rows].astype(int) + trees[rows : 2 * rows]  # across streams
    assert fits(np.bincount(pairs, minlength=25), [1 / 25] * 25)
    sizes = np.bincount(trees)
    assert sizes.max() - sizes.min() > 1


def test_equal_parts_are_cut_from_a_permutation():
    trees = draw(EqualParts(10), 1003)
    sizes = np.bincount(trees)
    assert sizes.max() - sizes.min() == 1
    assert not np.array_equal(trees, np.sort(trees))
    assert not np.array_equal(trees, draw(EqualParts(10), 1003, seed=1))


@pytest.mark.parametrize("way", [EqualParts, IndependentAssignment])
def test_one_tree_and_no_rows(way):
    assert draw(way(1), 5).tolist() == [0] * 5
    assert draw(way(3), 0).tolist() == []
    assert set(draw(way(65535), 2000).tolist()) <= set(range(65535))


def test_a_bag_holds_as_many_rows_as_a_bootstrap_sample():
    bag = draw(BagAssignment(), DRAWS)
    assert bag.dtype == np.uint16
    assert fits(np.bincount(bag, minlength=2), [0.632, 0.368])
    pairs = 2 * bag[:-1:2].astype(int) + bag[1::2]
    assert fits(np.bincount(pairs, minlength=4), [0.632**2, 0.632 * 0.368, 0.368 * 0.632, 0.368**2])
    assert not np.array_equal(bag, draw(BagAssignment(), DRAWS, seed=1))
    assert BagAssignment().n_trees == 1
    assert draw(BagAssignment(), 0).tolist() == []


@pytest.mark.parametrize("how", [IndependentAssignment(7), IndependentAssignment(1), BagAssignment(), EqualParts(7)])
def test_trees_do_not_depend_on_how_rows_are_cut_into_partitions(how):
    rows = assignment._ROWS_PER_STREAM
    n_rows = 2 * rows + 1000
    expected = draw(how, n_rows)
    for cuts in ([1], [rows], [rows - 1, rows + 1], [0, 0, 5, rows + 7, 2 * rows, n_rows, n_rows]):
        sizes = np.diff([0, *cuts, n_rows]).tolist()
        parts = [part.draw(Threads(1)) for part in how.draws(sizes, RandomSource(0))]
        assert [len(part) for part in parts] == sizes
        np.testing.assert_array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("how", [IndependentAssignment(7), BagAssignment()])
def test_draws_can_travel_and_be_drawn_again_and_keep_their_streams_in_memory_that_is_overwritten(how):
    _, second = how.draws([100, 200], RandomSource(0))
    travelled = pickle.loads(pickle.dumps(second))
    for again in (second, second, travelled, travelled):
        np.testing.assert_array_equal(again.draw(Threads(1)), draw(how, 300)[100:])
    assert isinstance(travelled.streams.base, type(secret_words(1).base))


def test_a_partition_gets_the_streams_of_its_own_rows_only():
    rows = assignment._ROWS_PER_STREAM
    draws = IndependentAssignment(3).draws([rows + 1, 10, rows, 0], RandomSource())
    assert [len(part.streams) for part in draws] == [2, 1, 2, 0]
    keys = [{bytes(stream[4:12]) for stream in part.streams} for part in draws]
    assert len(set.union(*keys)) == 3, "without a seed, every stream has a key of its own"
    assert keys[1] < keys[0]
