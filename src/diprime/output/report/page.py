"""The page: its sections in order, the embedded style and script, and a content security policy."""

from __future__ import annotations

import os
from base64 import b64encode
from datetime import date
from hashlib import sha256
from importlib.resources import files
from typing import Any

from diprime.model.additive import AdditiveForest
from diprime.model.signatures import SignatureCheck
from diprime.model.tree_view import fitted_forest
from diprime.output.report.html import tag, to_html
from diprime.output.report.imprint import imprint, make_imprint
from diprime.output.report.scores import check_score, scores
from diprime.output.report.sections import cite, explorer, importances, ledger, model_card, promise, verdict
from diprime.output.report.shapes import shapes
from diprime.output.report.signatures import signature as signature_section
from diprime.scoring import PrivateScore


def render(
    model: Any,
    score: PrivateScore | None = None,
    *,
    signature: SignatureCheck | None = None,
    data: str | None = None,
    responsible: str | None = None,
    day: date | None = None,
    model_file: str | os.PathLike[str] | bytes | None = None,
) -> str:
    """Return a report of a fitted model: one self-contained HTML page, which needs no other files and no network.

    It states the privacy guarantee and its limits, and shows the ledger, the importances, the trees, the domain and how
    to cite. For a boosted model it shows the functions of one or two features that the trees add up to, instead of the
    trees. It contains released numbers only: whatever the fitted model holds, and nothing else about the data.

    Parameters
    ----------
    model : fitted estimator
        A forest or a boosted model.
    score : PrivateScore, optional
        A score of the model on private test rows, to be shown with its intervals and its cost.
    signature : SignatureCheck, optional
        What :func:`diprime.signing.inspect_model` says of the model's file. If it is wrong, so says the head of the
        page.
    data : str, optional
        The name of the data set, for the head of the page.
    responsible : str, optional
        Who answers for the report: a person or an office.
    day : date, optional
        The day of the report; by default today.
    model_file : str, path or bytes, optional
        The file of the model, or what is in it, whose SHA-256 the page states, which ties both together. By default it
        is the digest of the file that ``model.save`` writes. The file of another model is refused.

    Returns
    -------
    html : str
        The page, to be encoded as UTF-8.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import DiPriMeRegressor, Domain, Numeric
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(1000, 1))
    >>> domain = Domain({"age": Numeric(0, 10)}, target=Numeric(0, 10))
    >>> page = render(DiPriMeRegressor(1.0, domain).fit(X, X[:, 0]))
    >>> page.startswith("<!doctype html>"), "https://" in page
    (True, False)
    """
    if score is not None:
        check_score(model, score)
    about = make_imprint(model, data=data, responsible=responsible, day=day, model_file=model_file)
    has_shapes = isinstance(fitted_forest(model), AdditiveForest)
    style, script = (_asset(name) for name in ("style.css", "explore.js"))
    # The hashes admit this style and this script only; nothing else may run, and nothing may be loaded or sent.
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
        verdict(model, imprint(about), signature),
        None if signature is None else signature_section(signature),
        promise(model),
        ledger(model),
        None if score is None else scores(score),
        importances(model),
        shapes(model) if has_shapes else explorer(model),
        model_card(model, has_score=score is not None),
        cite(model),
    )
    page = to_html(tag("html", head, tag("body", main, None if has_shapes else tag("script", script)), lang="en"))
    # Names may contain lone surrogates, which UTF-8 cannot encode.
    return "<!doctype html>\n" + page.encode("utf-8", "replace").decode("utf-8") + "\n"


def _asset(name: str) -> str:
    return files("diprime.output.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
