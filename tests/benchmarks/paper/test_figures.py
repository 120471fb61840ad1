"""The paper's figures: what is counted, what is published, what is drawn."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.paper.figures import published
from benchmarks.paper.figures.leaves import leaf_counts, leaves_of_multiway_trees, left_fractions
from benchmarks.paper.fits import Fit, Results
from tests.benchmarks.paper.small_sets import numeric_set


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
    data = numeric_set("classification")
    for counts in leaf_counts(Fit("robot", method, 1, epsilon=5.0, trees=3, depth=2), data):
        assert counts.sum() == 300


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
