"""A person keeps at most k records, all choices alike, whoever else is there; her weights add up to the same."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain.persons import person_weight
from diprime.engines import persons
from diprime.engines.persons import choose_records, shares_of_weight
from diprime.privacy.randomness import RandomSource
from tests.goodness import fits


def choose(target, people, k, seed=0):
    return choose_records(np.array(target, dtype=np.int32), np.array(people, dtype=np.int64), k, RandomSource(seed))


@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, 6)), max_size=60), st.sampled_from([1, 2, 3, 4, 7, 100]))
@settings(deadline=None)
def test_everybody_weighs_the_same_and_keeps_at_most_so_many(rows, k):
    target, people = [t for t, _ in rows], [p for _, p in rows]
    used = choose(target, people, k)
    weights = (used.target >= 0).astype(np.int64) if used.weights is None else used.weights.astype(np.int64)
    assert ((used.target >= 0) == (weights > 0)).all()
    kept = used.target >= 0
    assert (used.target[kept] == np.array(target, dtype=np.int32)[kept]).all()
    usable = Counter(p for t, p in rows if t >= 0 and p >= 0)
    for person in set(people) | {-1}:
        own = np.array(people) == person if people else np.zeros(0, dtype=bool)
        assert kept[own].sum() == min(k, usable[person])
        assert weights[own].sum() == (person_weight(k) if usable[person] else 0)
        if usable[person]:
            assert np.ptp(weights[own & kept]) <= 1, "as equal as whole numbers can be"
    assert not kept[np.array(target, dtype=int) < 0].any()


@given(st.integers(0, 99), st.sampled_from([1, 2, 5]), st.integers(1, 20))
@settings(deadline=None)
def test_what_a_person_keeps_depends_on_nobody_else(seed, k, n_others):
    """The bits of a record are its own: whoever else has records, and however many, what is kept stays the same."""
    rng = np.random.default_rng(seed)
    people = np.array([7] * 6 + [8] * 3)
    target = rng.integers(0, 3, len(people)).astype(np.int32)
    own_bits = rng.integers(0, 2**64, len(people), dtype=np.uint64)

    class Bits:
        def bits_apart(self, n):
            return np.concatenate([own_bits, np.full(n - len(own_bits), 1, dtype=np.uint64)])

    alone = choose_records(target, people, k, Bits())
    others = rng.integers(0, 7, n_others)
    crowd = choose_records(
        np.concatenate([target, np.zeros(n_others, dtype=np.int32)]), np.concatenate([people, others]), k, Bits()
    )
    assert crowd.target[: len(people)].tolist() == alone.target.tolist()
    if k > 1:
        assert crowd.weights[: len(people)].tolist() == alone.weights.tolist()


def subsets_kept(n, k, repeats, choose_records):
    """Return how often each choice of k of n records was kept, by many persons at once."""
    people = np.repeat(np.arange(repeats), n)
    used = choose_records(np.zeros(n * repeats, dtype=np.int32), people, k, RandomSource(1))
    kept = Counter(tuple(np.flatnonzero(row).tolist()) for row in used.target.reshape(repeats, n) >= 0)
    return [kept[subset] for subset in combinations(range(n), k)]


@pytest.mark.parametrize(("n", "k"), [(2, 1), (5, 1), (5, 2), (6, 3), (4, 3)])
def test_all_choices_of_a_persons_records_are_equally_likely(n, k):
    counts = subsets_kept(n, k, 20_000, choose_records)
    assert sum(counts) == 20_000
    assert fits(counts, [1 / len(counts)] * len(counts))


def test_the_test_of_choices_has_power(monkeypatch):
    class Biased(RandomSource):
        def bits_apart(self, n):
            bits = super().bits_apart(n)
            bits[::5] -= bits[::5] // np.uint64(8)  # the first of five records is kept a little more often
            return bits

    monkeypatch.setattr("tests.engines.test_persons.RandomSource", Biased)
    counts = subsets_kept(5, 2, 20_000, choose_records)
    assert not fits(counts, [1 / len(counts)] * len(counts))


def test_the_larger_shares_go_to_random_records():
    """Of five records, two weigh 3 and three weigh 2: which two must not follow from their order."""
    repeats = 20_000
    used = choose_records(np.zeros(5 * repeats, dtype=np.int32), np.repeat(np.arange(repeats), 5), 5, RandomSource(2))
    assert person_weight(5) == 12
    larger = (used.weights.reshape(repeats, 5) == 3).sum(axis=0)
    assert larger.sum() == 2 * repeats
    assert abs(larger / repeats - 0.4).max() < 0.02
    assert shares_of_weight(np.arange(5), np.full(5, 5), 12).tolist() == [3, 3, 2, 2, 2]


def test_equal_bits_keep_the_first_records(monkeypatch):
    monkeypatch.setattr(RandomSource, "bits_apart", lambda self, n: np.zeros(n, dtype=np.uint64))
    used = choose([4, 3, 2, 1], [9, 8, 9, 8], 1)
    assert used.target.tolist() == [4, 3, -1, -1]


def test_with_one_record_each_nothing_is_left_out_and_nothing_else_is_drawn():
    target = np.array([0, -1, 2, 1], dtype=np.int32)
    source = RandomSource(5)
    used = persons.choose_records(target, np.array([3, 1, 0, 2]), 1, source)
    assert used.target.tolist() == target.tolist()
    assert used.weights is None
    assert source.streams(3).tolist() == RandomSource(5).streams(3).tolist()
