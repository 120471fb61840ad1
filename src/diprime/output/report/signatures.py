"""The section of a model file's signature."""

from __future__ import annotations

from diprime.model.signatures import SignatureCheck
from diprime.output.report.html import Element, section, tag

_HEADINGS = {
    "valid": "The file is signed",
    "wrong": "The signature is wrong",
    "not checked": "The signature was not checked",
}


def signature(check: SignatureCheck) -> Element:
    """Return what is known about the signature, and what a signature means."""
    is_wrong = check.state == "wrong"
    return section(
        "signature",
        _HEADINGS[check.state],
        tag("p", check.text, class_="bad note" if is_wrong else "note"),
        tag("p", "Nothing on this page can be relied on.", class_="bad note") if is_wrong else None,
        tag(
            "p",
            "A valid signature says that somebody who holds the key vouches for exactly this file. It does not say "
            "that the ledger is true: that is for the signer to know, and for you to decide whom to believe.",
        ),
    )
