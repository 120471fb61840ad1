"""Plots of fitted models, from released numbers only."""

from diprime.output.plots import plot_budget, plot_importances, plot_privacy_utility, plot_shape, plot_tree

__all__ = ["plot_budget", "plot_importances", "plot_privacy_utility", "plot_shape", "plot_tree"]
