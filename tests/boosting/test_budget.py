"""Division of the budget among releases: factors of the sums, their noise, and shares that cannot be overspent."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.boosting.budget import SHARE_UNIT, DividedBudget, as_share, noise_of
from diprime.boosting.gradients import BASIS_BITS, CLIP, ResidualGradients, SoftmaxGradients
from diprime.domain.encoding import TargetLayout
from diprime.domain.features import TARGET_UNITS
from diprime.privacy.charges import Mechanism, UnpaidReleaseError
from diprime.privacy.mechanisms import gaussian
from diprime.privacy.mechanisms.gaussian import gaussian_sigma
from diprime.privacy.randomness import RandomSource
from tests.paid import gaussian_receipt

PERSONS = [1, 2, 3, 100]
SENSITIVITIES = [
    1,
    TARGET_UNITS**2,
    (CLIP << BASIS_BITS) ** 2,
    SoftmaxGradients(5).squared_sensitivity,
    ResidualGradients(7, TARGET_UNITS).squared_sensitivity,
]


def divided(mu_squared=1, k=1, bits=BASIS_BITS):
    layout = TargetLayout.of_number(TARGET_UNITS).of_persons(k)
    sensitivity = ((CLIP << bits) * layout.person_weight) ** 2
    receipt = gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN, mu_squared, calibrated_to=sensitivity)
    return DividedBudget(receipt, layout, RandomSource(0)), receipt


@given(st.sampled_from(PERSONS), st.integers(2, BASIS_BITS), st.integers(1, (CLIP << 2) ** 2))
@settings(deadline=None, max_examples=200)
def test_factor_is_the_largest_within_the_charged_sensitivity(k, bits, squared_sensitivity):
    budget, receipt = divided(math.inf, k, bits)
    weight, charged = budget._layout.person_weight, receipt.charge.sensitivity.n
    released = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "diprime.boosting.budget.rounded_gaussian", lambda values, *_, **__: released.append(values) or values
        )
        budget.release(np.array([[1], [0]]), squared_sensitivity, Fraction(1))
    factor = int(released[0][0, 0])
    assert (factor * weight) ** 2 * squared_sensitivity <= charged < ((factor + 1) * weight) ** 2 * squared_sensitivity
    assert budget.basis_unit == 1 << bits


@pytest.mark.parametrize("k", PERSONS)
@pytest.mark.parametrize("squared_sensitivity", SENSITIVITIES)
def test_release_without_noise_is_in_records_or_people(squared_sensitivity, k):
    budget, _ = divided(math.inf, k)
    sums = np.arange(-6, 6).reshape(3, 4) * budget._layout.person_weight
    assert np.array_equal(budget.release(sums, squared_sensitivity, Fraction(1, 2)), np.arange(-6, 6).reshape(3, 4))
    assert budget.noise(squared_sensitivity, Fraction(1, 2)) == 0


@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 3), Fraction(1, 1000)])
@pytest.mark.parametrize("squared_sensitivity", SENSITIVITIES)
def test_noise_of_a_release_has_the_stated_deviation(squared_sensitivity, share):
    """The mean square of 20,000 draws is within seven standard deviations, 7%: a false alarm in 10^11."""
    for k in PERSONS[:3]:
        budget, _ = divided(Fraction(1, 2), k)
        drawn = budget.release(np.zeros(20_000, dtype=np.int64), squared_sensitivity, share)
        stated = budget.noise(squared_sensitivity, share)
        assert (drawn**2).mean() / stated**2 == pytest.approx(1, abs=0.07)
        # The factor loses at most a thousandth against noise that is calibrated to this release alone.
        assert stated == pytest.approx(math.sqrt(squared_sensitivity / (share / 2)), rel=1e-3)


@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 7)])
def test_noise_is_drawn_at_the_scale_of_the_share(share, monkeypatch):
    scales = []
    monkeypatch.setattr(gaussian, "_draw", lambda _, *scale: scales.append(scale[:2]) or scale[-1].fill(0))
    budget, receipt = divided(Fraction(1, 2))
    budget.release(np.zeros(3, dtype=np.int64), 1, share)
    assert scales == [gaussian._scale(share / 2, receipt.charge.sensitivity.n)]
    sigma = gaussian_sigma(share / 2, receipt.charge.sensitivity.n)
    assert noise_of(receipt.charge, share) == float(sigma)


def test_shares_add_up_to_at_most_one():
    budget, receipt = divided()
    for share in (Fraction(1, 2), Fraction(1, 3), Fraction(1, 7)):
        budget.release(np.zeros(1, dtype=np.int64), 1, share)
    assert budget.left == Fraction(1, 42)
    for share in (Fraction(1, 42) + Fraction(1, 10**30), Fraction(1), Fraction(0), Fraction(-1, 2)):
        with pytest.raises((UnpaidReleaseError, ValueError)):
            budget.release(np.zeros(1, dtype=np.int64), 1, share)
    assert budget.left == Fraction(1, 42)
    budget.close()
    assert budget.left == receipt.unused == 0
    with pytest.raises(UnpaidReleaseError):
        budget.release(np.zeros(1, dtype=np.int64), 1, Fraction(1, 10**9))


@given(st.integers(0, SHARE_UNIT), st.integers(1, 100_000))
def test_equal_parts_of_a_share_fit_into_it(units, n):
    share = Fraction(units, SHARE_UNIT)
    part = as_share(float(share) / n)
    assert n * part <= share < n * (part + Fraction(1, SHARE_UNIT))
