"""Figures of :mod:`benchmarks.utility`: accuracy or error against epsilon, for each data set and as means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data import NAMES
from benchmarks.paper.published import FINAL_RUN
from benchmarks.utility.contenders import CONTENDERS, EPSILONS
from benchmarks.utility.report import NOT_THE_PAPERS
from benchmarks.utility.results import Results
from benchmarks.utility.scores import Facts, Scores

COLUMNS = 5
SHOWN = (min(EPSILONS), 10.0)


class Style(NamedTuple):
    """How a contender is drawn: a marker, and a colour of Okabe and Ito's, which are safe for colour-blind readers."""

    label: str
    color: str
    marker: str
    width: float


STYLES = {
    "ours": Style("diprime forest, defaults (δ = 0)", "#D55E00", "o", 2.2),
    "boosting": Style("diprime boosting, defaults (δ = 1e-6)", "#000000", "P", 2.2),
    "dp-ebm": Style("DP-EBM (δ = 1e-6)", "#0072B2", "s", 1.2),
    "diprime-flip": Style("DiPriMeFlip, strict", "#009E73", "^", 1.2),
    "dp-ert": Style("DP-ERT", "#CC79A7", "v", 1.2),
    "diffprivlib": Style("diffprivlib's forest", "#E69F00", "D", 1.2),
}
FOREST_COLOR = "#555555"
PUBLISHED = "DiPriMeFlip, published"
SUMMARISED = ("boosting", "ours", "dp-ebm", "diprime-flip", "diffprivlib")
RC = {"svg.hashsalt": "utility", "font.family": "DejaVu Sans"}
"""The same results must give the same file, so it has no random identifiers."""


def _curve(axes: Any, contender: str, epsilons: Sequence[float], means: Sequence[float]) -> None:
    style = STYLES[contender]
    axes.plot(
        epsilons,
        means,
        color=style.color,
        marker=style.marker,
        markersize=4,
        linewidth=style.width,
        label=style.label,
        zorder=4 if contender in ("ours", "boosting") else 3,
    )


def _panel(axes: Any, scores: Scores, facts: Facts) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    name = facts.name
    for contender in STYLES:
        drawn = [e for e in scores.results.epsilons(contender, name) if SHOWN[0] <= e <= SHOWN[1]]
        means = [float(scores.all(contender, name, e).mean()) for e in drawn]
        if drawn:
            _curve(axes, contender, drawn, means)
    forest = scores.all("forest", name, math.inf)
    if len(forest):
        axes.axhline(forest.mean(), color=FOREST_COLOR, linestyle="--", linewidth=1, label=CONTENDERS["forest"].title)
    if name not in NOT_THE_PAPERS:
        error = FINAL_RUN[name]["DiPriMeFlip"].error
        value = error if facts.metric == "mse" else 1 - error
        axes.plot(
            facts.epsilon, value, marker="*", markersize=10, color="black", linestyle="", label=PUBLISHED, zorder=5
        )
    axes.set_title(facts.title, fontsize=10)
    axes.set_xscale("log")
    axes.set_xlim(SHOWN[0] / 1.15, SHOWN[1] * 1.25)
    axes.set_xticks([0.1, 1, 10], labels=["0.1", "1", "10"])
    if facts.metric == "mse":
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(which="major", color="#e4e4e4", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def draw(results: Results, facts: Sequence[Facts], path: Path) -> None:
    """Draw one panel for each data set, regression above classification."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    scores = Scores(results, {f.name: f for f in facts})
    shown = sorted((scores.facts[name] for name in NAMES), key=lambda f: f.metric != "mse")
    n_lines = math.ceil(len(shown) / COLUMNS)
    with mpl.rc_context(RC):
        figure = Figure(figsize=(2.5 * COLUMNS, 2.55 * n_lines + 0.5), layout="constrained")
        panels = figure.subplots(n_lines, COLUMNS)
        for axes, of_set in zip(panels.flat, shown, strict=True):
            _panel(axes, scores, of_set)
        for line, label in zip(
            panels, ("mean squared error\n(lower is better)", "accuracy\n(higher is better)"), strict=True
        ):
            line[0].set_ylabel(label, fontsize=9)
        for axes in panels[-1]:
            axes.set_xlabel("ε", fontsize=9)
        handles = {
            label: handle
            for axes in panels.flat
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        order = [style.label for style in STYLES.values()] + [CONTENDERS["forest"].title, PUBLISHED]
        labels = [label for label in order if label in handles]
        figure.legend(
            [handles[label] for label in labels],
            labels,
            loc="outside lower center",
            ncols=4,
            frameon=False,
            fontsize=9,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})


def draw_summary(results: Results, facts: Sequence[Facts], path: Path) -> None:
    """Draw the mean AUC, and the mean squared error relative to a forest without privacy, against epsilon."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    scores = Scores(results, {f.name: f for f in facts})
    regression = [name for name in NAMES if scores.facts[name].metric == "mse"]
    classification = [name for name in NAMES if name not in regression]

    def auc(contender: str, epsilon: float) -> float:
        return float(np.mean([_mean(scores, contender, name, epsilon, "auc") for name in classification]))

    def relative_error(contender: str, epsilon: float) -> float:
        ratios = [
            _mean(scores, contender, name, epsilon, "mse") / _mean(scores, "forest", name, math.inf, "mse")
            for name in regression
        ]
        return float(np.exp(np.mean(np.log(ratios))))

    with mpl.rc_context(RC):
        figure = Figure(figsize=(5.6, 3.9), layout="constrained")
        panels = figure.subplots(1, 2)
        for axes, measure in zip(panels, (auc, relative_error), strict=True):
            for contender in SUMMARISED:
                means = [measure(contender, e) for e in EPSILONS]
                if not np.isnan(means).all():  # diffprivlib has no forest for regression
                    _curve(axes, contender, EPSILONS, means)
            axes.axhline(
                measure("forest", math.inf), color=FOREST_COLOR, linestyle="--", label=CONTENDERS["forest"].title
            )
            axes.set_xscale("log")
            axes.set_xticks([0.1, 1, 10], labels=["0.1", "1", "10"])
            axes.minorticks_off()
            axes.set_xlabel("ε")
            axes.grid(which="major", color="#e4e4e4", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        panels[0].set_title("AUC (higher is better)", fontsize=11)
        panels[1].set_title("relative error (lower is better)", fontsize=11)
        panels[1].set_yscale("log")
        panels[1].set_yticks([1, 2, 5, 10], labels=["1", "2", "5", "10"])
        panels[1].minorticks_off()
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})


def _mean(scores: Scores, contender: str, name: str, epsilon: float, metric: str) -> float:
    """Return the mean of a score over all splits that were measured; NaN if there are none."""
    values = scores.all(contender, name, epsilon, metric)
    return float(values.mean()) if len(values) else math.nan
