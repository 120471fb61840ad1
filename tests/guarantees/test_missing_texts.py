"""A model predicts the same on the command line and in Python, whatever stands for a missing value in a file."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pandas._libs.parsers import STR_NA_VALUES

from diprime import Categorical, Date, Domain, Numeric, load
from diprime.cli.options import read_score
from diprime.domain.values import MISSING_TEXTS
from tests.cli.running import ok, refused

N_ROWS = 600
FEATURES = {
    "age": Numeric(0, 100),
    "workclass": Categorical(["Private", "State-gov", "Never-worked"]),
    "occupation": Categorical(n_buckets=32),
    "education": Categorical(["HS-grad", "Masters", "nan-doctorate"]),
}
TEXTS = {
    "age": ["17", "45", "90", "", "NA", "NaN", "null"],
    "workclass": ["Private", "State-gov", "?", " ?", "NA", "None", "", "Federal"],
    "occupation": ["Sales", "?", "Craft-repair", "N/A", "<NA>", "", "none"],
    "education": ["HS-grad", "Masters", "None", "nan", "?", "na", "NULL"],
}


def adult_like(path):
    """Write a table whose labels depend on missing values."""
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(texts, N_ROWS) for name, texts in TEXTS.items()}
    is_known = np.isin(columns["workclass"], ["Private", "State-gov", "Federal"]) | (columns["education"] == "na")
    columns["income"] = np.where(is_known, "<=50K", ">50K")
    pd.DataFrame(columns).to_csv(path, index=False)


@pytest.mark.parametrize("missing", [(), ("?",)])
def test_command_line_predicts_as_python_does(tmp_path, missing):
    path = tmp_path / "adult.csv"
    adult_like(path)
    domain = Domain(FEATURES, Categorical(["<=50K", ">50K"]), target_name="income", missing=missing)
    (tmp_path / "domain.toml").write_text(domain.to_toml())
    ok("fit", path, "-d", tmp_path / "domain.toml", "-e", 200, "-o", tmp_path / "m.diprime")
    model = load(tmp_path / "m.diprime")
    assert model.domain_.missing == missing
    ok("predict", tmp_path / "m.diprime", path, "-o", tmp_path / "out.csv")
    found = pl.read_csv(tmp_path / "out.csv")
    tables = [
        pd.read_csv(path),
        pd.read_csv(path, dtype=object, keep_default_na=False),
        pl.read_csv(path, null_values={"age": "NA"}, schema_overrides={"age": pl.Float64}, ignore_errors=True),
    ]
    for table in tables:
        X = table[list(FEATURES)]
        assert model.predict(X).tolist() == found["prediction"].to_list()
        assert model.predict_proba(X)[:, 1].tolist() == found["probability >50K"].to_list()
    assert found["prediction"].n_unique() > 1


def test_every_command_uses_the_missing_value_markers_of_the_domain(tmp_path):
    """A text in columns of numbers, dates and ids is missing if the domain lists it; a number would be an error."""
    path, domain_path, model_path = tmp_path / "visits.csv", tmp_path / "domain.toml", tmp_path / "m.diprime"
    rows = [f"{i % 50},2020-01-{i % 28 + 1:02},p{i},{'no' if i % 2 else 'yes'}" for i in range(200)]
    path.write_text("\n".join(["age,when,person,y", "-,-,-,no", *rows, "-,-,-,no", ""]))
    features = {"age": Numeric(0, 100), "when": Date("2020-01-01", "2020-12-31")}
    domain = Domain(features, Categorical(["no", "yes"]), target_name="y", missing=["-"])
    domain_path.write_text(domain.to_toml())
    checked = json.loads(ok("domain", "check", path, "-d", domain_path, "--person", "person", "--json"))
    assert [checked["columns"][name]["missing"] for name in features] == [2, 2]
    assert (checked["persons"]["persons"], checked["persons"]["records_without_person"]) == (200, 2)
    ok("fit", path, "-d", domain_path, "-e", "inf", "--person", "person", "-o", model_path)
    assert load(model_path).forest_.tree_counts.sum() == 200
    ok("explain", model_path, path, "--rows", 1)
    ok("score", model_path, path, "-e", "inf", "--person", "person", "-o", tmp_path / "score.json")
    assert read_score(tmp_path / "score.json").records.value == 200
    domain_path.write_text(Domain(features, domain.target, target_name="y").to_toml())
    refused("fit", path, "-d", domain_path, "-e", 1, "-o", tmp_path / "m", match=r"'age', in row 1 .*missing")


def test_default_markers_are_those_of_pandas():
    assert MISSING_TEXTS == STR_NA_VALUES
