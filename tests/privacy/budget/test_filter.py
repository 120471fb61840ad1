"""The filter: what it accepts adds up, and nobody gains more than delta by choosing releases by what they saw."""

import math
from dataclasses import fields
from fractions import Fraction
from functools import reduce
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.privacy.budget.filter import Account, PrivacyFilter
from diprime.privacy.gaussian_dp import covers, delta_upper_bound, epsilon_upper_bound, gaussian_budget
from diprime.privacy.measures import PrivacyLoss

MILLIONTH = Fraction(1, 10**6)
DELTA = Fraction(1, 10**5)
few = settings(deadline=None, max_examples=40)
epsilons = st.fractions(Fraction(1, 20), 12, max_denominator=100)
deltas = st.integers(3, 12).map(lambda digits: Fraction(1, 10**digits))


def pure(epsilon):
    return PrivacyLoss(epsilon=Fraction(epsilon))


def boosted(epsilon, delta=MILLIONTH):
    return PrivacyLoss(mu_squared=gaussian_budget(Fraction(epsilon), delta))


def after(start, *losses):
    """Return the state after charges, or None if one is refused."""
    return reduce(lambda state, loss: None if state is None else state.after(loss), losses, start)


def test_every_component_of_a_loss_has_its_rule_here():
    """A new kind of loss must be given limits in the accounts, or it would be spent for nothing."""
    assert [field.name for field in fields(PrivacyLoss)] == ["epsilon", "mu_squared", "delta"]


def test_charges_with_a_delta_take_it_from_that_of_the_budget():
    part = DELTA / 4
    levels = PrivacyLoss(Fraction(1, 2), delta=part)
    state = after(PrivacyFilter.start(Fraction(3), DELTA), *[levels] * 4)
    assert state.spent == PrivacyLoss(Fraction(2), delta=DELTA)
    assert state.after(PrivacyLoss(Fraction(1, 100), delta=Fraction(1, 10**30))) is None
    assert state.after(pure(1)) is not None
    assert state.after(boosted(Fraction(1, 100))) is None, "no delta is left for it"
    assert PrivacyFilter.start(Fraction(3), Fraction(0)).after(levels) is None


def test_gaussian_charges_get_the_delta_that_is_left_and_then_all_of_it_is_taken():
    part = DELTA / 4
    state = after(PrivacyFilter.start(Fraction(3), DELTA), PrivacyLoss(Fraction(1), delta=part))
    most = gaussian_budget(Fraction(2), DELTA - part)
    assert state.largest_gaussian() == most < gaussian_budget(Fraction(2), DELTA)
    decided = state.after(PrivacyLoss(mu_squared=most))
    assert decided is not None
    assert state.after(PrivacyLoss(mu_squared=most * Fraction(1001, 1000))) is None
    for first in (most, most / 100):
        later = state.after(PrivacyLoss(mu_squared=first))
        assert later.after(PrivacyLoss(Fraction(1, 1000), delta=Fraction(1, 10**12))) is None
    deltas = [delta_upper_bound(a.limit.mu_squared, 3 - a.limit.epsilon) for a in state.after(boosted(1)).accounts]
    assert sum(deltas) <= DELTA - part


def test_pure_charges_add_up_to_epsilon_exactly():
    for delta in (Fraction(0), DELTA):
        state = after(PrivacyFilter.start(Fraction(1), delta), *[pure(Fraction(1, 10))] * 10)
        assert state.spent == pure(1)
        assert state.after(pure(Fraction(1, 10**30))) is None


@pytest.mark.parametrize("loss", [pure(2), PrivacyLoss(math.inf), PrivacyLoss(mu_squared=math.inf), boosted(2)])
def test_what_does_not_fit_is_refused(loss):
    assert PrivacyFilter.start(Fraction(1), MILLIONTH).after(loss) is None
    assert PrivacyFilter.start(Fraction(1), MILLIONTH, Fraction(1, 2)).after(loss) is None


def test_without_delta_nothing_gaussian_fits():
    assert PrivacyFilter.start(Fraction(1), Fraction(0)).after(PrivacyLoss(mu_squared=Fraction(1, 10**9))) is None


def test_two_boosted_models_cost_less_than_the_sum_of_their_epsilons_and_deltas():
    assert after(PrivacyFilter.start(Fraction(2), MILLIONTH), boosted(1), boosted(1))
    assert after(PrivacyFilter.start(Fraction(8, 5), MILLIONTH), boosted(1), boosted(1))
    assert after(PrivacyFilter.start(Fraction(3), DELTA, Fraction(0)), *[boosted(1)] * 9)


def test_whatever_the_budget_covers_is_accepted_as_the_first_gaussian_charge():
    state = after(PrivacyFilter.start(Fraction(3), DELTA), pure(1), boosted(2, DELTA))
    assert state.largest_gaussian() == 0
    assert after(PrivacyFilter.start(Fraction(3), DELTA), pure(1), boosted(Fraction(201, 100), DELTA)) is None


def test_a_part_kept_for_pure_charges_can_be_spent_before_and_after():
    start = PrivacyFilter.start(Fraction(3), DELTA, Fraction(1))
    for charges in ([pure(1), boosted(2, DELTA)], [boosted(2, DELTA), pure(1)]):
        state = after(start, *charges)
        assert state.spent == pure(1) + boosted(2, DELTA)
        assert state.after(pure(Fraction(1, 100))) is None
    assert after(start, pure(3)), "pure charges alone may be all of epsilon"
    assert after(start, pure(3), boosted(Fraction(1, 100))) is None


def test_pure_charges_before_the_first_gaussian_one_count_afterwards():
    state = after(PrivacyFilter.start(Fraction(3), DELTA), pure(1), boosted(1))
    assert {account.counted for account in state.accounts} == {state.spent}
    spent = state.after(PrivacyLoss(mu_squared=state.largest_gaussian()))
    assert spent.after(pure(Fraction(1, 100))) is None, "nothing is left of epsilon"


def test_mixed_orders_of_a_study_fit():
    forest, model, score = pure(1), boosted(1), pure(Fraction(1, 10))
    for order in ([forest, model, score], [model, forest, score], [score, model, forest], [model, score, forest]):
        assert after(PrivacyFilter.start(Fraction(3), DELTA), *order)


def test_many_small_pure_charges_cost_less_than_their_sum_if_that_was_said_before():
    small = [pure(Fraction(1, 20))] * 100
    assert after(PrivacyFilter.start(Fraction(3), DELTA, Fraction(0)), *small)
    assert after(PrivacyFilter.start(Fraction(3), DELTA), *small) is None


@given(epsilons, deltas, st.fractions(0, 1), st.fractions(Fraction(1, 1000), 1))
@few
def test_the_deltas_of_all_accounts_add_up_to_no_more_than_delta(epsilon, delta, spent, share):
    start = PrivacyFilter.start(epsilon, delta)
    before = start.after(pure(epsilon * spent)) if spent else start
    state = before.after(PrivacyLoss(mu_squared=share * gaussian_budget(epsilon - epsilon * spent, delta)))
    if state is None:
        assert spent == 1
        return
    limits = [account.limit for account in state.accounts]
    assert all(limit.epsilon <= epsilon for limit in limits)
    assert sum(delta_upper_bound(limit.mu_squared, epsilon - limit.epsilon) for limit in limits) <= delta


@given(epsilons, deltas, st.lists(st.tuples(st.booleans(), st.fractions(Fraction(1, 50), 1)), max_size=8))
@few
def test_no_account_counts_more_than_its_limit_nor_less_than_was_charged(epsilon, delta, charges):
    state = PrivacyFilter.start(epsilon, delta)
    for is_pure, share in charges:
        largest = state.largest_pure() if is_pure else state.largest_gaussian()
        if not largest:
            continue
        loss = PrivacyLoss(largest * share) if is_pure else PrivacyLoss(mu_squared=largest * share)
        before, state = state, state.after(loss)
        assert state is not None, "what is said to be left is accepted"
        assert state.spent == before.spent + loss
        for account in state.accounts:
            assert account.counted.epsilon <= account.limit.epsilon
            assert account.counted.mu_squared <= account.limit.mu_squared


def test_what_is_left_is_accepted_and_a_little_more_is_not():
    for charges in ([], [pure(1)], [boosted(1)], [pure(Fraction(1, 2)), boosted(1), pure(Fraction(1, 10))]):
        state = after(PrivacyFilter.start(Fraction(3), DELTA), *charges)
        left, more = state.largest_pure(), Fraction(10001, 10000)
        assert state.after(pure(left))
        assert state.after(pure(left * more)) is None
        left = state.largest_epsilon(MILLIONTH)
        assert state.after(boosted(left))
        assert state.after(boosted(left * more)) is None


def test_an_account_counts_a_pure_charge_the_cheaper_way():
    account = Account(PrivacyLoss(Fraction(1), Fraction(1)))
    assert account.after(pure(Fraction(1, 10))).counted.epsilon == 0
    assert account.after(pure(Fraction(9, 10))).counted.mu_squared == 0
    nearly_full = Account(PrivacyLoss(Fraction(1), Fraction(1)), PrivacyLoss(mu_squared=Fraction(1)))
    assert nearly_full.after(pure(Fraction(1, 10))).counted.epsilon == Fraction(1, 10)
    both = PrivacyLoss(Fraction(1, 10), Fraction(1, 2))
    assert account.after(both).counted == both, "what is not all pure is counted as it is"


# -- whoever chooses by what they saw ----------------------------------------------------------------------------------


def gain_of_pure(threshold, epsilon):
    """Return what randomised response adds beyond a threshold of the log-likelihood ratio."""
    likely = 1 / (1 + math.exp(-epsilon))
    up = np.maximum(0, -np.expm1(threshold - epsilon))
    return likely * up + (1 - likely) * np.maximum(0, -np.expm1(threshold + epsilon))


def gain_of_gaussian(threshold, mu_squared):
    mu, cdf = math.sqrt(mu_squared), np.vectorize(NormalDist().cdf)
    if not mu:
        return np.maximum(0, -np.expm1(threshold))
    return cdf(-threshold / mu + mu / 2) - np.exp(threshold) * cdf(-threshold / mu - mu / 2)


def gain_of_choosing(epsilon, first, largest_pure, largest_gaussian):
    """Return sup_S P(S) - e^epsilon·Q(S) of a Gaussian release, then whichever other release is worse given the first.

    Exact up to the grid: the second release is chosen by the log-likelihood ratio of the first.
    """
    mu = math.sqrt(first)
    grid = np.linspace(-9, 9, 4001)
    threshold = float(epsilon) - (first / 2 + mu * grid)
    gains = np.maximum(gain_of_pure(threshold, largest_pure), gain_of_gaussian(threshold, largest_gaussian))
    weights = np.exp(-(grid**2) / 2)
    return float(np.sum(weights * gains) / np.sum(weights))


@pytest.mark.parametrize(("epsilon", "delta"), [(8, Fraction(1, 1000)), (4, DELTA), (2, MILLIONTH)])
@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 3), Fraction(2, 3)])
def test_choosing_the_next_release_by_the_first_one_gains_no_more_than_delta(epsilon, delta, share):
    epsilon = Fraction(epsilon)
    first = share * gaussian_budget(epsilon, delta)
    state = PrivacyFilter.start(epsilon, delta).after(PrivacyLoss(mu_squared=first))
    gain = gain_of_choosing(epsilon, float(first), float(state.largest_pure()), float(state.largest_gaussian()))
    assert 0.3 * float(delta) < gain <= float(delta)


def test_a_filter_that_asks_only_whether_the_sums_are_covered_would_be_wrong():
    """That is why there are accounts: this is what the test above must be able to find."""
    epsilon, delta = Fraction(8), Fraction(1, 1000)
    first = gaussian_budget(epsilon, delta) / 3
    largest_pure = epsilon - epsilon_upper_bound(first, delta)
    assert covers(epsilon, delta, PrivacyLoss(largest_pure * Fraction(9999, 10000), first))
    largest_gaussian = gaussian_budget(epsilon, delta) - first
    either = [
        gain_of_choosing(epsilon, float(first), e, m)
        for e, m in ((float(largest_pure), 0), (0, float(largest_gaussian)))
    ]
    assert max(either) <= float(delta) * 1.0001
    assert gain_of_choosing(epsilon, float(first), float(largest_pure), float(largest_gaussian)) > 1.1 * float(delta)
