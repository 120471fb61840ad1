"""Lower bounds hold as often as they say, whatever is true, and come close to it."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from benchmarks.audit.bounds import Seen


def chance_of_error(bound, p, q, n, truth):
    """Return the exact probability that a bound is above the truth, if an event has these two probabilities."""
    counts = np.arange(n + 1)
    first, second = np.meshgrid(counts, counts, indexing="ij")
    wrong = bound(Seen(first, n, second, n)) > truth
    chances = np.outer(binom.pmf(counts, n, p), binom.pmf(counts, n, q))
    return float(chances[wrong].sum())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("error", [0.1, 0.01])
def test_epsilon_bound_holds_for_randomised_response(epsilon, error):
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    for n in (20, 200):
        assert chance_of_error(lambda seen: seen.epsilon(error), p, 1 - p, n, epsilon) <= error


def test_epsilon_bound_holds_for_rare_and_frequent_events():
    for q, epsilon in itertools.product([0.001, 0.05, 0.3], [0.2, 1.0]):
        p = math.exp(epsilon) * q
        assert chance_of_error(lambda seen: seen.epsilon(0.05), p, q, 100, epsilon) <= 0.05


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_mu_bound_holds_for_a_normal_test(mu):
    for threshold in (-1.0, 0.0, mu / 2, mu, 2 * mu):
        p, q = norm.sf(threshold - mu), norm.sf(threshold)
        assert chance_of_error(lambda seen: seen.mu(0.05), p, q, 150, mu) <= 0.05


def test_delta_bound_holds():
    p, q, epsilon = 0.4, 0.1, 0.5
    delta = p - math.exp(epsilon) * q
    assert chance_of_error(lambda seen: seen.delta(epsilon, 0.05), p, q, 150, delta) <= 0.05


def test_uncorrected_bound_fails():
    """The enumeration has the power to see a bound that fails ten times as often as it says."""
    p = math.exp(1.0) / (1 + math.exp(1.0))
    assert chance_of_error(lambda seen: seen.epsilon(0.9), p, 1 - p, 200, 1.0) > 0.05


def test_bounds_are_tight_with_many_fits():
    n, p = 10_000, math.e / (1 + math.e)
    seen = Seen(round(n * p), n, round(n * (1 - p)), n)
    assert 0.9 < seen.epsilon(1e-3) < 1
    seen = Seen(round(n * norm.cdf(0.5)), n, round(n * norm.cdf(-0.5)), n)
    assert 0.9 < seen.mu(1e-3) < 1
    assert 0 < seen.delta(0.5, 1e-3) < norm.cdf(0.5) - math.exp(0.5) * norm.cdf(-0.5)


def test_events_within_delta_give_no_epsilon():
    seen = Seen(1_000, 10_000, 0, 10_000)
    assert seen.epsilon(1e-3) > seen.epsilon(1e-3, 0.05) > 0
    assert seen.epsilon(1e-3, 0.2) == 0
