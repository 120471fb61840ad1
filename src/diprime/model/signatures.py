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
from diprime.domain.files import parse_json
from diprime.model.files import load_content

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ENDING = ".sig"
PUBLIC_ENDING = ".pub"
FORMAT = 1
MAX_BYTES = 1 << 14  # of a signature or a key
_BLOCK = 1 << 20
_PATTERNS = {
    "key": re.compile(r"[A-Za-z0-9+/]{43}="),
    "time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", re.ASCII),
    "sha256": re.compile(r"[0-9a-f]{64}"),
    "signature": re.compile(r"[A-Za-z0-9+/]{86}=="),
}

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


def sign_model(
    path: AnyPath, key: AnyPath, *, password: str | None = None, signature: AnyPath | None = None
) -> Signature:
    """Sign a model file: write a signature beside it, or elsewhere, in place of an earlier one.

    By signing you vouch for the file, its ledger included. What is not a sound model is not signed.

    Parameters
    ----------
    path : str or path
        The model file.
    key : str or path
        The file of the private key.
    password : str, optional
        The password of the key, if it has one.
    signature : str or path, optional
        Where to write the signature; the path of the model with ``.sig`` after it unless given.

    Returns
    -------
    signature : Signature
        What was written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from diprime import DiPriMeRegressor, Domain, Numeric
    >>> from diprime.signing import new_key, sign_model, verify_model
    >>> x = np.linspace(0, 10, 500)[:, None]
    >>> model = DiPriMeRegressor(1.0, Domain({"x": Numeric(0, 10)}, target=Numeric(0, 10))).fit(x, x[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/line.diprime")
    ...     public = new_key(f"{folder}/reviewer.key")
    ...     signed = sign_model(f"{folder}/line.diprime", f"{folder}/reviewer.key")
    ...     verify_model(f"{folder}/line.diprime", public) == signed
    True
    """
    private = _read_private_key(Path(key), password)
    load_content(path)
    digest, time = _digest(Path(path)), datetime.now(timezone.utc).isoformat(timespec="seconds")
    made = Signature(_key_text(private.public_key()), time, digest, _base64(private.sign(_signed_text(digest, time))))
    with atomic_file(_place(path, signature)) as file:
        file.write((json.dumps({"format": FORMAT, **asdict(made)}, indent=1) + "\n").encode())
    return made


def verify_model(path: AnyPath, public_key: AnyPath, *, signature: AnyPath | None = None) -> Signature:
    """Check that a model file is exactly as somebody who holds a key has signed it; raise an error if it is not.

    Parameters
    ----------
    path : str or path
        The model file.
    public_key : str or path
        The file of the public key, from somebody whom you trust.
    signature : str or path, optional
        The file of the signature; the path of the model with ``.sig`` after it unless given.

    Returns
    -------
    signature : Signature
        The signature, which is valid.

    Raises
    ------
    SignatureError
        If the signature is missing, or is not one of this file by this key.
    """
    return _verify(path, _read_public_key(Path(public_key)), _place(path, signature))


def _verify(path: AnyPath, key: Ed25519PublicKey, place: Path) -> Signature:
    from cryptography.exceptions import InvalidSignature

    if not place.exists():
        raise SignatureError(f"{path} is not signed: there is no file {place}.")
    found = _read_signature(place)
    if found.key != _key_text(key):
        raise SignatureError(f"{path} was signed with another key, {found.key}; do not trust it for this one.")
    if found.sha256 != _digest(Path(path)):
        raise SignatureError(f"{path} is not the file that was signed: it was changed or replaced; do not trust it.")
    try:
        key.verify(base64.b64decode(found.signature), _signed_text(found.sha256, found.time))
    except InvalidSignature:
        raise SignatureError(
            f"The signature of {path} is false: no holder of the key made it; do not trust it."
        ) from None
    return found


def check_signature(
    path: AnyPath, public_key: AnyPath | None = None, *, signature: AnyPath | None = None
) -> SignatureCheck | None:
    """Return what there is to say about the signature of a model file, for reports.

    Parameters
    ----------
    path : str or path
        The model file.
    public_key : str or path, optional
        The file of the public key. Without it, nothing can be checked.
    signature : str or path, optional
        The file of the signature; the path of the model with ``.sig`` after it unless given.

    Returns
    -------
    check : SignatureCheck or None
        None if there is no signature and no public key was given.
    """
    place = _place(path, signature)
    if public_key is None:
        if not place.exists():
            return None
        return SignatureCheck("not checked", f"{place.name} was not checked, because no public key was given.")
    key = _read_public_key(Path(public_key))  # a mistake in the public key says nothing about the signature
    try:
        found = _verify(path, key, place)
    except SignatureError as error:
        return SignatureCheck("wrong", str(error))
    return SignatureCheck("valid", f"Signed with the key {found.key} at {found.time}.")


def _place(path: AnyPath, signature: AnyPath | None) -> Path:
    return Path(f"{os.fspath(path)}{ENDING}" if signature is None else signature)


def _signed_text(digest: str, time: str) -> bytes:
    return f"diprime model signature {FORMAT}\n{digest}\n{time}\n".encode("ascii")


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    if path.exists() and not path.is_file():
        raise SignatureError(f"{path} is not a file.")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _read_signature(path: Path) -> Signature:
    try:
        content = parse_json(_read_small(path))
    except ValueError:
        content = None
    names = Signature.__dataclass_fields__
    if not isinstance(content, dict) or content.keys() != {"format", *names} or content["format"] != FORMAT:
        raise SignatureError(f"{path} is not a signature of a model; make one with 'diprime sign'.")
    for name, pattern in _PATTERNS.items():
        if not isinstance(content[name], str) or not pattern.fullmatch(content[name]):
            raise SignatureError(f"{path} is not a sound signature: its {name} cannot be read.")
    return Signature(**{name: content[name] for name in names})


def _read_private_key(path: Path, password: str | None) -> Ed25519PrivateKey:
    _need_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        secret = None if password is None else password.encode()
        key: Any = serialization.load_pem_private_key(_read_small(path), secret)
    except TypeError:
        if password is None:
            raise KeyIsEncryptedError(f"{path} is encrypted; give its password.") from None
        raise SignatureError(f"{path} has no password; give none.") from None
    except (ValueError, UnsupportedAlgorithm):
        wrong = "or the password is wrong" if password is not None else "make one with 'diprime keygen'"
        raise SignatureError(f"{path} is not a private key in a PEM file, {wrong}.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureError(f"{path} is not an Ed25519 key; make one with 'diprime keygen'.")
    return key


def _read_public_key(path: Path) -> Ed25519PublicKey:
    _need_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key: Any = serialization.load_pem_public_key(_read_small(path))
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureError(f"{path} is not a public Ed25519 key; give the file that ends in {PUBLIC_ENDING}.")
    return key


def _read_small(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise SignatureError(f"{path} is too large to be a key or a signature.")
    return content


def _key_text(key: Ed25519PublicKey) -> str:
    return _base64(key.public_bytes_raw())


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ImportError("Signatures need the cryptography package: run pip install 'diprime[sign]'.") from None
