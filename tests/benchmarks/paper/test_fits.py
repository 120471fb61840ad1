"""The fits behind the paper's tables and figures: every method is scored, and scores are kept."""

from dataclasses import replace

import pytest

from benchmarks.paper import tables
from benchmarks.paper.fits import Fit, Results, run
from tests.benchmarks.paper.small_sets import named_set, numeric_set


@pytest.mark.audit
@pytest.mark.parametrize("method", ["RF", "ERT", "Median", "DiPriMe", "DiPriMeExp", "DiPriMeFlip", "DP-ERT", "joint"])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_every_method_is_scored_reproducibly(method, task):
    fit = Fit(task, method, 2, epsilon=5.0, trees=3, depth=2)
    if method in ("RF", "ERT", "Median"):
        fit = replace(fit, epsilon=float("inf"))
    data = numeric_set(task)
    scores = fit.scores(data)
    assert len(scores) == 2
    assert scores == fit.scores(data)
    assert min(scores) > 0
    assert max(scores) <= (1 if task == "classification" else 40)


@pytest.mark.audit
@pytest.mark.parametrize("method", ["DP-RF", "DP-DF"])
def test_baselines_are_scored(method):
    assert 0.3 < Fit("classification", method, 1, epsilon=5.0, depth=2).scores(numeric_set("classification"))[0] <= 1


def test_interrupted_run_resumes(tmp_path):
    first, second = Fit("banknote", "RF", 1), Fit("banknote", "ERT", 1)
    Results(tmp_path / "results" / "kept.jsonl").add(first, [0.25, 0.5])
    again = Results(tmp_path / "results" / "kept.jsonl")
    assert again[first].tolist() == [0.25, 0.5]
    assert again.missing([first, second, second]) == [second]
    assert again.missing([replace(first, repeats=2)]) == [replace(first, repeats=2)]


@pytest.mark.usefixtures("in_this_process")
def test_fits_are_run_and_saved(tmp_path, monkeypatch):
    data = named_set("credit", 200)
    fits = list(tables.cells(data, 1).values())[:3]
    monkeypatch.setattr(
        "benchmarks.paper.fits.load", lambda name, directory: data
    )  # processes are forked, and see it too
    results = Results(tmp_path / "kept.jsonl")
    run(fits, results, None)
    assert not Results(results.path).missing(fits)
    kept = results.path.read_text()
    run(fits, results, None)
    assert results.path.read_text() == kept
    results.forget(fits[:1])
    assert Results(results.path).missing(fits) == fits[:1]
