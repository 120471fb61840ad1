"""Every documented command starts, and every module of the benchmarks is imported."""

import importlib
import subprocess
import sys

import pytest

from benchmarks.paths import ROOT


@pytest.mark.audit
@pytest.mark.parametrize(
    "module",
    [
        "attacks",
        "audit",
        "class_weights",
        "fuzz",
        "mutants",
        "open_domains",
        "paper",
        "persons",
        "plan",
        "random_forests",
        "scale",
        "scores",
        "search",
        "speed",
        "speed.many_classes",
        "speed.memory",
        "utility",
    ],
)
def test_commands_have_help_with_their_names(module):
    command = [sys.executable, "-m", f"benchmarks.{module}", "--help"]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert shown.startswith(f"usage: python -m benchmarks.{module} ")


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("**/*.py")), ids=lambda path: path.stem)
def test_modules_can_be_imported(path):
    """Figures and tables are drawn seldom, and would not notice that a name has changed."""
    if path.stem not in {"__main__", "diffprivlib_worker"}:  # the latter runs in an environment of its own
        importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
