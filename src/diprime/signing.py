"""Signatures of model files."""

from diprime.model.signatures import (
    KeyIsEncryptedError,
    Signature,
    SignatureCheck,
    SignatureError,
    check_signature,
    new_key,
    sign_model,
    verify_model,
)

__all__ = [
    "KeyIsEncryptedError",
    "Signature",
    "SignatureCheck",
    "SignatureError",
    "check_signature",
    "new_key",
    "sign_model",
    "verify_model",
]
