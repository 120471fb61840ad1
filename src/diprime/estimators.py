"""The scikit-learn face: parameters in, a fitted forest and its ledger out."""

from __future__ import annotations

import math
import numbers
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Literal, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from diprime import defaults
from diprime.batches import encode_batches
from diprime.budget import Accounting, Ledger, PrivacyWarning, epsilon_from_text, exact_epsilon, exact_text
from diprime.domain import TARGET_UNITS, Categorical, Domain, Numeric, RowReader
from diprime.forest import Forest
from diprime.histograms import Rows, TargetLayout
from diprime.leaves import plain_means, shrunken_means
from diprime.model_files import ModelContent, ModelFileError, Task, load_content, save_content
from diprime.parallel import Threads, resolve_n_jobs
from diprime.randomness import RandomSource
from diprime.training import Method, Settings, train

_Model = TypeVar("_Model", bound="_DiPriMe")
METHODS = ("joint", "diprime", "diprime-exp", "diprime-flip", "random")
_FILED = ("method", "n_estimators", "max_depth", "max_features", "split_share", "balance", "partition", "accounting")


def _integer(name: str, value: object, low: int, high: int) -> int | None:
    if isinstance(value, str) and value == "auto":
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not low <= int(value) <= high:
        raise ValueError(f'{name} must be "auto" or an integer from {low} to {high}, got {value!r}.')
    return int(value)


def _fraction(name: str, value: object, low: int, high: int, *, open_ends: bool) -> Fraction | None:
    if isinstance(value, str) and value == "auto":
        return None
    inside = isinstance(value, numbers.Real) and not isinstance(value, bool) and low <= float(value) <= high
    if not inside or (open_ends and value in (low, high)):
        between = f"strictly between {low} and {high}" if open_ends else f"from {low} to {high}"
        raise ValueError(f'{name} must be "auto" or a number {between}, got {value!r}.')
    return value if isinstance(value, Fraction) else Fraction(repr(float(value)))  # type: ignore[arg-type]


def _choice(name: str, value: object, choices: Sequence[object]) -> Any:
    if isinstance(value, np.generic):  # as a grid search over an array of values gives them
        value = value.item()
    if not any(type(value) is type(c) and value == c for c in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return value


class _DiPriMe(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: everything but the meaning of the target."""

    _task: Task

    def __init__(
        self,
        epsilon: float = 1.0,
        domain: Domain | Literal["infer"] | None = None,
        *,
        method: Method = "joint",
        n_estimators: int | Literal["auto"] = "auto",
        max_depth: int | Literal["auto"] = "auto",
        max_features: int | float | Literal["auto", "sqrt", "log2"] | None = "auto",
        split_share: float | Literal["auto"] = "auto",
        balance: float | Literal["auto"] = "auto",
        partition: bool = True,
        accounting: Accounting = "strict",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.domain = domain
        self.method = method
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.max_features = max_features
        self.split_share = split_share
        self.balance = balance
        self.partition = partition
        self.accounting = accounting
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None
        return tags

    # -- parameters ----------------------------------------------------------------------------------------------------

    def _check_settings(self, n_features: int) -> Settings:
        epsilon = exact_epsilon(self.epsilon)
        method: Method = _choice("method", self.method, METHODS)
        partition: bool = _choice("partition", self.partition, (True, False))
        return Settings(
            epsilon,
            method,
            _integer("n_estimators", self.n_estimators, 1, 65535),
            _integer("max_depth", self.max_depth, 1, Forest.MOST_DEPTH),
            self._check_max_features(method, n_features, same_rows=epsilon == math.inf and not partition),
            _fraction("split_share", self.split_share, 0, 1, open_ends=True),
            _fraction("balance", self.balance, 0, 1000, open_ends=False),
            partition,
            _choice("accounting", self.accounting, ("strict", "paper")),
            bool(self.verbose),
        )

    def _check_max_features(self, method: Method, n_features: int, *, same_rows: bool) -> int:
        value, n = self.max_features, 0
        if value is None:
            n = n_features
        elif isinstance(value, str):
            if value == "auto":
                classification = self._task == "classification"
                n = defaults.max_features(method, n_features, classification=classification, same_rows=same_rows)
            elif value in ("sqrt", "log2"):
                n = max(1, int(math.sqrt(n_features) if value == "sqrt" else math.log2(n_features)))
        elif isinstance(value, numbers.Integral) and not isinstance(value, bool):
            n = int(value)
        elif isinstance(value, numbers.Real) and not isinstance(value, bool) and 0 < value <= 1:
            n = max(1, int(value * n_features))
        if n < 1:
            raise ValueError(
                'max_features must be "auto", "sqrt", "log2", None, an integer from 1 or a fraction of the features '
                f"in (0, 1], got {value!r}."
            )
        if n > n_features:
            raise ValueError(f"max_features is {n}, but there are only {n_features} features.")
        if n > 1 and method in ("diprime", "random"):
            raise ValueError(f'max_features must be 1 for method="{method}", which draws a feature at random.')
        return n

    # -- input ---------------------------------------------------------------------------------------------------------

    def _resolve_domain(self, X: Any, y: Any) -> Domain:
        if self.domain is None:
            raise ValueError(
                f"{type(self).__name__} needs to know what is public about the data: pass "
                "domain=Domain({'age': Numeric(17, 90), …}, target=…), or domain='infer' to read it from the data, "
                "which is not private."
            )
        if isinstance(self.domain, str) and self.domain == "infer":
            domain = Domain.infer(X, y, self._task)
            if isinstance(domain.target, Categorical) and any(
                isinstance(level, float) and not level.is_integer() for level in domain.target.levels
            ):
                raise ValueError("Unknown label type: y is continuous; give classes, or list them in a Domain.")
            return domain
        if not isinstance(self.domain, Domain):
            raise TypeError(
                f"domain must be a Domain or 'infer', got a {type(self.domain).__name__}; "
                "write Domain({'age': Numeric(17, 90), …}, target=…)."
            )
        wanted = Categorical if self._task == "classification" else Numeric
        if not isinstance(self.domain.target, wanted):
            raise ValueError(
                f"{type(self).__name__} needs a domain whose target is {wanted.__name__}(…), "
                f"got {type(self.domain.target).__name__}(…)."
            )
        return self.domain

    def _name_columns(self, X: Any, domain: Domain, *, reset: bool) -> None:
        """Let scikit-learn record or compare the number and the names of the columns, put in the domain's order."""
        columns: Any = np.empty((0, domain.n_features))
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):  # no row is needed to compare names
            names = domain.names if set(frame.columns) == set(domain.names) else []  # pandas has other names than text
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
        if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
            message = "A column-vector y was passed when a 1d array was expected; give for example y.ravel()."
            warnings.warn(message, DataConversionWarning, stacklevel=3)
        domain = self._resolve_domain(X, y)
        settings = self._check_settings(domain.n_features)
        rows = domain.reader(X)
        target = domain.encode_target(y, n_threads=resolve_n_jobs(self.n_jobs))
        if len(target) != rows.n_rows:
            sizes = [rows.n_rows, len(target)]
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {sizes}.")
        self._fit_encoded(rows, target, domain, settings, stacklevel=4)
        self._name_columns(X, domain, reset=True)

    def fit_batches(self: _Model, batches: Iterable[tuple[Any, Any]]) -> _Model:
        """Learn a forest from data that need not fit in memory, say from a file that is read piece by piece.

        The model is the one that `fit` learns from all batches together. Each batch is turned into codes, one byte for
        each value, as it arrives; the fit then takes about twice that, and the batches themselves can go.

        Parameters
        ----------
        batches : iterable of pairs (X, y)
            Records and targets, as `fit` takes them; a generator is read once. The domain must be given.

        Returns
        -------
        self : DiPriMeClassifier or DiPriMeRegressor
            The fitted estimator.
        """
        if isinstance(self.domain, str):
            raise ValueError("fit_batches needs a Domain: it could be inferred only from all of the data at once.")
        domain = self._resolve_domain(None, None)
        settings = self._check_settings(domain.n_features)
        self._name_columns(None, domain, reset=True)

        def with_named_columns() -> Iterator[tuple[Any, Any]]:
            for i, (X, y) in enumerate(batches):
                self._name_columns(X, domain, reset=i == 0)
                yield X, y

        rows, target = encode_batches(with_named_columns(), domain, resolve_n_jobs(self.n_jobs))
        self._fit_encoded(rows, target, domain, settings, stacklevel=3)
        return self

    def _fit_encoded(
        self, rows: Rows, target: npt.NDArray[np.int32], domain: Domain, settings: Settings, *, stacklevel: int
    ) -> None:
        """Learn from records that are integers already; whatever is released goes through here."""
        ledger = Ledger(settings.epsilon, settings.accounting)
        if self.domain is not domain:
            ledger.waive("the domain was inferred from the data, so it tells ranges and levels of single records.")
        if self.random_state is not None:
            ledger.waive("random_state was set, so whoever knows it can take the noise off the model.")
        source = RandomSource(self.random_state)
        for reason in ledger.waivers:
            warnings.warn(f"This fit is not private: {reason}", PrivacyWarning, stacklevel=stacklevel)
        if settings.accounting == "paper":
            message = (
                "This fit is not private: accounting='paper' counts less than is spent; it is for comparison with the "
                "paper's numbers only."
            )
            warnings.warn(message, PrivacyWarning, stacklevel=stacklevel)
        layout = self._layout(domain)
        with Threads(resolve_n_jobs(self.n_jobs)) as threads:
            structure, leaves = train(rows, target, domain, layout, settings, ledger, source, threads)
        if ledger.total != ledger.epsilon:
            raise AssertionError(f"The ledger's total, {ledger.total}, is not epsilon, {ledger.epsilon}.")
        if settings.accounting == "paper":
            means = plain_means(leaves)
        else:
            means = shrunken_means(leaves, of_classes=isinstance(domain.target, Categorical))
        self._set_fitted(domain, ledger, Forest.of_trees(structure, self._leaf_values(means, domain), leaves.counts))

    def _layout(self, domain: Domain) -> TargetLayout:
        if isinstance(domain.target, Categorical):
            return TargetLayout.of_classes(len(domain.target.levels))
        return TargetLayout.of_number(TARGET_UNITS)

    def _leaf_values(self, means: npt.NDArray[np.float64], domain: Domain) -> npt.NDArray[np.float64]:
        """Turn the means of the leaves' vectors into what the forest predicts."""
        return means

    # -- use -----------------------------------------------------------------------------------------------------------

    def _reader(self, X: Any) -> RowReader:
        check_is_fitted(self)
        domain = self.domain_
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] != domain.n_features:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {domain.n_features} features "
                "as input."
            )
        rows = domain.reader(X)
        self._name_columns(X, domain, reset=False)
        return rows

    def apply(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the leaf that each row reaches in each tree.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        leaves : ndarray of shape (n, n_trees)
            The number of the leaf, counted from the left of its tree.
        """
        rows = self._reader(X)
        with Threads(resolve_n_jobs(self.n_jobs)) as threads:
            return self.forest_.apply(rows, threads)

    def _predict_outputs(self, X: Any) -> npt.NDArray[np.float64]:
        rows = self._reader(X)
        with Threads(resolve_n_jobs(self.n_jobs)) as threads:
            return self.forest_.predict(rows, threads)

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """How much the splits on each feature spread the estimates, computed from released numbers only."""
        check_is_fitted(self)
        return self.forest_.importances(self.domain_.n_features)

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file that `diprime.load` reads, on any machine and without running any code.

        The file holds what was released, the domain, the ledger and the parameters of the constructor, but neither
        ``random_state``, which would take the noise off, nor ``n_jobs`` and ``verbose``, which belong to a machine. It
        is written whole or not at all.

        Parameters
        ----------
        path : str or path
            The file; one that exists is replaced.
        """
        save_content(self._to_content(), path)

    def _to_content(self) -> ModelContent:
        check_is_fitted(self)
        self._check_settings(self.domain_.n_features)
        parameters = {name: _plain(getattr(self, name)) for name in _FILED}
        return ModelContent(
            self._task,
            {"epsilon": exact_text(exact_epsilon(self.epsilon)), **parameters},
            self.domain_,
            isinstance(self.domain, str),
            hasattr(self, "feature_names_in_"),
            self.privacy_,
            self.forest_,
        )

    def _set_fitted(self, domain: Domain, ledger: Ledger, forest: Forest) -> None:
        self.domain_ = domain
        self.privacy_ = ledger
        self.forest_ = forest


class DiPriMeClassifier(ClassifierMixin, _DiPriMe):  # type: ignore[misc]
    """A differentially private forest for classification.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget of the whole fit: pure epsilon-DP for one record added or removed. ``float("inf")`` fits
        the non-private counterpart.
    domain : Domain or "infer"
        What is public about the data. ``"infer"`` reads it from the data, which is not private, and warns.
    method : {"joint", "diprime", "diprime-exp", "diprime-flip", "random"}, default="joint"
        How splits are chosen: by one private selection over all features and thresholds; near the private median of a
        random feature; among private medians of ``max_features`` features, by the exponential mechanism or by
        permute-and-flip; or at random, with all of epsilon in the leaves.
    n_estimators : int or "auto", default="auto"
        The number of trees. As ``max_depth``, chosen from a private row count if ``"auto"``.
    max_depth : int or "auto", default="auto"
        The depth of every tree.
    max_features : int, float, "sqrt", "log2", None or "auto", default="auto"
        How many features, drawn at random at each node, a split is chosen from: an integer, a share, or all (None).
        ``"auto"`` is all for ``"joint"``, one for ``"diprime"`` and ``"random"``, else five.
    split_share : float or "auto", default="auto"
        The share of epsilon for the splits; the rest is for the leaves.
    balance : float or "auto", default="auto"
        λ of ``"joint"``: what one row of imbalance costs, a squared error of one being one.
    partition : bool, default=True
        Whether trees learn from disjoint parts of the rows, each with all of epsilon, or from all rows with an equal
        share of it. Without it, ``"joint"`` at epsilon = inf is a random forest: every tree learns from a random bag of
        rows and, for classes, tries the square root of the number of features.
    accounting : {"strict", "paper"}, default="strict"
        ``"paper"`` spends as the DiPriMe paper counts, for comparison only: it is not private.
    n_jobs : int or None, default=None
        The number of threads; ``None`` is one for each core. The model does not depend on it.
    random_state : int, RandomState instance or None, default=None
        A seed makes the fit reproducible and therefore not private. ``None`` takes random bits from the operating
        system.
    verbose : int, default=0
        Whether long fits show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes of the domain, sorted where they can be.
    domain_ : Domain
        The domain of the fit.
    privacy_ : Ledger
        Every charge, the total, and what was waived.
    forest_ : Forest
        The released trees.
    feature_importances_ : ndarray of shape (n_features,)
        How much the splits on each feature of the domain, in its order, spread the estimates, from released numbers
        only.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, in the order of the domain, if the fit saw a data frame: the frame's own order is free.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Categorical, DiPriMeClassifier, Domain, Numeric
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(2000, 2))
    >>> y = np.where(X[:, 0] > 5, "yes", "no")
    >>> domain = Domain({"a": Numeric(0, 10), "b": Numeric(0, 10)}, target=Categorical(["no", "yes"]))
    >>> model = DiPriMeClassifier(epsilon=1.0, domain=domain).fit(X, y)
    >>> model.predict([[1.0, 1.0], [9.0, 1.0]])
    array(['no', 'yes'], dtype='<U3')
    >>> model.privacy_.total
    Fraction(1, 1)
    """

    _task = "classification"

    def fit(self, X: Any, y: Any, **refused: Any) -> DiPriMeClassifier:
        """Learn a forest from records and their classes.

        Rows whose class is missing or not in the domain's list are left out, silently: a message would tell of them.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The records.
        y : array or column of shape (n,)
            Their classes.
        **refused : dict
            ``sample_weight`` is refused, for a record counts once; it is not a parameter, so that scikit-learn knows.

        Returns
        -------
        self : DiPriMeClassifier
            The fitted estimator.
        """
        self._fit(X, y, refused)
        return self

    def _leaf_values(self, means: npt.NDArray[np.float64], domain: Domain) -> npt.NDArray[np.float64]:
        return means[..., _class_order(domain)]

    def _set_fitted(self, domain: Domain, ledger: Ledger, forest: Forest) -> None:
        super()._set_fitted(domain, ledger, forest)
        levels: Sequence[Any] = domain.target.levels  # type: ignore[union-attr]
        self.classes_ = _class_array([levels[i] for i in _class_order(domain)])

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the estimated probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes)
            Rows sum to one.
        """
        return self._predict_outputs(X)

    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        classes : ndarray of shape (n,)
            Entries of ``classes_``.
        """
        rows = self._reader(X)
        with Threads(resolve_n_jobs(self.n_jobs)) as threads:
            return np.asarray(self.classes_[self.forest_.decide(rows, threads)])


class DiPriMeRegressor(RegressorMixin, _DiPriMe):  # type: ignore[misc]
    """A differentially private forest for regression.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget of the whole fit: pure epsilon-DP for one record added or removed. ``float("inf")`` fits
        the non-private counterpart.
    domain : Domain or "infer"
        What is public about the data. ``"infer"`` reads it from the data, which is not private, and warns.
    method : {"joint", "diprime", "diprime-exp", "diprime-flip", "random"}, default="joint"
        How splits are chosen: by one private selection over all features and thresholds; near the private median of a
        random feature; among private medians of ``max_features`` features, by the exponential mechanism or by
        permute-and-flip; or at random, with all of epsilon in the leaves.
    n_estimators : int or "auto", default="auto"
        The number of trees. As ``max_depth``, chosen from a private row count if ``"auto"``.
    max_depth : int or "auto", default="auto"
        The depth of every tree.
    max_features : int, float, "sqrt", "log2", None or "auto", default="auto"
        How many features, drawn at random at each node, a split is chosen from: an integer, a share, or all (None).
        ``"auto"`` is all for ``"joint"``, one for ``"diprime"`` and ``"random"``, else five.
    split_share : float or "auto", default="auto"
        The share of epsilon for the splits; the rest is for the leaves.
    balance : float or "auto", default="auto"
        λ of ``"joint"``: what one row of imbalance costs, a squared error of one being one.
    partition : bool, default=True
        Whether trees learn from disjoint parts of the rows, each with all of epsilon, or from all rows with an equal
        share of it. Without it, ``"joint"`` at epsilon = inf is a random forest: every tree learns from a random bag of
        rows and, for classes, tries the square root of the number of features.
    accounting : {"strict", "paper"}, default="strict"
        ``"paper"`` spends as the DiPriMe paper counts, for comparison only: it is not private.
    n_jobs : int or None, default=None
        The number of threads; ``None`` is one for each core. The model does not depend on it.
    random_state : int, RandomState instance or None, default=None
        A seed makes the fit reproducible and therefore not private. ``None`` takes random bits from the operating
        system.
    verbose : int, default=0
        Whether long fits show a progress bar.

    Attributes
    ----------
    domain_ : Domain
        The domain of the fit.
    privacy_ : Ledger
        Every charge, the total, and what was waived.
    forest_ : Forest
        The released trees.
    feature_importances_ : ndarray of shape (n_features,)
        How much the splits on each feature of the domain, in its order, spread the estimates, from released numbers
        only.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, in the order of the domain, if the fit saw a data frame: the frame's own order is free.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import DiPriMeRegressor, Domain, Numeric
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(2000, 2))
    >>> domain = Domain({"a": Numeric(0, 10), "b": Numeric(0, 10)}, target=Numeric(0, 10))
    >>> model = DiPriMeRegressor(epsilon=1.0, domain=domain).fit(X, X[:, 0])
    >>> model.predict([[1.0, 5.0]])[0] < model.predict([[9.0, 5.0]])[0]
    np.True_
    """

    _task = "regression"

    def fit(self, X: Any, y: Any, **refused: Any) -> DiPriMeRegressor:
        """Learn a forest from records and their targets.

        Targets outside the domain's range are clamped; rows whose target is missing are left out, silently.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The records.
        y : array or column of shape (n,)
            Their targets.
        **refused : dict
            ``sample_weight`` is refused, for a record counts once; it is not a parameter, so that scikit-learn knows.

        Returns
        -------
        self : DiPriMeRegressor
            The fitted estimator.
        """
        self._fit(X, y, refused)
        return self

    def _leaf_values(self, means: npt.NDArray[np.float64], domain: Domain) -> npt.NDArray[np.float64]:
        target = domain.target
        assert isinstance(target, Numeric)
        assert target.low is not None
        assert target.high is not None
        return np.asarray(target.low * means[..., :1] + target.high * means[..., 1:])

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the estimated target of each row.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        targets : ndarray of shape (n,)
            Within the range of the domain's target.
        """
        return self._predict_outputs(X)[:, 0]


def _class_order(domain: Domain) -> list[int]:
    """Return the places of the domain's classes in the order of ``classes_``: sorted, if their types compare."""
    levels: Sequence[Any] = domain.target.levels  # type: ignore[union-attr]
    try:
        return sorted(range(len(levels)), key=levels.__getitem__)
    except TypeError:
        return list(range(len(levels)))


def _class_array(levels: Sequence[Any]) -> npt.NDArray[Any]:
    """Return classes as an array of their own type, or of objects where they have no common one."""
    kinds = {bool if isinstance(v, bool) else numbers.Real if isinstance(v, numbers.Real) else type(v) for v in levels}
    if len(kinds) == 1 and kinds <= {bool, numbers.Real, str}:
        return np.array(levels)
    objects = np.empty(len(levels), dtype=object)
    objects[:] = levels
    return objects


def _plain(parameter: Any) -> Any:
    """Return a parameter that has been checked as plain data."""
    if parameter is None or isinstance(parameter, (str, bool, np.bool_)):
        return parameter if not isinstance(parameter, np.bool_) else bool(parameter)
    return int(parameter) if isinstance(parameter, numbers.Integral) else float(parameter)


def load(path: str | os.PathLike[str]) -> DiPriMeClassifier | DiPriMeRegressor:
    """Read a fitted model from a file that `save` has written.

    No file makes this run code, whatever it holds: what is not a sound model, because it is incomplete, damaged or made
    up, is a `ModelFileError`. But only its maker knows whether the ledger of a sound one is true.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : DiPriMeClassifier or DiPriMeRegressor
        The fitted model. It predicts what the saved one does, bit for bit.

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
    kind = DiPriMeClassifier if content.task == "classification" else DiPriMeRegressor
    try:
        if content.parameters.keys() != {"epsilon", *_FILED}:
            raise ValueError("they are not those of the estimator.")
        epsilon = epsilon_from_text(content.parameters["epsilon"], "epsilon")
        as_float = float(epsilon)
        model = kind(
            domain="infer" if content.domain_inferred else content.domain,
            **content.parameters | {"epsilon": as_float if exact_epsilon(as_float) == epsilon else epsilon},
        )
        model._check_settings(content.domain.n_features)
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelFileError(f"{path} is not a sound model: its parameters cannot be read: {error}") from None
    model._set_fitted(content.domain, content.ledger, content.forest)
    model.n_features_in_ = content.domain.n_features
    if content.columns_named:
        model.feature_names_in_ = np.array(content.domain.names, dtype=object)
    return model


def merge(models: Sequence[Any]) -> Any:
    """Put the forests of models that were fitted on disjoint populations together.

    Parameters
    ----------
    models : sequence of fitted estimators
        All classifiers or all regressors, of equal domains. No person may be in the data of two of them.

    Returns
    -------
    merged : DiPriMeClassifier or DiPriMeRegressor
        A model with the trees of all; each tree counts by its released number of records. Its epsilon is the largest of
        theirs, for one record is in the data of one model only; its parameters are those of the model that has it.
    """
    models = list(models)
    if not models:
        raise ValueError("There is nothing to merge: give at least one fitted model.")
    for model in models:
        if not isinstance(model, _DiPriMe):
            raise TypeError(f"Only DiPriMe estimators can be merged, got {type(model).__name__}.")
        check_is_fitted(model)
        if type(model) is not type(models[0]):
            raise ValueError("A classifier and a regressor cannot be merged.")
        if model.domain_ != models[0].domain_:
            raise ValueError("Models of different domains cannot be merged: fit both with the same Domain.")
    first = max(models, key=lambda model: model.privacy_.total)
    merged = type(first)(**first.get_params(deep=False))
    fitted = {k: v for k, v in vars(first).items() if k.endswith("_") and not k.startswith("_")}
    vars(merged).update(fitted)
    merged.forest_ = Forest.merge([m.forest_ for m in models])
    merged.privacy_ = Ledger.merge([m.privacy_ for m in models])
    return merged
