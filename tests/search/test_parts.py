"""Records that train and records that choose: every record is in one part, and no record moves another."""

from fractions import Fraction

import numpy as np
import pytest

from diprime._util.threads import Threads
from diprime.domain.batches import EncodedBatches
from diprime.engines.partition import Partition
from diprime.engines.persons import UsedRecords
from diprime.privacy.randomness import RandomSource
from diprime.search.parts import divide

FIFTH = Fraction(1, 5)


def divided(n, holdout=FIFTH, seed=0, n_threads=1):
    codes = np.arange(n, dtype=np.int64)[:, None] // np.array([1, 256]) % 256  # two bytes that tell the row
    rows = EncodedBatches(2, [codes[: n // 3].astype(np.uint8), codes[n // 3 :].astype(np.uint8)])
    with Threads(n_threads) as threads:
        return divide(Partition(rows, UsedRecords(np.arange(n, dtype=np.int32))), holdout, RandomSource(seed), threads)


def codes_of(part):
    codes = np.empty((part.rows.n_rows, 2), dtype=np.uint8)
    if len(codes):
        part.rows.read(0, len(codes), codes)
    return codes.astype(int) @ [1, 256]


@pytest.mark.parametrize("n", [0, 1, 2, 9, 1000])
def test_every_record_is_in_one_part_with_its_own_target(n):
    parts = divided(n)
    for part in parts:
        assert codes_of(part).tolist() == part.records.target.tolist()
    assert sorted(np.concatenate([part.records.target for part in parts])) == list(range(n))


@pytest.mark.parametrize("holdout", [Fraction(1, 100), FIFTH, Fraction(7, 10)])
def test_about_the_share_chooses(holdout):
    n = 60_000
    n_choosing = len(divided(n, holdout)[1].records.target)
    assert abs(n_choosing - n * holdout) < 6 * (n * holdout * (1 - holdout)) ** 0.5


def test_a_record_more_moves_no_other():
    smaller, larger = divided(500), divided(501)
    for few, more in zip(smaller, larger, strict=True):
        assert more.records.target[: len(few.records.target)].tolist() == few.records.target.tolist()


def test_the_parts_do_not_depend_on_targets_or_threads():
    reference = divided(3000)
    for part, other in zip(reference, divided(3000, n_threads=3), strict=True):
        assert codes_of(part).tolist() == codes_of(other).tolist()


def test_fresh_bits_give_other_parts():
    assert divided(500)[1].records.target.tolist() != divided(500, seed=1)[1].records.target.tolist()


def divided_persons(persons, seed=0):
    persons = np.array(persons, dtype=np.int64)
    n = len(persons)
    rows = EncodedBatches(1, [np.arange(n, dtype=np.uint8)[:, None]])
    weights = np.arange(n, dtype=np.uint8)
    with Threads(1) as threads:
        records = UsedRecords(np.arange(n, dtype=np.int32), weights, persons)
        return divide(Partition(rows, records), Fraction(1, 2), RandomSource(seed), threads)


def test_all_records_of_a_person_are_in_one_part_with_their_weights():
    persons = np.random.default_rng(1).integers(0, 40, 200)
    training, choosing = divided_persons(persons)
    assert not set(training.records.persons) & set(choosing.records.persons)
    for part in (training, choosing):
        assert part.records.weights.tolist() == part.records.target.tolist()
        assert part.records.persons.tolist() == persons[part.records.target].tolist()
    more = divided_persons([*persons, *[40] * 9])
    for few, many in zip((training, choosing), more, strict=True):
        assert many.records.target[: len(few.records.target)].tolist() == few.records.target.tolist()


@pytest.mark.parametrize("persons", [[], [-1, -1, -1]])
def test_nobody_is_divided_without_an_error(persons):
    assert sum(len(part.records.target) for part in divided_persons(persons)) == len(persons)
