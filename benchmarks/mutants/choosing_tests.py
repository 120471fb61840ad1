"""Tests that a mutant faces, in stages from the nearest to the farthest, chosen by folders and imports.

Imports alone are not enough: a test of an estimator imports `diprime`, and not the module that its estimator calls.
Left out are digests of seeded fits, which any change breaks: that they fail says nothing about privacy.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
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

        The stages are: the tests that the mutant names and those that mirror the module; the folder that mirrors its
        package; the tests that import the module; the checks of whole fits that reach it; the folders that mirror the
        packages that import it; and all other tests that reach it.
        """
        module, file = module_name(Path(mutant.file).relative_to("src")), Path(mutant.file)
        importing = sorted(path for path, imported in self._imports_of_tests.items() if module in imported)
        reaching = sorted(path for path in self._imports_of_tests if self._reaches(path, module))
        guarantees = [path for path in reaching if path.startswith(_GUARANTEES)]
        users = {self._mirroring_folder(name) for name, used in self._imports_of_sources.items() if module in used}
        wider = [path for folder in sorted(users) for path in self._tests_in(folder)]
        folder = self._tests_in(self._mirroring_folder(module))
        stages, seen = [], set[str]()
        for stage in ([*mutant.tests, *self._mirrors(file)], folder, importing, guarantees, wider, reaching):
            new = [path for path in dict.fromkeys(stage) if path not in seen]
            seen.update(new)
            stages += [new] if new else []
        return stages

    def _mirroring_folder(self, module: str) -> Path:
        """Return the folder of tests that mirrors the package of a module, or the nearest package around it."""
        inner = module.split(".")[1:]
        package = inner if (self._root / "src/diprime").joinpath(*inner).is_dir() else inner[:-1]
        folder = Path("tests", *(part.lstrip("_") for part in package))
        while not self._tests_in(folder):
            folder = folder.parent
        return folder

    def _tests_in(self, folder: Path) -> list[str]:
        return sorted(path for path in self._imports_of_tests if Path(path).parent == folder)

    def _mirrors(self, file: Path) -> list[str]:
        """Return the test module that mirrors a module, or else the one that mirrors its package."""
        folder = Path("tests", *(part.lstrip("_") for part in file.relative_to("src/diprime").parent.parts))
        names = (folder / f"test_{file.stem}.py", folder.parent / f"test_{folder.name}.py")
        return [path.as_posix() for path in names if path.as_posix() in self._imports_of_tests][:1]

    def _reaches(self, path: str, module: str) -> bool:
        return module in _closure(self._imports_of_tests[path], self._imports_of_sources)

    @cached_property
    def _imports_of_sources(self) -> dict[str, set[str]]:
        """The modules of the library, and what they import of it."""
        return self._imports("src", "src/diprime")

    @cached_property
    def _imports_of_tests(self) -> dict[str, set[str]]:
        """The test modules that import the library, and what they, or helpers and fixtures of theirs, import of it."""
        imports = self._imports(".", "tests")
        found = {}
        for name in imports:
            path = name.replace(".", "/") + ".py"
            if Path(path).name.startswith("test_") and path != _SEEDED_DIGESTS and "benchmarks" not in path:
                packages = [name.rsplit(".", i)[0] for i in range(1, name.count(".") + 1)]
                of_helpers = _closure({name, *(f"{package}.conftest" for package in packages)}, imports)
                found[path] = {i for i in of_helpers if i.startswith("diprime")}
        return {path: imported for path, imported in found.items() if imported}

    def _imports(self, base: str, folder: str) -> dict[str, set[str]]:
        sources = {path: path.relative_to(self._root / base) for path in (self._root / folder).rglob("*.py")}
        return {module_name(name): set(imported_modules(path, self._root)) for path, name in sources.items()}


def module_name(path: Path) -> str:
    """Return the name by which a file is imported."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, root: Path) -> Iterator[str]:
    """Yield the modules of the project that a file imports.

    Of ``from a import b``, these are a.b if that is a module, and otherwise a and the module that a has b from.
    """
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
                if name is not None and _file_of(inner, root):
                    yield inner
                else:
                    yield package
                    yield from _definers(package, name, root)


@cache
def _definers(module: str, name: str | None, root: Path) -> tuple[str, ...]:
    """Return the module that a module imports a name from, the one that this has it from, and so on."""
    source = _names_imported(module, root).get(name) if name else None
    return (source, *_definers(source, name, root)) if source else ()


@cache
def _names_imported(module: str, root: Path) -> dict[str, str]:
    path = _file_of(module, root)
    body = ast.parse(path.read_text(encoding="utf-8")).body if path else []
    imports = [node for node in body if isinstance(node, ast.ImportFrom) and node.module and "diprime" in node.module]
    return {alias.name: str(node.module) for node in imports for alias in node.names if not alias.asname}


def _file_of(name: str, root: Path) -> Path | None:
    base = root / "src" if name.startswith("diprime") else root
    path = base.joinpath(*name.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _closure(names: Iterable[str], imports: dict[str, set[str]]) -> set[str]:
    """Return the modules that are reached from some, themselves included."""
    reached, new = set[str](), set(names)
    while new:
        reached |= new
        new = set[str]().union(*(imports.get(name, set()) for name in new)) - reached
    return reached
