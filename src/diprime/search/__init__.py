"""Private hyperparameter search."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable
from dataclasses import KW_ONLY, MISSING, dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from diprime._util.resources import Threads
from diprime.domain import Domain, Task
from diprime.estimators.base import PrivateEstimator
from diprime.estimators.parameters import auto_integer, check_parameters, choice, parameter, unchecked, unnamed
from diprime.execution.partition import Partitions
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import PrivacyLoss, exact_epsilon
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Account, ChargeableBudget
from diprime.search.choosing import Chooser, divide, fit_candidate
from diprime.search.plan import (
    MAX_ALL,
    TRIES_PER_SETTING,
    Candidate,
    Rule,
    SearchPlan,
    SearchSettings,
    check_estimator,
    list_settings,
)
from diprime.sources.protocol import Source

RECORD_BYTES = 64
"""Memory per record for dividing the records: random draws, targets and group identifiers."""


def _check_holdout(value: Any, name: str) -> Fraction:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 < value < 1:
        raise ValueError(f"{name} must be a number between 0 and 1, got {value!r}.")
    return Fraction(str(value))


def _resolve_rule(rule: Rule | Literal["auto"], n_settings: int, *, pure: bool, infinite: bool) -> Rule:
    if rule == "auto":
        return "stopping" if pure and not infinite and n_settings > MAX_ALL else "all"
    if rule == "stopping" and not pure:
        raise ValueError('rule="stopping" requires pure epsilon, but boosting has a delta. Use rule="all".')
    return rule


def _estimator_has(name: str) -> Callable[[Any], bool]:
    return lambda search: hasattr(search.estimator, name)


@dataclass(eq=False, repr=False)
class PrivateSearch(PrivateEstimator):
    """Private hyperparameter search: select parameters of an estimator, and release its model, under one budget.

    The records are divided at random. Most of them train models with different combinations of parameters, and the
    others select one combination by its errors. The search releases one model with its parameters, and nothing about
    the others. ``epsilon`` covers the whole search and is divided among the fits, so the model has more noise than a
    single fit with all of epsilon. The defaults of the estimators adapt to epsilon and to the data, so try them first.

    Parameters
    ----------
    estimator : estimator
        A `DiPriMeClassifier`, `DiPriMeRegressor`, `DiPriMeBoostingClassifier` or `DiPriMeBoostingRegressor` with the
        domain, and with all parameters that the search does not select. Keep the defaults of its ``epsilon`` and
        ``random_state``. Its ``delta``, if it has one, is the delta of the whole search.
    param_distributions : dict or list of dict
        List of values for each parameter, or a distribution such as those of scipy.stats. The search cannot select
        parameters that determine the guarantee: ``epsilon``, ``delta``, ``domain`` and ``random_state``.
    epsilon : float, default=1.0
        Privacy budget of the whole search, for adding or removing one record. ``float("inf")`` searches without
        privacy.
    n_iter : int or None, default=None
        Number of combinations to sample from ``param_distributions``. None means all combinations of its lists.
    rule : {"auto", "all", "stopping"}, default="auto"
        How the search selects:

        - ``"all"`` fits every combination once, each with an equal share of the budget, and selects one by the
          exponential mechanism.
        - ``"stopping"`` fits a random number of random combinations, each with a third of the budget, and selects the
          one with the smallest noisy error. It is available only for forests, because it requires pure epsilon.
        - ``"auto"`` means ``"all"`` for up to three combinations, for boosting and for infinite epsilon, and otherwise
          ``"stopping"``.
    max_fits : int or "auto", default="auto"
        Maximum number of fits of ``"stopping"``; on average, it makes half as many. A larger value costs time, but no
        privacy. ``"auto"`` means five times the number of combinations.
    holdout : float, default=0.2
        Share of the records that measure the errors. The other records train the models.
    refit : bool or "auto", default="auto"
        Whether to fit the selected combination again, to all records. This fit and the selection then get half of the
        budget each. If False, the selected model is released as it is. ``"auto"`` refits after ``"stopping"``.
    random_state : int, RandomState instance or None, default=None
        Seed for reproducible searches. A seed voids the guarantee, because anyone who knows it can remove the noise.

    Attributes
    ----------
    best_estimator_ : estimator
        The selected model. Its ledger is that of the search.
    best_params_ : dict
        The selected parameters.
    privacy_ : Ledger
        The ledger of the whole search. Without a refit, ``privacy_.merged`` contains the ledger of the selected fit.
    domain_ : Domain
        The domain of the fits.
    classes_ : ndarray of shape (n_classes,)
        The classes of the domain, for classifiers.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of the features, if the search was fitted to a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, PrivateSearch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(5000, 2))
    >>> y = np.where((X[:, 0] > 5) == (X[:, 1] > 5), "yes", "no")
    >>> domain = Domain({"a": Numeric(0, 10), "b": Numeric(0, 10)}, target=Categorical(["no", "yes"]))
    >>> search = PrivateSearch(DiPriMeClassifier(domain=domain), {"max_depth": [1, "auto"]}, epsilon=3)
    >>> search.fit(X, y).best_params_
    {'max_depth': 'auto'}
    >>> search.predict([[1.0, 1.0], [9.0, 1.0]])
    array(['yes', 'no'], dtype='<U3')
    >>> search.privacy_.total
    Fraction(3, 1)
    """

    estimator: Any = parameter(
        MISSING,
        unnamed(check_estimator),
        "A `DiPriMeClassifier`, `DiPriMeRegressor`, `DiPriMeBoostingClassifier` or "
        "`DiPriMeBoostingRegressor` with the domain, and with all parameters that the search does not "
        "select. Keep the defaults of its ``epsilon`` and ``random_state``. Its ``delta``, if it has one, "
        "is the delta of the whole search.",
    )
    param_distributions: Any = parameter(
        MISSING,
        unchecked,  # `list_settings` checks them, with n_iter
        "List of values for each parameter, or a distribution such as those of scipy.stats. The search "
        "cannot select parameters that determine the guarantee: ``epsilon``, ``delta``, ``domain`` and "
        "``random_state``.",
    )
    _: KW_ONLY
    epsilon: float = parameter(
        1.0,
        unnamed(exact_epsilon),
        'Privacy budget of the whole search, for adding or removing one record. ``float("inf")`` searches '
        "without privacy.",
    )
    n_iter: int | None = parameter(
        None,
        unchecked,
        "Number of combinations to sample from ``param_distributions``. None means all combinations of its lists.",
    )
    rule: Literal["auto", "all", "stopping"] = parameter(
        "auto",
        choice("auto", "all", "stopping"),
        'How the search selects:\n- ``"all"`` fits every combination once, each with an equal share of the '
        'budget, and selects one by the exponential mechanism.\n- ``"stopping"`` fits a random number of '
        "random combinations, each with a third of the budget, and selects the one with the smallest noisy "
        'error. It is available only for forests, because it requires pure epsilon.\n- ``"auto"`` means '
        '``"all"`` for up to three combinations, for boosting and for infinite epsilon, and otherwise '
        '``"stopping"``.',
    )
    max_fits: int | Literal["auto"] = parameter(
        "auto",
        auto_integer(1, 1 << 30),
        'Maximum number of fits of ``"stopping"``; on average, it makes half as many. A larger value costs '
        'time, but no privacy. ``"auto"`` means five times the number of combinations.',
    )
    holdout: float = parameter(
        0.2, _check_holdout, "Share of the records that measure the errors. The other records train the models."
    )
    refit: bool | Literal["auto"] = parameter(
        "auto",
        choice("auto", True, False),
        "Whether to fit the selected combination again, to all records. This fit and the selection then "
        'get half of the budget each. If False, the selected model is released as it is. ``"auto"`` refits '
        'after ``"stopping"``.',
    )
    random_state: int | np.random.RandomState | None = parameter(
        None,
        unnamed(RandomSource),
        "Seed for reproducible searches. A seed voids the guarantee, because anyone who knows it can remove the noise.",
        recorded=False,
        of_model=False,
    )

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
        return tags

    # -- attributes and settings that follow from the estimator --------------------------------------------------------

    @property
    def _task(self) -> Task:  # type: ignore[override]
        return check_estimator(self.estimator)._task

    @property
    def domain(self) -> Domain | Literal["infer"] | None:
        """The domain of the estimator."""
        return check_estimator(self.estimator).domain  # type: ignore[no-any-return]

    @property
    def n_jobs(self) -> int | None:
        """The number of threads of the estimator."""
        return check_estimator(self.estimator).n_jobs  # type: ignore[no-any-return]

    @property
    def verbose(self) -> bool:
        """Whether the estimator shows its progress."""
        return check_estimator(self.estimator).verbose  # type: ignore[no-any-return]

    def _check_settings(self, n_features: int) -> SearchSettings:
        checked = check_parameters(self)
        estimator, epsilon = checked["estimator"], checked["epsilon"]
        settings = list_settings(self.param_distributions, self.n_iter, self.random_state)
        of_a_fit = estimator._check_settings(n_features)
        if of_a_fit.accounting != "strict":
            raise ValueError(
                f"PrivateSearch does not support {type(estimator).__name__}, because its fits are not private."
            )
        delta = estimator._delta(of_a_fit)
        max_fits = checked["max_fits"] or TRIES_PER_SETTING * len(settings)
        rule = _resolve_rule(checked["rule"], len(settings), pure=delta == 0, infinite=epsilon == math.inf)
        refits = rule == "stopping" if checked["refit"] == "auto" else checked["refit"]
        return SearchSettings(epsilon, delta, settings, rule, max_fits, checked["holdout"], refits)

    def _plan(self, settings: SearchSettings, domain: Domain) -> SearchPlan:
        return SearchPlan.make(self.estimator, settings, domain)

    def _delta(self, settings: SearchSettings) -> Fraction:
        return settings.delta

    def _loss(self, settings: SearchSettings) -> PrivacyLoss:
        return settings.loss

    def _attached_budgets(self) -> tuple[ChargeableBudget, ...]:
        return (*super()._attached_budgets(), *check_estimator(self.estimator)._attached_budgets())

    def _max_records(self) -> int:
        return check_estimator(self.estimator)._max_records()

    def _check_groups(self, *, given: bool) -> None:
        check_estimator(self.estimator)._check_groups(given=given)

    def _resolve_domain(self, source: Source) -> Domain:
        domain = check_estimator(self.estimator)._resolve_domain(source)
        if not domain.is_complete:
            raise ValueError("PrivateSearch requires a complete domain. Call Domain.learn first.")
        return domain

    # -- fit -----------------------------------------------------------------------------------------------------------

    def _build_engine(
        self, partitions: Partitions, domain: Domain, settings: SearchSettings, threads: Threads
    ) -> tuple[Partitions, Threads]:
        parts = np.empty((sum(partitions.executor(threads).sizes), RECORD_BYTES), dtype=np.uint8)
        # Apart from the division, a search needs at most the memory of one fit to all records. Allocate both, and free
        # them again: a search that lacks memory then fails before the charge.
        candidate = self._plan(settings, domain).candidates[0]
        fit = candidate.refitted or candidate.tried
        candidate.model._build_engine(partitions, domain, fit.settings, threads)
        del parts
        return partitions, threads

    def _train(
        self,
        prepared: tuple[Partitions, Threads],
        domain: Domain,
        settings: SearchSettings,
        plan: SearchPlan,
        account: Account,
        source: RandomSource,
    ) -> tuple[Candidate, Any]:
        all_records, threads = prepared
        training, choosing = divide(all_records, settings.holdout, source, threads)
        chooser = Chooser(plan, training, choosing.executor(threads), domain, account, source)
        if settings.rule == "all":
            chosen = chooser.choose_among_all()
        else:
            chosen = chooser.choose_by_stopping(settings.max_fits)
        if chosen.refitted is None:
            account.choose(chosen.model.privacy_)
            return chosen, chosen.model.forest_
        return chosen, fit_candidate(chosen.model, chosen.refitted, all_records, domain, account, source)

    def _set_fitted(self, domain: Domain, ledger: Ledger, forest: Any) -> None:
        chosen, forest = forest
        chosen.model._set_fitted(domain, ledger, forest)
        self.domain_ = domain
        self.privacy_ = ledger
        self.best_params_ = dict(chosen.parameters)
        self.best_estimator_ = chosen.model.set_params(epsilon=self.epsilon)
        self.best_estimator_._remember_parameters()
        if hasattr(chosen.model, "classes_"):
            self.classes_ = chosen.model.classes_
        self._name_columns_of_best()

    def _name_columns(self, X: Any, domain: Domain, *, reset: bool) -> None:
        super()._name_columns(X, domain, reset=reset)
        self._name_columns_of_best()

    def _name_columns_of_best(self) -> None:
        """Copy the column names of the search to the selected model, if both are known."""
        if not hasattr(self, "best_estimator_"):
            return
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(self.best_estimator_, name, getattr(self, name))
            elif hasattr(self.best_estimator_, name):
                delattr(self.best_estimator_, name)

    # -- use -----------------------------------------------------------------------------------------------------------

    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    def predict(self, X: Any) -> Any:
        """Predict with the selected model.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        predictions : ndarray of shape (n,)
            The predicted classes or numbers.
        """
        return self._best().predict(X)

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Predict the probability of each class with the selected model.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes)
            The probabilities, in the order of ``classes_``.
        """
        return self._best().predict_proba(X)

    @available_if(_estimator_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Predict the logarithm of the probability of each class; see :meth:`predict_proba`."""
        return self._best().predict_log_proba(X)

    @available_if(_estimator_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the scores of the selected boosted classifier; see its ``decision_function``."""
        return self._best().decision_function(X)

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy or R² of the selected model, which is **not private** if these rows are private.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.
        y : array or column of shape (n,)
            Their targets.

        Returns
        -------
        score : float
            The score, as the ``score`` method of the estimator returns it.
        """
        return float(self._best().score(X, y))

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """The importances of the features in the selected model."""
        return np.asarray(self._best().feature_importances_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the selected model, with the ledger of the search, to a file that `diprime.load` reads.

        Parameters
        ----------
        path : str or path
            The file. An existing file is replaced.
        """
        self._best().save(path)
