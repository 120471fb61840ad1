"""Output, errors, signals and exit codes of all commands."""

import os
import re
import signal
import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import polars as pl
import pyarrow as pa
import pytest

from diprime import Domain, load
from diprime.cli import shell
from diprime.cli.demo import PEOPLE_DOMAIN
from diprime.sources import data_files
from tests.cli.people import synthetic_people
from tests.cli.running import ok, python, refused, run

# Output --------------------------------------------------------------------------------------------------------------


def test_closed_pipe_is_no_error(folder):
    with python("-m", "diprime", "show", folder / "model.diprime", "--json") as process:
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
    assert "Traceback" not in said


def test_names_cannot_control_the_terminal(folder, tmp_path):
    evil = "\x1b[2Jage\x9b\u202e"
    domain = Domain.from_toml(PEOPLE_DOMAIN)
    features = {evil if name == "age" else name: feature for name, feature in domain.features.items()}
    (tmp_path / "evil.toml").write_text(Domain(features, domain.target, target_name="income").to_toml())
    people = synthetic_people(3000, 1).rename({"age": evil})
    people.with_columns(pl.lit(1).alias(f"other {evil}")).write_csv(tmp_path / "people.csv")
    data, model = tmp_path / "people.csv", tmp_path / "m.diprime"
    ok("fit", data, "-d", tmp_path / "evil.toml", "-e", 100, "-o", model)
    fitted = load(model)
    fitted.privacy_ = replace(fitted.privacy_, notes=[*fitted.privacy_.notes, f"{evil} has reviewed it."])
    fitted.save(model)
    for printed in (ok("show", model), ok("domain", "check", data, "-d", tmp_path / "evil.toml")):
        assert "\\x1b[2Jage\\x9b" in printed
        assert not set("\x1b\x9b\u202e") & set(printed)


# Errors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("rows are missing."), r"rows are missing\."),
        (MemoryError(), r".* memory\."),
        (pa.ArrowInvalid("secret value"), r"pyarrow .* the data\. .*\."),
        (UnicodeDecodeError("utf-8", b"secret\xff", 6, 7, "invalid start byte"), r"pyarrow .* the data\. .*\."),
        (OSError(28, "No space left on device", "out.csv"), r"out\.csv: No space left on device\."),
        (OSError(5, "Input/output error"), r"Input/output error\."),
        (OSError("unknown"), "unknown"),
    ],
)
def test_error_messages_are_readable(error, message):
    found = shell._error_message(error)
    assert re.fullmatch(message, found), found
    assert "secret" not in found


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "No such command 'fti'. Did you mean 'fit'?",
            "No such command 'fti'. Did you mean 'fit'? See diprime --help.",
        ),
        ("No such command 'fti'.", "No such command 'fti'; see diprime --help."),
    ],
)
def test_wrong_usage_refers_to_the_help(message, shown):
    error = SimpleNamespace(format_message=lambda: message, ctx=SimpleNamespace(command_path="diprime"))
    assert shell._usage_message(error) == shown


def test_pyarrow_errors_do_not_quote_values(folder, tmp_path, monkeypatch):
    def fail(*_, **__):
        pa.array(["secret"]).cast(pa.float64())

    monkeypatch.setattr("diprime.sources.data_files.text.read_numbers", fail)
    command = ("predict", folder / "model.diprime", folder / "people.csv", "-o", tmp_path / "out.csv")
    assert "secret" not in refused(*command, match=r"pyarrow .*data\.")
    assert os.listdir(tmp_path) == []


@contextmanager
def no_file_larger_than(n_bytes):
    """Limit the size of files, so that writing fails as on a full disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_disk_is_reported_in_one_sentence_and_leaves_no_files(folder, tmp_path):
    data, domain, model = folder / "people.csv", folder / "domain.toml", folder / "model.diprime"
    for command in (("fit", data, "-d", domain, "-e", 1), ("predict", model, data), ("report", model)):
        with no_file_larger_than(1000):
            said = refused(*command, "-o", tmp_path / "out")
        assert said == f"diprime: {tmp_path / 'out'}: File too large.\n"
        assert os.listdir(tmp_path) == []


# Signals -------------------------------------------------------------------------------------------------------------

ENDLESS = """
import signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.{hangup})

from diprime import cli
from diprime.cli import app
from diprime.sources import data_files

batches = data_files.DataFile.batches

def endless_batches(self, *arguments):
    batch = next(batches(self, *arguments))
    print('reading', flush=True)
    while True:
        yield batch.slice(0, 100)

data_files.DataFile.batches = endless_batches
app.app(sys.argv[1:], prog_name='diprime')
"""
"""A command that reads rows until it is interrupted.

It sets how signals are handled, because a process inherits those that are ignored: SIGHUP under nohup, SIGINT from a
shell that starts it in the background.
"""
COMMANDS = {
    "fit": ["fit", "{folder}/people.csv", "-d", "{folder}/domain.toml", "-e", "1"],
    "predict": ["predict", "{folder}/model.diprime", "{folder}/people.csv"],
}


@contextmanager
def endless(command, folder, output, *, hangup="SIG_DFL"):
    """Start a command that never ends by itself, and wait until it reads rows."""
    arguments = [argument.format(folder=folder) for argument in COMMANDS[command]]
    with python("-c", ENDLESS.format(hangup=hangup), *arguments, "-o", output) as process:
        assert process.stdout.readline() == "reading\n"
        time.sleep(0.2)  # until it is inside the loop
        yield process


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(
    ("command", "name", "code"),
    [("predict", "SIGINT", 130), pytest.param("fit", "SIGHUP", 129, marks=pytest.mark.audit)],
)
def test_interrupted_command_leaves_no_files(folder, tmp_path, command, name, code):
    with endless(command, folder, tmp_path / "out") as process:
        process.send_signal(signal.Signals[name])
        printed = process.stderr.read()
    assert process.returncode == code, printed
    assert "Traceback" not in printed
    assert os.listdir(tmp_path) == []
    if name == "SIGINT":
        assert re.fullmatch(r"diprime: Interrupted: .*\n", printed), printed


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (None, 130)])
def test_signal_noticed_by_pyarrow_ends_the_command(folder, tmp_path, monkeypatch, number, code):
    def cancel(*_):
        raise pa.ArrowCancelled("Operation cancelled", signum=number)

    monkeypatch.setattr(data_files.DataFile, "batches", cancel)
    ended = run("predict", folder / "model.diprime", folder / "people.csv", "-o", tmp_path / "out")
    assert ended.exit_code == code
    assert re.fullmatch(r"diprime: Interrupted: .*\n" if code == 130 else "", ended.stderr), ended.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_command_under_nohup_survives_a_hangup(folder, tmp_path):
    with endless("fit", folder, tmp_path / "out", hangup="SIG_IGN") as process:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 143  # of SIGTERM; SIGHUP would be 129
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_handlers_are_restored():
    names = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(name) for name in names]
    with shell._exit_on_signals():
        for name, handler in zip(names, before, strict=True):
            assert (signal.getsignal(name) is handler) == (handler is signal.SIG_IGN)
    assert [signal.getsignal(name) for name in names] == before
