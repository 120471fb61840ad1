"""Intervals cover the truth as often as they say, with much noise and with little.

The populations are those of ``benchmarks.scores``, which prints the whole table. A test fails if so few intervals cover
the truth that a coverage of 95 % has this outcome with a probability below 1e-7. Where few records meet much noise,
intervals must be wide rather than wrong.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import diprime.scoring.intervals
from benchmarks.scores import POPULATIONS, numbers, simulate, three_classes
from diprime.scoring.intervals import Cells, Part, Ratio, Sum, TableNoise, mean_of_shares

REPEATS = 1000
MADE = {**POPULATIONS, "three classes": lambda: three_classes(200_000), "numbers": lambda: numbers(0.08, 400_000)}
CASES = [("two classes", 300, 0.1), ("numbers", 300, 0.1)]
MORE = [
    ("two classes, one of them rare", 2000, 0.3),
    ("three classes", 1500, 0.2),
    ("two classes", 2000, 1.0),
    ("two classes, easy", 1000, math.inf),
    ("1 % positives, perfect model", 1000, 0.1),
    ("numbers", 3000, 1.0),
]
AUDITED = [(name, n, epsilon) for name in POPULATIONS for n, epsilon in [(200, 0.1), (1000, 1.0), (4000, 0.3)]]


def least(repeats):
    """Return the share of covering intervals below which a coverage of 95 % is refuted; the error rate is 1e-7.

    Points of a curve are counted together, as if they were a single interval, which can only make the test milder.
    """
    return binom.ppf(1e-7, repeats, 0.95) / repeats


def too_few(name, n, epsilon, repeats):
    found = simulate(MADE[name](), n, epsilon, repeats, seed=7)
    return {score: coverage.share for score, coverage in found.items() if coverage.share < least(repeats)}


@pytest.mark.parametrize(
    ("name", "n", "epsilon"), [*CASES, *(pytest.param(*case, marks=pytest.mark.audit) for case in MORE)]
)
def test_intervals_cover_the_truth(name, n, epsilon):
    assert too_few(name, n, epsilon, REPEATS) == {}


@pytest.mark.audit
@pytest.mark.parametrize(("name", "n", "epsilon"), AUDITED)
def test_intervals_of_all_populations_cover_the_truth(name, n, epsilon):
    assert too_few(name, n, epsilon, 1000 if "class" not in name.split("two")[0] else 200) == {}


@pytest.mark.parametrize(("model", "recall"), [("perfect", 1.0), ("ordinary", 0.8), ("useless", 0.0)])
@pytest.mark.parametrize(
    ("k", "n"),
    [(10, 1000), *(pytest.param(*size, marks=pytest.mark.audit) for size in [(10, 4000), (26, 1000), (26, 20_000)])],
)
def test_balanced_accuracy_of_many_classes_covers_the_truth(model, recall, k, n):
    """Cells of the confusion matrix alone: these had a coverage of 0 to 0.9 when recalls were cut at 0 and 1."""
    rng, noise, covering = np.random.default_rng(3), TableNoise.of_release(Fraction(1, 3), 1), 0
    recalls = np.full(k, recall)
    recalls[0] = max(recall, 0.5)
    for _ in range(REPEATS):
        sizes = rng.multinomial(n, np.full(k, 1 / k))
        right = rng.binomial(sizes, recalls)
        table = np.zeros((k, k))
        table[:, 0], table[0, 0], table[0, 1] = sizes - right, 0, sizes[0] - right[0]
        table += np.diag(right)
        q = math.exp(-1 / 3)
        table += rng.geometric(1 - q, (k, k)) - rng.geometric(1 - q, (k, k))
        parts = []
        for row, counts in enumerate(table):
            cells = Cells.of_counts(counts, noise)
            here = (np.arange(k) == row).astype(float)
            parts.append(Part(Ratio.of(cells, Sum.of(cells, here), Sum.of(cells, np.ones(k)), is_share=True)))
        found = mean_of_shares(parts, 0.95)
        covering += found.low <= recalls.mean() <= found.high
    assert covering / REPEATS >= least(REPEATS)


def test_intervals_of_few_records_are_wide():
    found = simulate(MADE["two classes"](), 40, 0.1, 50)
    assert found["accuracy"].mean_width > 0.9
    assert found["ROC AUC"].mean_width > 0.9


@pytest.mark.parametrize("name", ["two classes", "numbers"])
def test_coverage_test_detects_intervals_that_ignore_the_noise(name, monkeypatch):
    """Coverage that nothing could spoil would prove nothing: intervals for less than half of the noise are noticed."""
    of_release = TableNoise.of_release

    def too_little(*arguments):
        noise = of_release(*arguments)
        return TableNoise(0.2 * noise.variance, noise.kurtosis)

    monkeypatch.setattr(TableNoise, "of_release", too_little)
    found = simulate(MADE[name](), 1500, 0.1, 150, seed=7)
    assert min(coverage.share for coverage in found.values()) < least(150)


def test_coverage_test_detects_intervals_that_ignore_sampling(monkeypatch):
    none = diprime.scoring.intervals.Covariance(0.0, 0.0, 0.0)
    limits = Ratio.limits
    monkeypatch.setattr(Ratio, "limits", lambda ratio, *rest: limits(replace(ratio, sampling=none), *rest))
    found = simulate(MADE["two classes"](), 2000, 1.0, 150, seed=7)
    assert found["accuracy"].share < 0.8
