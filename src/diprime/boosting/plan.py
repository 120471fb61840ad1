"""Checked parameters of a boosted fit, and its plan: the budget of every release, set before any row is read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from diprime.boosting import defaults
from diprime.boosting.budget import noise_of
from diprime.boosting.gradients import BASIS_BITS, CLIP, gradients_of
from diprime.domain import Domain
from diprime.domain.encoding import TargetLayout
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, ReleaseKind
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon, GaussianDP, share_of
from diprime.privacy.mechanisms.gaussian import MAX_SIGMA


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


@dataclass(frozen=True)
class BoostingPlan:
    """Charges of a boosted fit, which add up to exactly its budget."""

    mu_squared: Epsilon
    counts: Charge  # class counts, or the number of records
    grid: Charge  # sums for all codes of all features
    gradients: Charge  # everything else: starting scores, clips, curves and rounds

    def __post_init__(self) -> None:
        planned = sum((charge.total for charge in self.charges), Fraction(0))
        if planned != self.mu_squared:
            raise AssertionError(f"The plan adds up to {planned}, not to {self.mu_squared}.")

    @property
    def charges(self) -> list[Charge]:
        """All charges of the fit."""
        return [self.counts, self.grid, self.gradients]

    @classmethod
    def make(cls, settings: BoostingSettings, domain: Domain) -> BoostingPlan:
        """Return the plan of a fit."""
        layout = domain.layout.of_persons(settings.max_records_per_group)
        budget = settings.mu_squared
        counts, grid = defaults.COUNTS_SHARE, defaults.GRID_SHARE
        try:
            return cls(
                budget,
                _counts_charge(layout, share_of(budget, counts)),
                _grid_charge(layout, domain.n_features, share_of(budget, grid)),
                _gradients_charge(layout, share_of(budget, 1 - counts - grid), defaults.least_share(settings.n_rounds)),
            )
        except ValueError:  # raised before any row is read
            raise ValueError(
                "epsilon and delta are too small: their noise would exceed the range of the sampler. Use larger values."
            ) from None


def _counts_charge(layout: TargetLayout, mu_squared: Epsilon) -> Charge:
    kind = ReleaseKind.CLASS_COUNTS if layout.task == "classification" else ReleaseKind.ROW_COUNT
    return _charge(layout, kind, 1, "Each record is counted exactly once.", mu_squared)


def _grid_charge(layout: TargetLayout, n_features: int, mu_squared: Epsilon) -> Charge:
    composition = "Each record has one bin per feature, and adds a vector with a norm of at most one unit to its sums."
    return _charge(layout, ReleaseKind.CODE_SUMS, n_features * layout.units**2, composition, mu_squared)


def _gradients_charge(layout: TargetLayout, mu_squared: Epsilon, least_share: Fraction) -> Charge:
    """Return the charge of the remaining releases, with sums as fine as the noise of the smallest share permits."""
    composition = "Each step adds a bounded vector per record and uses up a share that released counts determine."
    largest = max(gradients_of(layout).for_rounds.squared_sensitivity, layout.units**2)  # of all releases
    for bits in range(BASIS_BITS, -1, -1):
        of_record = (CLIP << bits) ** 2
        if of_record >= largest and mu_squared * least_share * MAX_SIGMA**2 >= of_person(of_record, layout):
            return _charge(layout, ReleaseKind.GRADIENT_SUMS, of_record, composition, mu_squared)
    raise ValueError("The noise of the smallest share is too large.")


def of_person(squared_sensitivity: int, layout: TargetLayout) -> int:
    """Return the squared L2 sensitivity to one person, whose weighted records may all change the same sum."""
    return squared_sensitivity * layout.person_weight**2


def _charge(layout: TargetLayout, kind: ReleaseKind, of_record: int, composition: str, mu_squared: Epsilon) -> Charge:
    bound = Bound(BoundKind.SQUARED_L2, of_person(of_record, layout))
    charge = Charge(kind, Mechanism.ROUNDED_GAUSSIAN, bound, GaussianDP(mu_squared), 1, composition)
    noise_of(charge)
    return charge
