"""The list of mutants: small patches, each of which breaks what keeps data private.

``patches/<area>.toml`` has a table for each mutant of an area. ``file`` is a path below ``src/diprime``; ``old`` occurs
in it exactly once and becomes ``new``; ``breaks`` says in one sentence what that breaks. ``tests`` names tests or test
modules to run first, where those that mirror the module are not the right ones, and ``harmless`` is the argument why a
mutant that no test notices does no harm.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.paths import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PATCHES = Path(__file__).with_name("patches")
PACKAGE = "src/diprime"

_NEEDED = {"file", "old", "new", "breaks"}
_OPTIONAL = {"tests", "harmless"}


class PatchError(ValueError):
    """A patch that does not fit the source, or a table that is not a mutant."""


@dataclass(frozen=True)
class Mutant:
    """A patch of one file.

    Attributes
    ----------
    area, name : str
        The file and the table that it is in.
    file : str
        The path of the source, from the root of the repository.
    old, new : str
        What is replaced, and by what.
    breaks : str
        What that breaks, in one sentence.
    tests : tuple of str
        Tests, or test modules, to run first.
    harmless : str
        Why it does no harm, if no test notices.
    """

    area: str
    name: str
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...] = ()
    harmless: str = ""

    @property
    def title(self) -> str:
        """The name that is unique among all mutants."""
        return f"{self.area}/{self.name}"

    @property
    def kernel(self) -> str | None:
        """The kernel that has to be compiled again; None if there is none."""
        path = Path(self.file)
        is_compiled = path.parent.name == "kernels" and path.stem not in ("__init__", "_shim", "constants")
        return path.stem if is_compiled else None

    def applied(self, source: str) -> str:
        """Return the source with the patch; raise `PatchError` if what it replaces is not there exactly once."""
        found = source.count(self.old)
        if found != 1:
            raise PatchError(f"{self.title}: its old text is {found} times in {self.file}; bring the patch up to date.")
        return source.replace(self.old, self.new)


def read_catalogue(folder: Path = PATCHES) -> list[Mutant]:
    """Return all mutants, by area."""
    mutants = []
    for path in sorted(folder.glob("*.toml")):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        mutants += [_read_mutant(path.stem, name, table) for name, table in tables.items()]
    return mutants


def _read_mutant(area: str, name: str, table: Any) -> Mutant:
    where = f"{area}/{name}"
    if not isinstance(table, dict) or table.keys() - _NEEDED - _OPTIONAL or _NEEDED - table.keys():
        raise PatchError(f"{where}: a mutant has {', '.join(sorted(_NEEDED))}, and may have tests and harmless.")
    texts = {key: value for key, value in table.items() if key != "tests"}
    if not all(isinstance(value, str) and value for value in texts.values()):
        raise PatchError(f"{where}: all entries but tests are text, and none is empty.")
    texts["file"] = f"{PACKAGE}/{table['file']}"
    return Mutant(area, name, **texts, tests=tuple(table.get("tests", ())))


def select(mutants: Sequence[Mutant], wanted: Sequence[str]) -> list[Mutant]:
    """Return the mutants of some areas, or of some titles; all if nothing is asked for."""
    unknown = [name for name in wanted if not any(name in (m.area, m.title) for m in mutants)]
    if unknown:
        raise PatchError(f"There is no mutant, and no area of mutants, {unknown[0]!r}.")
    return [m for m in mutants if not wanted or m.area in wanted or m.title in wanted]


def source_of(mutant: Mutant, root: Path = ROOT) -> str:
    """Return the source that a mutant patches."""
    return (root / mutant.file).read_text(encoding="utf-8")
