"""Every documented command starts."""

import subprocess
import sys

import pytest

from benchmarks.paths import ROOT


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
def test_commands_have_help_and_are_named_in_it(module):
    command = [sys.executable, "-m", f"benchmarks.{module}", "--help"]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert shown.startswith(f"usage: python -m benchmarks.{module} ")
