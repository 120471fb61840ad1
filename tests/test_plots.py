"""Plots: the artists on the axes show the numbers of the model or of its score."""

import math
import sys
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from diprime import Categorical, Charge, Date, Domain, Integer, Ledger, merge, private_score
from diprime.inspection.views import largest_effects, read_tree, shape_of
from diprime.plots import (
    PALE,
    plot_budget,
    plot_calibration,
    plot_importances,
    plot_roc,
    plot_shape,
    plot_tree,
)
from diprime.privacy.charges import Bound, BoundKind, Mechanism, ReleaseKind
from diprime.privacy.measures import GaussianDP, PureEpsilon, rounded_text
from diprime.scoring.intervals import Estimate
from tests.made_additive import DOMAINS as BOOSTED_DOMAINS
from tests.made_additive import as_model, made_forest, made_model
from tests.small_data import PAPER, TASKS, fit, make

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed.")


@pytest.fixture(autouse=True)
def pyplot():
    matplotlib.use("agg")
    from matplotlib import pyplot

    pyplot.close("all")  # other modules, such as doctests, may have left figures open
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


def test_budget_segments_add_up_to_epsilon(models):
    ax = plot_budget(models["regression"])
    groups = list(dict.fromkeys(charge.group for charge in models["regression"].privacy_.charges))
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(2)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == groups
    assert ax.get_title() == "Privacy budget: ε = 2"


def test_each_merged_fit_has_a_bar(models):
    X, y = make("classification", 100)
    more = merge(
        [models["classification"], fit("classification", X, y, epsilon=0.5, method="diprime", max_depth=1)],
        disjoint=True,
    )
    ax = plot_budget(merge([more, models["classification"]], disjoint=True))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["model 1", "model 2", "model 3"]
    for row, total in enumerate((2, 0.5, 2)):
        bars = [bar for bar in ax.patches if round(bar.get_y() + bar.get_height() / 2) == row]
        assert sum(bar.get_width() for bar in bars) == pytest.approx(total)


def test_gaussian_charges_are_drawn_as_shares_of_their_total(models):
    bound, pure, gaussian = Bound(BoundKind.NONE), PureEpsilon(Fraction(1, 10)), GaussianDP(Fraction(1, 1000))
    charges = [Charge(ReleaseKind.NODE_SUMS, Mechanism.DISCRETE_LAPLACE, bound, pure)]
    for kind in (ReleaseKind.CODE_SUMS, *[ReleaseKind.GRADIENT_SUMS] * 3):
        charges.append(Charge(kind, Mechanism.ROUNDED_GAUSSIAN, bound, gaussian))
    model = SimpleNamespace(privacy_=Ledger(1, charges=charges, delta=1e-6))
    ax = plot_budget(model)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["fit, ε", "fit, μ²"]
    widths = [bar.get_width() for bar in ax.patches]
    assert [w for w in widths if w] == pytest.approx([1, 0.25, 0.75])
    assert ax.get_xlabel() == "share of the sum"
    assert ax.get_title() == f"Privacy budget: ε = {rounded_text(model.privacy_.total)}, δ = 1e-06"


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_model_without_privacy_has_a_red_title():
    X, y = make("regression", 100)
    ax = plot_budget(fit("regression", X, y, estimators=PAPER, max_depth=1))
    assert ax.title.get_color() == "firebrick"
    assert "NOT PRIVATE" in ax.get_title()
    ax = plot_budget(fit("regression", X, y, epsilon=math.inf, max_depth=1))
    assert "NOT PRIVATE" in ax.get_title()
    assert texts(ax) == ["no noise, no budget"]


def test_importances_are_sorted(models):
    model = models["classification"]
    ax = plot_importances(model, most=3)
    widths = [bar.get_width() for bar in ax.patches]
    importances = model.importances()
    assert widths == importances.shares[importances.order[:3]].tolist()
    assert ax.get_yticklabels()[0].get_text() == "level"
    assert ax.get_xlabel() == "share of the variance, ± two standard deviations (grey: not above noise)"


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


def test_missing_matplotlib_is_named_in_the_error(models, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'diprime\[plot\]'"):
        plot_tree(models["regression"])


# -- boosted models ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def boosted():
    return {target: made_model(target, 1, 60, curves=(0, 3)) for target in BOOSTED_DOMAINS}


@pytest.mark.parametrize("feature", ["age", "size", "part"])
def test_a_numeric_main_effect_is_a_step_function(boosted, feature):
    model = boosted["two"]
    shape = shape_of(model, (model.domain_.encoded_feature_names.index(feature),))
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


@pytest.mark.parametrize("n_missing", [0.0, 9.0])
def test_values_without_records_are_pale(boosted, monkeypatch, n_missing):
    """A boosted model has an effect of missing values even if there are none."""

    def with_records(model, features):
        shape = shape_of(model, features)
        (axis,) = shape.axes
        weights = np.append(np.ones(len(axis.labels) - 1), n_missing)
        return replace(shape, axes=(replace(axis, weights=weights),))

    monkeypatch.setattr("diprime.plots.shape_of", with_records)
    *others, missing = plot_shape(boosted["number"], "side").patches
    assert {bar.get_alpha() for bar in others} == {1.0}
    assert missing.get_alpha() == (1.0 if n_missing else PALE)
    (_, dashes), *_ = plot_shape(boosted["number"], "age").collections[0].get_linestyle()
    assert (dashes is None) == bool(n_missing), "the line of missing values is dotted"


def test_each_class_has_a_line_or_a_bar(boosted):
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
    names = [model.domain_.encoded_feature_names[j] for j in pair]
    ax = plot_shape(model, names[::-1], target="c")
    shape = shape_of(model, pair)
    mesh = ax.collections[0]
    assert np.array_equal(np.asarray(mesh.get_array()).ravel(), shape.net[..., 2].T.ravel())
    assert mesh.get_clim()[1] == np.abs(shape.net[..., 2]).max() == -mesh.get_clim()[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == tuple(names)
    with pytest.raises(ValueError, match=r"3 classes\. .*target"):
        plot_shape(model, names)


def test_shapes_of_dates_and_integers_have_readable_ticks():
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


# -- scores -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def score():
    return private_score(fit("classification", *make("classification", 2000)), *make("classification", 2000, 1), 1.0)


def test_roc_curve_is_plotted(score, pyplot):
    ax = pyplot.subplots()[1]
    assert plot_roc(score, ax, target="b") is ax
    across, up = ax.lines[1].get_data()
    rates = [
        (1.0, 1.0),
        *((p.false_positive_rate.value, p.true_positive_rate.value) for p in score.roc_curve["b"]),
        (0, 0),
    ]
    assert list(zip(across, up, strict=True)) == rates
    assert ax.get_title() == f"ROC curve of b\nAUC {score.curves[1].roc_auc}"
    assert len(ax.collections) == len(score.roc_curve["b"])


def test_calibration_is_plotted(score, pyplot):
    """A share that is not known has no line. The shares are made here, because noise decides which ones are known."""
    ax = pyplot.subplots()[1]
    first, *others = score.calibration["c"]
    known = [replace(p, observed=Estimate(1 / (2 + i), 0.0, 1.0)) for i, p in enumerate(others)]
    *curves, last = score.curves
    assert score.curve_classes[-1] == "c"
    points = (replace(first, observed=Estimate(None, 0.0, 1.0)), *known)
    plot_calibration(replace(score, curves=(*curves, replace(last, calibration=points))), ax, target="c")
    assert known
    assert [tuple(line.get_xdata()) for line in ax.lines[1:]] == [(p.low, p.high) for p in known]
    assert [line.get_ydata()[0] for line in ax.lines[1:]] == [p.observed.value for p in known]
