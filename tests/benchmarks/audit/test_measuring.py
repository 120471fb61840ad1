"""Claims are read from ledgers, and events are tested by fits that did not find them."""

import math
from contextlib import nullcontext

import numpy as np
import pytest

from benchmarks.audit import measuring, neighbours
from benchmarks.audit.__main__ import keys
from benchmarks.audit.cases import fit_case
from benchmarks.audit.measuring import Bound, Claim, Result, Side, audit
from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier, Domain, Numeric, private_score

EMPTY = neighbours.empty_table()


def bounds(claim, without, with_it, error=0.01):
    """Return the bounds for sides whose models tell as much as their transcripts, without exact losses."""
    sides = [Side(numbers, numbers, np.full(len(numbers), np.nan)) for numbers in (without, with_it)]
    return measuring._bounds(claim, sides, error)


def test_claims_match_ledgers():
    of = neighbours.misfit()
    X, y, _ = of.table(with_canary=True)
    model = DiPriMeClassifier(2.0, of.domain, n_jobs=1).fit(X, y)
    assert Claim.of(model) == Claim(2.0, 0.0, 0.0)
    assert Claim.of(private_score(model, X, y, 0.5)) == Claim(0.5, 0.0, 0.0)
    assert Claim.of(Domain.learn(X, y, 3.0, features={"x0": Numeric()}, target=of.domain.target)).epsilon == 3
    boosted = Claim.of(DiPriMeBoostingClassifier(2.0, of.domain, delta=0.01, n_rounds=2, n_jobs=1).fit(X, y))
    assert (boosted.epsilon, boosted.delta) == (2.0, 0.01)
    assert boosted.mu == pytest.approx(0.896, abs=0.001)
    assert 0.01 < boosted.half_delta < 0.2
    with pytest.raises(TypeError, match="ledger"):
        Claim.of(3)


@pytest.mark.audit
def test_event_is_tested_on_held_out_fits():
    """The first half tells the sides apart, the second does not: nothing must be claimed of it."""
    rng = np.random.default_rng(0)
    without, with_it = rng.normal(size=(400, 1)), rng.normal(size=(400, 1))
    with_it[:200] += 10
    assert all(bound.value < 0.5 for bound in bounds(Claim(1.0, 0.0, 0.0), without, with_it))
    with_it[200:] += 10
    assert all(bound.exceeds for bound in bounds(Claim(1.0, 0.0, 0.0), without, with_it))


@pytest.mark.audit
def test_noise_alone_refutes_nothing():
    """With the error of 1e-6 of each search, a false alarm in 20 of them has a probability below 1e-4."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        found = bounds(Claim(0.0, 0.0, 0.0), rng.normal(size=(200, 50)), rng.normal(size=(200, 50)), error=1e-6)
        assert not any(bound.exceeds for bound in found)


@pytest.mark.audit
def test_gaussian_claims_are_bounded_in_mu_and_in_delta():
    rng = np.random.default_rng(2)
    without, with_it = rng.normal(size=(8000, 1)), rng.normal(1.5, 1, size=(8000, 1))
    right = bounds(Claim(4.0, 0.01, 1.5), without, with_it)
    assert [(bound.source, bound.measure) for bound in right] == [
        ("model", "μ"),
        ("model", "δ"),
        ("transcript", "μ"),
        ("transcript", "δ"),
    ]
    assert not any(bound.exceeds for bound in right)
    assert all(bound.value > 1.2 for bound in right if bound.measure == "μ")
    assert all(bound.value > bound.claim / 2 for bound in right if bound.measure == "δ")
    too_low = bounds(Claim(4.0, 0.01, 0.7 * 1.5), without, with_it)
    assert all(bound.exceeds for bound in too_low)


@pytest.mark.audit
def test_result_contains_largest_loss_and_number_of_fits():
    case = fit_case("leaves", EMPTY, DiPriMeClassifier, 100, epsilon=2, method="random", n_estimators=1, max_depth=1)
    result = audit(case, 81, 1e-3, keys(0))
    assert (result.fits, result.tested) == (81, 41)
    assert result.largest_loss == pytest.approx(2)
    assert result.passes
    assert case.setting is nullcontext
    assert audit(case, 1, 1e-3, keys(0)).fits == measuring.MIN_FITS


def test_controls_pass_if_they_are_refuted_and_claims_if_they_are_not():
    for value, control, passes in [(2.0, "", False), (2.0, "noise", True), (0.5, "", True), (0.5, "noise", False)]:
        bound = Bound("model", "ε", value, 1.0, "x ≥ 0", (9, 1))
        result = Result("case", "canary", control, Claim(1.0, 0.0, 0.0), 20, 10, 1e-3, (bound,), math.nan, 1.0)
        assert result.passes is passes
