"""Where a domain comes from, which decides whether a model may treat it as public."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["declared", "read"]

WORDS: dict[Kind, str] = {"declared": "declared", "read": "read from the data"}
"""The kinds of origin, as files and messages have them."""

PLACEHOLDER = "your name"
"""What a draft has in place of a reviewer's name."""

_MAX_REVIEWER = 200  # characters


@dataclass(frozen=True)
class Origin:
    """Where a domain comes from.

    Parameters
    ----------
    kind : {"declared", "read"}, default="declared"
        "declared" is written down from public knowledge. "read" is read from the data, so it tells about them.
    reviewed_by : str, optional
        Who has reviewed the domain and declares it public knowledge.

    Examples
    --------
    >>> Origin("read").objection
    'the domain was inferred from the data, so it tells ranges and levels of single records.'
    >>> print(Origin("read").reviewed("Jane Doe"))
    declared, reviewed by Jane Doe
    """

    kind: Kind = "declared"
    reviewed_by: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.kind not in WORDS:
            raise ValueError(f"The kind of origin {self.kind!r} is unknown; use {' or '.join(map(repr, WORDS))}.")
        if self.reviewed_by is not None:
            _check_reviewer(self.reviewed_by)
            if self.kind == "read":
                raise ValueError("A domain that was reviewed is declared; use Origin('declared', reviewed_by=...).")

    def __str__(self) -> str:
        return WORDS[self.kind] + (f", reviewed by {self.reviewed_by}" if self.reviewed_by else "")

    @property
    def objection(self) -> str | None:
        """Why a model that uses the domain is not private; None if the domain is no reason."""
        if self.kind == "read":
            return "the domain was inferred from the data, so it tells ranges and levels of single records."
        return None

    @property
    def remarks(self) -> list[str]:
        """What a reader of the model should know about the domain, in sentences."""
        if self.reviewed_by is None:
            return []
        return [f"The domain was reviewed by {self.reviewed_by}, who declares it public knowledge."]

    def reviewed(self, reviewer: str) -> Origin:
        """Return the origin of the same domain once somebody declares it public knowledge."""
        _check_reviewer(reviewer)
        return Origin("declared", reviewed_by=reviewer)

    def to_dict(self) -> dict[str, Any]:
        """Return the origin as the entries of a file: none if the domain is declared and nobody reviewed it."""
        if self == Origin():
            return {}
        reviewer = {} if self.reviewed_by is None else {"reviewed_by": self.reviewed_by}
        return {"origin": WORDS[self.kind], **reviewer}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Origin:
        """Read what :meth:`to_dict` writes; whoever adds ``reviewed_by`` to a draft declares it."""
        words = content.get("origin", WORDS["declared"])
        kinds = [kind for kind, text in WORDS.items() if text == words]
        if not kinds:
            raise ValueError(f"origin is not known; use {' or '.join(map(repr, WORDS.values()))}.")
        origin = cls(kinds[0])
        return origin.reviewed(content["reviewed_by"]) if "reviewed_by" in content else origin


def _check_reviewer(reviewer: object) -> None:
    """Refuse what is no name; it is printed on terminals, so that control characters are refused as well."""
    is_name = isinstance(reviewer, str) and reviewer.strip() and reviewer.isprintable()
    if not is_name or reviewer == PLACEHOLDER or len(str(reviewer)) > _MAX_REVIEWER:
        raise ValueError(
            "reviewed_by is not the name of a person; write who has checked that every line is public knowledge, "
            'for example reviewed_by = "Jane Doe, data protection".'
        )
