"""The budget of a study on the command line."""

import json
import os
from fractions import Fraction

import pytest

from diprime import Budget, load
from tests.cli.running import ok, refused, run


@pytest.fixture
def budget(tmp_path):
    path = tmp_path / "study.budget"
    assert run("budget", "new", path, "-e", 1.5, "--delta", 1e-5).exit_code == 0
    return path


def fit(folder, epsilon, output, *options):
    return "fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", epsilon, "-o", output, *options


def test_new_makes_a_budget_and_never_replaces_one(tmp_path):
    path = tmp_path / "study.budget"
    printed = json.loads(ok("budget", "new", path, "-e", 3, "--delta", 1e-5, "--pure-epsilon", 1, "--json"))
    made = Budget.open(path)
    assert (made.epsilon, made.delta, printed["pure"]) == (3, Fraction(1, 10**5), "1")
    assert printed == made.to_dict()
    before = path.read_bytes()
    assert "File exists" in refused("budget", "new", path, "-e", 3)
    assert path.read_bytes() == before
    refused("budget", "new", tmp_path / "nowhere" / "study.budget", "-e", 3, match=r"nowhere .*exist")
    refused("budget", "new", tmp_path / "other", "-e", -1, match=r"epsilon .*positive number.*got -1")
    assert os.listdir(tmp_path) == ["study.budget"]


def test_fits_are_charged_shown_and_refused(folder, tmp_path, budget):
    printed = ok(*fit(folder, 1, tmp_path / "forest", "--budget", budget))
    assert "Remaining for a release without delta: epsilon = 0.5." in printed
    ok(*fit(folder, 0.2, tmp_path / "boosted", "--boost", "--rounds", 5, "--budget", budget, "--json"))
    study = Budget.open(budget)
    assert load(tmp_path / "forest").privacy_.studies == load(tmp_path / "boosted").privacy_.studies == [study.study]
    assert study.spent == load(tmp_path / "forest").privacy_.loss + load(tmp_path / "boosted").privacy_.loss
    cost = r"epsilon = 1\.5, delta = 1e-05 .*not cover DiPriMeClassifier .*epsilon = 1\."
    refused(*fit(folder, 1, tmp_path / "third", "--budget", budget), match=cost)
    assert not (tmp_path / "third").exists()
    shown = ok("budget", "show", budget)
    assert study.study in shown
    assert "mu^2" in shown
    assert "Spent: epsilon = 1, mu^2 = " in shown
    assert json.loads(ok("budget", "show", budget, "--json")) == study.to_dict()
    assert "same people" in refused(
        "merge", tmp_path / "forest", tmp_path / "forest", "-o", tmp_path / "merged", "--disjoint"
    )
    ok("report", tmp_path / "forest", "-o", tmp_path / "report.html")
    assert f"Charged to the budget of study {study.study}" in (tmp_path / "report.html").read_text()
    assert study.study in ok("show", tmp_path / "forest")


def test_budget_is_checked_before_rows_are_read(folder, tmp_path, budget):
    rows = (folder / "people.csv").read_text().splitlines()
    (tmp_path / "people.csv").write_text("\n".join([rows[0], "not,a,row"]))
    arguments = ("-d", folder / "domain.toml", "-o", tmp_path / "model", "--budget", budget)
    refused("fit", tmp_path / "people.csv", "-e", 2, *arguments, match="not cover DiPriMeClassifier")
    refused("fit", tmp_path / "people.csv", "-e", 1, *arguments, match=r"people\.csv .*3 fields in row 1 ")
    assert Budget.open(budget).entries == (), "what cannot be read costs nothing"


def test_unreviewed_domain_is_refused_under_a_budget(folder, tmp_path, budget):
    text = (folder / "domain.toml").read_text()
    (tmp_path / "domain.toml").write_text(f'origin = "inferred"\n{text}')
    arguments = ("fit", folder / "people.csv", "-d", tmp_path / "domain.toml", "-e", 1, "-o", tmp_path / "model")
    refused(*arguments, "--budget", budget, match=r"DiPriMeClassifier .*not private\. .*inferred")
    assert Budget.open(budget).entries == ()
    assert not (tmp_path / "model").exists()


def test_mistake_is_reported_in_one_sentence(folder, tmp_path, budget):
    assert "No such file" in refused("budget", "show", tmp_path / "nothing")
    refused("budget", "show", folder / "domain.toml", match=r"domain\.toml .*a budget")
    refused("budget", "show", tmp_path, match=rf"{tmp_path} .*not a file\.")
    assert "No such file" in refused(*fit(folder, 1, tmp_path / "model", "--budget", tmp_path / "nothing"))
    budget.write_bytes(budget.read_bytes()[:-5])
    refused("budget", "show", budget, match=r"study\.budget .*a budget")


def test_control_characters_in_budget_logs_are_escaped(budget):
    Budget.open(budget).charge("\x1b[31m[bold]red", epsilon=0.1)
    shown = ok("budget", "show", budget)
    assert "\x1b" not in shown
    assert "[bold]red" in shown


def test_domains_scores_and_searches_are_charged(folder, tmp_path, budget):
    people, domain, model = folder / "people.csv", folder / "domain.toml", tmp_path / "model"
    common = ("--budget", budget)
    (tmp_path / "open.toml").write_text(
        '[features.age]\nkind = "numeric"\n\n[target]\nname = "savings"\nkind = "numeric"\nlow = 0\nhigh = 100000\n'
    )
    assert "learnt" in ok("domain", "learn", people, "-d", tmp_path / "open.toml", "-e", 0.1, *common)
    ok("search", people, "-d", domain, "-e", 0.8, "--try", "max_depth=1,2", "-o", model, *common)
    ok("score", model, people, "-e", 0.1, *common)
    charged = [(entry.description, float(entry.loss.epsilon)) for entry in Budget.open(budget).entries]
    assert charged == [
        ("ranges and categories of a domain", 0.1),
        ("PrivateSearch with epsilon = 0.8", 0.8),
        (f"a score of {type(load(model)).__name__}", 0.1),
    ]
    for command in (
        ("domain", "learn", people, "-d", tmp_path / "open.toml", "-e", 1),
        ("search", people, "-d", domain, "-e", 1, "--try", "max_depth=1,2", "-o", model, "--force"),
        ("score", model, people, "-e", 1),
    ):
        refused(*command, *common, match="not cover ")
