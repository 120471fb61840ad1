"""The examples run as they are."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_demo_prints_accuracies_and_the_ledger(capsys):
    runpy.run_path(str(EXAMPLES / "demo.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "Privacy ledger: epsilon = 1 of 1, delta = 0" in printed
    for contender in ("majority", "random forest"):
        assert contender in printed.lower()
