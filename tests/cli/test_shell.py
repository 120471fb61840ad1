"""Output, errors, signals and exit codes of all commands."""

import os
import signal
import time
import warnings
from contextlib import contextmanager

import polars as pl
import pytest

from diprime import Domain, load
from diprime.cli import shell
from diprime.cli.demo_data import PEOPLE_DOMAIN, synthetic_people
from tests.cli.running import ok, python, refused

# Output --------------------------------------------------------------------------------------------------------------


def test_results_and_notes_go_to_different_streams(folder):
    with python("-m", "diprime", "domain", "draft", folder / "people.csv", "--target", "income") as process:
        printed, said = process.communicate()
    assert process.returncode == 0
    Domain.from_toml(printed)
    assert said.count("\n") == 1


def test_a_closed_pipe_is_no_error(folder):
    with python("-m", "diprime", "show", folder / "model.diprime", "--json") as process:
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
    assert "Traceback" not in said


def test_control_characters_are_escaped():
    assert shell.escape_controls("a\x1b[2J\x9b\u202e\nb") == "a\\x1b[2J\\x9b\\u202e\nb"


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
    fitted.privacy_.waive(f"{evil} waived it.")
    fitted.save(model)
    for printed in (ok("show", model), ok("domain", "check", data, "-d", tmp_path / "evil.toml")):
        assert "\\x1b[2Jage\\x9b" in printed
        assert not set("\x1b\x9b\u202e") & set(printed)


# Errors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("rows are missing."), "rows are missing."),
        (MemoryError(), "There is not enough memory."),
        (
            pl.exceptions.PanicException("assertion failed at 17 rows"),
            "The data cannot be processed: polars has failed; convert unusual columns to numbers or text.",
        ),
        (OSError(28, "No space left on device", "out.csv"), "out.csv: No space left on device."),
        (OSError(5, "Input/output error"), "Input/output error."),
        (OSError("unknown"), "unknown"),
    ],
)
def test_errors_are_explained(error, message):
    assert shell._error_message(error) == message


def test_a_panic_is_one_sentence(folder, tmp_path, monkeypatch):
    def panic(*arguments, **options):
        raise pl.exceptions.PanicException("assertion failed at 17 rows")

    monkeypatch.setattr("diprime.cli.data_files.read_numbers", panic)
    said = refused("predict", folder / "model.diprime", folder / "people.csv", "-o", tmp_path / "out.csv")
    assert "polars has failed" in said
    assert os.listdir(tmp_path) == []


@pytest.mark.filterwarnings("always::UserWarning")
def test_warnings_are_one_line(capsys):
    with shell._print_warnings_in_one_line():
        warnings.warn("two\nlines", UserWarning, stacklevel=1)
    assert capsys.readouterr() == ("", "diprime: warning: two lines\n")


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


def test_a_full_disk_is_one_sentence_and_leaves_nothing(folder, tmp_path):
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

from diprime.cli import app, data_files

batches = data_files.DataFile.batches

def endless_batches(self, *arguments):
    batch = next(batches(self, *arguments))
    print('reading', flush=True)
    while True:
        yield batch.head(100)

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
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_interrupted_command_leaves_no_files(folder, tmp_path, command, name, code):
    with endless(command, folder, tmp_path / "out") as process:
        process.send_signal(signal.Signals[name])
        printed = process.stderr.read()
    assert process.returncode == code
    assert "Traceback" not in printed
    assert os.listdir(tmp_path) == []
    if name == "SIGINT":
        assert printed == "diprime: Interrupted: nothing was written.\n"


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_command_under_nohup_survives_a_hangup(folder, tmp_path):
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
