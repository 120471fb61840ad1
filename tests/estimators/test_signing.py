"""Model files are read once: what is checked, loaded and signed are the same bytes."""

import hashlib
import os
from dataclasses import replace

import numpy as np
import pytest

from diprime import DiPriMeRegressor, Domain, ModelFileError, Numeric, load
from diprime.model import signatures
from diprime.model.files import from_bytes, save_content
from diprime.report import render
from diprime.signing import SignatureError, inspect_model, new_key, sign_model

pytest.importorskip("cryptography", reason="cryptography is not installed.")


def fitted(epsilon):
    x = np.linspace(0, 1, 300)[:, None]
    return DiPriMeRegressor(epsilon, Domain({"x": Numeric(0, 1)}, Numeric(0, 1)), max_depth=2).fit(x, x[:, 0])


@pytest.fixture
def signed(tmp_path):
    """Return a folder with a signed model, a key and another model, which is not signed."""
    fitted(1.0).save(tmp_path / "m")
    fitted(7.0).save(tmp_path / "other")
    new_key(tmp_path / "key")
    sign_model(tmp_path / "m", tmp_path / "key")
    return tmp_path


@pytest.fixture
def swapped(signed, monkeypatch):
    """Return the folder; the model is replaced by the other one as soon as its signature is read."""
    exact = signatures.parse_json

    def swap(text):
        (signed / "other").replace(signed / "m")
        return exact(text)

    monkeypatch.setattr(signatures, "parse_json", swap)
    return signed


def test_what_is_loaded_is_what_was_signed(signed):
    assert load(signed / "m", public_key=signed / "key.pub").epsilon == 1
    (signed / "m.sig").replace(signed / "elsewhere")
    with pytest.raises(SignatureError, match="is not signed"):
        load(signed / "m", public_key=signed / "key.pub")
    assert load(signed / "m", public_key=signed / "key.pub", signature=signed / "elsewhere").epsilon == 1
    with pytest.raises(SignatureError, match="is not the file that was signed"):
        load(signed / "other", public_key=signed / "key.pub", signature=signed / "elsewhere")
    with pytest.raises(ValueError, match="give public_key as well"):
        load(signed / "m", signature=signed / "elsewhere")


def test_nothing_is_parsed_before_its_signature_is_checked(signed):
    (signed / "m").write_bytes(b"no model at all")
    with pytest.raises(SignatureError, match="is not the file that was signed"):
        load(signed / "m", public_key=signed / "key.pub")


def test_a_file_that_is_replaced_meanwhile_is_not_loaded(swapped):
    assert load(swapped / "m", public_key=swapped / "key.pub").epsilon == 1
    assert load(swapped / "m").epsilon == 7, "it was replaced"


def test_a_file_that_is_replaced_meanwhile_is_not_reported(swapped):
    content = (swapped / "m").read_bytes()
    found = inspect_model(swapped / "m", swapped / "key.pub")
    assert (found.signature.state, found.model.epsilon, found.content) == ("valid", 1, content)
    page = render(found.model, signature=found.signature, model_file=found.content)
    assert hashlib.sha256(content).hexdigest() in page


def test_what_cannot_be_loaded_is_not_signed(signed):
    content = from_bytes((signed / "m").read_bytes())
    parameters = from_bytes((signed / "other").read_bytes()).parameters  # another epsilon than the ledger has
    save_content(replace(content, parameters=parameters), signed / "false")
    for call in (lambda: load(signed / "false"), lambda: sign_model(signed / "false", signed / "key")):
        with pytest.raises(ModelFileError, match="epsilon is not that of its ledger"):
            call()
    assert not (signed / "false.sig").exists()


@pytest.mark.skipif(os.name != "posix", reason="needs links")
@pytest.mark.parametrize(("name", "what"), [("m", "model"), ("key", "private key")])
def test_neither_the_model_nor_the_key_is_written_over(name, what, signed):
    before = (signed / name).read_bytes()
    os.link(signed / name, signed / "alias")
    for place in (signed / name, signed / "alias"):
        with pytest.raises(SignatureError, match=f"is the {what}; write the signature to another file"):
            sign_model(signed / "m", signed / "key", signature=place)
    (signed / "m.sig").unlink()
    (signed / "m.sig").symlink_to(signed / name)
    with pytest.raises(SignatureError, match=f"is the {what}"):
        sign_model(signed / "m", signed / "key")
    assert (signed / name).read_bytes() == before
