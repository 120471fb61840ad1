"""The attack on positions breaks forests that deal rows by position, and none that tosses coins."""

import numpy as np
import pytest

from benchmarks.attacks.our_target import OurForest
from benchmarks.attacks.positions import N_TREES, attack


class ByPosition:
    """Trees of one row each, by position, which report its class with randomised response of ε = 1."""

    def __init__(self, *, shuffled):
        self.rng = np.random.default_rng(0)
        self.shuffled = shuffled

    def fit(self, X, y):
        dealt = self.rng.permutation(y) if self.shuffled else y
        classes = np.append(dealt, np.zeros(N_TREES - len(y), dtype=int))
        lie = self.rng.random(N_TREES) < 1 / (1 + np.e)
        return np.where(lie, 1 - classes, classes)

    def tree_values(self, model, row):
        return model.astype(float)


def test_sampling_by_position_is_detected():
    assert attack(ByPosition(shuffled=False), 2000).epsilon_at_least() > 2


def test_shuffled_rows_pass_the_position_attack():
    assert attack(ByPosition(shuffled=True), 2000).epsilon_at_least() < 1


@pytest.mark.audit
def test_diprime_forest_passes_the_position_attack():
    assert attack(OurForest(1.0, 1), 100).epsilon_at_least() < 1
