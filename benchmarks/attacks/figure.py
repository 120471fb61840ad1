"""The figure of :mod:`benchmarks.attacks`: errors of reconstruction against epsilon, beside guessing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.attacks.reconstruction.measuring import (
    DEFAULTS,
    INFORMED,
    MANY_TREES,
    MOST_LIKELY,
    N_TREES,
    NOT_PRIVATE,
)
from benchmarks.attacks.report import Line, averages

# Epsilons are drawn at equal distances, so that infinity has a place.
SHOWN = ("0.1", "1.0", "10.0", "100.0", "inf")
LABELS = ("0.1", "1", "10", "100", "∞")
COIN, OTHERS = "coins", "other rows of the same population"


class Style(NamedTuple):
    """How an attack is drawn; colours are Okabe and Ito's, which are safe for colour-blind readers."""

    forest: str
    attack: str
    label: str
    color: str
    marker: str
    line: str


STYLES = (
    Style(MANY_TREES, INFORMED, f"{N_TREES} random trees, informed attack", "#D55E00", "o", "-"),
    Style(MANY_TREES, MOST_LIKELY, f"{N_TREES} random trees, most likely table", "#D55E00", "o", ":"),
    Style(DEFAULTS, INFORMED, "defaults, informed attack", "#0072B2", "s", "-"),
    Style(DEFAULTS, MOST_LIKELY, "defaults, most likely table", "#0072B2", "s", ":"),
)


def _panel(axes: Any, means: dict[tuple[str, ...], dict[str, float]], setting: tuple[str, ...]) -> None:
    for style in STYLES:
        drawn = [(i, means.get((*setting, style.forest, e, style.attack))) for i, e in enumerate(SHOWN)]
        points = [(i, cell) for i, cell in drawn if cell is not None]
        axes.errorbar(
            [i for i, _ in points],
            [cell["error"] for _, cell in points],
            yerr=[cell["spread"] for _, cell in points],
            color=style.color,
            marker=style.marker,
            linestyle=style.line,
            markersize=4,
            linewidth=1.5,
            elinewidth=0.7,
            label=style.label,
        )
    for name, label, line in ((COIN, "guess: coins", "-."), (OTHERS, "guess: other rows of the population", "--")):
        axes.axhline(
            means[(*setting, "none", "0", name)]["error"], color="#555555", linestyle=line, linewidth=1, label=label
        )
    not_private = means[(*setting, NOT_PRIVATE, "inf", INFORMED)]["error"]
    axes.plot(
        len(SHOWN) - 1,
        not_private,
        marker="*",
        markersize=11,
        color="black",
        linestyle="",
        label="scikit-learn's forest, informed attack",
        zorder=5,
    )
    axes.set_title(f"{setting[0]}, {setting[1]} rows", fontsize=10)
    axes.set_xticks(range(len(SHOWN)), labels=LABELS)
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def draw(lines: Sequence[Line], path: Path) -> None:
    """Draw one panel for each table and number of rows."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    means = averages(lines)
    settings = list(dict.fromkeys(key[:2] for key in means))
    # The same results must give the same file: no date and no random identifiers.
    with mpl.rc_context({"svg.hashsalt": "attacks", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(3.1 * len(settings), 3.6), layout="constrained")
        panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
        for axes, setting in zip(panels, settings, strict=True):
            _panel(axes, means, setting)
            axes.set_xlabel("ε", fontsize=9)
        panels[0].set_ylim(bottom=-0.01)  # of all panels, and after all are drawn
        panels[0].set_ylabel("share of wrong values\n(higher is more private)", fontsize=9)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
