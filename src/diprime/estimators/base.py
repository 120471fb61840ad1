"""Base class of all private estimators: domain, input validation, ledger and warnings."""

from __future__ import annotations

import copy
import math
import numbers
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial, wraps
from typing import Any, TypeVar, cast

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from diprime._util import warn
from diprime._util.resources import Threads, resolve_n_jobs
from diprime.domain import Categorical, Domain, Origin, RowReader, Task
from diprime.domain.columns import object_array
from diprime.domain.learning import LearningPlan
from diprime.domain.records import MIXED_GROUPS, Records
from diprime.estimators.parameters import check_domain, parameters_of
from diprime.execution.groups import bound_contributions
from diprime.execution.partition import Partitions
from diprime.privacy.charges import VoidReason
from diprime.privacy.ledger import Ledger, PrivacyWarning
from diprime.privacy.measures import PrivacyLoss, PureEpsilon, rounded_text, share_of
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Account, ChargeableBudget, Request, Session, active_budgets
from diprime.sources import as_source, predictor_of
from diprime.sources.protocol import Roles, RunOptions, Source

N_DIMENSIONS = 2  # of a table
DOMAIN_SHARE = Fraction(1, 10)
"""Share of epsilon, and of delta, for learning undeclared ranges and categories of a domain."""

_Model = TypeVar("_Model", bound="PrivateEstimator")
_Method = TypeVar("_Method", bound=Callable[..., Any])

READ_PRIVATE_DATA = frozenset(
    {
        "CalibratedClassifierCV",
        "GradientBoostingClassifier",
        "GradientBoostingRegressor",
        "GridSearchCV",
        "HalvingGridSearchCV",
        "HalvingRandomSearchCV",
        "IterativeImputer",
        "OneVsOneClassifier",
        "OneVsRestClassifier",
        "OutputCodeClassifier",
        "RFECV",
        "RandomizedSearchCV",
        "SelfTrainingClassifier",
        "SequentialFeatureSelector",
        "StackingClassifier",
        "StackingRegressor",
        "TunedThresholdClassifierCV",
        "VotingClassifier",
    }
)
"""Meta-estimators that score, calibrate, boost or impute with private rows, or keep the classes that occur.

docs/budget.md lists all of them.
"""


def warn_of_meta_estimator(*, under_budget: bool) -> None:
    """Warn if the call stack shows that this fit was called by a meta-estimator that reads private data itself."""
    frame = sys._getframe(1)
    while under_budget and frame.f_back is not None:
        frame = frame.f_back
        bases = [base for base in type(frame.f_locals.get("self")).__mro__ if base.__name__ in READ_PRIVATE_DATA]
        kind = next((base for base in bases if base.__module__.startswith("sklearn.")), None)
        if kind is not None:
            message = (
                f"{kind.__name__} reads private rows or labels itself, which is not charged to any budget. The "
                f"budget covers only the fits inside it: do not publish {kind.__name__} or its choices. See "
                "docs/budget.md."
            )
            warn(message, PrivacyWarning)
            return


def sorted_classes(domain: Domain) -> tuple[list[int], npt.NDArray[Any]]:
    """Return the indices that sort the domain's classes, and the sorted classes.

    Classes that cannot be compared keep the order of the domain. The array has the type of the classes, or ``object``
    if they have no common type.
    """
    categories: Sequence[Any] = domain.target.categories  # type: ignore[union-attr]
    try:
        order = sorted(range(len(categories)), key=categories.__getitem__)
    except TypeError:  # such as text and numbers
        order = list(range(len(categories)))
    classes = [categories[i] for i in order]
    kinds = {bool if isinstance(v, bool) else numbers.Real if isinstance(v, numbers.Real) else type(v) for v in classes}
    if len(kinds) == 1 and kinds <= {bool, numbers.Real, str}:
        return order, np.array(classes)
    return order, object_array(classes)


def accepts_sources(method: _Method) -> _Method:
    """Let a prediction method accept a source or a table on a cluster, for which it returns a lazy collection."""

    @wraps(method)
    def predict(self: Any, X: Any) -> Any:
        predict_partitions = predictor_of(X)
        if predict_partitions is None:
            return method(self, X)
        predictor = copy.copy(self).set_params(n_jobs=1)  # a worker runs several tasks, one per thread
        return predict_partitions(X, predictor, method.__name__)

    return cast(_Method, predict)


class PrivateClassifierMixin(ClassifierMixin):  # type: ignore[misc]
    """Classes and log-probabilities of all private classifiers."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.epsilon != math.inf  # noise dominates small tables
        return tags

    def _set_fitted(self, domain: Domain, ledger: Ledger, forest: Any) -> None:
        super()._set_fitted(domain, ledger, forest)
        self.classes_ = sorted_classes(domain)[1]

    @accepts_sources
    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Predict the logarithm of the probability of each class; see :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))


class PrivateRegressorMixin(RegressorMixin):  # type: ignore[misc]
    """Tags of all private regressors."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self.epsilon != math.inf  # noise dominates small tables
        return tags


class PrivateEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of all private estimators, which resolves the domain, encodes the input and fits in one session.

    Subclasses must have the parameters ``epsilon``, ``domain``, ``n_jobs`` and ``random_state``.
    """

    _task: Task

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_")  # a fit that fails later has already set feature_names_in_

    @abstractmethod
    def _check_settings(self, n_features: int) -> Any:
        """Check the parameters and return the settings, including the ledger's ``epsilon`` and ``accounting``."""

    @abstractmethod
    def _plan(self, settings: Any, domain: Domain) -> Any:
        """Plan the releases, whose costs must add up to epsilon, before any row is read (except to infer a domain)."""

    def _delta(self, settings: Any) -> Fraction:
        """Return the delta of the ledger, which is zero without Gaussian noise."""
        return Fraction(0)

    def _loss(self, settings: Any) -> PrivacyLoss:
        """Return the privacy loss of the whole fit, as charged to budgets."""
        return PureEpsilon(settings.epsilon).loss(1)

    def _max_records(self) -> int:
        """Return the contribution bound: the maximum number of records used per person."""
        return 1

    def _check_groups(self, *, given: bool) -> None:
        """Raise an error if groups are passed but not supported, or are required but missing."""
        if given:
            raise ValueError(f"{type(self).__name__} does not support groups: it protects single records, not people.")

    @abstractmethod
    def _build_engine(self, partitions: Partitions, domain: Domain, settings: Any, threads: Threads) -> Any:
        """Build the engine and allocate its memory, before anything is charged or released."""

    @abstractmethod
    def _train(
        self, engine: Any, domain: Domain, settings: Any, plan: Any, account: Account, source: RandomSource
    ) -> Any:
        """Charge and perform each release of the plan, and return the forest."""

    # -- study budgets -------------------------------------------------------------------------------------------------

    _budgets: tuple[ChargeableBudget, ...] = ()
    """Budgets that were active when this object was pickled or copied."""

    def __getstate__(self) -> Any:
        budgets = active_budgets(self._budgets)
        return {**super().__getstate__(), "_budgets": budgets} if budgets else super().__getstate__()

    def __sklearn_clone__(self) -> Any:
        clone = super().__sklearn_clone__()
        if self._budgets:
            clone._budgets = self._budgets
        return clone

    def _attached_budgets(self) -> tuple[ChargeableBudget, ...]:
        """Return the budgets attached to this object."""
        return self._budgets

    def _voided_by(self, origin: Origin) -> list[VoidReason]:
        """Return the reasons why a fit with these parameters is not private, even if its charges are correct."""
        voided_by = [] if origin.ledger is None else list(origin.ledger.voided_by)
        if origin.reason_not_private is not None:
            voided_by.append(origin.reason_not_private)
        if self.random_state is not None:
            voided_by.append(VoidReason.SEED_OF_MODEL)
        return voided_by

    def _require_private(self, session: Session) -> None:
        """Raise an error, before data are read, if a budget is active and the fit would not be private."""
        origin = Origin("inferred") if self.domain == "infer" else getattr(self.domain, "origin", Origin())
        session.require_private(f"a fit of {type(self).__name__}", self._voided_by(origin))

    def _request(self, settings: Any, domain: Domain) -> Request:
        """Return the budget request of a fit, which contains public numbers only."""
        delta, origin = self._delta(settings), domain.origin
        label = f"{type(self).__name__} with epsilon = {rounded_text(settings.epsilon)}"
        return Request(
            "fit",
            label + (f", delta = {rounded_text(delta)}" if delta else ""),
            settings.epsilon,
            delta,
            self._loss(settings),
            settings.accounting,
            self._max_records(),
            tuple(self._voided_by(origin)),
            origin.ledger,
            tuple(origin.notes),
        )

    # -- input ---------------------------------------------------------------------------------------------------------

    def _resolve_domain(self, source: Source) -> Domain:
        if self.domain is None:
            raise ValueError(
                f"{type(self).__name__} requires a domain: pass domain=Domain({{'age': Numeric(17, 90), …}}, "
                "target=…). domain='infer' infers it from the data, which is not private."
            )
        domain = check_domain(self.domain)
        if domain == "infer":
            return self._infer_domain(source.whole())
        if domain.task != self._task:
            wanted = "Categorical" if self._task == "classification" else "Numeric"
            raise ValueError(
                f"{type(self).__name__} requires a domain with a target of type {wanted}, got "
                f"{type(domain.target).__name__}."
            )
        return domain

    def _infer_domain(self, records: Records | None) -> Domain:
        if records is None:
            raise ValueError(
                f"{type(self).__name__} requires a Domain, because domain='infer' works only for a table in memory."
            )
        domain = Domain.infer(records.X, records.y, self._task)
        if isinstance(domain.target, Categorical) and any(
            isinstance(category, float) and not category.is_integer() for category in domain.target.categories
        ):
            raise ValueError("Unknown label type: y is continuous; give classes, or list them in a Domain.")
        return domain

    def _name_columns(self, X: Any, domain: Domain, *, reset: bool) -> None:
        """Set or check ``n_features_in_`` and ``feature_names_in_`` with scikit-learn, in the order of the domain."""
        columns: Any = np.empty((0, len(domain.column_names)))
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):  # only names are needed, so no rows are passed
            are_known = set(frame.columns) >= set(domain.column_names)  # names in pandas may be numbers
            names = domain.column_names if are_known else []
            columns = (frame.head(0).select(*names) if names else frame.head(0)).to_native()
        validate_data(self, columns, reset=reset, skip_check_array=True)

    # -- fit -----------------------------------------------------------------------------------------------------------

    def fit(self: _Model, X: Any, y: Any = None, *, groups: Any = None, **refused: Any) -> _Model:
        """Fit a model to records and their targets.

        Rows with a missing target or an unlisted class are dropped silently, because a warning would reveal them.
        Numeric targets outside the range of the domain are clipped.

        Parameters
        ----------
        X : table, array or source
            The records: a data frame, an array or a list of rows in memory, a table of Dask or Spark, a stream of
            Arrow such as a DuckDB relation, or a source of `diprime.sources`.
        y : array, column or str
            The targets, or the name of their column in X. Not needed for sources that contain the targets.
        groups : array, column or str, optional
            Identifier of the person of each record, as text, integers or dates, or the name of that column in X. All
            records of a person are then protected together, and at most ``max_records_per_group`` of them are used.
            Records without an identifier are dropped. The model then describes people, not records: all records of a
            person share one weight. Without ``groups``, each record is protected by itself.
        **refused : dict
            ``sample_weight`` is refused, because the noise is calibrated to records that count once. It is not a named
            parameter, so scikit-learn does not pass it.

        Returns
        -------
        self : estimator
            The fitted estimator.
        """
        with Session.begin(self._attached_budgets()) as session:
            self._refuse(refused)
            if y is None and not isinstance(X, Source):
                raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
            if isinstance(y, np.ndarray) and y.shape[1:] == (1,):
                message = "A column-vector y was passed when a 1d array was expected; give for example y.ravel()."
                warn(message, DataConversionWarning)
            self._fit(*as_source(X, y, groups), session)
        return self

    def _refuse(self, refused: Mapping[str, Any]) -> None:
        """Raise an error for unsupported arguments, such as ``sample_weight``."""
        for name, value in refused.items():
            if name != "sample_weight":
                raise TypeError(f"{type(self).__name__}.fit() got an unexpected keyword argument {name!r}")
            if value is not None:
                raise ValueError(
                    f"{type(self).__name__} does not support sample_weight, because the noise is calibrated to records "
                    "that count once. A weight would void the privacy guarantee."
                )

    def _fit(self, data: Source, roles: Roles, session: Session) -> None:
        """Fit to the records of a source. All reads of a fit happen here, in order."""
        people = data.has_groups(roles, may_read=False)
        if people is not None:
            self._check_groups(given=people)
            session.protect(people=people)
        self._require_private(session)
        warn_of_meta_estimator(under_budget=session.is_budgeted)
        domain = self._resolve_domain(data)
        settings = self._check_settings(domain.n_features)
        source = RandomSource(self.random_state)
        learning, settings = self._split_budget(domain, settings, session)
        if learning is not None and learning.charges:
            data = data.repeatable()
        if people is None and (learning is not None or self._max_records() > 1):
            people = data.has_groups(roles, may_read=True)
            if people is None:  # there are no records
                people = self._max_records() > 1
            self._check_groups(given=people)
            session.protect(people=people)
        if learning is not None:
            collect = partial(data.collect, domain=domain, roles=roles)
            domain = domain.complete(collect, learning, source, session, of_persons=bool(people))
            settings = self._check_settings(domain.n_features)  # a date is encoded as several features
            settings = self._with_remaining_budget(learning, settings)
        plan = self._plan(settings, domain)
        is_shown = bool(getattr(self, "verbose", False))
        options = RunOptions(resolve_n_jobs(self.n_jobs), is_shown, has_groups=bool(people))
        with data.encode(domain, roles, options) as partitions:
            if people is None:
                self._check_groups(given=partitions.of_persons)
                session.protect(people=partitions.of_persons)
            elif people != partitions.of_persons:
                raise ValueError(MIXED_GROUPS)
            self._name_columns(data.columns(roles), domain, reset=True)  # scikit-learn refuses some names
            self._fit_partitions(partitions, domain, settings, plan, source, session)

    def _split_budget(self, domain: Domain, settings: Any, session: Session) -> tuple[LearningPlan | None, Any]:
        """Plan how to learn an incomplete domain, before data are read; return the plan and the remaining settings."""
        learning = None
        domain.check_size()  # before anything is charged
        if not domain.is_complete:
            budget = share_of(settings.epsilon, DOMAIN_SHARE), self._delta(settings) * DOMAIN_SHARE
            learning = domain.learning_plan(*budget)
            settings = self._with_remaining_budget(learning, settings)
        request = None if learning is None else learning.request(is_seeded=self.random_state is not None)
        session.check(self._request(settings, domain), request)
        return learning, settings

    @staticmethod
    def _with_remaining_budget(learning: LearningPlan, settings: Any) -> Any:
        """Return settings with the budget that remains after learning the domain."""
        rest = {"epsilon": settings.epsilon - learning.epsilon} if settings.epsilon != math.inf else {}
        if learning.delta:
            rest["delta"] = settings.delta - learning.delta
        return replace(settings, **rest)

    def _fit_partitions(
        self,
        partitions: Partitions,
        domain: Domain,
        settings: Any,
        plan: Any,
        source: RandomSource,
        session: Session,
    ) -> None:
        """Fit to encoded records. All releases of a fit happen here, except those that learn its domain."""
        with Threads(resolve_n_jobs(self.n_jobs)) as threads:
            if partitions.of_persons:
                partitions = bound_contributions(partitions, self._max_records(), source, threads)
            engine = self._build_engine(partitions, domain, settings, threads)  # a failure here precedes the charge
            with session.spend(self._request(settings, domain)) as account:
                forest = self._train(engine, domain, settings, plan, account, source)
        self._set_fitted(domain, account.ledger, forest)

    def _set_fitted(self, domain: Domain, ledger: Ledger, forest: Any) -> None:
        self.domain_ = domain
        self.privacy_ = ledger
        self.forest_ = forest
        self._remember_parameters()

    def _remember_parameters(self) -> None:
        """Store the parameters of the fit for files and reports, because the estimator's may change later."""
        values = {name: getattr(self, name) for name, declared in parameters_of(self).items() if declared.of_model}
        self.fitted_params_ = {
            name: dict(value) if isinstance(value, Mapping) else value  # a dict could be modified in place
            for name, value in values.items()
        }

    # -- use -----------------------------------------------------------------------------------------------------------

    def _reader(self, X: Any) -> RowReader:
        check_is_fitted(self)
        domain = self.domain_
        n_columns = len(domain.column_names)
        if isinstance(X, np.ndarray) and X.ndim == N_DIMENSIONS and X.shape[1] != n_columns:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {n_columns} features as input."
            )
        rows = domain.reader(X)
        self._name_columns(X, domain, reset=False)
        return rows
