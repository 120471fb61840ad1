"""The section of a private score: estimates, confusion matrix, ROC curves and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diprime.model.feature_words import shortened
from diprime.output.report.drawing import WIDTH, line, rectangle, svg, text
from diprime.output.report.html import Child, Element, section, table, tag
from diprime.privacy.measures import rounded_text
from diprime.scoring.classes import ClassCurves
from diprime.scoring.intervals import Estimate
from diprime.scoring.score import PrivateScore

MAX_CLASSES = 12
"""How many classes the confusion matrix shows."""
MAX_CURVES = 6
"""How many classes have drawings."""
MARGIN = 24.0
SIZE = WIDTH - 2 * MARGIN


def check_score(model: Any, score: Any) -> None:
    """Raise an error if a score is not one, or is of another kind of model."""
    if not isinstance(score, PrivateScore):
        raise TypeError(f"score must be a PrivateScore, got {type(score).__name__}.")
    classes = getattr(model, "classes_", None)
    if (None if classes is None else tuple(classes.tolist())) != score.classes:
        raise ValueError("The score is of a model with another target; score this model, and give that score.")


def scores(score: PrivateScore) -> Element:
    """Return the section of a score."""
    return section(
        "score",
        "The score",
        tag(
            "p",
            "How well the model predicts test rows, which must not have been trained on. The numbers were released "
            "with noise; this cost the people in the test rows ",
            tag("strong", f"ε = {rounded_text(score.ledger.total).replace('inf', '∞')}"),
            ". If they are among the people that the model was trained on, that adds up with what the model cost them.",
        ),
        *(tag("p", f"Not private: {objection}", class_="bad note") for objection in score.ledger.objections),
        _estimates(score),
        tag(
            "p",
            f"Intervals hold the score on all people that the test rows are a sample of with a probability of "
            f"{100 * score.confidence:g} %; they allow for the noise and for the sample.",
            class_="note",
        ),
        *_confusion(score),
        *_drawings(score),
    )


def _estimates(score: PrivateScore) -> Element:
    rows: list[Sequence[Child]] = [
        [name, f"{e.value:.4g}", f"{e.low:.4g} to {e.high:.4g}"] for name, e in score.estimates.items()
    ]
    n = score.records
    rows.append(["test rows (noise alone)", f"{n.value:,.0f}", f"{n.low:,.0f} to {n.high:,.0f}"])
    return table(["score", "estimate", f"{100 * score.confidence:g} % interval"], rows, numeric={1, 2})


def _confusion(score: PrivateScore) -> list[Element]:
    if score.classes is None or score.confusion_matrix is None:
        return []
    shown = [shortened(str(label)) for label in score.classes[:MAX_CLASSES]]
    rows: list[Sequence[Child]] = [
        [label, *(_share(estimate) for estimate in row[: len(shown)])]
        for label, row in zip(shown, score.confusion_matrix, strict=False)
    ]
    head = ["true class", *(f"predicted {label}" for label in shown)]
    note = "Shares of all test rows."
    if len(score.classes) > len(shown):
        note += f" The first {len(shown)} of {len(score.classes)} classes."
    matrix = table(head, rows, numeric=set(range(1, len(head))))
    return [tag("h3", "Confusion matrix"), matrix, tag("p", note, class_="note")]


def _share(estimate: Estimate) -> str:
    return f"{estimate.value:.1%} ({estimate.low:.1%} to {estimate.high:.1%})"


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
        "ROC curve: boxes are the intervals of both rates at each threshold. Calibration: how often the class occurs "
        "(up, with its interval) where it was predicted with these probabilities (across); a calibrated model is on "
        "the diagonal."
    )
    return [tag("h3", "Ranking and calibration"), tag("div", *figures, class_="shapes"), tag("p", note, class_="note")]


def _x(share: float) -> float:
    return MARGIN + share * SIZE


def _y(share: float) -> float:
    return MARGIN / 2 + (1 - share) * SIZE


def _frame(across: str, up: str) -> list[Child]:
    bottom = _y(0) + 11
    return [
        rectangle(_x(0), _y(1), SIZE, SIZE, "frame"),
        line(_x(0), _y(0), _x(1), _y(1), "rule"),
        text(_x(0), bottom, "0"),
        text(_x(1), bottom, "1", "end"),
        text(_x(0.5), bottom, across, "middle"),
        text(_x(0) - 4, _y(1) + 8, "1", "end"),
        text(_x(0) + 4, _y(1) + 12, up),
    ]


def _box(across: tuple[float, float], up: tuple[float, float], kind: str) -> Element:
    width, height = (across[1] - across[0]) * SIZE, (up[1] - up[0]) * SIZE
    return rectangle(_x(across[0]), _y(up[1]), width, height, kind, fill_opacity="0.15")


def _roc(curves: ClassCurves, name: str) -> Element:
    rates = [(point.false_positive_rate, point.true_positive_rate) for point in curves.roc_curve]
    boxes = [_box((f.low, f.high), (t.low, t.high), "fill-0") for f, t in rates]
    places = [(1.0, 1.0), *((f.value, t.value) for f, t in rates), (0.0, 0.0)]
    path = "M" + "L".join(f"{_x(f):.2f} {_y(t):.2f}" for f, t in places)
    parts = [*_frame("false positives", "true positives"), *boxes, tag("path", d=path, class_="steps stroke-0")]
    area = curves.roc_auc
    parts.append(text(_x(1) - 4, _y(0) - 6, f"AUC {area.value:.3f} ({area.low:.3f} to {area.high:.3f})", "end"))
    return svg(parts, _y(0) + MARGIN, f"The ROC curve of {name}, area {area}")


def _calibration(curves: ClassCurves, name: str) -> Element:
    parts = _frame("predicted", "observed")
    for point in curves.calibration:
        observed = point.observed
        parts.append(_box((point.low, point.high), (observed.low, observed.high), "fill-2"))
        height = _y(observed.value)
        parts.append(line(_x(point.low), height, _x(point.high), height, "steps stroke-2"))
    return svg(parts, _y(0) + MARGIN, f"Calibration of {name}: predicted and observed shares")
