"""Plans of searches: everything adds up to the budget, before a row is read."""

import math
from fractions import Fraction

import pytest

from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier, DiPriMeRegressor
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.measures import GaussianDP, PrivacyLoss, PureEpsilon
from diprime.search.plan import CHOICE_SHARE, SearchPlan, SearchSettings
from tests.small_data import DOMAINS

DELTA = Fraction(1, 10**6)


def settings_of(n, rule, *, refit, epsilon=Fraction(3), delta=Fraction(0), parameter="max_depth"):
    values = [{parameter: i} for i in range(1, n + 1)]
    return SearchSettings(epsilon, delta, values, rule, 40, Fraction(1, 5), refit)


def plan_of(settings, kind=DiPriMeClassifier):
    task = "regression" if kind is DiPriMeRegressor else "classification"
    return SearchPlan.make(kind(domain=DOMAINS[task]), settings, DOMAINS[task])


def planned_loss(plan):
    """Return what a search costs by its plan, with the refit of its first candidate."""
    refitted = plan.candidates[0].refitted
    losses = [plan.fits.loss, *([plan.choice.loss] if plan.choice_adds else [])]
    return sum(losses + ([refitted.measure.loss(1)] if refitted else []), PrivacyLoss())


@pytest.mark.parametrize("epsilon", [Fraction(1, 7), Fraction(3), math.inf])
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize(("rule", "n"), [("all", 1), ("all", 3), ("all", 7), ("stopping", 1), ("stopping", 8)])
@pytest.mark.parametrize("kind", [DiPriMeClassifier, DiPriMeRegressor])
def test_a_search_of_forests_costs_exactly_its_epsilon(kind, rule, n, refit, epsilon):
    plan = plan_of(settings_of(n, rule, refit=refit, epsilon=epsilon), kind)
    assert planned_loss(plan) == PrivacyLoss(epsilon)
    tried = plan.candidates[0].tried.measure
    assert isinstance(tried, PureEpsilon)
    assert plan.fits.measure == tried
    assert plan.fits.times == (n if rule == "all" else 3)
    assert plan.choice.total == (plan.fits.total if rule == "all" else tried.epsilon)


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("n", [1, 3, 7])
def test_a_search_of_boosted_models_costs_exactly_its_epsilon_and_delta(n, refit):
    settings = settings_of(n, "all", refit=refit, delta=DELTA, parameter="n_rounds")
    plan = plan_of(settings, DiPriMeBoostingClassifier)
    pure = 3 * CHOICE_SHARE
    assert planned_loss(plan) == PrivacyLoss(pure, gaussian_budget(3 - pure, DELTA))
    assert plan.choice_adds
    assert isinstance(plan.fits.measure, GaussianDP)


def test_a_choice_that_costs_more_than_is_charged_is_refused():
    plan = plan_of(settings_of(2, "all", refit=False))
    dear = plan_of(settings_of(2, "all", refit=False, epsilon=Fraction(4))).choice
    with pytest.raises(AssertionError, match="more than the 3 that is charged"):
        SearchPlan(plan.candidates, plan.fits, dear, choice_adds=False)


def test_charges_say_what_was_tried_and_how():
    fits = plan_of(settings_of(2, "all", refit=False)).fits
    assert fits.what == "fits of 2 settings"
    assert "max_depth=1; max_depth=2" in fits.composition
    assert "exponential mechanism with cost range 1 for epsilon = 3" in fits.composition
    stopping = plan_of(settings_of(9, "stopping", refit=True)).fits
    assert (stopping.what, stopping.mechanism) == ("best of a random number of fits", "random stopping")
    assert stopping.bound == "from 1 to 40 fits"
    assert "and 3 more" in stopping.composition


def test_a_setting_that_cannot_be_fitted_is_refused_by_the_plan():
    settings = settings_of(2, "all", refit=False, parameter="split_share")
    with pytest.raises(ValueError, match="split_share"):
        plan_of(settings)
