"""What every release of a boosted fit gets of the budget, before a row is read.

All releases are sums with Gaussian noise, so their μ² add up to the largest μ² that is (ε, δ)-DP, or
to this fit's share of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from diprime.domain import Domain
from diprime.domain.target_layout import TargetLayout
from diprime.engines.gradients import gradients_of
from diprime.model.noise import ROUND_SUMS
from diprime.privacy.charges import Charge
from diprime.privacy.measures import Epsilon, GaussianDP, share_of
from diprime.privacy.mechanisms.gaussian import ROUNDED_GAUSSIAN, gaussian_sigma
from diprime.training.boosting import defaults
from diprime.training.boosting.settings import BoostingSettings


def noise_of(charge: Charge) -> float:
    """Return the standard deviation of the noise of a charge's releases."""
    assert isinstance(charge.measure, GaussianDP)
    assert charge.calibrated_to is not None
    if charge.measure.mu_squared == math.inf:
        return 0.0
    return float(gaussian_sigma(Fraction(charge.measure.mu_squared), charge.calibrated_to))


@dataclass(frozen=True)
class BoostingPlan:
    """The charges of a boosted fit.

    Attributes
    ----------
    mu_squared : Fraction or inf
        The budget.
    counts : Charge
        The counts of classes, or the histogram of a numeric target.
    grid : Charge
        The sums of all codes of all features.
    clips : Charge or None
        The histograms of residuals; None for classes.
    rounds : Charge
        The sums of the gradients of all rounds.
    """

    mu_squared: Epsilon
    counts: Charge
    grid: Charge
    clips: Charge | None
    rounds: Charge

    def __post_init__(self) -> None:
        planned = sum((charge.total for charge in self.charges), Fraction(0))
        if planned != self.mu_squared:
            raise AssertionError(f"The plan adds up to {planned}, not to {self.mu_squared}.")
        try:
            for charge in self.charges:
                noise_of(charge)
        except ValueError:  # before a row is read
            raise ValueError(
                "epsilon and delta are too small: noise for them would be too large to be drawn."
            ) from None

    @property
    def charges(self) -> list[Charge]:
        """All charges."""
        return [charge for charge in (self.counts, self.grid, self.clips, self.rounds) if charge is not None]

    @classmethod
    def make(cls, settings: BoostingSettings, domain: Domain) -> BoostingPlan:
        """Plan a fit."""
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
    kind = "class counts" if layout.task == "classification" else "target histogram"
    return _charge(layout, kind, 1, "one record is in one of them", mu_squared)


def _grid_charge(layout: TargetLayout, n_features: int, mu_squared: Epsilon) -> Charge:
    composition = "one record has one code of each feature, and adds a vector of norm at most one unit to its sums"
    return _charge(layout, "code sums", n_features * layout.units**2, composition, mu_squared)


def _clips_charge(layout: TargetLayout, mu_squared: Epsilon) -> Charge:
    times = defaults.N_CLIPS
    return _charge(layout, "residual histograms", 1, "one record is in one bin of each", mu_squared, times)


def _rounds_charge(layout: TargetLayout, mu_squared: Epsilon, n_rounds: int) -> Charge:
    composition = "cells of a round hold disjoint records: it counts once a round"
    return _charge(layout, ROUND_SUMS, gradients_of(layout).squared_sensitivity, composition, mu_squared, n_rounds)


def of_person(squared_sensitivity: int, layout: TargetLayout) -> int:
    """Return how much one person changes sums, as a squared norm: her records' vectors, by their weights, add up."""
    return squared_sensitivity * layout.person_weight**2


def _charge(
    layout: TargetLayout, kind: str, of_record: int, composition: str, mu_squared: Epsilon, times: int = 1
) -> Charge:
    squared_sensitivity = of_person(of_record, layout)
    return Charge(
        kind,
        ROUNDED_GAUSSIAN,
        f"squared L2 sensitivity {squared_sensitivity:,}",
        GaussianDP(mu_squared / times),
        times,
        composition,
        calibrated_to=squared_sensitivity,
    )
