"""The settings that a search chooses among, and the estimators that it takes."""

import math
from fractions import Fraction

import pytest
from scipy import stats
from sklearn.ensemble import RandomForestClassifier

from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier, DiPriMeRegressor
from diprime.privacy.charges import Mechanism
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.measures import GaussianDP, PrivacyLoss, PureEpsilon
from diprime.search.plan import (
    CHOICE_SHARE,
    FIXED,
    SearchPlan,
    SearchSettings,
    check_estimator,
    list_settings,
    with_setting,
)
from tests.small_data import DOMAINS


def test_all_combinations_of_lists_are_settings():
    settings = list_settings({"max_depth": [1, "auto"], "balance": [0, 1]}, None, None)
    assert len(settings) == 4
    assert {"max_depth": "auto", "balance": 0} in settings
    assert list_settings([{"max_depth": [1]}, {"method": ["random"]}], None, None) == [
        {"max_depth": 1},
        {"method": "random"},
    ]


def test_settings_are_drawn_from_distributions():
    distributions = {"split_share": stats.uniform(0.1, 0.8), "max_depth": [1, 2, 3]}
    settings = list_settings(distributions, 20, 0)
    assert len(settings) == 20
    assert all(0.1 <= s["split_share"] <= 0.9 and s["max_depth"] in (1, 2, 3) for s in settings)
    assert settings == list_settings(distributions, 20, 0)
    with pytest.raises(ValueError, match="requires n_iter"):
        list_settings(distributions, None, None)


@pytest.mark.parametrize("n_iter", [0, -1, 2.0, True, "3"])
def test_impossible_number_of_settings_is_refused(n_iter):
    with pytest.raises(ValueError, match=rf"^n_iter .*integer .*got {n_iter!r}"):
        list_settings({"max_depth": [1]}, n_iter, None)


@pytest.mark.parametrize("name", sorted(FIXED))
def test_fixed_parameters_cannot_be_searched(name):
    with pytest.raises(ValueError, match=f"select {name}, "):
        list_settings([{"max_depth": [1]}, {name: [1, 2]}], None, None)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (RandomForestClassifier(), "diprime estimator, got RandomForestClassifier"),
        (DiPriMeClassifier, "diprime estimator, got ABCMeta"),
        (DiPriMeClassifier(epsilon=2), "epsilon to PrivateSearch.* 2"),
        (DiPriMeBoostingClassifier(random_state=1), "random_state to PrivateSearch"),
    ],
)
def test_unsuitable_estimators_are_refused(estimator, message):
    with pytest.raises((TypeError, ValueError), match=message):
        check_estimator(estimator)


def test_candidate_is_a_silent_copy_with_the_setting():
    estimator = DiPriMeClassifier(domain=DOMAINS["classification"], verbose=1)
    model = with_setting(estimator, {"max_depth": 3}, 7)
    assert (model.max_depth, model.epsilon, model.verbose) == (3, 7, 0)
    assert model.domain == DOMAINS["classification"]
    assert (estimator.max_depth, estimator.epsilon, estimator.verbose) == ("auto", 1.0, 1)


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
def test_search_of_forests_costs_exactly_its_epsilon(kind, rule, n, refit, epsilon):
    plan = plan_of(settings_of(n, rule, refit=refit, epsilon=epsilon), kind)
    assert planned_loss(plan) == PrivacyLoss(epsilon)
    tried = plan.candidates[0].tried.measure
    assert isinstance(tried, PureEpsilon)
    assert plan.fits.measure == tried
    assert plan.fits.n_releases == (n if rule == "all" else 3)
    assert plan.choice.total == (plan.fits.total if rule == "all" else tried.epsilon)


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("n", [1, 3, 7])
def test_search_of_boosted_models_costs_exactly_its_epsilon_and_delta(n, refit):
    settings = settings_of(n, "all", refit=refit, delta=DELTA, parameter="n_rounds")
    plan = plan_of(settings, DiPriMeBoostingClassifier)
    pure = 3 * CHOICE_SHARE
    assert planned_loss(plan) == PrivacyLoss(pure, gaussian_budget(3 - pure, DELTA))
    assert plan.choice_adds
    assert isinstance(plan.fits.measure, GaussianDP)


def test_choice_that_costs_more_than_is_charged_is_refused():
    plan = plan_of(settings_of(2, "all", refit=False))
    dear = plan_of(settings_of(2, "all", refit=False, epsilon=Fraction(4))).choice
    with pytest.raises(AssertionError, match=r"selection .*the 3 .*charged"):
        SearchPlan(plan.candidates, plan.fits, dear, choice_adds=False)


def test_charges_describe_the_settings_and_the_rule():
    fits = plan_of(settings_of(2, "all", refit=False)).fits
    assert fits.description == "fits of 2 combinations"
    assert "max_depth=1; max_depth=2" in fits.composition
    assert "exponential mechanism with cost range 1 for epsilon = 3" in fits.composition
    stopping = plan_of(settings_of(9, "stopping", refit=True)).fits
    assert (stopping.description, stopping.mechanism) == ("best of a random number of fits", Mechanism.RANDOM_STOPPING)
    assert str(stopping.sensitivity) == "from 1 to 40 fits"
    assert "and 3 more" in stopping.composition


def test_setting_that_cannot_be_fitted_is_refused_by_the_plan():
    settings = settings_of(2, "all", refit=False, parameter="split_share")
    with pytest.raises(ValueError, match="split_share"):
        plan_of(settings)
