"""The base class of all private estimators: domain, input validation, ledger and warnings."""

from __future__ import annotations

import numbers
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from diprime.domain import Categorical, Domain, RowReader, Task
from diprime.domain.batches import encode_batches
from diprime.domain.encoding import Rows
from diprime.estimators.parameters import DOMAIN, N_JOBS, RANDOM_STATE
from diprime.privacy.ledger import Ledger, PrivacyWarning
from diprime.privacy.randomness import RandomSource

N_DIMENSIONS = 2  # of a table

_Model = TypeVar("_Model", bound="PrivateEstimator")


def sorted_classes(domain: Domain) -> tuple[list[int], npt.NDArray[Any]]:
    """Return the sorting order of the domain's classes, and the sorted classes.

    Classes that do not compare keep the order of the domain. The array has the type of the classes, or ``object`` if
    they have no type in common.
    """
    levels: Sequence[Any] = domain.target.levels  # type: ignore[union-attr]
    try:
        order = sorted(range(len(levels)), key=levels.__getitem__)
    except TypeError:  # such as text and numbers
        order = list(range(len(levels)))
    classes = [levels[i] for i in order]
    kinds = {bool if isinstance(v, bool) else numbers.Real if isinstance(v, numbers.Real) else type(v) for v in classes}
    if len(kinds) == 1 and kinds <= {bool, numbers.Real, str}:
        return order, np.array(classes)
    objects = np.empty(len(classes), dtype=object)
    objects[:] = classes
    return order, objects


class PrivateClassifierMixin(ClassifierMixin):  # type: ignore[misc]
    """What all private classifiers share: the classes of the domain, and logarithms of probabilities."""

    def _set_fitted(self, domain: Domain, ledger: Ledger, forest: Any) -> None:
        super()._set_fitted(domain, ledger, forest)
        self.classes_ = sorted_classes(domain)[1]

    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Predict the logarithm of the probability of each class; see :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))


class PrivateEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """The base class of all private estimators, whatever they learn.

    It resolves the domain, validates and encodes the input, opens the ledger and warns where a fit is not private. A
    subclass has the parameters ``epsilon``, ``domain``, ``n_jobs`` and ``random_state``, and implements the abstract
    methods.
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

    @abstractmethod
    def _check_settings(self, n_features: int) -> Any:
        """Check the parameters and return the settings, among them ``epsilon`` and ``accounting`` of the ledger."""

    @abstractmethod
    def _plan(self, settings: Any, domain: Domain) -> Any:
        """Plan the releases, which must add up to epsilon. No row has been read, unless for a domain to infer."""

    def _delta(self, settings: Any) -> Fraction:
        """Return the delta of the ledger: zero, unless releases have Gaussian noise."""
        return Fraction(0)

    @abstractmethod
    def _learn(
        self,
        rows: Rows,
        target: npt.NDArray[np.int32],
        domain: Domain,
        settings: Any,
        plan: Any,
        ledger: Ledger,
        source: RandomSource,
    ) -> Any:
        """Pay for each release of the plan before it is made, and return the forest."""

    # -- input ---------------------------------------------------------------------------------------------------------

    def _resolve_domain(self, X: Any, y: Any) -> Domain:
        if self.domain is None:
            raise ValueError(
                f"{type(self).__name__} needs to know what is public about the data: pass "
                "domain=Domain({'age': Numeric(17, 90), …}, target=…), or domain='infer' to read it from the data, "
                "which is not private."
            )
        domain = DOMAIN.check(self.domain)
        if domain == "infer":
            return self._infer_domain(X, y)
        if domain.task != self._task:
            wanted = "Categorical" if self._task == "classification" else "Numeric"
            raise ValueError(
                f"{type(self).__name__} needs a domain whose target is {wanted}(…), "
                f"got {type(domain.target).__name__}(…)."
            )
        return domain

    def _infer_domain(self, X: Any, y: Any) -> Domain:
        domain = Domain.infer(X, y, self._task)
        if isinstance(domain.target, Categorical) and any(
            isinstance(level, float) and not level.is_integer() for level in domain.target.levels
        ):
            raise ValueError("Unknown label type: y is continuous; give classes, or list them in a Domain.")
        return domain

    def _name_columns(self, X: Any, domain: Domain, *, reset: bool) -> None:
        """Let scikit-learn set or check ``n_features_in_`` and ``feature_names_in_``, in the order of the domain."""
        columns: Any = np.empty((0, len(domain.columns)))
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):  # its names are enough, so no rows are passed
            are_known = set(frame.columns) == set(domain.columns)  # pandas may have names that are numbers
            names = domain.columns if are_known else []
            columns = (frame.head(0).select(*names) if names else frame.head(0)).to_native()
        validate_data(self, columns, reset=reset, skip_check_array=True)

    # -- fit -----------------------------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, refused: dict[str, Any]) -> None:
        for name, value in refused.items():
            if name != "sample_weight":
                raise TypeError(f"{type(self).__name__}.fit() got an unexpected keyword argument {name!r}")
            if value is not None:
                raise ValueError(
                    f"{type(self).__name__} does not take sample_weight: the noise is calibrated to one record "
                    "counting once, and a weight would break the guarantee of its epsilon."
                )
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if isinstance(y, np.ndarray) and y.shape[1:] == (1,):
            message = "A column-vector y was passed when a 1d array was expected; give for example y.ravel()."
            warnings.warn(message, DataConversionWarning, stacklevel=3)
        domain = self._resolve_domain(X, y)
        settings = self._check_settings(domain.n_features)
        plan = self._plan(settings, domain)
        rows = domain.reader(X)
        target = domain.encode_target(y, n_threads=N_JOBS.check(self.n_jobs))
        if len(target) != rows.n_rows:
            sizes = [rows.n_rows, len(target)]
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {sizes}.")
        self._fit_encoded(rows, target, domain, settings, plan, stacklevel=4)
        self._name_columns(X, domain, reset=True)

    def fit_batches(self: _Model, batches: Iterable[tuple[Any, Any]]) -> _Model:
        """Fit to data that need not fit in memory, such as a file that is read in chunks.

        The model equals the one that `fit` learns from all batches together. Each batch is encoded when it arrives,
        in one byte for each value, and is not kept. The fit needs about twice the memory of the encoded data.

        Parameters
        ----------
        batches : iterable of pairs (X, y)
            Records and targets, as for `fit`. The iterable is read once, so a generator will do. The domain cannot be
            inferred.

        Returns
        -------
        self : estimator
            The fitted estimator.
        """
        if isinstance(self.domain, str):
            raise ValueError("fit_batches needs a Domain: it could be inferred only from all of the data at once.")
        domain = self._resolve_domain(None, None)
        settings = self._check_settings(domain.n_features)
        plan = self._plan(settings, domain)
        self._name_columns(None, domain, reset=True)

        def with_named_columns() -> Iterator[tuple[Any, Any]]:
            for i, (X, y) in enumerate(batches):
                self._name_columns(X, domain, reset=i == 0)
                yield X, y

        rows, target = encode_batches(with_named_columns(), domain, N_JOBS.check(self.n_jobs))
        self._fit_encoded(rows, target, domain, settings, plan, stacklevel=3)
        return self

    def _fit_encoded(
        self, rows: Rows, target: npt.NDArray[np.int32], domain: Domain, settings: Any, plan: Any, *, stacklevel: int
    ) -> None:
        """Fit to encoded records. Every release of the library passes through here."""
        ledger = Ledger(settings.epsilon, settings.accounting, delta=self._delta(settings))
        if self.domain is not domain:
            ledger.waive("the domain was inferred from the data, so it tells ranges and levels of single records.")
        if self.random_state is not None:
            ledger.waive("random_state was set, so whoever knows it can take the noise off the model.")
        source = RANDOM_STATE.check(self.random_state)
        for reason in ledger.waivers:
            warnings.warn(f"This fit is not private: {reason}", PrivacyWarning, stacklevel=stacklevel)
        if settings.accounting == "paper":
            message = (
                "This fit is not private: accounting='paper' counts less than is spent; it is for comparison with the "
                "paper's numbers only."
            )
            warnings.warn(message, PrivacyWarning, stacklevel=stacklevel)
        forest = self._learn(rows, target, domain, settings, plan, ledger, source)
        if ledger.total != ledger.epsilon:
            raise AssertionError(f"The ledger's total, {ledger.total}, is not epsilon, {ledger.epsilon}.")
        self._set_fitted(domain, ledger, forest)

    def _set_fitted(self, domain: Domain, ledger: Ledger, forest: Any) -> None:
        self.domain_ = domain
        self.privacy_ = ledger
        self.forest_ = forest

    # -- use -----------------------------------------------------------------------------------------------------------

    def _reader(self, X: Any) -> RowReader:
        check_is_fitted(self)
        domain = self.domain_
        n_columns = len(domain.columns)
        if isinstance(X, np.ndarray) and X.ndim == N_DIMENSIONS and X.shape[1] != n_columns:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {n_columns} features as input."
            )
        rows = domain.reader(X)
        self._name_columns(X, domain, reset=False)
        return rows
