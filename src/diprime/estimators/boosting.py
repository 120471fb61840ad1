"""The two boosting estimators: differentially private additive classification and regression."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads, resolve_n_jobs
from diprime.boosting import defaults
from diprime.boosting.engine import BoostingEngine
from diprime.boosting.plan import BoostingPlan, BoostingSettings
from diprime.boosting.train import BoostingReleases, train_boosting
from diprime.domain import Domain
from diprime.estimators.base import accepts_sources, sorted_classes
from diprime.estimators.parameters import BoostingParameters, RunParameters, check_parameters, settings_of
from diprime.estimators.trees import PrivateTrees, TreeClassifierMixin, TreeRegressorMixin
from diprime.execution.partition import Partitions
from diprime.inspection.explanation import Explanation, explain, targets_of
from diprime.model.additive import AdditiveForest, quantum_for
from diprime.model.effects import N_COLUMNS, Steps
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.measures import GaussianDP, Measure
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Account

Floats = npt.NDArray[np.float64]


class _Boosting(BoostingParameters, PrivateTrees):
    """Base class of the two boosting estimators, which differ only in the target."""

    forest_: AdditiveForest

    # -- fit -----------------------------------------------------------------------------------------------------------

    def _check_shared_settings(self, n_features: int, n_fits: int) -> BoostingSettings:
        checked = check_parameters(self)
        rate, mu_squared = checked["learning_rate"], gaussian_budget(checked["epsilon"], checked["delta"])
        n_rounds = checked["n_rounds"] or defaults.n_rounds(mu_squared / n_fits)
        rate = defaults.learning_rate(n_rounds) if rate is None else float(rate)
        others = {"verbose": bool(self.verbose), "n_fits": n_fits}
        return settings_of(BoostingSettings, {**checked, "n_rounds": n_rounds, "learning_rate": rate}, **others)

    def _measure(self, settings: BoostingSettings) -> Measure:
        return GaussianDP(settings.mu_squared)

    def _plan(self, settings: BoostingSettings, domain: Domain) -> BoostingPlan:
        return BoostingPlan.make(settings, domain)

    def _delta(self, settings: BoostingSettings) -> Fraction:
        return settings.delta

    def _build_engine(
        self, partitions: Partitions, domain: Domain, settings: BoostingSettings, threads: Threads
    ) -> BoostingEngine:
        return BoostingEngine(partitions.executor(threads), domain.layout)

    def _train(
        self,
        engine: BoostingEngine,
        domain: Domain,
        settings: BoostingSettings,
        plan: BoostingPlan,
        account: Account,
        source: RandomSource,
    ) -> AdditiveForest:
        boosted = train_boosting(engine, domain, settings, plan, account, source)
        scale, base = self._units(boosted, domain)

        def natural(scores: npt.NDArray[np.int32]) -> Floats:
            return self._in_order(scores.astype(np.float64) * scale, domain)

        trees = [(tree.structure, natural(tree.values)[None], tree.weights[None]) for tree in boosted.trees]
        shift = self._shift(boosted.start.astype(np.float64) * scale, domain)
        offset = np.asarray(base + natural(boosted.offset) + self._in_order(shift, domain))
        magnitude = np.abs(offset).max() + sum(np.abs(values).max() for _, values, _ in trees)
        quantum = quantum_for(max(float(magnitude), *map(abs, domain.output_range)))
        table = np.zeros((len(trees), N_COLUMNS))
        for row, r in zip(table[len(boosted.curves) :], boosted.rounds, strict=True):
            row[:] = settings.learning_rate, r.floor, r.ridge, scale * r.gradient_noise, scale * r.gradient_spread
        noise = tuple(scale * curve.noise for curve in boosted.curves)
        codes = (boosted.code_sums.counts, boosted.code_sums.count_noise, boosted.n_records, boosted.records_noise)
        return AdditiveForest.of_rounds(trees, offset, quantum, codes, Steps(table, (len(trees),), noise), domain)

    @abstractmethod
    def _units(self, boosted: BoostingReleases, domain: Domain) -> tuple[float, float]:
        """Return the value of one unit of a released score, and the constant to add to all scores."""

    def _shift(self, start: Floats, domain: Domain) -> Floats:
        """Return the numbers to add to the scores of all rows, given the scores of the released class shares."""
        return np.zeros_like(start)

    @abstractmethod
    def _in_order(self, scores: Floats, domain: Domain) -> Floats:
        """Return scores in the order of ``classes_``."""

    # -- use -----------------------------------------------------------------------------------------------------------

    def explain(self, X: Any) -> Explanation:
        """Explain predictions by the contribution of each function of one or two features.

        The contributions and the offset add up exactly to the scores: log-odds for two classes, one score per class for
        more classes, and the prediction itself for regression.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        explanation : Explanation
            The contribution of each function. It is computed from the released model, so it costs no privacy.
        """
        rows = self._reader(X)
        with Threads(resolve_n_jobs(self.n_jobs)) as threads:
            return explain(self.forest_, self.domain_, rows, threads, targets_of(self))


@dataclass(eq=False, repr=False, kw_only=True)
class DiPriMeBoostingClassifier(RunParameters, TreeClassifierMixin, _Boosting):
    """Differentially private boosting for classification: a sum of functions of one or two features.

    The fit learns a smooth curve of each feature first, by steps that release sums of the gradients of all records with
    Gaussian noise. If there is enough information, rounds follow. A round divides one or two features into a few bins
    at private quantiles, releases the sum of the gradients in each bin, and adds a small step to the scores of all
    records. The model is a generalised additive model, whose functions can be plotted: see `explain` and
    `diprime.plots.plot_shape`. With very little information, it is a constant.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of the whole fit, for adding or removing one record. If ``groups`` is passed to ``fit``, the
        budget is for adding or removing one person with all their records. ``float("inf")`` trains without noise.
    domain : Domain or "infer"
        Public facts about the data: ranges, categories and classes. Undeclared ranges and categories, written
        ``Numeric()``, ``Date()`` and ``Categorical()``, are learnt privately with a tenth of the budget. ``"infer"``
        takes all of them from the data, which voids the guarantee and issues a warning.
    delta : float, default=1e-06
        Delta of the guarantee: the fit is (epsilon, delta)-differentially private. It should be far smaller than one
        divided by the number of people.
    n_rounds : int or "auto", default="auto"
        Number of rounds. ``"auto"`` means 400, or 1000 if epsilon is so large that there is little noise. If the number
        of records times epsilon is small, there are no rounds, and the model is a sum of curves or a constant.
    learning_rate : float or "auto", default="auto"
        Shrinkage applied to each Newton step. ``"auto"`` means 100 divided by the number of rounds, but at least 0.15
        and at most 0.5.
    interactions : bool, default=True
        Whether most rounds split on two features at once: 90 % of them for classes, and 60 % for numeric targets. If
        False, the model is a sum of functions of single features.
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
        Privacy ledger: μ² of each charge, their sum, the resulting epsilon and delta, and the reasons why the model is
        not private, if any.
    forest_ : AdditiveForest
        The released curves and rounds.
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
    >>> from diprime import Categorical, DiPriMeBoostingClassifier, Domain, Numeric
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(2000, 2))
    >>> y = np.where(X[:, 0] > 5, "yes", "no")
    >>> domain = Domain({"a": Numeric(0, 10), "b": Numeric(0, 10)}, target=Categorical(["no", "yes"]))
    >>> model = DiPriMeBoostingClassifier(epsilon=2.0, domain=domain, delta=1e-6).fit(X, y)
    >>> model.predict([[1.0, 1.0], [9.0, 1.0]])
    array(['no', 'yes'], dtype='<U3')
    >>> model.privacy_.total, model.privacy_.delta
    (Fraction(2, 1), Fraction(1, 1000000))
    >>> explanation = model.explain([[9.0, 1.0]])
    >>> (explanation.offset + explanation.contributions.sum(axis=1) == explanation.scores).all()
    np.True_
    """

    def _units(self, boosted: BoostingReleases, domain: Domain) -> tuple[float, float]:
        return 1 / boosted.score_unit, 0.0

    def _shift(self, start: Floats, domain: Domain) -> Floats:
        """Return the log-weights, which multiply the odds of every row by the ratio of the class weights.

        Balanced weights cancel the log-shares of the classes.
        """
        weights = self._class_weights(domain)
        if weights is None:
            return np.zeros_like(start)
        if isinstance(weights, str):
            return -start
        logs = np.log(weights)
        return np.asarray(logs[1:] - logs[0] if len(logs) == 2 else logs - logs.mean())  # noqa: PLR2004 -- one score for two classes

    def _in_order(self, scores: Floats, domain: Domain) -> Floats:
        order = sorted_classes(domain)[0]
        if scores.shape[-1] == 1 < len(order):  # the log-odds of the second class
            return scores if order[1] == 1 else -scores
        return np.asarray(scores[..., order])

    @accepts_sources
    def decision_function(self, X: Any) -> Floats:
        """Return the scores of each row.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        scores : ndarray of shape (n,) or (n, n_classes)
            The log-odds of the second of two classes, or a score for each class, in the order of ``classes_``.
        """
        rows = self._reader(X)
        with Threads(resolve_n_jobs(self.n_jobs)) as threads:
            scores = self.forest_.scores(rows, threads)
        return scores[:, 0] if scores.shape[1] == 1 else scores


@dataclass(eq=False, repr=False, kw_only=True)
class DiPriMeBoostingRegressor(RunParameters, TreeRegressorMixin, _Boosting):
    """Differentially private boosting for regression: a sum of functions of one or two features.

    The fit learns a smooth curve of each feature first, by steps that release sums of the residuals of all records with
    Gaussian noise. If there is enough information, rounds follow. A round divides one or two features into a few bins
    at private quantiles, releases the sum of the residuals in each bin, and adds a small step to the scores of all
    records. Large residuals are clipped to a private bound, which is measured again as the fit improves. The model is a
    generalised additive model, whose functions can be plotted: see `explain` and `diprime.plots.plot_shape`. With very
    little information, it is a constant.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of the whole fit, for adding or removing one record. If ``groups`` is passed to ``fit``, the
        budget is for adding or removing one person with all their records. ``float("inf")`` trains without noise.
    domain : Domain or "infer"
        Public facts about the data: ranges, categories and classes. Undeclared ranges and categories, written
        ``Numeric()``, ``Date()`` and ``Categorical()``, are learnt privately with a tenth of the budget. ``"infer"``
        takes all of them from the data, which voids the guarantee and issues a warning.
    delta : float, default=1e-06
        Delta of the guarantee: the fit is (epsilon, delta)-differentially private. It should be far smaller than one
        divided by the number of people.
    n_rounds : int or "auto", default="auto"
        Number of rounds. ``"auto"`` means 400, or 1000 if epsilon is so large that there is little noise. If the number
        of records times epsilon is small, there are no rounds, and the model is a sum of curves or a constant.
    learning_rate : float or "auto", default="auto"
        Shrinkage applied to each Newton step. ``"auto"`` means 100 divided by the number of rounds, but at least 0.15
        and at most 0.5.
    interactions : bool, default=True
        Whether most rounds split on two features at once: 90 % of them for classes, and 60 % for numeric targets. If
        False, the model is a sum of functions of single features.
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
        Privacy ledger: μ² of each charge, their sum, the resulting epsilon and delta, and the reasons why the model is
        not private, if any.
    forest_ : AdditiveForest
        The released curves and rounds.
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
    >>> from diprime import DiPriMeBoostingRegressor, Domain, Numeric
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(2000, 2))
    >>> domain = Domain({"a": Numeric(0, 10), "b": Numeric(0, 10)}, target=Numeric(0, 10))
    >>> model = DiPriMeBoostingRegressor(epsilon=2.0, domain=domain, delta=1e-6).fit(X, X[:, 0])
    >>> model.predict([[1.0, 5.0]])[0] < model.predict([[9.0, 5.0]])[0]
    np.True_
    """

    def _units(self, boosted: BoostingReleases, domain: Domain) -> tuple[float, float]:
        low, high = domain.output_range
        return (high - low) / boosted.score_unit, low

    def _in_order(self, scores: Floats, domain: Domain) -> Floats:
        return scores
