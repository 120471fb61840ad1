"""Whether the tests notice a mutant, and which of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants import catching
from benchmarks.mutants.catalogue import Mutant
from benchmarks.mutants.choosing_tests import TestChooser
from benchmarks.mutants.copies import Copy

MINUTES = 5.0
"""After so many minutes of tests, a mutant is caught by time: nobody would take the library for working."""
TEST_SECONDS = 120
"""After so many seconds, a test has failed."""

_TESTS_FAILED, _NO_TESTS = 1, 5  # exit codes of pytest


class MutantError(RuntimeError):
    """A mutant of which nothing can be said."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Attributes
    ----------
    caught_by : str
        The test that failed; empty if none did.
    seconds : float
        How long that took.
    by_time : bool
        Whether the tests took too long, rather than fail.
    """

    caught_by: str
    seconds: float
    by_time: bool = False


def face_tests(mutant: Mutant, copy: Copy, chooser: TestChooser, minutes: float = MINUTES) -> Outcome:
    """Plant a mutant in a copy and run the tests, stage after stage, until one fails."""
    start = time.monotonic()
    with copy.with_mutant(mutant):
        for stage in chooser.stages(mutant):
            left = 60 * minutes - (time.monotonic() - start)
            try:
                failures = list(run_tests(copy.root, stage, ["--exitfirst"], max(left, 1.0)))
            except subprocess.TimeoutExpired:
                return Outcome(stage[0], time.monotonic() - start, by_time=True)
            if failures:
                return Outcome(failures[0], time.monotonic() - start)
    return Outcome("", time.monotonic() - start)


def run_tests(root: Path, tests: Sequence[str], options: Sequence[str], seconds: float) -> Iterator[str]:
    """Run tests in a repository, and yield those that fail; raise `MutantError` if some cannot be run at all."""
    written = root / "failures.jsonl"
    written.unlink(missing_ok=True)
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-n", "0"),
        *("-p", "benchmarks.mutants.catching", f"--timeout={TEST_SECONDS}", *options, *tests),
    ]
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), catching.FILE: str(written), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=seconds
    )
    failures = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()] if written.exists() else []
    for failure in failures:
        if not failure["imported"]:
            raise MutantError(f"{failure['test']} cannot be imported: {failure['why']}")
        yield failure["test"]
    if not failures and run.returncode not in (0, _NO_TESTS):
        raise MutantError(f"pytest ended with {run.returncode}: {(run.stdout + run.stderr)[-1000:]}")
