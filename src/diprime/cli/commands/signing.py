"""Signatures of model files: make a key, sign, verify."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diprime.cli.data_files import InputError
from diprime.cli.options import JsonOption, ModelPath, check_folder, refuse_dash
from diprime.cli.outputs import Commands
from diprime.cli.shell import confirm_written, escape_controls, examples, print_json, print_note
from diprime.cli.signature_options import MEANING
from diprime.estimators.files import to_model
from diprime.estimators.signing import verify_model
from diprime.model.files import read_file
from diprime.model.signatures import (
    ENDING,
    PUBLIC_ENDING,
    KeyIsEncryptedError,
    new_key,
    new_signature_path,
    read_private_key,
    sign_bytes,
    write_signature,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PASSWORD_VARIABLE = "DIPRIME_KEY_PASSWORD"

SignatureOption = Annotated[
    Path | None,
    typer.Option(
        "--signature",
        metavar="FILE",
        callback=lambda path: path if path is None else refuse_dash(path),
        show_default=f"the name of the model with {ENDING} after it",
        help="The file of the signature.",
    ),
]

commands = Commands()


@commands.command(epilog=examples("diprime keygen reviewer.key", "diprime keygen reviewer.key --password"))
def keygen(
    path: Annotated[Path, typer.Argument(metavar="KEY", help="Where to write the private key; must not exist.")],
    password: Annotated[
        bool, typer.Option("--password", help=f"Encrypt the key; asks, or takes {PASSWORD_VARIABLE}.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a key to sign models with: a private key to keep, and a public key, KEY.pub, to give away.

    Whoever has the private key can sign in your name. Hand out the public key in a way that people trust: those who
    check a signature with a key from somebody else check nothing.
    """
    check_folder(refuse_dash(path))
    public = new_key(path, password=_ask_password(confirm=True) if password else None)
    print_note(f"Keep {path} to yourself, and give {public} to those who check your signatures.")
    if as_json:
        print_json({"private_key": str(path), "public_key": str(public)})


@commands.command(signs=True, epilog=examples("diprime sign model.diprime --key reviewer.key"))
def sign(
    model_path: ModelPath,
    key: Annotated[Path, typer.Option("--key", "-k", metavar="FILE", help="Your private key.")],
    output: SignatureOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sign a model file: write MODEL.sig, which says that you vouch for the file as it is, ledger included.

    The model file stays as it is. Read its ledger before you sign.
    """
    place = new_signature_path(model_path, output, key)
    private = _read_key(key)  # a password may take its time: the file is read after that, once
    data = read_file(model_path)
    print_note(escape_controls(str(to_model(data, model_path).privacy_).splitlines()[0]))
    made = sign_bytes(data, private)
    write_signature(made, place)
    confirm_written(place, as_json, **asdict(made))


@commands.command(
    epilog=examples(
        f"diprime verify model.diprime --public-key reviewer.key{PUBLIC_ENDING}",
        f"diprime verify model.diprime --public-key reviewer.key{PUBLIC_ENDING} --signature elsewhere{ENDING}",
    )
)
def verify(
    model_path: ModelPath,
    public_key: Annotated[
        Path, typer.Option("--public-key", "-p", metavar="FILE", help="The public key of whoever should have signed.")
    ],
    signature: SignatureOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a model file is exactly as the holder of a key has signed it; fail if it is not.

    That the ledger is true is for the signer to know: a signature says who vouches for it.
    """
    found = verify_model(model_path, public_key, signature=signature)
    if as_json:
        print_json(asdict(found))
    else:
        print(f"Valid: signed with the key {found.key} at {found.time}.\n{MEANING}")


def _read_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key, and ask for its password only if it has one."""
    try:
        return read_private_key(path)
    except KeyIsEncryptedError:
        return read_private_key(path, _ask_password(confirm=False))


def _ask_password(*, confirm: bool) -> str:
    given = os.environ.get(PASSWORD_VARIABLE)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise InputError(f"The key needs a password: set {PASSWORD_VARIABLE}, or use a terminal.")
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=confirm, err=True))
