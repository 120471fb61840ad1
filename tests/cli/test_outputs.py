"""No command writes over a file that it reads."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
from typer.testing import CliRunner

from diprime import Budget, load
from diprime._util import InputError
from diprime.cli.app import app
from diprime.cli.options import DataPath, OutputPath, read_score
from diprime.cli.shell import OUTPUT, Commands, refuse_inputs
from tests.cli.running import ENVIRONMENT, ok, refused

# Where the inputs of each command stand; the last argument is the output.
COMMANDS = {
    "fit": "fit {data} -d {domain} -e 1 --budget {budget} --scratch {scratch} -o",
    "search": "search {data} -d {domain} -e 1 --try max_depth=1,2 --budget {budget} -o",
    "predict": "predict {model} {data} -o",
    "score": "score {model} {data} --budget {budget} -o",
    "report": "report {model} --score {score} -o",
    "merge": "merge {model} {other_model} --disjoint -o",
    "budget recover": "budget recover {budget} -o",
}
NAMES = ("data", "domain", "budget", "scratch", "model", "other_model", "score")
CASES = [(command, name) for command, words in COMMANDS.items() for name in NAMES if f"{{{name}}}" in words]


def functions():
    """Return the functions of all commands, by name."""
    groups = {"": app, **{info.name or str(i): info.typer_instance for i, info in enumerate(app.registered_groups)}}
    found = {}
    for group, commands in groups.items():
        for info in commands.registered_commands:
            name = info.name or inspect.unwrap(info.callback).__name__
            found[f"{group} {name}" if group in ("domain", "budget") else name] = info.callback
    return found


def test_every_command_is_checked():
    assert app.registered_commands == []
    assert all(isinstance(info.typer_instance, Commands) for info in app.registered_groups)
    assert {"domain draft", "domain learn", "budget new", "explain", *COMMANDS} < set(functions())
    with_output = {name for name, function in functions().items() if OUTPUT in get_type_hints(function)}
    assert with_output == set(COMMANDS)


def test_new_command_is_checked_without_code_of_its_own(tmp_path):
    commands = Commands(callback=lambda: None)

    @commands.command()
    def copy(data: DataPath, output: OutputPath) -> None:
        output.write_bytes(data.read_bytes())

    data, output = tmp_path / "data", tmp_path / "output"
    data.write_text("text")
    outcomes = [CliRunner().invoke(commands, ["copy", str(data), "-o", str(path)]) for path in (data, output, output)]
    assert [type(outcome.exception) for outcome in outcomes] == [InputError, type(None), InputError]
    assert CliRunner().invoke(commands, ["copy", str(data), "-o", str(output), "--force"]).exit_code == 0
    assert output.read_text() == "text"


def test_every_input_has_a_case():
    for name, words in COMMANDS.items():
        hints = get_type_hints(functions()[name])
        n_inputs = sum(2 if hint == list[Path] else hint in (Path, Path | None) for hint in hints.values()) - 1
        assert n_inputs == words.count("{"), name


@pytest.fixture
def files(tmp_path):
    """Return inputs that cannot be read: whoever reads them has another error."""
    paths = {name: tmp_path / f"{name}.file" for name in NAMES}
    for name, path in paths.items():
        path.write_text(f"this is the {name}, and nothing that could be read")
    return paths


def same(path, tmp_path):
    return path


def relative(path, tmp_path):
    return os.path.relpath(path)


def roundabout(path, tmp_path):
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / ".." / path.name


def symbolic(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "link of a link").symlink_to(tmp_path / "link")
    return tmp_path / "link of a link"


def in_linked_folder(path, tmp_path):
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    return tmp_path / "again" / path.name


def hard(path, tmp_path):
    (tmp_path / "other name").hardlink_to(path)
    return tmp_path / "other name"


ALIASES = [relative, roundabout, symbolic, in_linked_folder, hard]


@pytest.mark.skipif(os.name != "posix", reason="needs links")
@pytest.mark.parametrize(
    ("command", "name", "alias"),
    [*((*case, same) for case in CASES), *(("fit", "data", alias) for alias in ALIASES)],
)
def test_output_that_is_an_input_is_refused_before_anything_is_read(files, tmp_path, command, name, alias):
    before = {name: path.read_bytes() for name, path in files.items()}
    output = alias(files[name], tmp_path)
    said = refused(*COMMANDS[command].format(**files).split(), output, match=rf"{output} .*command reads\.")
    assert str(files[name]) in said or alias is same or alias is relative
    assert {name: path.read_bytes() for name, path in files.items()} == before


def test_equal_content_and_a_dangling_link_are_not_the_input(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("content")
    refuse_inputs(tmp_path / "b", [tmp_path / "a"])
    if os.name == "posix":
        (tmp_path / "link").symlink_to(tmp_path / "nothing")
        refuse_inputs(tmp_path / "link", [tmp_path / "a", tmp_path / "nothing"])
    refuse_inputs(Path(os.devnull), [Path(os.devnull)])  # a device may be both


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("domain learn {data} -d {domain} -e 1", "data"),
        pytest.param("show {model}", "model", marks=pytest.mark.audit),
    ],
)
def test_standard_output_that_is_an_input_is_refused(files, command, name):
    words = command.format(**files).split()
    target = files[name]
    before = target.read_bytes()
    command = [sys.executable, "-m", "diprime", *words]
    with target.open("ab") as stream:
        done = subprocess.run(command, stdout=stream, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
    assert done.returncode == 1
    assert re.search(rf"Standard output .*{target}, .*command reads\.", done.stderr.decode())
    assert target.read_bytes() == before


def test_output_that_matches_the_pattern_of_inputs_is_refused(tmp_path):
    for number in range(3):
        (tmp_path / f"part{number}.csv").write_text("this cannot be read")
    arguments = ("fit", tmp_path / "part*.csv", "-d", tmp_path / "d.toml", "-e", 1, "-o", tmp_path / "part1.csv")
    refused(*arguments, match=r"part1\.csv .*command reads\.")
    assert (tmp_path / "part1.csv").read_text() == "this cannot be read"


def writing(command, folder, tmp_path):
    """Return the arguments of a command that would succeed, but for its output."""
    model, data = folder / "model.diprime", folder / "people.csv"
    return {
        "fit": ("fit", data, "-d", folder / "domain.toml", "-e", 1, "-o"),
        "search": ("search", data, "-d", folder / "domain.toml", "-e", 1, "--try", "max_depth=1,2", "-o"),
        "predict": ("predict", model, data, "-o"),
        "score": ("score", model, data, "-o"),
        "report": ("report", model, "-o"),
        "merge": ("merge", model, folder / "model.diprime", "-o"),
        "budget recover": ("budget", "recover", tmp_path / "no.budget", "-o"),
    }[command]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_existing_output_needs_force_and_a_read_only_one_stays(command, folder, tmp_path):
    output = tmp_path / "out"
    output.write_text("an older result")
    arguments = (*writing(command, folder, tmp_path), output)
    refused(*arguments, match=r"/out exists\. .*--force")
    output.chmod(0o444)
    refused(*arguments, "--force", match=r"/out: .*read-only")
    assert output.read_text() == "an older result"


@pytest.mark.parametrize("command", sorted(COMMANDS))
@pytest.mark.parametrize("is_damaged", [False, True])
def test_budgets_are_never_replaced(command, is_damaged, folder, tmp_path):
    output = tmp_path / "out"
    ok("budget", "new", output, "-e", 3)
    if is_damaged:
        output.write_bytes(output.read_bytes()[:-3])
    before = output.read_bytes()
    refused(*writing(command, folder, tmp_path), output, "--force", match=r"/out: .*budget .*never replaced")
    assert output.read_bytes() == before


def test_private_keys_are_never_replaced(folder, tmp_path):
    key = tmp_path / "officer"
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk")
    refused(*writing("merge", folder, tmp_path), key, "--force", match=r"officer: .*private key .*never replaced")


@pytest.mark.skipif(os.name != "posix", reason="needs modes")
def test_output_that_is_replaced_keeps_its_mode(folder, tmp_path):
    for number, mode in enumerate((0o600, 0o666)):
        output = tmp_path / f"out{number}.csv"
        output.write_text("an older result")
        output.chmod(mode)
        ok("predict", folder / "model.diprime", folder / "people.csv", "-o", output, "--force")
        assert (output.stat().st_mode & 0o777, output.read_text()[:11]) == (mode, "prediction,")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("command", ["fit", "search", "score"])
def test_charged_commands_refuse_pipes_and_devices_as_output(command, folder, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    ok("budget", "new", tmp_path / "study.budget", "-e", 3)
    for output in (tmp_path / "pipe", os.devnull):
        arguments = (*writing(command, folder, tmp_path), output, "--budget", tmp_path / "study.budget")
        refused(*arguments, match=rf"{output} .*pipe or .*device, .*result")
    assert "Nothing was charged" in str(Budget.open(tmp_path / "study.budget"))


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs standard output as a file")
@pytest.mark.parametrize(
    ("command", "more"), [("fit", ()), pytest.param("score", ("--json",), marks=pytest.mark.audit)]
)
def test_standard_output_as_output_holds_the_result_only(command, more, folder, tmp_path):
    arguments = [*map(str, writing(command, folder, tmp_path)), "/dev/stdout", *more]
    process, copy = [sys.executable, "-m", "diprime", *arguments], tmp_path / "copy"
    if command == "fit":  # to a file, and otherwise to a pipe
        with copy.open("wb") as file:
            done = subprocess.run(process, stdout=file, stderr=subprocess.PIPE, env=ENVIRONMENT, check=True)
    else:
        done = subprocess.run(process, capture_output=True, env=ENVIRONMENT, check=True)
        copy.write_bytes(done.stdout)
    assert b"epsilon" in done.stderr
    read_score(copy) if command == "score" else load(copy)
