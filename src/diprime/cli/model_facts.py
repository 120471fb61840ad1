"""What commands tell scripts of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diprime.estimators.models import Model
from diprime.estimators.parameters import CLASS_WEIGHT, class_weight_from, weights_by_class


def importances(model: Model) -> dict[str, float]:
    """Return the importance of each coded feature."""
    return dict(zip(model.domain_.names, model.feature_importances_.tolist(), strict=True))


def summary(model: Model) -> dict[str, Any]:
    """Return what a model is and what it spent, ready for JSON."""
    return {
        "estimator": type(model).__name__,
        "n_trees": model.forest_.n_trees,
        "depths": model.forest_.depths.tolist(),
        "class_weight": _class_weight(model),
        "importances": importances(model),
        "ledger": model.privacy_.to_dict(),
    }


def class_weight_text(model: Model) -> str:
    """Return a sentence about the weights of the classes; empty without weights."""
    weights = _class_weight(model)
    if weights is None:
        return ""
    if not isinstance(weights, str):
        weights = ", ".join(f"{weight['class']}: {weight['weight']:g}" for weight in weights)
    return f"Class weights: {weights}. They weigh what is predicted, and not the released counts."


def _class_weight(model: Model) -> list[dict[str, Any]] | str | None:
    """Return the weight of each class, in pairs since a class need not be text as the keys of JSON's objects are."""
    given = model.fitted_params_.get(CLASS_WEIGHT.name)
    if not isinstance(given, Mapping):
        return given
    weights = class_weight_from(weights_by_class(given, model.domain_).tolist(), model.domain_)
    return [{"class": label, "weight": weight} for label, weight in weights.items()]
