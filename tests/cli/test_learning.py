"""``diprime domain learn``, and fits with open domains: what is open is learnt from the file, and paid for."""

import pytest

from diprime import Categorical, Domain, Numeric, load
from diprime.cli.demo_data import PEOPLE_DOMAIN
from tests.cli.running import ok, refused, run

NUMBERS = ("--numbers", "age", "--numbers", "hours", "--numbers", "savings")
CLASSES = ("--class", "up to 50k", "--class", "above 50k")
OPEN = "\n".join(line for line in PEOPLE_DOMAIN.splitlines() if not line.startswith(("low", "high")))


def learnt(*arguments):
    return Domain.from_toml(ok("domain", "learn", *arguments))


def test_a_csv_needs_the_kinds_of_its_columns(folder):
    domain = learnt(folder / "people.csv", "--target", "income", *NUMBERS, *CLASSES, "--epsilon", 2)
    assert domain.origin.kind == "learnt"
    assert domain.origin.ledger.total == 2
    assert domain.features["age"].low < 40 < domain.features["age"].high
    assert domain.features["sector"] == Categorical(buckets=254)
    assert domain.target == Categorical(["up to 50k", "above 50k"])
    assert domain.target_name == "income"


def test_a_parquet_file_has_them_and_delta_learns_levels(folder):
    domain = learnt(folder / "people.parquet", "-t", "income", "-e", 5, "--delta", 1e-4)
    assert set(domain.features["sector"].levels) == {"private", "public", "self-employed"}
    assert set(domain.target.levels) == {"up to 50k", "above 50k"}
    assert isinstance(domain.features["savings"], Numeric)


def test_a_numeric_target_is_learnt(folder):
    assert isinstance(learnt(folder / "people.csv", "-t", "savings", *NUMBERS, "-e", 2).target, Numeric)
    assert isinstance(learnt(folder / "people.parquet", "-t", "savings", "-e", 2).target, Numeric)


def test_json_is_the_same_domain_and_commands_read_it(folder, tmp_path):
    arguments = ("domain", "learn", folder / "people.csv", "-t", "income", *NUMBERS, *CLASSES, "-e", 2, "--json")
    result = run(*arguments)
    (tmp_path / "domain.json").write_text(result.stdout)
    domain = Domain.from_json(result.stdout)
    assert (domain.origin.kind, domain.origin.ledger.total) == ("learnt", 2)
    assert domain.target_name == "income"
    assert str(domain.origin.ledger) in result.stderr
    ok("fit", folder / "people.csv", "-d", tmp_path / "domain.json", "-e", 1, "-o", tmp_path / "m")
    assert load(tmp_path / "m").domain_ == domain
    assert load(tmp_path / "m").privacy_.total == 3


def test_what_a_file_declares_stays(folder, tmp_path):
    (tmp_path / "open.toml").write_text(OPEN)
    domain = learnt(folder / "people.csv", "--domain", tmp_path / "open.toml", "-e", 2)
    declared = Domain.from_toml(PEOPLE_DOMAIN)
    assert domain.features["education"] == declared.features["education"]
    assert domain.features["savings"].scale == "log"
    assert domain.target == declared.target


@pytest.mark.parametrize("kind", [(), ("--boost", "--rounds", 20)], ids=["forest", "boosting"])
def test_a_fit_learns_what_is_open(folder, tmp_path, kind):
    (tmp_path / "open.toml").write_text(OPEN)
    ok("fit", folder / "people.csv", "-d", tmp_path / "open.toml", "-e", 3, *kind, "-o", tmp_path / "m")
    model = load(tmp_path / "m")
    assert model.privacy_.total == 3
    assert model.privacy_.is_private
    assert "domain: ranges of features" in ok("show", tmp_path / "m")


def test_a_model_with_buckets_predicts_from_both_kinds_of_files(folder, tmp_path):
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


def test_mistakes_are_explained(folder, tmp_path):
    people = folder / "people.csv"
    assert "Give the column to predict" in refused("domain", "learn", people, "-e", 1)
    assert "without a delta they cannot be learnt" in refused("domain", "learn", people, "-t", "income", "-e", 1)
    assert "lacks the column 'height'" in refused(
        "domain", "learn", people, "-t", "income", "-e", 1, "--numbers", "height"
    )
    closed = folder / "domain.toml"
    assert "Nothing is open in the domain" in refused("domain", "learn", people, "-d", closed, "-e", 1)
    (tmp_path / "open.toml").write_text(OPEN)
    assert "The domain is open" in refused("domain", "check", people, "-d", tmp_path / "open.toml")
