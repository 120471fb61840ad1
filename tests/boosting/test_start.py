"""Counts and starting scores: they follow from released numbers, and shrink to the middle if noise exceeds these."""

from fractions import Fraction

import numpy as np
import pytest

from diprime.boosting import defaults
from diprime.boosting.budget import DividedBudget
from diprime.boosting.gradients import BASIS_BITS, CLIP, RANGE_BITS, SCORE_BITS
from diprime.boosting.start import Counts, class_scores, combine, release_counts, release_start
from diprime.domain.encoding import TargetLayout
from diprime.domain.features import TARGET_UNITS
from diprime.privacy.charges import Mechanism
from diprime.privacy.randomness import RandomSource
from tests.paid import gaussian_receipt

CLASSES, NUMBER = TargetLayout.of_classes(3), TargetLayout.of_number(TARGET_UNITS)
MUCH, LITTLE = 1e4, defaults.CONSTANT - 1
NUMBERS = np.zeros(TARGET_UNITS + 1, dtype=np.int64)
NUMBERS[[0, TARGET_UNITS // 2, TARGET_UNITS]] = 100, 200, 700  # with a mean of 0.8


def start(target_counts, counts, layout, signal, mu_squared=np.inf, seed=0):
    """Return the starting score, the counts, and the rest of the budget."""
    sensitivity = ((CLIP << BASIS_BITS) * layout.person_weight) ** 2
    receipt = gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN, mu_squared, calibrated_to=sensitivity)
    budget = DividedBudget(receipt, layout, RandomSource(seed))
    return *release_start(np.asarray(target_counts), counts, layout, signal, budget), budget.left


def exact(*values):
    return Counts(np.array(values, dtype=float), 1e-9)


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("layout", [CLASSES, NUMBER])
def test_counts_are_released_in_records_or_people(layout, k):
    layout = layout.of_persons(k)
    weight = layout.person_weight
    target_counts = weight * np.array([3, 4, 5])
    receipt = gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN, np.inf, calibrated_to=weight**2)
    counts = release_counts(target_counts, layout, 10.0 * weight, receipt, RandomSource(0))
    assert counts.values.tolist() == ([12] if layout is NUMBER or layout.units > 1 else [3, 4, 5])
    assert counts.total == 12
    assert counts.total_noise == pytest.approx(10 * np.sqrt(len(counts.values)))


def test_combination_weighs_by_inverse_variances_and_prefers_exact_numbers():
    combined, noise = combine(np.array([[1.0], [4.0]]), np.array([1.0, 2.0]))
    assert combined == pytest.approx([(4 * 1 + 4) / 5])
    assert noise == pytest.approx(np.sqrt(0.8))
    combined, noise = combine(np.array([[1.0], [4.0]]), np.array([0.0, 2.0]))
    assert (combined.tolist(), noise) == ([1.0], 0.0)


@pytest.mark.parametrize("signal", [MUCH, LITTLE])
def test_classes_start_at_their_log_odds(signal):
    scores, counts, left = start([100, 300, 600], exact(100, 300, 600), CLASSES, signal)
    odds = np.exp(scores / 2**SCORE_BITS)
    assert odds / odds.sum() == pytest.approx([0.1, 0.3, 0.6], rel=1e-3)
    assert counts.values.tolist() == [100, 300, 600]
    assert (left == 0) == (signal == LITTLE)
    two = class_scores(exact(100, 900))
    assert two / 2**SCORE_BITS == pytest.approx([np.log(9)], abs=1e-5)


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("signal", [MUCH, LITTLE])
def test_numbers_start_at_their_mean(signal, k):
    layout = NUMBER.of_persons(k)
    scores, _, left = start(layout.person_weight * NUMBERS, exact(1000), layout, signal)
    assert scores / 2**RANGE_BITS == pytest.approx([0.8], abs=1e-5)
    assert (left == 0) == (signal == LITTLE)


@pytest.mark.parametrize("layout", [CLASSES, NUMBER])
def test_little_information_uses_the_whole_budget_and_much_a_small_share(layout):
    target_counts = NUMBERS if layout is NUMBER else [100, 300, 600]
    enough = (1e3, 1 - 0.003, 1 - 0.002) if layout is NUMBER else (1e3, 1, 1)  # class counts have been released
    for signal, least, most in [(1.0, 0, 0), (24.9, 0, 0), (26, 0.6, 0.9), enough]:
        values = [1000] if layout is NUMBER else target_counts
        assert least <= start(target_counts, exact(*values), layout, signal)[-1] <= most


@pytest.mark.parametrize("layout", [CLASSES, NUMBER])
def test_noise_shrinks_the_start_to_equal_classes_or_the_middle(layout):
    """Without shrinkage, log-odds would exceed 10 in most of these seeded cases, and means would be 0 or 1."""
    target_counts = NUMBERS if layout is NUMBER else [100, 300, 600]
    mu_squared = Fraction(1, 10**8)  # noise of 10,000 records
    middle, unit = (0.5, 2**RANGE_BITS) if layout is NUMBER else (0.0, 2**SCORE_BITS)
    found = []
    for seed in range(40):
        noisy = np.random.default_rng(seed).normal(0, 1e5, 1 if layout is NUMBER else 3)
        scores, _, _ = start(target_counts, Counts(noisy, 1e5), layout, LITTLE, mu_squared, seed)
        found.append(np.abs(scores / unit - middle).max())
    assert np.median(found) < (0.05 if layout is NUMBER else 0.3)
    assert max(found) < (0.4 if layout is NUMBER else 1)


def test_start_follows_from_released_numbers_alone(monkeypatch):
    monkeypatch.setattr(DividedBudget, "release", lambda budget, sums, *_: np.full(np.shape(sums), 600.0))
    for layout, first in ((CLASSES, [100, 300, 600]), (NUMBER, NUMBERS)):
        counts = Counts(np.array([50.0] if layout is NUMBER else [50.0, 60.0, 70.0]), 5.0)
        for signal in (MUCH, LITTLE):
            outcomes = [start(true, counts, layout, signal)[0] for true in (first, np.zeros_like(first))]
            assert np.array_equal(*outcomes)
