"""A fit in memory runs through few modules, so that a reader can follow it. Compiled kernels do not count."""

import sys
import threading

import numpy as np
import pytest

import diprime
from diprime import (
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Numeric,
)

ROOT = diprime.__path__[0]
KERNELS = f"{ROOT}/kernels"  # may be interpreted
LIMIT = 40
FEATURES = {"a": Numeric(0, 10), "b": Numeric(0, 10)}


def modules_of(call):
    """Return the Python modules of diprime whose functions a call runs, in any thread."""
    modules = set()

    def profile(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(ROOT) and not path.startswith(KERNELS):
            modules.add(path[len(ROOT) + 1 :])

    before = sys.getprofile()
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return modules


@pytest.mark.parametrize(
    "make", [DiPriMeClassifier, DiPriMeRegressor, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor]
)
def test_fit_in_memory_runs_through_at_most_40_modules(make):
    X = np.random.default_rng(0).uniform(0, 10, (500, 2))
    is_boosted, is_classifier = "Boosting" in make.__name__, "Classifier" in make.__name__
    y = np.where(X[:, 0] > 5, "yes", "no") if is_classifier else X[:, 0]
    target = Categorical(["no", "yes"]) if is_classifier else Numeric(0, 10)
    model = make(1.0, Domain(FEATURES, target=target), n_jobs=1, **({"n_rounds": 5} if is_boosted else {}))
    modules = modules_of(lambda: model.fit(X, y))
    package = "boosting" if is_boosted else "forest"
    assert {f"estimators/{package}.py", f"{package}/rows.py", "privacy/session.py"} <= modules, "the fit was watched"
    assert len(modules) <= LIMIT, sorted(modules)


def test_modules_of_a_call_include_those_of_other_threads():
    thread = threading.Thread(target=lambda: Domain(FEATURES, target=Numeric(0, 1)).is_complete)
    assert "domain/domain.py" in modules_of(lambda: (thread.start(), thread.join()))
