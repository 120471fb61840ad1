"""What the utility benchmark measures: splits, scores, and only what is missing."""

import math

import numpy as np
import pandas as pd
import pytest

from benchmarks.data import Dataset
from benchmarks.utility.contenders import CONTENDERS, Prediction, Task
from benchmarks.utility.measuring import Unit, measure, missing, run, score, split
from benchmarks.utility.results import Key, Results
from diprime import Categorical, Domain, Numeric


def small(y, target):
    X = pd.DataFrame({"a": np.linspace(0, 1, len(y)), "b": ["u", "v"] * (len(y) // 2)})
    domain = Domain({"a": Numeric(0, 1), "b": Categorical(["u", "v"])}, target=target)
    task = "classification" if isinstance(target, Categorical) else "regression"
    return Dataset("small", "Small", task, X, y, domain, ("b",), ("b",), 1.0, 25, 2)


def test_scores_use_the_test_rows():
    data = small(np.array(["n", "y"] * 10), Categorical(["y", "n"]))
    task = Task(data, np.arange(16), np.arange(16, 20))
    p = np.array([0.1, 0.2, 0.6, 0.9])
    assert score(task, Prediction(np.array(["n", "n", "y", "y"]), np.c_[1 - p, p])) == {"accuracy": 0.5, "auc": 0.75}
    numbers = Task(small(np.arange(20.0), Numeric(0, 20)), task.train, task.test)
    assert score(numbers, Prediction(np.array([14.0, 17, 18, 50]))) == {"mse": 1.25}  # 50 is clipped to 20


def test_splits_are_disjoint_complete_and_distinct():
    data = small(np.arange(50.0), Numeric(0, 50))
    first, second = split(data, 0), split(data, 1)
    assert sorted([*first.train, *first.test]) == list(range(50))
    assert len(first.train) == 45
    assert not np.array_equal(first.test, second.test)
    assert np.array_equal(first.test, split(data, 0).test)


@pytest.mark.audit
@pytest.mark.parametrize(
    "contender", ["ours", "ours-limit", "boosting", "boosting-limit", "diprime-flip", "dp-ert", "forest"]
)
def test_only_missing_measurements_are_run(tmp_path, monkeypatch, contender):
    rng = np.random.default_rng(0)
    data = small(rng.integers(0, 3, 600), Categorical([0, 1, 2]))
    monkeypatch.setattr("benchmarks.utility.measuring._load", lambda name: data)
    results = Results(tmp_path / "results.json")
    units = list(missing(results, [contender, "dp-ebm"], ["small"]))  # DP-EBM knows two classes only
    about = CONTENDERS[contender]
    repeats = about.repeats_on(600)
    assert [(unit.contender, unit.repeat) for unit in units] == [(contender, r) for r in range(repeats)]
    assert all(unit.epsilons == about.epsilons for unit in units)
    scores = measure(units[0]._replace(epsilons=about.epsilons[-1:]))
    # Classes that nothing predicts, 60 rows: all wrong, or nine in ten right, happens once in 10^10 runs.
    assert 0 < scores[0]["accuracy"] < 0.9
    results.put(Key(contender, "small", about.epsilons[-1]), about.release(), 0, scores[0])
    left = list(missing(results, [contender], ["small"]))
    assert sum(len(unit.epsilons) for unit in left) == len(about.epsilons) * repeats - 1


@pytest.mark.audit
def test_measurements_run_in_spawned_processes_and_are_saved(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    notes = pd.DataFrame(rng.random((100, 4)), columns=list("abcd")).assign(**{"class": [0, 1] * 50})
    notes.to_parquet(tmp_path / "banknote.parquet")
    monkeypatch.setenv("DIPRIME_DATA", str(tmp_path))
    results = Results(tmp_path / "results.json")
    units = [Unit("forest", "banknote", repeat, (math.inf,)) for repeat in range(2)]
    run(results, units, jobs=1, deadline=math.inf)
    kept = Results(results.path).of("forest", "banknote", math.inf, "accuracy")
    assert len(kept) == 2
    run(results, [Unit("forest", "banknote", 2, (math.inf,))], jobs=1, deadline=-math.inf)
    assert len(Results(results.path).of("forest", "banknote", math.inf, "accuracy")) == 2
