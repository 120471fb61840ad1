"""The first look: counts of the records, their noise, and what the ledger is told of them."""

import math
from fractions import Fraction

import numpy as np
import pytest

from diprime.domain.target_layout import TargetLayout
from diprime.privacy.ledger import Ledger
from diprime.privacy.randomness import RandomSource
from diprime.training import counts as overview
from diprime.training.counts import charge_counts, release_counts
from tests.goodness import fits

LAYOUTS = {
    "number": TargetLayout.of_number(4096),
    "one": TargetLayout.of_classes(1),
    "three": TargetLayout.of_classes(3),
}
TOO_LITTLE_NOISE = Fraction(143, 100)  # an epsilon that is this much larger has 30 % less noise


def as_target(values):
    return np.array(values, dtype=np.int32)


class Spy:
    """Stands in for a mechanism: keeps what it is called with, and lets it do its work."""

    def __init__(self, monkeypatch, name):
        self.calls = []
        self.original = getattr(overview, name)
        monkeypatch.setattr(overview, name, self)

    def __call__(self, *arguments):
        self.calls.append(arguments)
        return self.original(*arguments)


@pytest.mark.parametrize("name", LAYOUTS)
def test_without_noise_counts_are_those_of_the_valid_records(name):
    layout = LAYOUTS[name]
    values = {"number": [0, 4096, 7, 7], "one": [0, 0, 0, 0], "three": [2, 0, 2, 2]}[name]
    expected = {"number": [4], "one": [4], "three": [1, 0, 3]}[name]
    target = as_target([-1, *values, -1])
    assert release_counts(target, layout, math.inf, RandomSource(0)).tolist() == expected
    assert release_counts(as_target([-1]), layout, math.inf, RandomSource(0)).tolist() == [0] * len(expected)
    assert release_counts(as_target([]), layout, math.inf, RandomSource(0)).tolist() == [0] * len(expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_record_adds_one_to_one_count(monkeypatch, name):
    layout = LAYOUTS[name]
    spy = Spy(monkeypatch, "discrete_laplace")
    valid = range(layout.n_outputs) if layout.units == 1 else (0, 1, 2048, 4096)
    for record in (-1, *valid):
        for target in ([], [0], [-1, 0, 0]):
            for values in (target, [*target, record]):
                release_counts(as_target(values), layout, Fraction(1, 3), RandomSource(0))
            (before, *first), (after, *second) = spy.calls[-2:]
            assert first[:2] == second[:2] == [Fraction(1, 3), 1], "epsilon and sensitivity"
            assert before.shape == after.shape
            assert np.abs(after - before).sum() == (record >= 0)


def test_counts_have_the_noise_that_was_charged():
    target, q = as_target([0] * 10 + [2] * 5 + [-1]), math.exp(-1 / 2)
    p = np.array([(1 - q) / (1 + q) * q ** abs(x) for x in range(-4, 5)])

    def found(epsilon):
        source, counts = RandomSource(3), np.zeros((3, 10))
        for _ in range(3000):
            noise = release_counts(target, LAYOUTS["three"], epsilon, source) - [10, 0, 5]
            for i, x in enumerate(noise):
                counts[i, x + 4 if abs(x) <= 4 else 9] += 1
        return counts

    assert all(fits(counts, [*p, 1 - p.sum()]) for counts in found(Fraction(1, 2)))
    assert not any(fits(counts, [*p, 1 - p.sum()]) for counts in found(Fraction(1, 2) * TOO_LITTLE_NOISE))


@pytest.mark.parametrize("name", LAYOUTS)
def test_counts_are_charged_for_the_noise_that_they_get(monkeypatch, name):
    epsilon, ledger = Fraction(1, 50), Ledger(Fraction(1))
    charge_counts(ledger, LAYOUTS[name], epsilon)
    (charge,) = ledger.charges
    laplace = Spy(monkeypatch, "discrete_laplace")
    release_counts(as_target([0, 0]), LAYOUTS[name], epsilon, RandomSource(0))
    ((_, used, sensitivity, _),) = laplace.calls
    assert (charge.epsilon, charge.times) == (used, 1) == (epsilon, 1)
    assert charge.bound == f"L1 sensitivity {sensitivity}"
    assert charge.what == ("row count" if name == "number" else "class counts")
    assert ledger.total == epsilon
