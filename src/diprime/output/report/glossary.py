"""The words of a ledger, explained to people who do not know the mechanisms."""

from __future__ import annotations

import re
from collections.abc import Iterator

from diprime.output.report.html import Element, tag
from diprime.privacy.charges import Charge
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import GaussianDP

_COST_RANGE = re.compile(r"cost range ([\d,]+)(?: in units of 1/([\d,]+))?")

WINDOW = """where most of the numbers to predict lie, about the middle five sevenths of them; chosen privately. Splits \
and leaves take a number far outside for one at the border, so that the noise need not be as large as a few extreme \
values are."""
COST_RANGE = """a choice, say of a split, is made at random among candidates, and cheaper ones are more likely. What a \
candidate costs is counted in {unit}s. The range is the most by which one {unit} can change what candidates cost \
beside each other. The larger it is, the less the costs decide, and the more chance does."""
UNITS = """ Costs are whole numbers: in units of 1/{units} of a {unit}, a range of {range} is {share:.3g} {unit}s."""
L1 = """the most by which one {unit} can change the released numbers, all changes added up. The noise is as large as \
this asks for."""
L2 = """the most by which one {unit} can change the released numbers: the squares of all changes, added up. The noise \
is as large as this asks for."""
MU = """what releases with normal noise cost. These costs add up, and the sum is translated to ε and δ at the end."""


def glossary(ledger: Ledger) -> Element | None:
    """Return what the words of a ledger, and of those within it, mean; None if it has none of them."""
    words = _words(list(_charges(ledger)), ledger.unit)
    if not words:
        return None
    terms = [element for word, text in words.items() for element in (tag("dt", word), tag("dd", text))]
    return tag("details", tag("summary", "What these words mean"), tag("dl", *terms, class_="words"))


def _charges(ledger: Ledger) -> Iterator[Charge]:
    yield from ledger.charges
    for _, part in ledger.parts:
        yield from _charges(part)


def _words(charges: list[Charge], unit: str) -> dict[str, str]:
    words = {}
    if any(charge.kind.startswith("target window") for charge in charges):
        words["target window"] = WINDOW
    ranges = [match for charge in charges if (match := _COST_RANGE.fullmatch(charge.bound))]
    if ranges:
        words["cost range"] = COST_RANGE.format(unit=unit)
    for match in ranges:
        if match[2] is not None:
            size, units = (int(text.replace(",", "")) for text in match.groups())
            words["cost range"] += UNITS.format(units=match[2], range=match[1], share=size / units, unit=unit)
            break  # one example will do
    for word, text in (("L1 sensitivity", L1), ("squared L2 sensitivity", L2)):
        if any(charge.bound.startswith(word) for charge in charges):
            words[word] = text.format(unit=unit)
    if any(isinstance(charge.measure, GaussianDP) for charge in charges):
        words["μ²"] = MU
    return words
