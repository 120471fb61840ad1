"""What attackers are given of forests is what the forests count."""

import math

import numpy as np
import pytest

from benchmarks.attacks.reconstruction.released import WatchedForest, fit_ours, fit_random_forest, of_ours
from benchmarks.attacks.reconstruction.tables import BinaryTable
from diprime import PrivacyWarning

pytestmark = pytest.mark.filterwarnings(f"ignore::{PrivacyWarning.__module__}.{PrivacyWarning.__name__}")
TABLE = BinaryTable("made up", np.random.default_rng(0).integers(0, 2, (60, 5)))
SETTINGS = {"method": "random", "n_estimators": 3, "max_depth": 3, "disjoint_rows": False}


def counted(released, rows):
    """Return the true sums of the leaves."""
    cells = rows[:, :-1] @ (1 << np.arange(rows.shape[1] - 1)[::-1])
    sums = np.zeros_like(released.sums)
    for tree, leaf_of in enumerate(released.leaf_of):
        np.add.at(sums[tree], (leaf_of[cells], rows[:, -1]), 1)
    return sums


def test_released_counts_without_noise_are_exact():
    ours = fit_ours(TABLE.rows, TABLE.domain, math.inf, **SETTINGS)
    peer = fit_random_forest(TABLE.rows, 3, 0)
    assert ours.epsilon == peer.epsilon == math.inf
    for released in (ours, peer):
        assert np.array_equal(released.sums, counted(released, TABLE.rows))


def test_released_counts_match_the_model_and_the_epsilon_of_each_tree():
    model = WatchedForest(6.0, TABLE.domain, **SETTINGS).fit(TABLE.rows[:, :-1], TABLE.rows[:, -1])
    released = of_ours(model, 4)
    assert released.epsilon == pytest.approx(2)
    assert np.array_equal(released.sums.sum(axis=2).ravel(), model.forest_.counts)
