"""Copies of the repository that mutants are planted in; the repository itself is never changed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.mutants.catalogue import Mutant
from benchmarks.paths import ROOT

# What tests read. Compiled kernels come along with src.
_COPIED = ("benchmarks", "docs", "examples", "src", "tests")
_IGNORED = shutil.ignore_patterns("__pycache__", "cache", "*.egg-info", ".hypothesis")
_NEEDED_TO_COMPILE = ("__init__.py", "_util/__init__.py", "kernels/constants.py")


_INSTALLING = threading.Lock()


class BuildError(RuntimeError):
    """A kernel that could not be compiled."""


class Copy:
    """A copy of the repository in a folder.

    Parameters
    ----------
    folder : Path
        Where to copy it to; the folder must not exist.
    root : Path
        The repository.
    """

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.root = folder
        folder.mkdir(parents=True)
        for path in root.iterdir():
            if path.is_file():
                shutil.copy2(path, folder)
            elif path.name in _COPIED:
                shutil.copytree(path, folder / path.name, ignore=_IGNORED)

    @contextmanager
    def with_mutant(self, mutant: Mutant) -> Iterator[None]:
        """Plant a mutant, compile its kernel if it is in one, and take it out again."""
        path = self.root / mutant.file
        original = path.read_text(encoding="utf-8")
        compiled = list(path.parent.glob(f"{path.stem}.*.so")) if mutant.kernel else []
        saved = {kernel: kernel.read_bytes() for kernel in compiled}
        try:
            _write(path, mutant.applied(original))
            if mutant.kernel and compiled:
                self._compile(path)
            yield
        finally:
            _write(path, original)
            for kernel, content in saved.items():
                _replace(kernel, content)

    def _compile(self, path: Path) -> None:
        """Compile one kernel in a folder of its own, and put it into the copy."""
        scratch = self.root / "compiling"
        shutil.rmtree(scratch, ignore_errors=True)
        package = self.root / "src/diprime"
        for source in (*(package / name for name in _NEEDED_TO_COMPILE), path):
            target = scratch / source.relative_to(self.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
            shutil.copy2(self.root / name, scratch)
        setup = scratch / "setup.py"  # a mutant is run once: less is lost to slower loops than to the compiler
        setup.write_text(setup.read_text(encoding="utf-8").replace('"-O3"', '"-O1"'), encoding="utf-8")
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        environment = {**os.environ, "PYTHONPATH": str(_build_tools(self.root.parent)), "DIPRIME_REQUIRE_KERNELS": "1"}
        run = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
        found = list((scratch / "src/diprime/kernels").glob("*.so"))
        if run.returncode or len(found) != 1:
            raise BuildError(f"{path.name} could not be compiled: {run.stderr[-500:]}")
        _replace(path.parent / found[0].name, found[0].read_bytes())
        shutil.rmtree(scratch)


def _replace(path: Path, content: bytes) -> None:
    """Write a library under a new inode: a process that has the old one loaded keeps it."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def _write(path: Path, source: str) -> None:
    """Write a source, and remove what was compiled of it: time and size alone would not tell that it is another."""
    path.write_text(source, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def _build_tools(folder: Path) -> Path:
    """Return a place with what compiling needs, which is no part of the environment that tests run in."""
    tools = folder / "build_tools"
    with _INSTALLING:
        if not tools.exists():
            requirements = ["Cython>=3.1,<4", "setuptools>=77"]
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tools), *requirements]
            subprocess.run(command, check=True)
    return tools
