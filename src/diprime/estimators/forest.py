"""The scikit-learn face: parameters in, a fitted forest and its ledger out."""

from __future__ import annotations

import math
import numbers
import os
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from diprime._util.threads import Threads, resolve_n_jobs
from diprime.domain import Domain, Numeric
from diprime.domain.encoding import Rows
from diprime.estimators.base import PrivateEstimator, check_choice, check_integer, sorted_classes
from diprime.model.files import ModelContent, ModelFileError, load_content, save_content
from diprime.model.forest import Forest
from diprime.privacy.ledger import Accounting, Ledger
from diprime.privacy.measures import epsilon_from_text, exact_epsilon, exact_text
from diprime.privacy.randomness import RandomSource
from diprime.training import defaults
from diprime.training.leaves import LeafSums, plain_means, shrunken_means
from diprime.training.train import Method, Settings, train

METHODS = ("joint", "diprime", "diprime-exp", "diprime-flip", "random")
_FILED = ("method", "n_estimators", "max_depth", "max_features", "split_share", "balance", "partition", "accounting")


def _integer(name: str, value: object, low: int, high: int) -> int | None:
    if isinstance(value, str) and value == "auto":
        return None
    return check_integer(name, value, low, high, also='"auto" or ')


def _fraction(name: str, value: object, low: int, high: int, *, open_ends: bool) -> Fraction | None:
    if isinstance(value, str) and value == "auto":
        return None
    inside = isinstance(value, numbers.Real) and not isinstance(value, bool) and low <= float(value) <= high
    if not inside or (open_ends and value in (low, high)):
        between = f"strictly between {low} and {high}" if open_ends else f"from {low} to {high}"
        raise ValueError(f'{name} must be "auto" or a number {between}, got {value!r}.')
    return value if isinstance(value, Fraction) else Fraction(repr(float(value)))  # type: ignore[arg-type]


class _DiPriMe(PrivateEstimator):
    """What both estimators share: everything but the meaning of the target."""

    forest_: Forest

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

    # -- parameters ----------------------------------------------------------------------------------------------------

    def _check_settings(self, n_features: int) -> Settings:
        epsilon = exact_epsilon(self.epsilon)
        method: Method = check_choice("method", self.method, METHODS)
        partition: bool = check_choice("partition", self.partition, (True, False))
        return Settings(
            epsilon,
            method,
            _integer("n_estimators", self.n_estimators, 1, 65535),
            _integer("max_depth", self.max_depth, 1, Forest.MAX_DEPTH),
            self._check_max_features(method, n_features, same_rows=epsilon == math.inf and not partition),
            _fraction("split_share", self.split_share, 0, 1, open_ends=True),
            _fraction("balance", self.balance, 0, 1000, open_ends=False),
            partition,
            check_choice("accounting", self.accounting, ("strict", "paper")),
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

    # -- fit -----------------------------------------------------------------------------------------------------------

    def _learn(
        self,
        rows: Rows,
        target: npt.NDArray[np.int32],
        domain: Domain,
        settings: Settings,
        ledger: Ledger,
        source: RandomSource,
    ) -> Forest:
        layout = domain.layout
        with Threads(resolve_n_jobs(self.n_jobs)) as threads:
            structure, leaves = train(rows, target, domain, layout, settings, ledger, source, threads)
        if settings.accounting == "paper":
            means = plain_means(leaves)
        else:
            means = shrunken_means(leaves, of_classes=domain.task == "classification")
        return Forest.of_trees(structure, self._leaf_values(means, leaves, domain), leaves.counts)

    @abstractmethod
    def _leaf_values(self, means: npt.NDArray[np.float64], leaves: LeafSums, domain: Domain) -> npt.NDArray[np.float64]:
        """Turn the means of the leaves' vectors into what the forest predicts."""

    # -- use -----------------------------------------------------------------------------------------------------------

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
        The number of trees. As ``max_depth``, chosen from private counts if ``"auto"``.
    max_depth : int or "auto", default="auto"
        The depth of every tree.
    max_features : int, float, "sqrt", "log2", None or "auto", default="auto"
        How many features, drawn at random at each node, a split is chosen from: an integer, a share, or all (None).
        ``"auto"`` is all for ``"joint"``, one for ``"diprime"`` and ``"random"``, else five.
    split_share : float or "auto", default="auto"
        The share of epsilon for the splits; the rest is for the leaves.
    balance : float or "auto", default="auto"
        λ of ``"joint"``: what one row costs that the smaller side of a split lacks, a squared error of one being one.
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

    def _leaf_values(self, means: npt.NDArray[np.float64], leaves: LeafSums, domain: Domain) -> npt.NDArray[np.float64]:
        return means[..., sorted_classes(domain)[0]]

    def _set_fitted(self, domain: Domain, ledger: Ledger, forest: Forest) -> None:
        super()._set_fitted(domain, ledger, forest)
        self.classes_ = sorted_classes(domain)[1]

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
        means = self._predict_outputs(X)
        return np.minimum(means, 1.0, out=means)  # weights of trees sum to one up to rounding

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
        The number of trees. As ``max_depth``, chosen from private counts if ``"auto"``.
    max_depth : int or "auto", default="auto"
        The depth of every tree.
    max_features : int, float, "sqrt", "log2", None or "auto", default="auto"
        How many features, drawn at random at each node, a split is chosen from: an integer, a share, or all (None).
        ``"auto"`` is all for ``"joint"``, one for ``"diprime"`` and ``"random"``, else five.
    split_share : float or "auto", default="auto"
        The share of epsilon for the splits; the rest is for the leaves.
    balance : float or "auto", default="auto"
        λ of ``"joint"``: what one row costs that the smaller side of a split lacks, a squared error of one being one.
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

    def _leaf_values(self, means: npt.NDArray[np.float64], leaves: LeafSums, domain: Domain) -> npt.NDArray[np.float64]:
        target = domain.target
        assert isinstance(target, Numeric)
        assert target.low is not None
        assert target.high is not None
        shares = leaves.low * means[..., :1] + leaves.high * means[..., 1:]
        return np.asarray(target.low * (1 - shares) + target.high * shares)

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
        means = self._predict_outputs(X)[:, 0]
        target = self.domain_.target
        assert isinstance(target, Numeric)
        return np.clip(means, target.low, target.high, out=means)  # weights of trees sum to one up to rounding


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
    if isinstance(models, _DiPriMe):
        raise TypeError("models is a single model; give a list, merge([north, south]).")
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
