"""The clip of residuals: a private quantile, looked at as often as was paid for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diprime.engines.gradients import RANGE_BITS
from diprime.privacy.mechanisms.gaussian import ROUNDED_GAUSSIAN
from diprime.privacy.randomness import RandomSource
from diprime.training.boosting import clipping, defaults
from diprime.training.boosting.clipping import EDGES, clip_rounds, release_clip
from tests.paid import gaussian_receipt


def clip_of(residuals, mu_squared=100, n_rows=None, seed=0):
    """Release the clip of some residuals."""

    def counts(edges):
        return np.bincount(np.searchsorted(edges, residuals, side="right"), minlength=len(edges) + 1)

    receipt = gaussian_receipt(ROUNDED_GAUSSIAN, mu_squared, calibrated_to=1)
    n_rows = len(residuals) if n_rows is None else n_rows
    return release_clip(counts, n_rows, 1, receipt, RandomSource(seed))


@given(st.integers(1, 100_000))
def test_residuals_are_looked_at_as_often_as_was_paid_for(n_rounds):
    rounds = clip_rounds(n_rounds)
    assert sum(rounds.values()) == defaults.N_CLIPS
    assert 0 in rounds, "before the first round"
    assert all(0 <= number < n_rounds for number in rounds)


def test_they_are_looked_at_more_often_at_the_beginning():
    rounds = sorted(clip_rounds(400))
    assert np.all(np.diff(rounds, n=2) >= 0)
    assert rounds[-1] < 400


def test_edges_lead_up_to_the_whole_range():
    assert (np.diff(EDGES) > 0).all()
    assert EDGES[0] > 0
    assert EDGES[-1] == 1 << RANGE_BITS


@pytest.mark.parametrize("scale", [2**10, 2**14, 2**20])
def test_the_clip_is_just_above_the_quantile(scale):
    residuals = np.abs(np.random.default_rng(0).normal(0, scale, 20_000)).astype(np.int64)
    quantile = np.quantile(residuals, defaults.CLIP_QUANTILE)
    clip = clip_of(residuals)
    assert quantile <= 1.02 * clip
    assert clip <= 1.5 * quantile


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_any_release_leads_to_one_of_the_edges(n, seed):
    residuals = np.random.default_rng(seed).integers(0, 1 << 25, n)
    for mu_squared, n_rows in [(1, None), (1e-12, -1000.0), (1e-12, 1e12)]:
        assert clip_of(residuals, mu_squared, n_rows, seed) in EDGES


def test_residuals_beyond_the_range_lead_to_the_whole_range():
    assert clip_of(np.full(1000, 1 << 27)) == EDGES[-1]


def test_no_residuals_lead_to_the_least_clip_and_none_to_zero():
    assert clip_of(np.zeros(1000, dtype=np.int64)) == EDGES[0]
    assert EDGES[0] >= 1


@pytest.mark.parametrize("at", [0, 7, 20, len(EDGES) - 1])
def test_the_clip_follows_from_what_was_released_and_not_from_the_residuals(at, monkeypatch):
    released = np.zeros((1, len(EDGES) + 1), dtype=np.int64)
    released[0, at] = 1000  # all of them right below one edge
    monkeypatch.setattr(clipping, "rounded_gaussian", lambda *arguments: released)
    for scale in (0, 2**10, 2**25):
        assert clip_of(np.full(1000, scale)) == EDGES[at]
