"""Releases have the same version everywhere, a citation, and workflows with pinned actions."""

import re
from datetime import date
from pathlib import Path

import pytest

import diprime

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def top_level(text):
    """Return the top-level entries of a YAML file with a value on the same line."""
    return dict(re.findall(r"^([a-z-]+): *(\S.*)$", text, re.MULTILINE))


def heading():
    """Return the version and the date of the newest section of the changelog."""
    return re.search(
        r"^## \[(.*)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    ).groups()


def test_the_version_is_the_same_everywhere():
    cited = top_level((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    version, day = heading()
    assert diprime.__version__ == version == cited["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", version)
    if day == "unreleased":
        assert "date-released" not in cited
    else:
        assert date.fromisoformat(day).isoformat() == cited["date-released"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_permissions_minimal(path):
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"uses: (.*)$", text, re.MULTILINE)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action), action
    assert "\npermissions: {}\n" in text
    assert text.count("persist-credentials: false") == sum("actions/checkout@" in action for action in used)
    granted = re.findall(r"^      ([a-z-]+): (read|write)", text, re.MULTILINE)
    allowed = {("contents", "read")} | (
        {("attestations", "write"), ("id-token", "write")} if path.stem == "wheels" else set()
    )
    assert set(granted) == allowed


def test_every_supported_python_is_tested_and_built():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    tests = (ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    assert re.search(r"python: \[(.*)\]", tests)[1] == ", ".join(f'"{version}"' for version in supported)
    built = re.search(r'^build = "(.*)"', project, re.MULTILINE)[1]
    assert built == " ".join(f"cp{version.replace('.', '')}-*" for version in supported)


def test_wheels_are_tested_with_the_plugins_of_the_pytest_settings():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "\ntimeout = " in project  # an option of pytest-timeout; unknown options are errors
    assert '"pytest-timeout"' in re.search(r"^test-requires = (.*)$", project, re.MULTILINE)[1]
    for path in re.findall(r"\{project\}/(\S+?)[\s\"]", project):
        assert (ROOT / path).exists()
