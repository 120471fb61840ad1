"""The option that lists settings: what its values are read as, and its mistakes."""

import json

import polars as pl
import pytest

from diprime import DiPriMeBoostingRegressor, DiPriMeClassifier, load
from diprime.cli.data_files import InputError
from diprime.cli.setting_options import read_settings
from tests.cli.running import ok, run


def test_values_are_numbers_truth_values_or_words():
    settings = read_settings(["max_depth=1,auto", "split_share=0.5", "max_features=None,sqrt"], DiPriMeClassifier())
    assert settings == {"max_depth": [1, "auto"], "split_share": [0.5], "max_features": [None, "sqrt"]}
    assert read_settings(["interactions=true,False"], DiPriMeBoostingRegressor()) == {"interactions": [True, False]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["max_depth"], "--try max_depth cannot be read"),
        (["max_depth="], "--try max_depth= cannot be read"),
        (["depth=1"], "has no parameter 'depth' to choose; it has balance, max_depth"),
        (["epsilon=1"], "has no parameter 'epsilon' to choose"),
        (["max_depth=1", "max_depth=2"], "--try max_depth is given twice"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(InputError, match=message):
        read_settings(options, DiPriMeClassifier())


@pytest.mark.parametrize("more", [[], ["--boost", "--delta", 1e-5]])
def test_a_search_writes_the_model_that_it_chose(folder, tmp_path, more):
    tried = ["--try", "n_rounds=5,10"] if more else ["--try", "max_depth=1,2,3", "--try", "balance=0,1"]
    path = tmp_path / "model.diprime"
    arguments = ("search", folder / "people.csv", "-d", folder / "domain.toml", "-e", 3, *tried, *more, "-o", path)
    said = json.loads(ok(*arguments, "--json"))
    model = load(path)
    assert {name: getattr(model, name) for name in said["chosen"]} == said["chosen"]
    assert said["ledger"] == model.privacy_.to_dict()
    assert (model.privacy_.total, float(model.privacy_.delta)) == (3, 1e-5 if more else 0)
    assert ok(*arguments).startswith("Chosen: ")
    assert ("fits of 2 settings" if more else "best of a random number of fits") in ok("show", path)
    ok("report", path, "-o", tmp_path / "report.html")
    assert "chosen by a private search" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_a_search_with_an_unchecked_draft_is_not_private(folder, tmp_path):
    draft = ok("domain", "draft", folder / "people.csv", "--target", "income")
    (tmp_path / "draft.toml").write_text(draft)
    path = tmp_path / "m.diprime"
    tried = ("--try", "max_depth=1,2")
    result = run("search", folder / "people.csv", "-d", tmp_path / "draft.toml", "-e", 1, *tried, "-o", path)
    assert "is a draft that nobody has reviewed" in result.stderr
    assert not load(path).privacy_.is_private


def test_a_search_of_nothing_is_wrong_usage(folder, tmp_path):
    result = run("search", folder / "people.csv", "-d", folder / "domain.toml", "-e", 1, "-o", tmp_path / "m")
    assert result.exit_code == 2
    assert "--try" in result.stderr


@pytest.mark.parametrize("boost", [(), ("--boost",)])
def test_persons_are_protected_by_a_search(folder, tmp_path, boost):
    people = pl.read_csv(folder / "people.csv")
    people.with_columns(pl.Series("who", [i // 2 for i in range(people.height)])).write_csv(tmp_path / "visits.csv")
    tried = "n_rounds=2,3" if boost else "max_depth=1,2"
    options = ("--person", "who", "--max-records", 3, "--try", tried, *boost)
    ok("search", tmp_path / "visits.csv", "-d", folder / "domain.toml", "-e", 1, *options, "-o", tmp_path / "m")
    assert load(tmp_path / "m").privacy_.whole_unit == "one person, up to 3 records,"
