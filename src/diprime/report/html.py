"""HTML elements that escape all text and attributes, because names and categories are untrusted input."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence, Set
from xml.etree import ElementTree

from diprime.privacy.measures import Epsilon, rounded_text

Element = ElementTree.Element
Child = Element | str | None

_JOINTS = re.compile(r"(?<=\w[_./:-])(?=[^\W\d_])")  # as in explore.js; not within numbers


def tag(name: str, /, *children: Child, **attributes: object) -> Element:
    """Return an element with the given children and attributes.

    A trailing underscore of an attribute's name is dropped, as in ``class_``; other underscores become hyphens.

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


def table(head: Sequence[str], rows: Sequence[Sequence[Child]], *, numeric: Set[int] = frozenset()) -> Element:
    """Return a table in a scrolling box. The columns in ``numeric`` are aligned as numbers.

    Every cell contains the heading of its column, because narrow screens show rows as lists. The ARIA roles keep these
    lists accessible as a table.
    """

    def row_of(kind: str, role: str, row: Sequence[Child]) -> Element:
        cells = []
        for i, cell in enumerate(row):
            cells.append(tag(kind, *breakable(cell), class_="number" if i in numeric else "text", role=role))
            if kind == "td" and head[i] and _holds_something(cell):
                cells[-1].set("data-head", str(head[i]))
        return tag("tr", *cells, role="row")

    top = tag("thead", row_of("th", "columnheader", head), role="rowgroup")
    body = tag("tbody", *(row_of("td", "cell", row) for row in rows), role="rowgroup")
    return tag("div", tag("table", top, body, role="table"), class_="scroll", tabindex=0, role="group")


def _holds_something(cell: Child) -> bool:
    return bool(cell) if isinstance(cell, str) else cell is not None and bool(len(cell) or cell.text)


def facts(rows: Sequence[tuple[str, Child]]) -> Element:
    """Return a list of names and values."""
    return tag("dl", *(element for name, value in rows for element in (tag("dt", name), tag("dd", *breakable(value)))))


def breakable(content: Child) -> list[Child]:
    """Return a text with line-break opportunities after the characters that join words."""
    if not isinstance(content, str):
        return [content]
    parts: list[Child] = []
    for part in _JOINTS.split(content):
        parts += [part, tag("wbr")]
    return parts[:-1]


def section(identifier: str, heading: str, *children: Child) -> Element:
    """Return a section with its heading."""
    return tag(
        "section",
        tag("h2", heading, id=f"{identifier}-heading"),
        *children,
        id=identifier,
        aria_labelledby=f"{identifier}-heading",
    )


def link(url: str) -> Element:
    """Return a link whose text is its address, so that it remains useful in print."""
    return tag("a", *breakable(url), href=url, rel="noreferrer")


def cost_text(cost: Epsilon) -> str:
    """Return a cost as text, rounded up as in the ledger."""
    return rounded_text(cost).replace("inf", "∞")


def exact_text(cost: Epsilon) -> str:
    """Return a cost as an exact fraction."""
    return "∞" if cost == math.inf else str(cost)


def json_script(identifier: str, data: object) -> Element:
    """Return a script element that contains JSON data. ``<`` is escaped, so that no text can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return tag("script", text, id=identifier, type="application/json")


def to_html(element: Element) -> str:
    """Return an element as HTML."""
    return ElementTree.tostring(element, encoding="unicode", method="html")
