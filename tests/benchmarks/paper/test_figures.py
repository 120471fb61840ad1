"""The machinery of the paper's figures: what is run, what is kept, what is drawn."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from benchmarks.data import Dataset
from benchmarks.paper.figures import published
from benchmarks.paper.figures.leaves import leaf_counts, leaves_of_multiway_trees, left_fractions
from benchmarks.paper.fits import Fit, Results
from diprime import Categorical, Domain, Numeric
from tests.small_data import make


def dataset(task):
    """Return a small data set of four numeric features."""
    X, y = make(task, 300)
    frame = pd.DataFrame(np.nan_to_num(X), columns=["a", "b", "c", "d"])
    if task == "classification":
        y = (y == "a").astype(int)
    target = Numeric(0, 10) if task == "regression" else Categorical([0, 1])
    domain = Domain({name: Numeric(0, 1000) for name in frame}, target)
    return Dataset(task, task, task, frame, y, domain, (), (), epsilon=1.0, min_leaf=25, max_features=2)


def test_left_fractions_of_a_tree():
    """Leaves 3 1 | 0 0 and the node above them 4 | 0: the empty node has no fraction."""
    assert sorted(left_fractions(np.array([3, 1, 0, 0]))) == [0.75, 1.0]


def test_leaves_of_a_pruned_tree_are_those_that_can_be_reached():
    forest = SimpleNamespace(
        roots=np.array([0]),
        features=np.array([0, -1, 1, -1, -1, -1, -1]),
        first_children=np.array([1, 5, 3, 0, 0, 0, 0]),  # node 1 was pruned: nodes 5 and 6 hang on it no more
        branches=SimpleNamespace(n_branches=np.array([2, 2])),
    )
    assert [leaves.tolist() for leaves in leaves_of_multiway_trees(forest)] == [[1, 3, 4]]


@pytest.mark.parametrize("method", ["DiPriMe", "DP-RF"])
def test_leaves_hold_all_rows(method):
    data = dataset("classification")
    for counts in leaf_counts(Fit("robot", method, 1, epsilon=5.0, trees=3, depth=2), data):
        assert counts.sum() == 300


@pytest.mark.parametrize("method", ["RF", "ERT", "Median", "DiPriMe", "DiPriMeExp", "DiPriMeFlip", "DP-ERT", "joint"])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_every_method_is_scored_and_again_the_same(method, task):
    fit = Fit(task, method, 2, epsilon=5.0, trees=3, depth=2)
    if method in ("RF", "ERT", "Median"):
        fit = replace(fit, epsilon=float("inf"))
    data = dataset(task)
    scores = fit.scores(data)
    assert len(scores) == 2
    assert scores == fit.scores(data)
    assert min(scores) > 0
    assert max(scores) <= (1 if task == "classification" else 40)


@pytest.mark.parametrize("method", ["DP-RF", "DP-DF"])
def test_baselines_are_scored(method):
    assert 0.3 < Fit("classification", method, 1, epsilon=5.0, depth=2).scores(dataset("classification"))[0] <= 1


def test_soft_accuracy_is_that_of_the_probabilities():
    """A forest that knows nothing gives a half to each class, and so half an accuracy, whatever the base rate."""
    fit = Fit("classification", "DP-ERT", 1, epsilon=1e-6, accounting="strict", soft=True)
    data = dataset("classification")
    assert fit.scores(data)[0] == pytest.approx(0.5, abs=0.1)
    assert replace(fit, soft=False).scores(data)[0] != fit.scores(data)[0]


def test_an_interrupted_run_goes_on(tmp_path):
    first, second = Fit("banknote", "RF", 1), Fit("banknote", "ERT", 1)
    Results(tmp_path / "results" / "kept.jsonl").add(first, [0.25, 0.5])
    again = Results(tmp_path / "results" / "kept.jsonl")
    assert again[first].tolist() == [0.25, 0.5]
    assert again.missing([first, second, second]) == [second]
    assert again.missing([replace(first, repeats=2)]) == [replace(first, repeats=2)]


def test_published_heat_maps_are_complete():
    for maps in (published.MAPS_OF_SHARES, published.MAPS_OF_TREES):
        assert len(maps) == 4
        for grid in maps.values():
            assert np.array(grid).shape == (4, 4)


def test_figures_are_drawn_from_results(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.paper.figures.curves import Appliances, Banknote
    from benchmarks.paper.figures.heatmaps import HeatMaps
    from benchmarks.paper.figures.style import save, set_style

    set_style()
    results = Results(tmp_path / "kept.jsonl")
    rng = np.random.default_rng(0)
    figures = (Appliances(partition=True), Appliances(partition=False), Banknote(), HeatMaps("DiPriMeFlip"))
    for fit in results.missing(fit for figure in figures for fit in figure.fits()):
        score = 0.009 if fit.data == "appliances" else 0.9
        results.add(fit, (score * rng.uniform(0.9, 1.1, fit.repeats)).tolist())
    for figure in figures:
        save(figure.draw(results), tmp_path / f"{figure.name}.svg")
        assert (tmp_path / f"{figure.name}.svg").read_text().startswith("<?xml")
        assert "nan" not in figure.caption(results)
    texts = {figure.name: figure.caption(results) for figure in figures}
    assert "Median distance from the published points" in texts["appliances-parts"]
    assert "Median distance" not in texts["appliances-all-rows"]
