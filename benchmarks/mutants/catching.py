"""A plugin of pytest that writes down the first failure: ``-p benchmarks.mutants.catching``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

FILE = "DIPRIME_MUTANTS_FAILURE"
"""The environment variable with the path of the file to write."""


def pytest_configure(config: Any) -> None:
    """Refuse to test another copy of the library than the one in the working directory."""
    import diprime

    if not Path(diprime.__file__).is_relative_to(Path.cwd()):
        raise pytest.UsageError(f"The library that would be tested is another copy, {diprime.__file__}.")


def pytest_runtest_logreport(report: Any) -> None:
    """Write down a test that failed."""
    if report.failed:
        _write(report.nodeid, report, imported=True)


def pytest_collectreport(report: Any) -> None:
    """Write down a module that could not be imported."""
    if report.failed:
        _write(report.nodeid, report, imported=False)


def _write(test: str, report: Any, *, imported: bool) -> None:
    with Path(os.environ[FILE]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"test": test, "imported": imported, "why": str(report.longreprtext)[-500:]}) + "\n")
