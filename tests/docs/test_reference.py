"""The reference: it lists every public name of the package, once, and nothing else."""

import importlib
import re
from pathlib import Path

import pytest

from tests.test_public_names import FACADES

ROOT = Path(__file__).parents[2]
MODULES = ["diprime", *FACADES]


def listed():
    """Return the names that the pages of the reference take from docstrings."""
    pages = (ROOT / "docs" / "reference").glob("*.md")
    return [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)]


def test_every_facade_is_known():
    modules = {path.stem for path in (ROOT / "src" / "diprime").glob("*.py")} - {"__init__", "__main__"}
    assert {f"diprime.{name}" for name in modules} == set(FACADES)


@pytest.mark.parametrize("module", MODULES)
def test_nothing_public_is_missing(module):
    names = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
    assert names - set(listed()) == set()


def test_nothing_else_is_listed_and_nothing_twice():
    public = {f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__}
    assert sorted(listed()) == sorted(public)
