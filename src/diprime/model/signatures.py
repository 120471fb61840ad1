"""Signatures of model files: whoever holds a private key vouches for a file, and whoever has the public key can check.

A signature is a file of its own, beside the model: ``model.diprime.sig`` for ``model.diprime``. So model files stay as
they are, those of older formats can be signed too, several people can sign one file, and nothing of a file is parsed
before all of its bytes have been checked.

Keys are Ed25519 keys in PEM files, as other programs write and read them. A signature file is a JSON object:
``format`` (1), ``key`` (the public key, 32 bytes in base64), ``time`` (when it was signed, as the signer says),
``sha256`` (of the model file, in hexadecimal digits) and ``signature`` (64 bytes in base64). Signed are the lines
"diprime model signature 1", ``sha256`` and ``time``, each with a line feed, in ASCII.

A signature says that a holder of the key has vouched for exactly this file. It does not say that its ledger is true,
nor who holds the key: that is for the reader to know.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from diprime._util.atomic_file import atomic_file
from diprime._util.regular_file import is_same_file, read_regular, status_of
from diprime.domain.files import parse_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["KeyIsEncryptedError", "Signature", "SignatureCheck", "SignatureError", "new_key"]  # for users

ENDING = ".sig"
PUBLIC_ENDING = ".pub"
FORMAT = 1
MAX_BYTES = 1 << 14  # of a signature or a key
_PATTERNS = {
    "key": re.compile(r"[A-Za-z0-9+/]{43}="),
    "time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", re.ASCII),
    "sha256": re.compile(r"[0-9a-f]{64}"),
    "signature": re.compile(r"[A-Za-z0-9+/]{86}=="),
}

_IN_BASE64 = ("key", "signature")  # of which the last bits are zeros, so that there is one text for each value

AnyPath = str | os.PathLike[str]


class SignatureError(ValueError):
    """A signature that is missing or wrong, or a file of a signature or of a key that cannot be read."""


class KeyIsEncryptedError(SignatureError):
    """A private key that has a password, which was not given."""


@dataclass(frozen=True)
class Signature:
    """A signature of a model file.

    Attributes
    ----------
    key : str
        The public key of whoever signed, in base64.
    time : str
        When it was signed, in UTC, as the signer says.
    sha256 : str
        The digest of the model file.
    signature : str
        The signature of all this, in base64.
    """

    key: str
    time: str
    sha256: str
    signature: str


@dataclass(frozen=True)
class SignatureCheck:
    """What was found out about the signature of a model file.

    Attributes
    ----------
    state : {"valid", "wrong", "not checked"}
        A signature that is missing where one is expected is wrong.
    text : str
        The same in a sentence.
    """

    state: Literal["valid", "wrong", "not checked"]
    text: str


def new_key(path: AnyPath, *, password: str | None = None) -> Path:
    """Make a key: write the private key to a file, and the public key to one beside it whose name ends in ``.pub``.

    Neither file may exist. Only its owner may read the private key, where the system knows owners.

    Parameters
    ----------
    path : str or path
        The file of the private key.
    password : str, optional
        A password that encrypts the private key.

    Returns
    -------
    public : pathlib.Path
        The file of the public key, to be given to whoever checks signatures.
    """
    _need_cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if password == "":
        raise SignatureError("The password is empty; give one, or none at all.")
    private, public = Path(path), Path(f"{os.fspath(path)}{PUBLIC_ENDING}")
    if public.exists():
        raise FileExistsError(f"{public} exists, and keys are never replaced; give another name.")
    key = Ed25519PrivateKey.generate()
    encryption = (
        serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password.encode())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR), "wb") as file:
        file.write(pem)
    with public.open("xb") as file:
        file.write(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
    return public


def sign_bytes(data: bytes, private: Ed25519PrivateKey) -> Signature:
    """Return a signature of the bytes of a model file, made now."""
    digest, time = hashlib.sha256(data).hexdigest(), datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Signature(_key_text(private.public_key()), time, digest, _base64(private.sign(_signed_text(digest, time))))


def write_signature(made: Signature, path: Path) -> None:
    """Write a signature to a file, in place of an earlier one."""
    with atomic_file(path) as file:
        file.write((json.dumps({"format": FORMAT, **asdict(made)}, indent=1) + "\n").encode())


def signature_path(path: AnyPath, signature: AnyPath | None = None) -> Path:
    """Return where the signature of a model file is: beside it, unless said otherwise."""
    return Path(f"{os.fspath(path)}{ENDING}" if signature is None else signature)


def new_signature_path(path: AnyPath, signature: AnyPath | None, key: AnyPath) -> Path:
    """Return where to write a signature; refuse to write it over the model or the private key, by whatever name."""
    place = signature_path(path, signature)
    for what, taken in (("model", path), ("private key", key)):
        if is_same_file(status_of(place), status_of(taken)):
            raise SignatureError(f"{place} is the {what}; write the signature to another file.")
    return place


def verify_bytes(
    data: bytes, key: Ed25519PublicKey, path: AnyPath, signature: AnyPath | None = None, *, only_names: bool = False
) -> Signature:
    """Return the signature of the bytes of a model file; raise a `SignatureError` if there is none, or a wrong one.

    Errors name files by their paths, or without folders if ``only_names``.
    """
    from cryptography.exceptions import InvalidSignature

    place = signature_path(path, signature)
    name, sig_name = (str(file.name if only_names else file) for file in (Path(path), place))
    if not place.exists():
        raise SignatureError(f"{name} is not signed: there is no file {sig_name}.")
    found = _read_signature(place, sig_name)
    if found.key != _key_text(key):
        raise SignatureError(f"{name} was signed with another key, {found.key}; do not trust it for this one.")
    if found.sha256 != hashlib.sha256(data).hexdigest():
        raise SignatureError(f"{name} is not the file that was signed: it was changed or replaced; do not trust it.")
    try:
        key.verify(base64.b64decode(found.signature), _signed_text(found.sha256, found.time))
    except InvalidSignature:
        raise SignatureError(
            f"The signature of {name} is false: no holder of the key made it; do not trust it."
        ) from None
    return found


def check_bytes(
    data: bytes, public_key: AnyPath | None, path: AnyPath, signature: AnyPath | None = None
) -> SignatureCheck | None:
    """Return what there is to say about the signature of the bytes of a model file; None if there is nothing."""
    place = signature_path(path, signature)
    if public_key is None:
        if not place.exists():
            return None
        return SignatureCheck("not checked", f"{place.name} was not checked, because no public key was given.")
    key = read_public_key(public_key)  # a mistake in the public key says nothing about the signature
    try:
        found = verify_bytes(data, key, path, signature, only_names=True)
    except SignatureError as error:
        return SignatureCheck("wrong", str(error))
    return SignatureCheck("valid", f"Signed with the key {found.key} at {found.time}.")


def _signed_text(digest: str, time: str) -> bytes:
    return f"diprime model signature {FORMAT}\n{digest}\n{time}\n".encode("ascii")


def _read_signature(path: Path, name: str) -> Signature:
    text = _read_small(path, name)
    try:
        content = parse_json(text)
    except ValueError:
        content = None
    names = Signature.__dataclass_fields__
    if not isinstance(content, dict) or content.keys() != {"format", *names} or not _is_format(content["format"]):
        raise SignatureError(f"{name} is not a signature of a model; make one with 'diprime sign'.")
    for entry, pattern in _PATTERNS.items():
        value = content[entry]
        is_sound = isinstance(value, str) and pattern.fullmatch(value)
        if not is_sound or (entry in _IN_BASE64 and _base64(base64.b64decode(value)) != value):
            raise SignatureError(f"{name} is not a sound signature: its {entry} cannot be read.")
    return Signature(**{entry: content[entry] for entry in names})


def _is_format(value: Any) -> bool:
    return type(value) is int and value == FORMAT  # true and 1.0 equal 1


def read_private_key(path: AnyPath, password: str | None = None) -> Ed25519PrivateKey:
    """Read a private key; a `KeyIsEncryptedError` asks for its password."""
    _need_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    pem = _read_small(path, str(path))
    try:
        secret = None if password is None else password.encode()
        key: Any = serialization.load_pem_private_key(pem, secret)
    except TypeError:
        if password is None:
            raise KeyIsEncryptedError(f"{path} is encrypted; give its password.") from None
        raise SignatureError(f"{path} has no password; give none.") from None
    except (ValueError, UnsupportedAlgorithm):
        wrong = "or the password is wrong" if password is not None else "make one with 'diprime keygen'"
        raise SignatureError(f"{path} is not a private key in a PEM file, {wrong}.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureError(f"{path} is not an Ed25519 key; make one with 'diprime keygen'.")
    _check_private(path)
    return key


def _check_private(path: AnyPath) -> None:
    """Refuse a private key that other users of the machine can read or replace, as ssh does; Windows has no modes."""
    status = status_of(path)
    if os.name == "posix" and status is not None and status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SignatureError(f"{path} is a private key that others can use; run 'chmod 600 {path}', or make a new one.")


def read_public_key(path: AnyPath) -> Ed25519PublicKey:
    """Read a public key."""
    _need_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    pem = _read_small(path, str(path))
    try:
        key: Any = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureError(f"{path} is not a public Ed25519 key; give the file that ends in {PUBLIC_ENDING}.")
    return key


def _read_small(path: AnyPath, name: str) -> bytes:
    return read_regular(path, MAX_BYTES, "key or signature", lambda wrong: SignatureError(f"{name} {wrong}"))


def _key_text(key: Ed25519PublicKey) -> str:
    return _base64(key.public_bytes_raw())


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ImportError("Signatures need the cryptography package: run pip install 'diprime[sign]'.") from None
