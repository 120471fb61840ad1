"""The common style of all figures: small type, few lines, colours that colour-blind readers can tell apart."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colours for private methods, greys for non-private ones.
COLOURS = {
    "RF": "#000000",
    "ERT": "#777777",
    "Median": "#aaaaaa",
    "DiPriMe": "#56B4E9",
    "DiPriMeExp": "#0072B2",
    "DiPriMeFlip": "#009E73",
    "DP-ERT": "#D55E00",
    "DP-ERT, as scored in the paper": "#D55E00",
    "DP-RF": "#E69F00",
    "DP-DF": "#8C6D00",
    "joint": "#CC79A7",
}
MARKERS = {
    "RF": "",
    "ERT": "",
    "Median": "",
    "DiPriMe": "o",
    "DiPriMeExp": "s",
    "DiPriMeFlip": "^",
    "DP-ERT": "D",
    "DP-ERT, as scored in the paper": "",
    "DP-RF": "v",
    "DP-DF": "X",
    "joint": "*",
}
LINES = {"ERT": (0, (5, 1.5)), "Median": (0, (1, 1)), "DP-ERT, as scored in the paper": (0, (1, 1))}
LABELS = {"joint": "joint (ours)", "RF": "RF, not private", "ERT": "ERT, not private", "Median": "Median, not private"}
WIDTH = 7.2


def set_style() -> None:
    """Set the parameters that all figures share, with which SVG files are reproducible."""
    plt.rcdefaults()
    mpl.use("Agg")
    mpl.rcParams.update(
        {
            "font.size": 7.5,
            "axes.titlesize": 8,
            "axes.labelsize": 8,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.6,
            "axes.grid": True,
            "grid.color": "#e6e6e6",
            "grid.linewidth": 0.5,
            "axes.axisbelow": True,
            "lines.linewidth": 1.2,
            "lines.markersize": 3.5,
            "legend.frameon": False,
            "legend.fontsize": 7.5,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "svg.hashsalt": "diprime",
            "font.family": "DejaVu Sans",
            "figure.dpi": 150,
        }
    )


def line_style(name: str) -> dict[str, object]:
    """Return the line style of a method."""
    return {
        "color": COLOURS[name],
        "marker": MARKERS[name],
        "linestyle": LINES.get(name, "-"),
        "markersize": 6 if name == "joint" else 3.5,
    }


def legend_below(figure: Figure, axes: list[Axes], columns: int, order: list[str]) -> None:
    """Add one legend for all panels below them."""
    entries = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        entries.update(zip(labels, handles, strict=True))
    labels = [label for label in order if label in entries]
    figure.legend(
        [entries[label] for label in labels], labels, loc="outside lower center", ncols=columns, handlelength=2.6
    )


def save(figure: Figure, path: Path) -> None:
    """Write a figure, without a date."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
