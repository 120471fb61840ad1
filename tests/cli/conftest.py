"""Data, domains and models that the tests of commands share."""

import polars as pl
import pytest

from diprime.cli.demo import PEOPLE_DOMAIN
from tests.cli.people import synthetic_people
from tests.cli.running import ok

REGRESSION_DOMAIN = PEOPLE_DOMAIN.split("[features.savings]")[0] + (
    '[target]\nname = "savings"\nkind = "numeric"\nlow = 0\nhigh = 100000\n'
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Return a folder with data, two domains, and a forest and a boosted model of each.

    At epsilon = 1, the boosted classifier has curves only. Another one, "sure_model", has rounds.
    """
    folder = tmp_path_factory.mktemp("cli")
    people = synthetic_people(3000, 1)
    people.write_csv(folder / "people.csv")
    people.write_parquet(folder / "people.parquet")
    (folder / "domain.toml").write_text(PEOPLE_DOMAIN)
    (folder / "regression.toml").write_text(REGRESSION_DOMAIN)
    for name, domain in (("model", "domain"), ("regression", "regression")):
        arguments = ("fit", folder / "people.csv", "-d", folder / f"{domain}.toml", "-e", 1)
        ok(*arguments, "-o", folder / f"{name}.diprime")
        ok(*arguments, "--boost", "--rounds", 30, "-o", folder / f"boosted_{name}.diprime")
    sure = ("fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", 8, "--boost", "--rounds", 30)
    ok(*sure, "-o", folder / "sure_model.diprime")
    return folder


@pytest.fixture
def parts(folder, tmp_path):
    """Return a folder with the people in three files, in CSV and in Parquet; one of the files has no rows."""
    people = pl.read_parquet(folder / "people.parquet")
    people = people.with_columns(pl.Series("name", [f"n{i % 2000}" for i in range(people.height)]))
    for number, part in enumerate([people[:1000], people[:0], people[1000:]]):
        part.write_parquet(tmp_path / f"people{number}.parquet")
        part.write_csv(tmp_path / f"people{number}.csv")
    return tmp_path
