"""The baselines as scikit-learn estimators."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.domain.codes import CELLS
from diprime.engines.partition import Partitions
from diprime.estimators.base import PrivateClassifierMixin, PrivateEstimator, sorted_classes
from diprime.estimators.parameters import (
    ACCOUNTING,
    DOMAIN,
    EPSILON,
    MAX_ESTIMATORS,
    N_JOBS,
    RANDOM_STATE,
    choice_parameter,
    integer_parameter,
)
from diprime.paper.baselines.branches import Branches
from diprime.paper.baselines.forest import LEAF, MultiwayForest, Tree
from diprime.paper.baselines.growth import Records, grow, prune
from diprime.paper.baselines.recipes import (
    PublishedDecisionForest,
    PublishedRandomForest,
    PublishedRegression,
    Receipts,
    Recipe,
)
from diprime.privacy.ledger import Accounting, Ledger
from diprime.privacy.measures import Epsilon
from diprime.privacy.randomness import RandomSource
from diprime.training.plan import check_sum

MAX_LEAVES = 1 << 20
N_ESTIMATORS = integer_parameter("n_estimators", 10, low=1, high=MAX_ESTIMATORS)
MAX_DEPTH = integer_parameter("max_depth", 3, low=0, high=20)
N_BINS = integer_parameter("n_bins", 5, low=2, high=CELLS)
PRUNING = choice_parameter("pruning", True, (True, False))

Fitted = TypeVar("Fitted", bound="_Baseline")


@dataclass(frozen=True)
class Settings:
    """Checked parameters of a fit; ``accounting`` is what the ledger states."""

    epsilon: Epsilon
    accounting: Accounting
    n_estimators: int
    max_depth: int
    n_bins: int
    as_published: bool


class _Baseline(PrivateEstimator):
    """Base class of the baselines: all trees see all records, and splits are multi-way."""

    forest_: MultiwayForest
    _published: type[Recipe]
    _published_is_private = False

    def __init__(
        self,
        epsilon: float = EPSILON.default,
        domain: Domain | Literal["infer"] | None = DOMAIN.default,
        *,
        n_estimators: int = N_ESTIMATORS.default,
        max_depth: int = MAX_DEPTH.default,
        n_bins: int = N_BINS.default,
        accounting: Accounting = ACCOUNTING.default,
        n_jobs: int | None = N_JOBS.default,
        random_state: Any = RANDOM_STATE.default,
    ) -> None:
        self.epsilon = epsilon
        self.domain = domain
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.n_bins = n_bins
        self.accounting = accounting
        self.n_jobs = n_jobs
        self.random_state = random_state

    # -- parameters ----------------------------------------------------------------------------------------------------

    def _check_settings(self, n_features: int) -> Settings:
        as_published = ACCOUNTING.check(self.accounting) == "paper"
        return Settings(
            EPSILON.check(self.epsilon),
            "paper" if as_published and not self._published_is_private else "strict",
            N_ESTIMATORS.check(self.n_estimators),
            min(MAX_DEPTH.check(self.max_depth), n_features),
            N_BINS.check(self.n_bins),
            as_published,
        )

    # -- fit -----------------------------------------------------------------------------------------------------------

    def _plan(self, settings: Settings, domain: Domain) -> Recipe:
        make = self._published if settings.as_published else Recipe
        recipe = make(settings.epsilon, settings.n_estimators, settings.max_depth, domain.n_features, domain.layout)
        total = sum((charge.total for charge in recipe.charges()), Fraction(0))
        check_sum(total, settings.epsilon, "the trees")
        return recipe

    def _prepare(
        self, partitions: Partitions, domain: Domain, settings: Settings, threads: Threads
    ) -> tuple[Branches, Records]:
        branches = Branches(domain, settings.n_bins)
        depth = settings.max_depth
        max_leaves = int(np.prod(np.sort(branches.n_branches.astype(float))[::-1][:depth]))
        if max_leaves > MAX_LEAVES:
            raise ValueError(
                f"A tree of depth {depth} on this domain may have {max_leaves:,} leaves, more than {MAX_LEAVES:,}; "
                "lower max_depth or n_bins, or declare fewer levels."
            )
        part = partitions.whole()
        target = part.records.target
        known = target >= 0
        return branches, Records(branches.read(part.rows)[:, known], target[known], domain.layout)

    def _learn(
        self,
        prepared: tuple[Branches, Records],
        domain: Domain,
        settings: Settings,
        plan: Recipe,
        ledger: Ledger,
        source: RandomSource,
    ) -> MultiwayForest:
        branches, records = prepared
        trees = self._grow(records, branches, plan, plan.pay(ledger), source)
        return MultiwayForest.of_trees(branches, trees, [self._values(tree, domain) for tree in trees])

    def _grow(
        self, records: Records, branches: Branches, recipe: Recipe, receipts: Receipts, source: RandomSource
    ) -> list[Tree]:
        return [grow(records, branches.n_branches, recipe, receipts, source) for _ in range(recipe.n_trees)]

    @abstractmethod
    def _values(self, tree: Tree, domain: Domain) -> npt.NDArray[np.float64]:
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
            The number of the leaf among the nodes of its tree.
        """
        rows = self._reader(X)
        return self.forest_.apply(rows)


class _BaselineClassifier(PrivateClassifierMixin, _Baseline):
    """Base class of baselines whose trees vote for a class."""

    _task = "classification"

    def fit(self: Fitted, X: Any, y: Any, **refused: Any) -> Fitted:
        """Learn a forest from records and their classes.

        Rows whose class is missing or outside the domain are left out without a message, which would reveal them.

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
        self : estimator
            The fitted estimator.
        """
        self._fit(X, y, refused)
        return self

    def _values(self, tree: Tree, domain: Domain) -> npt.NDArray[np.float64]:
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


class DPRandomForestClassifier(_BaselineClassifier):
    """DP-RF, the differentially private random forest of Patil and Singh (2014), for classification.

    Every tree sees all records and has an equal share of epsilon. At each level, the class counts of the nodes are
    released, and the exponential mechanism chooses the feature that a node splits on by the Gini index. Trees vote.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget of the whole fit: pure epsilon-DP for one record added or removed. ``float("inf")`` fits
        the non-private counterpart.
    domain : Domain or "infer"
        What is public about the data. ``"infer"`` reads it from the data, which is not private, and warns.
    n_estimators : int, default=10
        The number of trees.
    max_depth : int, default=3
        The largest number of splits on a path. A feature is used at most once on a path. The paper takes log_5(n/25),
        which depends on the data: choose the depth from public knowledge.
    n_bins : int, default=5
        The number of bins of equal width that numeric features are cut into.
    accounting : {"strict", "paper"}, default="strict"
        ``"strict"`` guarantees epsilon. ``"paper"`` follows the code of the DiPriMe paper's experiments; the ledger
        states whether that is private, and what it truly costs.
    n_jobs : int or None, default=None
        The number of threads that read the target; ``None`` is one for each core.
    random_state : int, RandomState instance or None, default=None
        A seed makes the fit reproducible and therefore not private. ``None`` takes random bits from the operating
        system.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes of the domain, sorted where they can be.
    domain_ : Domain
        The domain of the fit.
    privacy_ : Ledger
        Every charge, what it truly costs, the total, and what was waived.
    forest_ : MultiwayForest
        The released trees.
    fitted_params_ : dict
        The parameters of the fit, without ``n_jobs``, ``verbose`` and ``random_state``. Files and reports tell these,
        whatever `set_params` changes later.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, in the order of the domain, if the fit saw a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Categorical, Domain, Numeric
    >>> from diprime.baselines import DPRandomForestClassifier
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


class DPRandomForestRegressor(RegressorMixin, _Baseline):  # type: ignore[misc]
    """The regression analogue of DP-RF that the DiPriMe paper compares with.

    It differs from :class:`DPRandomForestClassifier` in that it uses the squared error instead of the Gini index, and
    means instead of votes.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget of the whole fit: pure epsilon-DP for one record added or removed. ``float("inf")`` fits
        the non-private counterpart.
    domain : Domain or "infer"
        What is public about the data. ``"infer"`` reads it from the data, which is not private, and warns.
    n_estimators : int, default=10
        The number of trees.
    max_depth : int, default=3
        The largest number of splits on a path. A feature is used at most once on a path. The paper takes log_5(n/25),
        which depends on the data: choose the depth from public knowledge.
    n_bins : int, default=5
        The number of bins of equal width that numeric features are cut into.
    accounting : {"strict", "paper"}, default="strict"
        ``"strict"`` guarantees epsilon. ``"paper"`` follows the code of the DiPriMe paper's experiments; the ledger
        states whether that is private, and what it truly costs.
    n_jobs : int or None, default=None
        The number of threads that read the target; ``None`` is one for each core.
    random_state : int, RandomState instance or None, default=None
        A seed makes the fit reproducible and therefore not private. ``None`` takes random bits from the operating
        system.

    Attributes
    ----------
    domain_ : Domain
        The domain of the fit.
    privacy_ : Ledger
        Every charge, what it truly costs, the total, and what was waived.
    forest_ : MultiwayForest
        The released trees.
    fitted_params_ : dict
        The parameters of the fit, without ``n_jobs``, ``verbose`` and ``random_state``. Files and reports tell these,
        whatever `set_params` changes later.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, in the order of the domain, if the fit saw a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Domain, Numeric
    >>> from diprime.baselines import DPRandomForestRegressor
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(5000, 2))
    >>> domain = Domain({"a": Numeric(0, 10), "b": Numeric(0, 10)}, target=Numeric(0, 10))
    >>> model = DPRandomForestRegressor(epsilon=10.0, domain=domain, max_depth=1).fit(X, X[:, 0])
    >>> model.predict([[1.0, 5.0]])[0] < model.predict([[9.0, 5.0]])[0]
    np.True_
    """

    _task = "regression"
    _published = PublishedRegression

    def fit(self, X: Any, y: Any, **refused: Any) -> DPRandomForestRegressor:
        """Learn a forest from records and their targets.

        Targets outside the domain's range are clamped. Rows whose target is missing are left out without a message,
        which would reveal them.

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
        self : DPRandomForestRegressor
            The fitted estimator.
        """
        self._fit(X, y, refused)
        return self

    def _values(self, tree: Tree, domain: Domain) -> npt.NDArray[np.float64]:
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
            Within the range of the domain's target, unless ``accounting="paper"``, which does not clamp.
        """
        rows = self._reader(X)
        means = self.forest_.predict(rows)[:, 0]
        if self.accounting == "paper":
            return means
        return np.clip(means, *self.domain_.output_range, out=means)  # a mean of equal numbers may be rounded


class DPDecisionForestClassifier(_BaselineClassifier):
    """DP-DF, the differentially private decision forest of Fletcher and Islam (2015).

    It differs from :class:`DPRandomForestClassifier` in three ways: trees split their roots on different features as
    long as there are some left, trees are pruned by their released counts, and votes are weighted by the share of the
    class voted for.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget of the whole fit: pure epsilon-DP for one record added or removed. ``float("inf")`` fits
        the non-private counterpart.
    domain : Domain or "infer"
        What is public about the data. ``"infer"`` reads it from the data, which is not private, and warns.
    n_estimators : int, default=10
        The number of trees.
    max_depth : int, default=3
        The largest number of splits on a path. A feature is used at most once on a path. The paper takes log_5(n/25),
        which depends on the data: choose the depth from public knowledge.
    n_bins : int, default=5
        The number of bins of equal width that numeric features are cut into.
    pruning : bool, default=True
        Whether splits are undone whose leaves are no purer than the node.
    accounting : {"strict", "paper"}, default="strict"
        ``"strict"`` guarantees epsilon. ``"paper"`` follows the code of the DiPriMe paper's experiments; the ledger
        states whether that is private, and what it truly costs.
    n_jobs : int or None, default=None
        The number of threads that read the target; ``None`` is one for each core.
    random_state : int, RandomState instance or None, default=None
        A seed makes the fit reproducible and therefore not private. ``None`` takes random bits from the operating
        system.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes of the domain, sorted where they can be.
    domain_ : Domain
        The domain of the fit.
    privacy_ : Ledger
        Every charge, what it truly costs, the total, and what was waived.
    forest_ : MultiwayForest
        The released trees.
    fitted_params_ : dict
        The parameters of the fit, without ``n_jobs``, ``verbose`` and ``random_state``. Files and reports tell these,
        whatever `set_params` changes later.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, in the order of the domain, if the fit saw a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Categorical, Domain, Numeric
    >>> from diprime.baselines import DPDecisionForestClassifier
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(5000, 2))
    >>> y = np.where(X[:, 0] > 4, "yes", "no")
    >>> domain = Domain({"a": Numeric(0, 10), "b": Numeric(0, 10)}, target=Categorical(["no", "yes"]))
    >>> model = DPDecisionForestClassifier(epsilon=10.0, domain=domain, n_estimators=2, max_depth=2).fit(X, y)
    >>> model.predict([[1.0, 1.0], [9.0, 1.0]])
    array(['no', 'yes'], dtype='<U3')
    """

    _published = PublishedDecisionForest

    def __init__(  # noqa: PLR0913 -- scikit-learn's parameters are arguments of the constructor
        self,
        epsilon: float = EPSILON.default,
        domain: Domain | Literal["infer"] | None = DOMAIN.default,
        *,
        n_estimators: int = N_ESTIMATORS.default,
        max_depth: int = MAX_DEPTH.default,
        n_bins: int = N_BINS.default,
        pruning: bool = PRUNING.default,
        accounting: Accounting = ACCOUNTING.default,
        n_jobs: int | None = N_JOBS.default,
        random_state: Any = RANDOM_STATE.default,
    ) -> None:
        super().__init__(
            epsilon,
            domain,
            n_estimators=n_estimators,
            max_depth=max_depth,
            n_bins=n_bins,
            accounting=accounting,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.pruning = pruning

    def _check_settings(self, n_features: int) -> Settings:
        PRUNING.check(self.pruning)
        return super()._check_settings(n_features)

    def _grow(
        self, records: Records, branches: Branches, recipe: Recipe, receipts: Receipts, source: RandomSource
    ) -> list[Tree]:
        trees: list[Tree] = []
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
