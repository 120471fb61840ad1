"""Baselines of the DiPriMe paper: DP-RF (Patil and Singh 2014) and DP-DF (Fletcher and Islam 2015).

Both grow trees with multi-way splits: numeric features are divided into a few bins of equal width, and a split has one
branch per bin or category. ``accounting="strict"`` is private; ``"paper"`` follows the published code.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads, resolve_n_jobs
from diprime.domain import Domain
from diprime.domain.features import CELLS
from diprime.estimators.base import PrivateClassifierMixin, PrivateEstimator, PrivateRegressorMixin, sorted_classes
from diprime.estimators.parameters import (
    MAX_ESTIMATORS,
    BudgetParameters,
    RunParameters,
    check_parameters,
    choice,
    integer,
    parameter,
    parameters_of,
    unnamed,
)
from diprime.execution.partition import Partitions
from diprime.forest.plan import check_sum
from diprime.paper.multiway import (
    LEAF,
    BaselineRows,
    Branches,
    MultiwayForest,
    MultiwayTree,
    PublishedDecisionForest,
    PublishedRandomForest,
    PublishedRegression,
    Receipts,
    Recipe,
    grow,
    prune,
)
from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Account

MAX_LEAVES = 1 << 20

Fitted = TypeVar("Fitted", bound="_Baseline")


@dataclass(frozen=True)
class BaselineSettings:
    """Checked parameters of a fit; ``accounting`` is that of the ledger."""

    epsilon: Epsilon
    accounting: Accounting
    n_estimators: int
    max_depth: int
    n_bins: int
    as_published: bool


@dataclass(eq=False, repr=False, kw_only=True)
class _BaselineParameters(BudgetParameters):
    """Parameters of the baselines."""

    n_estimators: int = parameter(10, integer(1, MAX_ESTIMATORS), "Number of trees.")
    max_depth: int = parameter(
        3,
        integer(0, 20),
        "Maximum number of splits on a path, each on a different feature. The paper uses log_5(n/25), "
        "which depends on the data. Choose the depth from public knowledge.",
    )
    n_bins: int = parameter(5, integer(2, CELLS), "Number of bins of equal width for numeric features.")
    accounting: Accounting = parameter(
        "strict",
        choice(*get_args(Accounting)),
        'How privacy costs are counted. ``"strict"`` guarantees epsilon. ``"paper"`` follows the code '
        "of the paper's experiments; the ledger states whether this is private, and the true cost.",
    )
    n_jobs: int | None = parameter(
        None,
        unnamed(resolve_n_jobs),
        "Number of threads that read the target. None means one per core.",
        recorded=False,
        of_model=False,
    )
    random_state: int | np.random.RandomState | None = parameter(
        None, unnamed(RandomSource), parameters_of(RunParameters)["random_state"].doc, recorded=False, of_model=False
    )


class _Baseline(_BaselineParameters, PrivateEstimator):
    """Base class of the baselines, in which all trees learn from all records and splits are multi-way."""

    forest_: MultiwayForest
    _published: type[Recipe]
    _published_is_private = False

    # -- parameters ----------------------------------------------------------------------------------------------------

    def _check_settings(self, n_features: int) -> BaselineSettings:
        checked = check_parameters(self)
        as_published = checked["accounting"] == "paper"
        return BaselineSettings(
            checked["epsilon"],
            "paper" if as_published and not self._published_is_private else "strict",
            checked["n_estimators"],
            min(checked["max_depth"], n_features),
            checked["n_bins"],
            as_published,
        )

    # -- fit -----------------------------------------------------------------------------------------------------------

    def _plan(self, settings: BaselineSettings, domain: Domain) -> Recipe:
        make = self._published if settings.as_published else Recipe
        recipe = make(settings.epsilon, settings.n_estimators, settings.max_depth, domain.n_features, domain.layout)
        total = sum((charge.total for charge in recipe.charges()), Fraction(0))
        check_sum(total, settings.epsilon, "the trees")
        return recipe

    def _build_engine(
        self, partitions: Partitions, domain: Domain, settings: BaselineSettings, threads: Threads
    ) -> tuple[Branches, BaselineRows]:
        branches = Branches(domain, settings.n_bins)
        depth = settings.max_depth
        max_leaves = int(np.prod(np.sort(branches.n_branches.astype(float))[::-1][:depth]))
        if max_leaves > MAX_LEAVES:
            raise ValueError(
                f"A tree of depth {depth} on this domain can have {max_leaves:,} leaves, more than {MAX_LEAVES:,}. "
                "Reduce max_depth or n_bins, or declare fewer categories."
            )
        part = partitions.whole()
        target = part.records.target
        known = target >= 0
        return branches, BaselineRows(branches.read(part.rows)[:, known], target[known], domain.layout)

    def _train(
        self,
        prepared: tuple[Branches, BaselineRows],
        domain: Domain,
        settings: BaselineSettings,
        plan: Recipe,
        account: Account,
        source: RandomSource,
    ) -> MultiwayForest:
        branches, records = prepared
        receipts = plan.pay(account)
        trees = self._grow(records, branches, plan, receipts, source)
        receipts.cancel()  # a tree may stop above its maximum depth
        return MultiwayForest.of_trees(branches, trees, [self._values(tree, domain) for tree in trees])

    def _grow(
        self, records: BaselineRows, branches: Branches, recipe: Recipe, receipts: Receipts, source: RandomSource
    ) -> list[MultiwayTree]:
        return [grow(records, branches.n_branches, recipe, receipts, source) for _ in range(recipe.n_trees)]

    @abstractmethod
    def _values(self, tree: MultiwayTree, domain: Domain) -> npt.NDArray[np.float64]:
        """Return the predictions of the nodes of a tree."""

    # -- use -----------------------------------------------------------------------------------------------------------

    def apply(self, X: Any) -> npt.NDArray[np.int64]:
        """Return the leaf that each row reaches in each tree.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        leaves : ndarray of shape (n, n_trees)
            The index of the leaf among the nodes of its tree.
        """
        rows = self._reader(X)
        return self.forest_.apply(rows)


class _BaselineClassifier(PrivateClassifierMixin, _Baseline):
    """Base class of baselines whose trees vote for a class."""

    _task = "classification"

    def _values(self, tree: MultiwayTree, domain: Domain) -> npt.NDArray[np.float64]:
        shares = tree.shares[:, sorted_classes(domain)[0]]
        votes = np.zeros_like(shares)
        best = shares.argmax(axis=1)
        votes[np.arange(len(votes)), best] = self._weights(shares.max(axis=1))
        return votes

    def _weights(self, confidences: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the weights of votes, given the shares of the classes voted for."""
        return np.ones_like(confidences)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the share of the votes for each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes)
            Rows sum to one.
        """
        rows = self._reader(X)
        votes = self.forest_.predict(rows)
        return np.asarray(votes / votes.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class with the most votes for each row.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        classes : ndarray of shape (n,)
            Entries of ``classes_``.
        """
        winners = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[winners])


@dataclass(eq=False, repr=False, kw_only=True)
class DPRandomForestClassifier(_BaselineClassifier):
    """DP-RF, the differentially private random forest of Patil and Singh (2014), for classification.

    Every tree learns from all records with an equal share of epsilon. At each level, the class counts of the nodes are
    released, and the exponential mechanism selects the feature that a node splits on by the Gini index. Trees vote.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of the whole fit, for adding or removing one record. If ``groups`` is passed to ``fit``, the
        budget is for adding or removing one person with all their records. ``float("inf")`` trains without noise.
    domain : Domain or "infer"
        Public facts about the data: ranges, categories and classes. Undeclared ranges and categories, written
        ``Numeric()``, ``Date()`` and ``Categorical()``, are learnt privately with a tenth of the budget. ``"infer"``
        takes all of them from the data, which voids the guarantee and issues a warning.
    n_estimators : int, default=10
        Number of trees.
    max_depth : int, default=3
        Maximum number of splits on a path, each on a different feature. The paper uses log_5(n/25), which depends on
        the data. Choose the depth from public knowledge.
    n_bins : int, default=5
        Number of bins of equal width for numeric features.
    accounting : {"strict", "paper"}, default="strict"
        How privacy costs are counted. ``"strict"`` guarantees epsilon. ``"paper"`` follows the code of the paper's
        experiments; the ledger states whether this is private, and the true cost.
    n_jobs : int or None, default=None
        Number of threads that read the target. None means one per core.
    random_state : int, RandomState instance or None, default=None
        Seed for reproducible fits. A seed voids the guarantee, because anyone who knows it can remove the noise. None
        takes random bits from the operating system.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels of the domain, sorted if they are comparable.
    domain_ : Domain
        The domain of the fit.
    privacy_ : Ledger
        Privacy ledger: every charge with its true cost, the total, and the reasons why the model is not private, if
        any.
    forest_ : MultiwayForest
        The released trees.
    fitted_params_ : dict
        The parameters of the fit, without ``n_jobs``, ``verbose`` and ``random_state``. Later calls of `set_params` do
        not change it.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, in the order of the domain, if the model was fitted to a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Categorical, Domain, Numeric
    >>> from diprime.paper import DPRandomForestClassifier
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(5000, 2))
    >>> y = np.where(X[:, 0] > 4, "yes", "no")
    >>> domain = Domain({"a": Numeric(0, 10), "b": Numeric(0, 10)}, target=Categorical(["no", "yes"]))
    >>> model = DPRandomForestClassifier(epsilon=10.0, domain=domain, max_depth=2).fit(X, y)
    >>> model.predict([[1.0, 1.0], [9.0, 1.0]])
    array(['no', 'yes'], dtype='<U3')
    >>> model.privacy_.is_private, model.privacy_.total
    (True, Fraction(10, 1))
    """

    _published = PublishedRandomForest
    _published_is_private = True


@dataclass(eq=False, repr=False, kw_only=True)
class DPRandomForestRegressor(PrivateRegressorMixin, _Baseline):
    """Regression analogue of DP-RF, a baseline of the DiPriMe paper.

    Unlike :class:`DPRandomForestClassifier`, it uses the squared error instead of the Gini index, and means instead of
    votes.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of the whole fit, for adding or removing one record. If ``groups`` is passed to ``fit``, the
        budget is for adding or removing one person with all their records. ``float("inf")`` trains without noise.
    domain : Domain or "infer"
        Public facts about the data: ranges, categories and classes. Undeclared ranges and categories, written
        ``Numeric()``, ``Date()`` and ``Categorical()``, are learnt privately with a tenth of the budget. ``"infer"``
        takes all of them from the data, which voids the guarantee and issues a warning.
    n_estimators : int, default=10
        Number of trees.
    max_depth : int, default=3
        Maximum number of splits on a path, each on a different feature. The paper uses log_5(n/25), which depends on
        the data. Choose the depth from public knowledge.
    n_bins : int, default=5
        Number of bins of equal width for numeric features.
    accounting : {"strict", "paper"}, default="strict"
        How privacy costs are counted. ``"strict"`` guarantees epsilon. ``"paper"`` follows the code of the paper's
        experiments; the ledger states whether this is private, and the true cost.
    n_jobs : int or None, default=None
        Number of threads that read the target. None means one per core.
    random_state : int, RandomState instance or None, default=None
        Seed for reproducible fits. A seed voids the guarantee, because anyone who knows it can remove the noise. None
        takes random bits from the operating system.

    Attributes
    ----------
    domain_ : Domain
        The domain of the fit.
    privacy_ : Ledger
        Privacy ledger: every charge with its true cost, the total, and the reasons why the model is not private, if
        any.
    forest_ : MultiwayForest
        The released trees.
    fitted_params_ : dict
        The parameters of the fit, without ``n_jobs``, ``verbose`` and ``random_state``. Later calls of `set_params` do
        not change it.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, in the order of the domain, if the model was fitted to a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Domain, Numeric
    >>> from diprime.paper import DPRandomForestRegressor
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(5000, 2))
    >>> domain = Domain({"a": Numeric(0, 10), "b": Numeric(0, 10)}, target=Numeric(0, 10))
    >>> model = DPRandomForestRegressor(epsilon=10.0, domain=domain, max_depth=1).fit(X, X[:, 0])
    >>> model.predict([[1.0, 5.0]])[0] < model.predict([[9.0, 5.0]])[0]
    np.True_
    """

    _task = "regression"
    _published = PublishedRegression

    def _values(self, tree: MultiwayTree, domain: Domain) -> npt.NDArray[np.float64]:
        low, high = domain.output_range
        return np.asarray(tree.shares @ [[low], [high]])

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the estimated target of each row.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        targets : ndarray of shape (n,)
            Within the range of the target, except with ``accounting="paper"``, which does not clip.
        """
        rows = self._reader(X)
        means = self.forest_.predict(rows)[:, 0]
        if self.accounting == "paper":
            return means
        return np.clip(means, *self.domain_.output_range, out=means)  # rounding may exceed the range


@dataclass(eq=False, repr=False, kw_only=True)
class DPDecisionForestClassifier(_BaselineClassifier):
    """DP-DF, the differentially private decision forest of Fletcher and Islam (2015).

    It differs from :class:`DPRandomForestClassifier` in three ways: trees split their roots on different features until
    all features are used, trees are pruned by their released counts, and votes are weighted by the share of the class
    voted for.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of the whole fit, for adding or removing one record. If ``groups`` is passed to ``fit``, the
        budget is for adding or removing one person with all their records. ``float("inf")`` trains without noise.
    domain : Domain or "infer"
        Public facts about the data: ranges, categories and classes. Undeclared ranges and categories, written
        ``Numeric()``, ``Date()`` and ``Categorical()``, are learnt privately with a tenth of the budget. ``"infer"``
        takes all of them from the data, which voids the guarantee and issues a warning.
    n_estimators : int, default=10
        Number of trees.
    max_depth : int, default=3
        Maximum number of splits on a path, each on a different feature. The paper uses log_5(n/25), which depends on
        the data. Choose the depth from public knowledge.
    n_bins : int, default=5
        Number of bins of equal width for numeric features.
    accounting : {"strict", "paper"}, default="strict"
        How privacy costs are counted. ``"strict"`` guarantees epsilon. ``"paper"`` follows the code of the paper's
        experiments; the ledger states whether this is private, and the true cost.
    n_jobs : int or None, default=None
        Number of threads that read the target. None means one per core.
    random_state : int, RandomState instance or None, default=None
        Seed for reproducible fits. A seed voids the guarantee, because anyone who knows it can remove the noise. None
        takes random bits from the operating system.
    pruning : bool, default=True
        Whether splits are undone if their leaves are no purer than the node.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels of the domain, sorted if they are comparable.
    domain_ : Domain
        The domain of the fit.
    privacy_ : Ledger
        Privacy ledger: every charge with its true cost, the total, and the reasons why the model is not private, if
        any.
    forest_ : MultiwayForest
        The released trees.
    fitted_params_ : dict
        The parameters of the fit, without ``n_jobs``, ``verbose`` and ``random_state``. Later calls of `set_params` do
        not change it.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, in the order of the domain, if the model was fitted to a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Categorical, Domain, Numeric
    >>> from diprime.paper import DPDecisionForestClassifier
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(5000, 2))
    >>> y = np.where(X[:, 0] > 4, "yes", "no")
    >>> domain = Domain({"a": Numeric(0, 10), "b": Numeric(0, 10)}, target=Categorical(["no", "yes"]))
    >>> model = DPDecisionForestClassifier(epsilon=10.0, domain=domain, n_estimators=2, max_depth=2).fit(X, y)
    >>> model.predict([[1.0, 1.0], [9.0, 1.0]])
    array(['no', 'yes'], dtype='<U3')
    """

    _published = PublishedDecisionForest

    pruning: bool = parameter(
        True, choice(True, False), "Whether splits are undone if their leaves are no purer than the node."
    )

    def _grow(
        self, records: BaselineRows, branches: Branches, recipe: Recipe, receipts: Receipts, source: RandomSource
    ) -> list[MultiwayTree]:
        trees: list[MultiwayTree] = []
        taken: set[int] = set()
        for _ in range(recipe.n_trees):
            tree = grow(records, branches.n_branches, recipe, receipts, source, taken)
            taken |= {int(tree.features[0])} - {LEAF}
            if len(taken) == recipe.n_features:
                taken.clear()
            trees.append(prune(tree, branches.n_branches) if self.pruning else tree)
        return trees

    def _weights(self, confidences: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return confidences
