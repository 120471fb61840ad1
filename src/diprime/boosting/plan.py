"""Checked parameters of a boosted fit, and its plan: the budget of every release, set before any row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from diprime.boosting import defaults
from diprime.boosting.gradients import gradients_of
from diprime.domain import Domain
from diprime.domain.encoding import TargetLayout
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, ReleaseKind
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon, GaussianDP, share_of
from diprime.privacy.mechanisms.gaussian import gaussian_sigma


@dataclass(frozen=True)
class BoostingSettings:
    """Checked parameters of a boosted fit. Several fits may share a budget equally."""

    epsilon: Epsilon
    delta: Fraction
    n_rounds: int
    learning_rate: float
    interactions: bool
    verbose: bool
    max_records_per_group: int
    n_fits: int

    @property
    def mu_squared(self) -> Epsilon:
        """Budget of this fit: its share of the largest μ² that satisfies (epsilon, delta)-DP."""
        return gaussian_budget(self.epsilon, self.delta) / self.n_fits

    @property
    def accounting(self) -> Accounting:
        """Accounting mode shown in the ledger."""
        return "strict"


def noise_of(charge: Charge) -> float:
    """Return the standard deviation of the noise of a charge's releases."""
    assert isinstance(charge.measure, GaussianDP)
    if charge.measure.mu_squared == math.inf:
        return 0.0
    return float(gaussian_sigma(Fraction(charge.measure.mu_squared), charge.sensitivity.n))


@dataclass(frozen=True)
class BoostingPlan:
    """Charges of a boosted fit, which add up to exactly its budget."""

    mu_squared: Epsilon
    counts: Charge  # class counts, or the histogram of a numeric target
    grid: Charge  # sums for all codes of all features
    clips: Charge | None  # histograms of residuals; None in classification
    rounds: Charge  # gradient sums of all rounds

    def __post_init__(self) -> None:
        planned = sum((charge.total for charge in self.charges), Fraction(0))
        if planned != self.mu_squared:
            raise AssertionError(f"The plan adds up to {planned}, not to {self.mu_squared}.")
        try:
            for charge in self.charges:
                noise_of(charge)
        except ValueError:  # raised before any row is read
            raise ValueError(
                "epsilon and delta are too small: their noise would exceed the range of the sampler. Use larger values."
            ) from None

    @property
    def charges(self) -> list[Charge]:
        """All charges of the fit."""
        return [charge for charge in (self.counts, self.grid, self.clips, self.rounds) if charge is not None]

    @classmethod
    def make(cls, settings: BoostingSettings, domain: Domain) -> BoostingPlan:
        """Return the plan of a fit."""
        layout = domain.layout.of_persons(settings.max_records_per_group)
        numeric = layout.task == "regression"
        budget = settings.mu_squared
        clip_share = defaults.CLIP_SHARE if numeric else Fraction(0)
        rest = 1 - defaults.COUNTS_SHARE - defaults.GRID_SHARE - clip_share
        return cls(
            budget,
            _counts_charge(layout, share_of(budget, defaults.COUNTS_SHARE)),
            _grid_charge(layout, domain.n_features, share_of(budget, defaults.GRID_SHARE)),
            _clips_charge(layout, share_of(budget, clip_share)) if numeric else None,
            _rounds_charge(layout, share_of(budget, rest), settings.n_rounds),
        )


def _counts_charge(layout: TargetLayout, mu_squared: Epsilon) -> Charge:
    kind = ReleaseKind.CLASS_COUNTS if layout.task == "classification" else ReleaseKind.TARGET_HISTOGRAM
    return _charge(layout, kind, 1, "Each record is counted exactly once.", mu_squared)


def _grid_charge(layout: TargetLayout, n_features: int, mu_squared: Epsilon) -> Charge:
    composition = "Each record has one bin per feature, and adds a vector with a norm of at most one unit to its sums."
    return _charge(layout, ReleaseKind.CODE_SUMS, n_features * layout.units**2, composition, mu_squared)


def _clips_charge(layout: TargetLayout, mu_squared: Epsilon) -> Charge:
    times = defaults.N_CLIPS
    return _charge(
        layout, ReleaseKind.RESIDUAL_HISTOGRAMS, 1, "Each record is in one bin of each histogram.", mu_squared, times
    )


def _rounds_charge(layout: TargetLayout, mu_squared: Epsilon, n_rounds: int) -> Charge:
    composition = "Each record is in one cell per round, so each round is charged once."
    of_record = gradients_of(layout).squared_sensitivity
    return _charge(layout, ReleaseKind.ROUND_SUMS, of_record, composition, mu_squared, n_rounds)


def of_person(squared_sensitivity: int, layout: TargetLayout) -> int:
    """Return the squared L2 sensitivity to one person, whose weighted records may all change the same sum."""
    return squared_sensitivity * layout.person_weight**2


def _charge(
    layout: TargetLayout, kind: ReleaseKind, of_record: int, composition: str, mu_squared: Epsilon, times: int = 1
) -> Charge:
    bound = Bound(BoundKind.SQUARED_L2, of_person(of_record, layout))
    return Charge(kind, Mechanism.ROUNDED_GAUSSIAN, bound, GaussianDP(mu_squared / times), times, composition)
