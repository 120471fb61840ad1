"""A small audit from end to end: a claim that holds is nearly reached, and a broken one is refuted.

Seeds are fixed. With any others, the bounds of a claim that holds would exceed it with a probability of at most 1e-6.
"""

from dataclasses import replace

import pytest

from benchmarks.audit import neighbours
from benchmarks.audit.__main__ import QUICK_ERROR, keys
from benchmarks.audit.cases import all_cases, fit_case
from benchmarks.audit.controls import too_little_laplace_noise
from benchmarks.audit.measuring import audit
from diprime.paper import DPRandomForestClassifier

N_FITS = 2500
# One release of sums: the fastest fit there is, and all of epsilon is in one number.
SUMS = fit_case(
    "sums", neighbours.off_balance(), DPRandomForestClassifier, N_FITS, epsilon=2, n_estimators=1, max_depth=0
)


@pytest.mark.audit
def test_valid_claim_is_nearly_reached_and_not_refuted():
    result = audit(replace(SUMS, exact=False), N_FITS, QUICK_ERROR, keys(1))
    assert result.passes
    assert 1.3 < max(bound.value for bound in result.bounds) <= 2


@pytest.mark.audit
@pytest.mark.parametrize("seed", [1])
def test_thirty_percent_too_little_noise_is_detected(seed):
    broken = replace(SUMS, exact=False, setting=too_little_laplace_noise)
    result = audit(broken, N_FITS, QUICK_ERROR, keys(seed), "noise × 0.7")
    assert result.exceeds
    assert max(bound.value for bound in result.bounds) > 2.1


def test_every_estimator_method_and_kind_of_neighbour_is_audited():
    text = "; ".join(f"{case.name}: {case.neighbours.name}" for case in all_cases())
    for name in (
        *(
            "random",
            "diprime,",
            "diprime-exp",
            "diprime-flip",
            "joint",
            "boosting",
            "DP-RF",
            "DP-DF",
            "score",
            "learnt",
        ),
        *("2 parts", "all rows in 2 trees", "ranges of nodes", "depth 2", "groups"),
        *(
            "empty table",
            "boundary value",
            "only record of a category",
            "without any value",
            "last class",
            "person with 3",
        ),
    ):
        assert name in text


def test_classification_and_regression_cases_have_different_names():
    """Results are kept by their names."""
    targets = {}
    for case in all_cases():
        target = repr(case.neighbours.domain.target)
        assert targets.setdefault((case.name, case.neighbours.name), target) == target
