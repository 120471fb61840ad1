"""The code on pages that can be read alone: it runs, and prints what the page shows."""

import contextlib
import doctest
import io
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WHOLE = {
    "docs/start/first-model.md": ["Privacy ledger: epsilon = 1 of 1, delta = 0"],
    "docs/missing-values.md": ["[[ 86   1]\n [255 254]\n [254 255]]", "[ 1 -1 -1]"],
    "docs/persons.md": ["One person, up to 5 records, added or removed: epsilon = 1"],
}
PROMPTS = ["docs/start/installation.md", "docs/start/epsilon-and-delta.md", "docs/design.md"]


def run_blocks(page, namespace):
    """Run the Python blocks of a page one after the other, and return what they print."""
    printed = io.StringIO()
    blocks = BLOCK.findall((ROOT / page).read_text("utf-8"))
    assert blocks
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in blocks:
            exec(compile(block, page, "exec"), namespace)
    return printed.getvalue()


@pytest.mark.parametrize("page", WHOLE)
def test_the_code_of_a_page_runs_by_itself(page):
    printed = run_blocks(page, {})
    assert [text for text in WHOLE[page] if text not in printed] == []


def test_the_code_of_the_readme_runs_on_a_table_with_its_columns():
    rng = np.random.default_rng()
    X = pd.DataFrame(
        {"age": rng.integers(17, 91, 500), "income": rng.lognormal(10, 1, 500), "sex": rng.choice(["F", "M"], 500)}
    )
    y = np.where(X["income"] > 20_000, "yes", "no")
    printed = run_blocks("README.md", {"X": X, "y": y, "X_new": X[:3]})
    assert "Privacy ledger: epsilon = 1 of 1, delta = 0" in printed


@pytest.mark.parametrize("page", PROMPTS)
def test_examples_with_prompts_print_what_they_show(page):
    failures, tried = doctest.testfile(str(ROOT / page), module_relative=False, encoding="utf-8")
    assert tried
    assert not failures


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 1000
