"""Drawings of main effects and interactions on matplotlib axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from diprime.model.feature_words import shortened
from diprime.model.shapes import Axis, Shape
from diprime.model.trees import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_TICKS = 40
"""The largest number of levels whose names are drawn."""
MAX_UPRIGHT_TICKS = 6
"""The largest number of levels whose names are drawn from left to right."""

_TINY = 1e-300  # avoids division by zero
_BAR_SPACE = 0.8  # the share of a level's width that its bars take


def draw_main_effect(shape: Shape, ax: Axes) -> Axes:
    """Draw a main effect, with the density of the released numbers of records below it."""
    (axis,) = shape.axes
    below = ax.inset_axes((0, -0.22, 1, 0.18), sharex=ax)
    below.stairs(_density(axis), axis.positions, fill=True, color="silver")
    below.set(yticks=[], ylabel="records", xlabel=_plain(axis.name))
    for k, target in enumerate(shape.targets):
        draw = _draw_bars if axis.edges is None else _draw_steps
        draw(axis, shape.values[:, k], (k, len(shape.targets)), ax, None if target is None else _plain(str(target)))
    ax.axhline(0, color="grey", linewidth=0.8, zorder=0)
    if axis.edges is not None:
        ax.axvline(axis.edges[-1], color="grey", linewidth=0.8, linestyle="dotted", zorder=0)
    _scale(axis, ax, "x")
    _label_groups(axis, below, "x")
    ax.tick_params(labelbottom=False)
    ax.set_ylabel(_score_name(shape))
    if len(shape.targets) > 1:
        ax.legend()
    return ax


def draw_interaction(shape: Shape, ax: Axes) -> Axes:
    """Draw the interaction of two features as a heat map."""
    first, second = shape.axes
    values = shape.values[..., 0].T
    largest = max(float(np.abs(values).max()), _TINY)
    mesh = ax.pcolormesh(first.positions, second.positions, values, cmap="RdBu_r", vmin=-largest, vmax=largest)
    ax.figure.colorbar(mesh, ax=ax, label=_score_name(shape))
    _label_groups(first, ax, "x")
    _label_groups(second, ax, "y")
    ax.set(xlabel=_plain(first.name), ylabel=_plain(second.name))
    return ax


def _draw_steps(axis: Axis, values: Floats, _: tuple[int, int], ax: Axes, label: str | None) -> None:
    n, positions = axis.n_regular, axis.positions
    steps = ax.stairs(values[:n], positions[: n + 1], baseline=None, linewidth=1.8, label=label)
    colour = f"C{len(ax.patches) - 1}"
    steps.set_edgecolor(colour)
    ax.hlines(values[n:], positions[n:-1], positions[n + 1 :], color=colour, linewidth=1.8)


def _draw_bars(axis: Axis, values: Floats, place: tuple[int, int], ax: Axes, label: str | None) -> None:
    """Draw a bar for each group; ``place`` tells which one of how many beside each other."""
    index, n_bars = place
    width = _BAR_SPACE / n_bars
    ax.bar(np.arange(len(values)) + (1 - _BAR_SPACE) / 2 + (index + 0.5) * width, values, width, label=label)


def _density(axis: Axis) -> Floats:
    """Return the number of records of each group, for intervals by length as drawn."""
    if axis.edges is None:
        return axis.weights
    ends = np.log(axis.positions) if axis.is_logarithmic else axis.positions
    return np.asarray(axis.weights / np.maximum(np.diff(ends), _TINY))


def _score_name(shape: Shape) -> str:
    if len(shape.targets) > 1:
        return "adds to the score"
    (target,) = shape.targets
    return "adds to the prediction" if target is None else f"adds to the score of {_plain(str(target))}"


def _scale(axis: Axis, ax: Axes, which: Literal["x", "y"]) -> None:
    positions = axis.positions
    if axis.is_logarithmic:
        ax.set(**{f"{which}scale": "log"})
    ax.set(**{f"{which}lim": (positions[0], positions[-1])})


def _label_groups(axis: Axis, ax: Axes, which: Literal["x", "y"]) -> None:
    """Name the levels of a categorical feature, or the values aside of a numeric one."""
    _scale(axis, ax, which)
    middles = (axis.positions[1:] + axis.positions[:-1]) / 2
    if axis.edges is None:
        shown = axis.labels if len(axis.labels) <= MAX_TICKS else []
        _set_ticks(ax, which, middles[: len(shown)], shown)
        return
    if len(axis.ticks) > 2:  # noqa: PLR2004 -- of two, which are the ends, matplotlib knows better
        _set_ticks(ax, which, [place for place, _ in axis.ticks], [label for _, label in axis.ticks])
    for label, middle in zip(axis.labels[axis.n_regular :], middles[axis.n_regular :], strict=True):
        if which == "x":
            text = ax.text(middle, 0.97, label, transform=ax.get_xaxis_transform(), rotation=90, va="top", ha="center")
        else:
            text = ax.text(0.97, middle, label, transform=ax.get_yaxis_transform(), va="center", ha="right")
        text.set_fontsize("x-small")


def _set_ticks(ax: Axes, which: Literal["x", "y"], places: Sequence[float] | Floats, labels: Sequence[str]) -> None:
    rotation = 90 if which == "x" and len(labels) > MAX_UPRIGHT_TICKS else 0
    set_ticks = ax.set_xticks if which == "x" else ax.set_yticks
    set_ticks(places, list(map(_plain, labels)), rotation=rotation)


def _plain(name: str) -> str:
    """Return a name for matplotlib, which reads text between dollar signs as a formula."""
    return shortened(name).replace("$", r"\$")
