"""The checked parameters of a boosted fit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon


@dataclass(frozen=True)
class BoostingSettings:
    """Checked parameters of a boosted fit, which may be one of several that share a budget equally."""

    epsilon: Epsilon
    delta: Fraction
    n_rounds: int
    learning_rate: float
    interactions: bool
    verbose: bool
    max_records_per_group: int = 1
    n_fits: int = 1

    @property
    def mu_squared(self) -> Epsilon:
        """What this fit may cost: its share of the largest μ² that is (epsilon, delta)-DP."""
        return gaussian_budget(self.epsilon, self.delta) / self.n_fits

    @property
    def accounting(self) -> Accounting:
        """The accounting that the ledger states."""
        return "strict"
