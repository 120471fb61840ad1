"""SVG figures of the page: functions of boosted models, ROC curves and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from diprime.inspection.views import Axis, Shape, effects_above_noise, shape_of
from diprime.inspection.words import shortened
from diprime.model.trees import Floats
from diprime.report.html import Child, Element, breakable, cost_text, section, table, tag
from diprime.scoring import PrivateScore
from diprime.scoring.classes import ClassCurves
from diprime.scoring.intervals import Estimate

WIDTH = 320.0
"""Width of a drawing, in its own units."""
MAX_LABEL_LENGTH = 16
N_COLOURS = 6
"""Number of colours in style.css, for light and for dark pages."""
_LIGHTNESS = (38, 56, 72)
MAX_MAIN_EFFECTS = 9
MAX_INTERACTIONS = 6
MAX_GROUPS = 14
"""Maximum number of categories of a feature in a figure: those with the most records."""
MAX_CLASSES = 6
"""Maximum number of classes in a figure."""
MAX_CELLS = 4096
"""Maximum number of cells of an interaction in a figure, so that browsers stay fast."""
# Sizes in the units of the drawing.
STEPS_HEIGHT, DENSITY_HEIGHT, MARGIN, ROW_HEIGHT, LABEL_WIDTH = 130.0, 24.0, 16.0, 16.0, 100.0
PALE = "0.3"
_TINY = 1e-300  # avoids division by zero
MAX_LISTED_CLASSES = 12
"""Maximum number of classes in the confusion matrix."""
MAX_CURVES = 6
"""Maximum number of classes with curves."""
CURVE_MARGIN = 24.0
CURVE_SIZE = WIDTH - 2 * CURVE_MARGIN


def svg(parts: Sequence[Child], height: float, label: str) -> Element:
    """Return a drawing of the given height, with a label for screen readers."""
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH:g} {height:g}", class_="shape", role="img", aria_label=label)


def rectangle(
    x: float, y: float, width: float, height: float, kind: str | None = None, **attributes: object
) -> Element:
    """Return a rectangle, with a class of the style sheet if ``kind`` is given."""
    size = {"x": f"{x:.2f}", "y": f"{y:.2f}", "width": f"{width:.2f}", "height": f"{height:.2f}"}
    return tag("rect", **size, **({} if kind is None else {"class_": kind}), **attributes)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Element:
    """Return a straight line with a class of the style sheet."""
    return tag("line", x1=f"{x1:.2f}", y1=f"{y1:.2f}", x2=f"{x2:.2f}", y2=f"{y2:.2f}", class_=kind)


def text(x: float, y: float, content: str, anchor: str = "start") -> Element:
    """Return a text element."""
    return tag("text", content, x=f"{x:.2f}", y=f"{y:.2f}", text_anchor=anchor)


def colours(n: int) -> list[str] | None:
    """Return n colours, or None if those of the style sheet suffice. Neighbours differ in hue and lightness."""
    if n <= N_COLOURS:
        return None
    return [f"hsl({360 * i / n:.1f}, 62%, {_LIGHTNESS[i % len(_LIGHTNESS)]}%)" for i in range(n)]


def paint(element: Element, index: int, n: int, kind: str = "fill") -> Element:
    """Set the ``fill`` or ``stroke`` of an element to one of n colours, and return the element."""
    palette = colours(n)
    if palette is None:
        element.set("class", " ".join(filter(None, [element.get("class"), f"{kind}-{index}"])))
    else:
        element.set(kind, palette[index])
    return element


def swatch(index: int, n: int) -> Element:
    """Return a small coloured square for a legend."""
    square = paint(tag("rect", width="100%", height="100%"), index, n)
    return tag("svg", square, class_="swatch", aria_hidden="true")


def shapes_section(model: Any) -> Element:
    """Return the section with the largest main effects and interactions."""
    forest = model.forest_
    mains = [shape_of(model, features) for features in effects_above_noise(forest, 1)[:MAX_MAIN_EFFECTS]]
    pairs = [shape_of(model, features) for features in effects_above_noise(forest, 2)[:MAX_INTERACTIONS]]
    pairs = [_without_rare_groups(shape) for shape in pairs]
    drawn_pairs = [shape for shape in pairs if shape.values[..., 0].size <= MAX_CELLS]
    return section(
        "shapes",
        "Functions of the model",
        tag(
            "p",
            f"The model is a sum of functions of one or two features, {_unit(model)}. This section shows the functions "
            "above the noise that vary most. Each is centred: it shows the difference of records with these values "
            "from the mean. Pale bands, and lines through bars, extend two standard deviations of the noise to either "
            "side, including the sampling error. Missing values and unlisted categories are drawn apart. Grey areas "
            "show the released numbers of records, with reduced noise. Categories and missing values without records "
            "above the noise are pale, because little is known about their effect.",
        ),
        None if mains or pairs else tag("p", "No function is above the noise.", class_="bad"),
        tag("div", *map(_main_effect_figure, mains), class_="shapes"),
        tag("h3", "Interactions of two features") if drawn_pairs else None,
        tag("div", *map(_interaction_figure, drawn_pairs), class_="shapes") if drawn_pairs else None,
    )


def _unit(model: Any) -> str:
    if not hasattr(model, "classes_"):
        return "in the unit of the target"
    if model.forest_.link.n_scores == 1:
        return f"which add up to the log-odds of “{shortened(str(model.classes_[-1]))}”"
    return "which add up to a score for each class; the largest score wins"


@dataclass(frozen=True)
class _Classes:
    """The classes in a figure, out of n. Each class has the same colour in every figure."""

    drawn: list[int]
    n: int

    def paint(self, element: Element, k: int, kind: str) -> Element:
        """Set the colour of an element to that of the k-th class in the figure."""
        return paint(element, self.drawn[k], self.n, kind)


def _main_effect_figure(shape: Shape) -> Element:
    """Return the figure of a main effect, for the classes that it separates most."""
    spread = np.abs(shape.values).max(axis=0)
    drawn = sorted(np.argsort(-spread, kind="stable")[:MAX_CLASSES].tolist())
    classes, targets = _Classes(drawn, len(shape.targets)), tuple(shape.targets[k] for k in drawn)
    shape = Shape(shape.axes, shape.values[:, drawn], targets, shape.noise[:, drawn])
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
    low = min(float((shape.values - 2 * shape.noise).min()), 0.0)
    high = max(float((shape.values + 2 * shape.noise).max()), 0.0)

    def y(values: Floats | float) -> Any:
        return MARGIN + (high - values) / max(high - low, _TINY) * (STEPS_HEIGHT - 2 * MARGIN)

    n, bottom = axis.n_regular, STEPS_HEIGHT + DENSITY_HEIGHT
    density = axis.weights / np.maximum(np.diff(x), _TINY)
    heights = density / max(float(density.max()), _TINY) * DENSITY_HEIGHT
    parts: list[Child] = [_area(x, bottom - heights, np.full_like(heights, bottom), class_="density")]
    parts.append(line(0, y(0.0), WIDTH, y(0.0), "rule"))
    parts.append(line(x[n], MARGIN / 2, x[n], bottom, "rule"))
    for k in range(len(shape.targets)):
        middle, top, below = (y(shape.values[:, k] + side * shape.noise[:, k]) for side in (0, 2, -2))
        for begin, end in ((0, n), (n, len(middle))):
            borders, groups = x[begin : end + 1], slice(begin, end)
            parts.append(classes.paint(_area(borders, top[groups], below[groups], fill_opacity="0.2"), k, "fill"))
            path = tag("path", d=f"M{_steps_text(borders, middle[groups])}", class_="steps")
            if begin == n:
                path.set("stroke-opacity", _opacity(axis, n))
            parts.append(classes.paint(path, k, "stroke"))
    parts += [
        text(2, MARGIN - 5, f"{high:+.3g}"),
        text(2, STEPS_HEIGHT - 3, f"{low:+.3g}"),
        text(0, bottom + 11, axis.ticks[0][1]),
        text(x[n] - 3, bottom + 11, axis.ticks[-1][1], "end"),
        text(WIDTH, MARGIN - 5, "missing", "end"),
    ]
    return svg(parts, bottom + MARGIN, f"The main effect of {axis.name}, from {low:.3g} to {high:.3g}")


def _opacity(axis: Axis, group: int) -> str:
    """Return the opacity of a group's effect, which is pale if noise could explain all of its records."""
    return "1" if axis.weights[group] > 0 else PALE


def _area(x: Floats, upper: Floats, lower: Floats, **attributes: object) -> Element:
    """Return the area between two step functions."""
    return tag("path", d=f"M{_steps_text(x, upper)}L{_steps_text(x[::-1], lower[::-1])}Z", **attributes)


def _steps_text(x: Floats, y: Floats) -> str:
    """Return a step function as the part of a path after its first letter."""
    starts = [f"{x[0]:.2f} {y[0]:.2f}", *(f"V{height:.2f}" for height in y[1:])]
    return "".join(f"{start}H{end:.2f}" for start, end in zip(starts, x[1:], strict=True))


def _bars(shape: Shape, classes: _Classes) -> Element:
    """Return a drawing with horizontal bars for the effects and the records of each group."""
    (axis,) = shape.axes
    largest = max(float((np.abs(shape.values) + 2 * shape.noise).max()), _TINY)
    middle = LABEL_WIDTH + (WIDTH - LABEL_WIDTH) / 2
    scale = (WIDTH - LABEL_WIDTH) / 2 / largest
    heaviest = max(float(axis.weights.max()), _TINY)
    parts: list[Child] = []
    for i, label in enumerate(axis.labels):
        top = MARGIN + i * ROW_HEIGHT
        width = (WIDTH - LABEL_WIDTH) * axis.weights[i] / heaviest
        parts.append(rectangle(LABEL_WIDTH, top + ROW_HEIGHT - 3, width, 2, "density"))
        parts.append(text(LABEL_WIDTH - 4, top + 10, shortened(label, MAX_LABEL_LENGTH), "end"))
        height = (ROW_HEIGHT - 5) / len(shape.targets)
        for k, value in enumerate(shape.values[i].tolist()):
            left = middle + min(value, 0.0) * scale
            bar = rectangle(left, top + 1 + k * height, abs(value) * scale, height, fill_opacity=_opacity(axis, i))
            parts.append(classes.paint(bar, k, "fill"))
            reach, centre = 2 * float(shape.noise[i, k]), top + 1 + (k + 0.5) * height
            low, high = (middle + end * scale for end in (value - reach, value + reach))
            parts.append(line(low, centre, high, centre, "rule"))
    bottom = MARGIN + len(axis.labels) * ROW_HEIGHT
    parts += [
        line(middle, MARGIN - 2, middle, bottom, "rule"),
        text(LABEL_WIDTH, MARGIN - 5, f"{-largest:+.3g}"),
        text(WIDTH, MARGIN - 5, f"{largest:+.3g}", "end"),
    ]
    return svg(parts, bottom + 4, f"The main effect of {axis.name}, up to {largest:.3g}")


def _interaction_figure(shape: Shape) -> Element:
    """Return the figure of an interaction, for the class that it separates most."""
    k = int(np.abs(shape.values).max(axis=(0, 1)).argmax())
    first, second = shape.axes
    values = shape.net[..., k]
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
    note = f"blue {-largest:+.3g} to red {largest:+.3g}; white: within two standard deviations of the noise"
    name = f"{first.name} (across) × {second.name} (up)"
    drawing = svg(parts, height + MARGIN, f"The interaction of {first.name} and {second.name}, {note}")
    return tag("figure", tag("figcaption", *breakable(f"{name}{about}")), drawing, tag("p", note, class_="note"))


def _ticks(axis: Axis, positions: Floats, every: int = 1) -> list[tuple[float, str]]:
    """Return the positions and texts of labels: the ends of a range, or every ``every``-th category."""
    middles = (positions[1:] + positions[:-1]) / 2
    if axis.edges is None:
        ticks = [(middles[i], axis.labels[i]) for i in range(0, len(axis.labels), every)]
    else:
        ticks = [(positions[0], axis.ticks[0][1]), (positions[axis.n_regular], axis.ticks[-1][1])]
    return [(float(position), shortened(label, MAX_LABEL_LENGTH)) for position, label in ticks]


def _without_rare_groups(shape: Shape) -> Shape:
    """Return a shape with only the `MAX_GROUPS` most frequent categories of each categorical feature."""
    axes, values, noise = [], shape.values, shape.noise
    for dimension, axis in enumerate(shape.axes):
        if axis.edges is not None or len(axis.labels) <= MAX_GROUPS:
            axes.append(axis)
            continue
        kept = np.sort(np.argsort(-axis.weights, kind="stable")[:MAX_GROUPS])
        labels, n_regular = [axis.labels[i] for i in kept], int((kept < axis.n_regular).sum())
        weights, codes = axis.weights[kept], axis.codes[kept]
        axes.append(replace(axis, labels=labels, n_regular=n_regular, weights=weights, codes=codes))
        values, noise = (np.take(array, kept, axis=dimension) for array in (values, noise))
    return Shape(tuple(axes), values, shape.targets, noise)


def _along(axis: Axis, begin: float, end: float) -> Floats:
    """Return the positions, on a drawing, of the borders between the groups of an axis."""
    positions = np.log(axis.positions) if axis.is_logarithmic else axis.positions
    return np.asarray(begin + (positions - positions[0]) / (positions[-1] - positions[0]) * (end - begin))


def check_score(model: Any, score: Any) -> None:
    """Raise an error unless ``score`` is a score of this model."""
    if not isinstance(score, PrivateScore):
        raise TypeError(f"score must be a PrivateScore, got {type(score).__name__}.")
    classes = getattr(model, "classes_", None)
    own = (None if classes is None else tuple(classes.tolist()), model.forest_.digest)
    if (score.classes, score.model_digest) != own:
        raise ValueError("score is the score of another model. Score this model, and pass that score.")


def score_section(score: PrivateScore) -> Element:
    """Return the section of a score."""
    return section(
        "score",
        "Score",
        tag(
            "p",
            f"The score shows how well the model predicts test rows outside the training data. {score.estimand} It was "
            "released with noise, and cost the people in the test rows ",
            tag("strong", f"ε = {cost_text(score.ledger.total)}"),
            ". For people who are also in the training data, this adds up with the cost of the model.",
        ),
        *(tag("p", f"Not private: {reason}", class_="bad note") for reason in score.ledger.reasons_not_private),
        *(tag("p", warning, class_="bad note") for warning in score.warnings),
        _estimates(score),
        tag(
            "p",
            f"Each interval contains the score on the population of the test rows with a probability of "
            f"{100 * score.confidence:g} %. This holds for each interval by itself, not for a whole table or curve. "
            "The intervals account for the noise and for the sample.",
            class_="note",
        ),
        *_confusion(score),
        *_drawings(score),
    )


def _estimates(score: PrivateScore) -> Element:
    rows: list[Sequence[Child]] = [
        [name, e.text(".4g"), f"{e.low:.4g} to {e.high:.4g}"] for name, e in score.estimates.items()
    ]
    n = score.records
    rows.append([f"{score.subjects} (noise alone)", n.text(",.0f"), f"{n.low:,.0f} to {n.high:,.0f}"])
    return table(["score", "estimate", f"{100 * score.confidence:g} % interval"], rows, numeric={1, 2})


def _confusion(score: PrivateScore) -> list[Element]:
    if score.classes is None or score.confusion_matrix is None:
        return []
    shown = [shortened(str(label)) for label in score.classes[:MAX_LISTED_CLASSES]]
    rows: list[Sequence[Child]] = [
        [f"true {label}", *(_share(estimate) for estimate in row[: len(shown)])]
        for label, row in zip(shown, score.confusion_matrix, strict=False)
    ]
    head = ["true class", *(f"predicted {label}" for label in shown)]
    note = f"Shares of all {score.subjects}."
    if len(score.classes) > len(shown):
        note += f" The table shows the first {len(shown)} of {len(score.classes)} classes."
    matrix = table(head, rows, numeric=set(range(1, len(head))))
    return [tag("h3", "Confusion matrix"), matrix, tag("p", note, class_="note")]


def _share(estimate: Estimate) -> str:
    return f"{estimate.text('.1%')} ({estimate.low:.1%} to {estimate.high:.1%})"


def _drawings(score: PrivateScore) -> list[Element]:
    if not score.curves:
        return []
    figures = []
    for label, curves in zip(score.curve_classes[:MAX_CURVES], score.curves, strict=False):
        name = shortened(str(label))
        figures += [
            tag("figure", tag("figcaption", f"ROC curve of “{name}”"), _roc(curves, name)),
            tag("figure", tag("figcaption", f"Calibration of “{name}”"), _calibration(curves, name)),
        ]
    note = (
        "ROC curve: each box shows the intervals of both rates at a threshold. It contains both true rates with a "
        f"probability of at least {200 * score.confidence - 100:g} %. Calibration: predicted probabilities (across) "
        "and the observed share of the class with its interval (up); a calibrated model is on the diagonal. In boxes "
        "without a line, the rates are unknown. Both plots leave out test rows of undeclared classes."
    )
    return [tag("h3", "Ranking and calibration"), tag("div", *figures, class_="shapes"), tag("p", note, class_="note")]


def _x(share: float) -> float:
    return CURVE_MARGIN + share * CURVE_SIZE


def _y(share: float) -> float:
    return CURVE_MARGIN / 2 + (1 - share) * CURVE_SIZE


def _frame(across: str, up: str) -> list[Child]:
    bottom = _y(0) + 11
    return [
        rectangle(_x(0), _y(1), CURVE_SIZE, CURVE_SIZE, "frame"),
        line(_x(0), _y(0), _x(1), _y(1), "rule"),
        text(_x(0), bottom, "0"),
        text(_x(1), bottom, "1", "end"),
        text(_x(0.5), bottom, across, "middle"),
        text(_x(0) - 4, _y(1) + 8, "1", "end"),
        text(_x(0) + 4, _y(1) + 12, up),
    ]


def _box(across: tuple[float, float], up: tuple[float, float], kind: str) -> Element:
    width, height = (across[1] - across[0]) * CURVE_SIZE, (up[1] - up[0]) * CURVE_SIZE
    return rectangle(_x(across[0]), _y(up[1]), width, height, kind, fill_opacity="0.15")


def _roc(curves: ClassCurves, name: str) -> Element:
    parts = _frame("false positives", "true positives")
    places = [(1.0, 1.0)]
    for point in curves.roc_curve:
        f, t = point.false_positive_rate, point.true_positive_rate
        parts.append(_box((f.low, f.high), (t.low, t.high), "fill-0"))
        if f.value is not None and t.value is not None:
            places.append((f.value, t.value))
    if len(places) > 1:
        path = "M" + "L".join(f"{_x(f):.2f} {_y(t):.2f}" for f, t in [*places, (0.0, 0.0)])
        parts.append(tag("path", d=path, class_="steps stroke-0"))
    area = curves.roc_auc
    parts.append(text(_x(1) - 4, _y(0) - 6, f"AUC {area.text('.3f')} ({area.low:.3f} to {area.high:.3f})", "end"))
    return svg(parts, _y(0) + CURVE_MARGIN, f"The ROC curve of {name}, area {area}")


def _calibration(curves: ClassCurves, name: str) -> Element:
    parts = _frame("predicted", "observed")
    for point in curves.calibration:
        observed = point.observed
        parts.append(_box((point.low, point.high), (observed.low, observed.high), "fill-2"))
        if observed.value is not None:
            height = _y(observed.value)
            parts.append(line(_x(point.low), height, _x(point.high), height, "steps stroke-2"))
    return svg(parts, _y(0) + CURVE_MARGIN, f"Calibration of {name}: predicted and observed shares")
