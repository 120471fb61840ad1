"""Exact losses are those of the exact distributions, and never above what is charged."""

import math

import numpy as np
import pytest

from benchmarks.audit import losses, neighbours
from benchmarks.audit.__main__ import keys
from benchmarks.audit.cases import all_cases, fit_case
from benchmarks.audit.losses import exact_loss, log_likelihood
from benchmarks.audit.measuring import Claim
from benchmarks.audit.transcripts import Release, watching
from diprime import DiPriMeClassifier
from diprime.kernels.constants import ABSENT_COST
from diprime.privacy.charges import Mechanism
from diprime.privacy.mechanisms.selection import exponential_pmf, permute_and_flip_pmf, subset_median_pmf, weight_table

TABLE = weight_table(2, 5, 6)
COSTS = [3, ABSENT_COST, 0, 7, 3]


@pytest.mark.parametrize(
    ("rule", "pmf"), [(Mechanism.EXPONENTIAL, exponential_pmf), (Mechanism.PERMUTE_AND_FLIP, permute_and_flip_pmf)]
)
def test_selection_likelihoods_are_exact(rule, pmf):
    present = [cost for cost in COSTS if cost != ABSENT_COST]
    exact = iter(pmf(present, TABLE))
    for at, cost in enumerate(COSTS):
        if cost != ABSENT_COST:
            release = Release(rule, np.array([COSTS]), np.array([at]), TABLE)
            assert log_likelihood([release]) == pytest.approx(math.log(next(exact)))
    assert log_likelihood([Release(rule, np.array([COSTS]), np.array([-1]), TABLE)]) == 0


def test_categorical_split_likelihoods_are_exact():
    counts = [4, 0, 2, 1]
    for split, p in subset_median_pmf(counts, TABLE).items():
        release = Release("subsets", np.array(counts), np.array(split), TABLE)
        assert log_likelihood([release]) == pytest.approx(math.log(p))


def test_noise_likelihoods_match_their_distribution():
    drawn, ones = np.array([[3, -1]]), np.array([[1, 1]])
    assert log_likelihood([Release("laplace", ones, drawn, 2.0)]) == -(2 + 2) / 2
    assert log_likelihood([Release("gaussian", ones, drawn, 2.0)]) == -(4 + 4) / (2 * 4)


def losses_of(case, n, seed):
    """Return the claim of a case, and the losses of some of its fits."""
    tables = [case.neighbours.table(with_canary=with_it) for with_it in (False, True)]
    fits = [lambda table=table: case.release(*table) for table in tables]
    found = []
    with case.setting(), watching(keys(seed)) as watch:
        for i in range(n):
            model, seen = watch.record(fits[i % 2])
            found.append(exact_loss(watch, seen, with_canary=bool(i % 2), fit_without=fits[0], fit_with=fits[1]))
    return Claim.of(model), found


EXACT = [case for case in all_cases() if case.exact]


@pytest.mark.audit
@pytest.mark.parametrize("case", EXACT, ids=lambda case: f"{case.name}, {case.neighbours.name}")
def test_transcripts_lose_at_most_the_claim(case):
    claim, found = losses_of(case, 10, 3)
    if claim.mu:  # of normal noise, a loss has no bound: it is normal, with a mean of at most μ²/2
        assert max(map(abs, found)) < claim.mu**2 / 2 + 6 * claim.mu
    else:
        assert max(map(abs, found)) <= claim.epsilon * (1 + 1e-9)
    assert max(map(abs, found)) > 0.01, "a canary that changes nothing shows nothing"


def test_leaves_of_an_empty_table_lose_or_gain_all_of_epsilon():
    of, parameters = neighbours.empty_table(), {"epsilon": 3, "method": "random", "n_estimators": 1, "max_depth": 1}
    _, found = losses_of(fit_case("", of, DiPriMeClassifier, 1, **parameters), 20, 5)
    np.testing.assert_allclose(np.abs(found), 3, rtol=1e-5)


def test_unknown_tree_of_the_canary_averages_likelihoods(monkeypatch):
    of = neighbours.last_class()
    case = fit_case("", of, DiPriMeClassifier, 1, epsilon=4, method="random", n_estimators=2, max_depth=1)
    _, found = losses_of(case, 30, 1)
    both, mixed = 4.0, math.log((math.exp(4) + math.exp(-4)) / 2)
    assert all(min(abs(abs(loss) - both), abs(loss - mixed)) < 1e-4 for loss in found)
    assert max(found) <= both
    monkeypatch.setattr(losses, "_log_sum", lambda logarithms: math.log(2) + float(np.max(logarithms)))
    _, taken_for_known = losses_of(case, 30, 1)
    assert taken_for_known != found
