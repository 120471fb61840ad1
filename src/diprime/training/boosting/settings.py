"""The checked parameters of a boosted fit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon


@dataclass(frozen=True)
class BoostingSettings:
    """Checked parameters of a boosted fit."""

    epsilon: Epsilon
    delta: Fraction
    n_rounds: int
    learning_rate: float
    interactions: bool
    verbose: bool
    max_records_per_group: int = 1

    @property
    def accounting(self) -> Accounting:
        """The accounting that the ledger states."""
        return "strict"
