"""Reading fitted estimators from model files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from diprime.domain import Task
from diprime.estimators.agreement import check_agreement
from diprime.estimators.boosting import DiPriMeBoostingClassifier, DiPriMeBoostingRegressor
from diprime.estimators.forest import DiPriMeClassifier, DiPriMeRegressor
from diprime.estimators.parameters import read_parameters
from diprime.estimators.trees import PrivateTrees
from diprime.model.additive import AdditiveForest
from diprime.model.files import ModelFileError, load_content
from diprime.model.forest import Forest

_ESTIMATORS: dict[tuple[type, Task], type[PrivateTrees]] = {
    (Forest, "classification"): DiPriMeClassifier,
    (Forest, "regression"): DiPriMeRegressor,
    (AdditiveForest, "classification"): DiPriMeBoostingClassifier,
    (AdditiveForest, "regression"): DiPriMeBoostingRegressor,
}


def load(path: str | os.PathLike[str]) -> Any:
    """Load a fitted model from a file written by its `save` method.

    Loading never runs code from the file, whatever it contains. A file that is incomplete, damaged or inconsistent
    raises a `ModelFileError`. A consistent file may still have a false ledger: only its author knows.
    `diprime.signing.verify_model` tells whether somebody whom you trust has signed it.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : DiPriMeClassifier, DiPriMeRegressor, DiPriMeBoostingClassifier or DiPriMeBoostingRegressor
        The fitted model. Its predictions equal those of the saved model bit for bit.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from diprime import DiPriMeRegressor, Domain, Numeric, load
    >>> x = np.linspace(0, 10, 500)[:, None]
    >>> model = DiPriMeRegressor(1.0, Domain({"x": Numeric(0, 10)}, target=Numeric(0, 10))).fit(x, x[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/line.diprime")
    ...     copy = load(f"{folder}/line.diprime")
    >>> np.array_equal(copy.predict(x), model.predict(x))
    True
    """
    content = load_content(path)
    estimator = _ESTIMATORS[type(content.forest), content.domain.task]
    try:
        model = estimator(
            domain="infer" if content.domain_inferred else content.domain,
            **read_parameters(content.parameters, estimator._parameters),
        )
        model._check_settings(content.domain.n_features)
    except (ValueError, TypeError, OverflowError) as error:
        reason = str(error).rstrip(".")
        raise ModelFileError(f"{path} is not a sound model: its parameters cannot be read: {reason}.") from None
    model._set_fitted(content.domain, content.ledger, content.forest)
    try:
        check_agreement(model)
    except ValueError as error:
        raise ModelFileError(f"{path} is not a sound model: {error}") from None
    model.n_features_in_ = len(content.domain.columns)
    if content.columns_named:
        model.feature_names_in_ = np.array(content.domain.columns, dtype=object)
    return model
