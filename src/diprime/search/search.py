"""The estimator that chooses the setting of another one, privately."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from diprime._util.threads import Threads
from diprime.domain import Domain, Task
from diprime.engines.partition import Partition, Partitions
from diprime.estimators.base import PrivateEstimator
from diprime.estimators.parameters import EPSILON, Parameter, auto_integer_parameter, choice_parameter
from diprime.estimators.trees import PrivateTrees
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import PrivacyLoss
from diprime.privacy.randomness import RandomSource
from diprime.privacy.spending import Spendable
from diprime.search.candidates import check_estimator, list_settings
from diprime.search.choosing import Chooser, learn
from diprime.search.parts import divide
from diprime.search.plan import MAX_ALL, TRIES_PER_SETTING, Candidate, Rule, SearchPlan, SearchSettings

MAX_FITS = auto_integer_parameter("max_fits", low=1, high=1 << 30)
RULE = choice_parameter("rule", "auto", ("auto", "all", "stopping"))
REFIT: Parameter[bool | str, bool | str] = choice_parameter("refit", "auto", ("auto", True, False))


def _estimator_has(name: str) -> Callable[[Any], bool]:
    return lambda search: hasattr(search.estimator, name)


class PrivateSearch(PrivateEstimator):
    """A private choice among settings of an estimator: the model of the best one, and the cost of all of it.

    The records are divided at random: most of them train models with different settings, and the others choose one by
    its error on them. What is released is one model and its setting; nothing is told of the others. All of this costs
    ``epsilon``, which is divided among the fits: a model that was searched for has more noise than one that is fitted
    with all of epsilon. The estimators' defaults adapt to epsilon and to the data, so try them first.

    Parameters
    ----------
    estimator : estimator
        A `DiPriMeClassifier`, `DiPriMeRegressor`, `DiPriMeBoostingClassifier` or `DiPriMeBoostingRegressor` with the
        domain, and with all parameters that are not chosen. Its ``epsilon`` and ``random_state`` must be left at their
        defaults. Its ``delta``, if it has one, is the delta of the whole search.
    param_distributions : dict or list of dict
        For each parameter a list of values, or a distribution such as those of scipy.stats. Parameters that decide what
        is promised (``epsilon``, ``delta``, ``domain``, ``accounting``, ``random_state``) cannot be chosen.
    epsilon : float, default=1.0
        The privacy budget of the whole search, for adding or removing one record. ``float("inf")`` is a search without
        privacy.
    n_iter : int or None, default=None
        The number of settings to draw from ``param_distributions``. ``None`` means all combinations of its lists.
    rule : {"auto", "all", "stopping"}, default="auto"
        How to choose:

        - ``"all"`` fits every setting once, each with an equal share of the budget, and selects one by the exponential
          mechanism.
        - ``"stopping"`` fits a random number of random settings, each with a third of the budget, and takes the one
          with the least noisy error. It is for forests, whose guarantee is a pure epsilon.
        - ``"auto"`` is ``"all"`` for up to three settings, for boosting and for infinite epsilon, else ``"stopping"``.
    max_fits : int or "auto", default="auto"
        The largest number of fits of ``"stopping"``, which makes half as many on average. It costs time, not privacy.
        ``"auto"`` is five times the number of settings.
    holdout : float, default=0.2
        The share of records that choose.
    refit : bool or "auto", default="auto"
        Whether to fit the chosen setting once more, to all records, with half of the budget; the choice then gets the
        other half. If False, the model that was chosen is released as it is. ``"auto"`` refits after ``"stopping"``.
    random_state : int, RandomState instance or None, default=None
        A seed makes the search reproducible, and therefore not private.

    Attributes
    ----------
    best_estimator_ : estimator
        The model that was chosen. Its ledger is that of the search.
    best_params_ : dict
        The setting that was chosen.
    privacy_ : Ledger
        The ledger of the whole search. Without a refit, ``privacy_.merged`` has the ledger of the chosen fit.
    domain_ : Domain
        The domain of the fits.
    classes_ : ndarray of shape (n_classes,)
        The classes of the domain, for classifiers.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of the features, if the fit saw a data frame.

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

    best_estimator_: PrivateTrees

    def __init__(  # noqa: PLR0913 -- scikit-learn's parameters are arguments of the constructor
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        epsilon: float = EPSILON.default,
        n_iter: int | None = None,
        rule: Literal["auto", "all", "stopping"] = "auto",
        max_fits: int | Literal["auto"] = "auto",
        holdout: float = 0.2,
        refit: bool | Literal["auto"] = "auto",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.n_iter = n_iter
        self.rule = rule
        self.max_fits = max_fits
        self.holdout = holdout
        self.refit = refit
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
        return tags

    # -- what the base class reads: the estimator decides it -----------------------------------------------------------

    @property
    def _task(self) -> Task:  # type: ignore[override]
        task: Task = check_estimator(self.estimator)._task
        return task

    @property
    def domain(self) -> Domain | Literal["infer"] | None:
        """The domain of the estimator."""
        domain: Domain | Literal["infer"] | None = check_estimator(self.estimator).domain
        return domain

    @property
    def n_jobs(self) -> int | None:
        """The number of threads of the estimator."""
        n_jobs: int | None = check_estimator(self.estimator).n_jobs
        return n_jobs

    def _check_settings(self, n_features: int) -> SearchSettings:
        estimator = check_estimator(self.estimator)
        settings = list_settings(self.param_distributions, self.n_iter, self.random_state)
        epsilon = EPSILON.check(self.epsilon)
        delta = estimator._delta(estimator._check_settings(n_features))
        max_fits = MAX_FITS.check(self.max_fits) or TRIES_PER_SETTING * len(settings)
        rule = self._resolve_rule(len(settings), pure=delta == 0, infinite=epsilon == math.inf)
        refit = REFIT.check(self.refit)
        refits = rule == "stopping" if refit == "auto" else bool(refit)
        return SearchSettings(epsilon, delta, settings, rule, max_fits, self._check_holdout(), refits)

    def _resolve_rule(self, n_settings: int, *, pure: bool, infinite: bool) -> Rule:
        rule = RULE.check(self.rule)
        if rule == "auto":
            return "stopping" if pure and not infinite and n_settings > MAX_ALL else "all"
        if rule == "stopping" and not pure:
            raise ValueError(
                'rule="stopping" needs fits of pure epsilon, and those of boosting have a delta; give rule="all".'
            )
        return rule  # type: ignore[return-value]

    def _check_holdout(self) -> Fraction:
        if isinstance(self.holdout, bool) or not isinstance(self.holdout, numbers.Real) or not 0 < self.holdout < 1:
            raise ValueError(f"holdout must be a number between 0 and 1, got {self.holdout!r}.")
        return Fraction(str(self.holdout))

    def _plan(self, settings: SearchSettings, domain: Domain) -> SearchPlan:
        return SearchPlan.make(self.estimator, settings, domain)

    def _delta(self, settings: SearchSettings) -> Fraction:
        return settings.delta

    def _loss(self, settings: SearchSettings) -> PrivacyLoss:
        return settings.loss

    def _carried(self) -> tuple[Spendable, ...]:
        return (*super()._carried(), *check_estimator(self.estimator)._carried())

    def _max_records(self) -> int:
        return check_estimator(self.estimator)._max_records()

    def _check_groups(self, *, given: bool) -> None:
        check_estimator(self.estimator)._check_groups(given=given)

    def _resolve_domain(self, X: Any, y: Any) -> Domain:
        domain = check_estimator(self.estimator)._resolve_domain(X, y)
        if domain.is_open:
            raise ValueError("A private search does not learn what is open in a domain; use Domain.learn before.")
        return domain

    # -- fit -----------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, *, groups: Any = None, **refused: Any) -> PrivateSearch:
        """Choose a setting, and fit a model with it.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The records.
        y : array or column of shape (n,)
            Their targets.
        groups : array or column of shape (n,), optional
            The person of each record, as for the estimator, whose ``max_records_per_group`` holds. All records of a
            person train, or all choose.
        **refused : dict
            ``sample_weight`` is refused, as by the estimator.

        Returns
        -------
        self : PrivateSearch
            The fitted search.
        """
        self._fit(X, y, refused, groups)
        return self

    def _prepare(
        self, partitions: Partitions, domain: Domain, settings: SearchSettings, threads: Threads
    ) -> tuple[Partition, Threads]:
        return partitions.whole(), threads

    def _learn(
        self,
        prepared: tuple[Partition, Threads],
        domain: Domain,
        settings: SearchSettings,
        plan: SearchPlan,
        ledger: Ledger,
        source: RandomSource,
    ) -> Candidate:
        all_records, threads = prepared
        training, choosing = divide(all_records, settings.holdout, source, threads)
        chooser = Chooser(plan, training, choosing, domain, ledger, source, threads)
        if settings.rule == "all":
            chosen = chooser.choose_among_all()
        else:
            chosen = chooser.choose_by_stopping(settings.max_fits)
        if chosen.refitted is None:
            ledger.merged.append(chosen.model.privacy_)
        else:
            learn(chosen.model, chosen.refitted, all_records, domain, ledger, source)
        return chosen

    def _set_fitted(self, domain: Domain, ledger: Ledger, forest: Any) -> None:
        chosen: Candidate = forest
        self.domain_ = domain
        self.privacy_ = ledger
        self.best_params_ = dict(chosen.parameters)
        self.best_estimator_ = chosen.model.set_params(epsilon=self.epsilon)
        self.best_estimator_.privacy_ = ledger
        self.best_estimator_._remember_parameters()
        if hasattr(chosen.model, "classes_"):
            self.classes_ = chosen.model.classes_
        self._name_columns_of_best()

    def _name_columns(self, X: Any, domain: Domain, *, reset: bool) -> None:
        super()._name_columns(X, domain, reset=reset)
        self._name_columns_of_best()

    def _name_columns_of_best(self) -> None:
        """Let the model know the columns that the search knows, whichever of the two is there first."""
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

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict with the model that was chosen.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        predictions : ndarray of shape (n,)
            The predicted classes or numbers.
        """
        return np.asarray(self._best().predict(X))

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Predict the probability of each class with the model that was chosen.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes)
            The probabilities, in the order of ``classes_``.
        """
        return np.asarray(self._best().predict_proba(X))

    @available_if(_estimator_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Predict the logarithm of the probability of each class; see :meth:`predict_proba`."""
        return np.asarray(self._best().predict_log_proba(X))

    @available_if(_estimator_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the scores of a boosted classifier that was chosen, as its own ``decision_function`` does."""
        return np.asarray(self._best().decision_function(X))

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy or R² of the model that was chosen. It is not private if these rows are.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.
        y : array or column of shape (n,)
            Their targets.

        Returns
        -------
        score : float
            The score that the estimator's own ``score`` returns.
        """
        return float(self._best().score(X, y))

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """The importances of the features in the model that was chosen."""
        return np.asarray(self._best().feature_importances_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model that was chosen, with the ledger of the search, to a file that `diprime.load` reads.

        Parameters
        ----------
        path : str or path
            The file. An existing file is replaced.
        """
        self._best().save(path)
