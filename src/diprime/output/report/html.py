"""HTML elements whose text and attributes are escaped, whatever they hold: names and levels are other people's."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from xml.etree import ElementTree

Element = ElementTree.Element
Child = Element | str | None


def tag(name: str, /, *children: Child, **attributes: object) -> Element:
    """Return an element; ``class_`` is its class, and underscores in names of attributes are hyphens.

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
    """Return a table; the columns in ``numeric`` are aligned as numbers."""

    def cells(kind: str, row: Sequence[Child]) -> Element:
        return tag("tr", *(tag(kind, cell, class_="number" if i in numeric else "text") for i, cell in enumerate(row)))

    body = tag("tbody", *(cells("td", row) for row in rows))
    return tag("div", tag("table", tag("thead", cells("th", head)), body), class_="scroll", tabindex=0, role="group")


def json_script(identifier: str, data: object) -> Element:
    """Return an element that holds data for scripts: no ``<`` in it could end it early."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return tag("script", text, id=identifier, type="application/json")


def to_html(element: Element) -> str:
    """Return the text of an element."""
    return ElementTree.tostring(element, encoding="unicode", method="html")
