"""HTML elements whose text and attributes are always escaped: names and levels of a domain are untrusted input."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from xml.etree import ElementTree

Element = ElementTree.Element
Child = Element | str | None


def tag(name: str, /, *children: Child, **attributes: object) -> Element:
    """Return an element with the given children and attributes.

    A trailing underscore of an attribute's name is dropped, as in ``class_``; other underscores become hyphens.

    Examples
    --------
    >>> to_html(tag("p", "1 < 2 ", tag("b", "&"), class_="note", title='"'))
    '<p class="note" title="&quot;">1 &lt; 2 <b>&amp;</b></p>'
    """
    element = Element(name, {key.rstrip("_").replace("_", "-"): str(value) for key, value in attributes.items()})
    last: Element | None = None
    for child in children:
        if isinstance(child, str):
            if last is None:
                element.text = (element.text or "") + child
            else:
                last.tail = (last.tail or "") + child
        elif child is not None:
            element.append(child)
            last = child
    return element


def table(head: Sequence[Child], rows: Sequence[Sequence[Child]], *, numeric: Set[int] = frozenset()) -> Element:
    """Return a table, in a box that scrolls. The columns in ``numeric`` are aligned as numbers."""

    def cells(kind: str, row: Sequence[Child]) -> Element:
        return tag("tr", *(tag(kind, cell, class_="number" if i in numeric else "text") for i, cell in enumerate(row)))

    body = tag("tbody", *(cells("td", row) for row in rows))
    return tag("div", tag("table", tag("thead", cells("th", head)), body), class_="scroll", tabindex=0, role="group")


def section(identifier: str, heading: str, *children: Child) -> Element:
    """Return a section with its heading."""
    return tag(
        "section",
        tag("h2", heading, id=f"{identifier}-heading"),
        *children,
        id=identifier,
        aria_labelledby=f"{identifier}-heading",
    )


def json_script(identifier: str, data: object) -> Element:
    """Return a script element that holds data as JSON. ``<`` is escaped, so that no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return tag("script", text, id=identifier, type="application/json")


def to_html(element: Element) -> str:
    """Return an element as HTML."""
    return ElementTree.tostring(element, encoding="unicode", method="html")
