"""What commands tell scripts of a model."""

from __future__ import annotations

from typing import Any

from diprime.estimators.models import Model


def importances(model: Model) -> dict[str, float]:
    """Return the importance of each coded feature."""
    return dict(zip(model.domain_.names, model.feature_importances_.tolist(), strict=True))


def summary(model: Model) -> dict[str, Any]:
    """Return what a model is and what it spent, ready for JSON."""
    return {
        "estimator": type(model).__name__,
        "n_trees": model.forest_.n_trees,
        "depths": model.forest_.depths.tolist(),
        "importances": importances(model),
        "ledger": model.privacy_.to_dict(),
    }
