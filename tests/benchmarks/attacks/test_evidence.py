"""What guesses prove."""

import math

import pytest
from scipy.stats import binom

from benchmarks.attacks.evidence import (
    Guesses,
    clopper_pearson,
    gaussian_advantage,
    gaussian_power,
    pure_advantage,
    pure_power,
)


@pytest.mark.parametrize(("hits", "trials"), [(3, 20), (10, 20), (0, 15), (15, 15)])
def test_clopper_pearson_matches_binomial_tails(hits, trials):
    low, high = clopper_pearson(hits, trials, 0.9)
    if hits:
        assert binom.sf(hits - 1, trials, low) == pytest.approx(0.05)
    if hits < trials:
        assert binom.cdf(hits, trials, high) == pytest.approx(0.05)


def test_coin_flips_prove_nothing_and_certainty_is_limited_by_trials():
    coins = Guesses(50, 100, 50, 100)
    assert coins.advantage == 0
    assert coins.epsilon_at_least() == 0
    sure = Guesses(100, 100, 0, 100)
    low, high = sure.advantage_interval()
    assert high == 1
    assert low == pytest.approx(1 - 2 * 0.0428740, rel=1e-3)
    assert sure.epsilon_at_least() == pytest.approx(math.log((1 - 0.0428740) / 0.0428740), rel=1e-3)


def test_randomised_response_attains_the_bounds():
    epsilon = 1.3
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert truth - (1 - truth) == pytest.approx(pure_advantage(epsilon))
    assert pure_power(epsilon, 1 - truth) == pytest.approx(truth)


def test_gaussian_bounds_match_two_normal_distributions():
    assert gaussian_advantage(0) == 0
    assert gaussian_advantage(2) == pytest.approx(0.6826895)
    assert gaussian_power(0, 0.05) == pytest.approx(0.05)
    assert gaussian_power(2, 0.1586553) - 0.1586553 == pytest.approx(gaussian_advantage(2), abs=1e-6)
