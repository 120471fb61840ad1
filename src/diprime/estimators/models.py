"""The four estimators by what they are made of and what they learn."""

from __future__ import annotations

from typing import Any

from diprime.domain import Domain, Task
from diprime.estimators.boosting import DiPriMeBoostingClassifier, DiPriMeBoostingRegressor
from diprime.estimators.forest import DiPriMeClassifier, DiPriMeRegressor

Forest = DiPriMeClassifier | DiPriMeRegressor
Boosted = DiPriMeBoostingClassifier | DiPriMeBoostingRegressor
Model = Forest | Boosted

_ESTIMATORS: dict[tuple[bool, Task], type[Model]] = {
    (False, "classification"): DiPriMeClassifier,
    (False, "regression"): DiPriMeRegressor,
    (True, "classification"): DiPriMeBoostingClassifier,
    (True, "regression"): DiPriMeBoostingRegressor,
}


def estimator(domain: Domain, epsilon: float, *, boost: bool = False, **parameters: Any) -> Model:
    """Return an unfitted estimator for a domain's target: a forest, or a boosted model."""
    return _ESTIMATORS[boost, domain.task](epsilon, domain, **parameters)
