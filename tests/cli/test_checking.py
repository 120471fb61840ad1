"""The values of a table that lie outside its domain are counted."""

from datetime import date, datetime

import polars as pl
import pytest

from diprime.cli.checking import check
from diprime.cli.data_files import DataFile
from diprime.cli.demo_data import PEOPLE_DOMAIN, synthetic_people
from diprime.domain import Categorical, Date, Domain, Integer, Numeric
from diprime.domain.checking import ColumnCheck, Kept

PEOPLE = Domain.from_toml(PEOPLE_DOMAIN)
AGE, SEX = Numeric(0, 255), Categorical(["F", "M"])


def checked(path, domain, target):
    found = check(DataFile(path), domain, target, lambda share: None)
    assert found.persons is None
    return found.n_rows, {**found.columns, target: found.target}


def test_every_kind_of_value_is_counted(tmp_path):
    (tmp_path / "d.csv").write_text(
        "id,age,hours,education,sector,savings,income\n"
        "1,14,40,none,private,1,up to 50k\n2,101,x,phd,,2,rich\n3,50,NA,doctor,public,-1,\n"
    )
    assert checked(tmp_path / "d.csv", PEOPLE, "income") == (
        3,
        {
            "age": ColumnCheck(below=1, above=1),
            "hours": ColumnCheck(unreadable=1, missing=1),
            "education": ColumnCheck(unlisted=1),
            "sector": ColumnCheck(missing=1),
            "savings": ColumnCheck(below=1),
            "income": ColumnCheck(unlisted=1, missing=1),
        },
    )


def test_nan_is_missing_and_not_above(tmp_path):
    pl.DataFrame({"age": [1.0, float("nan"), None, 300.0], "sex": ["F"] * 4}).write_parquet(tmp_path / "d")
    _, checks = checked(tmp_path / "d", Domain({"age": AGE}, SEX), "sex")
    assert checks["age"] == ColumnCheck(above=1, missing=2)


def test_edges_without_a_range_have_nothing_outside(tmp_path):
    pl.DataFrame({"age": [-1e300, 1e300], "sex": ["F", "F"]}).write_parquet(tmp_path / "d")
    _, checks = checked(tmp_path / "d", Domain({"age": Numeric(edges=[18, 65])}, SEX), "sex")
    assert checks["age"] == ColumnCheck()


def test_counts_of_batches_are_added_up(tmp_path, monkeypatch):
    monkeypatch.setattr("diprime.cli.parquet_file.MAX_ROWS", 7)
    people = synthetic_people(300, 1)
    people.write_parquet(tmp_path / "d")
    n_rows, checks = checked(tmp_path / "d", PEOPLE, "income")
    assert n_rows == 300
    assert checks["savings"].missing == people["savings"].null_count() > 0


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_text_in_parquet_is_read_as_in_csv(tmp_path, dtype):
    columns = {"age": ["1", " 7 ", "NA", None, "secret"], "sex": [" M", "x", "?", "F", "F"]}
    pl.DataFrame(columns, schema=dict.fromkeys(columns, dtype)).write_parquet(tmp_path / "d")
    _, checks = checked(tmp_path / "d", Domain({"age": AGE}, SEX), "sex")
    assert checks["age"] == ColumnCheck(missing=2, unreadable=1)
    assert checks["sex"] == ColumnCheck(unlisted=1, missing=1)


@pytest.mark.parametrize("values", [[[1]], [date(2026, 1, 1)], [b"1"]])
def test_dtypes_that_a_fit_refuses_are_refused(tmp_path, values):
    pl.DataFrame({"age": values}).write_parquet(tmp_path / "d")
    with pytest.raises(TypeError, match=r"'age' .*dtype"):
        checked(tmp_path / "d", Domain({"age": AGE}, AGE), "age")


def test_records_of_persons_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("diprime.cli.parquet_file.MAX_ROWS", 3)
    ids = [1, 2, None, 1, 1, 1, 3, 3, None, 1, 1]  # six, one and two records, in several batches
    pl.DataFrame({"age": [1.0] * 11, "sex": ["F"] * 11, "id": ids}).write_parquet(tmp_path / "d")
    persons = check(DataFile(tmp_path / "d"), Domain({"age": AGE}, SEX), "sex", lambda share: None, "id").persons
    assert (persons.n_persons, persons.n_records, persons.n_unknown, persons.most) == (3, 9, 2, 6)
    assert persons.kept() == [
        Kept(1, 1 / 3, 3 / 9),
        Kept(2, 2 / 3, 5 / 9),
        Kept(3, 2 / 3, 6 / 9),
        Kept(5, 2 / 3, 8 / 9),
        Kept(10, 1.0, 1.0),
    ]
    assert persons.to_dict()["kept"][0] == {"max_records": 1, "persons": 1 / 3, "records": 3 / 9}


def test_a_table_of_nobody(tmp_path):
    pl.DataFrame({"age": [1.0], "sex": ["F"], "id": [None]}).write_parquet(tmp_path / "d")
    persons = check(DataFile(tmp_path / "d"), Domain({"age": AGE}, SEX), "sex", lambda share: None, "id").persons
    assert (persons.n_persons, persons.n_unknown) == (0, 1)
    assert persons.kept() == [Kept(1, 0.0, 0.0)]


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
    domain = Domain({"when": Date("2020-01-01", "2020-12-31")}, SEX)
    _, checks = checked(tmp_path / "d.csv", domain, "y")
    assert checks["when"] == ColumnCheck(missing=1, unreadable=1)
    pl.DataFrame({"when": [1, 2], "y": ["F", "M"]}).write_parquet(tmp_path / "d")
    with pytest.raises(TypeError, match="'when' has dtype Int64, where dates are expected"):
        checked(tmp_path / "d", domain, "y")
