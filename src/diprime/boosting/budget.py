"""The budget of all releases after the code sums, which released numbers divide among them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.boosting.gradients import CLIP
from diprime.domain.encoding import TargetLayout
from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.measures import GaussianDP
from diprime.privacy.mechanisms.gaussian import gaussian_sigma, rounded_gaussian
from diprime.privacy.randomness import RandomSource

Floats = npt.NDArray[np.float64]

SHARE_UNIT = 1 << 24
"""Shares of the budget are multiples of one divided by this number."""


def noise_of(charge: Charge, share: Fraction = Fraction(1)) -> float:
    """Return the standard deviation of the noise of releases that use up a share of a charge."""
    assert isinstance(charge.measure, GaussianDP)
    if charge.measure.mu_squared == math.inf:
        return 0.0
    return float(gaussian_sigma(Fraction(charge.measure.mu_squared) * share, charge.sensitivity.n))


def as_share(value: float) -> Fraction:
    """Return a share of the budget, rounded down to a multiple of one divided by `SHARE_UNIT`."""
    return Fraction(int(value * SHARE_UNIT), SHARE_UNIT)


class DividedBudget:
    """Budget of releases with different sensitivities and costs, whose shares follow from released numbers.

    The sums of a release are multiplied by an integer, so that one record changes them by a vector whose norm is at
    most that of the charge, and nearly as large.
    """

    def __init__(self, receipt: Receipt, layout: TargetLayout, source: RandomSource) -> None:
        self._receipt = receipt
        self._layout = layout
        self._source = source
        self._sensitivity = receipt.charge.sensitivity.n
        # Curves multiply gradients of norm `CLIP` by vectors of this norm.
        self.basis_unit = math.isqrt(self._sensitivity // layout.person_weight**2) // CLIP

    @property
    def left(self) -> Fraction:
        """Share of the budget that has not been used."""
        return self._receipt.unused

    def noise(self, squared_sensitivity: int, share: Fraction) -> float:
        """Return the standard deviation of the noise of a release, in records or people."""
        return noise_of(self._receipt.charge, share) / (self._factor(squared_sensitivity) * self._layout.person_weight)

    def _factor(self, squared_sensitivity: int) -> int:
        return math.isqrt(self._sensitivity // (self._layout.person_weight**2 * squared_sensitivity))

    def release(self, sums: npt.NDArray[np.int64], squared_sensitivity: int, share: Fraction) -> Floats:
        """Release sums to which a record of weight one adds a vector whose squared norm is at most the given bound.

        Return them in records or, with groups, in people.
        """
        factor = self._factor(squared_sensitivity)
        flat = np.ascontiguousarray(sums).reshape(1, -1) * factor
        released = rounded_gaussian(flat, self._receipt, self._sensitivity, self._source.streams(1), share=share)
        return np.asarray(released.reshape(sums.shape) / (factor * self._layout.person_weight))

    def close(self) -> None:
        """Give up what is left."""
        self._receipt.cancel()
