"""A draft of a domain covers the data, and says that it was read from them."""

import os
from datetime import date, datetime, time

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime.cli.data_files import DataFile, InputError
from diprime.cli.drafting import _round_outwards, draft
from diprime.domain import Categorical, Date, Domain, Integer, Numeric, Origin
from tests.cli.running import ok


def drafted(path, target, task=None):
    file = DataFile(path)
    text = draft(file, target, task, lambda share: None)
    return text, Domain.from_toml(text)


def written(folder, columns, kind="csv"):
    path = folder / f"data.{kind}"
    frame = pl.DataFrame(columns, strict=False)
    frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
    return path


def test_a_draft_says_that_it_was_read_from_the_data(tmp_path):
    text, domain = drafted(written(tmp_path, {"age": [17, 85, None], "y": ["no", "yes", "no"]}), "y")
    assert domain == Domain({"age": Integer(10, 90)}, Categorical(["no", "yes"]), target_name="y")
    assert domain.origin == Origin("read")
    assert 'origin = "read from the data"\n' in text


def test_a_draft_is_declared_by_uncommenting_one_line_and_writing_a_name_there(tmp_path):
    text, domain = drafted(written(tmp_path, {"age": [17, 85, None], "y": ["no", "yes", "no"]}), "y")
    uncommented = text.replace("# reviewed_by", "reviewed_by")
    with pytest.raises(ValueError, match="not the name of a person"):
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
    assert domain.features["flag"].levels in ((False, True), ("false", "true"))
    assert isinstance(domain.features["empty"], Categorical)
    assert domain.features["constant"] == Integer(7, 8)
    assert domain.target == Categorical([0, 1])


def test_a_column_of_numbers_with_one_text_is_text(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,0.5\nNA,2.5\nabc,3.5\n")
    _, domain = drafted(tmp_path / "a.csv", "y")
    assert domain.features["a"] == Categorical(["1", "abc"])
    assert domain.target == Numeric(0, 4)


def test_the_task_can_be_given(tmp_path):
    path = written(tmp_path, {"a": [1, 2, 3], "y": [1, 2, 9], "name": ["u", "v", "w"]})
    assert drafted(path, "y")[1].target == Categorical([1, 2, 9])
    assert drafted(path, "y", "regression")[1].target == Numeric(1, 9)
    with pytest.raises(InputError, match=r"'name' .* does not hold numbers"):
        drafted(path, "name", "regression")


def test_names_of_persons_are_left_out(tmp_path):
    columns = {"name": [f"p{i}" for i in range(300)], "row": range(300), "a": [i / 7 for i in range(300)]}
    path = written(tmp_path, {**columns, "y": [0, 1, 2] * 100})
    text, domain = drafted(path, "y")
    assert domain.names == ("a",)
    assert "# Left out: 'name', which has at least 300 different texts, as names and keys of persons have.\n" in text
    assert "# Left out: 'row', whose whole numbers look like keys of persons or records.\n" in text
    with pytest.raises(InputError, match=r"'name' .* does not hold classes"):
        drafted(path, "name")
    path = written(tmp_path, {"name": [f"p{i}" for i in range(300)], "y": [0, 1, 2] * 100})
    with pytest.raises(InputError, match="no column that could be a feature"):
        drafted(path, "y")


def visits(n_rows, n_patients):
    """Return numbers of patients with several visits each, diagnoses, and bills, many of which are zero."""
    rng = np.random.default_rng(0)
    patients = rng.integers(0, n_patients, n_rows)
    diagnoses = rng.zipf(1.3, n_rows).clip(max=700)
    bills = np.where(rng.random(n_rows) < 0.05, 0, rng.integers(-1000, 10**6, n_rows))
    return patients, [f"{number}.{number % 7}" for number in diagnoses], bills


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_keys_of_persons_with_several_records_are_left_out_and_codes_are_kept(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("diprime.cli.data_files.BLOCK_BYTES", 5000)
    monkeypatch.setattr("diprime.cli.parquet_file.MAX_ROWS", 700)
    patients, diagnoses, bills = visits(3000, 3000)
    assert 0.6 < len(set(patients)) / 3000 < 0.7
    diagnoses[0] = "none"
    columns = {"patient": 10**6 + patients, "diagnosis": [f"D{code}" for code in diagnoses], "bill": bills}
    text, domain = drafted(written(tmp_path, {**columns, "y": patients % 2}, kind), "y")
    assert domain.features == {"diagnosis": Categorical(buckets=254), "bill": Integer(-1000000, 1000000)}
    n_codes = len(set(diagnoses))
    assert n_codes > 254
    assert f"# Codes: 'diagnosis' has at least {n_codes:,} different texts" in text
    assert "# Left out: 'patient', " in text


def test_a_quantity_that_was_left_out_can_be_uncommented(tmp_path):
    path = written(tmp_path, {"steps": [7 * i for i in range(300)], "a": [0.5, 1, 2] * 100, "y": [0, 1, 2] * 100})
    text, domain = drafted(path, "y")
    assert domain.names == ("a",)
    above, _, below = text.partition("# What was left out as keys; take the # off if these are quantities.\n")
    assert Domain.from_toml(above + below.replace("# ", "")).features["steps"] == Integer(0, 3000)


def test_semicolons_go_with_decimal_commas(tmp_path):
    (tmp_path / "a.csv").write_text("a;b;y\n1,5;x;0,5\n2,25;1,5;1\n?;y;0,5\n")
    _, domain = drafted(tmp_path / "a.csv", "y", "classification")
    assert domain.features == {"a": Numeric(1.5, 2.3), "b": Categorical(["1,5", "x", "y"])}
    assert domain.target == Categorical([0.5, 1])
    assert drafted(tmp_path / "a.csv", "y")[1].target == Numeric(0.5, 1)


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


def test_many_dates_are_no_names_and_a_date_is_no_target(tmp_path):
    days = [str(datetime.fromordinal(730_000 + i)) for i in range(400)]
    path = written(tmp_path, {"when": days, "y": [0, 1] * 200})
    assert drafted(path, "y")[1].features["when"] == Date("1999-01-01", "2000-12-31", parts=["weekday", "month"])
    path = written(tmp_path, {"when": [date(2020, 1, 1)], "a": [1.5]}, "parquet")
    with pytest.raises(InputError, match=r"'when' .* does not hold classes"):
        drafted(path, "when")


def test_lists_and_durations_are_left_out_and_nan_is_missing(tmp_path):
    columns = {
        "when": [time(9), time(10)],
        "raw": [b"1", b"2"],
        "a": [1.0, float("nan")],
        "y": [1.0, float("nan")],
    }
    text, domain = drafted(written(tmp_path, columns, "parquet"), "y", "classification")
    assert "# Left out: 'when', which holds lists, bytes or durations" in text
    assert "# Left out: 'raw', which holds lists, bytes or durations" in text
    assert domain.names == ("a",)
    assert domain.target == Categorical([1])


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
def test_the_name_of_a_file_cannot_add_lines_to_its_draft(tmp_path):
    path = tmp_path / 'people\nreviewed_by = "Jane Doe"\u2028.csv'
    path.write_text("a,y\n1,x\n2,z\n")
    assert Domain.from_toml(ok("domain", "draft", path, "-t", "y")).origin.kind == "read"


def test_whole_numbers_are_classes_however_they_are_written(tmp_path):
    (tmp_path / "data.csv").write_text("a,y\n1,000.000\n2,1e1\n3,9007199254740993\n4,10\n")
    domain = Domain.from_toml(ok("domain", "draft", tmp_path / "data.csv", "-t", "y"))
    assert domain.target.levels == (0, 10, 9007199254740993)
