"""Where a domain comes from, which decides whether a model may treat it as public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from diprime.privacy.ledger import Ledger

Kind = Literal["declared", "learnt", "read"]

WORDS: dict[Kind, str] = {"declared": "declared", "learnt": "learnt privately", "read": "read from the data"}
"""The kinds of origin, as files and messages have them."""

PLACEHOLDER = "your name"
"""What a draft has in place of a reviewer's name."""

_MAX_REVIEWER = 200  # characters


@dataclass(frozen=True)
class Origin:
    """Where a domain comes from.

    Parameters
    ----------
    kind : {"declared", "learnt", "read"}, default="declared"
        "declared" is written down from public knowledge. "learnt" is learnt privately, and was paid for. "read" is read
        from the data, so it tells about them.
    reviewed_by : str, optional
        Who has reviewed the domain and declares it public knowledge.
    ledger : Ledger, optional
        What learning the domain cost. The ledger of every model that uses the domain includes it.

    Examples
    --------
    >>> Origin("read").objection
    'the domain was inferred from the data, so it tells ranges and levels of single records.'
    >>> print(Origin("read").reviewed("Jane Doe"))
    declared, reviewed by Jane Doe
    """

    kind: Kind = "declared"
    reviewed_by: str | None = field(default=None, kw_only=True)
    ledger: Ledger | None = field(default=None, kw_only=True, hash=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in WORDS:
            raise ValueError(f"The kind of origin {self.kind!r} is unknown; use {' or '.join(map(repr, WORDS))}.")
        if (self.kind == "learnt") is not isinstance(self.ledger, Ledger):
            raise ValueError("A domain that was learnt privately, and no other, has a ledger of what that cost.")
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
        remarks = [] if self.ledger is None else ["The domain was learnt privately; its charges are included."]
        if self.reviewed_by is not None:
            remarks.append(f"The domain was reviewed by {self.reviewed_by}, who declares it public knowledge.")
        return remarks

    def reviewed(self, reviewer: str) -> Origin:
        """Return the origin of the same domain once somebody declares it public knowledge.

        What learning it cost stays spent.
        """
        _check_reviewer(reviewer)
        return Origin("declared" if self.ledger is None else "learnt", reviewed_by=reviewer, ledger=self.ledger)

    def learnt(self, ledger: Ledger) -> Origin:
        """Return the origin of the same domain, which was declared, once what was open has been learnt."""
        return Origin("learnt", reviewed_by=self.reviewed_by, ledger=ledger)

    def check_learnable(self) -> None:
        """Refuse to learn more of a domain that is not declared: its ledger could not state what all of it costs."""
        if self.kind != "declared":
            raise ValueError(
                f"What is open can be learnt in a domain that is declared, and this one is {WORDS[self.kind]}; review "
                "it, or declare its features anew."
            )

    @classmethod
    def merge(cls, origins: Sequence[Origin]) -> Origin:
        """Return the origin of a domain that several models of disjoint populations share: the least private one."""
        for origin in origins:
            if origin.objection is not None:
                return origin
        ledgers = {origin.ledger.to_json(): origin.ledger for origin in origins if origin.ledger is not None}
        if not ledgers:
            return origins[0]
        ledger = next(iter(ledgers.values())) if len(ledgers) == 1 else Ledger.merge(list(ledgers.values()))
        return cls("learnt", ledger=ledger)

    def to_dict(self) -> dict[str, Any]:
        """Return the origin as the entries of a file: none if the domain is declared and nobody reviewed it."""
        if self == Origin():
            return {}
        reviewer = {} if self.reviewed_by is None else {"reviewed_by": self.reviewed_by}
        ledger = {} if self.ledger is None else {"ledger": self.ledger.to_dict()}
        return {"origin": WORDS[self.kind], **reviewer, **ledger}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Origin:
        """Read what :meth:`to_dict` writes; whoever adds ``reviewed_by`` to a draft declares it."""
        words = content.get("origin", WORDS["declared"])
        kinds = [kind for kind, text in WORDS.items() if text == words]
        if not kinds:
            raise ValueError(f"origin is not known; use {' or '.join(map(repr, WORDS.values()))}.")
        origin = cls(kinds[0], ledger=_read_ledger(content))
        return origin.reviewed(content["reviewed_by"]) if "reviewed_by" in content else origin


def _read_ledger(content: dict[str, Any]) -> Ledger | None:
    if "ledger" not in content:
        return None
    ledger = content["ledger"]
    try:
        return Ledger.from_json(ledger) if isinstance(ledger, str) else Ledger.from_dict(ledger)  # TOML has it as text
    except (ValueError, RecursionError) as error:
        raise ValueError(f"ledger cannot be read: {error}") from None


def _check_reviewer(reviewer: object) -> None:
    """Refuse what is no name; it is printed on terminals, so that control characters are refused as well."""
    is_name = isinstance(reviewer, str) and reviewer.strip() and reviewer.isprintable()
    if not is_name or reviewer == PLACEHOLDER or len(str(reviewer)) > _MAX_REVIEWER:
        raise ValueError(
            "reviewed_by is not the name of a person; write who has checked that every line is public knowledge, "
            'for example reviewed_by = "Jane Doe, data protection".'
        )
