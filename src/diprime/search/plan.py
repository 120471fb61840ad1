"""Plan of a private search, made before any row is read: the settings, and the budget of fits and selection."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from sklearn.base import clone

from diprime.domain import Domain
from diprime.domain.encoding import TargetLayout
from diprime.estimators.boosting import DiPriMeBoostingClassifier
from diprime.estimators.forest import DiPriMeClassifier
from diprime.estimators.parameters import BudgetParameters, parameters_of
from diprime.estimators.trees import PrivateTrees
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, ReleaseKind
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon, GaussianDP, Measure, PrivacyLoss, PureEpsilon, rounded_text, share_of
from diprime.privacy.mechanisms.selection import COST_FACTOR

FIXED = frozenset(
    name
    for estimator in (DiPriMeClassifier, DiPriMeBoostingClassifier)
    for name, declared in parameters_of(estimator).items()
    if not declared.searchable
)
"""Parameters that a search cannot select, such as those that determine the guarantee."""
MAX_LISTED = 6
"""Maximum number of settings that the ledger lists."""

Parameters = Mapping[str, Any]


def check_estimator(estimator: Any) -> PrivateTrees:
    """Return the estimator if a search can charge its fits, or raise an error."""
    if not isinstance(estimator, PrivateTrees):
        raise TypeError(f"The estimator of PrivateSearch must be a diprime estimator, got {type(estimator).__name__}.")
    if estimator.epsilon != BudgetParameters.epsilon:
        raise ValueError(
            "PrivateSearch divides its own epsilon among the fits. Pass epsilon to PrivateSearch, and keep the "
            f"default of the estimator instead of {estimator.epsilon!r}."
        )
    if estimator.random_state is not None:
        raise ValueError(
            "PrivateSearch uses its own random bits. Pass random_state to PrivateSearch instead of the estimator."
        )
    return estimator


def list_settings(param_distributions: Any, n_iter: Any, random_state: Any) -> list[Parameters]:
    """Return all combinations of lists of values or, with ``n_iter``, a sample from lists and distributions."""
    # A slow import, which also imports rich if it is installed.
    from sklearn.model_selection import ParameterGrid, ParameterSampler

    grids = [param_distributions] if isinstance(param_distributions, Mapping) else list(param_distributions)
    for name in (name for grid in grids for name in grid if name in FIXED):
        raise ValueError(
            f"PrivateSearch cannot select {name}, because all combinations must share it. Set it on the estimator."
        )
    if n_iter is None:
        if any(hasattr(values, "rvs") for grid in grids for values in grid.values()):
            raise ValueError(
                "param_distributions contains a distribution, which requires n_iter, the number of combinations."
            )
        return list(ParameterGrid(param_distributions))
    if isinstance(n_iter, bool) or not isinstance(n_iter, numbers.Integral) or n_iter < 1:
        raise ValueError(f"n_iter must be an integer from 1 or None, got {n_iter!r}.")
    return list(ParameterSampler(param_distributions, int(n_iter), random_state=random_state))


def with_setting(estimator: PrivateTrees, setting: Parameters, epsilon: Any) -> PrivateTrees:
    """Return an unfitted estimator with a setting. It is silent: progress bars would reveal the number of fits."""
    model: PrivateTrees = clone(estimator)
    model.set_params(**setting, epsilon=epsilon, verbose=False)
    return model


def describe(settings: Sequence[Parameters]) -> str:
    """Describe the settings for the ledger."""
    texts = [", ".join(f"{name}={value}" for name, value in sorted(s.items())) or "defaults" for s in settings]
    more = len(texts) - MAX_LISTED
    return "; ".join([*texts[:MAX_LISTED], *([f"and {more} more"] if more > 0 else [])])


Rule = Literal["all", "stopping"]
MAX_ALL = 3
"""Maximum number of settings of which all are tried by default: each gets at least the budget of a random try."""
TRIES_PER_SETTING = 5
N_HALVES = 2
"""A search with a refit spends one half of its budget on the selection, and the other on the refit."""
CHOICE_SHARE = Fraction(1, 10)
"""Share of epsilon for the selection, if its cost adds to that of the fits."""


@dataclass(frozen=True)
class SearchSettings:
    """Checked parameters of a private search."""

    epsilon: Epsilon
    delta: Fraction
    settings: Sequence[Parameters]  # settings to select from
    rule: Rule  # whether to try all settings once, or a random number of random settings
    max_fits: int  # maximum number of fits of random stopping
    holdout: Fraction  # share of records that select
    refit: bool  # whether to fit the selected setting again, to all records, at the cost of all other fits together
    accounting: Accounting = "strict"

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of the whole search."""
        if not self.delta:
            return PrivacyLoss(self.epsilon)
        of_fits = share_of(self.epsilon, 1 - CHOICE_SHARE)
        return PrivacyLoss(share_of(self.epsilon, CHOICE_SHARE), gaussian_budget(of_fits, self.delta))

    @property
    def n_shares(self) -> int:
        """The number of equal shares of the budget of fits, of which each tried fit costs one."""
        return (len(self.settings) if self.rule == "all" else COST_FACTOR) * (N_HALVES if self.refit else 1)


@dataclass(frozen=True)
class Fit:
    """Planned fit."""

    settings: Any  # checked parameters
    plan: Any  # plan of the releases
    measure: Measure

    @classmethod
    def make(cls, model: PrivateTrees, domain: Domain, n_shares: int) -> Fit:
        """Plan a fit that costs one of ``n_shares`` equal shares of the model's budget."""
        settings = model._check_shared_settings(domain.n_features, n_shares)
        return cls(settings, model._plan(settings, domain), model._measure(settings))


@dataclass(frozen=True)
class Candidate:
    """Setting with its part of the budget."""

    parameters: Mapping[str, Any]
    model: PrivateTrees  # unfitted estimator with these parameters
    tried: Fit  # fit to select from
    refitted: Fit | None  # second fit of the selected candidate, if the search refits


@dataclass(frozen=True)
class SearchPlan:
    """Candidates and charges of a private search.

    Fits and selection use disjoint records. If both have the same measure, only the larger cost counts: the charge of
    the fits covers the selection.
    """

    candidates: Sequence[Candidate]
    fits: Charge
    choice: Charge  # selection among all settings, or the noise on the error of one setting
    choice_adds: bool  # whether the cost of the selection adds to that of the fits

    def __post_init__(self) -> None:
        if not self.choice_adds and self.choice.total > self.fits.total:
            raise AssertionError(
                f"The selection costs {self.choice.total}, more than the {self.fits.total} that is charged."
            )

    @classmethod
    def make(cls, estimator: PrivateTrees, settings: SearchSettings, domain: Domain) -> SearchPlan:
        """Plan a search."""
        gaussian = estimator._delta(estimator._check_settings(domain.n_features)) > 0
        of_fits = share_of(settings.epsilon, 1 - CHOICE_SHARE) if gaussian else settings.epsilon
        candidates = []
        for setting in settings.settings:
            model = with_setting(estimator, setting, of_fits)
            refitted = Fit.make(model, domain, N_HALVES) if settings.refit else None
            candidates.append(Candidate(setting, model, Fit.make(model, domain, settings.n_shares), refitted))
        measure = candidates[0].tried.measure
        cost_range = error_range(domain.layout.of_persons(estimator._max_records()))
        if settings.rule == "stopping":
            assert isinstance(measure, PureEpsilon)
            noise = _charge_of_noise(measure, cost_range)
            return cls(candidates, _charge_of_stopping(settings, measure), noise, False)
        choice = _charge_of_choice(len(candidates), _measure_of_choice(settings, measure), cost_range)
        return cls(candidates, _charge_of_all(settings, measure, choice), choice, gaussian)


def error_range(layout: TargetLayout) -> int:
    """Return the largest contribution of one record or person to the error of a fitted model; the smallest is 0."""
    return layout.person_units


def _measure_of_choice(settings: SearchSettings, measure: Measure) -> PureEpsilon:
    """Return the measure of the selection. If its cost does not add, it may cost as much as all tried fits together."""
    if isinstance(measure, GaussianDP):
        return PureEpsilon(share_of(settings.epsilon, CHOICE_SHARE))
    return PureEpsilon(measure.times(len(settings.settings)))


def _charge_of_all(settings: SearchSettings, measure: Measure, choice: Charge) -> Charge:
    n, tried = len(settings.settings), describe(settings.settings)
    if isinstance(measure, GaussianDP):
        kind = BoundKind.FITS
        composition = f"Combinations that were tried: {tried}."
    else:
        kind = BoundKind.FITS_OR_CHOICE
        composition = (
            f"Each record either trains all combinations ({tried}) or selects among them, by the "
            f"{choice.mechanism} with {choice.sensitivity} for epsilon = {rounded_text(choice.epsilon)}. Only the "
            "larger of the two costs counts."
        )
    return Charge(ReleaseKind.FITS, Mechanism.OWN_LEDGERS, Bound(kind, n), measure, n, composition, n=n)


def _charge_of_choice(n_settings: int, measure: PureEpsilon, cost_range: int) -> Charge:
    return Charge(
        ReleaseKind.CHOICE_OF_SETTING,
        Mechanism.EXPONENTIAL,
        Bound(BoundKind.COST_RANGE_OF_ERRORS, cost_range),
        measure,
        composition="The errors of all combinations are measured on records that did not train them.",
        n=n_settings,
    )


def _charge_of_noise(measure: PureEpsilon, cost_range: int) -> Charge:
    bound = Bound(BoundKind.L1_OF_ERRORS, cost_range)
    return Charge(ReleaseKind.ERROR_OF_SETTING, Mechanism.DISCRETE_LAPLACE, bound, measure)


def _charge_of_stopping(settings: SearchSettings, measure: PureEpsilon) -> Charge:
    return Charge(
        ReleaseKind.BEST_OF_FITS,
        Mechanism.RANDOM_STOPPING,
        Bound(BoundKind.REPETITIONS, settings.max_fits),
        measure,
        COST_FACTOR,
        f"Each fit uses a random one of {len(settings.settings)} combinations "
        f"({describe(settings.settings)}). Each record is used either for training or for selection, so a "
        f"fit and its noisy error together cost epsilon = {rounded_text(measure.epsilon)}. The best of a "
        f"random number of fits costs {COST_FACTOR} times as much as one fit, for any number of fits.",
    )
