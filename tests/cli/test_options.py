"""An output that cannot be written is told before anything is paid for."""

import json
import os

import pytest

from diprime.cli.options import check_folder
from tests.cli.running import ok, refused


def paying(command, folder):
    """Return the arguments of a command that pays, but for its output and budget."""
    data, domain = folder / "people.csv", ("-d", folder / "domain.toml")
    return {
        "fit": ("fit", data, *domain, "-e", 1),
        "search": ("search", data, *domain, "-e", 1, "--try", "max_depth=1,2"),
        "score": ("score", folder / "model.diprime", data, "-e", 1),
    }[command]


@pytest.mark.parametrize("command", ["fit", "search", "score"])
def test_an_output_that_cannot_be_written_costs_nothing(command, folder, tmp_path, monkeypatch):
    budget, closed = tmp_path / "study.budget", tmp_path / "closed"
    closed.mkdir()
    (tmp_path / "link").symlink_to(closed / "m")
    access = os.access

    def may(path, mode):
        return access(path, mode) and not (mode & os.W_OK and str(path) == str(closed))

    monkeypatch.setattr(os, "access", may)
    ok("budget", "new", budget, "-e", 2)
    arguments = (*paying(command, folder), "--budget", budget, "-o")
    told = f"diprime: {closed} cannot be written: it is a folder; give the name of a file.\n"
    assert refused(*arguments, closed) == told
    for output in (closed / "m", tmp_path / "link"):  # a link leads to a file, which is replaced in its own folder
        told = f"diprime: {output} cannot be written: you may not write to the folder {closed}.\n"
        assert refused(*arguments, output) == told
    assert "there is no folder" in refused(*arguments, tmp_path / "none" / "m")
    assert json.loads(ok("budget", "show", budget, "--json"))["entries"] == []


def test_devices_and_pipes_are_written_to_whatever_their_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    check_folder(type(tmp_path)("/dev/null"))
    os.mkfifo(tmp_path / "pipe")
    check_folder(tmp_path / "pipe")
