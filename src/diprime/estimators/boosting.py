"""The two boosting estimators: differentially private additive models for classification and for regression."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.engines.partition import Partitions
from diprime.engines.partitioned_scores import PartitionedScoreEngine
from diprime.estimators.base import sorted_classes
from diprime.estimators.constructors import with_own_constructor
from diprime.estimators.frames import on_frames
from diprime.estimators.parameters import (
    BOOSTING,
    BOOSTING_CLASSIFIER,
    CLASS_WEIGHT,
    DELTA,
    DOMAIN,
    EPSILON,
    INTERACTIONS,
    LEARNING_RATE,
    MAX_RECORDS_PER_GROUP,
    N_JOBS,
    N_ROUNDS,
    RANDOM_STATE,
    VERBOSE,
)
from diprime.estimators.trees import PrivateTrees, TreeClassifierMixin, TreeRegressorMixin
from diprime.model.additive import AdditiveForest, quantum_for
from diprime.model.explanation import Explanation, explain, targets_of
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import GaussianDP, Measure
from diprime.privacy.randomness import RandomSource
from diprime.training.boosting import defaults
from diprime.training.boosting.plan import BoostingPlan
from diprime.training.boosting.settings import BoostingSettings
from diprime.training.boosting.train import Boosted, train_boosting

Floats = npt.NDArray[np.float64]


class _Boosting(PrivateTrees):
    """The base class of the two boosting estimators, which differ in the target only."""

    forest_: AdditiveForest
    _parameters = BOOSTING

    def __init__(  # noqa: PLR0913 -- scikit-learn's parameters are arguments of the constructor
        self,
        epsilon: float = EPSILON.default,
        domain: Domain | Literal["infer"] | None = DOMAIN.default,
        *,
        delta: float = DELTA.default,
        n_rounds: int | Literal["auto"] = N_ROUNDS.default,
        learning_rate: float | Literal["auto"] = LEARNING_RATE.default,
        interactions: bool = INTERACTIONS.default,
        max_records_per_group: int = MAX_RECORDS_PER_GROUP.default,
        n_jobs: int | None = N_JOBS.default,
        random_state: Any = RANDOM_STATE.default,
        verbose: int = VERBOSE.default,
    ) -> None:
        self.epsilon = epsilon
        self.domain = domain
        self.delta = delta
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate
        self.interactions = interactions
        self.max_records_per_group = max_records_per_group
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- fit -----------------------------------------------------------------------------------------------------------

    def _check_shared_settings(self, n_features: int, n_fits: int) -> BoostingSettings:
        epsilon, delta = EPSILON.check(self.epsilon), DELTA.check(self.delta)
        n_rounds = N_ROUNDS.check(self.n_rounds) or defaults.n_rounds(gaussian_budget(epsilon, delta) / n_fits)
        rate = LEARNING_RATE.check(self.learning_rate)
        return BoostingSettings(
            epsilon=epsilon,
            delta=delta,
            n_rounds=n_rounds,
            learning_rate=defaults.learning_rate(n_rounds) if rate is None else float(rate),
            interactions=INTERACTIONS.check(self.interactions),
            verbose=VERBOSE.check(self.verbose),
            max_records_per_group=MAX_RECORDS_PER_GROUP.check(self.max_records_per_group),
            n_fits=n_fits,
        )

    def _measure(self, settings: BoostingSettings) -> Measure:
        return GaussianDP(settings.mu_squared)

    def _plan(self, settings: BoostingSettings, domain: Domain) -> BoostingPlan:
        return BoostingPlan.make(settings, domain)

    def _delta(self, settings: BoostingSettings) -> Fraction:
        return settings.delta

    def _prepare(
        self, partitions: Partitions, domain: Domain, settings: BoostingSettings, threads: Threads
    ) -> PartitionedScoreEngine:
        return PartitionedScoreEngine(partitions.executor(threads), domain.layout)

    def _learn(
        self,
        prepared: PartitionedScoreEngine,
        domain: Domain,
        settings: BoostingSettings,
        plan: BoostingPlan,
        ledger: Ledger,
        source: RandomSource,
    ) -> AdditiveForest:
        boosted = train_boosting(prepared, domain, settings, plan, ledger, source)
        scale, base = self._units(boosted, domain)
        rounds = [
            (r.structure, self._in_order(r.steps.astype(np.float64) * scale, domain)[None], r.weights[None])
            for r in boosted.rounds
        ]
        offset = base + self._in_order(self._start(boosted.offset.astype(np.float64) * scale, domain), domain)
        magnitude = np.abs(offset).max() + sum(np.abs(values).max() for _, values, _ in rounds)
        quantum = quantum_for(max(float(magnitude), *map(abs, domain.output_range)))
        return AdditiveForest.of_rounds(rounds, offset, quantum, boosted.code_sums.counts, domain)

    @abstractmethod
    def _units(self, boosted: Boosted, domain: Domain) -> tuple[float, float]:
        """Return what one unit of a released score is in the model, and what is added to all scores."""

    def _start(self, scores: Floats, domain: Domain) -> Floats:
        """Return what the scores of the model start from, given what those of the rounds started from."""
        return scores

    @abstractmethod
    def _in_order(self, scores: Floats, domain: Domain) -> Floats:
        """Return scores in the order of ``classes_``."""

    # -- use -----------------------------------------------------------------------------------------------------------

    def explain(self, X: Any) -> Explanation:
        """Tell what each function of one or two features adds to the predictions of rows.

        The contributions and the offset add up exactly to the scores: to log-odds for two classes, to a score for each
        of several classes, and to the prediction itself for numbers.

        Parameters
        ----------
        X : array or data frame of shape (n, n_features)
            The rows.

        Returns
        -------
        explanation : Explanation
            What each function adds. It is computed from the released model, so it costs no privacy.
        """
        rows = self._reader(X)
        with Threads(N_JOBS.check(self.n_jobs)) as threads:
            return explain(self.forest_, self.domain_, rows, threads, targets_of(self))


class DiPriMeBoostingClassifier(TreeClassifierMixin, _Boosting):
    """Differentially private boosting for classification: a sum of functions of one or two features.

    Every round cuts one or two features into a few cells at private quantiles, releases the sum of the gradients in
    each cell with Gaussian noise, and moves the scores of all records by a small step. The model is a generalised
    additive model with interactions, which can be looked at: see `explain` and `diprime.plots.plot_shape`.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget of the whole fit: (epsilon, delta)-differential privacy for adding or removing one record,
        or one person with all records if ``fit`` is given ``groups``.
        ``float("inf")`` fits the non-private counterpart.
    domain : Domain or "infer"
        What is public about the data: ranges, levels and classes. What it leaves open, ``Numeric()`` and
        ``Categorical()``, is learnt privately for a tenth of epsilon. ``"infer"`` reads all of it from the data and
        warns, because that is not private.
    delta : float, default=1e-6
        The other part of the budget, which should be far below one over the number of records.
    n_rounds : int or "auto", default="auto"
        The number of rounds. ``"auto"`` is 400, or 1000 if epsilon is so large that there is little noise.
    learning_rate : float or "auto", default="auto"
        The part of a Newton step that a round goes. ``"auto"`` is 100 over the number of rounds, but from
        0.15 to 0.5.
    interactions : bool, default=True
        Whether half of the rounds cut two features at once. If False, the model is a sum of functions of single
        features.
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
        The ledger: μ² of each charge, their sum, the epsilon and delta that follow, and what was waived.
    forest_ : AdditiveForest
        The released trees, one for each round.
    fitted_params_ : dict
        The parameters of the fit, without ``n_jobs``, ``verbose`` and ``random_state``. Files and reports tell these,
        whatever `set_params` changes later.
    feature_importances_ : ndarray of shape (n_features,)
        The importance of each coded feature, in the order of ``domain_.names``: how much its functions spread the
        scores. It is computed from the released model only.
    n_features_in_ : int
        The number of columns, each of which is a feature of the domain.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of the columns in the order of the domain, which may differ from that of the data frame. Defined
        only if the fit saw a data frame.

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

    _parameters = BOOSTING_CLASSIFIER

    def __init__(  # noqa: PLR0913 -- scikit-learn's parameters are arguments of the constructor
        self,
        epsilon: float = EPSILON.default,
        domain: Domain | Literal["infer"] | None = DOMAIN.default,
        *,
        delta: float = DELTA.default,
        n_rounds: int | Literal["auto"] = N_ROUNDS.default,
        learning_rate: float | Literal["auto"] = LEARNING_RATE.default,
        interactions: bool = INTERACTIONS.default,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = CLASS_WEIGHT.default,
        max_records_per_group: int = MAX_RECORDS_PER_GROUP.default,
        n_jobs: int | None = N_JOBS.default,
        random_state: Any = RANDOM_STATE.default,
        verbose: int = VERBOSE.default,
    ) -> None:
        super().__init__(
            epsilon,
            domain,
            delta=delta,
            n_rounds=n_rounds,
            learning_rate=learning_rate,
            interactions=interactions,
            max_records_per_group=max_records_per_group,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def _check_shared_settings(self, n_features: int, n_fits: int) -> BoostingSettings:
        CLASS_WEIGHT.check(self.class_weight)
        return super()._check_shared_settings(n_features, n_fits)

    def fit(self, X: Any, y: Any, *, groups: Any = None, **refused: Any) -> DiPriMeBoostingClassifier:
        """Fit a boosted model to records and their classes.

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
        self : DiPriMeBoostingClassifier
            The fitted estimator.
        """
        self._fit(X, y, refused, groups)
        return self

    def _units(self, boosted: Boosted, domain: Domain) -> tuple[float, float]:
        return 1 / boosted.score_unit, 0.0

    def _start(self, scores: Floats, domain: Domain) -> Floats:
        """Add the logarithms of the weights: odds are multiplied by those of the weights, whatever a row adds.

        The scores of the rounds start from the logarithms of the classes' shares, which balanced weights cancel.
        """
        weights = self._class_weights(domain)
        if weights is None:
            return scores
        if isinstance(weights, str):
            return np.zeros_like(scores)
        logs = np.log(weights)
        return np.asarray(scores + (logs[1:] - logs[0] if len(logs) == 2 else logs - logs.mean()))  # noqa: PLR2004 -- one score for two classes

    def _in_order(self, scores: Floats, domain: Domain) -> Floats:
        order = sorted_classes(domain)[0]
        if scores.shape[-1] == 1 < len(order):  # the log-odds of the second class
            return scores if order[1] == 1 else -scores
        return np.asarray(scores[..., order])

    @on_frames
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
        with Threads(N_JOBS.check(self.n_jobs)) as threads:
            scores = self.forest_.scores(rows, threads)
        return scores[:, 0] if scores.shape[1] == 1 else scores


@with_own_constructor
class DiPriMeBoostingRegressor(TreeRegressorMixin, _Boosting):
    """Differentially private boosting for regression: a sum of functions of one or two features.

    Every round cuts one or two features into a few cells at private quantiles, releases the sum of the residuals in
    each cell with Gaussian noise, and moves the scores of all records by a small step. Large residuals are clamped
    to a private quantile of all residuals, which is looked at again as the fit improves. The model is a generalised
    additive model with interactions, which can be looked at: see `explain` and `diprime.plots.plot_shape`.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget of the whole fit: (epsilon, delta)-differential privacy for adding or removing one record,
        or one person with all records if ``fit`` is given ``groups``.
        ``float("inf")`` fits the non-private counterpart.
    domain : Domain or "infer"
        What is public about the data: ranges, levels and classes. What it leaves open, ``Numeric()`` and
        ``Categorical()``, is learnt privately for a tenth of epsilon. ``"infer"`` reads all of it from the data and
        warns, because that is not private.
    delta : float, default=1e-6
        The other part of the budget, which should be far below one over the number of records.
    n_rounds : int or "auto", default="auto"
        The number of rounds. ``"auto"`` is 400, or 1000 if epsilon is so large that there is little noise.
    learning_rate : float or "auto", default="auto"
        The part of a Newton step that a round goes. ``"auto"`` is 100 over the number of rounds, but from
        0.15 to 0.5.
    interactions : bool, default=True
        Whether half of the rounds cut two features at once. If False, the model is a sum of functions of single
        features.
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
        The ledger: μ² of each charge, their sum, the epsilon and delta that follow, and what was waived.
    forest_ : AdditiveForest
        The released trees, one for each round.
    fitted_params_ : dict
        The parameters of the fit, without ``n_jobs``, ``verbose`` and ``random_state``. Files and reports tell these,
        whatever `set_params` changes later.
    feature_importances_ : ndarray of shape (n_features,)
        The importance of each coded feature, in the order of ``domain_.names``: how much its functions spread the
        scores. It is computed from the released model only.
    n_features_in_ : int
        The number of columns, each of which is a feature of the domain.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of the columns in the order of the domain, which may differ from that of the data frame. Defined
        only if the fit saw a data frame.

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

    def fit(self, X: Any, y: Any, *, groups: Any = None, **refused: Any) -> DiPriMeBoostingRegressor:
        """Fit a boosted model to records and their targets.

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
        self : DiPriMeBoostingRegressor
            The fitted estimator.
        """
        self._fit(X, y, refused, groups)
        return self

    def _units(self, boosted: Boosted, domain: Domain) -> tuple[float, float]:
        low, high = domain.output_range
        return (high - low) / boosted.score_unit, low

    def _in_order(self, scores: Floats, domain: Domain) -> Floats:
        return scores
