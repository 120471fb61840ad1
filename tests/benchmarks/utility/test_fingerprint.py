"""A fingerprint stays as long as fits do, and changes with them."""

import pytest

from benchmarks.utility.contenders import CONTENDERS
from benchmarks.utility.fingerprint import fingerprint
from diprime import DiPriMeClassifier, DiPriMeRegressor

pytestmark = pytest.mark.audit


def forest(epsilon, domain, task, **settings):
    estimator = DiPriMeRegressor if task == "regression" else DiPriMeClassifier
    return estimator(epsilon, domain, **settings)


def test_fingerprint_is_independent_of_threads():
    assert fingerprint(forest) == CONTENDERS["ours"].release()


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, float("inf")])
def test_fingerprint_changes_with_one_fit(task, epsilon):
    def other(e, domain, t):
        return forest(e, domain, t, **({"max_depth": 2} if (e, t) == (epsilon, task) else {}))

    assert fingerprint(other) != CONTENDERS["ours"].release()


def test_each_diprime_estimator_has_its_own_fingerprint():
    names = ["ours", "boosting", "diprime-flip", "dp-ert"]
    assert len({CONTENDERS[name].release() for name in names}) == len(names)
    assert CONTENDERS["boosting"].release() == CONTENDERS["boosting-limit"].release()
