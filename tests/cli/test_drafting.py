"""Keys of persons repeat otherwise than codes and quantities do.

A draft of a domain covers the data, and says that it was read from them.
"""

import os
from datetime import date, datetime

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime._util import InputError
from diprime.cli import drafting
from diprime.cli.drafting import ValueCounts, _round_outwards, draft, is_name_of_key
from diprime.domain import Categorical, Date, Domain, Integer, Numeric, Origin
from diprime.sources.data_files import DataFile, csv, parquet
from tests.cli.running import ok


def counted(values, n_batches=1):
    found = ValueCounts()
    for batch in np.array_split(np.asarray(values), n_batches):
        found.update(pa.array(batch))
    return found


def are_keys(values, name="column", whole_numbers=True):
    return counted(values, 3).are_keys(name, whole_numbers=whole_numbers)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("id", True), ("ID", True), ("patient_id", True), ("patientId", True), ("patient_nbr", True), ("row key", True),
     ("bid", False), ("paid", False), ("idle", False), ("number_of_visits", False), ("monkey", False), ("", False)],
)  # fmt: skip
def test_names_of_keys(name, expected):
    assert is_name_of_key(name) is expected


@pytest.mark.parametrize("whole_numbers", [True, False])
def test_diverse_values_without_a_frequent_one_are_keys(whole_numbers):
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 1500, 2000)
    assert 0.5 < len(set(keys)) / 2000 < 0.9
    assert are_keys(keys, whole_numbers=whole_numbers)
    assert not are_keys(keys % 250, whole_numbers=whole_numbers)


def test_memory_for_values_of_a_column_is_bounded(monkeypatch):
    monkeypatch.setattr(drafting, "MAX_COUNTED", 500)
    found = counted(np.arange(100_000), 200)
    assert found.n_different == 1000
    assert found.are_keys("column", whole_numbers=True)


def drafted(path, target, task=None):
    file = DataFile(path)
    text = draft(file, target, task, lambda share: None)
    return text, Domain.from_toml(text)


def written(folder, columns, kind="csv"):
    path = folder / f"data.{kind}"
    frame = pl.DataFrame(columns, strict=False)
    frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
    return path


def test_reviewed_draft_is_declared(tmp_path):
    text, domain = drafted(written(tmp_path, {"age": [17, 85, None], "y": ["no", "yes", "no"]}), "y")
    uncommented = text.replace("# reviewed_by", "reviewed_by")
    with pytest.raises(ValueError, match=r"^reviewed_by .*name of"):
        Domain.from_toml(uncommented)
    signed = Domain.from_toml(uncommented.replace("your name", "Jane Doe"))
    assert signed == domain
    assert signed.origin == Origin("declared", reviewed_by="Jane Doe")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_features_follow_the_types_of_the_columns(tmp_path, kind):
    columns = {
        "whole": [1, 2, 3, 250],
        "float": [0.5, 1, 2, 3],
        "text": ["b", "a", None, "b"],
        "flag": [True, False, None, True],
        "empty": pl.Series([None] * 4, dtype=pl.String),
        "constant": [7, 7, 7, 7],
        "y": [0, 1, 1, 0],
    }
    _, domain = drafted(written(tmp_path, columns, kind), "y")
    assert domain.features["whole"] == Integer(0, 300)
    assert domain.features["float"] == Numeric(0, 3)
    assert domain.features["text"] == Categorical(["a", "b"])
    assert domain.features["flag"].categories in ((False, True), ("false", "true"))
    assert isinstance(domain.features["empty"], Categorical)
    assert domain.features["constant"] == Integer(7, 8)
    assert domain.target == Categorical([0, 1])


def test_column_of_numbers_with_one_text_is_text(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,0.5\nNA,2.5\nabc,3.5\n")
    _, domain = drafted(tmp_path / "a.csv", "y")
    assert domain.features["a"] == Categorical(["1", "abc"])
    assert domain.target == Numeric(0, 4)


def test_task_option_decides_the_kind_of_target(tmp_path):
    path = written(tmp_path, {"a": [1, 2, 3], "y": [1, 2, 9], "name": ["u", "v", "w"]})
    assert drafted(path, "y")[1].target == Categorical([1, 2, 9])
    assert drafted(path, "y", "regression")[1].target == Numeric(1, 9)
    with pytest.raises(InputError, match=r"'name' .*numbers, .*target"):
        drafted(path, "name", "regression")


def test_names_of_people_are_omitted(tmp_path):
    columns = {"name": [f"p{i}" for i in range(300)], "row": range(300), "a": [i / 7 for i in range(300)]}
    path = written(tmp_path, {**columns, "y": [0, 1, 2] * 100})
    text, domain = drafted(path, "y")
    assert domain.encoded_feature_names == ("a",)
    assert (
        "# Omitted: 'name', because it contains at least 300 different texts, such as names or identifiers.\n" in text
    )
    assert "# Omitted: 'row', because its integers look like identifiers of people or records.\n" in text
    with pytest.raises(InputError, match=r"'name' .*254 classes, .*target"):
        drafted(path, "name")
    path = written(tmp_path, {"name": [f"p{i}" for i in range(300)], "y": [0, 1, 2] * 100})
    with pytest.raises(InputError, match=r"no column .*feature"):
        drafted(path, "y")


def visits(n_rows, n_patients):
    """Return numbers of patients with several visits each, diagnoses, and bills, many of which are zero."""
    rng = np.random.default_rng(0)
    patients = rng.integers(0, n_patients, n_rows)
    diagnoses = rng.zipf(1.3, n_rows).clip(max=700)
    bills = np.where(rng.random(n_rows) < 0.05, 0, rng.integers(-1000, 10**6, n_rows))
    return patients, [f"{number}.{number % 7}" for number in diagnoses], bills


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_keys_of_people_are_omitted_but_codes_are_features(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(csv, "BLOCK_BYTES", 5000)
    monkeypatch.setattr(parquet, "MAX_ROWS", 700)
    patients, diagnoses, bills = visits(3000, 3000)
    assert 0.6 < len(set(patients)) / 3000 < 0.7
    diagnoses[0] = "none"
    columns = {"patient": 10**6 + patients, "diagnosis": [f"D{code}" for code in diagnoses], "bill": bills}
    text, domain = drafted(written(tmp_path, {**columns, "y": patients % 2}, kind), "y")
    assert domain.features == {"diagnosis": Categorical(n_buckets=254), "bill": Integer(-1000000, 1000000)}
    n_codes = len(set(diagnoses))
    assert n_codes > 254
    assert f"# Hashed: 'diagnosis' has at least {n_codes:,} different texts" in text
    assert "# Omitted: 'patient', " in text


def test_omitted_quantity_can_be_uncommented(tmp_path):
    path = written(tmp_path, {"steps": [7 * i for i in range(300)], "a": [0.5, 1, 2] * 100, "y": [0, 1, 2] * 100})
    text, domain = drafted(path, "y")
    assert domain.encoded_feature_names == ("a",)
    above, _, below = text.partition(
        "# These columns were omitted as identifiers. Uncomment those that are quantities.\n"
    )
    assert Domain.from_toml(above + below.replace("# ", "")).features["steps"] == Integer(0, 3000)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_dates_are_recognised_and_rounded_outwards(tmp_path, kind):
    times = [datetime(2012, 10, 2, 9), None, datetime(2018, 9, 30, 23)]
    columns = {
        "day": [date(2026, 2, 3), date(2026, 2, 4), None],
        "time": times,
        "zoned": pl.Series(times).dt.replace_time_zone("Asia/Tokyo"),
        "text": ["2020-12-31 10:00", "?", "2021-01-01T10:00:00"],
        "almost": ["2020-12-31", "2020-12-32", None],
        "none": pl.Series([None] * 3, dtype=pl.Date),
        "y": [0, 1, 0],
    }
    _, domain = drafted(written(tmp_path, columns, kind), "y")
    assert domain.features["day"] == Date("2026-02-01", "2026-02-28", parts=["weekday"])
    assert domain.features["time"] == Date("2012-01-01", "2018-12-31", parts=["weekday", "month", "hour"])
    assert domain.features["zoned"] == domain.features["time"]
    assert domain.features["text"] == Date("2020-01-01", "2021-12-31", parts=["weekday", "month"])
    assert domain.features["almost"] == Categorical(["2020-12-31", "2020-12-32"])


@given(st.floats(-1e12, 1e12), st.floats(0, 1e12))
@example(0.1, 0.0)
@example(0.0, 0.0)
@example(-1e-7, 1e-9)
@example(1e12, 1e-6)
@example(0.0, 5e-324)
@example(1e308, 7e307)
@settings(deadline=None)
def test_ranges_are_round_outwards(low, width):
    bottom, top = _round_outwards(low, low + width)
    Numeric(bottom, top)
    low, high = min(low, 1e300), min(low + width, 1e300)
    slack = 1e-9 * (abs(low) + abs(high))
    assert bottom <= low + slack
    assert top >= high - slack
    assert top - bottom <= 4 * (high - low) or high - low <= max(1e-3 * abs(low), 1e-300)


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such names")
def test_name_of_a_file_cannot_add_lines_to_its_draft(tmp_path):
    path = tmp_path / 'people\nreviewed_by = "Jane Doe"\u2028.csv'
    path.write_text("a,y\n1,x\n2,z\n")
    assert Domain.from_toml(ok("domain", "draft", path, "-t", "y")).origin.kind == "inferred"


def test_spellings_of_an_integer_are_one_class(tmp_path):
    (tmp_path / "data.csv").write_text("a,y\n1,000.000\n2,1e1\n3,9007199254740993\n4,10\n")
    domain = Domain.from_toml(ok("domain", "draft", tmp_path / "data.csv", "-t", "y"))
    assert domain.target.categories == (0, 10, 2**53)


def test_draft_proposes_missing_texts_and_lists_their_columns(tmp_path):
    lines = ["work,age,holiday,y", "?,17,None,no", " ?,na,None,yes", "Private,85,Labor Day,no", "NA,,None,?"]
    (tmp_path / "a.csv").write_text("\n".join([*lines, ""]))
    text, domain = drafted(tmp_path / "a.csv", "y")
    assert domain.missing == ("?", "na")
    assert domain.features == {
        "work": Categorical(["Private"]), "age": Integer(10, 90), "holiday": Categorical(["Labor Day"])
    }  # fmt: skip
    assert domain.target == Categorical(["no", "yes"])
    assert "# Missing: '?' in 'work', 'y'." in text
    assert "# Missing: 'None' in 'holiday'." in text
    assert "# Missing: 'na' in 'age'." in text
    assert "NULL, NaN, None, n/a, nan, null.\n" in text
    _, plain = drafted(written(tmp_path, {"a": ["x", "none", None], "y": ["no", "yes", "no"]}), "y")
    assert plain.missing == ()
    assert plain.features["a"] == Categorical(["none", "x"])
