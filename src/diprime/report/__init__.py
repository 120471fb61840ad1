"""Reports of fitted models: one HTML page for printing and exploring."""

from __future__ import annotations

import datetime
import os
from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from typing import Any

from diprime.estimators.models import file_content, to_model
from diprime.inspection.views import fitted_forest
from diprime.model.additive import AdditiveForest
from diprime.model.files import read_file
from diprime.report.figures import check_score, score_section, shapes_section
from diprime.report.guarantee import guarantee
from diprime.report.html import Child, Element, facts, tag, to_html
from diprime.report.sections import cite, explorer, header, importances, ledger, model_card, no_score, use_and_approval
from diprime.scoring import PrivateScore

__all__ = ["Approval", "render"]

NOT_STATED = "not stated"


@dataclass(frozen=True)
class Approval:
    """A person's decision about the publication of a model, for :func:`render`.

    Parameters
    ----------
    name : str
        Person who decided.
    decision : str
        The decision, such as ``"approved for publication"``.
    date : datetime.date, optional
        Date of the decision. By default, today.

    Examples
    --------
    >>> from datetime import date
    >>> Approval("Jane Doe", "approved for publication", date(2026, 11, 19)).decision
    'approved for publication'
    """

    name: str
    decision: str
    date: datetime.date = field(default_factory=datetime.date.today)

    def __post_init__(self) -> None:
        _check_texts({"name": self.name, "decision": self.decision})
        _check_date(self.date)


def render(
    model: Any,
    score: PrivateScore | None = None,
    *,
    dataset: str | None = None,
    responsible: str | None = None,
    intended_use: str | None = None,
    approval: Approval | None = None,
    date: datetime.date | None = None,
    model_file: str | os.PathLike[str] | bytes | None = None,
) -> str:
    """Return a report of a fitted model: one self-contained HTML page, which needs no other files and no network.

    The report states the privacy guarantee and its limits, the privacy cost, the score, the intended use and the
    approval of the model. It also shows the importances, the domain, and the trees or the functions of the model. It
    contains released numbers only.

    Parameters
    ----------
    model : fitted estimator
        A forest or a boosted model.
    score : PrivateScore, optional
        Score of the model on private test rows, shown with its intervals and its cost.
    dataset : str, optional
        Name of the data set.
    responsible : str, optional
        Person or office that is responsible for the report.
    intended_use : str, optional
        Intended use of the model, in one or two sentences.
    approval : Approval, optional
        Decision about the publication of the model. By default, the report contains a form to fill in.
    date : datetime.date, optional
        Date of the report. By default, today.
    model_file : str, path or bytes, optional
        File of the model, or its content. The report states its SHA-256, and the file of another model is refused. By
        default, the report states the SHA-256 of the file that ``model.save`` writes.

    Returns
    -------
    html : str
        The page. Write it to a file as UTF-8.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import DiPriMeRegressor, Domain, Numeric
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(1000, 1))
    >>> domain = Domain({"age": Numeric(0, 10)}, target=Numeric(0, 10))
    >>> page = render(DiPriMeRegressor(1.0, domain).fit(X, X[:, 0]))
    >>> page.startswith("<!doctype html>")
    True
    """
    if score is not None:
        check_score(model, score)
    # The error says "data set", which suits both this parameter and the command-line option --data.
    _check_texts({"data set": dataset, "responsible": responsible, "intended_use": intended_use})
    _check_date(date)
    date = date or datetime.date.today()
    metadata = _metadata(model, dataset, responsible, date, model_file)
    has_shapes = isinstance(fitted_forest(model), AdditiveForest)
    style, script = (_asset(name) for name in ("style.css", "explore.js"))
    # The hashes admit only this style and this script. Nothing else may run, and nothing may be loaded or sent.
    scripts = "" if has_shapes else f"script-src '{_hash(script)}'; "
    policy = f"default-src 'none'; style-src '{_hash(style)}'; {scripts}img-src data:"
    title = f"Privacy report of a {type(model).__name__}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", style),
    )
    main = tag(
        "main",
        header(model, metadata),
        guarantee(model),
        ledger(model),
        no_score() if score is None else score_section(score),
        use_and_approval(model, intended_use, _decision(approval)),
        importances(model),
        shapes_section(model) if has_shapes else explorer(model),
        model_card(model),
        cite(model),
    )
    page = to_html(tag("html", head, tag("body", main, None if has_shapes else tag("script", script)), lang="en"))
    # Names may contain lone surrogates, which UTF-8 cannot encode.
    return "<!doctype html>\n" + page.encode("utf-8", "replace").decode("utf-8") + "\n"


def _asset(name: str) -> str:
    return files("diprime.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")


def _check_texts(texts: dict[str, str | None]) -> None:
    for name, text in texts.items():
        if text is not None and (not isinstance(text, str) or not text.strip()):
            raise ValueError(f"{name} must be a text, got {text!r}.")


def _check_date(date: object) -> None:
    if date is not None and not isinstance(date, datetime.date):
        raise TypeError(f"date must be a datetime.date, got {type(date).__name__}.")


def _decision(approval: Approval | None) -> list[tuple[str, Child]]:
    """Return the fields of an approval; without one, they are a form to fill in by hand."""
    if approval is None:
        return [(name, NOT_STATED) for name in ("name", "decision", "date")]
    return [("name", approval.name), ("decision", approval.decision), ("date", approval.date.isoformat())]


def _metadata(
    model: Any,
    dataset: str | None,
    responsible: str | None,
    date: datetime.date,
    model_file: str | os.PathLike[str] | bytes | None,
) -> Element:
    """Return the metadata in the header: data set, responsible person, date and digest of the model file."""
    rows: list[tuple[str, Child]] = [
        ("data set", dataset or NOT_STATED),
        ("responsible", responsible or NOT_STATED),
        ("date of this report", date.isoformat()),
    ]
    if model_file is None:
        content = file_content(model)
    else:
        content = model_file if isinstance(model_file, bytes) else read_file(model_file)
        _check_own(model, content)
    if content is not None:
        rows.append(("SHA-256 of the model file", tag("code", sha256(content).hexdigest())))
    return facts(rows)


def _check_own(model: Any, content: bytes) -> None:
    """Raise an error for the file of another model, because the page would state the digest of the wrong model."""
    own = file_content(model)
    if content != own and (
        own is None or file_content(to_model(content, "model_file")) != own
    ):  # a file of another diprime version
        raise ValueError("model_file is not the file of this model. Pass the file that it was saved to or loaded from.")
