"""The solver finds small tables exactly, and the most likely ones."""

import itertools
import math

import numpy as np
import pytest

from benchmarks.attacks.reconstruction.released import Released, fit_ours
from benchmarks.attacks.reconstruction.scores import closeness
from benchmarks.attacks.reconstruction.solver import reconstruct
from benchmarks.attacks.reconstruction.tables import BinaryTable, histogram
from diprime import PrivacyWarning

pytest.importorskip("ortools", reason="the attack needs OR-tools: pip install 'diprime[benchmark]'")
pytestmark = pytest.mark.filterwarnings(f"ignore::{PrivacyWarning.__module__}.{PrivacyWarning.__name__}")
TABLE = BinaryTable("made up", np.random.default_rng(1).integers(0, 2, (12, 5)))
SETTINGS = {"method": "random", "n_estimators": 20, "max_depth": 4, "disjoint_rows": False}


def test_small_table_is_reconstructed_from_a_forest_without_noise():
    released = fit_ours(TABLE.rows, TABLE.domain, math.inf, **SETTINGS, random_state=0)
    found = reconstruct([released], 12, 4)
    assert found.proven
    assert closeness(TABLE.rows, found.rows) == (0, 1)


@pytest.mark.audit
def test_private_forest_resists_reconstruction():
    released = fit_ours(TABLE.rows, TABLE.domain, 0.1, **SETTINGS, random_state=0)
    assert closeness(TABLE.rows, reconstruct([released], 12, 4).rows).exact < 0.7


def some_leaves(epsilon):
    """Return two trees on two features, one split each, and noisy counts."""
    leaf_of = np.array([[0, 0, 1, 1], [0, 1, 0, 1]])
    return Released(leaf_of, np.array([[[2, -1], [0, 1]], [[1, 0], [3, 1]]]), epsilon)


def objective(released, numbers, prior):
    """Return the negative logarithm of the posterior probability of a histogram."""
    cost = 0.0
    for leaf_of, sums in zip(released.leaf_of, released.sums, strict=True):
        for leaf, of_class in itertools.product(range(2), range(2)):
            total = sum(numbers[2 * cell + of_class] for cell in range(4) if leaf_of[cell] == leaf)
            cost += released.epsilon * abs(total - sums[leaf, of_class])
    if prior is not None:
        cost += sum(math.lgamma(n + 1) - n * math.log(p) for n, p in zip(numbers, prior, strict=True))
    return cost


@pytest.mark.parametrize("with_prior", [False, True])
def test_solver_finds_the_most_likely_table(with_prior):
    prior = np.random.default_rng(0).dirichlet(np.ones(8)) if with_prior else None
    released = some_leaves(0.7)
    tables = (np.bincount(kinds, minlength=8) for kinds in itertools.combinations_with_replacement(range(8), 3))
    best = min(objective(released, numbers, prior) for numbers in tables)
    found = reconstruct([released], 3, 2, prior=prior)
    assert found.proven
    assert objective(released, histogram(found.rows), prior) == pytest.approx(best, abs=0.02)


def test_indistinguishable_rows_are_chosen_at_random():
    one_split = Released(np.array([[0] * 32 + [1] * 32]), np.array([[[40, 0], [0, 0]]]), math.inf)
    rows = reconstruct([one_split], 40, 6).rows
    assert rows[:, 0].max() == rows[:, -1].max() == 0  # what the tree says
    assert 0.2 < rows[:, 1:-1].mean() < 0.8  # 200 coins are all within these limits but once in 10¹⁶
