"""The plan of a boosted fit: its charges add up exactly to the largest μ² that epsilon and delta allow."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor, Domain, Numeric
from diprime.boosting import defaults
from diprime.boosting.budget import noise_of
from diprime.boosting.gradients import BASIS_BITS, CLIP, gradients_of
from diprime.boosting.plan import BoostingPlan, BoostingSettings
from diprime.privacy.charges import ReleaseKind
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.mechanisms.gaussian import MAX_SIGMA, gaussian_sigma
from tests.paid import open_account, so_far

FEATURES = {"x": Numeric(0, 1), "kind": Categorical(range(5)), "z": Numeric(0, 9)}
DOMAINS = {
    "one": Domain(FEATURES, Categorical([0])),
    "two": Domain(FEATURES, Categorical([0, 1])),
    "many": Domain(FEATURES, Categorical(range(26))),
    "number": Domain(FEATURES, Numeric(0, 1)),
}
MILLIONTH = Fraction(1, 10**6)


def settings_of(epsilon=Fraction(1), delta=MILLIONTH, n_rounds=50, max_records_per_group=1, n_fits=1):
    return BoostingSettings(epsilon, delta, n_rounds, 0.1, True, False, max_records_per_group, n_fits)


@given(
    st.sampled_from(sorted(DOMAINS)),
    st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=10**6),
    st.sampled_from([Fraction(1, 10**k) for k in (1, 3, 6, 9, 12)]),
    st.integers(1, 100_000),
)
@settings(deadline=None, max_examples=60)
def test_charges_add_up_to_the_budget_and_a_ledger_takes_them(task, epsilon, delta, n_rounds):
    plan = BoostingPlan.make(settings_of(epsilon, delta, n_rounds), DOMAINS[task])
    assert plan.mu_squared == gaussian_budget(epsilon, delta)
    assert sum(charge.total for charge in plan.charges) == plan.mu_squared
    account = open_account(epsilon, delta)
    for charge in plan.charges:
        account.pay(charge)
    ledger = so_far(account)
    assert ledger.total == epsilon
    assert ledger.is_private


@pytest.mark.parametrize("task", DOMAINS)
def test_charges_state_kind_and_sensitivity(task):
    plan, domain = BoostingPlan.make(settings_of(), DOMAINS[task]), DOMAINS[task]
    counts = ReleaseKind.ROW_COUNT if task == "number" else ReleaseKind.CLASS_COUNTS
    assert [charge.kind for charge in plan.charges] == [counts, ReleaseKind.CODE_SUMS, ReleaseKind.GRADIENT_SUMS]
    assert [charge.n_releases for charge in plan.charges] == [1, 1, 1]
    assert plan.counts.sensitivity.n == 1
    assert plan.grid.sensitivity.n == 3 * domain.layout.units**2
    assert plan.gradients.sensitivity.n == (CLIP << BASIS_BITS) ** 2
    parts = [charge.total / plan.mu_squared for charge in plan.charges]
    assert parts == [defaults.COUNTS_SHARE, defaults.GRID_SHARE, 1 - defaults.COUNTS_SHARE - defaults.GRID_SHARE]


@pytest.mark.parametrize("n_rounds", [1, 400, 100_000])
@pytest.mark.parametrize("k", [1, 2, 100])
@pytest.mark.parametrize("task", DOMAINS)
def test_small_budgets_have_coarser_sums_or_are_refused(task, k, n_rounds):
    made = [check_small_budget(task, Fraction(10**power), k, n_rounds) for power in np.arange(-8, 1, 0.25).tolist()]
    assert {True, False} == set(made)


def check_small_budget(task, epsilon, k, n_rounds):
    """Check the plan, and return whether there is one."""
    domain = DOMAINS[task]
    asked = settings_of(epsilon, Fraction(1, 10**12), n_rounds, k)
    weight = domain.layout.of_persons(k).person_weight
    largest = max(gradients_of(domain.layout).for_rounds.squared_sensitivity, domain.layout.units**2)
    try:
        plan = BoostingPlan.make(asked, domain)
    except ValueError:
        least = asked.mu_squared * min(
            (1 - defaults.COUNTS_SHARE - defaults.GRID_SHARE) * defaults.least_share(n_rounds), defaults.COUNTS_SHARE
        )
        assert least * MAX_SIGMA**2 < 4 * largest * weight**2, "noise of the coarsest sums cannot be drawn"
        return False
    charge = plan.gradients
    noise_of(charge, defaults.least_share(n_rounds))  # can be drawn
    of_record, rest = divmod(charge.sensitivity.n, weight**2)
    assert rest == 0
    assert of_record in [(CLIP << bits) ** 2 for bits in range(BASIS_BITS + 1)]
    assert of_record >= largest, "for every release from this charge"
    if of_record < (CLIP << BASIS_BITS) ** 2:
        with pytest.raises(ValueError, match="mu"):
            gaussian_sigma(charge.measure.mu_squared * defaults.least_share(n_rounds), 4 * charge.sensitivity.n)
    return True


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), math.inf])
@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("task", DOMAINS)
def test_budgets_of_persons_add_up(task, k, epsilon):
    plan = BoostingPlan.make(settings_of(epsilon, max_records_per_group=k), DOMAINS[task])
    assert sum(charge.total for charge in plan.charges) == plan.mu_squared == gaussian_budget(epsilon, MILLIONTH)


@pytest.mark.parametrize("task", DOMAINS)
def test_norm_of_a_person_is_that_of_a_record_times_her_weight(task):
    one = BoostingPlan.make(settings_of(), DOMAINS[task])
    for k in (2, 5):
        weight = DOMAINS[task].layout.of_persons(k).person_weight
        assert weight > 1
        persons = BoostingPlan.make(settings_of(max_records_per_group=k), DOMAINS[task])
        for of_record, of_person in zip(one.charges, persons.charges, strict=True):
            # Her vectors may all be equal, so norms add up: the squared norm grows with the square of the weight.
            assert of_person.sensitivity.n == of_record.sensitivity.n * weight**2
            assert of_person.total == of_record.total


@pytest.mark.parametrize("task", DOMAINS)
def test_fits_that_share_a_budget_cost_it_together(task):
    for n_fits in (2, 7):
        plan = BoostingPlan.make(settings_of(n_fits=n_fits), DOMAINS[task])
        assert n_fits * sum(charge.total for charge in plan.charges) == gaussian_budget(Fraction(1), MILLIONTH)


@pytest.mark.parametrize("task", DOMAINS)
def test_plan_that_adds_up_to_something_else_is_refused(task):
    plan = BoostingPlan.make(settings_of(), DOMAINS[task])
    for name in ("counts", "grid", "gradients"):
        for times in (0, 2):
            with pytest.raises(AssertionError, match=f"{plan.mu_squared}"):
                replace(plan, **{name: replace(getattr(plan, name), n_releases=times)})
    with pytest.raises(AssertionError, match=f"{plan.mu_squared * 2}"):
        replace(plan, mu_squared=plan.mu_squared * 2)


@pytest.mark.parametrize("task", DOMAINS)
def test_infinite_epsilon_has_no_noise(task):
    plan = BoostingPlan.make(settings_of(math.inf), DOMAINS[task])
    assert plan.mu_squared == math.inf
    assert {charge.total for charge in plan.charges} == {math.inf}
    assert {noise_of(charge) for charge in plan.charges} == {0.0}


def test_noise_of_a_charge_is_that_of_the_mechanism():
    plan = BoostingPlan.make(settings_of(), DOMAINS["number"])
    for charge in plan.charges:
        sigma = gaussian_sigma(charge.measure.mu_squared, charge.sensitivity.n)
        assert noise_of(charge) == float(sigma)
        assert sigma**2 >= charge.sensitivity.n / charge.measure.mu_squared


class NotToBeRead:
    """Rows that fail when they are looked at."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} was asked of the rows")

    def __array__(self, *_, **__):
        raise AssertionError("the rows were read")


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-15, 1e-15), (Fraction(1, 10**40), 1e-12), (1e-9, Fraction(1, 10**60))]
)
@pytest.mark.parametrize("kind", [DiPriMeBoostingClassifier, DiPriMeBoostingRegressor])
def test_budget_whose_noise_cannot_be_drawn_is_refused_before_a_row_is_read(kind, epsilon, delta):
    domain = DOMAINS["number" if kind is DiPriMeBoostingRegressor else "two"]
    model = kind(epsilon, domain, delta=delta)
    with pytest.raises(ValueError, match="too small") as caught:
        model.fit(NotToBeRead(), np.zeros(3))
    assert "\n" not in str(caught.value)
    assert not hasattr(model, "privacy_")
