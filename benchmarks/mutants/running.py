"""Whether the tests notice a mutant, and which of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants import catching
from benchmarks.mutants.catalogue import Mutant
from benchmarks.mutants.copies import Copy

MINUTES = 15.0
"""After so many minutes of tests that pass, a mutant has survived."""
TEST_SECONDS = 300
"""After so many seconds, a test has failed."""

_KILLED, _NO_TESTS = 1, 5  # the exit codes of pytest where a test took too long, and where there is none


class MutantError(RuntimeError):
    """A mutant of which nothing can be said."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Attributes
    ----------
    caught_by : str
        The test that failed, or that did not end; empty if there is none.
    seconds : float
        How long that took.
    """

    caught_by: str
    seconds: float


def face_tests(mutant: Mutant, copy: Copy, stages: Sequence[Sequence[str]], minutes: float = MINUTES) -> Outcome:
    """Plant a mutant in a copy and run the tests, stage after stage, until one fails or there is no time left.

    The tests of the audit nearest to the mutant come last.
    """
    start = time.monotonic()
    with copy.with_mutant(mutant):
        for stage, marks in [*((stage, "not audit") for stage in stages), *((stage, "audit") for stage in stages[:1])]:
            left = 60 * minutes - (time.monotonic() - start)
            failures = run_tests(copy.root, stage, ["--exitfirst", "-m", marks], left) if left > 0 else []
            if failures:
                return Outcome(failures[0], time.monotonic() - start)
    return Outcome("", time.monotonic() - start)


def run_tests(root: Path, tests: Sequence[str], options: Sequence[str], seconds: float) -> list[str]:
    """Run tests in a repository for so many seconds at most, and return those that fail or take too long.

    Raise `MutantError` if some cannot be run at all.
    """
    written = root / "tests.jsonl"
    written.write_text("")
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-n", "0"),
        *(f"--timeout={TEST_SECONDS}", "--timeout-method=thread", "-p", "benchmarks.mutants.catching"),
        *options,
        *tests,
    ]
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), catching.FILE: str(written), "OMP_NUM_THREADS": "1"}
    said, code = "", 0
    try:
        run = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=seconds
        )
        said, code = run.stdout + run.stderr, run.returncode
    except subprocess.TimeoutExpired:
        pass
    events = [tuple(json.loads(line)) for line in written.read_text(encoding="utf-8").splitlines()]
    for what, test in events:
        if what == "cannot be imported":
            raise MutantError(f"{test} ({what})")
    failures = [test for what, test in events if what == "fails"]
    if not failures and code == _KILLED and events:
        return [events[-1][1]]  # the test that had begun
    if not failures and code not in (0, _NO_TESTS):
        raise MutantError(f"pytest ended with {code}: {said[-1000:]}")
    return failures
