"""The values of a table that lie outside its domain are counted."""

from datetime import datetime

import polars as pl
import pytest

from diprime import sources
from diprime.cli.demo import PEOPLE_DOMAIN
from diprime.domain import Categorical, Date, Domain, Integer, Numeric
from diprime.domain.checking import ColumnCheck, RecordsKept
from diprime.sources.data_files import parquet

PEOPLE = Domain.from_toml(PEOPLE_DOMAIN)
AGE, SEX = Numeric(0, 255), Categorical(["F", "M"])


def checked(path, domain, target):
    found = domain.check(sources.files(path), target)
    assert found.persons is None
    return found.n_rows, {**found.columns, target: found.target}


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_text_in_parquet_is_read_as_in_csv(tmp_path, dtype):
    columns = {"age": ["1", " 7 ", "NA", None, "secret"], "sex": [" M", "x", "?", "F", "F"]}
    pl.DataFrame(columns, schema=dict.fromkeys(columns, dtype)).write_parquet(tmp_path / "d")
    _, checks = checked(tmp_path / "d", Domain({"age": AGE}, SEX, missing=["?"]), "sex")
    assert checks["age"] == ColumnCheck(missing=2, unreadable=1)
    assert checks["sex"] == ColumnCheck(unlisted=1, missing=1)


def test_records_per_person_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MAX_ROWS", 3)
    ids = [1, 2, None, 1, 1, 1, 3, 3, None, 1, 1]  # six, one and two records, in several batches
    pl.DataFrame({"age": [1.0] * 11, "sex": ["F"] * 11, "id": ids}).write_parquet(tmp_path / "d")
    persons = Domain({"age": AGE}, SEX).check(sources.files(tmp_path / "d"), "sex", groups="id").persons
    assert (persons.n_persons, persons.n_records, persons.n_unknown, persons.most) == (3, 9, 2, 6)
    assert persons.kept() == [
        RecordsKept(1, 1 / 3, 3 / 9),
        RecordsKept(2, 2 / 3, 5 / 9),
        RecordsKept(3, 2 / 3, 6 / 9),
        RecordsKept(5, 2 / 3, 8 / 9),
        RecordsKept(10, 1.0, 1.0),
    ]
    assert persons.to_dict()["kept"][0] == {"max_records": 1, "persons": 1 / 3, "records": 3 / 9}


@pytest.mark.parametrize("as_text", [True, False])
def test_dates_and_integers_outside_are_counted(tmp_path, as_text):
    when = [datetime(2019, 12, 31, 23), datetime(2020, 1, 1), datetime(2020, 12, 31, 23), datetime(2021, 1, 1), None]
    frame = pl.DataFrame({"when": when, "hour": [-1, 0, 23, 24, None], "y": ["F"] * 5})
    frame.write_csv(tmp_path / "d") if as_text else frame.write_parquet(tmp_path / "d")
    features = {"when": Date("2020-01-01", "2020-12-31"), "hour": Integer(0, 23)}
    _, checks = checked(tmp_path / "d", Domain(features, SEX), "y")
    assert checks["when"] == checks["hour"] == ColumnCheck(below=1, above=1, missing=1)
    _, checks = checked(tmp_path / "d", Domain({"when": Date(parts=["hour"])}, SEX), "y")
    assert checks["when"] == ColumnCheck(missing=1)


def test_texts_that_are_no_dates_are_counted_and_other_dtypes_refused(tmp_path):
    (tmp_path / "d.csv").write_text("when,y\n2020-02-30,F\n ? ,F\n2020-02-29 ,M\n")
    domain = Domain({"when": Date("2020-01-01", "2020-12-31")}, SEX, missing=["?"])
    _, checks = checked(tmp_path / "d.csv", domain, "y")
    assert checks["when"] == ColumnCheck(missing=1, unreadable=1)
    pl.DataFrame({"when": [1, 2], "y": ["F", "M"]}).write_parquet(tmp_path / "d")
    with pytest.raises(TypeError, match=r"'when' has dtype Int64, .*declares dates"):
        checked(tmp_path / "d", domain, "y")
