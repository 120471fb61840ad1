"""The option that checks a model's signature, and what commands say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from diprime.cli.shell import escape_controls, stdout
from diprime.model.signatures import SignatureCheck

MEANING = "A holder of the key vouches for this very file; whether its ledger is true is theirs to know."

PublicKeyOption = Annotated[
    Path | None,
    typer.Option("--public-key", metavar="FILE", help="A public key, to check the model's signature with."),
]

RequiredKeyOption = Annotated[
    Path | None,
    typer.Option(
        "--public-key", metavar="FILE", help="A public key; the model is used only if it was signed with this key."
    ),
]


def print_signature(check: SignatureCheck | None) -> None:
    """Print what is known about a model's signature, loudly if it is wrong."""
    if check is None:
        return
    if check.state == "wrong":
        stdout().print(f"[bold red]WRONG SIGNATURE.[/bold red] {escape(escape_controls(check.text))}", soft_wrap=True)
    else:
        print(escape_controls(check.text))
        print(MEANING if check.state == "valid" else "Give --public-key to check it.")
