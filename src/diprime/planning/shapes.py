"""What a model is made of, and the noise in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from diprime.domain.persons import person_weight
from diprime.engines.gradients import UNIT
from diprime.estimators.models import Boosted, Forest
from diprime.model.noise import ROUND_SUMS, charged_noise_variance
from diprime.training.boosting.plan import noise_of


@dataclass(frozen=True)
class ForestShape:
    """The trees of a forest, and the noise of their leaves.

    Attributes
    ----------
    n_trees, depth : int
        The shape of the forest by default. It depends on a noisy row count, so that a fit may choose a slightly
        different one.
    records_per_leaf : float
        The mean number of records in a leaf, or of persons, whose records weigh as one.
    leaf_noise : float
        The standard deviation of the noise in each of a leaf's sums, in records or persons.
    unit : {"record", "person"}
        Which of the two.
    """

    n_trees: int
    depth: int
    records_per_leaf: float
    leaf_noise: float
    unit: str = "record"

    @classmethod
    def of(cls, model: Forest, n_rows: int) -> ForestShape:
        """Return the shape of a fitted forest of so many rows, or persons."""
        n_trees, depth = model.forest_.n_trees, int(model.forest_.depths[0])
        noise = math.sqrt(charged_noise_variance(model.privacy_, model.domain_.layout))
        return cls(n_trees, depth, n_rows / (n_trees * 2**depth), noise, model.privacy_.unit)

    def __str__(self) -> str:
        return (
            f"Trees:  {self.n_trees} of depth {self.depth}, with {2**self.depth} leaves each.\n"
            f"Leaves: about {self.records_per_leaf:,.1f} {self.unit}s each, and noise with a standard deviation of\n"
            f"        {self.leaf_noise:,.2f} {self.unit}s in each released sum."
        )


@dataclass(frozen=True)
class BoostingShape:
    """The rounds of boosting, and the noise of their sums.

    Attributes
    ----------
    n_rounds : int
        The number of rounds.
    round_noise : float
        The standard deviation of the noise in each sum of gradients, in units of the largest gradient of a record, or
        of a person, whose records weigh as one.
    unit : {"record", "person"}
        Which of the two.
    """

    n_rounds: int
    round_noise: float
    unit: str = "record"

    @classmethod
    def of(cls, model: Boosted) -> BoostingShape:
        """Return the shape of a fitted boosted model."""
        rounds = next(charge for charge in model.privacy_.charges if charge.kind == ROUND_SUMS)
        ledger = model.privacy_
        weight = person_weight(ledger.unit_records or 1)
        return cls(model.forest_.n_trees, noise_of(rounds) / (UNIT * weight), ledger.unit)

    def __str__(self) -> str:
        return (
            f"Rounds: {self.n_rounds}, each on one or two features.\n"
            f"Sums:   the gradients of the records in each cell of a round, and noise with a standard deviation of\n"
            f"        {self.round_noise:,.2f} times the largest gradient of a {self.unit}."
        )
