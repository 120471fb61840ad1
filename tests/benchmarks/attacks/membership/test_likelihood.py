"""Likelihood ratios tell apart what differs, and nothing else."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from benchmarks.attacks.membership.likelihood import RIDGE, log_ratio


def test_likelihood_ratio_is_that_of_two_gaussians():
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(0.5, 1, (400, 2)), rng.normal(0, [1, 2], (400, 2))
    points = rng.normal(size=(5, 2))
    ridge = RIDGE * np.diag(np.vstack([inside, outside]).var(axis=0))
    expected = [
        multivariate_normal(s.mean(axis=0), np.cov(s, rowvar=False) + ridge).logpdf(points) for s in (inside, outside)
    ]
    assert log_ratio(inside, outside, points) == pytest.approx(expected[0] - expected[1], abs=1e-5)


def test_constant_statistics_decide_only_where_they_differ():
    inside, outside = np.array([[1.0, 3.0]] * 4), np.array([[0.0, 3.0]] * 4)
    assert log_ratio(inside, outside, inside).min() > 0 > log_ratio(inside, outside, outside).max()
