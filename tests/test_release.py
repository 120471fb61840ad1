"""What a release says of itself: one version everywhere, a citation, and workflows whose actions are pinned."""

import re
from datetime import date
from pathlib import Path

import pytest

import diprime

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def top_level(text):
    """Return the entries of a YAML file at its top that have a value in the same line."""
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


def test_the_citation_has_what_its_format_needs():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    entries = top_level(text)
    assert entries.keys() >= {"cff-version", "message", "title", "type", "version", "license"}
    assert (entries["cff-version"], entries["type"], entries["license"]) == ("1.2.0", "software", "Apache-2.0")
    assert re.search(r"^authors:\n  - name: \S", text, re.MULTILINE)
    assert "\t" not in text


def test_there_are_workflows_for_tests_wheels_and_docs():
    assert [path.stem for path in WORKFLOWS] == ["docs", "tests", "wheels"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_permissions_are_the_least(path):
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


@pytest.mark.parametrize("path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem)
def test_values_of_forms_need_no_quotes_or_have_them(path):
    """A colon within a value that is not quoted makes the whole form invalid, and nobody can open an issue with it."""
    text = re.sub(r"value: \|\n( {8}.*\n|\n)*", "", path.read_text(encoding="utf-8"))
    values = [value for _, value in re.findall(r"^[ -]*([a-z_]+): (\S.*)$", text, re.MULTILINE)]
    items = re.findall(r"^ *- ([^:\n]*: .*|[A-Z].*)$", text, re.MULTILINE)
    assert values
    for value in [*values, *(item for item in items if not re.match(r"[a-z_]+: ", item))]:
        assert value.startswith('"') or (": " not in value and " #" not in value and value[0] not in "`@%&*!|>{"), value


def test_wheels_are_tested_with_what_the_settings_of_pytest_need():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "\ntimeout = " in project  # an option of pytest-timeout, and options that nobody knows are errors
    assert '"pytest-timeout"' in re.search(r"^test-requires = (.*)$", project, re.MULTILINE)[1]
    for path in re.findall(r"\{project\}/(\S+?)[\s\"]", project):
        assert (ROOT / path).exists()
