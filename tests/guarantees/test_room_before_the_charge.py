"""A fit for which there is not enough memory is not charged: what it allocates is checked before."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from diprime import Budget, Categorical, DiPriMeClassifier, Domain, Integer, Numeric, private_score
from diprime._util import resources
from tests.cli.running import ENVIRONMENT

SCRIPT = """
import os, resource, sys
import numpy as np
from diprime import *
kind = sys.argv[1]
rng = np.random.default_rng(0)
X = rng.integers(0, 100, size=(400_000, 8)).astype(np.uint8)
y = X[:, 0] > 50
domain = Domain({f"x{i}": Integer(0, 99) for i in range(8)}, target=Categorical([False, True]))
model = DiPriMeClassifier(1.0, domain, n_jobs=2)
if kind == "boosting":
    model = DiPriMeBoostingClassifier(1.0, domain, delta=1e-6, n_rounds=3, n_jobs=2)
if kind == "search":
    model = PrivateSearch(model, {"max_depth": [1, 2]}, epsilon=1.0)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

def fit(slack):
    budget = Budget(2, 1e-5)
    resource.setrlimit(resource.RLIMIT_AS, (used + (slack << 20),) * 2)
    try:
        with budget:
            model.fit(X, y)
    except MemoryError:
        print("no memory", len(budget.entries), flush=True)
    else:
        print("fitted", len(budget.entries), flush=True)

for slack in map(int, sys.argv[2:]):
    child = os.fork()
    if not child:
        fit(slack)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of memory and /proc")
@pytest.mark.parametrize(
    "kind", ["forest", *(pytest.param(kind, marks=pytest.mark.audit) for kind in ("boosting", "search"))]
)
def test_fit_without_enough_memory_is_not_charged(kind):
    command = [sys.executable, "-c", SCRIPT, kind, *map(str, (20, 40, 100, 2000))]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=True)
    said = done.stdout.splitlines()
    assert len(said) == 4
    assert set(said) == {"no memory 0", "fitted 1"}


X, Y = np.arange(100.0)[:, None], np.arange(100) % 2
MODEL = DiPriMeClassifier(1.0, Domain({"x0": Integer(0, 99)}, Categorical([0, 1])))
FITTED = clone(MODEL).fit(X, Y)
CHARGED = {
    "fit": lambda: MODEL.fit(X, Y),
    "learnt domain": lambda: Domain.learn(X, Y, 1.0, target=Categorical([0, 1])),
    "score": lambda: private_score(FITTED, X, Y, epsilon=1.0),
}


@pytest.mark.parametrize("kind", CHARGED)
def test_memory_is_reserved_before_the_charge(kind, monkeypatch):
    monkeypatch.setattr(resources, "TRAINING_BYTES", 1 << 62)
    with Budget(2) as budget, pytest.raises(MemoryError) as error:
        CHARGED[kind]()
    assert budget.entries == ()
    [note] = error.value.__notes__
    assert "not charged" in note


NOT_CHARGED = {
    "target is missing": lambda: MODEL.fit(X),
    "weights": lambda: MODEL.fit(X, Y, sample_weight=Y),
    "table is no table": lambda: MODEL.fit("X", Y),
    "no column of the name": lambda: Domain.learn(
        X, Y, 1.0, features={"x0": Numeric(), "x1": Numeric()}, target=Numeric(0, 1)
    ),
    "no epsilon": lambda: Domain.learn(X, Y, -1.0, features={"x0": Numeric()}, target=Numeric(0, 1)),
    "learnt from no table": lambda: Domain.learn("X", Y, 1.0, target=Numeric(0, 1)),
    "score of no model": lambda: private_score(None, X, Y, epsilon=1.0),
    "score of an unfitted model": lambda: private_score(clone(MODEL), X, Y, epsilon=1.0),
    "score with no epsilon": lambda: private_score(FITTED, X, Y, epsilon=-1.0),
    "score of no table": lambda: private_score(FITTED, "X", Y, epsilon=1.0),
}


@pytest.mark.parametrize("kind", NOT_CHARGED)
def test_errors_before_data_are_read_state_that_nothing_was_charged(kind):
    with Budget(2) as budget, pytest.raises((TypeError, ValueError)) as error:
        NOT_CHARGED[kind]()
    assert budget.entries == ()
    [note] = error.value.__notes__
    assert "not charged" in note
