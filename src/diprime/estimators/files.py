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
from diprime.model.files import ModelFileError, load_content, read_file, to_bytes
from diprime.model.forest import Forest
from diprime.model.signatures import read_public_key, verify_bytes

_ESTIMATORS: dict[tuple[type, Task], type[PrivateTrees]] = {
    (Forest, "classification"): DiPriMeClassifier,
    (Forest, "regression"): DiPriMeRegressor,
    (AdditiveForest, "classification"): DiPriMeBoostingClassifier,
    (AdditiveForest, "regression"): DiPriMeBoostingRegressor,
}


def file_content(model: Any) -> bytes | None:
    """Return what `save` writes to a file for a fitted model; None if it has no file or cannot be written to one."""
    model = getattr(model, "best_estimator_", model)  # of a search
    if not isinstance(model, PrivateTrees):
        return None
    try:
        return to_bytes(model._to_content())
    except (TypeError, ValueError):  # such as levels that no file can hold
        return None


def load(
    path: str | os.PathLike[str],
    *,
    public_key: str | os.PathLike[str] | None = None,
    signature: str | os.PathLike[str] | None = None,
) -> Any:
    """Load a fitted model from a file written by its `save` method.

    Loading never runs code from the file, whatever it contains. A file that is incomplete, damaged or inconsistent
    raises a `ModelFileError`. A consistent file may still have a false ledger: only its author knows.
    With ``public_key``, only a file that somebody whom you trust has signed is loaded: the bytes whose signature is
    checked are those that are loaded, and nothing of them is parsed before.

    Parameters
    ----------
    path : str or path
        The file.
    public_key : str or path, optional
        The file of the public key of whoever must have signed the file.
    signature : str or path, optional
        The file of the signature; the path of the model with ``.sig`` after it unless given.

    Returns
    -------
    model : DiPriMeClassifier, DiPriMeRegressor, DiPriMeBoostingClassifier or DiPriMeBoostingRegressor
        The fitted model. Its predictions equal those of the saved model bit for bit.

    Raises
    ------
    ModelFileError
        If the file is not a sound model.
    diprime.signing.SignatureError
        If there is a public key, and the file is not signed with its private key.

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

    A model that was signed, and the same file after somebody has changed it:

    >>> from diprime.signing import SignatureError, new_key, sign_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/line.diprime")
    ...     public = new_key(f"{folder}/officer.key")
    ...     _ = sign_model(f"{folder}/line.diprime", f"{folder}/officer.key")
    ...     copy = load(f"{folder}/line.diprime", public_key=public)
    ...     model.fit(x, x[:, 0]).save(f"{folder}/line.diprime")
    ...     try:
    ...         load(f"{folder}/line.diprime", public_key=public)
    ...     except SignatureError:
    ...         print("This is not the file that was signed.")
    This is not the file that was signed.
    """
    if public_key is None and signature is not None:
        raise ValueError("A signature is checked with a public key; give public_key as well.")
    data = read_file(path)
    if public_key is not None:
        verify_bytes(data, read_public_key(public_key), path, signature)
    return to_model(data, path)


def to_model(data: bytes, path: str | os.PathLike[str]) -> Any:
    """Return the fitted model that the bytes of a model file hold; errors name the file."""
    content = load_content(data, path)
    estimator = _ESTIMATORS[type(content.forest), content.domain.task]
    try:
        model = estimator(
            domain="infer" if content.domain_inferred else content.domain,
            **read_parameters(content.parameters, estimator._parameters, content.domain),
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
