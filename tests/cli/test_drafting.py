"""A draft of a domain covers the data, and says that it was read from them."""

from datetime import date

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime.cli.data_files import DataFile, InputError
from diprime.cli.drafting import _round_outwards, draft
from diprime.domain import Categorical, Domain, Numeric, Origin


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
    assert domain == Domain({"age": Numeric(10, 90)}, Categorical(["no", "yes"]), target_name="y")
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
        "text": ["b", "a", None, "b"],
        "flag": [True, False, None, True],
        "empty": pl.Series([None] * 4, dtype=pl.String),
        "constant": [7, 7, 7, 7],
        "y": [0, 1, 1, 0],
    }
    _, domain = drafted(written(tmp_path, columns, kind), "y")
    assert domain.features["whole"] == Numeric(0, 300)
    assert domain.features["text"] == Categorical(["a", "b"])
    assert domain.features["flag"].levels in ((False, True), ("false", "true"))
    assert isinstance(domain.features["empty"], Categorical)
    assert domain.features["constant"].low <= 7 < domain.features["constant"].high
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
    columns = {"name": [f"p{i}" for i in range(300)], "key": range(300), "a": [i / 7 for i in range(300)]}
    path = written(tmp_path, {**columns, "y": [0, 1, 2] * 100})
    text, domain = drafted(path, "y")
    assert domain.names == ("a",)
    assert "# Left out: 'name', which has more than 254 different texts" in text
    assert "# Left out: 'key', whose whole numbers never repeat" in text
    with pytest.raises(InputError, match=r"'name' .* does not hold classes"):
        drafted(path, "name")
    path = written(tmp_path, {"name": [f"p{i}" for i in range(300)], "y": [0, 1, 2] * 100})
    with pytest.raises(InputError, match="no column that could be a feature"):
        drafted(path, "y")


def test_dates_are_left_out_and_nan_is_missing(tmp_path):
    columns = {
        "when": [date(2026, 1, 1), date(2026, 1, 2)],
        "raw": [b"1", b"2"],
        "a": [1.0, float("nan")],
        "y": [1.0, float("nan")],
    }
    text, domain = drafted(written(tmp_path, columns, "parquet"), "y", "classification")
    assert "# Left out: 'when', which holds dates, lists or bytes" in text
    assert "# Left out: 'raw', which holds dates, lists or bytes" in text
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
