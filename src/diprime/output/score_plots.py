"""Plots of private scores: ROC curves and calibration, with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diprime.output.axes import new_axes
from diprime.scoring import PrivateScore
from diprime.scoring.classes import ClassCurves

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_roc(score: PrivateScore, ax: Axes | None = None, *, target: Any = None) -> Axes:
    """Plot the ROC curve of a private score. Grey boxes are the intervals of both rates at each threshold.

    Parameters
    ----------
    score : PrivateScore
        The score of a classifier.
    ax : matplotlib Axes, optional
        The axes to plot on; by default those of a new figure.
    target : class, optional
        The class whose curve is plotted, if there are more than two.

    Returns
    -------
    ax : matplotlib Axes
        The axes of the plot.
    """
    label, curves = _curves(score, target)
    ax = _square(ax, "false positive rate", "true positive rate")
    rates = [(point.false_positive_rate, point.true_positive_rate) for point in curves.roc_curve]
    for false, true in rates:
        ax.fill_between([false.low, false.high], true.low, true.high, color="grey", alpha=0.15, linewidth=0)
    places = [(1.0, 1.0), *((false.value, true.value) for false, true in rates), (0.0, 0.0)]
    ax.plot(*zip(*places, strict=True), marker=".")
    ax.set_title(f"ROC curve of {label}: AUC {curves.roc_auc}".replace("$", r"\$"))
    return ax


def plot_calibration(score: PrivateScore, ax: Axes | None = None, *, target: Any = None) -> Axes:
    """Plot how often a class occurs, with intervals, where it was predicted with given probabilities.

    Parameters
    ----------
    score : PrivateScore
        The score of a classifier.
    ax : matplotlib Axes, optional
        The axes to plot on; by default those of a new figure.
    target : class, optional
        The class whose calibration is plotted, if there are more than two.

    Returns
    -------
    ax : matplotlib Axes
        The axes of the plot.
    """
    label, curves = _curves(score, target)
    ax = _square(ax, "predicted probability", "observed share")
    for point in curves.calibration:
        observed = point.observed
        ax.fill_between([point.low, point.high], observed.low, observed.high, color="grey", alpha=0.2, linewidth=0)
        ax.plot([point.low, point.high], [observed.value] * 2, color="C0")
    ax.set_title(f"Calibration of {label}".replace("$", r"\$"))
    return ax


def _curves(score: PrivateScore, target: Any) -> tuple[Any, ClassCurves]:
    """Return the class to plot, and its curves."""
    by_class = dict(zip(score.curve_classes, score.curves, strict=True))
    if target is None and len(by_class) == 1:
        return next(iter(by_class.items()))
    if target not in by_class:
        raise ValueError(f"Give target, one of the classes that have curves: {', '.join(map(repr, by_class))}.")
    return target, by_class[target]


def _square(ax: Axes | None, across: str, up: str) -> Axes:
    ax = new_axes(ax, 4.8, 4.8)
    ax.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=across, ylabel=up, aspect="equal")
    return ax
