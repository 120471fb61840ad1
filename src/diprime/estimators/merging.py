"""Merging models that were fitted on disjoint populations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from diprime.domain import Origin
from diprime.estimators.parameters import CLASS_WEIGHT, ClassWeight, weights_by_class
from diprime.estimators.trees import PrivateTrees
from diprime.privacy.ledger import Ledger


def merge(models: Sequence[Any]) -> Any:
    """Merge models that were fitted on disjoint populations.

    Parameters
    ----------
    models : sequence of fitted estimators
        All of one kind, say boosted classifiers, with equal domains. No person may be in the data of two of them.

    Returns
    -------
    merged : fitted estimator
        A model of the same kind with the trees of all models, each weighted by its released number of records. Its
        epsilon is the largest of theirs, because each record is in the data of one model only. Its parameters
        are those of the model with that epsilon. If one of the domains was read from the data, so is that of the
        merged model. Either all models protect persons, or all protect single records.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import DiPriMeRegressor, Domain, Numeric, merge
    >>> x = np.linspace(0, 10, 500)[:, None]
    >>> domain = Domain({"x": Numeric(0, 10)}, target=Numeric(0, 10))
    >>> north = DiPriMeRegressor(1.0, domain).fit(x[:200], x[:200, 0])
    >>> south = DiPriMeRegressor(2.0, domain).fit(x[200:], x[200:, 0])
    >>> merged = merge([north, south])
    >>> merged.privacy_.total
    Fraction(2, 1)
    """
    if isinstance(models, PrivateTrees):
        raise TypeError("models is a single model; give a list, merge([north, south]).")
    models = list(models)
    if not models:
        raise ValueError("There is nothing to merge: give at least one fitted model.")
    _check_alike(models)
    first = max(models, key=lambda model: model.privacy_.total)
    merged = type(first)(**{**first.get_params(deep=False), **first.fitted_params_})
    fitted = {k: v for k, v in vars(first).items() if k.endswith("_") and not k.startswith("_")}
    vars(merged).update(fitted)
    budgets = {budget.key: budget for model in models for budget in model._budgets}
    if budgets:
        merged._budgets = tuple(budgets.values())
    merged.domain_ = replace(first.domain_, origin=Origin.merge([m.domain_.origin for m in models]))
    merged.forest_ = type(first.forest_).merge([m.forest_ for m in models])
    merged.privacy_ = Ledger.merge([m.privacy_ for m in models])
    return merged


def _check_alike(models: Sequence[Any]) -> None:
    """Raise an error unless all models are fitted, of one kind, and predict the same thing."""
    first = models[0]
    for model in models:
        if not isinstance(model, PrivateTrees):
            raise TypeError(f"Only DiPriMe estimators can be merged, got {type(model).__name__}.")
        check_is_fitted(model)
        if type(model) is not type(first):
            raise ValueError(
                f"{type(first).__name__} and {type(model).__name__} cannot be merged: fit all models alike."
            )
        if model.domain_ != first.domain_:
            raise ValueError("Models of different domains cannot be merged: fit both with the same Domain.")
        if model.privacy_.delta != first.privacy_.delta:
            raise ValueError("Models of different delta cannot be merged: fit both with the same delta.")
        if _class_weights(model) != _class_weights(first):
            raise ValueError("Models of different class_weight cannot be merged: fit both with the same class_weight.")
        if model.privacy_.unit != first.privacy_.unit:
            raise ValueError(
                "A model that protects persons and one that protects single records cannot be merged: fit both with "
                "groups, or both without."
            )


def _class_weights(model: Any) -> list[float] | str | None:
    """Return what the classes of a fitted model weigh, each of them if some are given, as a file has them."""
    given: ClassWeight = model.fitted_params_.get(CLASS_WEIGHT.name)
    return weights_by_class(given, model.domain_).tolist() if isinstance(given, Mapping) else given
