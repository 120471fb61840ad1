"""Which tree a record is in: uniform, independent of the other rows, and the same for any number of threads."""

import pickle

import numpy as np
import pytest

from diprime._util.resources import Threads
from diprime.forest.engine import BagAssignment, IndependentAssignment
from diprime.forest.rows import ROWS_PER_STREAM
from diprime.kernels import sampling
from diprime.paper import EqualParts
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


def test_trees_are_independent_of_threads_and_of_later_rows():
    n_rows = 3 * ROWS_PER_STREAM + 17
    how = IndependentAssignment(7)
    trees = draw(how, n_rows)
    assert trees.dtype == np.uint16
    for n_threads in (2, 3):
        np.testing.assert_array_equal(draw(how, n_rows, n_threads), trees)
    for fewer in (n_rows - 1, 3 * ROWS_PER_STREAM, ROWS_PER_STREAM + 1, 1):
        np.testing.assert_array_equal(draw(how, fewer), trees[:fewer])


def test_rows_of_different_streams_are_assigned_independently():
    rows = ROWS_PER_STREAM
    trees = draw(IndependentAssignment(5), 2 * rows + 5)
    assert fits(np.bincount(trees, minlength=5), [1 / 5] * 5)
    pairs = 5 * trees[:rows].astype(int) + trees[rows : 2 * rows]  # across streams
    assert fits(np.bincount(pairs, minlength=25), [1 / 25] * 25)
    sizes = np.bincount(trees)
    assert sizes.max() - sizes.min() > 1


def test_bag_has_the_size_of_a_bootstrap_sample():
    bag = draw(BagAssignment(), DRAWS)
    assert bag.dtype == np.uint16
    assert fits(np.bincount(bag, minlength=2), [0.632, 0.368])
    pairs = 2 * bag[:-1:2].astype(int) + bag[1::2]
    assert fits(np.bincount(pairs, minlength=4), [0.632**2, 0.632 * 0.368, 0.368 * 0.632, 0.368**2])
    assert not np.array_equal(bag, draw(BagAssignment(), DRAWS, seed=1))
    assert BagAssignment().n_trees == 1
    assert draw(BagAssignment(), 0).tolist() == []


@pytest.mark.parametrize("how", [IndependentAssignment(7), IndependentAssignment(1), BagAssignment(), EqualParts(7)])
def test_trees_are_independent_of_partitions(how):
    rows = ROWS_PER_STREAM
    n_rows = 2 * rows + 1000
    expected = draw(how, n_rows)
    for cuts in ([1], [rows], [rows - 1, rows + 1], [0, 0, 5, rows + 7, 2 * rows, n_rows, n_rows]):
        sizes = np.diff([0, *cuts, n_rows]).tolist()
        parts = [part.draw(Threads(1)) for part in how.draws(sizes, RandomSource(0))]
        assert [len(part) for part in parts] == sizes
        np.testing.assert_array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("how", [IndependentAssignment(7), BagAssignment()])
def test_draws_are_pickled_repeatable_and_overwritten_after_use(how):
    _, second = how.draws([100, 200], RandomSource(0))
    travelled = pickle.loads(pickle.dumps(second))
    for again in (second, second, travelled, travelled):
        np.testing.assert_array_equal(again.draw(Threads(1)), draw(how, 300)[100:])
    assert isinstance(travelled.streams.base, type(secret_words(1).base))


def test_partition_gets_only_the_streams_of_its_rows():
    rows = ROWS_PER_STREAM
    draws = IndependentAssignment(3).draws([rows + 1, 10, rows, 0], RandomSource())
    assert [len(part.streams) for part in draws] == [2, 1, 2, 0]
    keys = [{bytes(stream[4:12]) for stream in part.streams} for part in draws]
    assert len(set.union(*keys)) == 3, "without a seed, every stream has a key of its own"
    assert keys[1] < keys[0]
