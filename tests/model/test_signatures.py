"""Signatures of model files: what was signed is accepted, and nothing else is, whatever was changed."""

import base64
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diprime import DiPriMeRegressor, Domain, ModelFileError, Numeric, load
from diprime.model import signatures
from diprime.model.signatures import read_private_key
from diprime.signing import (
    KeyIsEncryptedError,
    SignatureCheck,
    SignatureError,
    check_signature,
    new_key,
    sign_model,
    verify_model,
)
from tests.golden import FIXTURES

pytest.importorskip("cryptography", reason="cryptography is not installed.")
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """Return a folder with a model, a key and a signature."""
    folder = tmp_path_factory.mktemp("signed")
    x = np.linspace(0, 1, 300)[:, None]
    DiPriMeRegressor(1.0, Domain({"x": Numeric(0, 1)}, Numeric(0, 1)), max_depth=2).fit(x, x[:, 0]).save(folder / "m")
    new_key(folder / "key")
    sign_model(folder / "m", folder / "key")
    return folder


@pytest.fixture
def copy(signed, tmp_path):
    """Return a copy of these files, to be changed."""
    for path in signed.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path


def content(folder):
    return json.loads((folder / "m.sig").read_text())


def write(folder, **entries):
    (folder / "m.sig").write_text(json.dumps({**content(folder), **entries}))


def refused(folder, match):
    with pytest.raises(SignatureError, match=match) as raised:
        verify_model(folder / "m", folder / "key.pub")
    message = str(raised.value)
    assert "\n" not in message
    assert message.endswith(".")
    text = message.replace(f"{folder}{os.sep}", "")  # pages show no folders of the machine that made them
    assert check_signature(folder / "m", folder / "key.pub") == SignatureCheck("wrong", text)


def test_what_was_signed_is_accepted(signed):
    found = verify_model(signed / "m", signed / "key.pub")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", found.time)
    check = check_signature(signed / "m", signed / "key.pub")
    assert check == SignatureCheck("valid", f"Signed with the key {found.key} at {found.time}.")
    assert load(signed / "m").privacy_.is_private


def test_the_signature_is_what_the_module_says(signed):
    """Anybody can check it with a library of their own."""
    found = content(signed)
    assert list(found) == ["format", "key", "time", "sha256", "signature"]
    public = ed25519.Ed25519PublicKey.from_public_bytes(base64.b64decode(found["key"]))
    lines = f"diprime model signature 1\n{found['sha256']}\n{found['time']}\n"
    public.verify(base64.b64decode(found["signature"]), lines.encode())
    assert serialization.load_pem_public_key((signed / "key.pub").read_bytes()) == public


def test_a_model_of_which_any_byte_is_changed_is_refused(copy):
    data = (copy / "m").read_bytes()
    for place in (0, 20, len(data) // 2, len(data) - 1):
        changed = bytearray(data)
        changed[place] ^= 1
        (copy / "m").write_bytes(changed)
        refused(copy, "is not the file that was signed")
    for other in (data[:-1], data + b"\0", b""):
        (copy / "m").write_bytes(other)
        refused(copy, "is not the file that was signed")


def test_a_sound_model_with_another_ledger_is_refused(copy):
    model = load(copy / "m")
    model.privacy_ = replace(model.privacy_, waivers=["another"])
    model.save(copy / "m")
    refused(copy, "is not the file that was signed")


@pytest.mark.parametrize("entry", ["time", "sha256", "signature"])
def test_a_signature_of_which_anything_is_changed_is_refused(entry, copy):
    text = content(copy)[entry]
    other = "3" if text[5] != "3" else "4"
    write(copy, **{entry: text[:5] + other + text[6:]})
    refused(copy, "is not the file" if entry == "sha256" else "is false")


def test_a_digest_of_the_changed_file_does_not_help(copy):
    (copy / "m").write_bytes(b"forged")
    write(copy, sha256="0" * 64)
    refused(copy, "is not the file that was signed")
    write(copy, sha256=hashlib.sha256(b"forged").hexdigest())
    refused(copy, "is false")


def test_a_signature_by_another_key_is_refused(copy):
    new_key(copy / "other")
    sign_model(copy / "m", copy / "other")
    refused(copy, "another key")
    key = signatures._key_text(serialization.load_pem_public_key((copy / "key.pub").read_bytes()))
    write(copy, key=key)
    refused(copy, "is false")


def test_a_signature_of_something_else_by_the_same_key_is_refused(copy):
    """What is signed begins with its purpose."""
    private = serialization.load_pem_private_key((copy / "key").read_bytes(), None)
    found = content(copy)
    lines = f"{found['sha256']}\n{found['time']}\n".encode()
    write(copy, signature=base64.b64encode(private.sign(lines)).decode())
    refused(copy, "is false")


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "null", "1", "\0", "{" * 10_000, "[" * 16_000, '{"format": 1}',
        '{"format": 1, "format": 1}',
    ],
)  # fmt: skip
def test_what_is_no_signature_is_refused(text, copy):
    (copy / "m.sig").write_text(text)
    refused(copy, "is not a signature of a model")


@pytest.mark.parametrize(
    "entries",
    [
        {"key": None}, {"key": "a"}, {"key": "é" * 43 + "="}, {"time": "2026-01-01"}, {"time": "x"}, {"time": 3},
        {"time": "2026-01-01T00:00:00+00:00\n"}, {"sha256": "A" * 64}, {"sha256": []}, {"signature": "a" * 88},
        {"signature": {}},
    ],
)  # fmt: skip
def test_entries_that_are_none_are_refused(entries, copy):
    write(copy, **entries)
    refused(copy, f"its {next(iter(entries))} cannot be read")
    write(copy, more=1)
    refused(copy, "is not a signature of a model")


@pytest.mark.parametrize("version", [2, 0, True, 1.0, "1", None])
def test_other_formats_are_refused(version, copy):
    write(copy, format=version)
    refused(copy, "is not a signature")


@pytest.mark.parametrize("entry", ["key", "signature"])
def test_there_is_one_text_for_each_value(entry, copy):
    """The last letter before the padding has bits that decoders ignore."""
    text = content(copy)[entry]
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = len(text.rstrip("=")) - 1
    other = text[:last] + digits[digits.index(text[last]) + 1] + text[last + 1 :]
    assert base64.b64decode(other) == base64.b64decode(text)
    write(copy, **{entry: other})
    refused(copy, f"its {entry} cannot be read")


def test_a_large_file_is_no_signature(copy):
    (copy / "m.sig").write_text("a" * 100_000)
    refused(copy, "is larger than any key or signature")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_nobody_waits_for_pipes(copy):
    os.mkfifo(copy / "pipe")
    for call in (
        lambda: sign_model(copy / "m", copy / "pipe"),
        lambda: verify_model(copy / "m", copy / "pipe"),
        lambda: verify_model(copy / "m", copy / "key.pub", signature=copy / "pipe"),
    ):
        with pytest.raises(SignatureError, match="pipe is not a file"):
            call()
    (copy / "m.sig").unlink()
    os.mkfifo(copy / "m.sig")
    refused(copy, "is not a file")


def test_no_signature_is_fine_unless_one_is_asked_for(copy):
    (copy / "m.sig").unlink()
    assert check_signature(copy / "m") is None
    refused(copy, "is not signed: there is no file")


def test_without_a_public_key_nothing_is_checked(copy):
    write(copy, signature="no matter")
    check = check_signature(copy / "m")
    assert check.state == "not checked"
    assert check.text == "m.sig was not checked, because no public key was given."


def test_a_signature_may_be_elsewhere(copy):
    (copy / "m.sig").replace(copy / "elsewhere")
    assert verify_model(copy / "m", copy / "key.pub", signature=copy / "elsewhere")
    assert check_signature(copy / "m", copy / "key.pub", signature=copy / "elsewhere").state == "valid"
    made = sign_model(copy / "m", copy / "key", signature=copy / "again")
    assert verify_model(copy / "m", copy / "key.pub", signature=copy / "again") == made
    assert not (copy / "m.sig").exists()


def test_what_is_not_a_model_is_not_signed(copy):
    (copy / "text").write_text("a ledger of my own")
    with pytest.raises(ModelFileError, match="is not a diprime model"):
        sign_model(copy / "text", copy / "key")
    with pytest.raises(FileNotFoundError):
        sign_model(copy / "nowhere", copy / "key")
    with pytest.raises(ModelFileError, match="is not a file"):
        verify_model(copy, copy / "key.pub", signature=copy / "m.sig")
    assert not (copy / "text.sig").exists()


@pytest.mark.parametrize("path", sorted(Path(FIXTURES).glob("format-*/*.diprime"))[::40], ids=str)
def test_files_of_all_formats_can_be_signed(path, signed, tmp_path):
    sign_model(path, signed / "key", signature=tmp_path / "sig")
    assert verify_model(path, signed / "key.pub", signature=tmp_path / "sig")


# Keys -----------------------------------------------------------------------------------------------------------------


def test_only_its_owner_reads_a_private_key(signed):
    if os.name == "posix":
        assert stat.S_IMODE((signed / "key").stat().st_mode) == 0o600
    assert b"PRIVATE" in (signed / "key").read_bytes()
    assert b"PRIVATE" not in (signed / "key.pub").read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o601])
def test_a_private_key_that_others_can_use_is_refused(copy, mode):
    (copy / "key").chmod(mode)
    with pytest.raises(SignatureError, match=r"is a private key that others can use; run 'chmod 600"):
        read_private_key(copy / "key")
    with pytest.raises(SignatureError, match="chmod 600"):
        sign_model(copy / "m", copy / "key")
    (copy / "key").chmod(0o400)
    read_private_key(copy / "key")


def test_keys_are_never_replaced(copy):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    with pytest.raises(FileExistsError):
        new_key(copy / "key")
    (copy / "key.pub").replace(copy / "kept")
    with pytest.raises(FileExistsError):
        new_key(copy / "key")
    (copy / "key.pub").write_bytes((copy / "kept").read_bytes())
    (copy / "key").replace(copy / "kept")
    with pytest.raises(FileExistsError, match=r"key\.pub exists"):
        new_key(copy / "key")
    assert not (copy / "key").exists()
    assert before["key"] == (copy / "kept").read_bytes()
    assert before["key.pub"] == (copy / "key.pub").read_bytes()


def test_no_two_keys_are_alike(tmp_path):
    keys = [new_key(tmp_path / str(i)).read_bytes() for i in range(5)]
    assert len(set(keys)) == 5


def test_a_key_with_a_password_needs_it(copy):
    new_key(copy / "locked", password="open sesame")
    assert b"ENCRYPTED" in (copy / "locked").read_bytes()
    with pytest.raises(KeyIsEncryptedError, match="give its password"):
        sign_model(copy / "m", copy / "locked")
    with pytest.raises(SignatureError, match="password is wrong"):
        sign_model(copy / "m", copy / "locked", password="open barley")
    made = sign_model(copy / "m", copy / "locked", password="open sesame")
    assert verify_model(copy / "m", copy / "locked.pub") == made
    with pytest.raises(SignatureError, match="has no password"):
        sign_model(copy / "m", copy / "key", password="x")
    with pytest.raises(SignatureError, match="password is empty"):
        new_key(copy / "empty", password="")
    assert not (copy / "empty").exists()


def pem(key):
    none = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, none)


def test_other_files_are_no_keys(copy):
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (copy / "rsa").write_bytes(pem(other))
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    (copy / "rsa.pub").write_bytes(other.public_key().public_bytes(*form))
    (copy / "large").write_bytes((copy / "key.pub").read_bytes() + b"\n" * 100_000)
    with pytest.raises(SignatureError, match="not an Ed25519 key"):
        sign_model(copy / "m", copy / "rsa")
    for path in ("m", "m.sig", "key.pub"):
        with pytest.raises(SignatureError, match="not a private key"):
            sign_model(copy / "m", copy / path, signature=copy / "new")
    for path in ("m", "m.sig", "key", "rsa.pub", "large"):
        for check in (verify_model, check_signature):
            with pytest.raises(SignatureError, match=r"not a public Ed25519 key|larger than any key"):
                check(copy / "m", copy / path)
    for check in (verify_model, check_signature):
        with pytest.raises(FileNotFoundError):
            check(copy / "m", copy / "nowhere")


def test_keys_of_other_programs_can_be_used(copy):
    key = ed25519.Ed25519PrivateKey.generate()
    (copy / "theirs").write_bytes(pem(key))
    (copy / "theirs").chmod(0o600)
    assert sign_model(copy / "m", copy / "theirs").key == base64.b64encode(key.public_key().public_bytes_raw()).decode()


def test_without_the_package_users_are_told_what_to_install(signed):
    script = f"""
import sys
sys.modules["cryptography"] = None
from diprime.signing import check_signature, new_key, sign_model, verify_model
folder = {str(signed)!r}
assert check_signature(folder + "/m").state == "not checked"
for call in (
    lambda: new_key(folder + "/new"),
    lambda: sign_model(folder + "/m", folder + "/key"),
    lambda: verify_model(folder + "/m", folder + "/key.pub"),
    lambda: check_signature(folder + "/m", folder + "/key.pub"),
):
    try:
        call()
    except ImportError as error:
        print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    told = "Signatures need the cryptography package: run pip install 'diprime[sign]'."
    assert run.stdout.splitlines() == [told] * 4
