"""The whole domain of a model: every name, range and level, long lists folded away."""

from __future__ import annotations

from collections.abc import Sequence

from diprime.domain import Categorical, Domain, Numeric
from diprime.domain.features import int_if_whole
from diprime.domain.kinds import Feature
from diprime.model.feature_words import counted, feature_text
from diprime.output.report.html import Child, Element, table, tag

MAX_ROWS = 30
"""How many columns are shown at once; the others are folded away."""
MAX_LISTED = 20
"""How many levels, or edges between cells, are shown at once."""


def domain_tables(domain: Domain) -> list[Element]:
    """Return what was declared about every column of the data, and about the target."""
    target = domain.target_name or "the target"
    rows: list[Sequence[Child]] = [[name, _facts(feature)] for name, feature in domain.features.items()]
    rows.append([f"{target} (to predict)", _facts(domain.target)])
    head = ["feature", "values"]
    rest = rows[MAX_ROWS:-1]
    tables = [table(head, [*rows[: -1 if not rest else MAX_ROWS], rows[-1]])]
    if rest:
        tables.append(tag("details", tag("summary", counted(len(rest), "more feature")), table(head, rest)))
    return tables


def _facts(feature: Feature) -> Child:
    """Return the facts about a feature; a long list can be opened."""
    if isinstance(feature, Categorical) and feature.buckets is None:
        return _listed(counted(len(feature.levels), "level"), [str(level) for level in feature.levels])
    if isinstance(feature, Numeric) and feature.edges is not None:
        return _listed(
            f"numbers in {feature.n_cells} cells, with edges", [str(int_if_whole(edge)) for edge in feature.edges]
        )
    return feature_text(feature)


def _listed(what: str, items: list[str]) -> Child:
    text = ", ".join(items)
    if len(items) <= MAX_LISTED:
        return f"{what}: {text}"
    return tag("details", tag("summary", what), text)
