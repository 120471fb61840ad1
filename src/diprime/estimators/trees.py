"""Base classes of all tree estimators: prediction, importances and files."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from diprime._util.resources import Threads, resolve_n_jobs
from diprime.domain import Domain, Task
from diprime.estimators.base import PrivateClassifierMixin, PrivateEstimator, PrivateRegressorMixin, accepts_sources
from diprime.estimators.parameters import (
    ClassWeightParameter,
    check_class_weight,
    check_max_records,
    record_parameters,
    weights_by_class,
)
from diprime.inspection.importances import Importances, importances_of
from diprime.model.additive import AdditiveForest
from diprime.model.files import ModelContent, save_content
from diprime.model.trees import Forest
from diprime.privacy.measures import Measure, PrivacyLoss
from diprime.sources.protocol import Source


class PrivateTrees(PrivateEstimator):
    """Base class of forests and boosted models."""

    forest_: Forest | AdditiveForest

    # -- parameters ----------------------------------------------------------------------------------------------------

    def _check_settings(self, n_features: int) -> Any:
        return self._check_shared_settings(n_features, 1)

    @abstractmethod
    def _check_shared_settings(self, n_features: int, n_fits: int) -> Any:
        """Check the parameters and return the settings of one of ``n_fits`` fits that share the budget equally."""

    @abstractmethod
    def _measure(self, settings: Any) -> Measure:
        """Return the privacy measure of a fit with these settings."""

    def _loss(self, settings: Any) -> PrivacyLoss:
        return self._measure(settings).loss(1)

    # -- groups --------------------------------------------------------------------------------------------------------

    def _max_records(self) -> int:
        return check_max_records(self.max_records_per_group)

    def _check_groups(self, *, given: bool) -> None:
        max_records = self._max_records()
        if max_records > 1 and not given:
            raise ValueError(
                f"max_records_per_group={max_records} requires groups. Pass groups to fit, or keep "
                "max_records_per_group=1 if everyone has one record."
            )

    # -- use -----------------------------------------------------------------------------------------------------------

    @accepts_sources
    def apply(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the leaf that each row reaches in each tree.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        leaves : ndarray of shape (n, n_trees)
            The index of the leaf, counted from the left of its tree.
        """
        rows = self._reader(X)
        with Threads(resolve_n_jobs(self.n_jobs)) as threads:
            return self.forest_.apply(rows, threads)

    def _predict_outputs(self, X: Any) -> npt.NDArray[np.float64]:
        rows = self._reader(X)
        with Threads(resolve_n_jobs(self.n_jobs)) as threads:
            return self.forest_.predict(rows, threads)

    def importances(self) -> Importances:
        """Return the share of each feature in the variance of the predictions, net of noise, with its error.

        Features whose share noise could explain are marked as not above the noise.

        Returns
        -------
        importances : Importances
            The shares. They are computed from the released model, so they cost no privacy.
        """
        check_is_fitted(self)
        return importances_of(self)

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """The importances of the features above the noise, which sum to one; zero for all other features.

        They are computed from the released trees, so they cost no privacy. All are zero if no feature is above the
        noise; see `importances` for shares of variance and their errors.
        """
        return self.importances().normalized

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the fitted model to a file that `diprime.load` reads on any machine, without running code.

        The file contains the released trees, the domain, the ledger, and the parameters of the fit, even if
        `set_params` has changed them since. It does not contain ``random_state``, because anyone who knows it can
        remove the noise, nor ``n_jobs`` and ``verbose``, which do not affect the model. The file is written completely
        or not at all.

        Parameters
        ----------
        path : str or path
            The file. An existing file is replaced.
        """
        save_content(self._to_content(), path)

    def _to_content(self) -> ModelContent:
        check_is_fitted(self)
        return ModelContent(
            record_parameters(self, self.domain_),
            self.domain_,
            isinstance(self.fitted_params_["domain"], str),
            hasattr(self, "feature_names_in_"),
            self.privacy_,
            self.forest_,
        )


class TreeClassifierMixin(ClassWeightParameter, PrivateClassifierMixin):
    """Predictions and class weights of tree classifiers."""

    _task: Task = "classification"

    def _resolve_domain(self, source: Source) -> Domain:
        domain: Domain = super()._resolve_domain(source)
        self._class_weights(domain)  # before anything is charged
        return domain

    def _class_weights(self, domain: Domain) -> npt.NDArray[np.float64] | Literal["balanced"] | None:
        """Return the checked class weights: None, ``"balanced"``, or weights in the order of the domain."""
        class_weight = check_class_weight(self.class_weight)
        return weights_by_class(class_weight, domain) if isinstance(class_weight, Mapping) else class_weight

    @accepts_sources
    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Predict class probabilities in the order of ``classes_``, weighted by ``class_weight`` if it is set.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes)
            The probabilities, which sum to one in each row.
        """
        means = self._predict_outputs(X)
        return np.asarray(np.minimum(means, 1.0, out=means))  # tree weights sum to one up to rounding

    @accepts_sources
    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the most probable class of each row.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        classes : ndarray of shape (n,)
            The predicted classes.
        """
        rows = self._reader(X)
        with Threads(resolve_n_jobs(self.n_jobs)) as threads:
            return np.asarray(self.classes_[self.forest_.decide(rows, threads)])


class TreeRegressorMixin(PrivateRegressorMixin):
    """Predictions of tree regressors."""

    _task: Task = "regression"

    @accepts_sources
    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Predict the target of each row.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        targets : ndarray of shape (n,)
            The predicted targets, within the range of the domain.
        """
        means = self._predict_outputs(X)[:, 0]
        return np.clip(means, *self.domain_.output_range, out=means)  # tree weights sum to one up to rounding
