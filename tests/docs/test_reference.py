"""The reference: it lists every public name of the package, once, and nothing else."""

import importlib
import inspect
import os
import re
from pathlib import Path

import pytest

from tests.test_public_names import MODULES as PUBLIC_MODULES

ROOT = Path(__file__).parents[2]
MODULES = ["diprime", *PUBLIC_MODULES]


def listed():
    """Return the names that the pages of the reference take from docstrings."""
    pages = (ROOT / "docs" / "reference").glob("*.md")
    return [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)]


def test_every_module_beside_the_packages_is_public():
    modules = {path.stem for path in (ROOT / "src" / "diprime").glob("*.py")} - {"__init__", "__main__"}
    assert {f"diprime.{name}" for name in modules} <= set(PUBLIC_MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_reference_lists_every_public_name(module):
    names = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
    assert names - set(listed()) == set(), "add a line '::: name' to a page in docs/reference/"


def test_reference_lists_only_public_names_once():
    public = {f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__}
    assert sorted(listed()) == sorted(public)


def public_members(module):
    """Return the methods and properties of a module's public classes that are ours and documented."""
    for name in importlib.import_module(module).__all__:
        value = getattr(importlib.import_module(module), name)
        owners = value.__mro__ if inspect.isclass(value) else ()
        for owner in (owner for owner in owners if owner.__module__.split(".")[0] == "diprime"):
            for member, kind in vars(owner).items():
                documented = inspect.isfunction(kind) or isinstance(kind, (property, classmethod, staticmethod))
                if documented and not member.startswith("_") and kind.__doc__:
                    yield f"{module}.{name}.{member}"


@pytest.mark.skipif("DIPRIME_SITE" not in os.environ, reason="The site is tested by `make docs`, which builds it.")
@pytest.mark.parametrize("module", MODULES)
def test_every_method_of_a_public_class_is_on_a_page(module):
    pages = (Path(os.environ["DIPRIME_SITE"]) / "reference").glob("*.html")
    anchors = {anchor for page in pages for anchor in re.findall(r'<h\d id="([^"]+)"', page.read_text("utf-8"))}
    assert set(public_members(module)) - anchors == set()
