"""What the fits and the choice of a private search get of the budget, before a row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from diprime.domain import Domain
from diprime.estimators.trees import PrivateTrees
from diprime.privacy.charges import Charge
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon, GaussianDP, Measure, PrivacyLoss, PureEpsilon, rounded_text, share_of
from diprime.privacy.mechanisms.laplace import DISCRETE_LAPLACE
from diprime.privacy.mechanisms.stopping import COST_FACTOR, RANDOM_STOPPING
from diprime.search.candidates import Parameters, describe, with_setting
from diprime.search.errors import error_range

Rule = Literal["all", "stopping"]

FITS = "their own ledgers"
"""What the ledger names as the mechanism of fits."""
MAX_ALL = 3
"""Up to so many settings, all are tried by default: each gets at least as much as a try of random stopping would."""
TRIES_PER_SETTING = 5
N_HALVES = 2
"""A search with a refit spends one half on the choice, and the other on the refit."""
CHOICE_SHARE = Fraction(1, 10)
"""The share of epsilon that the choice gets where it adds to the cost of the fits."""


@dataclass(frozen=True)
class SearchSettings:
    """Checked parameters of a private search.

    Attributes
    ----------
    epsilon, delta : Fraction or inf, Fraction
        The budget.
    settings : list of dict
        The settings to choose among.
    rule : {"all", "stopping"}
        Whether all settings are tried once, or a random number of random ones.
    max_fits : int
        The largest number of fits of random stopping.
    holdout : Fraction
        The share of records that choose.
    refit : bool
        Whether the setting that was chosen is fitted once more, to all records, for as much as all fits before.
    """

    epsilon: Epsilon
    delta: Fraction
    settings: Sequence[Parameters]
    rule: Rule
    max_fits: int
    holdout: Fraction
    refit: bool
    accounting: Accounting = "strict"

    @property
    def loss(self) -> PrivacyLoss:
        """What the whole search costs."""
        if not self.delta:
            return PrivacyLoss(self.epsilon)
        of_fits = share_of(self.epsilon, 1 - CHOICE_SHARE)
        return PrivacyLoss(share_of(self.epsilon, CHOICE_SHARE), gaussian_budget(of_fits, self.delta))

    @property
    def n_shares(self) -> int:
        """Into how many equal parts the budget of fits is divided, of which each fit that is tried costs one."""
        return (len(self.settings) if self.rule == "all" else COST_FACTOR) * (N_HALVES if self.refit else 1)


@dataclass(frozen=True)
class Fit:
    """A fit that is planned.

    Attributes
    ----------
    settings, plan : object
        The checked parameters, and the plan of the releases.
    measure : PureEpsilon or GaussianDP
        What it costs.
    """

    settings: Any
    plan: Any
    measure: Measure

    @classmethod
    def make(cls, model: PrivateTrees, domain: Domain, n_shares: int) -> Fit:
        """Plan a fit that costs one of so many shares of the model's budget."""
        settings = model._check_shared_settings(domain.n_features, n_shares)
        return cls(settings, model._plan(settings, domain), model._measure(settings))


@dataclass(frozen=True)
class Candidate:
    """A setting with its part of the budget.

    Attributes
    ----------
    parameters : dict
        The setting.
    model : PrivateTrees
        The unfitted estimator with that setting.
    tried, refitted : Fit
        How it is fitted to be chosen from, and how once more when it is chosen, if it is then.
    """

    parameters: Mapping[str, Any]
    model: PrivateTrees
    tried: Fit
    refitted: Fit | None


@dataclass(frozen=True)
class SearchPlan:
    """The candidates, and the charges of a private search.

    Attributes
    ----------
    candidates : list of Candidate
        What is chosen from.
    fits : Charge
        All fits, and the choice where it costs nothing besides: where fits and choice are about different records, and
        in the same measure, the larger cost counts.
    choice : Charge
        The choice among all settings, or the noise on the error of one of them.
    choice_adds : bool
        Whether the choice adds to the cost of the fits.
    """

    candidates: Sequence[Candidate]
    fits: Charge
    choice: Charge
    choice_adds: bool

    def __post_init__(self) -> None:
        if not self.choice_adds and self.choice.total > self.fits.total:
            raise AssertionError(
                f"The choice costs {self.choice.total}, more than the {self.fits.total} that is charged."
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


def _measure_of_choice(settings: SearchSettings, measure: Measure) -> PureEpsilon:
    """Return what the choice costs: where it costs nothing besides, as much as all fits that are tried."""
    if isinstance(measure, GaussianDP):
        return PureEpsilon(share_of(settings.epsilon, CHOICE_SHARE))
    return PureEpsilon(measure.times(len(settings.settings)))


def _charge_of_all(settings: SearchSettings, measure: Measure, choice: Charge) -> Charge:
    n, tried = len(settings.settings), describe(settings.settings)
    if isinstance(measure, GaussianDP):
        bound = "one record trains all of them"
        composition = f"settings that were tried: {tried}"
    else:
        bound = "one record trains all of them, or chooses"
        composition = (
            f"a record is drawn either to train all settings ({tried}) or to choose among them, by the "
            f"{choice.mechanism} with {choice.bound} for epsilon = {rounded_text(choice.epsilon)}. It never does both, "
            "so the larger of the two costs counts"
        )
    return Charge(f"fits of {n} settings", FITS, bound, measure, n, composition, calibrated_to=n)


def _charge_of_choice(n_settings: int, measure: PureEpsilon, cost_range: int) -> Charge:
    return Charge(
        f"choice among {n_settings} settings",
        "exponential mechanism",
        f"cost range {cost_range:,}",
        measure,
        composition="the errors of all settings are those on records that did not train them",
        calibrated_to=cost_range,
    )


def _charge_of_noise(measure: PureEpsilon, cost_range: int) -> Charge:
    bound = f"L1 sensitivity {cost_range:,}"
    return Charge("error of a setting", DISCRETE_LAPLACE, bound, measure, calibrated_to=cost_range)


def _charge_of_stopping(settings: SearchSettings, measure: PureEpsilon) -> Charge:
    return Charge(
        "best of a random number of fits",
        RANDOM_STOPPING,
        f"from 1 to {settings.max_fits:,} fits",
        measure,
        COST_FACTOR,
        f"each fit has a random one of {len(settings.settings)} settings ({describe(settings.settings)}). A record is "
        f"drawn either to train or to choose, so that a fit and its noisy error cost epsilon = "
        f"{rounded_text(measure.epsilon)} together. The best of a random number of fits costs {COST_FACTOR} times as "
        "much as one, however many there were",
        calibrated_to=settings.max_fits,
    )
