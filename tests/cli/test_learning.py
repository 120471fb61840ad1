"""``diprime domain learn``, and fits with open domains: what is open is learnt from the file, and paid for."""

from datetime import date, timedelta

import polars as pl
import pytest

from diprime import Categorical, Date, Domain, Numeric, load
from diprime.cli.demo import PEOPLE_DOMAIN
from tests.cli.running import ok, refused, run

NUMBERS = ("--numbers", "age", "--numbers", "hours", "--numbers", "savings")
CLASSES = ("--class", "up to 50k", "--class", "above 50k")
OPEN = "\n".join(line for line in PEOPLE_DOMAIN.splitlines() if not line.startswith(("low", "high")))


def learnt(*arguments):
    return Domain.from_toml(ok("domain", "learn", *arguments))


def test_options_give_the_kinds_of_csv_columns(folder):
    domain = learnt(folder / "people.csv", "--target", "income", *NUMBERS, *CLASSES, "--epsilon", 2)
    assert domain.origin.kind == "learned"
    assert domain.origin.ledger.total == 2
    assert domain.features["age"].low < 40 < domain.features["age"].high
    assert domain.features["sector"] == Categorical(n_buckets=254)
    assert domain.target == Categorical(["up to 50k", "above 50k"])
    assert domain.target_name == "income"


def test_learnt_domain_as_json_is_read_by_commands(folder, tmp_path):
    arguments = ("domain", "learn", folder / "people.csv", "-t", "income", *NUMBERS, *CLASSES, "-e", 2, "--json")
    result = run(*arguments)
    (tmp_path / "domain.json").write_text(result.stdout)
    domain = Domain.from_json(result.stdout)
    assert (domain.origin.kind, domain.origin.ledger.total) == ("learned", 2)
    assert domain.target_name == "income"
    assert str(domain.origin.ledger) in result.stderr
    ok("fit", folder / "people.csv", "-d", tmp_path / "domain.json", "-e", 1, "-o", tmp_path / "m")
    assert load(tmp_path / "m").domain_ == domain
    assert load(tmp_path / "m").privacy_.total == 3


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_ranges_of_dates_are_learnt_from_text_and_from_dates(tmp_path, kind):
    table = pl.DataFrame({"when": [date(2020, 1, 1) + timedelta(days=i % 300) for i in range(900)], "y": 0.5})
    table.write_csv(tmp_path / "a.csv")
    table.write_parquet(tmp_path / "a.parquet")
    (tmp_path / "d.toml").write_text(Domain({"when": Date()}, Numeric(0, 1), target_name="y").to_toml())
    when = learnt(tmp_path / f"a.{kind}", "--domain", tmp_path / "d.toml", "-e", 20).features["when"]
    # At any epsilon, ranges are at times much too wide. By the exact distribution, 3 in 10^9 are beyond these bounds.
    assert date(1900, 1, 1) <= when.low <= date(2020, 1, 1)
    assert date(2020, 10, 26) <= when.high < date(2100, 1, 1)
    assert when.parts == ("weekday", "month", "hour")


@pytest.mark.parametrize("kind", [(), ("--boost", "--rounds", 20)], ids=["forest", "boosting"])
def test_fit_learns_an_incomplete_domain(folder, tmp_path, kind):
    (tmp_path / "open.toml").write_text(OPEN)
    ok("fit", folder / "people.csv", "-d", tmp_path / "open.toml", "-e", 3, *kind, "-o", tmp_path / "m")
    model = load(tmp_path / "m")
    assert model.privacy_.total == 3
    assert model.privacy_.is_private
    assert "domain: feature ranges" in ok("show", tmp_path / "m")


def test_model_with_buckets_predicts_from_both_kinds_of_files(folder, tmp_path):
    result = run("domain", "learn", folder / "people.csv", "-t", "income", *NUMBERS, *CLASSES, "-e", 2)
    assert "Privacy ledger: epsilon = 2 of 2" in result.stderr
    (tmp_path / "d.toml").write_text(result.stdout)
    ok("fit", folder / "people.csv", "-d", tmp_path / "d.toml", "-e", 3, "-o", tmp_path / "m")
    assert load(tmp_path / "m").privacy_.total == 5
    for kind in ("csv", "parquet"):
        ok("predict", tmp_path / "m", folder / f"people.{kind}", "-o", tmp_path / f"{kind}.csv")
    assert (tmp_path / "csv.csv").read_text() == (tmp_path / "parquet.csv").read_text()
    ok("domain", "check", folder / "people.csv", "-d", tmp_path / "d.toml")
    ok("report", tmp_path / "m", "-o", tmp_path / "report.html")
    assert "254 hash buckets" in (tmp_path / "report.html").read_text()


def test_mistakes_of_learning_are_explained(folder, tmp_path):
    people = folder / "people.csv"
    refused("domain", "learn", people, "-e", 1, match=r"--target COLUMN, .*--domain FILE")
    income = ("domain", "learn", people, "-t", "income", "-e", 1)
    refused(*income, match=r"'income' .*--task, .*--class")
    refused(*income, "--task", "classification", match=r"classes .*target .*delta")
    refused(*income, "--numbers", "height", match=r"people\.csv lacks .*'height'")
    closed = folder / "domain.toml"
    refused("domain", "learn", people, "-d", closed, "-e", 1, match=r"domain .* complete: ")
    (tmp_path / "open.toml").write_text(OPEN)
    refused("domain", "check", people, "-d", tmp_path / "open.toml", match=r"incomplete: .*open\.toml")
