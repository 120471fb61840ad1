"""The first release: counts of the records, their noise, and what the ledger is told of them."""

import math
from fractions import Fraction

import numpy as np
import pytest

from diprime.domain.target_layout import TargetLayout
from diprime.privacy.charges import UnpaidReleaseError
from diprime.privacy.randomness import RandomSource
from diprime.training.counts import counts_charge, release_counts
from tests.goodness import fits
from tests.paid import pay, receipt
from tests.spies import Releases

LAYOUTS = {
    "number": TargetLayout.of_number(4096),
    "one": TargetLayout.of_classes(1),
    "three": TargetLayout.of_classes(3),
}
TOO_LITTLE_NOISE = Fraction(143, 100)  # an epsilon that is this much larger has 30 % less noise


def released(values, layout, epsilon, source=None):
    """Release the counts of the records that have these targets."""
    target_counts = np.bincount(np.array(values, dtype=np.int64), minlength=layout.n_targets)
    return release_counts(target_counts, layout, pay(counts_charge(layout, epsilon)), source or RandomSource(0))


@pytest.mark.parametrize("name", LAYOUTS)
def test_without_noise_counts_are_those_of_the_records(name):
    layout = LAYOUTS[name]
    values = {"number": [0, 4096, 7, 7], "one": [0, 0, 0, 0], "three": [2, 0, 2, 2]}[name]
    expected = {"number": [4], "one": [4], "three": [1, 0, 3]}[name]
    found = released(values, layout, math.inf)
    assert found == expected
    assert all(type(count) is int for count in found), "of Python's: no product of them overflows"
    assert released([], layout, math.inf) == [0] * len(expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_record_adds_one_to_one_count(monkeypatch, name):
    layout = LAYOUTS[name]
    releases = Releases(monkeypatch)
    for record in range(layout.n_outputs) if layout.units == 1 else (0, 1, 2048, 4096):
        for target in ([], [0], [0, 0]):
            for values in (target, [*target, record]):
                released(values, layout, Fraction(1, 3))
            before, after = releases.events[-2:]
            assert before.sensitivity == after.sensitivity == 1
            assert before.charge.epsilon == after.charge.epsilon == Fraction(1, 3)
            assert before.values.shape == after.values.shape
            assert np.abs(after.values - before.values).sum() == 1


def test_counts_have_the_noise_that_was_charged():
    target, q = [0] * 10 + [2] * 5, math.exp(-1 / 2)
    p = np.array([(1 - q) / (1 + q) * q ** abs(x) for x in range(-4, 5)])

    def found(epsilon):
        source, counts = RandomSource(3), np.zeros((3, 10))
        for _ in range(3000):
            noise = np.array(released(target, LAYOUTS["three"], epsilon, source)) - [10, 0, 5]
            for i, x in enumerate(noise):
                counts[i, x + 4 if abs(x) <= 4 else 9] += 1
        return counts

    assert all(fits(counts, [*p, 1 - p.sum()]) for counts in found(Fraction(1, 2)))
    assert not any(fits(counts, [*p, 1 - p.sum()]) for counts in found(Fraction(1, 2) * TOO_LITTLE_NOISE))


@pytest.mark.parametrize("name", LAYOUTS)
def test_counts_are_charged_for_the_noise_that_they_get(monkeypatch, name):
    releases = Releases(monkeypatch)
    released([0, 0], LAYOUTS[name], Fraction(1, 50))
    (noise,), (paid,) = releases.events, releases.receipts
    assert noise.charge is paid.charge
    assert (paid.charge.epsilon, paid.charge.times, noise.times) == (Fraction(1, 50), 1, 1)
    assert paid.unused == 0
    assert paid.charge.bound == f"L1 sensitivity {noise.sensitivity}"
    assert paid.charge.what == ("row count" if name == "number" else "class counts")
    assert paid.charge.total == Fraction(1, 50)


def test_counts_are_released_once_for_what_was_paid():
    layout, paid = LAYOUTS["three"], pay(counts_charge(LAYOUTS["three"], Fraction(1)))
    release_counts(np.zeros(3, dtype=np.int64), layout, paid, RandomSource(0))
    with pytest.raises(UnpaidReleaseError, match="class counts: 0 of 1 paid releases are left"):
        release_counts(np.zeros(3, dtype=np.int64), layout, paid, RandomSource(0))
    with pytest.raises(UnpaidReleaseError, match="released by discrete Laplace"):
        release_counts(np.zeros(3, dtype=np.int64), layout, receipt("exponential mechanism"), RandomSource(0))
