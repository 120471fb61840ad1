"""Several files are one table, and large ones are encoded on a disk."""

import errno
import functools
import json
import os
import re
import shutil

import numpy as np
import polars as pl
import pytest

import diprime
from diprime.cli import record_files
from diprime.cli.data_files import DataFile, InputError
from diprime.cli.record_files import are_large, find_files, usual_scratch
from diprime.domain import Domain
from diprime.engines import batches
from diprime.reading import read_files
from tests.cli.running import ok, refused


@pytest.fixture
def parts(folder, tmp_path):
    """Return a folder with the people in three files, in CSV and in Parquet; one of the files has no rows."""
    people = pl.read_parquet(folder / "people.parquet")
    people = people.with_columns(pl.Series("name", [f"n{i % 2000}" for i in range(people.height)]))
    for number, part in enumerate([people[:1000], people[:0], people[1000:]]):
        part.write_parquet(tmp_path / f"people{number}.parquet")
        part.write_csv(tmp_path / f"people{number}.csv")
    return tmp_path


def domain_of(folder, name="domain"):
    return Domain.from_toml((folder / f"{name}.toml").read_text())


def rows_of(batches):
    X, y = zip(*batches, strict=True)
    return pl.concat(X), pl.concat(y)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_are_read_in_the_order_of_their_names_as_one_table(folder, parts, kind):
    domain = domain_of(folder)
    whole, found = read_files(folder / f"people.{kind}", domain), read_files(f"{parts}/*.{kind}", domain)
    for _ in range(2):
        for one, other in zip(rows_of(found), rows_of(whole), strict=True):
            assert one.equals(other)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_is_opened_once_and_read_as_it_is_then(folder, parts, monkeypatch, kind):
    opened = []
    monkeypatch.setattr(record_files, "DataFile", lambda path: opened.append(path.name) or DataFile(path))
    batches = read_files(f"{parts}/people[01].{kind}", domain_of(folder))
    (parts / f"people2.{kind}").replace(parts / f"people0.{kind}")
    expected = rows_of(read_files(folder / f"people.{kind}", domain_of(folder)))
    for one, other in zip(rows_of(batches), expected, strict=True):
        assert one.equals(other[1000:])
    assert opened == [f"people1.{kind}"]


def test_a_list_of_paths_and_patterns_keeps_its_order(parts):
    names = [path.name for path in find_files([parts / "people2.csv", f"{parts}/people[01].csv"])]
    assert names == ["people2.csv", "people0.csv", "people1.csv"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    for name in ("a[1].csv", "a1.csv"):
        (tmp_path / name).write_text("x\n")
    assert find_files([tmp_path / "a[1].csv"]) == [tmp_path / "a[1].csv"]


def test_nothing_to_read_is_refused(folder, parts, tmp_path):
    with pytest.raises(InputError, match=r"No file matches .*none.*; give CSV or Parquet files\.$"):
        find_files([tmp_path / "none*.csv"])
    with pytest.raises(InputError, match="No file is given"):
        find_files([])
    with pytest.raises(InputError, match=r"people1\.csv has no rows"):
        list(read_files([parts / "people1.csv", parts / "people1.parquet"], domain_of(folder)))


def test_a_file_is_not_read_twice_whatever_the_names_and_links_that_lead_to_it(folder, parts):
    first, again = parts / "people0.csv", parts / "people9.csv"
    with pytest.raises(InputError, match=r"people0\.csv is given twice, whose records would count twice; give it once"):
        read_files([f"{parts}/*.csv", first], domain_of(folder))
    for link in (os.symlink, os.link):
        link(first, again)
        told = f"diprime: {first} and {again} are the same file, whose records would count twice; give it once.\n"
        arguments = ("-d", folder / "domain.toml", "-e", 1, "-o", parts / "m.diprime")
        assert refused("fit", f"{parts}/*.csv", *arguments) == told
        os.remove(again)
    other = parts / ".." / parts.name / first.name
    with pytest.raises(InputError, match="are the same file"):
        find_files([first, other])
    shutil.copy(first, again)  # may well be other people's: equal bytes are not looked at
    assert len(find_files([f"{parts}/*.csv"])) == 4


def test_files_can_say_whose_records_are_and_name_the_target(folder, parts):
    for path in parts.glob("*.csv"):
        pl.read_csv(path, infer_schema=False).rename({domain_of(folder).target_name: "label"}).write_csv(path)
    found = list(read_files(f"{parts}/*.csv", domain_of(folder), target="label", groups="name"))
    _, y, groups = (pl.concat(columns) for columns in zip(*found, strict=True))
    assert groups.to_list() == [f"n{i % 2000}" for i in range(3000)]
    assert y.name == "label"


def test_a_column_is_one_of_target_persons_and_feature(folder, parts):
    def told(**columns):
        with pytest.raises(InputError) as error:
            read_files(f"{parts}/*.csv", domain_of(folder), **columns)
        return str(error.value)

    belongs, target = "says who a record belongs to", domain_of(folder).target_name
    assert told(groups="age") == f"The column 'age' {belongs}, so it cannot be a feature as well."
    assert told(target="age") == "The column 'age' is the target, so it cannot be a feature as well."
    of_both = "The column {!r} is the target, so it cannot say who a record belongs to as well."
    assert told(groups=target) == of_both.format(target)
    assert told(target="name", groups="name") == of_both.format("name")
    assert "people0.csv lacks the column 'none'" in told(groups="none")


def test_ids_that_are_numbers_in_one_file_and_text_in_another_are_refused_before_anything_is_released(folder, tmp_path):
    """The ids of a CSV file are text: together with those of a Parquet file, each person would be two."""
    rows = pl.read_csv(folder / "people.csv").head(60).with_columns(id=pl.int_range(60) // 2)
    rows.write_parquet(tmp_path / "a.parquet")
    rows.write_csv(tmp_path / "b.csv")
    told = "The ids of persons are numbers in one batch or file and text in another, so that one person would be taken"
    output, budget = tmp_path / "model.diprime", tmp_path / "study.budget"
    ok("budget", "new", budget, "-e", 2)
    arguments = ("-d", folder / "domain.toml", "-e", 1, "-o", output, "--person", "id", "--budget", budget)
    assert told in refused("fit", f"{tmp_path}/[ab].*", *arguments)
    assert not output.exists()
    assert json.loads(ok("budget", "show", budget, "--json"))["entries"] == []
    batches = read_files(f"{tmp_path}/[ab].*", domain_of(folder), groups="id")
    model = diprime.DiPriMeClassifier(domain=domain_of(folder))
    with pytest.raises(TypeError, match=told):
        model.fit_batches(batches)
    with pytest.raises(TypeError, match=told):
        diprime.private_score_batches(diprime.load(folder / "model.diprime"), batches, 0.1)
    rows.with_columns(id=None).write_parquet(tmp_path / "b.csv")
    model.fit_batches(read_files(f"{tmp_path}/[ab].*", domain_of(folder), groups="id"))


# -- fits -------------------------------------------------------------------------------------------------------------

MODELS = {
    "domain": [diprime.DiPriMeClassifier, diprime.DiPriMeBoostingClassifier],
    "regression": [diprime.DiPriMeRegressor, diprime.DiPriMeBoostingRegressor],
}


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in MODELS.items() for kind in kinds])
@pytest.mark.parametrize("n_partitions", [1, 7, 64])
def test_a_fit_from_files_is_the_fit_in_memory_bit_for_bit(folder, parts, name, kind, n_partitions, monkeypatch):
    domain, paths = domain_of(folder, name), [parts / f"{name}{i}.diprime" for i in range(2)]
    kind = functools.partial(kind, **({"n_rounds": 15} if "Boosting" in kind.__name__ else {}))
    kind(domain=domain, random_state=1).fit(*rows_of(read_files(folder / "people.csv", domain))).save(paths[0])
    monkeypatch.setattr(batches, "PARTITION_ROWS", -(-3000 // n_partitions))
    model = kind(domain=domain, random_state=1)
    model.fit_batches(read_files(f"{parts}/*.parquet", domain), scratch=parts).save(paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_command_takes_a_pattern_and_keeps_codes_where_it_is_told(folder, parts, tmp_path, monkeypatch):
    made = []
    empty = batches.Scratch.empty
    monkeypatch.setattr(batches.Scratch, "empty", lambda self, *a: made.append(self.folder) or empty(self, *a))
    output, before = tmp_path / "model.diprime", sorted(parts.iterdir())
    arguments = ("fit", f"{parts}/*.parquet", "-d", folder / "domain.toml", "-e", 1, "-o", output)
    ok(*arguments)
    assert not made
    ok(*arguments, "--scratch", parts)
    assert set(made) == {parts}
    assert sorted(parts.iterdir()) == sorted([*before, output])


def test_large_files_are_encoded_on_a_disk_by_themselves_unless_there_are_persons(folder, parts, tmp_path, monkeypatch):
    path = parts / "people2.parquet"
    monkeypatch.setattr(record_files, "_memory", lambda: 16 * path.stat().st_size)
    assert not are_large([path])
    monkeypatch.setattr(record_files, "_memory", lambda: 16 * path.stat().st_size - 1)
    assert are_large([path])
    made = []
    empty = batches.Scratch.empty
    monkeypatch.setattr(batches.Scratch, "empty", lambda self, *a: made.append(self.folder) or empty(self, *a))
    arguments = ("fit", path, "-d", folder / "domain.toml", "-e", 1, "-o", tmp_path / "model.diprime")
    ok(*arguments)
    assert set(made) == {usual_scratch()}
    made.clear()
    ok(*arguments, "--person", "name")
    assert not made


def test_persons_are_refused_with_scratch(folder, parts):
    arguments = ("fit", parts / "people0.csv", "-d", folder / "domain.toml", "-e", 1, "-o", parts / "m.diprime")
    for more in ((), ("--max-records", 3)):
        message = refused(*arguments, "--scratch", parts, "--person", "name", *more)
        assert message.startswith("diprime: --scratch cannot have --person, because ")


def test_usual_scratch_is_what_the_user_has_chosen_for_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert usual_scratch() == tmp_path


# -- errors -----------------------------------------------------------------------------------------------------------


def spoil_columns(path):
    pl.read_csv(path).rename({"age": "years"}).write_csv(path)


def spoil_parquet(path):
    path.write_bytes(path.read_bytes()[:-50])


@pytest.mark.parametrize(
    ("spoil", "kind", "message"),
    [
        (spoil_columns, "csv", r"people2.csv lacks the column 'age'; it has "),
        (spoil_parquet, "parquet", r"people2.parquet cannot be read as Parquet: it is incomplete or damaged"),
        (os.remove, "csv", r"people2.csv: No such file"),
    ],
)
def test_a_file_that_fails_in_the_middle_leaves_nothing(folder, parts, spoil, kind, message):
    shutil.copy(parts / f"people0.{kind}", parts / f"people3.{kind}")
    paths = [parts / f"people{i}.{kind}" for i in (0, 2, 3)]
    spoil(paths[1])
    before = sorted(parts.iterdir())
    model = diprime.DiPriMeClassifier(domain=domain_of(folder))
    with pytest.raises((InputError, OSError), match=re.escape("people2")) as error:
        model.fit_batches(read_files(paths, model.domain), scratch=parts)
    text = str(error.value)
    assert re.search(message, text) or isinstance(error.value, FileNotFoundError)
    assert not hasattr(model, "forest_")
    assert sorted(parts.iterdir()) == before


@pytest.mark.parametrize("n_before", [0, 1, 2, 5])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(folder, parts, n_before, monkeypatch):
    """Whichever file finds no room: codes and targets while data are read, or records before anything is released."""
    monkeypatch.setattr(batches, "PARTITION_ROWS", 1500)
    taken = []

    def take(file, offset, n_bytes):
        taken.append(n_bytes)
        if len(taken) > n_before:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", take, raising=False)
    monkeypatch.setattr(np, "memmap", lambda file, dtype, mode, shape: np.zeros(shape, dtype))
    before, output = sorted(parts.iterdir()), parts / "m.diprime"
    arguments = ("fit", f"{parts}/*.csv", "-d", folder / "domain.toml", "-e", 1, "-o", output, "--scratch", parts)
    message = refused(*arguments)
    assert message == (
        f"diprime: There is no room left in the scratch folder {parts}; choose another folder as scratch, on a disk "
        "that holds all encoded values twice.\n"
    )
    assert sorted(parts.iterdir()) == before


def test_a_scratch_folder_has_to_exist(folder, parts):
    arguments = ("fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", 1, "-o", parts / "m.diprime")
    assert "does not exist; make it, or choose another" in refused(*arguments, "--scratch", parts / "none")
