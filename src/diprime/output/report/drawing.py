"""Elements of SVG drawings, whose width fits a figure of the page."""

from __future__ import annotations

from collections.abc import Sequence

from diprime.output.report.html import Child, Element, tag

WIDTH = 320.0
"""The width of a drawing, in its own units."""
MAX_LABEL_LENGTH = 16


def svg(parts: Sequence[Child], height: float, label: str) -> Element:
    """Return a drawing of a given height, with a label for those who cannot see it."""
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH:g} {height:g}", class_="shape", role="img", aria_label=label)


def rectangle(
    x: float, y: float, width: float, height: float, kind: str | None = None, **attributes: object
) -> Element:
    """Return a rectangle, of a class of the style sheet if one is given."""
    size = {"x": f"{x:.2f}", "y": f"{y:.2f}", "width": f"{width:.2f}", "height": f"{height:.2f}"}
    return tag("rect", **size, **({} if kind is None else {"class_": kind}), **attributes)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Element:
    """Return a straight line of a class of the style sheet."""
    return tag("line", x1=f"{x1:.2f}", y1=f"{y1:.2f}", x2=f"{x2:.2f}", y2=f"{y2:.2f}", class_=kind)


def text(x: float, y: float, content: str, anchor: str = "start") -> Element:
    """Return a text."""
    return tag("text", content, x=f"{x:.2f}", y=f"{y:.2f}", text_anchor=anchor)


def short_label(label: str) -> str:
    """Return a label with at most `MAX_LABEL_LENGTH` characters."""
    return label if len(label) <= MAX_LABEL_LENGTH else label[: MAX_LABEL_LENGTH - 1] + "…"
