"""A plugin of pytest that writes down what fails: ``-p benchmarks.mutants.catching``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

FILE = "DIPRIME_MUTANTS_TESTS"
"""The environment variable with the path of the file to write: a line for each test that begins or fails."""


def pytest_configure(config: Any) -> None:
    """Refuse to test another copy of the library than the one in the working directory."""
    import diprime

    if not Path(diprime.__file__).is_relative_to(Path.cwd()):
        raise pytest.UsageError(f"The library that would be tested is another copy, {diprime.__file__}.")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Run Spark and the checks of scikit-learn last: they take long."""
    items.sort(key=lambda item: ("scikit_learn" in item.nodeid, "spark" in item.nodeid))


def pytest_runtest_logstart(nodeid: str) -> None:
    """Write down a test that begins; if it is the last, it has not ended."""
    _write("begins", nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    """Write down a test that failed."""
    if report.failed:
        _write("fails", report.nodeid)


def pytest_collectreport(report: Any) -> None:
    """Write down a module that could not be imported, and why."""
    if report.failed:
        _write("cannot be imported", f"{report.nodeid}: {str(report.longreprtext)[-500:]}")


def _write(what: str, test: str) -> None:
    with Path(os.environ[FILE]).open("a", encoding="utf-8") as file:
        file.write(json.dumps([what, test]) + "\n")
