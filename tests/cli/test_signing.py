"""Signatures on the command line: keygen, sign, verify, and what show and report say."""

import hashlib
import json
import os
from types import SimpleNamespace

import pytest

import diprime
from diprime.cli.commands import signing
from diprime.cli.commands.signing import PASSWORD_VARIABLE
from diprime.cli.signature_options import MEANING
from diprime.model import signatures
from tests.cli.running import ok, refused, run

pytest.importorskip("cryptography", reason="cryptography is not installed.")


@pytest.fixture
def signed(folder, tmp_path):
    """Return a folder with a model, a key and a signature."""
    (tmp_path / "m.diprime").write_bytes((folder / "model.diprime").read_bytes())
    ok("keygen", tmp_path / "a.key")
    ok("sign", tmp_path / "m.diprime", "--key", tmp_path / "a.key")
    return tmp_path


def verify(folder):
    return "verify", folder / "m.diprime", "--public-key", folder / "a.key.pub"


def forge(folder, other):
    """Replace the model by another one, which is sound."""
    (folder / "m.diprime").write_bytes((other / "boosted_model.diprime").read_bytes())


def test_from_a_key_to_a_signature_that_is_verified(folder, tmp_path):
    (tmp_path / "m.diprime").write_bytes((folder / "model.diprime").read_bytes())
    made = run("keygen", tmp_path / "a.key")
    assert made.stdout == ""
    assert (
        made.stderr
        == f"Keep {tmp_path}/a.key to yourself, and give {tmp_path}/a.key.pub to those who check your "
        + ("signatures.\n")
    )
    result = run("sign", tmp_path / "m.diprime", "--key", tmp_path / "a.key")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "epsilon = 1" in result.stderr.splitlines()[0], "whoever signs sees what the ledger says"
    assert f"Written to {tmp_path}/m.diprime.sig." in result.stderr
    assert (tmp_path / "m.diprime").read_bytes() == (folder / "model.diprime").read_bytes()
    printed = ok(*verify(tmp_path))
    assert printed.startswith("Valid: signed with the key ")
    assert MEANING in printed
    written = json.loads((tmp_path / "m.diprime.sig").read_text())
    assert {"format": 1, **json.loads(ok(*verify(tmp_path), "--json"))} == written
    assert sorted(os.listdir(tmp_path)) == ["a.key", "a.key.pub", "m.diprime", "m.diprime.sig"]


def test_everything_can_be_printed_as_json(signed):
    names = json.loads(ok("keygen", signed / "b.key", "--json"))
    assert names == {"private_key": f"{signed}/b.key", "public_key": f"{signed}/b.key.pub"}
    other = signed / "other.sig"
    made = json.loads(ok("sign", signed / "m.diprime", "-k", signed / "b.key", "--signature", other, "--json"))
    assert {"format": 1, **made} == json.loads(other.read_text())
    ok("verify", signed / "m.diprime", "-p", names["public_key"], "--signature", other)
    assert "another key" in refused(*verify(signed), "--signature", other)


def test_a_wrong_signature_is_an_error(signed, folder):
    forge(signed, folder)
    assert "m.diprime is not the file that was signed" in refused(*verify(signed))
    (signed / "m.diprime.sig").unlink()
    assert "is not signed" in refused(*verify(signed))


def test_mistakes_are_one_sentence(signed):
    assert "a.key.pub exists, and keys are never replaced" in refused("keygen", signed / "a.key")
    assert "no folder" in refused("keygen", signed / "nowhere" / "a.key")
    assert "is not a public Ed25519 key" in refused("verify", signed / "m.diprime", "-p", signed / "a.key")
    assert "is not a private key" in refused(*sign(signed, "a.key.pub"))
    assert "No such file" in refused(*sign(signed, "nowhere"))
    assert "is not a diprime model" in refused("sign", signed / "a.key", "--key", signed / "a.key")
    assert "name of a file" in refused("keygen", "-", code=2)
    assert "name of a file" in refused(*verify(signed), "--signature", "-", code=2)


def sign(folder, key):
    return "sign", folder / "m.diprime", "--key", folder / key


def test_what_is_printed_is_what_is_signed(signed, folder, monkeypatch):
    before = (signed / "m.diprime").read_bytes()
    exact = signing.print_note

    def swap(text):
        forge(signed, folder)
        exact(text)

    monkeypatch.setattr(signing, "print_note", swap)
    made = json.loads(ok(*sign(signed, "a.key"), "--json"))
    assert made["sha256"] == hashlib.sha256(before).hexdigest()
    assert "is not the file that was signed" in refused(*verify(signed))


def test_the_file_is_read_after_the_password(signed, folder, monkeypatch):
    monkeypatch.setenv(PASSWORD_VARIABLE, "open sesame")
    ok("keygen", signed / "locked", "--password")
    (signed / "m.diprime").unlink()
    monkeypatch.setattr(signing, "_ask_password", lambda confirm: forge(signed, folder) or "open sesame")
    result = run(*sign(signed, "locked"))
    assert result.exit_code == 0
    ledger = str(diprime.load(signed / "m.diprime").privacy_).splitlines()[0]
    assert result.stderr.splitlines()[0] == ledger
    ok("verify", signed / "m.diprime", "-p", signed / "locked.pub")


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_a_signature_that_leads_to_the_key_is_not_written(signed):
    key = (signed / "a.key").read_bytes()
    (signed / "m.diprime.sig").unlink()
    (signed / "m.diprime.sig").symlink_to(signed / "a.key")
    assert "is the private key; write the signature to another file" in refused(*sign(signed, "a.key"))
    assert (signed / "a.key").read_bytes() == key


@pytest.mark.parametrize("command", ["show", "report"])
def test_what_is_checked_is_what_is_shown(command, signed, folder, monkeypatch):
    """The model is replaced as soon as its signature is read."""
    digest = json.loads((signed / "m.diprime.sig").read_text())["sha256"]
    exact = signatures.parse_json
    monkeypatch.setattr(signatures, "parse_json", lambda text: forge(signed, folder) or exact(text))
    words = (signed / "m.diprime", "--public-key", signed / "a.key.pub")
    if command == "show":
        shown = ok("show", *words)
        assert shown.startswith("Signed with the key ")
    else:
        ok("report", *words, "-o", signed / "page.html")
        shown = (signed / "page.html").read_text()
        assert "The file is signed" in shown
        assert digest in shown
    assert "DiPriMeClassifier" in shown
    assert "Boosting" in type(diprime.load(signed / "m.diprime")).__name__, "it was replaced"


def test_models_are_used_only_if_the_key_signed_them(signed, folder):
    """Of predict, explain and score: with a public key, a model that was replaced, or is not signed, is not read."""
    people, key = folder / "people.csv", ("--public-key", signed / "a.key.pub")
    commands = [("predict", people, "-o", signed / "out.csv"), ("explain", people), ("score", people)]
    for name, *rest in commands[::2]:
        ok(name, signed / "m.diprime", *rest, *key)
    forge(signed, folder)
    for name, *rest in commands:
        said = refused(name, signed / "m.diprime", *rest, *key)
        assert "m.diprime is not the file that was signed: it was changed or replaced; do not trust it." in said
    ok("sign", signed / "m.diprime", "--key", signed / "a.key")
    ok("explain", signed / "m.diprime", people, *key)
    (signed / "m.diprime.sig").unlink()
    for name, *rest in commands:
        assert "m.diprime is not signed" in refused(name, signed / "m.diprime", *rest, *key)


@pytest.mark.parametrize("with_key", [True, False])
def test_a_report_does_not_replace_the_signature_of_its_model(signed, with_key):
    before = (signed / "m.diprime.sig").read_bytes()
    key = ("--public-key", signed / "a.key.pub") if with_key else ()
    said = refused("report", signed / "m.diprime", *key, "-o", signed / "m.diprime.sig")
    assert "m.diprime.sig is a file that this command reads; write to another file." in said
    assert (signed / "m.diprime.sig").read_bytes() == before


def test_a_password_comes_from_the_environment_where_there_is_no_terminal(signed, monkeypatch):
    assert f"set {PASSWORD_VARIABLE}" in refused("keygen", signed / "locked", "--password")
    monkeypatch.setenv(PASSWORD_VARIABLE, "open sesame")
    ok("keygen", signed / "locked", "--password")
    ok("sign", signed / "m.diprime", "--key", signed / "locked")
    ok("verify", signed / "m.diprime", "-p", signed / "locked.pub")
    ok("sign", signed / "m.diprime", "--key", signed / "a.key")  # which has none
    monkeypatch.setenv(PASSWORD_VARIABLE, "open barley")
    assert "password is wrong" in refused(*sign(signed, "locked"))
    monkeypatch.delenv(PASSWORD_VARIABLE)
    assert f"set {PASSWORD_VARIABLE}" in refused(*sign(signed, "locked"))


@pytest.mark.parametrize("confirm", [True, False])
def test_on_a_terminal_a_password_is_asked_for_and_not_shown(confirm, monkeypatch):
    asked = []
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(signing.typer, "prompt", lambda text, **how: asked.append(how) or "open sesame")
    assert signing._ask_password(confirm=confirm) == "open sesame"
    assert asked == [{"hide_input": True, "confirmation_prompt": confirm, "err": True}]


def test_show_says_whether_a_model_is_signed(signed, folder):
    assert "sign" not in ok("show", folder / "model.diprime").lower()
    assert json.loads(ok("show", folder / "model.diprime", "--json"))["signature"] is None
    shown = ok("show", signed / "m.diprime")
    assert shown.startswith("m.diprime.sig was not checked, because no public key was given.\nGive --public-key")
    with_key = ("show", signed / "m.diprime", "--public-key", signed / "a.key.pub")
    assert ok(*with_key).startswith("Signed with the key ")
    assert json.loads(ok(*with_key, "--json"))["signature"]["state"] == "valid"
    forge(signed, folder)
    assert ok(*with_key).startswith("WRONG SIGNATURE. ")
    assert json.loads(ok(*with_key, "--json"))["signature"]["state"] == "wrong"


def test_the_report_says_whether_a_model_is_signed(signed, folder):
    def page(*options):
        result = run("report", signed / "m.diprime", "-o", signed / "page.html", *options)
        assert result.exit_code == 0
        return (signed / "page.html").read_text(), result.stderr

    with_key = ("--public-key", signed / "a.key.pub")
    assert "The signature was not checked" in page()[0]
    text, notes = page(*with_key)
    assert "The file is signed" in text
    assert "warning" not in notes
    forge(signed, folder)
    text, notes = page(*with_key)
    assert "The signature is wrong" in text
    assert '<header class="bad">' in text
    assert "Private: ε" not in text
    assert str(signed) not in text
    assert "diprime: warning: m.diprime is not the file" in notes
    (signed / "m.diprime.sig").unlink()
    assert "The signature is wrong" in page(*with_key)[0]
    assert "signature" not in page()[0].replace("signature {", "")
