"""Receipts pay for the bound that was charged, and nothing that merely looks like a receipt pays for anything."""

from fractions import Fraction

import numpy as np
import pytest

from diprime.privacy.charges import UnpaidReleaseError
from diprime.privacy.mechanisms.gaussian import ROUNDED_GAUSSIAN, rounded_gaussian
from diprime.privacy.mechanisms.laplace import DISCRETE_LAPLACE, discrete_laplace
from diprime.privacy.mechanisms.selection import Selection
from diprime.privacy.mechanisms.stopping import RANDOM_STOPPING, best_of_random_number
from diprime.privacy.mechanisms.threshold import THRESHOLDED_LAPLACE, frequent
from diprime.privacy.randomness import RandomSource
from tests import paid

VALUES = np.zeros((1, 3), dtype=np.int64)


def use_of(receipt):
    """Return what uses up a receipt of any measure."""
    return {"pure epsilon": receipt.use, "Gaussian": receipt.use_gaussian}.get(
        receipt.charge.measure.name, receipt.use_approximate
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: paid.receipt("m", calibrated_to=2),
        lambda: paid.gaussian_receipt("m", calibrated_to=2),
        lambda: paid.approximate_receipt("m", Fraction(1), Fraction(1, 10**6), calibrated_to=2),
    ],
)
def test_a_receipt_pays_for_the_bound_that_was_charged(make):
    receipt = make()
    for other in (0, 1, 3):
        with pytest.raises(UnpaidReleaseError, match=f"charged for a bound of 2, but released for {other}"):
            use_of(receipt)("m", calibrated_to=other)
    assert receipt.unused == 1  # what was refused has used up nothing
    use_of(receipt)("m", calibrated_to=2)
    assert receipt.unused == 0


class LookAlike:
    """Has all that a receipt has, and was not paid for."""

    def __init__(self, receipt):
        self.charge = receipt.charge
        self.unused = 10**9
        self.use = self.use_gaussian = self.use_approximate = lambda *_, **__: receipt.charge.measure


@pytest.mark.parametrize(
    ("receipt", "release"),
    [
        (paid.receipt(DISCRETE_LAPLACE), lambda r, s: discrete_laplace(VALUES, r, 1, s)),
        (paid.gaussian_receipt(ROUNDED_GAUSSIAN), lambda r, s: rounded_gaussian(VALUES, r, 1, s)),
        (
            paid.approximate_receipt(THRESHOLDED_LAPLACE, Fraction(1), Fraction(1, 10**6)),
            lambda r, s: frequent(VALUES[0] + 1, r, s),
        ),
        (
            paid.receipt(RANDOM_STOPPING, times=3),
            lambda r, _: best_of_random_number(lambda measure: (0, measure), r, 1, RandomSource(0)),
        ),
        (paid.receipt("exponential mechanism"), lambda r, s: Selection(r, s, cost_range=1, n_candidates=3)),
    ],
)
def test_what_looks_like_a_receipt_pays_for_nothing(receipt, release):
    with pytest.raises(UnpaidReleaseError, match="got LookAlike"):
        release(LookAlike(receipt), RandomSource(0).streams(1))
    release(receipt, RandomSource(0).streams(1))
