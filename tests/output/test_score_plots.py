"""Plots of scores draw the released curves."""

import matplotlib as mpl
import pytest

from diprime import private_score
from diprime.plots import plot_calibration, plot_roc
from tests.small_data import fit, make

mpl.use("agg")


@pytest.fixture(scope="module")
def score():
    return private_score(fit("classification", *make("classification", 2000)), *make("classification", 2000, 1), 1.0)


@pytest.fixture
def ax():
    from matplotlib import pyplot

    yield pyplot.subplots()[1]
    pyplot.close("all")


def test_the_roc_curve_is_plotted(score, ax):
    assert plot_roc(score, ax, target="b") is ax
    across, up = ax.lines[1].get_data()
    rates = [
        (1.0, 1.0),
        *((p.false_positive_rate.value, p.true_positive_rate.value) for p in score.roc_curve["b"]),
        (0, 0),
    ]
    assert list(zip(across, up, strict=True)) == rates
    assert ax.get_title() == f"ROC curve of b: AUC {score.curves[1].roc_auc}"
    assert len(ax.collections) == len(score.roc_curve["b"])


def test_calibration_is_plotted(score, ax):
    plot_calibration(score, ax, target="c")
    points = score.calibration["c"]
    assert [tuple(line.get_xdata()) for line in ax.lines[1:]] == [(p.low, p.high) for p in points]
    assert [line.get_ydata()[0] for line in ax.lines[1:]] == [p.observed.value for p in points]


def test_the_class_must_be_given_if_there_are_several(score):
    for plot in (plot_roc, plot_calibration):
        for target in (None, "d"):
            with pytest.raises(ValueError, match="Give target, one of the classes that have curves: 'a', 'b', 'c'"):
                plot(score, target=target)
