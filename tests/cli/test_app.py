"""The commands, as users and scripts see them."""

import csv
import hashlib
import json
import os
import re
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import diprime
import diprime.cli.fit
from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier, Domain, Ledger, PrivateScore, load
from diprime.cli.demo import PEOPLE_DOMAIN
from diprime.privacy.measures import rounded_text
from diprime.sources.data_files import csv as csv_files
from diprime.sources.data_files import parquet
from tests.cli.people import synthetic_people
from tests.cli.running import EXIT_SECONDS, ok, python, refused, run
from tests.small_data import assert_same_forest

MODELS = ["model", "regression", "boosted_model", "boosted_regression"]


def test_fit_writes_a_private_model_and_prints_its_ledger(folder, tmp_path):
    printed = ok("fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", 0.1, "-o", tmp_path / "m.diprime")
    model = load(tmp_path / "m.diprime")
    assert isinstance(model, DiPriMeClassifier)
    assert model.privacy_.total == Fraction(1, 10)
    assert model.privacy_.is_private
    assert str(model.privacy_) in printed
    assert model.domain_ == Domain.from_toml(PEOPLE_DOMAIN)
    assert os.listdir(tmp_path) == ["m.diprime"]


def test_boost_fits_a_boosted_model_under_epsilon_and_delta(folder, tmp_path):
    options = ("--boost", "--delta", 1e-5, "--rounds", 20, "--learning-rate", 0.25, "--no-interactions")
    arguments = ("fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", 0.5, "-o", tmp_path / "m.diprime")
    printed = ok(*arguments, *options)
    model = load(tmp_path / "m.diprime")
    assert isinstance(model, DiPriMeBoostingClassifier)
    assert (model.privacy_.total, model.privacy_.delta) == (Fraction(1, 2), Fraction(1, 10**5))
    assert model.privacy_.is_private
    assert str(model.privacy_) in printed
    assert (model.n_rounds, model.learning_rate, model.interactions) == (20, 0.25, False)
    ok(*arguments, "--boost", "--force")
    assert load(tmp_path / "m.diprime").get_params() | {"domain": None} == DiPriMeBoostingClassifier(0.5).get_params()


@pytest.mark.parametrize(
    "option", [("--delta", 1e-6), ("--rounds", 9), ("--learning-rate", 0), ("--no-interactions",)], ids=lambda o: o[0]
)
@pytest.mark.parametrize("command", ["fit", "plan"])
def test_options_of_boosting_need_boost(folder, tmp_path, command, option):
    given = (folder / "people.csv", "-o", tmp_path / "m") if command == "fit" else ("--rows", 100)
    said = refused(command, *given, "-d", folder / "domain.toml", "-e", 1, *option, code=2)
    assert f"'{option[0]}': requires --boost" in said
    assert not (tmp_path / "m").exists()


@pytest.mark.filterwarnings("always::diprime.PrivacyWarning")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_fit_of_a_file_equals_fit_of_its_rows(folder, tmp_path, kind, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 30_000)

    def seeded(domain, epsilon, **parameters):
        return DiPriMeClassifier(epsilon, domain, random_state=0, **parameters)

    monkeypatch.setattr(diprime.cli.fit, "make_estimator", seeded)
    result = run("fit", folder / f"people.{kind}", "-d", folder / "domain.toml", "-e", 1, "-o", tmp_path / "m.diprime")
    assert result.stderr.startswith("diprime: warning: This fit is not private: random_state is set")
    assert result.stderr.count("\n") == 1
    people, domain = synthetic_people(3000, 1), Domain.from_toml(PEOPLE_DOMAIN)
    with pytest.warns(diprime.PrivacyWarning):
        expected = seeded(domain, 1.0).fit(people.select(domain.encoded_feature_names), people["income"])
    assert_same_forest(load(tmp_path / "m.diprime"), expected)


@pytest.mark.parametrize(("kind", "output"), [("csv", "out.parquet"), ("parquet", "out.csv")])
@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_those_of_the_model(folder, tmp_path, name, kind, output, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 30_000)
    path = tmp_path / output
    keep = ("--keep", "age", "--keep", "income")
    ok("predict", folder / f"{name}.diprime", folder / f"people.{kind}", "-o", path, *keep)
    table = pl.read_csv(path) if output.endswith("csv") else pl.read_parquet(path)
    model, people = load(folder / f"{name}.diprime"), synthetic_people(3000, 1)
    rows = people.select(model.domain_.encoded_feature_names)
    assert table["age"].cast(int).to_list() == people["age"].to_list()
    assert table["income"].to_list() == people["income"].to_list()
    assert table["prediction"].to_list() == model.predict(rows).tolist()
    if name.endswith("model"):
        assert table.columns[3:] == ["probability above 50k", "probability up to 50k"]
        assert np.array_equal(table.select(table.columns[3:]).to_numpy(), model.predict_proba(rows))
    assert os.listdir(tmp_path) == [output]


@pytest.mark.parametrize("name", ["out.xlsx", "out.json", "out.parquet.gz", "out.tsv"])
def test_unknown_suffixes_of_predictions_are_refused(folder, tmp_path, name):
    said = refused("predict", folder / "model.diprime", folder / "people.csv", "-o", tmp_path / name)
    assert f"Predictions are written as .csv or .parquet, not as {Path(name).suffix}." in said
    assert os.listdir(tmp_path) == []


KEPT = "id,age,hours,education,sector,savings,when\n007,39,40.50,phd,private,1e3,2020-01-01\n" + (
    '" 8", 039,NA,"a ""b"", c",,+5.0,\n9,10,-0,none,"",  ,31/12/2020\n'
)


def test_columns_of_a_csv_are_copied_unchanged(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 60)
    (tmp_path / "d.csv").write_text(KEPT)
    keep = [word for name in KEPT.split("\n")[0].split(",") for word in ("--keep", name)]
    ok("predict", folder / "model.diprime", tmp_path / "d.csv", "-o", tmp_path / "out.csv", *keep)
    before = csv_fields(tmp_path / "d.csv")
    assert [row[:7] for row in csv_fields(tmp_path / "out.csv")] == before
    ok("predict", folder / "model.diprime", tmp_path / "d.csv", "-o", tmp_path / "out.parquet", *keep)
    table = pl.read_parquet(tmp_path / "out.parquet")
    assert set(table.dtypes[:7]) == {pl.String}
    assert table["age"].to_list() == ["39", " 039", "10"]


def csv_fields(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_columns_of_a_parquet_file_are_copied_with_their_types(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MAX_ROWS", 2)
    people = synthetic_people(5, 1).with_columns(
        pl.col("age").cast(pl.Int8),
        pl.col("hours").cast(pl.Decimal(6, 2)),
        pl.col("savings").cast(pl.String),
        pl.col("education").cast(pl.Categorical),
        pl.Series("born", [date(1990, 1, day) for day in range(1, 6)]),
        pl.Series("tags", [["a"], [], None, ["b", "c"], ["d"]]),
    )
    people.write_parquet(tmp_path / "d.parquet")
    keep = [word for name in people.columns for word in ("--keep", name)]
    ok("predict", folder / "model.diprime", tmp_path / "d.parquet", "-o", tmp_path / "out.parquet", *keep)
    kept = pl.read_parquet(tmp_path / "out.parquet").select(people.columns)
    assert kept.schema == people.schema
    assert kept.rows() == people.rows()


def test_unprintable_dates_change_no_other_row_and_print_nothing(folder, tmp_path):
    times = pl.Series("when", [2**63 - 12_345, 0], dtype=pl.Int64).cast(pl.Datetime("us", "Asia/Tokyo"))
    synthetic_people(2, 1).with_columns(times).write_parquet(tmp_path / "d.parquet")
    command = ("predict", folder / "model.diprime", tmp_path / "d.parquet", "-o", tmp_path / "out.csv")
    with python("-m", "diprime", *command, "--keep", "when") as process:
        said, errors = process.communicate(timeout=EXIT_SECONDS)
    assert (process.returncode, said) == (0, "")
    assert errors == f"Written to {tmp_path / 'out.csv'}.\n"
    header, _, last = csv_fields(tmp_path / "out.csv")
    assert (header[0], last[0][:10]) == ("when", "1970-01-01")


@pytest.mark.filterwarnings("default::diprime.PrivacyWarning")
def test_fit_with_a_draft_is_private_after_review(folder, tmp_path):
    draft = ok("domain", "draft", folder / "people.csv", "--target", "income")
    (tmp_path / "draft.toml").write_text(draft)
    arguments = ("fit", folder / "people.csv", "-d", tmp_path / "draft.toml", "-e", 1, "-o", tmp_path / "m")
    result = run(*arguments)
    assert result.exit_code == 0
    assert "This fit is not private: The domain was inferred from the data" in result.stderr
    assert "is a draft that has not been reviewed" in result.stderr
    assert not load(tmp_path / "m").privacy_.is_private
    assert load(tmp_path / "m").domain_.origin.kind == "inferred"
    (tmp_path / "draft.toml").write_text('reviewed_by = "Jane Doe"\n' + draft)
    assert run(*arguments, "--force").stderr == ""
    assert load(tmp_path / "m").privacy_.is_private
    assert "Jane Doe reviewed the domain" in ok("show", tmp_path / "m")


def test_check_prints_a_table_or_json(folder, tmp_path):
    (tmp_path / "d.csv").write_text(
        "id,age,hours,education,sector,savings,income\n"
        "1,14,40,none,private,1,up to 50k\n2,101,x,phd,,2,rich\n3,50,NA,doctor,public,-1,\n"
    )
    result = run("domain", "check", tmp_path / "d.csv", "-d", folder / "domain.toml", "--json")
    said = json.loads(result.stdout)
    assert "This output is not private" in result.stderr
    nothing = dict.fromkeys(["below", "above", "unlisted", "missing", "unreadable"], 0)
    assert said["rows"] == 3
    assert said["unused"] == ["id"]
    assert said["columns"] == {
        "age": nothing | {"below": 1, "above": 1},
        "hours": nothing | {"unreadable": 1, "missing": 1},
        "education": nothing | {"unlisted": 1},
        "sector": nothing | {"missing": 1},
        "savings": nothing | {"below": 1},
        "income": nothing | {"unlisted": 1, "missing": 1},
    }
    printed = ok("domain", "check", tmp_path / "d.csv", "-d", folder / "domain.toml")
    assert "33.33%" in printed
    assert "income (target)" in printed
    assert "not in the domain: id" in printed


def test_plan_needs_no_data(folder):
    arguments = ("plan", "--rows", 5000, "-e", 0.5, "-d", folder / "domain.toml", "--repeats", 1)
    said = json.loads(ok(*arguments, "--json"))
    assert said["ledger"]["total"] == said["epsilon"] == "1/2"
    assert said["domain_ledger"] == {"epsilon": "0", "delta": "0"}
    lost = [max(made["noise_cost"], 0) for made in said["simulations"]]
    assert [made["kind"] for made in said["simulations"]] == ["simple", "smooth", "rough"]
    assert said["noise_cost"] == {"least": min(lost), "most": max(lost)}
    assert (
        said["simulations"][0]["noise_cost"] == said["simulations"][0]["noiseless"] - said["simulations"][0]["private"]
    )


def test_plan_of_an_incomplete_domain_has_the_ledger_of_a_fit(folder, tmp_path):
    edited = PEOPLE_DOMAIN.split("[features.savings]")[0] + '[target]\nname = "savings"\nkind = "numeric"\n'
    (tmp_path / "open.toml").write_text(edited)
    arguments = ("plan", "--rows", 3000, "-e", 0.5, "-d", tmp_path / "open.toml", "--repeats", 1, "--boost")
    planned = Ledger.from_dict(json.loads(ok(*arguments, "--rounds", 20, "--json"))["ledger"])
    printed = ok(*arguments, "--rounds", 20)
    fitted = ("fit", folder / "people.csv", "-d", tmp_path / "open.toml", "-e", 0.5, "--boost", "--rounds", 20)
    ok(*fitted, "-o", tmp_path / "m.diprime")
    spent = load(tmp_path / "m.diprime").privacy_
    assert planned == replace(spent, notes=planned.notes)
    assert set(planned.notes) <= set(spent.notes)  # a fit adds notes about released numbers, which are random
    for charge in planned.charges:
        unit = {"epsilon": "ε", "mu^2": "μ²"}[charge.measure.symbol]
        assert re.search(
            rf"{charge.mechanism} .* {unit} = {rounded_text(charge.total, 4)} .*{planned.share(charge):.1%}", printed
        )
    mu_squared = rounded_text(planned.loss.mu_squared)
    assert f"Sum: ε = 0.05, μ² = {mu_squared}. At δ = 1e-06, this is ε = 0.5." in printed


@pytest.mark.parametrize("options", [(), ("--boost", "--rounds", 5, "--delta", 1e-7)], ids=["forest", "boosted"])
@pytest.mark.parametrize("person", [(), ("--person", "id")], ids=["records", "persons"])
def test_plan_includes_the_cost_of_a_learnt_domain(tmp_path, person, options):
    people = synthetic_people(300, 1).with_columns(pl.Series("id", np.arange(300) // 2))
    if not person:
        people = people.drop("id")
    people.write_csv(tmp_path / "people.csv")
    learnt = ("domain", "learn", tmp_path / "people.csv", "--target", "income", "-e", 0.3, "--delta", 1e-6)
    (tmp_path / "d.toml").write_text(
        ok(*learnt, "--numbers", "age", "--class", "up to 50k", "--class", "above 50k", *person)
    )
    arguments = ("plan", "--rows", 300, "-e", 1, "-d", tmp_path / "d.toml", "--repeats", 1, *options)
    said = json.loads(ok(*arguments, "--json"))
    ledger = Ledger.from_dict(said["ledger"])
    assert ledger.privacy_unit == ("person" if person else "record")
    delta = Fraction(11, 10**7) if options else Fraction(1, 10**6)
    assert (ledger.total, ledger.total_delta) == (Fraction(13, 10), delta)
    assert (said["epsilon"], said["delta"]) == ("13/10", str(delta))
    assert said["domain_ledger"] == {"epsilon": "3/10", "delta": "1/1000000"}
    printed = ok(*arguments)
    shown = rounded_text(delta)
    headline = f"Fit to about 300 rows with ε = 1.3, δ = {shown}, including ε = 0.3, δ = 1e-06 for the domain\n"
    assert printed.startswith(headline)
    if options:
        mu_squared = rounded_text(ledger.loss.mu_squared)
        assert f"Sum: ε = 0.3, μ² = {mu_squared}, δ = 1e-06. At δ = {shown}, this is ε = 1.3." in printed
    else:
        assert "Sum: ε = 1.3, δ = 1e-06.\n" in printed
    assert ("Privacy unit: one person, up to 1 record, added or removed; about 300 people." in printed) is bool(person)


@pytest.mark.parametrize("name", [*MODELS, "sure_model"])
def test_show_prints_ledger_importances_and_a_tree(folder, name):
    model = load(folder / f"{name}.diprime")
    printed = ok("show", folder / f"{name}.diprime", "--depth", 1)
    assert str(model.privacy_) in printed
    assert "Importances" in printed
    is_boosted = name.startswith(("boosted", "sure"))
    size = f"number of trees: {model.forest_.n_trees}."
    if is_boosted:
        size = f"number of curves: {len(model.forest_.curves)}, number of rounds: {len(model.forest_.rounds)}."
    assert size in printed
    assert (name == "boosted_model") is (is_boosted and not model.forest_.rounds)
    if name == "boosted_model":
        assert "weight" not in printed
    else:
        tree = printed[printed.index("Round 0" if is_boosted else "Tree 0") :]
        drawing, *meaning = tree.split("Numbers of records contain noise")
        assert drawing.count(", weight ") == 3 * is_boosted
        assert drawing.count(" ±") == 6 * (not is_boosted)  # of the estimate and of the number of records
        assert len(meaning) == (not is_boosted)
        weights_of = {"sure_model": "sum of second derivatives of the loss"}.get(name, "number of records")
        assert (f"its {weights_of}. Weights and contributions contain noise." in " ".join(tree.split())) is is_boosted
    said = json.loads(ok("show", folder / f"{name}.diprime", "--json"))
    assert said["ledger"] == model.privacy_.to_dict()
    assert said["importances"] == dict(
        zip(model.domain_.encoded_feature_names, model.feature_importances_, strict=True)
    )
    assert said["variance_shares"] == model.importances().to_dict()
    assert len(said["trees"]) == said["n_trees"] == len(said["depths"])
    assert said["n_trees"] + said.get("n_curves", 0) == model.forest_.n_trees
    assert said["domain"] == model.domain_.to_dict()


@pytest.mark.parametrize(
    ("name", "options", "delta"), [("model", (), "0"), ("boosted_model", ("--boost", "--rounds", 5), "1/1000000")]
)
def test_merge_takes_the_largest_epsilon(folder, tmp_path, name, options, delta):
    ok("fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", 2, *options, "-o", tmp_path / "b")
    first, both = folder / f"{name}.diprime", tmp_path / "both"
    said = json.loads(ok("merge", first, tmp_path / "b", "-o", both, "--disjoint", "--json"))
    assert (said["ledger"]["total"], said["ledger"]["delta"]) == ("2", delta)
    assert load(both).forest_.n_trees == load(first).forest_.n_trees + load(tmp_path / "b").forest_.n_trees


def test_report_names_data_people_and_the_digest_of_the_file(folder, tmp_path):
    options = ("--data", "Visits 2020", "--responsible", "Jane Doe", "-o", tmp_path / "report.html")
    ok("report", folder / "model.diprime", *options)
    page = (tmp_path / "report.html").read_text()
    digest = hashlib.sha256((folder / "model.diprime").read_bytes()).hexdigest()
    for words in ("Visits 2020", "Jane Doe", str(date.today()), digest):
        assert words in page
    assert "data set must be" in refused("report", folder / "model.diprime", "--data", "", "-o", tmp_path / "r.html")


@pytest.mark.parametrize("name", MODELS)
def test_score_prints_intervals_and_their_cost_and_writes_a_file_for_the_report(folder, tmp_path, name):
    arguments = ("score", folder / f"{name}.diprime", folder / "people.csv")
    printed = ok(*arguments, "--epsilon", 0.5, "-o", tmp_path / "score.json", "--confidence", 0.9)
    score = PrivateScore.from_json((tmp_path / "score.json").read_text())
    assert printed == f"{score}\n"
    assert (score.ledger.total, score.confidence) == (Fraction(1, 2), 0.9)
    assert ("MSE of clipped targets" in printed) is name.endswith("regression")
    assert PrivateScore.from_dict(json.loads(ok(*arguments, "--json"))).ledger.total == Fraction(1, 10)
    options = ("--score", tmp_path / "score.json", "-o", tmp_path / "report.html")
    ok("report", folder / f"{name}.diprime", *options)
    page = (tmp_path / "report.html").read_text()
    assert "The score" in page
    assert page.startswith("<!doctype html>")
    assert "ε = 0.5" in page
    assert ("δ = 1e-06" in page) is name.startswith("boosted")


def test_invalid_score_commands_are_refused(folder, tmp_path):
    people = pl.read_csv(folder / "people.csv")
    people.drop("income").write_csv(tmp_path / "no_target.csv")
    model = folder / "model.diprime"
    assert "lacks the column 'income'" in refused("score", model, tmp_path / "no_target.csv")
    assert "positive number" in refused("score", model, folder / "people.csv", "-e", 0)
    assert "confidence must be" in refused("score", model, folder / "people.csv", "--confidence", 95)
    assert "does not exist" in refused("score", model, folder / "people.csv", "-o", tmp_path / "none" / "score.json")
    assert "name of a file" in refused("score", model, folder / "people.csv", "-o", "-", code=2)


def test_report_refuses_invalid_scores_and_those_of_other_models(folder, tmp_path):
    ok("score", folder / "model.diprime", folder / "people.csv", "-o", tmp_path / "score.json")
    (tmp_path / "broken.json").write_text((tmp_path / "score.json").read_text()[:-9])
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    (tmp_path / "forged.json").write_text((tmp_path / "score.json").read_text().replace('"1/15"', '"1/16"'))
    for name, problem in (("broken", "not JSON"), ("binary", "not text"), ("forged", "do not follow")):
        said = refused(
            "report", folder / "model.diprime", "--score", tmp_path / f"{name}.json", "-o", tmp_path / "r.html"
        )
        assert f"{name}.json is not a score: " in said
        assert problem in said
    options = ("--score", tmp_path / "score.json", "-o", tmp_path / "r.html")
    assert "another model" in refused("report", folder / "regression.diprime", *options)
    assert not (tmp_path / "r.html").exists()


SCORES = {
    "model": "probability of up to 50k",
    "regression": ": prediction",
    "boosted_model": "log-odds of up to 50k",
    "boosted_regression": ": prediction",
}


@pytest.mark.parametrize("name", SCORES)
def test_explain_prints_contributions_that_add_up_to_the_scores(folder, name, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 150)  # the last row is within the second block
    model = load(folder / f"{name}.diprime")
    expected = model.explain(synthetic_people(3000, 1).select(model.domain_.encoded_feature_names).head(5))
    arguments = ("explain", folder / f"{name}.diprime", folder / "people.csv", "--rows", 5)
    said = json.loads(ok(*arguments, "--json"))
    assert [tuple(term) for term in said["terms"]] == list(expected.terms)
    assert said["targets"] == list(expected.targets)
    for field in ("offset", "contributions", "scores"):
        assert np.array_equal(said[field], getattr(expected, field))
    printed = ok(*arguments, "--most", 2)
    assert printed.count(SCORES[name]) == 5
    assert all(expected.row(i, 2) in printed for i in range(5))
    assert "row 5" not in printed


def test_demo_runs_every_command_it_prints(tmp_path):
    printed = ok("demo", "--folder", tmp_path / "a folder")
    assert sorted(os.listdir(tmp_path / "a folder")) == [
        "domain.toml", "model.diprime", "new.csv", "out.csv", "people.csv", "report.html", "score.json"
    ]  # fmt: skip
    right, majority = re.search(r"([\d.]+)% are predicted correctly; ([\d.]+)%", printed).groups()
    assert float(right) > float(majority) + 2
    assert "Privacy ledger: epsilon = 1 of 1" in printed
    # It can be run again, but not where somebody else's files are.
    (tmp_path / "a folder" / "people.csv").write_text("my,own\n1,2\n")
    said = refused("demo", "--folder", tmp_path / "a folder")
    assert "a folder contains files that the demonstration might replace. Pass another --folder." in said
    assert (tmp_path / "a folder" / "people.csv").read_text() == "my,own\n1,2\n"


# Help ----------------------------------------------------------------------------------------------------------------

COMMANDS = [
    "plan",
    "fit",
    "predict",
    "score",
    "explain",
    "show",
    "report",
    "merge",
    "demo",
    "domain draft",
    "domain check",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_that_names_real_options(command):
    printed = ok(*command.split(), "--help")
    example = re.search(rf"\$ diprime {command}(.*)", printed)
    assert example
    for option in re.findall(r"--[a-z]+", example[1]):
        assert printed.count(option) > 1


# Mistakes -------------------------------------------------------------------------------------------------------------


def test_mistake_is_reported_in_one_sentence(folder, tmp_path):
    data, domain, model = folder / "people.csv", folder / "domain.toml", folder / "model.diprime"
    out, keep = tmp_path / "out", ("--keep", "prediction")
    assert "nothing.csv: No such file" in refused("fit", "nothing.csv", "-d", domain, "-e", 1, "-o", out)
    assert "nothing.toml: No such file" in refused("fit", data, "-d", "nothing.toml", "-e", 1, "-o", out)
    assert "Missing option '--epsilon'" in refused("fit", data, "-d", domain, "-o", out, code=2)
    assert "see diprime fit --help" in refused("fit", code=2)
    assert "No such command" in refused("fti", code=2)
    assert "positive number" in refused("fit", data, "-d", domain, "-e", -1, "-o", out)
    assert "not a domain" in refused("fit", data, "-d", data, "-e", 1, "-o", out)
    assert "does not exist" in refused("fit", data, "-d", domain, "-e", 1, "-o", out / "m")
    assert " a diprime model" in refused("predict", data, data, "-o", out)
    assert "o.csv: the directory" in refused("predict", model, data, "-o", out / "o.csv")
    assert "lacks the column 'name'" in refused("predict", model, data, "-o", out, "--keep", "name")
    assert "two columns named 'prediction'" in refused(
        "predict", model, with_predictions(folder, tmp_path), *keep, "-o", out
    )
    assert "use /dev/stdout for standard output" in refused("predict", model, data, "-o", "-", code=2)
    assert "lacks the column 'name'" in refused("domain", "draft", data, "--target", "name")
    assert "must be from 0 to 0, got 99" in refused("show", model, "--tree", 99)
    assert "Pass disjoint=True (--disjoint" in refused("merge", model, model, "-o", out)
    assert "different domains" in refused("merge", model, different_domain(folder, tmp_path), "-o", out, "--disjoint")
    assert not out.exists()


def test_mistake_with_boosted_models_is_reported_in_one_sentence(folder, tmp_path):
    data, model, out = folder / "people.csv", folder / "model.diprime", tmp_path / "out"
    for other in MODELS[1:]:
        assert "of the same class" in refused("merge", model, folder / f"{other}.diprime", "-o", out, "--disjoint")
    fit = ("fit", data, "-d", folder / "domain.toml", "-e", 1, "--boost", "-o", out)
    assert "0 to below 1" in refused(*fit, "--delta", 1)
    assert "delta must be above 0" in refused(*fit, "--delta", 0)
    assert "'--rounds'" in refused(*fit, "--rounds", 0, code=2)
    assert "'--learning-rate'" in refused(*fit, "--learning-rate", 2, code=2)
    assert not out.exists()


def with_predictions(folder, tmp_path):
    people = synthetic_people(10, 1).with_columns(prediction=pl.lit("none"))
    people.write_csv(tmp_path / "predicted.csv")
    return tmp_path / "predicted.csv"


def different_domain(folder, tmp_path):
    (tmp_path / "other.toml").write_text(PEOPLE_DOMAIN.replace("high = 100", "high = 120", 1))
    ok("fit", folder / "people.csv", "-d", tmp_path / "other.toml", "-e", 1, "-o", tmp_path / "other.diprime")
    return tmp_path / "other.diprime"


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda text: "", "is empty"),
        (lambda text: text.split("\n")[0], "has no rows"),
        (lambda text: text.replace("hours", "time", 1), "lacks the column 'hours'"),
        (lambda text: re.sub(r"\n\d+,", "\nold,", text), "not a number in column 'age', in row 1"),
        (lambda text: text + "1,2,3,4,5,6,7\n", "has 7 fields in row 3001 below the header, which has 6"),
    ],
)
def test_invalid_data_leave_the_output_unchanged(folder, tmp_path, edit, reason):
    bad = tmp_path / "bad.csv"
    bad.write_text(edit((folder / "people.csv").read_text()))
    kept = tmp_path / "kept"
    kept.write_text("previous content")
    assert reason in refused("fit", bad, "-d", folder / "domain.toml", "-e", 1, "-o", kept, "--force")
    if "more fields" not in reason:  # not noticed if the last column is not read
        assert reason in refused("predict", folder / "model.diprime", bad, "-o", kept, "--force")
    assert kept.read_text() == "previous content"
    assert sorted(os.listdir(tmp_path)) == ["bad.csv", "kept"]


def commands_that_read(folder, data, out):
    """Return all commands that read a file of records, by what they do."""
    model, domain = folder / "model.diprime", ("-d", folder / "domain.toml")
    incomplete = ("-d", out.parent / "open.toml")
    return {
        "fit": ("fit", data, *domain, "-e", 1, "-o", out),
        "search": ("search", data, *domain, "-e", 1, "--try", "max_depth=1,2", "-o", out),
        "score": ("score", model, data),
        "predict": ("predict", model, data, "-o", out),
        "keep": ("predict", model, data, "-o", out, "--keep", "name"),
        "explain": ("explain", model, data),
        "person": ("fit", data, *domain, "-e", 1, "-o", out, "--person", "name"),
        "check": ("domain", "check", data, *domain),
        "learn": ("domain", "learn", data, *incomplete, "-e", 1),
        "draft": ("domain", "draft", data, "--target", "income"),
    }


@pytest.mark.parametrize("record", ["77,zorn,4711.5,klee,rubin,31", "77,zorn,77,klee,rubin,31"])
@pytest.mark.parametrize("command", commands_that_read(Path(), Path(), Path()))
def test_missing_header_is_refused_without_quoting_the_first_record(folder, tmp_path, command, record):
    bad = tmp_path / "bad.csv"
    (tmp_path / "open.toml").write_text(PEOPLE_DOMAIN.replace("low = 15\nhigh = 100\n", ""))
    bad.write_text("\n".join([record, *(folder / "people.csv").read_text().split("\n")[1:]]))
    said = refused(*commands_that_read(folder, bad, tmp_path / "out.csv")[command])
    assert not any(cell in said.replace(str(bad), "") for cell in record.split(","))
    assert "header with the names of the columns" in said


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_dates_go_through_all_commands(tmp_path, kind):
    rng = np.random.default_rng(0)
    when = np.datetime64("2015-01-01T00", "s") + rng.integers(0, 3 * 365 * 86_400, 2000)
    busy = np.where(pl.Series(when.astype("M8[us]")).dt.hour() > 11, "busy", "calm")
    table = pl.DataFrame({"when": when.astype("M8[us]"), "lanes": rng.integers(1, 7, 2000), "y": busy})
    data, domain, model = tmp_path / f"d.{kind}", tmp_path / "d.toml", tmp_path / "m.diprime"
    table.write_csv(data) if kind == "csv" else table.write_parquet(data)
    draft = ok("domain", "draft", data, "--target", "y")
    domain.write_text(draft.replace('# reviewed_by = "your name"', 'reviewed_by = "Jane Doe"'))
    assert 'kind = "date"' in domain.read_text()
    assert 'kind = "integer"' in domain.read_text()
    ok("domain", "check", data, "-d", domain)
    assert "Trees" in ok("plan", "-d", domain, "-e", 1, "--rows", 2000)
    for options in ((), ("--boost", "--rounds", 50)):
        ok("fit", data, "-d", domain, "-e", 10, "-o", model, *options, "--force")
        assert load(model).domain_.column_names == ("when", "lanes")
        ok("predict", model, data, "-o", tmp_path / "p.csv", "--force")
        assert (pl.read_csv(tmp_path / "p.csv")["prediction"] == table["y"]).mean() > 0.9
        assert "when.hour" in ok("show", model)
        ok("report", model, "-o", tmp_path / "r.html", "--force")
    assert "when.hour" in ok("explain", model, data)
    (tmp_path / "bad.csv").write_text("when,lanes,y\n2015-01-01,1,busy\n2015-02-30,1,calm\n")
    said = refused("fit", tmp_path / "bad.csv", "-d", domain, "-e", 1, "-o", model, "--force")
    assert "not a date such as 2020-12-31 in column 'when', in row 2" in said
    assert "02-30" not in said
