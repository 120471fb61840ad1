"""The clip of residuals: it moves only if released tails are clearly above or below the wanted one."""

import numpy as np
import pytest

from diprime.boosting import defaults
from diprime.boosting.budget import DividedBudget
from diprime.boosting.clipping import EDGES, Clipping
from diprime.boosting.gradients import BASIS_BITS, CLIP, RANGE_BITS, CurveGrid
from diprime.domain.encoding import TargetLayout
from diprime.domain.features import TARGET_UNITS
from diprime.privacy.charges import Mechanism
from diprime.privacy.randomness import RandomSource
from tests.paid import gaussian_receipt

LAYOUT = TargetLayout.of_number(TARGET_UNITS)
FINE, COARSE = 1e4, defaults.FINE_CLIPS - 1
START = CurveGrid.constant_scores(np.zeros(1, dtype=np.int32))


class FixedResiduals:
    """Engine with given residuals."""

    def __init__(self, residuals):
        self.residuals = np.asarray(residuals)

    def start(self, grid):
        self.grid = grid

    def residual_counts(self, scale, edges):
        return np.bincount(np.searchsorted(edges, self.residuals, side="right"), minlength=len(edges) + 1)


def clipping(residuals, mu_squared=np.inf, signal=FINE, n_rows=None, seed=0):
    sensitivity = (CLIP << BASIS_BITS) ** 2
    receipt = gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN, mu_squared, calibrated_to=sensitivity)
    budget = DividedBudget(receipt, LAYOUT, RandomSource(seed))
    return Clipping(FixedResiduals(residuals), budget, TARGET_UNITS, n_rows or max(len(residuals), 1), signal)


def clip_after(of_fit):
    of_fit.measure(START)
    return of_fit.gradients.clip


def test_edges_lead_up_to_the_whole_range_and_contain_the_first_clip():
    assert (np.diff(EDGES) > 0).all()
    assert EDGES[0] >= 1
    assert EDGES[-1] == 1 << RANGE_BITS
    for signal in (FINE, COARSE):
        assert defaults.FIRST_CLIP in clipping([1], signal=signal)._edges
    assert clipping([1]).gradients.clip == defaults.FIRST_CLIP


@pytest.mark.parametrize("scale", [2**10, 2**14, 2**20, 2**22])
@pytest.mark.parametrize("signal", [FINE, COARSE])
def test_clip_is_next_to_the_wanted_quantile(scale, signal):
    residuals = np.abs(np.random.default_rng(0).normal(0, scale, 20_000)).astype(np.int64)
    of_fit = clipping(residuals, signal=signal)
    wanted = np.quantile(residuals, 1 - defaults.clipped_share(signal))
    ratio = np.sqrt(2) if signal == FINE else 2
    found = clip_after(of_fit)
    assert found in of_fit._edges
    # The clip stays where it is, or stops at the first edge on the other side of the quantile.
    assert wanted / ratio <= 1.01 * found
    assert found <= 1.01 * ratio * wanted
    assert clip_after(of_fit) == found, "a second look changes nothing"


@pytest.mark.parametrize("n_above", [0, 5, 6, 14, 15, 100])
def test_clip_moves_up_only_on_clear_evidence(n_above, monkeypatch):
    """The wanted tail has 10 of 100 records, and its noise is 5 records."""
    residuals = np.full(100, defaults.FIRST_CLIP - 1)
    residuals[:n_above] = EDGES[-1] - 1
    of_fit = clipping(residuals, signal=1e9)
    monkeypatch.setattr(of_fit, "_noise", 5 / np.sqrt(6))  # the tail from the first clip on is a sum of seven counts
    of_first = np.sqrt(len(EDGES) - np.searchsorted(EDGES, defaults.FIRST_CLIP)) * of_fit._noise
    found = clip_after(of_fit)
    assert (found > defaults.FIRST_CLIP) == (n_above > 10 + of_first)
    assert found >= defaults.FIRST_CLIP


@pytest.mark.parametrize("n_next", [0, 2, 4, 6, 10])
def test_clip_moves_down_only_on_clear_evidence(n_next, monkeypatch):
    """All residuals are tiny, except for those between the next smaller clip and the first one."""
    place = int(np.searchsorted(EDGES, defaults.FIRST_CLIP))
    residuals = np.full(100, 1)
    residuals[:n_next] = EDGES[place] - 1
    of_fit = clipping(residuals, signal=1e9)
    monkeypatch.setattr(of_fit, "_noise", 2.0)
    of_next = 2 * np.sqrt(len(EDGES) - place + 1)
    assert (clip_after(of_fit) < defaults.FIRST_CLIP) == (n_next < 10 - of_next)


@pytest.mark.parametrize("signal", [1.0, 30.0, 1e3])
def test_noise_alone_seldom_moves_the_clip(signal):
    """Without records, the tail is within one standard deviation of its noise; no share of 60 draws is below 40%."""
    moved = [clip_after(clipping([], 1e-6, signal, 1.0, seed)) != defaults.FIRST_CLIP for seed in range(60)]
    assert np.mean(moved) < 0.6


@pytest.mark.parametrize(("signal", "n_rows"), [(1, 1.0), (1e4, 1e12), (1e4, 1e-3)])
def test_clip_is_an_edge_for_any_release(signal, n_rows):
    for seed in range(20):
        residuals = np.random.default_rng(seed).integers(0, 1 << 25, 30)
        of_fit = clipping(residuals, 1e-5, signal, n_rows, seed)
        for _ in range(5):
            assert clip_after(of_fit) in EDGES


def test_extreme_residuals_lead_to_the_extreme_clips():
    assert clip_after(clipping(np.full(1000, 1 << 27))) == EDGES[-1]
    assert clip_after(clipping(np.zeros(1000, dtype=np.int64))) == EDGES[0]


@pytest.mark.parametrize(("share", "is_close"), [(0.7, False), (0.9, True)])
def test_targets_near_the_start_are_noticed_on_clear_evidence(share, is_close):
    residuals = np.where(np.arange(1000) < 1000 * share, 1 << 15, 1 << 23)
    assert clipping(residuals).measure(START) == is_close
    assert not clipping(residuals, 1e-4).measure(START), "noise of thousands of records"
