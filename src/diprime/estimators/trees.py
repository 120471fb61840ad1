"""What all estimators made of trees share: prediction, importances and files."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from diprime._util.threads import Threads
from diprime.domain import Domain, Task
from diprime.estimators.base import PrivateClassifierMixin, PrivateEstimator
from diprime.estimators.frames import on_frames
from diprime.estimators.parameters import (
    CLASS_WEIGHT,
    MAX_RECORDS_PER_GROUP,
    N_JOBS,
    Parameter,
    record_parameters,
    weights_by_class,
)
from diprime.model.additive import AdditiveForest
from diprime.model.files import ModelContent, save_content
from diprime.model.forest import Forest
from diprime.privacy.measures import Measure, PrivacyLoss


class PrivateTrees(PrivateEstimator):
    """The base class of forests and of boosted trees."""

    forest_: Forest | AdditiveForest
    _takes_partitions = True
    _parameters: ClassVar[Sequence[Parameter[Any, Any]]]

    # -- parameters ----------------------------------------------------------------------------------------------------

    def _check_settings(self, n_features: int) -> Any:
        return self._check_shared_settings(n_features, 1)

    @abstractmethod
    def _check_shared_settings(self, n_features: int, n_fits: int) -> Any:
        """Check the parameters and return the settings of one of so many fits, which share the budget equally."""

    @abstractmethod
    def _measure(self, settings: Any) -> Measure:
        """Return what a fit with these settings costs."""

    def _loss(self, settings: Any) -> PrivacyLoss:
        return self._measure(settings).loss(1)

    # -- persons -------------------------------------------------------------------------------------------------------

    def _max_records(self) -> int:
        return MAX_RECORDS_PER_GROUP.check(self.max_records_per_group)

    def _check_groups(self, *, given: bool) -> None:
        max_records = self._max_records()
        if max_records > 1 and not given:
            raise ValueError(
                f"max_records_per_group is {max_records}, but no groups are given: give the person of each record as "
                "groups, or leave max_records_per_group at 1 if everybody has one record."
            )

    # -- use -----------------------------------------------------------------------------------------------------------

    @on_frames
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
        with Threads(N_JOBS.check(self.n_jobs)) as threads:
            return self.forest_.apply(rows, threads)

    def _predict_outputs(self, X: Any) -> npt.NDArray[np.float64]:
        rows = self._reader(X)
        with Threads(N_JOBS.check(self.n_jobs)) as threads:
            return self.forest_.predict(rows, threads)

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """The importance of each feature: how much it spreads the predictions, as a share of one.

        It is computed from the released trees, so it costs no privacy.
        """
        check_is_fitted(self)
        return self.forest_.importances(self.domain_.n_features)

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the fitted model to a file that `diprime.load` reads on any machine, without running code.

        The file holds the released trees, the domain, the ledger and the parameters of the fit, even if they were
        changed since. It does not hold ``random_state``, with which the noise could be subtracted, nor ``n_jobs`` and
        ``verbose``, which belong to one machine. The file is written completely or not at all.

        Parameters
        ----------
        path : str or path
            The file. An existing file is replaced.
        """
        save_content(self._to_content(), path)

    def _to_content(self) -> ModelContent:
        check_is_fitted(self)
        return ModelContent(
            record_parameters(self.fitted_params_, self._parameters, self.domain_),
            self.domain_,
            isinstance(self.fitted_params_["domain"], str),
            hasattr(self, "feature_names_in_"),
            self.privacy_,
            self.forest_,
        )


class TreeClassifierMixin(PrivateClassifierMixin):
    """What classifiers made of trees share."""

    _task: Task = "classification"

    def _resolve_domain(self, X: Any, y: Any) -> Domain:
        domain: Domain = super()._resolve_domain(X, y)
        self._class_weights(domain)  # before anything is paid for
        return domain

    def _class_weights(self, domain: Domain) -> npt.NDArray[np.float64] | Literal["balanced"] | None:
        """Return the weights of the classes, in the order of the domain, if they are given."""
        class_weight = CLASS_WEIGHT.check(self.class_weight)
        return weights_by_class(class_weight, domain) if isinstance(class_weight, Mapping) else class_weight

    @on_frames
    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Predict the probability of each class, in the order of ``classes_``; with ``class_weight``, a weighted one.

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
        return np.asarray(np.minimum(means, 1.0, out=means))  # the weights of the trees sum to one up to rounding

    @on_frames
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
        with Threads(N_JOBS.check(self.n_jobs)) as threads:
            return np.asarray(self.classes_[self.forest_.decide(rows, threads)])


class TreeRegressorMixin(RegressorMixin):  # type: ignore[misc]
    """What regressors made of trees share."""

    _task: Task = "regression"

    @on_frames
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
        return np.clip(
            means, *self.domain_.output_range, out=means
        )  # the weights of the trees sum to one up to rounding
