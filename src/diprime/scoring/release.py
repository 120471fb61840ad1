"""The releases of a score: charges that add up to epsilon, and noisy counts that are paid for."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.privacy.charges import Charge
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import Epsilon, PureEpsilon, share_of
from diprime.privacy.mechanisms.laplace import DISCRETE_LAPLACE, discrete_laplace
from diprime.privacy.randomness import RandomSource
from diprime.scoring.cells import Noise


def table_charge(kind: str, epsilon: Epsilon, share: Fraction, sensitivity: int, why: str) -> Charge:
    """Return the charge of a table of counts."""
    bound = f"L1 sensitivity {sensitivity}"
    measure = PureEpsilon(share_of(epsilon, share))
    return Charge(kind, DISCRETE_LAPLACE, bound, measure, composition=why, calibrated_to=sensitivity)


class Tables:
    """Releases tables of counts, each of them once, in the order of a plan.

    Parameters
    ----------
    plan : sequence of Charge
        The charges of the tables. They must add up to the budget of the ledger.
    ledger : Ledger
        The ledger that pays.
    source : RandomSource
        The random bits.
    """

    def __init__(self, plan: Sequence[Charge], ledger: Ledger, source: RandomSource) -> None:
        total = sum((charge.total for charge in plan), Fraction(0))
        if total != ledger.epsilon:
            raise AssertionError(f"The plan adds up to {total}, not to epsilon, {ledger.epsilon}.")
        self._plan = list(plan)
        self._ledger = ledger
        self._source = source

    def epsilon_of_next(self) -> Epsilon:
        """Return what the next table costs."""
        return self._plan[0].epsilon

    def release(self, counts: npt.NDArray[np.int64], units: int = 1) -> tuple[npt.NDArray[np.float64], Noise]:
        """Release the next table; return its noisy counts and their noise, in records.

        One record may change the counts by no more than the sensitivity that was charged, in L1 norm, where ``units``
        stand for one record.
        """
        charge = self._plan.pop(0)
        receipt = self._ledger.pay(charge)
        assert charge.calibrated_to is not None
        sensitivity = charge.calibrated_to
        released = discrete_laplace(counts.reshape(1, -1), receipt, sensitivity, self._source.streams(1))
        noise = Noise.of_release(charge.epsilon, sensitivity, units)
        return released.reshape(counts.shape) / units, noise
