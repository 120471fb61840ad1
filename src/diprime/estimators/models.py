"""Functions of whole models: the registry of estimators, loading, merging, and checks of pipelines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from diprime.domain import Domain, Origin, Task
from diprime.estimators.base import PrivateEstimator
from diprime.estimators.boosting import DiPriMeBoostingClassifier, DiPriMeBoostingRegressor
from diprime.estimators.forest import DiPriMeClassifier, DiPriMeRegressor
from diprime.estimators.parameters import (
    ClassWeight,
    check_delta,
    check_max_records,
    read_parameters,
    weights_by_class,
)
from diprime.estimators.trees import PrivateTrees
from diprime.model.additive import AdditiveForest
from diprime.model.files import ModelFileError, load_content, read_file, to_bytes
from diprime.privacy.ledger import Accounting, Ledger
from diprime.privacy.measures import exact_epsilon

Forest = DiPriMeClassifier | DiPriMeRegressor
Boosted = DiPriMeBoostingClassifier | DiPriMeBoostingRegressor
Model = Forest | Boosted

ESTIMATORS: dict[tuple[bool, Task, Accounting], type[Model]] = {
    (False, "classification", "strict"): DiPriMeClassifier,
    (False, "regression", "strict"): DiPriMeRegressor,
    (True, "classification", "strict"): DiPriMeBoostingClassifier,
    (True, "regression", "strict"): DiPriMeBoostingRegressor,
}
"""Estimators with model files, by (is_boosted, task, accounting). Importing `diprime.paper` adds its own."""


def make_estimator(domain: Domain, epsilon: float, *, boost: bool = False, **parameters: Any) -> Model:
    """Return an unfitted forest or boosted model for the task of a domain."""
    return ESTIMATORS[boost, domain.task, "strict"](epsilon, domain, **parameters)


def file_content(model: Any) -> bytes | None:
    """Return the bytes that `save` writes for a fitted model, or None if it cannot be saved."""
    model = getattr(model, "best_estimator_", model)  # a search
    if not isinstance(model, PrivateTrees):
        return None
    try:
        return saved_bytes(model)
    except (TypeError, ValueError):  # such as categories that files do not support
        return None


def saved_bytes(model: PrivateTrees) -> bytes:
    """Return the bytes that `save` writes."""
    return to_bytes(model._to_content())


def load(path: str | os.PathLike[str], *, sha256: str | None = None) -> Any:
    """Load a fitted model from a file written by its `save` method.

    Loading never runs code from the file, whatever it contains. A file that is incomplete, damaged or inconsistent
    raises a `ModelFileError`. Even a consistent file may contain a false ledger, which diprime cannot detect.
    With ``sha256``, only the file with this digest is loaded. The digest is compared before any part of the file
    is parsed, and exactly the compared bytes are loaded.

    Parameters
    ----------
    path : str or path
        The file.
    sha256 : str, optional
        The SHA-256 of the file, as 64 hexadecimal digits, from a person or a document that you trust.

    Returns
    -------
    model : DiPriMeClassifier, DiPriMeRegressor, DiPriMeBoostingClassifier or DiPriMeBoostingRegressor
        The fitted model. Its predictions are bit-identical to those of the saved model.

    Raises
    ------
    ModelFileError
        If the file is not a valid model, or its digest differs from ``sha256``.

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

    The file of a model is loaded by its digest, and refused after it was replaced:

    >>> from hashlib import sha256
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "line.diprime"
    ...     model.save(path)
    ...     digest = sha256(path.read_bytes()).hexdigest()
    ...     copy = load(path, sha256=digest)
    ...     model.fit(x, x[:, 0]).save(path)
    ...     try:
    ...         load(path, sha256=digest)
    ...     except ModelFileError:
    ...         print("This is another file.")
    This is another file.
    """
    return to_model(read_file(path, sha256), path)


def to_model(data: bytes, path: str | os.PathLike[str]) -> Any:
    """Return the fitted model in the bytes of a model file; errors name the file."""
    content = load_content(data, path)
    is_boosted = isinstance(content.forest, AdditiveForest)
    estimator = ESTIMATORS.get((is_boosted, content.domain.task, content.ledger.accounting))
    if estimator is None:
        raise ModelFileError(
            f"{path} uses the accounting of the DiPriMe paper, which is not private. Import diprime.paper to load it."
        )
    try:
        model = estimator(
            domain="infer" if content.domain_inferred else content.domain,
            **read_parameters(content.parameters, estimator, content.domain),
        )
        model._check_settings(content.domain.n_features)
    except (ValueError, TypeError, OverflowError) as error:
        reason = str(error).rstrip(".")
        raise ModelFileError(f"{path} is not a valid model: its parameters cannot be read: {reason}.") from None
    model._set_fitted(content.domain, content.ledger, content.forest)
    try:
        check_ledger_matches_parameters(model)
    except ValueError as error:
        raise ModelFileError(f"{path} is not a valid model: {error}") from None
    model.n_features_in_ = len(content.domain.column_names)
    if content.columns_named:
        model.feature_names_in_ = np.array(content.domain.column_names, dtype=object)
    return model


def check_ledger_matches_parameters(model: Any) -> None:
    """Raise a `ValueError` unless the ledger of a fitted model is consistent with its parameters.

    The ledger may include the cost of learning the domain. A merged model has the parameters of one part and the
    ledger of all parts.
    """
    ledger, domain = model.privacy_, model.domain_.origin.ledger
    is_merged = len(ledger.merged) > 1
    epsilon, delta = exact_epsilon(model.epsilon), check_delta(model.delta) if hasattr(model, "delta") else Fraction(0)
    before = (Fraction(0), Fraction(0)) if domain is None else (domain.total, domain.total_delta)
    max_records = check_max_records(model.max_records_per_group)
    for name, own, spent_before, stated in (
        ("epsilon", epsilon, before[0], ledger.epsilon),
        ("delta", delta, before[1], ledger.delta),
        ("max_records_per_group", max_records, 0, ledger.max_records_per_group or 1),
    ):
        if stated not in (own, own + spent_before) and not (is_merged and own <= stated):
            raise ValueError(f"{name} does not match its ledger.")
    if ledger.total > ledger.epsilon:
        raise ValueError("its ledger spends more than its epsilon.")


def merge(models: Sequence[Any], *, disjoint: bool = False) -> Any:
    """Merge models that were fitted to different people.

    Parameters
    ----------
    models : sequence of fitted estimators
        Models of the same class and with equal domains. Either all of them protect people, or all protect single
        records.
    disjoint : bool, default=False
        Your assertion that no person is in the data of two of the models, which diprime cannot check. It is required,
        and the ledger of the merged model states it.

    Returns
    -------
    merged : fitted estimator
        A model of the same class with the trees of all models, each weighted by its released number of records. Its
        epsilon is the largest epsilon of the models, because you assert that each person is in the data of only one
        model. For a person in the data of several models, their epsilons add up. The parameters are those of the model
        with the largest epsilon. If one of the domains was inferred from the data, the domain of the merged model is
        marked as inferred, too.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import DiPriMeRegressor, Domain, Numeric, merge
    >>> x = np.linspace(0, 10, 500)[:, None]
    >>> domain = Domain({"x": Numeric(0, 10)}, target=Numeric(0, 10))
    >>> north = DiPriMeRegressor(1.0, domain).fit(x[:200], x[:200, 0])
    >>> south = DiPriMeRegressor(2.0, domain).fit(x[200:], x[200:, 0])
    >>> merged = merge([north, south], disjoint=True)
    >>> merged.privacy_.total
    Fraction(2, 1)
    """
    if isinstance(models, PrivateTrees):
        raise TypeError(
            "models must be a list of fitted models, such as merge([north, south], ...), got a single model."
        )
    models = list(models)
    if not models:
        raise ValueError("models must contain at least one fitted model.")
    if disjoint is not True:
        raise ValueError(
            "The guarantee of a merged model requires that no person is in the data of two of the models, "
            "which diprime cannot check. Pass disjoint=True (--disjoint on the command line) to assert it."
        )
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
    """Raise an error unless all models are fitted and agree in class, domain, delta, weights and privacy unit."""
    first = models[0]
    for model in models:
        if not isinstance(model, PrivateTrees):
            raise TypeError(f"Only DiPriMe estimators can be merged, got {type(model).__name__}.")
        check_is_fitted(model)
        if type(model) is not type(first):
            raise ValueError(
                f"Cannot merge {type(first).__name__} and {type(model).__name__}. Merge models of the same class."
            )
        if model.domain_ != first.domain_:
            raise ValueError("Cannot merge models with different domains. Fit both with the same Domain.")
        if model.privacy_.delta != first.privacy_.delta:
            raise ValueError("Cannot merge models with different delta. Fit both with the same delta.")
        if _class_weights(model) != _class_weights(first):
            raise ValueError("Cannot merge models with different class_weight. Fit both with the same class_weight.")
        if model.privacy_.privacy_unit != first.privacy_.privacy_unit:
            raise ValueError(
                "Cannot merge a model that protects people with one that protects single records. Fit both with "
                "groups, or both without."
            )


def _class_weights(model: Any) -> list[float] | str | None:
    """Return the class weights of a fit in a comparable form: a list with a weight per class, a name or None."""
    given: ClassWeight = model.fitted_params_.get("class_weight")
    return weights_by_class(given, model.domain_).tolist() if isinstance(given, Mapping) else given


def fitted_steps(estimator: Any) -> list[str]:
    """Return the steps of a pipeline that learn from the data and are not private.

    Such a step stores exact facts about the data in the fitted pipeline, for example a mean and a variance. The
    guarantee in the ledger of the private estimator does not cover them. The function omits steps without a fit, by
    scikit-learn's tag ``requires_fit``. It lists all others, even if they learn next to nothing.

    Parameters
    ----------
    estimator : estimator
        A pipeline, or another estimator, fitted or not. The function examines Pipeline, ColumnTransformer, FeatureUnion
        and TransformedTargetRegressor at any level of nesting.

    Returns
    -------
    steps : list of str
        The names of the steps, as in ``estimator.get_params()``. If the estimator itself is such a step, its name is
        that of its class. Empty if only private estimators learn from the data.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, fitted_steps
    >>> model = DiPriMeClassifier(1.0, Domain({"a": Numeric(-1, 1)}, target=Categorical(["no", "yes"])))
    >>> fitted_steps(make_pipeline(StandardScaler(), model))
    ['standardscaler']
    >>> fitted_steps(make_pipeline(Normalizer(), model))
    []
    """
    return [name or type(step).__name__ for name, step in _fitted(estimator, "")]


def _fitted(estimator: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the estimator of each step that learns from the data and is not private."""
    parts = _parts(estimator)
    if parts is None:
        if not isinstance(estimator, PrivateEstimator) and _requires_fit(estimator):
            yield name, estimator
        return
    for part_name, part in parts:
        if part is not None and not isinstance(part, str):  # "passthrough" and "drop"
            yield from _fitted(part, f"{name}__{part_name}" if name else part_name)


def _parts(estimator: Any) -> list[tuple[str, Any]] | None:
    """Return the named steps of a composite estimator, or None for any other estimator."""
    from sklearn.compose import ColumnTransformer, TransformedTargetRegressor  # these are slow to import
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import FeatureUnion, Pipeline

    if isinstance(estimator, Pipeline):
        return list(estimator.steps)
    if isinstance(estimator, FeatureUnion):
        return list(estimator.transformer_list)
    if isinstance(estimator, ColumnTransformer):
        steps = [(name, step) for name, step, _ in estimator.transformers]
        selectors = [(name, columns) for name, _, columns in estimator.transformers if _reads_rows(columns)]
        return [*steps, ("remainder", estimator.remainder), *selectors]
    if isinstance(estimator, TransformedTargetRegressor):
        regressor = LinearRegression() if estimator.regressor is None else estimator.regressor
        return [("transformer", estimator.transformer), ("regressor", regressor)]
    return None


def _reads_rows(columns: Any) -> bool:
    """Return whether a column selector may depend on values, rather than only on names and types."""
    from sklearn.compose import make_column_selector

    return callable(columns) and not isinstance(columns, make_column_selector)


def _requires_fit(estimator: Any) -> bool:
    """Return whether an estimator learns from data. Without tags, assume that it does."""
    return not hasattr(estimator, "__sklearn_tags__") or get_tags(estimator).requires_fit
