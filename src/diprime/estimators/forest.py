"""The two estimators: differentially private forests for classification and for regression."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.engines.partition import Partitions
from diprime.engines.partitioned import PartitionedEngine
from diprime.estimators.base import sorted_classes
from diprime.estimators.constructors import with_own_constructor
from diprime.estimators.parameters import (
    ACCOUNTING,
    BALANCE,
    CLASS_WEIGHT,
    DOMAIN,
    EPSILON,
    FOREST,
    FOREST_CLASSIFIER,
    MAX_DEPTH,
    MAX_FEATURES,
    MAX_RECORDS_PER_GROUP,
    METHOD,
    N_ESTIMATORS,
    N_JOBS,
    PARTITION,
    RANDOM_STATE,
    SPLIT_SHARE,
    VERBOSE,
    count_features,
)
from diprime.estimators.trees import PrivateTrees, TreeClassifierMixin, TreeRegressorMixin
from diprime.model.explanation import Explanation
from diprime.model.forest import Forest
from diprime.model.shapley import explain_forest
from diprime.paper.accounting import PUBLISHED
from diprime.privacy.ledger import Accounting, Ledger
from diprime.privacy.measures import Measure, PureEpsilon
from diprime.privacy.randomness import RandomSource
from diprime.training.estimates import LeafSums, balanced_weights, class_means, weighted
from diprime.training.plan import BudgetPlan
from diprime.training.policy import STRICT
from diprime.training.settings import Method, Settings
from diprime.training.train import train


class _DiPriMe(PrivateTrees):
    """The base class of the two forests, which differ in the target only."""

    forest_: Forest
    _parameters = FOREST

    def __init__(  # noqa: PLR0913 -- scikit-learn's parameters are arguments of the constructor
        self,
        epsilon: float = EPSILON.default,
        domain: Domain | Literal["infer"] | None = DOMAIN.default,
        *,
        method: Method = METHOD.default,
        n_estimators: int | Literal["auto"] = N_ESTIMATORS.default,
        max_depth: int | Literal["auto"] = MAX_DEPTH.default,
        max_features: int | float | Literal["auto", "sqrt", "log2"] | None = MAX_FEATURES.default,
        split_share: float | Literal["auto"] = SPLIT_SHARE.default,
        balance: float | Literal["auto"] = BALANCE.default,
        partition: bool = PARTITION.default,
        accounting: Accounting = ACCOUNTING.default,
        max_records_per_group: int = MAX_RECORDS_PER_GROUP.default,
        n_jobs: int | None = N_JOBS.default,
        random_state: Any = RANDOM_STATE.default,
        verbose: int = VERBOSE.default,
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
        self.max_records_per_group = max_records_per_group
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- parameters ----------------------------------------------------------------------------------------------------

    def _check_shared_settings(self, n_features: int, n_fits: int) -> Settings:
        epsilon = EPSILON.check(self.epsilon) / n_fits
        method = METHOD.check(self.method)
        partition = PARTITION.check(self.partition)
        same_rows = epsilon == math.inf and not partition
        return Settings(
            epsilon=epsilon,
            method=method,
            n_estimators=N_ESTIMATORS.check(self.n_estimators),
            max_depth=MAX_DEPTH.check(self.max_depth),
            max_features=count_features(
                MAX_FEATURES.check(self.max_features), method, n_features, task=self._task, same_rows=same_rows
            ),
            split_share=SPLIT_SHARE.check(self.split_share),
            balance=BALANCE.check(self.balance),
            partition=partition,
            policy=PUBLISHED if ACCOUNTING.check(self.accounting) == "paper" else STRICT,
            verbose=VERBOSE.check(self.verbose),
            max_records_per_group=MAX_RECORDS_PER_GROUP.check(self.max_records_per_group),
        )

    def _measure(self, settings: Settings) -> Measure:
        return PureEpsilon(settings.epsilon)

    def _plan(self, settings: Settings, domain: Domain) -> BudgetPlan:
        return BudgetPlan.make(settings, domain)

    # -- fit -----------------------------------------------------------------------------------------------------------

    def _prepare(
        self, partitions: Partitions, domain: Domain, settings: Settings, threads: Threads
    ) -> tuple[PartitionedEngine, Threads]:
        return PartitionedEngine(partitions.executor(threads), domain.n_features, domain.layout, threads), threads

    def _learn(
        self,
        prepared: tuple[PartitionedEngine, Threads],
        domain: Domain,
        settings: Settings,
        plan: BudgetPlan,
        ledger: Ledger,
        source: RandomSource,
    ) -> Forest:
        engine, threads = prepared
        structure, leaves = train(engine, domain, settings, plan, ledger, source, threads)
        return Forest.of_trees(structure, self._leaf_values(leaves, domain, settings), leaves.counts)

    def explain(self, X: Any) -> Explanation:
        """Tell what each feature adds to the predictions of rows: Shapley values.

        The contributions and the offset add up to the probability of the second of two classes, to the probabilities of
        more classes, or to the predicted number.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        explanation : Explanation
            What each feature adds. It is computed from the released model, so it costs no privacy.
        """
        rows = self._reader(X)
        classes = self.classes_.tolist() if hasattr(self, "classes_") else None
        with Threads(N_JOBS.check(self.n_jobs)) as threads:
            return explain_forest(self.forest_, self.domain_, rows, threads, classes)

    @abstractmethod
    def _leaf_values(self, leaves: LeafSums, domain: Domain, settings: Settings) -> npt.NDArray[np.float64]:
        """Return what the leaves predict, given their released sums."""


class DiPriMeClassifier(TreeClassifierMixin, _DiPriMe):
    """A differentially private forest for classification.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget of the whole fit: pure epsilon-differential privacy for adding or removing one record,
        or one person with all records if ``fit`` is given ``groups``.
        ``float("inf")`` fits the non-private counterpart.
    domain : Domain or "infer"
        What is public about the data: ranges, levels and classes. What it leaves open, ``Numeric()`` and
        ``Categorical()``, is learnt privately for a tenth of epsilon. ``"infer"`` reads all of it from the data and
        warns, because that is not private.
    method : {"joint", "diprime", "diprime-exp", "diprime-flip", "random"}, default="joint"
        How splits are chosen:

        - ``"joint"`` selects privately among all features and thresholds at once.
        - ``"diprime"`` splits near the private median of a random feature.
        - ``"diprime-exp"`` and ``"diprime-flip"`` select among the private medians of ``max_features`` features, by the
          exponential mechanism and by permute-and-flip.
        - ``"random"`` splits at random and spends all of epsilon on the leaves.
    n_estimators : int or "auto", default="auto"
        The number of trees. ``"auto"`` chooses it from epsilon and private counts.
    max_depth : int or "auto", default="auto"
        The depth of every tree. ``"auto"`` chooses it from epsilon and private counts.
    max_features : int, float, "sqrt", "log2", None or "auto", default="auto"
        The number of features to consider at each node, drawn at random: an integer, a fraction of the features, or
        all of them (``None``). ``"auto"`` is all for ``"joint"``, one for ``"diprime"`` and ``"random"``, and five
        otherwise.
    split_share : float or "auto", default="auto"
        The fraction of epsilon to spend on the splits. The leaves get the rest.
    balance : float or "auto", default="auto"
        The penalty λ of ``"joint"`` for each row the smaller child falls short, relative to a squared error of 1.
    partition : bool, default=True
        Whether the trees learn from disjoint parts of the rows, each with all of epsilon. If False, every tree learns
        from all rows with an equal share of epsilon. ``"joint"`` at infinite epsilon is then a random forest: every
        tree learns from a random subsample and, for classification, ``max_features="auto"`` is the square root of the
        number of features. ``n_estimators="auto"`` is 30, and ``max_depth="auto"`` the base-2 logarithm of the number
        of rows, at most 16, or less where all trees together would have more than 16 million sums in their leaves.
    accounting : {"strict", "paper"}, default="strict"
        How the budget is counted. ``"paper"`` follows the DiPriMe paper, for comparison only: it is not private.
    class_weight : dict, "balanced" or None, default=None
        What the records of a class count in predictions, relative to those of other classes; classes that a dict does
        not list weigh one. ``"balanced"`` gives all classes the same part of all records, by shares that are released
        anyway. Weights cost no privacy, because they are applied to what is released.
    max_records_per_group : int, default=1
        The largest number of records of one person, if ``fit`` is given ``groups``. Of a person who has more, a random
        choice is used. A person's records weigh as one together, so a larger number does not add noise, except that
        splits are chosen in coarser steps.
    n_jobs : int or None, default=None
        The number of threads. ``None`` means one for each core. The model does not depend on it.
    random_state : int, RandomState instance or None, default=None
        A seed makes the fit reproducible, and therefore not private. ``None`` draws random bits from the operating
        system.
    verbose : int, default=0
        Whether to show a progress bar during long fits.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes of the domain, sorted if they can be compared.
    domain_ : Domain
        The domain of the fit.
    privacy_ : Ledger
        The ledger: each charge, the total, and what was waived.
    forest_ : Forest
        The released trees.
    fitted_params_ : dict
        The parameters of the fit, without ``n_jobs``, ``verbose`` and ``random_state``. Files and reports tell these,
        whatever `set_params` changes later.
    feature_importances_ : ndarray of shape (n_features,)
        The importance of each coded feature, in the order of ``domain_.names``: how much its splits spread the
        predictions. It is computed from the released trees only.
    n_features_in_ : int
        The number of columns, each of which is a feature of the domain.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of the columns in the order of the domain, which may differ from that of the data frame. Defined
        only if the fit saw a data frame.

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

    _parameters = FOREST_CLASSIFIER

    def __init__(  # noqa: PLR0913 -- scikit-learn's parameters are arguments of the constructor
        self,
        epsilon: float = EPSILON.default,
        domain: Domain | Literal["infer"] | None = DOMAIN.default,
        *,
        method: Method = METHOD.default,
        n_estimators: int | Literal["auto"] = N_ESTIMATORS.default,
        max_depth: int | Literal["auto"] = MAX_DEPTH.default,
        max_features: int | float | Literal["auto", "sqrt", "log2"] | None = MAX_FEATURES.default,
        split_share: float | Literal["auto"] = SPLIT_SHARE.default,
        balance: float | Literal["auto"] = BALANCE.default,
        partition: bool = PARTITION.default,
        accounting: Accounting = ACCOUNTING.default,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = CLASS_WEIGHT.default,
        max_records_per_group: int = MAX_RECORDS_PER_GROUP.default,
        n_jobs: int | None = N_JOBS.default,
        random_state: Any = RANDOM_STATE.default,
        verbose: int = VERBOSE.default,
    ) -> None:
        super().__init__(
            epsilon,
            domain,
            method=method,
            n_estimators=n_estimators,
            max_depth=max_depth,
            max_features=max_features,
            split_share=split_share,
            balance=balance,
            partition=partition,
            accounting=accounting,
            max_records_per_group=max_records_per_group,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def _check_shared_settings(self, n_features: int, n_fits: int) -> Settings:
        settings = super()._check_shared_settings(n_features, n_fits)
        if CLASS_WEIGHT.check(self.class_weight) is not None and settings.accounting == "paper":
            raise ValueError('class_weight needs accounting="strict"; the paper has no weights of classes.')
        return settings

    def fit(self, X: Any, y: Any, *, groups: Any = None, **refused: Any) -> DiPriMeClassifier:
        """Fit a forest to records and their classes.

        Rows whose class is missing or not in the domain are left out without a warning, which would reveal them.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The records.
        y : array or column of shape (n,)
            Their classes.
        groups : array or column of shape (n,), optional
            The person of each record: text or numbers. All records of a person are then protected together, and at most
            ``max_records_per_group`` of them are used. Records without a person are left out. If it is not given, every
            record is a person of its own.
        **refused : dict
            ``sample_weight`` is refused, because the guarantee is for records that count once. It is not a named
            parameter, so scikit-learn does not pass it.

        Returns
        -------
        self : DiPriMeClassifier
            The fitted estimator.
        """
        self._fit(X, y, refused, groups)
        return self

    def _leaf_values(self, leaves: LeafSums, domain: Domain, settings: Settings) -> npt.NDArray[np.float64]:
        weights = self._class_weights(domain)
        if weights is None:
            means = settings.policy.leaf_means(leaves, domain.layout)
        else:
            means, shares = class_means(leaves)
            means = weighted(means, balanced_weights(shares) if isinstance(weights, str) else weights)
        return means[..., sorted_classes(domain)[0]]


@with_own_constructor
class DiPriMeRegressor(TreeRegressorMixin, _DiPriMe):
    """A differentially private forest for regression.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget of the whole fit: pure epsilon-differential privacy for adding or removing one record,
        or one person with all records if ``fit`` is given ``groups``.
        ``float("inf")`` fits the non-private counterpart.
    domain : Domain or "infer"
        What is public about the data: ranges, levels and classes. What it leaves open, ``Numeric()`` and
        ``Categorical()``, is learnt privately for a tenth of epsilon. ``"infer"`` reads all of it from the data and
        warns, because that is not private.
    method : {"joint", "diprime", "diprime-exp", "diprime-flip", "random"}, default="joint"
        How splits are chosen:

        - ``"joint"`` selects privately among all features and thresholds at once.
        - ``"diprime"`` splits near the private median of a random feature.
        - ``"diprime-exp"`` and ``"diprime-flip"`` select among the private medians of ``max_features`` features, by the
          exponential mechanism and by permute-and-flip.
        - ``"random"`` splits at random and spends all of epsilon on the leaves.
    n_estimators : int or "auto", default="auto"
        The number of trees. ``"auto"`` chooses it from epsilon and private counts.
    max_depth : int or "auto", default="auto"
        The depth of every tree. ``"auto"`` chooses it from epsilon and private counts.
    max_features : int, float, "sqrt", "log2", None or "auto", default="auto"
        The number of features to consider at each node, drawn at random: an integer, a fraction of the features, or
        all of them (``None``). ``"auto"`` is all for ``"joint"``, one for ``"diprime"`` and ``"random"``, and five
        otherwise.
    split_share : float or "auto", default="auto"
        The fraction of epsilon to spend on the splits. The leaves get the rest.
    balance : float or "auto", default="auto"
        The penalty λ of ``"joint"`` for each row the smaller child falls short, relative to a squared error of 1.
    partition : bool, default=True
        Whether the trees learn from disjoint parts of the rows, each with all of epsilon. If False, every tree learns
        from all rows with an equal share of epsilon. ``"joint"`` at infinite epsilon is then a random forest: every
        tree learns from a random subsample and, for classification, ``max_features="auto"`` is the square root of the
        number of features. ``n_estimators="auto"`` is 30, and ``max_depth="auto"`` the base-2 logarithm of the number
        of rows, at most 16, or less where all trees together would have more than 16 million sums in their leaves.
    accounting : {"strict", "paper"}, default="strict"
        How the budget is counted. ``"paper"`` follows the DiPriMe paper, for comparison only: it is not private.
    max_records_per_group : int, default=1
        The largest number of records of one person, if ``fit`` is given ``groups``. Of a person who has more, a random
        choice is used. A person's records weigh as one together, so a larger number does not add noise, except that
        splits are chosen in coarser steps.
    n_jobs : int or None, default=None
        The number of threads. ``None`` means one for each core. The model does not depend on it.
    random_state : int, RandomState instance or None, default=None
        A seed makes the fit reproducible, and therefore not private. ``None`` draws random bits from the operating
        system.
    verbose : int, default=0
        Whether to show a progress bar during long fits.

    Attributes
    ----------
    domain_ : Domain
        The domain of the fit.
    privacy_ : Ledger
        The ledger: each charge, the total, and what was waived.
    forest_ : Forest
        The released trees.
    fitted_params_ : dict
        The parameters of the fit, without ``n_jobs``, ``verbose`` and ``random_state``. Files and reports tell these,
        whatever `set_params` changes later.
    feature_importances_ : ndarray of shape (n_features,)
        The importance of each coded feature, in the order of ``domain_.names``: how much its splits spread the
        predictions. It is computed from the released trees only.
    n_features_in_ : int
        The number of columns, each of which is a feature of the domain.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of the columns in the order of the domain, which may differ from that of the data frame. Defined
        only if the fit saw a data frame.

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

    def fit(self, X: Any, y: Any, *, groups: Any = None, **refused: Any) -> DiPriMeRegressor:
        """Fit a forest to records and their targets.

        Targets outside the range of the domain are clipped. Rows whose target is missing are left out without a
        warning, which would reveal them.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The records.
        y : array or column of shape (n,)
            Their targets.
        groups : array or column of shape (n,), optional
            The person of each record: text or numbers. All records of a person are then protected together, and at most
            ``max_records_per_group`` of them are used. Records without a person are left out. If it is not given, every
            record is a person of its own.
        **refused : dict
            ``sample_weight`` is refused, because the guarantee is for records that count once. It is not a named
            parameter, so scikit-learn does not pass it.

        Returns
        -------
        self : DiPriMeRegressor
            The fitted estimator.
        """
        self._fit(X, y, refused, groups)
        return self

    def _leaf_values(self, leaves: LeafSums, domain: Domain, settings: Settings) -> npt.NDArray[np.float64]:
        means = settings.policy.leaf_means(leaves, domain.layout)
        low, high = domain.output_range
        shares = leaves.low * means[..., :1] + leaves.high * means[..., 1:]
        return np.asarray(low * (1 - shares) + high * shares)
