"""Which page this is: its date, the data set, who is responsible, and the digest of the model file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from typing import Any

from diprime.estimators.files import file_content, to_model
from diprime.model.files import read_file
from diprime.output.report.html import Child, Element, facts, tag

NOT_STATED = "not stated"


@dataclass(frozen=True)
class Imprint:
    """What a report says of itself.

    Attributes
    ----------
    data, responsible : str or None
        The name of the data set, and who answers for the report.
    day : date
        The day of the report.
    digest : str or None
        The SHA-256 of the model file, in hexadecimal; None for a model that has no file.
    """

    data: str | None
    responsible: str | None
    day: date
    digest: str | None


def make_imprint(
    model: Any,
    *,
    data: str | None = None,
    responsible: str | None = None,
    day: date | None = None,
    model_file: str | os.PathLike[str] | bytes | None = None,
) -> Imprint:
    """Return an imprint: of a day, by default today, and of a model file, by default the one that would be saved."""
    for name, value in (("data", data), ("responsible", responsible)):
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise ValueError(f"{name} is {value!r}; give a name, or leave it out.")
    if day is not None and not isinstance(day, date):
        raise TypeError(f"day is a {type(day).__name__}; give a datetime.date.")
    if model_file is None:
        content = file_content(model)
    else:
        content = model_file if isinstance(model_file, bytes) else read_file(model_file)
        _check_own(model, content)
    digest = None if content is None else sha256(content).hexdigest()
    return Imprint(data, responsible, date.today() if day is None else day, digest)


def _check_own(model: Any, content: bytes) -> None:
    """Refuse the file of another model: a page that states its digest would vouch for what it does not show."""
    own = file_content(model)
    if content != own and (own is None or file_content(to_model(content, "model_file")) != own):  # an older format
        raise ValueError("model_file is not the file of this model; give the one that it was saved to or loaded from.")


def imprint(content: Imprint) -> Element:
    """Return the imprint as part of a page's head."""
    rows: list[tuple[str, Child]] = [
        ("data set", content.data or NOT_STATED),
        ("responsible", content.responsible or NOT_STATED),
        ("date of this report", content.day.isoformat()),
    ]
    if content.digest is not None:
        rows.append(("SHA-256 of the model file", tag("code", content.digest)))
    return facts(rows)
