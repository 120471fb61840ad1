"""Colours of classes and of parts of a budget: six of the style sheet, or as many different ones as are needed."""

from __future__ import annotations

from diprime.output.report.html import Element, tag

N_COLOURS = 6
"""How many colours style.css defines, for light and for dark pages."""

_LIGHTNESS = (38, 56, 72)


def colours(n: int) -> list[str] | None:
    """Return different colours for more than `N_COLOURS` things; None if the style sheet has enough.

    Hues go around the circle, and neighbours differ in lightness as well.

    Examples
    --------
    >>> colours(6) is None, len(set(colours(26)))
    (True, 26)
    """
    if n <= N_COLOURS:
        return None
    return [f"hsl({360 * i / n:.1f}, 62%, {_LIGHTNESS[i % len(_LIGHTNESS)]}%)" for i in range(n)]


def paint(element: Element, index: int, n: int, kind: str = "fill") -> Element:
    """Give a part of a drawing the colour of one of n things, as its ``fill`` or as its ``stroke``."""
    palette = colours(n)
    if palette is None:
        element.set("class", " ".join(filter(None, [element.get("class"), f"{kind}-{index}"])))
    else:
        element.set(kind, palette[index])
    return element


def swatch(index: int, n: int) -> Element:
    """Return a small square of a colour, for a legend."""
    square = paint(tag("rect", width="100%", height="100%"), index, n)
    return tag("svg", square, class_="swatch", aria_hidden="true")
