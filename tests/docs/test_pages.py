"""The code on pages that can be read alone: it runs, and prints what the page shows."""

import contextlib
import doctest
import io
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from diprime import Categorical, Domain, Numeric
from tests.postgresql import find_programs, server

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WHOLE = {
    "docs/index.md": ["Privacy ledger: epsilon = 1 of 1, delta = 0"],
    "docs/start/first-model.md": ["Privacy ledger: epsilon = 1 of 1, delta = 0"],
    "docs/missing-values.md": ["[[ 86   1]\n [255 254]\n [254 255]]", "[ 1 -1 -1]"],
    "docs/preprocessing.md": ["['standardscaler']\n[]\n"],
    "docs/interpreting-models.md": ["row 0: log-odds of yes: ", "  age × hours ", "row 0: probability of yes: "],
    "docs/persons.md": ["One person, up to 5 records, added or removed: epsilon = 1"],
}
PROMPTS = ["docs/start/epsilon-and-delta.md", "docs/architecture.md"]


def run_blocks(page, namespace, *, chosen=slice(None), replaced=()):
    """Run the Python blocks of a page one after the other, and return what they print."""
    printed = io.StringIO()
    blocks = BLOCK.findall((ROOT / page).read_text("utf-8"))[chosen]
    assert blocks
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in blocks:
            for shown, used in dict(replaced).items():
                assert shown in block
                block = block.replace(shown, used)
            exec(compile(block, page, "exec"), namespace)
    return printed.getvalue()


@pytest.mark.parametrize("page", WHOLE)
def test_code_of_each_page_runs_alone(page):
    printed = run_blocks(page, {})
    assert [text for text in WHOLE[page] if text not in printed] == []


def test_code_of_the_readme_runs():
    rng = np.random.default_rng()
    X = pd.DataFrame(
        {"age": rng.integers(17, 91, 500), "income": rng.lognormal(10, 1, 500), "sex": rng.choice(["F", "M"], 500)}
    )
    y = np.where(X["income"] > 20_000, "yes", "no")
    printed = run_blocks("README.md", {"X": X, "y": y, "X_new": X[:3]})
    assert "Privacy ledger: epsilon = 1 of 1, delta = 0" in printed


def test_database_examples_run_with_duckdb(tmp_path):
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    namespace = {}
    printed = run_blocks("docs/databases.md", namespace, chosen=slice(1))
    assert "Privacy ledger: epsilon = 1 of 1, delta = 0" in printed
    assert namespace["model"].privacy_.privacy_unit == "person"
    run_blocks("docs/databases.md", namespace, chosen=slice(2, None), replaced={"/data/scratch": str(tmp_path)})


def test_postgresql_examples_run(tmp_path):
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="adbc-driver-postgresql is not installed")
    if find_programs() is None:
        pytest.skip("there is no server of PostgreSQL")
    domain = Domain({"age": Numeric(0, 110), "pain": Numeric(0, 10)}, Categorical(["no", "yes"]))
    (tmp_path / "domain.toml").write_text(domain.to_toml(), "utf-8")
    columns = {"patient": range(90), "age": range(90), "pain": [1] * 90, "returned": ["no", "yes"] * 45}
    namespace = {}
    with server() as address:
        with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("visits", pa.table({name: list(values) for name, values in columns.items()}))
        places = {"postgresql://localhost/hospital": address, "domain.toml": str(tmp_path / "domain.toml")}
        run_blocks("docs/databases.md", namespace, chosen=slice(1, 2), replaced=places)
    assert namespace["model"].privacy_.privacy_unit == "person"


@pytest.mark.parametrize("page", PROMPTS)
def test_doctest_examples_of_pages_pass(page):
    failures, tried = doctest.testfile(str(ROOT / page), module_relative=False, encoding="utf-8")
    assert tried
    assert not failures
