"""The checked parameters of a fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon
from diprime.training.policy import AccountingPolicy

Method = Literal["joint", "diprime", "diprime-exp", "diprime-flip", "random"]


@dataclass(frozen=True)
class Settings:
    """Checked parameters of a fit; None stands for "auto"."""

    epsilon: Epsilon
    method: Method
    n_estimators: int | None
    max_depth: int | None
    max_features: int
    split_share: Fraction | None
    balance: Fraction | None
    partition: bool
    policy: AccountingPolicy
    verbose: bool
    max_records_per_group: int = 1

    @property
    def is_random_forest(self) -> bool:
        """Whether trees are those of an ordinary random forest: without noise, each on a bag of all records."""
        return self.method == "joint" and self.epsilon == math.inf and not self.partition

    @property
    def accounting(self) -> Accounting:
        """The accounting that the ledger states."""
        return self.policy.name
