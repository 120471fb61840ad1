"""`make test-oldest` installs the oldest versions that pyproject.toml permits, and runs existing tests."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs tomllib")
def test_oldest_versions_match_the_package_metadata():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    lowest = dict(re.match(r"([\w-]+)>=([\d.]+)", text).groups() for text in required if "python_version" not in text)
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "tests/oldest.txt").read_text(), re.MULTILINE))
    assert pinned.pop("click")
    assert pinned.keys() == lowest.keys()
    for name, version in lowest.items():
        numbers = [int(part) for part in version.split(".")]
        assert [int(part) for part in pinned[name].split(".")][: len(numbers)] == numbers
        assert set(pinned[name].split(".")[len(numbers) :]) <= {"0"}


def test_the_tests_of_the_oldest_versions_exist():
    found = re.search(
        r"^OLDEST_TESTS := \$\(addprefix tests/,((?:[^\n\\]|\\\n)*)\)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    names = found[1].replace("\\\n", " ").split()
    assert {"domain", "sources", "test_golden.py"} <= set(names)
    assert [name for name in names if not (ROOT / "tests" / name).exists()] == []
