"""Signatures of model files."""

from diprime.estimators.signing import InspectedModel, check_signature, inspect_model, sign_model, verify_model
from diprime.model.signatures import KeyIsEncryptedError, Signature, SignatureCheck, SignatureError, new_key

__all__ = [
    "InspectedModel",
    "KeyIsEncryptedError",
    "Signature",
    "SignatureCheck",
    "SignatureError",
    "check_signature",
    "inspect_model",
    "new_key",
    "sign_model",
    "verify_model",
]
