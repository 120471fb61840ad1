"""`--person` and `--max-records-per-person`: all of a person's records are protected together."""

import json

import numpy as np
import polars as pl
import pytest

import diprime
from diprime.sources.data_files import csv
from tests.cli.people import synthetic_people
from tests.cli.running import ok, refused, run


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """Return a file of people with several records each."""
    path = tmp_path_factory.mktemp("persons") / "visits.csv"
    people = synthetic_people(2000, 1)
    ids = [f"p{i}" if i else None for i in np.random.default_rng(0).integers(0, 700, people.height)]
    people.with_columns(pl.Series("person", ids)).write_csv(path)
    return path


@pytest.mark.parametrize("boost", [False, True])
def test_fit_protects_people(visits, folder, tmp_path, boost, monkeypatch):
    monkeypatch.setattr(csv, "BLOCK_BYTES", 20_000)  # the records of a person are in several batches
    options = ["--boost", "--rounds", 20] if boost else []
    protected = ("--person", "person", "--max-records-per-person", 3)
    arguments = ("fit", visits, "-d", folder / "domain.toml", "-e", 2, *protected)
    printed = ok(*arguments, *options, "-o", tmp_path / "m.diprime")
    assert "One person, up to 3 records, added or removed: epsilon = 2; one person replaced: epsilon" in printed
    model = diprime.load(tmp_path / "m.diprime")
    assert model.max_records_per_group == model.privacy_.max_records_per_group == 3
    assert model.privacy_.is_private
    summary = json.loads(ok(*arguments, *options, "-o", tmp_path / "m.diprime", "--json", "--force"))
    assert summary["ledger"]["unit_records"] == 3
    if not boost:
        assert "people" in ok("show", tmp_path / "m.diprime")
        assert " records" not in ok("show", tmp_path / "m.diprime").partition("Tree 0")[2]
    ok("report", tmp_path / "m.diprime", "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "one person, up to 3 records, is added or removed" in page
    assert "<dt>people</dt>" in page


def test_each_person_counts_once(visits, folder, tmp_path):
    sizes = pl.read_csv(visits).drop_nulls("person")["person"].value_counts()["count"]
    for k in (1, 3):
        arguments = ("fit", visits, "-d", folder / "domain.toml", "-e", 1000, "--person", "person")
        ok(*arguments, "--max-records-per-person", k, "-o", tmp_path / "m.diprime", "--force")
        model = diprime.load(tmp_path / "m.diprime")
        assert model.forest_.counts.sum() == pytest.approx(len(sizes), abs=3), "and nobody not at all"


def test_check_counts_records_per_person(visits, folder):
    arguments = ("domain", "check", visits, "-d", folder / "domain.toml")
    content = json.loads(ok(*arguments, "--person", "person", "--json"))
    ids = pl.read_csv(visits)["person"]
    assert content["persons"]["persons"] == ids.drop_nulls().n_unique()
    assert content["persons"]["records_without_person"] == ids.null_count() > 0
    assert content["unused"] == []
    shares = [kept["records"] for kept in content["persons"]["kept"]]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    result = run(*arguments, "--person", "person")
    assert "people have" in result.stdout
    assert "not private" in result.stderr
    content = json.loads(ok(*arguments, "--json"))
    assert content["unused"] == ["person"]
    assert "persons" not in content


@pytest.mark.parametrize("boost", [False, True])
def test_plan_states_the_privacy_unit(folder, boost):
    options = ["--boost", "--rounds", 20] if boost else []
    arguments = ("plan", "--rows", 3000, "-e", 1, "-d", folder / "domain.toml", "--repeats", 1, *options)
    printed = ok(*arguments, "--max-records-per-person", 3)
    assert "Privacy unit: one person, up to 3 records, added or removed; about 1,000 people." in printed
    assert "people" not in ok(*arguments)
    content = json.loads(ok(*arguments, "--max-records-per-person", 3, "--json"))
    assert content["unit"] == "person"
    assert content["ledger"]["unit_records"] == 3


def test_mistake_is_reported_in_one_sentence(visits, folder, tmp_path):
    fit = ("fit", visits, "-d", folder / "domain.toml", "-e", 1, "-o", tmp_path / "m.diprime")
    refused(*fit, "--max-records-per-person", 3, match="--max-records-per-person 3 requires --person COLUMN")
    refused(*fit, "--person", "nobody", match=r"lacks .*'nobody'")
    refused(*fit, "--person", "age", match=r"'age' .*person, .*feature")
    refused(*fit, "--person", "income", match=r"'income' .*target, .*person")
    check = ("domain", "check", visits, "-d", folder / "domain.toml")
    refused(*check, "--person", "nobody", match=r"lacks .*'nobody'")
    assert not (tmp_path / "m.diprime").exists()
