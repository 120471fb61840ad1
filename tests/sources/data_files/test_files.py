"""Several files are one table, in memory and in scratch files."""

import json
import os
import re
import shutil

import polars as pl
import pyarrow.parquet as pq
import pytest

import diprime
from diprime import sources
from diprime._util import InputError
from diprime.domain import Domain
from diprime.sources import data_files
from diprime.sources.data_files import DataFile, find_files
from diprime.sources.protocol import Roles
from tests.cli.running import ok, refused


def domain_of(folder, name="domain"):
    return Domain.from_toml((folder / f"{name}.toml").read_text())


def read(paths, domain, **roles):
    """Return the records of files in batches."""
    return list(sources.files(paths).records(domain, Roles(**roles)))


def rows_of(batches):
    X, y, _ = zip(*batches, strict=True)
    return pl.concat(map(pl.from_arrow, X)), pl.concat(map(pl.from_arrow, y))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_file_is_opened_once(folder, parts, monkeypatch, kind):
    opened = []
    monkeypatch.setattr(data_files, "DataFile", lambda path: opened.append(path.name) or DataFile(path))
    batches = sources.files(f"{parts}/people[01].{kind}").records(domain_of(folder), Roles())
    (parts / f"people2.{kind}").replace(parts / f"people0.{kind}")
    expected = rows_of(read(folder / f"people.{kind}", domain_of(folder)))
    for one, other in zip(rows_of(batches), expected, strict=True):
        assert one.equals(other[1000:])
    assert opened == [f"{name}.{kind}" for name in ("people0", "people", "people1")]


def test_paths_and_patterns_are_read_in_order(parts):
    names = [path.name for path in find_files([parts / "people2.csv", f"{parts}/people[01].csv"])]
    assert names == ["people2.csv", "people0.csv", "people1.csv"]


def test_file_name_that_looks_like_a_pattern_is_read(tmp_path):
    for name in ("a[1].csv", "a1.csv"):
        (tmp_path / name).write_text("x\n")
    assert find_files([tmp_path / "a[1].csv"]) == [tmp_path / "a[1].csv"]


def test_missing_files_are_refused(folder, parts, tmp_path):
    with pytest.raises(InputError, match=r"No file .*none\*\.csv\."):
        find_files([tmp_path / "none*.csv"])
    with pytest.raises(InputError, match=r"list .*empty"):
        find_files([])
    with pytest.raises(InputError, match=r"people1\.csv .*no rows"):
        read([parts / "people1.csv", parts / "people1.parquet"], domain_of(folder))


def test_file_given_twice_is_refused(folder, parts):
    first, again = parts / "people0.csv", parts / "people9.csv"
    with pytest.raises(InputError, match=r"people0\.csv .*listed twice"):
        sources.files([f"{parts}/*.csv", first])
    for link in (os.symlink, os.link):
        link(first, again)
        arguments = ("-d", folder / "domain.toml", "-e", 1, "-o", parts / "m.diprime")
        assert re.search(f"{first} and {again} .*same file", refused("fit", f"{parts}/*.csv", *arguments))
        os.remove(again)
    other = parts / ".." / parts.name / first.name
    with pytest.raises(InputError, match="same file"):
        find_files([first, other])
    shutil.copy(first, again)  # may well be other people's: equal bytes are not looked at
    assert len(find_files([f"{parts}/*.csv"])) == 4


def test_columns_of_files_are_groups_and_target(folder, parts):
    for path in parts.glob("*.csv"):
        pl.read_csv(path, infer_schema=False).rename({domain_of(folder).target_name: "label"}).write_csv(path)
    found = read(f"{parts}/*.csv", domain_of(folder), target="label", groups="name")
    _, y, groups = zip(*found, strict=True)
    assert [name for batch in groups for name in batch.to_pylist()] == [f"n{i % 2000}" for i in range(3000)]
    assert sum(map(len, y)) == 3000


def test_column_with_two_roles_is_refused(folder, parts):
    def told(**columns):
        with pytest.raises(InputError) as error:
            read(f"{parts}/*.csv", domain_of(folder), **columns)
        return str(error.value)

    target = domain_of(folder).target_name
    assert re.search("'age' .*person, .*feature", told(groups="age"))
    assert re.search("'age' .*target, .*feature", told(target="age"))
    assert re.search(f"'{target}' .*target, .*person", told(groups=target))
    assert re.search("'name' .*target, .*person", told(target="name", groups="name"))
    assert re.search(r"people0\.csv lacks .*'none'", told(groups="none"))


def test_ids_of_different_types_in_files_are_refused(folder, tmp_path):
    """The ids of a CSV file are text: together with those of a Parquet file, each person would be two."""
    rows = pl.read_csv(folder / "people.csv").head(60).with_columns(id=pl.int_range(60) // 2)
    rows.write_parquet(tmp_path / "a.parquet")
    rows.write_csv(tmp_path / "b.csv")
    told = r"groups .*different types .*: numbers and text\."
    output, budget = tmp_path / "model.diprime", tmp_path / "study.budget"
    ok("budget", "new", budget, "-e", 2)
    arguments = ("-d", folder / "domain.toml", "-e", 1, "-o", output, "--person", "id", "--budget", budget)
    assert re.search(told, refused("fit", f"{tmp_path}/[ab].*", *arguments))
    assert not output.exists()
    assert json.loads(ok("budget", "show", budget, "--json"))["entries"] == []
    files = sources.files(f"{tmp_path}/[ab].*")
    model = diprime.DiPriMeClassifier(domain=domain_of(folder))
    with pytest.raises(TypeError, match=told):
        model.fit(files, groups="id")
    with pytest.raises(TypeError, match=told):
        diprime.private_score(diprime.load(folder / "model.diprime"), files, epsilon=0.1, groups="id")
    rows.with_columns(id=None).write_parquet(tmp_path / "b.csv")
    model.fit(sources.files(f"{tmp_path}/[ab].*"), groups="id")


def test_rounded_time_ids_are_refused_in_every_file(folder, tmp_path):
    rows = pl.read_csv(folder / "people.csv").head(2).with_columns(id=pl.datetime(2020, 1, 1)).to_arrow()
    for name, n_bits in (("a", 64), ("b", 96)):
        pq.write_table(rows, tmp_path / f"{name}.parquet", use_deprecated_int96_timestamps=n_bits == 96)
    files = sources.files(f"{tmp_path}/*.parquet")
    with pytest.raises(InputError, match=r"b\.parquet .*96-bit .*'id'"):
        diprime.DiPriMeClassifier(domain=domain_of(folder)).fit(files, groups="id")


# -- fits -------------------------------------------------------------------------------------------------------------

MODELS = {
    "domain": [diprime.DiPriMeClassifier, diprime.DiPriMeBoostingClassifier],
    "regression": [diprime.DiPriMeRegressor, diprime.DiPriMeBoostingRegressor],
}


# -- errors -----------------------------------------------------------------------------------------------------------


def spoil_columns(path):
    pl.read_csv(path).rename({"age": "years"}).write_csv(path)


def spoil_parquet(path):
    path.write_bytes(path.read_bytes()[:-50])


@pytest.mark.parametrize(
    ("spoil", "kind", "message"),
    [
        (spoil_columns, "csv", r"people2.csv lacks .*'age'; .*\d other columns\..*header"),
        (spoil_parquet, "parquet", r"people2.parquet .*Parquet: .*damaged"),
        (os.remove, "csv", r"people2.csv: No such file"),
    ],
)
def test_unreadable_file_charges_nothing(folder, parts, spoil, kind, message):
    shutil.copy(parts / f"people0.{kind}", parts / f"people3.{kind}")
    paths = [parts / f"people{i}.{kind}" for i in (0, 2, 3)]
    spoil(paths[1])
    before = sorted(parts.iterdir())
    model = diprime.DiPriMeClassifier(domain=domain_of(folder))
    with pytest.raises((InputError, OSError), match=re.escape("people2")) as error:
        model.fit(sources.files(paths, scratch=parts))
    text = str(error.value)
    assert re.search(message, text) or isinstance(error.value, FileNotFoundError)
    assert not hasattr(model, "forest_")
    assert sorted(parts.iterdir()) == before
