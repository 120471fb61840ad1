"""Plots: the artists on the axes show the numbers of the model."""

import math
import sys
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from diprime import Categorical, Charge, Date, DiPriMeClassifier, Domain, Integer, Ledger, Numeric, merge
from diprime.model.shapes import largest_effects, shape_of
from diprime.model.tree_view import read_tree
from diprime.output.plots import plot_budget, plot_importances, plot_privacy_utility, plot_shape, plot_tree
from diprime.privacy.measures import GaussianDP, PureEpsilon, rounded_text
from tests.made_additive import DOMAINS as BOOSTED_DOMAINS
from tests.made_additive import as_model, made_forest, made_model
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
    assert ax.get_title() == f"Privacy budget: ε = {rounded_text(ledger.total)}, δ = 1e-06"


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


# -- boosted models ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def boosted():
    return {target: made_model(target, 1, 60) for target in BOOSTED_DOMAINS}


@pytest.mark.parametrize("target", BOOSTED_DOMAINS)
def test_plots_of_forests_work_for_boosted_models(boosted, target):
    model = boosted[target]
    assert plot_importances(model).patches[0].get_width() == pytest.approx(model.feature_importances_.max())
    assert plot_budget(model).get_title() == "Privacy budget: ε = 1"
    (root, *_) = texts(plot_tree(model, 0))
    assert root.startswith("adds ")
    assert "weight" in root


@pytest.mark.parametrize("feature", ["age", "size", "part"])
def test_a_numeric_main_effect_is_a_step_function(boosted, feature):
    model = boosted["two"]
    shape = shape_of(model, (model.domain_.names.index(feature),))
    ax = plot_shape(model, feature)
    (steps,) = ax.patches
    assert steps.get_data().values == pytest.approx(shape.values[:-1, 0])
    assert steps.get_data().edges == pytest.approx(shape.axes[0].edges)
    assert ax.collections[0].get_segments()[0][:, 1] == pytest.approx([shape.values[-1, 0]] * 2)  # missing values
    assert ax.get_xscale() == ("log" if feature == "size" else "linear")
    assert ax.get_ylabel() == "adds to the score of yes"
    (below,) = ax.child_axes
    assert below.get_xlabel() == feature
    assert texts(below) == ["missing"]
    edges, density = below.patches[0].get_data().edges, below.patches[0].get_data().values
    widths = np.diff(np.log(edges) if feature == "size" else edges)
    assert (density * widths) == pytest.approx(shape.axes[0].weights)


def test_a_categorical_main_effect_is_bars(boosted):
    ax = plot_shape(boosted["number"], "side")
    shape = shape_of(boosted["number"], (4,))
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(shape.values[:, 0])
    labels = [label.get_text() for label in ax.child_axes[0].get_xticklabels()]
    assert labels == ["left", "right", "unlisted", "missing"]
    assert ax.get_ylabel() == "adds to the prediction"


def test_classes_have_a_line_or_a_bar_each(boosted):
    model = boosted["three"]
    for feature, n in (("age", 3), ("side", 12)):
        ax = plot_shape(model, feature)
        assert len(ax.patches) == n
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b", "c"]
    ax = plot_shape(model, ["age"], target="b")
    assert ax.patches[0].get_data().values == pytest.approx(shape_of(model, (0,)).values[:-1, 1])
    assert ax.get_ylabel() == "adds to the score of b"


def test_an_interaction_is_a_heat_map(boosted):
    model = boosted["three"]
    pair = largest_effects(model.forest_, 2)[0]
    names = [model.domain_.names[j] for j in pair]
    ax = plot_shape(model, names[::-1], target="c")
    shape = shape_of(model, pair)
    mesh = ax.collections[0]
    assert np.array_equal(np.asarray(mesh.get_array()).ravel(), shape.values[..., 2].T.ravel())
    assert mesh.get_clim()[1] == np.abs(shape.values[..., 2]).max() == -mesh.get_clim()[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == tuple(names)
    with pytest.raises(ValueError, match="3 classes: give target"):
        plot_shape(model, names)


@pytest.mark.parametrize("pair", [("age", "size"), ("age", "kind"), ("kind", "side"), ("part", "size")])
def test_any_pair_can_be_drawn(boosted, pair):
    ax = plot_shape(boosted["two"], pair)
    assert ax.get_xlabel() == pair[0] or ax.get_ylabel() == pair[0]


@pytest.mark.parametrize("features", ["weight", ("age", "weight"), ("age", "age"), (), ("age", "size", "kind")])
def test_other_features_are_refused(boosted, features):
    with pytest.raises(ValueError, match=r"no feature 'weight'|not one feature, or two different ones"):
        plot_shape(boosted["two"], features)


def test_other_targets_are_refused(boosted):
    with pytest.raises(ValueError, match="'d' is not one of 'a', 'b', 'c'"):
        plot_shape(boosted["three"], "age", target="d")


def test_forests_have_no_shapes(models):
    with pytest.raises(TypeError, match=r"needs a DiPriMeBoostingClassifier .* got a DiPriMeRegressor"):
        plot_shape(models["regression"], "level")


def test_shapes_are_drawn_on_given_axes(boosted, pyplot):
    _, ax = pyplot.subplots()
    assert plot_shape(boosted["two"], "age", ax) is ax
    assert len(pyplot.get_fignums()) == 1


def test_names_are_no_formulas_in_shapes():
    domain = Domain({"$x_{$": Numeric(0, 1), "b$": Categorical(["$\\frac$", "_"])}, Categorical(["$a", "b$"]))
    model = as_model(made_forest(0, domain, 20), domain)
    for features in ("$x_{$", "b$", ("b$", "$x_{$")):
        plot_shape(model, features)


def test_shapes_of_dates_and_integers_have_ticks_in_their_own_words():
    features = {"when": Date("2012-10-02", "2018-09-30", parts=["weekday", "hour"]), "n": Integer(0, 23)}
    domain = Domain(features, Categorical(["no", "yes"]))
    model = as_model(made_forest(0, domain, 40), domain)

    def ticks(name):
        labels = plot_shape(model, name).child_axes[0].get_xticklabels()
        return [label.get_text() for label in labels]

    assert ticks("when") == ["2012-10-02", "2014-04-02", "2015-10-01", "2017-04-01", "2018-09-30"]
    assert ticks("when.weekday")[5:] == ["Saturday", "Sunday"]
    assert ticks("when.hour") == [str(hour) for hour in range(24)]
    plot_shape(model, ("when.weekday", "n"))
    plot_shape(model, "n")
