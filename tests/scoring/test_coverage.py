"""Intervals cover the truth as often as they say, with much noise and with little.

The populations are those of ``benchmarks.scores``, which prints the whole table. With 250 repeats, a coverage of 95 %
is known to 1.4 %. Where few records meet much noise, intervals must be wide rather than wrong.
"""

import math

import pytest

import diprime.scoring.intervals
from benchmarks.scores import POPULATIONS, numbers, simulate, three_classes
from diprime.scoring.cells import Noise

REPEATS = 250
LEAST = 0.93
MADE = {**POPULATIONS, "three classes": lambda: three_classes(200_000), "numbers": lambda: numbers(0.08, 400_000)}
CASES = [
    ("two classes", 300, 0.1),
    ("two classes", 2000, 1.0),
    ("two classes, one of them rare", 2000, 0.3),
    ("two classes, easy", 1000, math.inf),
    ("three classes", 1500, 0.2),
    ("numbers", 300, 0.1),
    ("numbers", 3000, 1.0),
]


@pytest.mark.parametrize(("name", "n", "epsilon"), CASES)
def test_intervals_cover_the_truth(name, n, epsilon):
    found = simulate(MADE[name](), n, epsilon, REPEATS, seed=7)
    assert {score: coverage.share for score, coverage in found.items() if coverage.share < LEAST} == {}


def test_little_is_said_about_few_records():
    found = simulate(MADE["two classes"](), 40, 0.1, 50)
    assert found["accuracy"].mean_width > 0.9
    assert found["ROC AUC"].mean_width > 0.9


@pytest.mark.parametrize("name", ["two classes", "numbers"])
def test_intervals_that_forget_the_noise_are_found_out(name, monkeypatch):
    """Coverage that nothing could spoil would prove nothing: intervals for less than half of the noise are noticed."""
    of_release = Noise.of_release

    def too_little(*arguments):
        noise = of_release(*arguments)
        return Noise(0.2 * noise.variance, noise.kurtosis)

    monkeypatch.setattr(Noise, "of_release", too_little)
    found = simulate(MADE[name](), 1500, 0.1, 150, seed=7)
    assert min(coverage.share for coverage in found.values()) < LEAST - 0.05


def test_intervals_that_forget_the_sample_are_found_out(monkeypatch):
    none = diprime.scoring.intervals.Moments(0.0, 0.0, 0.0)
    fieller = diprime.scoring.intervals.fieller
    monkeypatch.setattr(
        diprime.scoring.intervals, "fieller", lambda a, b, noise, sampling, *rest: fieller(a, b, noise, none, *rest)
    )
    found = simulate(MADE["two classes"](), 2000, 1.0, 150, seed=7)
    assert found["accuracy"].share < 0.8
