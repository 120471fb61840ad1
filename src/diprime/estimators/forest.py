"""The two forest estimators: differentially private classification and regression."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads, resolve_n_jobs
from diprime.domain import Domain
from diprime.estimators.base import sorted_classes
from diprime.estimators.parameters import ForestParameters, RunParameters, check_parameters, count_features, settings_of
from diprime.estimators.trees import PrivateTrees, TreeClassifierMixin, TreeRegressorMixin
from diprime.execution.partition import Partitions
from diprime.forest.engine import ForestEngine
from diprime.forest.plan import BudgetPlan, ForestSettings
from diprime.forest.sums import STRICT, AccountingPolicy
from diprime.forest.train import train
from diprime.inspection.explanation import Explanation, explain_forest
from diprime.model.estimates import LeafSums, balanced_weights, class_means, weighted
from diprime.model.trees import Forest
from diprime.privacy.measures import Measure, PureEpsilon
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Account


class _DiPriMe(ForestParameters, PrivateTrees):
    """Base class of the two forests, which differ only in the target."""

    forest_: Forest
    _policy: ClassVar[AccountingPolicy] = STRICT

    # -- parameters ----------------------------------------------------------------------------------------------------

    def _check_shared_settings(self, n_features: int, n_fits: int) -> ForestSettings:
        checked = check_parameters(self)
        epsilon, method = checked["epsilon"] / n_fits, checked["method"]
        same_rows = epsilon == math.inf and not checked["disjoint_rows"]
        n_tried = count_features(checked["max_features"], method, n_features, task=self._task, same_rows=same_rows)
        others = {"policy": self._policy, "verbose": bool(self.verbose)}
        return settings_of(ForestSettings, {**checked, "epsilon": epsilon, "max_features": n_tried}, **others)

    def _measure(self, settings: ForestSettings) -> Measure:
        return PureEpsilon(settings.epsilon)

    def _plan(self, settings: ForestSettings, domain: Domain) -> BudgetPlan:
        return BudgetPlan.make(settings, domain)

    # -- fit -----------------------------------------------------------------------------------------------------------

    def _build_engine(
        self, partitions: Partitions, domain: Domain, settings: ForestSettings, threads: Threads
    ) -> tuple[ForestEngine, Threads]:
        return ForestEngine(partitions.executor(threads), domain.n_features, domain.layout, threads), threads

    def _train(
        self,
        engine_and_threads: tuple[ForestEngine, Threads],
        domain: Domain,
        settings: ForestSettings,
        plan: BudgetPlan,
        account: Account,
        source: RandomSource,
    ) -> Forest:
        engine, threads = engine_and_threads
        structure, leaves = train(engine, domain, settings, plan, account, source, threads)
        return Forest.of_trees(structure, self._leaf_values(leaves, domain, settings), leaves.counts)

    def explain(self, X: Any) -> Explanation:
        """Explain predictions by the contribution of each feature: Shapley values.

        The contributions and the offset add up to the probability of the second of two classes, to the probabilities of
        more classes, or to the predicted number.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        explanation : Explanation
            The contribution of each feature. It is computed from the released model, so it costs no privacy.
        """
        rows = self._reader(X)
        classes, above_noise = getattr(self, "classes_", None), self.importances().above_noise
        names = None if classes is None else classes.tolist()
        with Threads(resolve_n_jobs(self.n_jobs)) as threads:
            return explain_forest(self.forest_, self.domain_, rows, threads, names, above_noise)

    @abstractmethod
    def _leaf_values(self, leaves: LeafSums, domain: Domain, settings: ForestSettings) -> npt.NDArray[np.float64]:
        """Return the leaf predictions, given the released sums."""


@dataclass(eq=False, repr=False, kw_only=True)
class DiPriMeClassifier(RunParameters, TreeClassifierMixin, _DiPriMe):
    """A differentially private forest for classification.

    Its guarantee is pure epsilon-differential privacy.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of the whole fit, for adding or removing one record. If ``groups`` is passed to ``fit``, the
        budget is for adding or removing one person with all their records. ``float("inf")`` trains without noise.
    domain : Domain or "infer"
        Public facts about the data: ranges, categories and classes. Undeclared ranges and categories, written
        ``Numeric()``, ``Date()`` and ``Categorical()``, are learnt privately with a tenth of the budget. ``"infer"``
        takes all of them from the data, which voids the guarantee and issues a warning.
    method : {"joint", "diprime", "diprime-exp", "diprime-flip", "random"}, default="joint"
        How splits are chosen:

        - ``"joint"``: by one private selection among all features and thresholds.
        - ``"diprime"``: near the private median of a random feature.
        - ``"diprime-exp"``: by the exponential mechanism, among the private medians of ``max_features`` features.
        - ``"diprime-flip"``: as ``"diprime-exp"``, but by permute-and-flip.
        - ``"random"``: at random, which leaves all of ``epsilon`` for the leaves.
    n_estimators : int or "auto", default="auto"
        Number of trees. ``"auto"`` chooses it from ``epsilon`` and private record counts.
    max_depth : int or "auto", default="auto"
        Depth of every tree. ``"auto"`` chooses it from ``epsilon`` and private record counts. A tree of depth 0
        predicts the same for all rows.
    max_features : int, float, "auto", "sqrt", "log2" or None, default="auto"
        Number of features considered at each node, drawn at random: an integer, a fraction of all features, or None for
        all features. ``"auto"`` means all features for ``"joint"``, one for ``"diprime"`` and ``"random"``, and five
        for the other methods.
    split_share : float or "auto", default="auto"
        Fraction of the budget of the trees that is spent on splits; the leaves get the rest. ``"auto"`` means 0.5 or,
        for ``"joint"``, 0.7. For ``"joint"``, it is smaller if the number of records times epsilon is below 300.
    balance : float or "auto", default="auto"
        Penalty λ of ``"joint"`` for unbalanced splits: the cost of each row by which the smaller child falls short of a
        public minimum, relative to a squared error of 1.
    disjoint_rows : bool, default=True
        Whether the trees learn from disjoint subsets of the rows, each with the whole budget. If False, every tree
        learns from all rows, with an equal share of the budget. ``"joint"`` with ``epsilon=inf`` is then an ordinary
        random forest: every tree learns from a random subsample and, for classification, ``max_features="auto"`` means
        the square root of the number of features. In this case, ``n_estimators="auto"`` means 30. ``max_depth="auto"``
        means the base-2 logarithm of the number of rows, up to 16, or less if the leaves of all trees would contain
        more than 16 million sums.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in predictions. Classes missing from the dict have weight 1. ``"balanced"`` gives all
        classes the same total weight. Weights are applied to released values, so they cost no privacy.
    max_records_per_group : int, default=1
        Contribution bound: maximum number of records used per person. If a person has more, a random sample is used.
        The records of a person share a fixed total weight, so a larger value adds no noise, but splits are chosen with
        coarser resolution. Used only with ``groups``.
    n_jobs : int or None, default=None
        Number of threads. None means one per core. The fitted model does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed for reproducible fits. A seed voids the guarantee, because anyone who knows it can remove the noise. None
        takes random bits from the operating system.
    verbose : int, default=0
        Whether to show a progress bar during long fits.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels of the domain, sorted if they are comparable.
    domain_ : Domain
        The domain of the fit.
    privacy_ : Ledger
        Privacy ledger: every charge, the total, and the reasons why the model is not private, if any.
    forest_ : Forest
        The released trees.
    fitted_params_ : dict
        The parameters of the fit, without ``n_jobs``, ``verbose`` and ``random_state``. Later calls of `set_params` do
        not change it.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each encoded feature in the variance of the predictions, without noise, in the order of
        ``domain_.encoded_feature_names``. The shares of the features above the noise sum to one, and all others are
        zero. See `importances`.
    n_features_in_ : int
        The number of columns, each of which is a feature of the domain.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of the columns in the order of the domain, which may differ from that of the data frame. Defined
        only if the model was fitted to a data frame.

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

    def _leaf_values(self, leaves: LeafSums, domain: Domain, settings: ForestSettings) -> npt.NDArray[np.float64]:
        weights = self._class_weights(domain)
        if weights is None:
            means = settings.policy.leaf_means(leaves, domain.layout)
        else:
            means, shares = class_means(leaves)
            means = weighted(means, balanced_weights(shares) if isinstance(weights, str) else weights)
        return means[..., sorted_classes(domain)[0]]


@dataclass(eq=False, repr=False, kw_only=True)
class DiPriMeRegressor(RunParameters, TreeRegressorMixin, _DiPriMe):
    """A differentially private forest for regression.

    Its guarantee is pure epsilon-differential privacy.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of the whole fit, for adding or removing one record. If ``groups`` is passed to ``fit``, the
        budget is for adding or removing one person with all their records. ``float("inf")`` trains without noise.
    domain : Domain or "infer"
        Public facts about the data: ranges, categories and classes. Undeclared ranges and categories, written
        ``Numeric()``, ``Date()`` and ``Categorical()``, are learnt privately with a tenth of the budget. ``"infer"``
        takes all of them from the data, which voids the guarantee and issues a warning.
    method : {"joint", "diprime", "diprime-exp", "diprime-flip", "random"}, default="joint"
        How splits are chosen:

        - ``"joint"``: by one private selection among all features and thresholds.
        - ``"diprime"``: near the private median of a random feature.
        - ``"diprime-exp"``: by the exponential mechanism, among the private medians of ``max_features`` features.
        - ``"diprime-flip"``: as ``"diprime-exp"``, but by permute-and-flip.
        - ``"random"``: at random, which leaves all of ``epsilon`` for the leaves.
    n_estimators : int or "auto", default="auto"
        Number of trees. ``"auto"`` chooses it from ``epsilon`` and private record counts.
    max_depth : int or "auto", default="auto"
        Depth of every tree. ``"auto"`` chooses it from ``epsilon`` and private record counts. A tree of depth 0
        predicts the same for all rows.
    max_features : int, float, "auto", "sqrt", "log2" or None, default="auto"
        Number of features considered at each node, drawn at random: an integer, a fraction of all features, or None for
        all features. ``"auto"`` means all features for ``"joint"``, one for ``"diprime"`` and ``"random"``, and five
        for the other methods.
    split_share : float or "auto", default="auto"
        Fraction of the budget of the trees that is spent on splits; the leaves get the rest. ``"auto"`` means 0.5 or,
        for ``"joint"``, 0.7. For ``"joint"``, it is smaller if the number of records times epsilon is below 300.
    balance : float or "auto", default="auto"
        Penalty λ of ``"joint"`` for unbalanced splits: the cost of each row by which the smaller child falls short of a
        public minimum, relative to a squared error of 1.
    disjoint_rows : bool, default=True
        Whether the trees learn from disjoint subsets of the rows, each with the whole budget. If False, every tree
        learns from all rows, with an equal share of the budget. ``"joint"`` with ``epsilon=inf`` is then an ordinary
        random forest: every tree learns from a random subsample and, for classification, ``max_features="auto"`` means
        the square root of the number of features. In this case, ``n_estimators="auto"`` means 30. ``max_depth="auto"``
        means the base-2 logarithm of the number of rows, up to 16, or less if the leaves of all trees would contain
        more than 16 million sums.
    max_records_per_group : int, default=1
        Contribution bound: maximum number of records used per person. If a person has more, a random sample is used.
        The records of a person share a fixed total weight, so a larger value adds no noise, but splits are chosen with
        coarser resolution. Used only with ``groups``.
    n_jobs : int or None, default=None
        Number of threads. None means one per core. The fitted model does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed for reproducible fits. A seed voids the guarantee, because anyone who knows it can remove the noise. None
        takes random bits from the operating system.
    verbose : int, default=0
        Whether to show a progress bar during long fits.

    Attributes
    ----------
    domain_ : Domain
        The domain of the fit.
    privacy_ : Ledger
        Privacy ledger: every charge, the total, and the reasons why the model is not private, if any.
    forest_ : Forest
        The released trees.
    fitted_params_ : dict
        The parameters of the fit, without ``n_jobs``, ``verbose`` and ``random_state``. Later calls of `set_params` do
        not change it.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each encoded feature in the variance of the predictions, without noise, in the order of
        ``domain_.encoded_feature_names``. The shares of the features above the noise sum to one, and all others are
        zero. See `importances`.
    n_features_in_ : int
        The number of columns, each of which is a feature of the domain.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of the columns in the order of the domain, which may differ from that of the data frame. Defined
        only if the model was fitted to a data frame.

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

    def _leaf_values(self, leaves: LeafSums, domain: Domain, settings: ForestSettings) -> npt.NDArray[np.float64]:
        means = settings.policy.leaf_means(leaves, domain.layout)
        low, high = domain.output_range
        shares = leaves.low * means[..., :1] + leaves.high * means[..., 1:]
        return np.asarray(low * (1 - shares) + high * shares)
