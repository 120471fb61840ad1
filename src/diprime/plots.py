"""Plots of fitted models, from released numbers only."""

from diprime.output.plots import plot_budget, plot_importances, plot_privacy_utility, plot_shape, plot_tree
from diprime.output.score_plots import plot_calibration, plot_roc

__all__ = [
    "plot_budget",
    "plot_calibration",
    "plot_importances",
    "plot_privacy_utility",
    "plot_roc",
    "plot_shape",
    "plot_tree",
]
