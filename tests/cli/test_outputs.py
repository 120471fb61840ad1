"""No command writes over a file that it reads."""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from diprime.cli.app import app
from diprime.cli.outputs import OUTPUT, Commands, refuse_inputs
from tests.cli.running import ENVIRONMENT, ok, refused

# Where the inputs of each command stand; the last argument is the output.
COMMANDS = {
    "fit": "fit {data} -d {domain} -e 1 --budget {budget} --scratch {scratch} -o",
    "search": "search {data} -d {domain} -e 1 --try max_depth=1,2 --budget {budget} -o",
    "predict": "predict {model} {data} -o",
    "score": "score {model} {data} --budget {budget} -o",
    "report": "report {model} --score {score} --public-key {key} -o",
    "merge": "merge {model} {other_model} -o",
    "sign": "sign {model} --key {key} --signature",
}
NAMES = ("data", "domain", "budget", "scratch", "model", "other_model", "score", "key")
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


@pytest.mark.skipif(os.name != "posix", reason="needs links")
@pytest.mark.parametrize("alias", [same, relative, roundabout, symbolic, in_linked_folder, hard])
@pytest.mark.parametrize(("command", "name"), CASES)
def test_an_output_that_is_an_input_is_refused_before_anything_is_read(files, tmp_path, command, name, alias):
    before = {name: path.read_bytes() for name, path in files.items()}
    output = alias(files[name], tmp_path)
    said = refused(*COMMANDS[command].format(**files).split(), output)
    assert "that this command reads; write to another file." in said
    assert str(output) in said
    assert str(files[name]) in said or alias is same or alias is relative
    assert {name: path.read_bytes() for name, path in files.items()} == before


def test_an_output_in_another_case_is_refused_where_case_does_not_matter(tmp_path, monkeypatch):
    (tmp_path / "data.csv").write_text("a\n1\n")
    exact = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path, **options: exact(Path(str(path).lower()), **options))
    with pytest.raises(ValueError, match="that this command reads"):
        refuse_inputs(Path(str(tmp_path).lower()) / "DATA.CSV", [Path(str(tmp_path).lower()) / "data.csv"])


def test_equal_content_and_a_dangling_link_are_not_the_input(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("content")
    refuse_inputs(tmp_path / "b", [tmp_path / "a"])
    if os.name == "posix":
        (tmp_path / "link").symlink_to(tmp_path / "nothing")
        refuse_inputs(tmp_path / "link", [tmp_path / "a", tmp_path / "nothing"])
    refuse_inputs(Path(os.devnull), [Path(os.devnull)])  # a device may be both


def test_an_output_beside_the_inputs_is_written(folder, tmp_path):
    (tmp_path / "out.csv").write_text("an older output")
    ok("predict", folder / "model.diprime", folder / "people.csv", "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().startswith("prediction,")


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("domain draft {data} -t income", "data"),
        ("domain learn {data} -d {domain} -e 1", "data"),
        ("show {model}", "model"),
        ("show {model}", "signature"),
        ("verify {model} --public-key {key}", "signature"),
    ],
)
def test_standard_output_that_is_an_input_is_refused(files, command, name):
    words = command.format(**files).split()
    files["signature"] = Path(f"{files['model']}.sig")
    files["signature"].write_text("this is the signature")
    target = files[name]
    before = target.read_bytes()
    command = [sys.executable, "-m", "diprime", *words]
    with target.open("ab") as stream:
        done = subprocess.run(command, stdout=stream, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
    assert done.returncode == 1
    assert f"Standard output goes to {target}, which this command reads" in done.stderr.decode()
    assert target.read_bytes() == before


def test_an_output_that_matches_the_pattern_of_inputs_is_refused(tmp_path):
    for number in range(3):
        (tmp_path / f"part{number}.csv").write_text("this cannot be read")
    said = refused("fit", tmp_path / "part*.csv", "-d", tmp_path / "d.toml", "-e", 1, "-o", tmp_path / "part1.csv")
    assert "part1.csv is a file that this command reads; write to another file." in said
    assert (tmp_path / "part1.csv").read_text() == "this cannot be read"
