"""Outcomes in a file, each of them with digests of what it depends on, so that a run does what is missing."""

from __future__ import annotations

import ast
import hashlib
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.mutants.catalogue import Mutant, source_of
from benchmarks.mutants.choosing_tests import TestChooser
from benchmarks.mutants.running import Outcome
from benchmarks.paths import ROOT


def digest_of(*texts: str) -> str:
    """Return a short digest of texts."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


class Results:
    """The outcomes of mutants, and the tests that are known to pass without any.

    That a test catches a mutant depends on the mutant, the definition that it patches, and the test with what its
    module has besides other tests; that none does depends on all modules that were run. When one of them changes, the
    outcome is made again. What changes elsewhere is not noticed: before a release, all outcomes are made anew.

    Parameters
    ----------
    path : Path
        The file, a line of JSON for each outcome.
    root : Path
        The repository.
    """

    def __init__(self, path: Path, root: Path = ROOT) -> None:
        self._path = path
        self._root = root
        self._chooser = TestChooser(root)
        self._lock = threading.Lock()
        self._outcomes: dict[str, dict[str, Any]] = {}
        self._passing: dict[str, str] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            self._take(json.loads(line))

    def _take(self, entry: dict[str, Any]) -> None:
        if "mutant" in entry:
            self._outcomes[entry["mutant"]] = entry
        else:
            self._passing[entry["passes_without"]] = entry["tests"]

    def add(self, mutant: Mutant, outcome: Outcome, root: Path) -> None:
        """Keep an outcome that was made in a copy: the repository may have changed since it was copied."""
        self._append({"mutant": mutant.title, **self._digests(mutant, outcome, root), **asdict(outcome)})

    def add_passing(self, tests: Iterable[str], root: Path) -> None:
        """Keep that tests pass without any mutant in a copy."""
        for test in tests:
            self._append({"passes_without": test, "tests": _digest_of_tests([test], root)})

    def _append(self, entry: dict[str, Any]) -> None:
        with self._lock:
            self._take(entry)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def outcome(self, mutant: Mutant) -> Outcome | None:
        """Return the outcome of a mutant, if there is one that still holds."""
        entry = self._outcomes.get(mutant.title)
        if entry is None:
            return None
        outcome = Outcome(entry["caught_by"], entry["seconds"])
        return outcome if self._digests(mutant, outcome, self._root).items() <= entry.items() else None

    def passes_without(self, test: str) -> bool:
        """Whether a test is known to pass without any mutant."""
        return self._passing.get(test) == _digest_of_tests([test], self._root)

    def unproven(self, mutants: Sequence[Mutant]) -> list[str]:
        """Return the tests that caught a mutant and are not known to pass without it."""
        outcomes = [self.outcome(mutant) for mutant in mutants]
        tests = {outcome.caught_by for outcome in outcomes if outcome is not None and outcome.caught_by}
        return sorted(test for test in tests if not self.passes_without(test))

    def tidy(self, mutants: Sequence[Mutant]) -> None:
        """Write the file anew with what still holds, in the order of the catalogue."""
        held = [mutant for mutant in mutants if self.outcome(mutant) is not None]
        caught = {self._outcomes[mutant.title]["caught_by"] for mutant in held}
        passing = [test for test in sorted(self._passing) if test in caught and self.passes_without(test)]
        entries = [self._outcomes[mutant.title] for mutant in held]
        entries += [{"passes_without": test, "tests": self._passing[test]} for test in passing]
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        self._path.write_text(text, encoding="utf-8")

    def _digests(self, mutant: Mutant, outcome: Outcome, root: Path) -> dict[str, str]:
        run = [test for stage in self._chooser.stages(mutant) for test in stage]
        depends_on = [outcome.caught_by] if outcome.caught_by else [*map(_module, run)]
        patch = digest_of(mutant.file, mutant.old, mutant.new, patched_definition(source_of(mutant, root), mutant.old))
        return {"patch": patch, "tests": _digest_of_tests(depends_on, root)}


def patched_definition(source: str, old: str) -> str:
    """Return the innermost function, or else the statements of the module, that a patch changes."""
    first = source.count("\n", 0, max(source.find(old), 0)) + 1
    last = first + old.count("\n")
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    around = [node for node in functions if node.lineno <= first and last <= (node.end_lineno or 0)]
    touched = [node for node in tree.body if node.lineno <= last and first <= (node.end_lineno or 0)]
    nodes = [max(around, key=lambda node: node.lineno)] if around else touched
    return "\n".join(map(ast.dump, nodes))


def _digest_of_tests(tests: Iterable[str], root: Path) -> str:
    return digest_of(*(_relevant(root / _module(test), test) for test in tests))


def _relevant(path: Path, test: str) -> str:
    """Return what the outcome of a test, or of a whole module, depends on: its module without other tests."""
    source = path.read_text(encoding="utf-8") if path.exists() else ""
    if "::" not in test:
        return source
    name = test.split("::")[1].split("[")[0]
    return "\n".join(map(ast.dump, filter(lambda node: _matters(node, name), ast.parse(source).body)))


def _matters(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
        return node.name == name
    return not isinstance(node, (ast.Import, ast.ImportFrom))


def _module(test: str) -> str:
    return test.split("::")[0]
