"""The section of a boosted model's main effects and interactions, drawn as SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from diprime.model.feature_words import shortened
from diprime.model.shapes import Axis, Shape, largest_effects, shape_of
from diprime.model.trees import Floats
from diprime.output.report.colours import paint, swatch
from diprime.output.report.drawing import WIDTH, line, rectangle, short_label, svg, text
from diprime.output.report.html import Child, Element, breakable, section, tag

MAX_MAIN_EFFECTS = 9
MAX_INTERACTIONS = 6
MAX_GROUPS = 14
"""How many levels of a categorical feature are drawn: those with the most records."""
MAX_CLASSES = 6
"""How many classes are drawn in one figure."""
MAX_CELLS = 4096
"""How many cells of an interaction are drawn at most, so that browsers stay fast."""

# Sizes in the units of the drawing, whose width fits the figure.
STEPS_HEIGHT, DENSITY_HEIGHT, MARGIN, ROW_HEIGHT, LABEL_WIDTH = 130.0, 24.0, 16.0, 16.0, 100.0

_TINY = 1e-300  # avoids division by zero


def shapes(model: Any) -> Element:
    """Return the section with the largest main effects and interactions."""
    forest = model.forest_
    mains = [shape_of(model, features) for features in largest_effects(forest, 1)[:MAX_MAIN_EFFECTS]]
    pairs = [shape_of(model, features) for features in largest_effects(forest, 2)[:MAX_INTERACTIONS]]
    pairs = [_without_rare_groups(shape) for shape in pairs]
    drawn_pairs = [shape for shape in pairs if shape.values[..., 0].size <= MAX_CELLS]
    return section(
        "shapes",
        "What the model has learnt",
        tag(
            "p",
            f"The model is a sum of functions of one feature and of two, {_unit(model)}. These are the functions that "
            "vary most, as they were released. Each is centred: it tells how records with these values differ from "
            "the mean. Missing values, and levels that the domain does not list, are drawn aside. Grey: the released "
            "numbers of records. All of it carries noise, most where there are few records.",
        ),
        tag("div", *map(_main_effect_figure, mains), class_="shapes"),
        tag("h3", "What two features add together, beyond what each adds alone") if drawn_pairs else None,
        tag("div", *map(_interaction_figure, drawn_pairs), class_="shapes") if drawn_pairs else None,
    )


def _unit(model: Any) -> str:
    if not hasattr(model, "classes_"):
        return "in the unit of the target"
    if model.forest_.link.n_scores == 1:
        return f"which add up to the log-odds of “{shortened(str(model.classes_[-1]))}”"
    return "which add up to a score for each class; the largest score wins"


# -- main effects ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Classes:
    """The classes that a figure draws, out of all: each has the same colour in every figure."""

    drawn: list[int]
    n: int

    def paint(self, element: Element, k: int, kind: str) -> Element:
        """Give an element the colour of the k-th class that is drawn."""
        return paint(element, self.drawn[k], self.n, kind)


def _most_spread_classes(shape: Shape) -> tuple[Shape, _Classes]:
    """Return a shape with the `MAX_CLASSES` classes that it separates most, and which these are."""
    spread = np.abs(shape.values).max(axis=0)
    kept = sorted(np.argsort(-spread, kind="stable")[:MAX_CLASSES].tolist())
    classes = _Classes(kept, len(shape.targets))
    return Shape(shape.axes, shape.values[:, kept], tuple(shape.targets[k] for k in kept)), classes


def _main_effect_figure(shape: Shape) -> Element:
    shape, classes = _most_spread_classes(shape)
    (axis,) = shape.axes
    drawing = _steps(shape, classes) if axis.edges is not None else _bars(_without_rare_groups(shape), classes)
    legend = None
    if len(shape.targets) > 1:
        items = [
            tag("li", swatch(index, classes.n), *breakable(shortened(str(target))))
            for index, target in zip(classes.drawn, shape.targets, strict=True)
        ]
        legend = tag("ul", *items, class_="legend")
    return tag("figure", tag("figcaption", *breakable(axis.name)), drawing, legend)


def _steps(shape: Shape, classes: _Classes) -> Element:
    """Return the drawing of a step function, with the density of records below it."""
    (axis,) = shape.axes
    x = _along(axis, 0.0, WIDTH)
    low, high = min(float(shape.values.min()), 0.0), max(float(shape.values.max()), 0.0)

    def y(values: Floats | float) -> Any:
        return MARGIN + (high - values) / max(high - low, _TINY) * (STEPS_HEIGHT - 2 * MARGIN)

    n, bottom = axis.n_regular, STEPS_HEIGHT + DENSITY_HEIGHT
    density = axis.weights / np.maximum(np.diff(x), _TINY)
    heights = density / max(float(density.max()), _TINY) * DENSITY_HEIGHT
    parts: list[Child] = [
        rectangle(x[i], bottom - heights[i], x[i + 1] - x[i], heights[i], "density") for i in range(len(heights))
    ]
    parts.append(line(0, y(0.0), WIDTH, y(0.0), "rule"))
    parts.append(line(x[n], MARGIN / 2, x[n], bottom, "rule"))
    for k in range(len(shape.targets)):
        heights_of_steps = y(shape.values[:, k])
        for begin, end in ((0, n), (n, len(heights_of_steps))):
            path = _step_path(x[begin : end + 1], heights_of_steps[begin:end])
            parts.append(classes.paint(path, k, "stroke"))
    parts += [
        text(2, MARGIN - 5, f"{high:+.3g}"),
        text(2, STEPS_HEIGHT - 3, f"{low:+.3g}"),
        text(0, bottom + 11, axis.ticks[0][1]),
        text(x[n] - 3, bottom + 11, axis.ticks[-1][1], "end"),
        text(WIDTH, MARGIN - 5, "missing", "end"),
    ]
    return svg(parts, bottom + MARGIN, f"The main effect of {axis.name}, from {low:.3g} to {high:.3g}")


def _step_path(x: Floats, y: Floats) -> Element:
    points = [f"{'M' if i == 0 else 'V'}{_at(y[i], x[i] if i == 0 else None)}H{x[i + 1]:.2f}" for i in range(len(y))]
    return tag("path", d="".join(points), class_="steps")


def _at(y: float, x: float | None) -> str:
    return f"{y:.2f}" if x is None else f"{x:.2f} {y:.2f}"


def _bars(shape: Shape, classes: _Classes) -> Element:
    """Return the drawing of bars, one group below the other, with shares of records at the right."""
    (axis,) = shape.axes
    largest = max(float(np.abs(shape.values).max()), _TINY)
    middle = LABEL_WIDTH + (WIDTH - LABEL_WIDTH) / 2
    scale = (WIDTH - LABEL_WIDTH) / 2 / largest
    heaviest = max(float(axis.weights.max()), _TINY)
    parts: list[Child] = []
    for i, label in enumerate(axis.labels):
        top = MARGIN + i * ROW_HEIGHT
        parts.append(
            rectangle(
                LABEL_WIDTH, top + ROW_HEIGHT - 3, (WIDTH - LABEL_WIDTH) * axis.weights[i] / heaviest, 2, "density"
            )
        )
        parts.append(text(LABEL_WIDTH - 4, top + 10, short_label(label), "end"))
        height = (ROW_HEIGHT - 5) / len(shape.targets)
        for k, value in enumerate(shape.values[i].tolist()):
            left = middle + min(value, 0.0) * scale
            bar = rectangle(left, top + 1 + k * height, abs(value) * scale, height)
            parts.append(classes.paint(bar, k, "fill"))
    bottom = MARGIN + len(axis.labels) * ROW_HEIGHT
    parts += [
        line(middle, MARGIN - 2, middle, bottom, "rule"),
        text(LABEL_WIDTH, MARGIN - 5, f"{-largest:+.3g}"),
        text(WIDTH, MARGIN - 5, f"{largest:+.3g}", "end"),
    ]
    return svg(parts, bottom + 4, f"The main effect of {axis.name}, up to {largest:.3g}")


# -- interactions ------------------------------------------------------------------------------------------------------


def _interaction_figure(shape: Shape) -> Element:
    """Return the figure of an interaction: for the class that it separates most, if there are several."""
    k = int(np.abs(shape.values).max(axis=(0, 1)).argmax())
    first, second = shape.axes
    values = shape.values[..., k]
    largest = max(float(np.abs(values).max()), _TINY)
    height = WIDTH - LABEL_WIDTH
    x, y = _along(first, LABEL_WIDTH, WIDTH), _along(second, height, 0.0)
    parts: list[Child] = [
        rectangle(
            x[i], y[j + 1], x[i + 1] - x[i], y[j] - y[j + 1], "fill-4" if values[i, j] > 0 else "fill-0",
            fill_opacity=f"{abs(values[i, j]) / largest:.3f}",
        )
        for i in range(values.shape[0])
        for j in range(values.shape[1])
    ]  # fmt: skip
    parts.append(rectangle(LABEL_WIDTH, 0, WIDTH - LABEL_WIDTH, height, "frame"))
    parts += [text(LABEL_WIDTH - 4, at + 3, label, "end") for at, label in _ticks(second, y)]
    parts += [text(at, height + 12, label, "middle") for at, label in _ticks(first, x, every=3)]
    about = "" if len(shape.targets) == 1 else f", for “{shortened(str(shape.targets[k]))}”"
    note = f"blue {-largest:+.3g} to red {largest:+.3g}"
    name = f"{first.name} (across) × {second.name} (up)"
    drawing = svg(parts, height + MARGIN, f"The interaction of {first.name} and {second.name}, {note}")
    return tag("figure", tag("figcaption", *breakable(f"{name}{about}")), drawing, tag("p", note, class_="note"))


def _ticks(axis: Axis, positions: Floats, every: int = 1) -> list[tuple[float, str]]:
    """Return places and texts of labels: the ends of a range, or every so many levels."""
    middles = (positions[1:] + positions[:-1]) / 2
    if axis.edges is None:
        return [(float(middles[i]), short_label(axis.labels[i])) for i in range(0, len(axis.labels), every)]
    n = axis.n_regular
    return [
        (float(positions[0]), short_label(axis.ticks[0][1])),
        (float(positions[n]), short_label(axis.ticks[-1][1])),
    ]


def _without_rare_groups(shape: Shape) -> Shape:
    """Return a shape with the `MAX_GROUPS` levels of each categorical feature that have most records."""
    axes, values = [], shape.values
    for dimension, axis in enumerate(shape.axes):
        if axis.edges is not None or len(axis.labels) <= MAX_GROUPS:
            axes.append(axis)
            continue
        kept = np.sort(np.argsort(-axis.weights, kind="stable")[:MAX_GROUPS])
        labels = [axis.labels[i] for i in kept]
        n_regular = int((kept < axis.n_regular).sum())
        axes.append(Axis(axis.name, labels, n_regular, None, [], False, axis.weights[kept], axis.codes[kept]))
        values = np.take(values, kept, axis=dimension)
    return Shape(tuple(axes), values, shape.targets)


# -- axes --------------------------------------------------------------------------------------------------------------


def _along(axis: Axis, begin: float, end: float) -> Floats:
    """Return where the groups of an axis begin and end on a drawing."""
    positions = np.log(axis.positions) if axis.is_logarithmic else axis.positions
    return np.asarray(begin + (positions - positions[0]) / (positions[-1] - positions[0]) * (end - begin))
