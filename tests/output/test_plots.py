"""Plots: the artists on the axes show the numbers of the model."""

import math
import sys
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from diprime import Categorical, Charge, DiPriMeClassifier, Domain, Ledger, merge
from diprime.model.tree_view import read_tree
from diprime.output.plots import plot_budget, plot_importances, plot_privacy_utility, plot_tree
from diprime.privacy.measures import GaussianDP, PureEpsilon
from tests.small_data import TASKS, fit, make

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed.")


@pytest.fixture(autouse=True)
def pyplot():
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    for number in pyplot.get_fignums():
        pyplot.figure(number).canvas.draw()  # errors in drawing appear here
    pyplot.close("all")


@pytest.fixture(scope="module")
def models():
    return {task: fit(task, *make(task, 2000), epsilon=2, max_depth=3, n_estimators=2) for task in TASKS}


def texts(ax):
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("plot", [plot_budget, plot_importances, plot_tree])
@pytest.mark.parametrize("task", TASKS)
def test_given_axes_are_used_and_returned(models, task, plot, pyplot):
    _, ax = pyplot.subplots()
    assert plot(models[task], ax=ax) is ax
    assert len(pyplot.get_fignums()) == 1
    assert plot(models[task]) is not ax
    assert len(pyplot.get_fignums()) == 2


def test_the_segments_of_the_budget_add_up_to_epsilon(models):
    ax = plot_budget(models["regression"])
    groups = list(dict.fromkeys(charge.kind for charge in models["regression"].privacy_.charges))
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(2)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == groups
    assert ax.get_title() == "Privacy budget: ε = 2"


def test_merged_fits_have_a_bar_each(models):
    X, y = make("classification", 100)
    more = merge([models["classification"], fit("classification", X, y, epsilon=0.5, method="diprime", max_depth=1)])
    ax = plot_budget(merge([more, models["classification"]]))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["model 1", "model 2", "model 3"]
    for row, total in enumerate((2, 0.5, 2)):
        bars = [bar for bar in ax.patches if round(bar.get_y() + bar.get_height() / 2) == row]
        assert sum(bar.get_width() for bar in bars) == pytest.approx(total)


def test_gaussian_charges_are_drawn_as_shares_of_the_sum_of_their_measure(models):
    ledger = Ledger(1, delta=1e-6)
    ledger.pay(Charge("counts", "discrete Laplace", "none", PureEpsilon(Fraction(1, 10))))
    for kind in ("grid", "cells", "cells", "cells"):
        ledger.pay(Charge(kind, "rounded Gaussian", "none", GaussianDP(Fraction(1, 1000))))
    model = SimpleNamespace(privacy_=ledger)
    ax = plot_budget(model)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["fit, ε", "fit, μ²"]
    widths = [bar.get_width() for bar in ax.patches]
    assert [w for w in widths if w] == pytest.approx([1, 0.25, 0.75])
    assert ax.get_xlabel() == "share of the sum"
    assert ax.get_title() == f"Privacy budget: ε = {float(ledger.total):.6g}, δ = 1e-06"


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_a_model_that_is_not_private_has_a_red_title():
    X, y = make("regression", 100)
    ax = plot_budget(fit("regression", X, y, accounting="paper", max_depth=1))
    assert ax.title.get_color() == "firebrick"
    assert "NOT PRIVATE" in ax.get_title()
    ax = plot_budget(fit("regression", X, y, epsilon=math.inf, max_depth=1))
    assert "NOT PRIVATE" in ax.get_title()
    assert texts(ax) == ["no noise, no budget"]


def test_importances_are_sorted(models):
    model = models["classification"]
    ax = plot_importances(model, most=3)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == sorted(model.feature_importances_, reverse=True)[:3]
    assert ax.get_yticklabels()[0].get_text() == "level"


@pytest.mark.parametrize("task", TASKS)
def test_nodes_show_conditions_estimates_and_noise(models, task):
    ax = plot_tree(models[task], 1, max_depth=2)
    tree = read_tree(models[task], 1)
    assert len(ax.texts) == 7
    assert len(ax.lines) == 6
    for node, text in enumerate(texts(ax)):
        lines = text.split("\n")
        assert f"{tree.counts[node]:,.0f} ± " in lines[-1]
        assert " ± " in lines[-2]
        if node:
            assert lines[0].rstrip("…") in tree.conditions[node]


def test_dollar_signs_do_not_start_formulas():
    domain = Domain({"$pay$ \\frac{": Categorical(["$_$", "b"])}, Categorical(["$^$", "y"]))
    model = DiPriMeClassifier(10, domain, max_depth=1).fit([["b"], ["$_$"]], ["y", "$^$"])
    plot_tree(model)
    plot_importances(model)


def test_scores_are_plotted_as_mean_and_standard_deviation():
    ax = plot_privacy_utility({10: 0.8, 0.1: [0.5, 0.7], math.inf: [0.9, 0.92]}, label="ours", metric="accuracy")
    data, infinite = ax.lines[0], ax.lines[-1]
    assert data.get_xdata().tolist() == [0.1, 10]
    assert data.get_ydata() == pytest.approx([0.6, 0.8])
    assert np.unique(infinite.get_ydata()) == pytest.approx(0.91)
    assert plot_privacy_utility({1: 0.6}, ax, label="theirs") is ax
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ours", "theirs"]
    with pytest.raises(ValueError, match="no finite epsilon"):
        plot_privacy_utility({math.inf: 1})


def test_the_error_names_a_missing_package(models, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'diprime\[plot\]'"):
        plot_tree(models["regression"])
