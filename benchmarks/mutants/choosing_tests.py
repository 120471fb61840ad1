"""Which tests a mutant has to face, from imports alone: those nearest to the module first.

Left out are digests of seeded fits, which any change breaks: that they fail says nothing about privacy.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from benchmarks.mutants.catalogue import Mutant

_SEEDED_DIGESTS = "tests/test_golden.py"
_GUARANTEES = "tests/guarantees/"
_OF_THE_PROJECT = ("diprime", "tests")


class TestChooser:
    """Chooses the tests of mutants in a repository.

    Parameters
    ----------
    root : Path
        The root of the repository.
    """

    __test__ = False  # for pytest, which takes classes of this name for tests

    def __init__(self, root: Path) -> None:
        self._root = root

    def stages(self, mutant: Mutant) -> list[list[str]]:
        """Return test modules in the order in which to run them; no module is in two stages.

        First those that are named and those that mirror the module, then those that import it, then the checks of
        whole fits that reach it.
        """
        module = module_name(Path(mutant.file).relative_to("src"))
        importing = [path for path, imported in self._imports_of_tests.items() if module in imported]
        near = str(self._mirroring_folder(mutant)) + "/"
        importing.sort(key=lambda path: (not path.startswith(near), path))
        reaching = [
            path for path in self._imports_of_tests if path.startswith(_GUARANTEES) and self._reaches(path, module)
        ]
        stages, seen = [], set[str]()
        for stage in ([*mutant.tests, *self._mirrors(mutant)], importing, sorted(reaching)):
            new = [path for path in dict.fromkeys(stage) if path not in seen]
            seen.update(new)
            stages += [new] if new else []
        return stages

    def _mirroring_folder(self, mutant: Mutant) -> Path:
        folder = Path(mutant.file).parent.relative_to("src/diprime")
        return Path("tests") / Path(*(part.lstrip("_") for part in folder.parts))

    def _mirrors(self, mutant: Mutant) -> list[str]:
        """Return the module that mirrors a module or its package; or all of the folder that mirrors its package."""
        folder, stem = self._mirroring_folder(mutant), Path(mutant.file).stem
        for path in (folder / f"test_{stem}.py", folder.parent / f"test_{folder.name}.py"):
            if (self._root / path).is_file():
                return [path.as_posix()]
        return sorted(path.relative_to(self._root).as_posix() for path in (self._root / folder).glob("test_*.py"))

    def _reaches(self, path: str, module: str) -> bool:
        return module in _closure(self._imports_of_tests[path], self._imports_of_sources)

    @cached_property
    def _imports_of_sources(self) -> dict[str, set[str]]:
        """The modules of the library, and what they import of it."""
        return self._imports("src", "src/diprime")

    @cached_property
    def _imports_of_tests(self) -> dict[str, set[str]]:
        """The test modules, and what they, or helpers of theirs, import of the library."""
        imports = self._imports(".", "tests")
        found = {}
        for name in imports:
            path = name.replace(".", "/") + ".py"
            if Path(path).name.startswith("test_") and path != _SEEDED_DIGESTS and "benchmarks" not in path:
                of_helpers = _closure({name}, imports)
                found[path] = {i for i in of_helpers if i.startswith("diprime")}
        return found

    def _imports(self, base: str, folder: str) -> dict[str, set[str]]:
        sources = {path: path.relative_to(self._root / base) for path in (self._root / folder).rglob("*.py")}
        return {module_name(name): set(imported_modules(path, self._root)) for path, name in sources.items()}


def module_name(path: Path) -> str:
    """Return the name by which a file is imported."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, root: Path) -> Iterator[str]:
    """Yield the modules of the project that a file imports; of ``from a import b``, a.b if that is a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for package, name in names:
            if package.split(".")[0] in _OF_THE_PROJECT:
                inner = f"{package}.{name}"
                yield inner if name is not None and _is_module(inner, root) else package


def _is_module(name: str, root: Path) -> bool:
    base = root / "src" if name.startswith("diprime") else root
    path = base.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _closure(names: Iterable[str], imports: dict[str, set[str]]) -> set[str]:
    """Return the modules that are reached from some, themselves included."""
    reached, new = set[str](), set(names)
    while new:
        reached |= new
        new = set[str]().union(*(imports.get(name, set()) for name in new)) - reached
    return reached
