"""A person keeps at most k records, all choices alike, whoever else is there; her weights add up to the same."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain.records import person_weight
from diprime.execution import groups
from diprime.execution.groups import split_weight
from diprime.privacy.randomness import RandomSource, bits_of_rows
from tests.encoded_rows import bound_contributions
from tests.execution.replaying import ReplayingExecutor
from tests.goodness import fits


def choose(target, people, k, seed=0):
    return bound_contributions(
        np.array(target, dtype=np.int32), np.array(people, dtype=np.int64), k, RandomSource(seed)
    )


@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, 6)), max_size=60), st.sampled_from([1, 2, 3, 4, 7, 100]))
@settings(deadline=None)
def test_every_person_has_the_same_weight_and_at_most_k_records(rows, k):
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
def test_sampled_records_do_not_depend_on_other_people(seed, k, n_others):
    """The bits of a record are its own: whoever else has records, and however many, what is kept stays the same."""
    rng = np.random.default_rng(seed)
    people = np.array([7] * 6 + [8] * 3)
    target = rng.integers(0, 3, len(people)).astype(np.int32)
    own_bits = rng.integers(0, 2**64, len(people), dtype=np.uint64)

    def bits(stream, first, n):
        return np.concatenate([own_bits, np.full(n - len(own_bits), 1, dtype=np.uint64)])

    others = rng.integers(0, 7, n_others)
    everybody = np.concatenate([target, np.zeros(n_others, dtype=np.int32)]), np.concatenate([people, others])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "bits_of_rows", bits)
        alone = bound_contributions(target, people, k, RandomSource())
        crowd = bound_contributions(*everybody, k, RandomSource())
    assert crowd.target[: len(people)].tolist() == alone.target.tolist()
    if k > 1:
        assert crowd.weights[: len(people)].tolist() == alone.weights.tolist()


def subsets_kept(n, k, repeats, bound_contributions):
    """Return how often each choice of k of n records was kept, by many persons at once."""
    people = np.repeat(np.arange(repeats), n)
    used = bound_contributions(np.zeros(n * repeats, dtype=np.int32), people, k, RandomSource(1))
    kept = Counter(tuple(np.flatnonzero(row).tolist()) for row in used.target.reshape(repeats, n) >= 0)
    return [kept[subset] for subset in combinations(range(n), k)]


@pytest.mark.parametrize(("n", "k"), [(2, 1), (5, 1), (5, 2), (6, 3), (4, 3)])
def test_all_samples_of_a_persons_records_are_equally_likely(n, k):
    counts = subsets_kept(n, k, 20_000, bound_contributions)
    assert sum(counts) == 20_000
    assert fits(counts, [1 / len(counts)] * len(counts))


def test_test_of_samples_has_power(monkeypatch):
    def biased(stream, first, n):
        bits = bits_of_rows(stream, first, n)
        bits[::5] -= bits[::5] // np.uint64(8)  # the first of five records is kept a little more often
        return bits

    monkeypatch.setattr(groups, "bits_of_rows", biased)
    counts = subsets_kept(5, 2, 20_000, bound_contributions)
    assert not fits(counts, [1 / len(counts)] * len(counts))


def test_larger_shares_are_given_to_random_records():
    """Of five records, two weigh 3 and three weigh 2: which two must not follow from their order."""
    repeats = 20_000
    used = bound_contributions(
        np.zeros(5 * repeats, dtype=np.int32), np.repeat(np.arange(repeats), 5), 5, RandomSource(2)
    )
    assert person_weight(5) == 12
    larger = (used.weights.reshape(repeats, 5) == 3).sum(axis=0)
    assert larger.sum() == 2 * repeats
    assert abs(larger / repeats - 0.4).max() < 0.02
    assert split_weight(np.arange(5), np.full(5, 5), 12).tolist() == [3, 3, 2, 2, 2]


def test_equal_bits_keep_the_first_records(monkeypatch):
    monkeypatch.setattr(groups, "bits_of_rows", lambda stream, first, n: np.zeros(n, dtype=np.uint64))
    for cuts in ([], [1, 3]):
        target, people = np.array([4, 3, 2, 1], dtype=np.int32), [9, 8, 9, 8]
        assert bound_contributions(target, people, 1, RandomSource(), cuts).target.tolist() == [4, 3, -1, -1]


def chosen_directly(target, people, k, seed):
    """Return the target and the weight of each record that is used, sorted person by person in one array."""
    bits = bits_of_rows(RandomSource(seed).stream_apart(), 0, len(target))
    used, weights = np.full_like(target, -1), np.zeros(len(target), dtype=int)
    for person in set(people.tolist()) - {-1}:
        own = [i for i in np.flatnonzero(people == person) if target[i] >= 0]
        kept = sorted(own, key=lambda i: (bits[i], i))[:k]
        for rank, i in enumerate(kept):
            used[i] = target[i]
            weights[i] = person_weight(k) // len(kept) + (rank < person_weight(k) % len(kept))
    return used.tolist(), weights.tolist()


CUTS = {"one": [], "two": [150], "empty ones": [0, 0, 120, 300, 300], "many": list(range(10, 300, 10))}


@pytest.mark.parametrize("executor", [None, ReplayingExecutor], ids=["in process", "replaying"])
@pytest.mark.parametrize("n_ranges", [1, 3])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_sampled_records_do_not_depend_on_partitions(k, cuts, n_ranges, executor, monkeypatch):
    monkeypatch.setattr(groups, "CANDIDATES", 300 // n_ranges)
    rng = np.random.default_rng(k)
    people, target = rng.integers(-1, 60, 300), rng.integers(-1, 5, 300).astype(np.int32)
    used = bound_contributions(target, people, k, RandomSource(8), cuts, executor)
    weights = (used.target >= 0).astype(int) if k == 1 else used.weights
    assert (used.target.tolist(), weights.tolist()) == chosen_directly(target, people, k, 8)
