"""Signing and checking model files: each is read once, and what is read is checked, parsed and signed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from diprime.estimators.files import to_model
from diprime.model.files import read_file
from diprime.model.signatures import (
    Signature,
    SignatureCheck,
    check_bytes,
    new_signature_path,
    read_private_key,
    read_public_key,
    sign_bytes,
    verify_bytes,
    write_signature,
)

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class InspectedModel:
    """A model file that was read once.

    Attributes
    ----------
    model : fitted estimator
        The model.
    signature : SignatureCheck or None
        What was found out about its signature; None if there is none and no public key was given.
    content : bytes
        The bytes of the file, which `diprime.report.render` takes as ``model_file``.
    """

    model: Any
    signature: SignatureCheck | None
    content: bytes


def sign_model(
    path: AnyPath, key: AnyPath, *, password: str | None = None, signature: AnyPath | None = None
) -> Signature:
    """Sign a model file: write a signature beside it, or elsewhere, in place of an earlier one.

    By signing you vouch for the file, its ledger included. What `diprime.load` refuses is not signed.

    Parameters
    ----------
    path : str or path
        The model file.
    key : str or path
        The file of the private key.
    password : str, optional
        The password of the key, if it has one.
    signature : str or path, optional
        Where to write the signature; the path of the model with ``.sig`` after it unless given. Neither the model nor
        the key is written over.

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
    place = new_signature_path(path, signature, key)
    private = read_private_key(key, password)
    data = read_file(path)
    to_model(data, path)
    made = sign_bytes(data, private)
    write_signature(made, place)
    return made


def verify_model(path: AnyPath, public_key: AnyPath, *, signature: AnyPath | None = None) -> Signature:
    """Check that a model file is exactly as somebody who holds a key has signed it; raise an error if it is not.

    The file may be another one by the time that you load it: ``diprime.load(path, public_key=...)`` checks the bytes
    that it loads.

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
    key = read_public_key(public_key)
    return verify_bytes(read_file(path), key, path, signature)


def check_signature(
    path: AnyPath, public_key: AnyPath | None = None, *, signature: AnyPath | None = None
) -> SignatureCheck | None:
    """Return what there is to say about the signature of a model file, whatever else is wrong with it.

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
    return check_bytes(read_file(path), public_key, path, signature)


def inspect_model(
    path: AnyPath, public_key: AnyPath | None = None, *, signature: AnyPath | None = None
) -> InspectedModel:
    """Read a model file once: return the model, what there is to say about its signature, and its bytes, for reports.

    A model whose signature is wrong is returned as well, after its bytes have been checked; `diprime.load` with a
    public key refuses it.

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
    found : InspectedModel
        The model, the check and the bytes.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from diprime import DiPriMeRegressor, Domain, Numeric
    >>> from diprime.report import render
    >>> from diprime.signing import inspect_model, new_key, sign_model
    >>> x = np.linspace(0, 10, 500)[:, None]
    >>> model = DiPriMeRegressor(1.0, Domain({"x": Numeric(0, 10)}, target=Numeric(0, 10))).fit(x, x[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/line.diprime")
    ...     public = new_key(f"{folder}/reviewer.key")
    ...     signed = sign_model(f"{folder}/line.diprime", f"{folder}/reviewer.key")
    ...     found = inspect_model(f"{folder}/line.diprime", public)
    >>> page = render(found.model, signature=found.signature, model_file=found.content)
    >>> found.signature.state, signed.sha256 in page
    ('valid', True)
    """
    data = read_file(path)
    check = check_bytes(data, public_key, path, signature)
    return InspectedModel(to_model(data, path), check, data)
