"""What to expect of a fit, from public facts alone: fits to synthetic data of the same domain and size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, r2_score

from diprime import DiPriMeBoostingClassifier, DiPriMeBoostingRegressor, DiPriMeClassifier, DiPriMeRegressor
from diprime.cli.synthetic_data import SyntheticData, stand_in
from diprime.domain import Domain, Task
from diprime.domain.persons import person_weight
from diprime.engines.gradients import UNIT
from diprime.model.noise import ROUND_SUMS, charged_noise_variance
from diprime.privacy.ledger import Ledger
from diprime.training.boosting.plan import noise_of

TEST_ROWS = 20_000

Forest = DiPriMeClassifier | DiPriMeRegressor
Boosted = DiPriMeBoostingClassifier | DiPriMeBoostingRegressor
Model = Forest | Boosted

_ESTIMATORS: dict[tuple[bool, Task], type[Model]] = {
    (False, "classification"): DiPriMeClassifier,
    (False, "regression"): DiPriMeRegressor,
    (True, "classification"): DiPriMeBoostingClassifier,
    (True, "regression"): DiPriMeBoostingRegressor,
}


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


@dataclass(frozen=True)
class Plan:
    """What to expect of a fit.

    Attributes
    ----------
    shape : ForestShape or BoostingShape
        What the model is made of.
    ledger : Ledger
        The split of the budget.
    of_domain : Ledger or None
        The part of it that learns the domain; None if the domain is declared.
    measure : str
        The name of the score: accuracy or R².
    private, noiseless, guess : float
        Mean scores on synthetic data of the private model, of the same model without noise, and of the best constant
        prediction.
    """

    shape: ForestShape | BoostingShape
    ledger: Ledger
    of_domain: Ledger | None
    measure: str
    private: float
    noiseless: float
    guess: float


def estimator(domain: Domain, epsilon: float, *, boost: bool = False, **parameters: Any) -> Model:
    """Return an unfitted estimator for a domain's target: a forest, or a boosted model."""
    return _ESTIMATORS[boost, domain.task](epsilon, domain, **parameters)


def rehearse(
    domain: Domain, epsilon: float, n_rows: int, repeats: int, advance: Callable[[float], None], **options: Any
) -> Plan:
    """Fit models to synthetic data of the domain, with and without noise, and return their scores.

    The options are those of `estimator`. With ``max_records_per_group``, every person has as many rows, and with a
    domain that was learnt from persons, one. What is open in the domain is learnt from the synthetic data, as a fit
    learns it, and paid from the same budget.
    """
    closed = stand_in(domain)
    max_records = options.get("max_records_per_group", 1)
    rows_per_person = max_records if max_records > 1 or _is_of_persons(domain) else None
    of_classes = domain.task == "classification"
    scores = []
    for seed in range(repeats):
        truth = SyntheticData(closed, seed)
        model = estimator(domain, epsilon, **options).fit_batches(truth.batches(n_rows, rows_per_person))
        without_noise = estimator(domain, math.inf, **(options | _same_trees(model)))
        noiseless = without_noise.fit_batches(truth.batches(n_rows, rows_per_person))
        X, y = truth.draw(TEST_ROWS)
        right = closed.encode_target(y)
        predictions = [closed.encode_target(m.predict(X)) for m in (model, noiseless)]
        if of_classes:
            guess = np.full_like(right, np.argmax(np.bincount(right)))
            scores.append([accuracy_score(right, predicted) for predicted in (*predictions, guess)])
        else:
            scores.append([r2_score(right, predicted) for predicted in predictions] + [0.0])
        advance(1 / repeats)
    means = np.mean(scores, axis=0).tolist()
    n_persons = -(-n_rows // max_records)
    shape = BoostingShape.of(model) if isinstance(model, Boosted) else ForestShape.of(model, n_persons)
    return Plan(shape, model.privacy_, model.domain_.origin.ledger, "accuracy" if of_classes else "R²", *means)


def _is_of_persons(domain: Domain) -> bool:
    """Return whether a domain was learnt from persons, so that only a fit to persons may use it."""
    return domain.origin.ledger is not None and domain.origin.ledger.unit == "person"


def _same_trees(model: Model) -> dict[str, Any]:
    """Return the parameters with which a fit without noise has the same number and depth of trees."""
    if isinstance(model, Boosted):
        return {"n_rounds": model.forest_.n_trees}
    return {"n_estimators": model.forest_.n_trees, "max_depth": int(model.forest_.depths[0])}
