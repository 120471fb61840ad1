"""The commands, as users and scripts see them."""

import csv
import hashlib
import json
import os
import re
from datetime import date
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import diprime
import diprime.cli.commands.fit
from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier, Domain, Ledger, PrivateScore, load
from diprime.cli import data_files, parquet_file
from diprime.cli.demo_data import PEOPLE_DOMAIN, synthetic_people
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.measures import rounded_text
from tests.cli.running import ok, refused, run
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
    assert (model.forest_.n_trees, model.learning_rate, model.interactions) == (20, 0.25, False)
    ok(*arguments, "--boost")
    assert load(tmp_path / "m.diprime").get_params() | {"domain": None} == DiPriMeBoostingClassifier(0.5).get_params()


@pytest.mark.parametrize(
    "option", [("--delta", 1e-6), ("--rounds", 9), ("--learning-rate", 0), ("--no-interactions",)], ids=lambda o: o[0]
)
@pytest.mark.parametrize("command", ["fit", "plan"])
def test_options_of_boosting_need_boost(folder, tmp_path, command, option):
    given = (folder / "people.csv", "-o", tmp_path / "m") if command == "fit" else ("--rows", 100)
    said = refused(command, *given, "-d", folder / "domain.toml", "-e", 1, *option, code=2)
    assert f"'{option[0]}': it is an option of boosting; give --boost as well" in said
    assert not (tmp_path / "m").exists()


@pytest.mark.filterwarnings("always::diprime.PrivacyWarning")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_fit_of_a_file_is_a_fit_of_its_rows(folder, tmp_path, kind, monkeypatch):
    monkeypatch.setattr(data_files, "BLOCK_BYTES", 30_000)

    def seeded(domain, epsilon, **parameters):
        return DiPriMeClassifier(epsilon, domain, random_state=0, **parameters)

    monkeypatch.setattr(diprime.cli.commands.fit, "estimator", seeded)
    result = run("fit", folder / f"people.{kind}", "-d", folder / "domain.toml", "-e", 1, "-o", tmp_path / "m.diprime")
    assert result.stderr.startswith("diprime: warning: This fit is not private: random_state was set")
    assert result.stderr.count("\n") == 1
    people, domain = synthetic_people(3000, 1), Domain.from_toml(PEOPLE_DOMAIN)
    with pytest.warns(diprime.PrivacyWarning):
        expected = seeded(domain, 1.0).fit(people.select(domain.names), people["income"])
    assert_same_forest(load(tmp_path / "m.diprime"), expected)


@pytest.mark.parametrize("output", ["out.csv", "out.parquet"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_those_of_the_model(folder, tmp_path, name, kind, output, monkeypatch):
    monkeypatch.setattr(data_files, "BLOCK_BYTES", 30_000)
    path = tmp_path / output
    ok(
        "predict",
        folder / f"{name}.diprime",
        folder / f"people.{kind}",
        "-o",
        path,
        "--keep",
        "age",
        "--keep",
        "income",
    )
    table = pl.read_csv(path) if output.endswith("csv") else pl.read_parquet(path)
    model, people = load(folder / f"{name}.diprime"), synthetic_people(3000, 1)
    rows = people.select(model.domain_.names)
    assert table["age"].cast(int).to_list() == people["age"].to_list()
    assert table["income"].to_list() == people["income"].to_list()
    assert table["prediction"].to_list() == model.predict(rows).tolist()
    if name.endswith("model"):
        assert table.columns[3:] == ["probability above 50k", "probability up to 50k"]
        assert np.array_equal(table.select(table.columns[3:]).to_numpy(), model.predict_proba(rows))
    assert os.listdir(tmp_path) == [output]


@pytest.mark.parametrize("name", ["out.xlsx", "out.json", "out.parquet.gz", "out.tsv"])
def test_predictions_are_not_written_as_what_they_are_not(folder, tmp_path, name):
    said = refused("predict", folder / "model.diprime", folder / "people.csv", "-o", tmp_path / name)
    assert f"Predictions are written as .csv or .parquet, not as {Path(name).suffix};" in said
    assert os.listdir(tmp_path) == []


def test_the_case_of_a_suffix_does_not_matter(folder, tmp_path):
    for name, read in (("OUT.PARQUET", pl.read_parquet), ("OUT.CSV", pl.read_csv), ("out", pl.read_csv)):
        ok("predict", folder / "model.diprime", folder / "people.csv", "-o", tmp_path / name)
        assert read(tmp_path / name).height == 3000


KEPT = "id,age,hours,education,sector,savings,when\n007,39,40.50,phd,private,1e3,2020-01-01\n" + (
    '" 8", 039,NA,"a ""b"", c",,+5.0,\n9,10,-0,none,"",  ,31/12/2020\n'
)


def test_kept_columns_of_a_csv_are_copied_as_they_were(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(data_files, "BLOCK_BYTES", 60)
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


def test_kept_columns_of_a_parquet_file_keep_their_types(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_file, "MAX_ROWS", 2)
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


def test_predictions_alone(folder, tmp_path):
    said = json.loads(
        ok("predict", folder / "model.diprime", folder / "people.csv", "-o", tmp_path / "out.csv", "--json")
    )
    assert said == {"predictions": str(tmp_path / "out.csv")}
    assert pl.read_csv(tmp_path / "out.csv").shape == (3000, 3)


def test_classes_keep_their_types(tmp_path):
    (tmp_path / "d.csv").write_text("a,y\n" + "1,0\n9,1\n" * 200)
    (tmp_path / "d.toml").write_text(
        '[features.a]\nkind = "numeric"\nlow = 0\nhigh = 10\n[target]\nkind = "categorical"\nlevels = [0, 1]\n'
    )
    ok("fit", tmp_path / "d.csv", "-d", tmp_path / "d.toml", "-e", 10, "-o", tmp_path / "m")
    ok("predict", tmp_path / "m", tmp_path / "d.csv", "-o", tmp_path / "out.csv")
    assert pl.read_csv(tmp_path / "out.csv")["prediction"].to_list() == [0, 1] * 200


@pytest.mark.filterwarnings("default::diprime.PrivacyWarning")
def test_a_fit_with_a_draft_is_private_once_somebody_has_reviewed_it(folder, tmp_path):
    draft = ok("domain", "draft", folder / "people.csv", "--target", "income")
    (tmp_path / "draft.toml").write_text(draft)
    arguments = ("fit", folder / "people.csv", "-d", tmp_path / "draft.toml", "-e", 1, "-o", tmp_path / "m")
    result = run(*arguments)
    assert result.exit_code == 0
    assert "This fit is not private: the domain was inferred from the data" in result.stderr
    assert "is a draft that nobody has reviewed" in result.stderr
    assert not load(tmp_path / "m").privacy_.is_private
    assert load(tmp_path / "m").domain_.origin.kind == "read"
    (tmp_path / "draft.toml").write_text('reviewed_by = "Jane Doe"\n' + draft)
    assert run(*arguments).stderr == ""
    assert load(tmp_path / "m").privacy_.is_private
    assert "The domain was reviewed by Jane Doe" in ok("show", tmp_path / "m")


def test_check_prints_a_table_or_json(folder, tmp_path):
    (tmp_path / "d.csv").write_text(
        "id,age,hours,education,sector,savings,income\n"
        "1,14,40,none,private,1,up to 50k\n2,101,x,phd,,2,rich\n3,50,NA,doctor,public,-1,\n"
    )
    result = run("domain", "check", tmp_path / "d.csv", "-d", folder / "domain.toml", "--json")
    said = json.loads(result.stdout)
    assert "Looking at the data is not private" in result.stderr
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
    assert "does not use: id" in printed


def test_plan_needs_no_data(folder):
    arguments = ("plan", "--rows", 5000, "-e", 0.5, "-d", folder / "domain.toml", "--repeats", 1)
    said = json.loads(ok(*arguments, "--json"))
    assert said["ledger"]["total"] == said["epsilon"] == "1/2"
    assert said["of_domain"] == {"epsilon": "0", "delta": "0"}
    lost = [max(made["lost_to_noise"], 0) for made in said["rehearsals"]]
    assert [made["kind"] for made in said["rehearsals"]] == ["simple", "smooth", "rough"]
    assert said["lost_to_noise"] == {"least": min(lost), "most": max(lost)}
    assert (
        said["rehearsals"][0]["lost_to_noise"] == said["rehearsals"][0]["noiseless"] - said["rehearsals"][0]["private"]
    )
    assert said["n_trees"] >= 1
    printed = ok(*arguments)
    for words in (
        "ε = 0.5\n",
        "Sum: ε = 0.5.\n",
        "of depth",
        "leaf sums",
        "standard deviation",
        "made-up data",
        "Noise costs from",
        "On ten public tables it cost",
    ):
        assert words in printed


def test_plan_of_a_number_and_without_privacy(folder):
    printed = ok("plan", "--rows", 500, "-e", "inf", "-d", folder / "regression.toml", "--repeats", 1)
    assert "R²" in printed
    assert "0.00 records" in printed


def test_plan_of_boosting(folder):
    arguments = ("plan", "--rows", 5000, "-e", 0.5, "-d", folder / "regression.toml", "--repeats", 1)
    options = ("--boost", "--delta", 1e-7, "--rounds", 20)
    said = json.loads(ok(*arguments, *options, "--json"))
    assert said["n_rounds"] == 20
    assert said["round_noise"] > 0
    ledger = Ledger.from_dict(said["ledger"])
    assert (ledger.total, ledger.delta) == (Fraction(1, 2), Fraction(1, 10**7))
    printed = ok(*arguments, *options)
    assert "ε = 0.5, δ = 1e-07" in printed
    for charge in ledger.charges:
        assert re.search(rf"{charge.kind} .*{rounded_text(charge.total, 4)} .*{ledger.share(charge):.1%}", printed)
    sum_of_charges = rounded_text(gaussian_budget(Fraction(1, 2), Fraction(1, 10**7)))
    assert f"Sum: μ² = {sum_of_charges}. At δ = 1e-07 that is ε = 0.5." in printed
    assert re.search(r"simple .*\d\.\d{3}.*\n.*smooth .*\n.*rough", printed)


def test_plan_of_boosting_without_privacy(folder):
    printed = ok(
        "plan", "--rows", 500, "-e", "inf", "-d", folder / "domain.toml", "--repeats", 1, "--boost", "--rounds", 5
    )
    assert "0.00 times the largest gradient" in printed
    assert "Sum: μ² = inf" in printed


def test_plan_of_an_open_domain(folder, tmp_path):
    edited = PEOPLE_DOMAIN.split("[features.savings]")[0] + '[target]\nname = "savings"\nkind = "numeric"\n'
    (tmp_path / "open.toml").write_text(edited)
    arguments = ("plan", "--rows", 3000, "-e", 0.5, "-d", tmp_path / "open.toml", "--repeats", 1, "--boost")
    planned = Ledger.from_dict(json.loads(ok(*arguments, "--rounds", 20, "--json"))["ledger"])
    printed = ok(*arguments, "--rounds", 20)
    fitted = ("fit", folder / "people.csv", "-d", tmp_path / "open.toml", "-e", 0.5, "--boost", "--rounds", 20)
    ok(*fitted, "-o", tmp_path / "m.diprime")
    assert planned == load(tmp_path / "m.diprime").privacy_
    for charge in planned.charges:
        unit = {"epsilon": "ε", "mu^2": "μ²"}[charge.measure.symbol]
        assert re.search(
            rf"{charge.mechanism} .* {unit} = {rounded_text(charge.total, 4)} .*{planned.share(charge):.1%}", printed
        )
    mu_squared = rounded_text(planned.loss.mu_squared)
    assert f"Sum: ε = 0.05, μ² = {mu_squared}. At δ = 1e-06 that is ε = 0.5." in printed


@pytest.mark.parametrize("options", [(), ("--boost", "--rounds", 5, "--delta", 1e-7)], ids=["forest", "boosted"])
@pytest.mark.parametrize("person", [(), ("--person", "id")], ids=["records", "persons"])
def test_plan_of_a_learnt_domain_counts_what_it_cost(tmp_path, person, options):
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
    assert ledger.unit == ("person" if person else "record")
    delta = Fraction(11, 10**7) if options else Fraction(1, 10**6)
    assert (ledger.total, ledger.total_delta) == (Fraction(13, 10), delta)
    assert (said["epsilon"], said["delta"]) == ("13/10", str(delta))
    assert said["of_domain"] == {"epsilon": "3/10", "delta": "1/1000000"}
    printed = ok(*arguments)
    shown = rounded_text(delta)
    headline = f"A fit of about 300 rows with ε = 1.3, δ = {shown}, of which the domain costs ε = 0.3, δ = 1e-06\n"
    assert printed.startswith(headline)
    if options:
        mu_squared = rounded_text(ledger.loss.mu_squared)
        assert f"Sum: ε = 0.3, μ² = {mu_squared}, δ = 1e-06. At δ = {shown} that is ε = 1.3." in printed
    else:
        assert "Sum: ε = 1.3, δ = 1e-06.\n" in printed
    assert ("Protected: one person, up to 1 record, added or removed; about 300 persons." in printed) is bool(person)


@pytest.mark.parametrize("name", MODELS)
def test_show_prints_ledger_importances_and_a_tree(folder, name):
    model = load(folder / f"{name}.diprime")
    printed = ok("show", folder / f"{name}.diprime", "--depth", 1)
    assert str(model.privacy_) in printed
    assert "Importances" in printed
    assert printed.count(", weight " if name.startswith("boosted") else " ±") == 3
    said = json.loads(ok("show", folder / f"{name}.diprime", "--json"))
    assert said["ledger"] == model.privacy_.to_dict()
    assert said["importances"] == dict(zip(model.domain_.names, model.feature_importances_, strict=True))
    assert len(said["trees"]) == model.forest_.n_trees
    assert said["domain"] == model.domain_.to_dict()


def test_merge_takes_the_largest_epsilon(folder, tmp_path):
    ok("fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", 2, "-o", tmp_path / "b")
    said = json.loads(ok("merge", folder / "model.diprime", tmp_path / "b", "-o", tmp_path / "both", "--json"))
    assert said["ledger"]["total"] == "2"
    assert load(tmp_path / "both").forest_.n_trees == load(tmp_path / "b").forest_.n_trees + 1


def test_merge_of_boosted_models(folder, tmp_path):
    arguments = ("fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", 2)
    ok(*arguments, "--boost", "--rounds", 5, "-o", tmp_path / "b")
    said = json.loads(ok("merge", folder / "boosted_model.diprime", tmp_path / "b", "-o", tmp_path / "both", "--json"))
    assert (said["ledger"]["total"], said["ledger"]["delta"]) == ("2", "1/1000000")
    assert load(tmp_path / "both").forest_.n_trees == 35


@pytest.mark.parametrize("name", MODELS)
def test_report_is_a_page(folder, tmp_path, name):
    ok("report", folder / f"{name}.diprime", "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert ("δ = 1e-06" in page) is name.startswith("boosted")


def test_report_names_data_and_people_and_ties_itself_to_the_file(folder, tmp_path):
    options = ("--data", "Visits 2020", "--responsible", "Jane Doe", "-o", tmp_path / "report.html")
    ok("report", folder / "model.diprime", *options)
    page = (tmp_path / "report.html").read_text()
    digest = hashlib.sha256((folder / "model.diprime").read_bytes()).hexdigest()
    for words in ("Visits 2020", "Jane Doe", str(date.today()), digest):
        assert words in page
    assert "give a name" in refused("report", folder / "model.diprime", "--data", "", "-o", tmp_path / "r.html")


@pytest.mark.parametrize("name", ["model", "regression"])
def test_show_and_report_round_alike(folder, tmp_path, name):
    printed = unwrapped(ok("show", folder / f"{name}.diprime", "--depth", 2))
    ok("report", folder / f"{name}.diprime", "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    tree = json.loads(re.search(r'<script id="forest" type="application/json">(.*?)</script>', page)[1])["trees"][0]
    for values, estimates, records in zip(tree["values"], tree["estimates"], tree["records"][:7], strict=False):
        assert f"{estimates[int(np.argmax(values))]}, {records}" in printed
    for share in load(folder / f"{name}.diprime").feature_importances_:
        assert f"{100 * share:.1f} %" in printed
        assert f">{100 * share:.1f} %<" in page


def test_show_counts_levels_in_words(folder):
    depth = int(load(folder / "model.diprime").forest_.depths[0])
    for below, words in ((1, ", 1 more level "), (2, ", 2 more levels ")):
        assert words in unwrapped(ok("show", folder / "model.diprime", "--depth", depth - below)) + " "


def unwrapped(drawing):
    """Return a drawing of a tree as one line."""
    return re.sub(r"[\s│├└─]+", " ", drawing)


@pytest.mark.parametrize("name", MODELS)
def test_score_prints_intervals_and_their_cost_and_writes_a_file_for_the_report(folder, tmp_path, name):
    arguments = ("score", folder / f"{name}.diprime", folder / "people.csv")
    printed = ok(*arguments, "--epsilon", 0.5, "-o", tmp_path / "score.json", "--confidence", 0.9)
    score = PrivateScore.from_json((tmp_path / "score.json").read_text())
    assert printed == f"{score}\n"
    assert (score.ledger.total, score.confidence) == (Fraction(1, 2), 0.9)
    assert ("mean squared error" in printed) is name.endswith("regression")
    assert PrivateScore.from_dict(json.loads(ok(*arguments, "--json"))).ledger.total == Fraction(1, 10)
    options = ("--score", tmp_path / "score.json", "-o", tmp_path / "report.html")
    ok("report", folder / f"{name}.diprime", *options)
    page = (tmp_path / "report.html").read_text()
    assert "The score" in page
    assert "ε = 0.5" in page


@pytest.mark.filterwarnings("always::diprime.PrivacyWarning")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_score_of_a_file_is_a_score_of_its_rows(folder, kind, monkeypatch):
    monkeypatch.setattr(data_files, "BLOCK_BYTES", 30_000)
    monkeypatch.setattr(parquet_file, "MAX_ROWS", 700)
    seeded = partial(diprime.private_score_batches, random_state=0)
    monkeypatch.setattr(diprime, "private_score_batches", seeded)
    result = run("score", folder / "model.diprime", folder / f"people.{kind}", "--json")
    model, people = load(folder / "model.diprime"), synthetic_people(3000, 1)
    with pytest.warns(diprime.PrivacyWarning):
        expected = diprime.private_score(model, people.select(model.domain_.names), people["income"], random_state=0)
    assert json.loads(result.stdout) == expected.to_dict()
    assert result.stderr.startswith("diprime: warning: This score is not private: random_state was set")


def test_what_cannot_be_scored_is_refused(folder, tmp_path):
    people = pl.read_csv(folder / "people.csv")
    people.drop("income").write_csv(tmp_path / "no_target.csv")
    model = folder / "model.diprime"
    assert "lacks the column 'income'" in refused("score", model, tmp_path / "no_target.csv")
    assert "epsilon must be a positive number" in refused("score", model, folder / "people.csv", "-e", 0)
    assert "confidence must be" in refused("score", model, folder / "people.csv", "--confidence", 95)
    assert "no folder" in refused("score", model, folder / "people.csv", "-o", tmp_path / "none" / "score.json")
    assert "give the name of a file" in refused("score", model, folder / "people.csv", "-o", "-", code=2)


def test_a_report_refuses_what_is_not_a_score_of_its_model(folder, tmp_path):
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
    assert "another target" in refused("report", folder / "regression.diprime", *options)
    assert not (tmp_path / "r.html").exists()


SCORES = {
    "model": "probability of up to 50k",
    "regression": ": prediction",
    "boosted_model": "log-odds of up to 50k",
    "boosted_regression": ": prediction",
}


@pytest.mark.parametrize("name", SCORES)
def test_explain_tells_what_adds_up_to_the_scores(folder, name, monkeypatch):
    monkeypatch.setattr(data_files, "BLOCK_BYTES", 150)  # the last row is within the second block
    model = load(folder / f"{name}.diprime")
    expected = model.explain(synthetic_people(3000, 1).select(model.domain_.names).head(5))
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


def test_explain_names_the_classes_if_there_are_several(tmp_path):
    (tmp_path / "d.csv").write_text("a,y\n" + "1,p\n5,q\n9,r\n" * 100)
    (tmp_path / "d.toml").write_text(
        '[features.a]\nkind = "numeric"\nlow = 0\nhigh = 10\n[target]\nkind = "categorical"\nlevels = ["p", "q", "r"]\n'
    )
    for options, scores in ((["--boost", "--rounds", 5], "scores"), ([], "probabilities")):
        ok("fit", tmp_path / "d.csv", "-d", tmp_path / "d.toml", "-e", 10, *options, "-o", tmp_path / "m")
        printed = ok("explain", tmp_path / "m", tmp_path / "d.csv", "--rows", 1000)
        assert printed.count(f": {scores} of p, q, r: ") == 300


def test_the_demonstration_runs_every_command_it_shows(tmp_path):
    printed = ok("demo", "--folder", tmp_path / "a folder")
    assert sorted(os.listdir(tmp_path / "a folder")) == [
        "domain.toml", "model.diprime", "new.csv", "out.csv", "people.csv", "report.html", "score.json"
    ]  # fmt: skip
    right, majority = re.search(r"([\d.]+)% are predicted rightly; ([\d.]+)%", printed).groups()
    assert float(right) > float(majority) + 2
    assert "Privacy ledger: epsilon = 1 of 1" in printed
    # It can be run again, but not where somebody else's files are.
    (tmp_path / "a folder" / "people.csv").write_text("my,own\n1,2\n")
    said = refused("demo", "--folder", tmp_path / "a folder")
    assert "a folder has files already, which the demonstration might replace; give another --folder." in said
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


def test_help_of_all(tmp_path):
    printed = ok("--help")
    assert "Exit codes: 0 done" in printed
    assert ok("--version").strip() == diprime.__version__
    assert all(command.split()[0] in printed for command in COMMANDS)
    result = run()
    assert "Usage: diprime" in result.output
    assert "--show-completion" in printed


# Mistakes -------------------------------------------------------------------------------------------------------------


def test_a_mistake_is_one_sentence(folder, tmp_path):
    data, domain, model = folder / "people.csv", folder / "domain.toml", folder / "model.diprime"
    out, keep = tmp_path / "out", ("--keep", "prediction")
    assert "nothing.csv: No such file" in refused("fit", "nothing.csv", "-d", domain, "-e", 1, "-o", out)
    assert "nothing.toml: No such file" in refused("fit", data, "-d", "nothing.toml", "-e", 1, "-o", out)
    assert "Missing option '--epsilon'" in refused("fit", data, "-d", domain, "-o", out, code=2)
    assert "see diprime fit --help" in refused("fit", code=2)
    assert "No such command" in refused("fti", code=2)
    assert "epsilon must be a positive number" in refused("fit", data, "-d", domain, "-e", -1, "-o", out)
    assert "not a domain" in refused("fit", data, "-d", data, "-e", 1, "-o", out)
    assert "there is no folder" in refused("fit", data, "-d", domain, "-e", 1, "-o", out / "m")
    assert "is not a diprime model" in refused("predict", data, data, "-o", out)
    assert "o.csv: No such file or directory" in refused("predict", model, data, "-o", out / "o.csv")
    assert "lacks the column 'name'" in refused("predict", model, data, "-o", out, "--keep", "name")
    assert "two columns 'prediction'" in refused("predict", model, with_predictions(folder, tmp_path), *keep, "-o", out)
    assert "standard output is /dev/stdout" in refused("predict", model, data, "-o", "-", code=2)
    assert "lacks the column 'name'" in refused("domain", "draft", data, "--target", "name")
    assert "no tree 99" in refused("show", model, "--tree", 99)
    assert "different domains" in refused("merge", model, different_domain(folder, tmp_path), "-o", out)
    assert not out.exists()


def test_a_mistake_with_boosted_models_is_one_sentence(folder, tmp_path):
    data, model, out = folder / "people.csv", folder / "model.diprime", tmp_path / "out"
    for other in MODELS[1:]:
        assert "cannot be merged: fit all models alike" in refused(
            "merge", model, folder / f"{other}.diprime", "-o", out
        )
    fit = ("fit", data, "-d", folder / "domain.toml", "-e", 1, "--boost", "-o", out)
    assert "delta must be a number from 0 to below 1" in refused(*fit, "--delta", 1)
    assert "delta must be above 0" in refused(*fit, "--delta", 0)
    assert "'--rounds'" in refused(*fit, "--rounds", 0, code=2)
    assert "'--learning-rate'" in refused(*fit, "--learning-rate", 2, code=2)
    assert not out.exists()


def with_predictions(folder, tmp_path):
    people = synthetic_people(10, 1).with_columns(prediction=pl.lit("none"))
    people.write_csv(tmp_path / "predicted.csv")
    return tmp_path / "predicted.csv"


def test_a_column_without_a_name_and_one_that_is_kept_twice(folder, tmp_path):
    (tmp_path / "domain.toml").write_text(PEOPLE_DOMAIN.replace("features.age", 'features.""'))
    people = synthetic_people(300, 1).rename({"age": ""})
    people.write_csv(tmp_path / "people.csv")
    ok("fit", tmp_path / "people.csv", "-d", tmp_path / "domain.toml", "-e", 1, "-o", tmp_path / "m.diprime")
    keep = ("--keep", "", "--keep", "hours", "--keep", "hours")
    ok("predict", tmp_path / "m.diprime", tmp_path / "people.csv", "-o", tmp_path / "out.csv", *keep)
    assert pl.read_csv(tmp_path / "out.csv").columns[:3] == ["", "hours", "prediction"]


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
def test_invalid_data_write_nothing(folder, tmp_path, edit, reason):
    bad = tmp_path / "bad.csv"
    bad.write_text(edit((folder / "people.csv").read_text()))
    kept = tmp_path / "kept"
    kept.write_text("previous content")
    assert reason in refused("fit", bad, "-d", folder / "domain.toml", "-e", 1, "-o", kept)
    if "more fields" not in reason:  # not noticed if the last column is not read
        assert reason in refused("predict", folder / "model.diprime", bad, "-o", kept)
    assert kept.read_text() == "previous content"
    assert sorted(os.listdir(tmp_path)) == ["bad.csv", "kept"]


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
    for options in ((), ("--boost",)):
        ok("fit", data, "-d", domain, "-e", 10, "-o", model, *options)
        assert load(model).domain_.columns == ("when", "lanes")
        ok("predict", model, data, "-o", tmp_path / "p.csv")
        assert (pl.read_csv(tmp_path / "p.csv")["prediction"] == table["y"]).mean() > 0.9
        assert "when.hour" in ok("show", model)
        ok("report", model, "-o", tmp_path / "r.html")
    assert "when.hour" in ok("explain", model, data)
    (tmp_path / "bad.csv").write_text("when,lanes,y\n2015-01-01,1,busy\n2015-02-30,1,calm\n")
    said = refused("fit", tmp_path / "bad.csv", "-d", domain, "-e", 1, "-o", model)
    assert "not a date such as 2020-12-31 in column 'when', in row 2" in said
    assert "02-30" not in said
