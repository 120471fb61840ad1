"""Files are read in batches, by the domain: no record changes how another one is read."""

import math
import os
import time

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime._util import InputError
from diprime.domain import MISSING, OTHER, Categorical, Domain, Numeric
from diprime.domain.values import MISSING_TEXTS
from diprime.sources.data_files import DataFile, Files, parquet
from diprime.sources.data_files import csv as csv_files
from diprime.sources.protocol import Roles

YES_NO = Categorical(["no", "yes"])
FEATURES = {
    "age": Numeric(0, 255),
    "sex": Categorical(["F", "M"]),
    "kids": Categorical([0, 1, 2.5]),
    "flag": Categorical([False, True]),
    "mixed": Categorical(["1", 2, " x", "NA"]),
}
DOMAIN = Domain(FEATURES, YES_NO, target_name="y")


def csv(folder, text, name="data.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def decoded(path, features, missing=MISSING_TEXTS, advance=lambda share: None):
    """Return the batches of a file as tables of the values of features."""
    return [pa.table(values) for values, _ in DataFile(path).read(features, missing, advance=advance)]


def rows_of(batches):
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def codes_of(path, features):
    domain = Domain(features, YES_NO, missing=["?"])
    batches = [domain.encode(rows) for rows in decoded(path, features, domain.missing_texts)]
    return np.concatenate([np.zeros((0, len(features)), dtype=np.uint8), *batches]).tolist()


@pytest.mark.parametrize(
    ("feature", "texts"),
    [
        ("age", {"36.5": 36, " 36.5 ": 36, "1e2": 100, "-5": 0, "inf": 254, "": 255, "NaN": 255, "n/a": 255, "?": 255}),
        (
            "sex",
            {"F": 0, " M": 1, "m": OTHER, "": MISSING, "NA": MISSING, "other": OTHER, "?": MISSING, "nan": MISSING},
        ),
        ("kids", {"0": 0, "1": 1, "1.0": 1, "01": 1, "2.5": 2, "3": OTHER, "x": OTHER, "": MISSING, "NaN": MISSING}),
        ("flag", {"true": 1, "False": 0, "1": 1, "0.0": 0, "yes": OTHER, "null": MISSING}),
        ("mixed", {"1": 0, "2": 1, "2.0": 1, " x": 2, "x": 2, "NA": 3, " NA ": 3, "na": OTHER, "": MISSING}),
    ],
)
def test_text_is_read_according_to_the_domain(tmp_path, feature, texts):
    path = csv(tmp_path, "\n".join([feature + ",extra", *(f'"{text}",0' for text in texts)]) + "\n")
    assert codes_of(path, {feature: FEATURES[feature]}) == [[code] for code in texts.values()]


cells = st.sampled_from(["", "0", "1", "2.5", "1.0", "300", "F", "M", "x", "NA", "?", "true", " 7 ", "1e400", "other"])
numbers = st.sampled_from(["", "0", "17", "2.5", "-3", "300", "NA", "?", " 7 ", "1e400", "nan"])
rows = st.lists(st.tuples(numbers, cells, cells, cells, cells), min_size=1, max_size=30)


@given(rows)
@settings(deadline=None, max_examples=60)
def test_value_does_not_depend_on_other_rows(tmp_path_factory, records):
    folder = tmp_path_factory.mktemp("csv")
    lines = [",".join(f'"{cell}"' for cell in record) for record in records]
    header = ",".join(FEATURES)
    together = codes_of(csv(folder, "\n".join([header, *lines])), FEATURES)
    alone = [codes_of(csv(folder, f"{header}\n{line}\n"), FEATURES)[0] for line in dict.fromkeys(lines)]
    by_line = dict(zip(dict.fromkeys(lines), alone, strict=True))
    assert together == [by_line[line] for line in lines]


def test_batches_cover_the_file_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 3000)
    monkeypatch.setattr(parquet, "MAX_ROWS", 1000)
    read = csv_files.RecordReader.read

    def read_late(self, n_bytes):
        time.sleep(0.002)  # so pyarrow, which reads ahead in a thread, reads while a batch is used
        return read(self, n_bytes)

    monkeypatch.setattr(csv_files.RecordReader, "read", read_late)
    numbers = list(range(5432))
    path = csv(tmp_path, "unused,a\n" + "".join(f"x,{i}\n" for i in numbers))
    pl.read_csv(path).write_parquet(tmp_path / "data.parquet")
    for file in (DataFile(path), DataFile(tmp_path / "data.parquet")):
        assert file.columns == ["unused", "a"]
        shares = []

        def advance(share, shares=shares):
            time.sleep(0.005)
            shares.append(share)

        batches = decoded(file.path, {"a": Numeric(0, 6000)}, advance=advance)
        assert sum(shares) == pytest.approx(1, abs=0.01)
        assert len(shares) == len(batches)
        assert len(batches) > 1
        assert max(map(len, batches)) <= 1000
        assert [v for batch in batches for v in batch["a"].to_pylist()] == numbers


@given(st.lists(st.lists(st.text('ab,"\n\r', max_size=6), min_size=2, max_size=2), min_size=1, max_size=12), st.data())
@settings(deadline=None, max_examples=100)
def test_records_are_not_split_between_blocks(tmp_path_factory, records, data):
    """Quotes, separators and line breaks inside fields are found for every block size."""
    expected = pl.DataFrame(records, schema=["x", "y"], orient="row")
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    expected.write_csv(path, quote_style="always")
    file = DataFile(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "BLOCK_BYTES", data.draw(st.integers(40, 80)))
        assert rows_of(file.batches(["x", "y"])) == expected.rows()


def test_search_for_a_closing_quote_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 100)
    path = csv(tmp_path, 'a,b\n1,"2\n' + "3,4\n" * 1000)
    with pytest.raises(InputError, match=r"quote .*100 bytes"):
        list(DataFile(path).batches(["a"]))


def test_number_of_columns_is_bounded(tmp_path):
    with pytest.raises(InputError, match="more than 100,000 columns"):
        DataFile(csv(tmp_path, b"," * 100_000 + b"\n"))


def test_duplicate_column_is_refused(tmp_path):
    for header in ("secret,b,secret", 'a,"secret","secret"', "secret,,"):
        with pytest.raises(InputError, match=r"data\.csv .*two columns .*same name.*header") as caught:
            DataFile(csv(tmp_path, f"{header}\n1,2,3\n"))
        assert "secret" not in str(caught.value)  # the first line may be a record
    assert DataFile(csv(tmp_path, "a,a_duplicated_0,A, a\n")).columns == ["a", "a_duplicated_0", "A", " a"]


@pytest.mark.parametrize(
    ("record", "n_fields"),
    [(b"x,2", "2 fields"), (b"x", "1 field"), (b"x,2,3,4", "4 fields"), (b'x,"2,\n\n3"', "2 fields")],
)
def test_ragged_row_error_names_only_the_row(tmp_path, monkeypatch, record, n_fields):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 20)
    path = csv(tmp_path, b"a,b,c\r\n" + b'1,"2\n\n,",3\r\n\r\n' * 20 + record + b"\n" + b"1,2,3\n" * 20)
    with pytest.raises(InputError, match=rf"{n_fields} in row 21 .*has 3\.") as caught:
        list(DataFile(path).batches(["c"]))
    assert "x" not in str(caught.value).partition("data.csv")[2]


def test_quotes_inside_fields_are_read(tmp_path):
    file = DataFile(csv(tmp_path, 'a,b,c\n5" x,6",7\n1,2,3\n'))
    assert rows_of(file.batches(["a", "b", "c"])) == [('5" x', '6"', "7"), ("1", "2", "3")]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_blank_lines_are_skipped(tmp_path, monkeypatch, line_end):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 40)
    lines = ["a,b", "1,2", "", "", "3,", ",4", '5,"x\n\ny"', "", "6,7", "", ""]
    file = DataFile(csv(tmp_path, line_end.join(lines)))
    assert rows_of(file.batches(["a", "b"])) == [
        ("1", "2"),
        ("3", None),
        (None, "4"),
        ("5", "x\n\ny"),
        ("6", "7"),
    ]
    assert file.schema.names == ["a", "b"]
    path = csv(tmp_path, line_end.join(["a,b", "1,2", "", "secret,3"]))
    with pytest.raises(InputError, match=r"number .*'a', in row 2 "):
        codes_of(path, {"a": Numeric(0, 255)})
    with pytest.raises(InputError, match=r"data\.csv .*no rows"):
        list(DataFile(csv(tmp_path, line_end.join(["a,b", "", "", ""]))).batches(["a"]))


def test_blank_line_of_a_single_column_is_a_missing_value(tmp_path):
    assert codes_of(csv(tmp_path, "a\n1\n\n2\n"), {"a": Numeric(0, 255)}) == [[1], [MISSING], [2]]


def test_semicolon_files_have_decimal_commas(tmp_path):
    features = {"a": Numeric(0, 25.5), "b": Categorical([0, 2.5, "1,5"])}
    path = csv(tmp_path, 'a;b\n1,25;2,5\n1.25;2.5\n ,5 ;1,5\n-1,5e1;0,0\n?;"3,5"\n')
    file = DataFile(path)
    assert file.has_decimal_commas
    assert codes_of(path, features) == [[12, 1], [12, 1], [5, 2], [0, 0], [MISSING, OTHER]]
    for number in ("1,234,567", "1.234,5", "1,234.5", ","):
        with pytest.raises(InputError, match=r"number .*'a', in row 1 "):
            codes_of(csv(tmp_path, f"a;b\n{number};0\n"), features)
    for separator in (",", "\t"):
        path = csv(tmp_path, f'a{separator}b\n"1,25"{separator}0\n')
        with pytest.raises(InputError, match=r"number .*'a', in row 1 "):
            codes_of(path, features)


@pytest.mark.parametrize("feature", [Categorical(n_buckets=254), Categorical()], ids=["buckets", "open"])
def test_decimal_commas_are_read_in_buckets_and_learnt_categories(tmp_path, feature):
    texts = ["2,5", " -1,50 ", "1,2e3", ",5", "2.5", "1,2,3", "a,b", ",", "7"]
    (batch,) = decoded(csv(tmp_path, "\n".join(["a;b", *(f"{text};1" for text in texts), ""])), {"a": feature})
    assert batch["a"].to_pylist() == ["2.5", "-1.50", "1.2e3", ".5", "2.5", "1,2,3", "a,b", ",", "7"]
    if not feature.is_undeclared:
        domain = Domain({"a": feature}, YES_NO)
        numbers = pl.DataFrame({"a": [2.5, -1.5, 1200.0, 0.5]})
        assert domain.encode(batch.slice(0, 4)).tolist() == domain.encode(numbers).tolist()


def test_unreadable_number_error_names_only_the_row(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 20)
    path = csv(tmp_path, "a\n" + "".join("secret\n" if i == 25 else f"{i}\n" for i in range(1, 60)))
    with pytest.raises(InputError, match=r"number .*'a', in row 25 ") as caught:
        decoded(path, {"a": Numeric(0, 60)})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separator_is_read_from_the_header(tmp_path, separator):
    path = csv(tmp_path, f"\ufeffa{separator}b{separator}c\r\n1{separator}2{separator}3\r\n")
    file = DataFile(path)
    assert file.columns == ["a", "b", "c"]
    assert codes_of(path, {"c": Numeric(0, 255)}) == [[3]]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty, .*first line"),
        (b"\n\n", "empty, .*first line"),
        (b"PK\x03\x04 a spreadsheet", r"compressed, .*spreadsheet"),
        (b"a,b\n1,2,3\n", r"3 fields in row 1 .*has 2\."),
        (b'a,b\n "1,2",3\n', r"3 fields in row 1 .*has 2\..* quote"),
        (b"a,b\n\xff\xfe,2\n", "not UTF-8"),
        (b"a,b\n1,\xff,3\n", "not UTF-8"),  # pyarrow would print that it cannot decode a ragged record
        (b"a,b\n1,2,\xc3", "not UTF-8"),
        (b'a,b\n"1,2\n', r"quote .*closed"),
        (b"PAR1 this is no parquet", r"Parquet: .*damaged"),
        (b"\na,b\n1,2\n", r"empty, .*first line"),
        ("a,b\n1,2\n".encode("utf-16"), "not UTF-8"),
        (b"a,b\r1,2\r3,4\r", "line endings"),
        (b"x" * 100_000 + b"\n1\n", r"lacks .*'a', 'b'; .*1 other column\..*header"),
    ],
)
def test_invalid_files_are_refused_with_the_reason(tmp_path, content, reason):
    with pytest.raises(InputError, match=reason):
        list(DataFile(csv(tmp_path, content)).batches(["a", "b"]))


def test_missing_files_directories_and_columns_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        DataFile(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match=r" a directory\."):
        DataFile(tmp_path)
    with pytest.raises(InputError, match=r"lacks .*'x', 'y'; .*1 other column"):
        DataFile(csv(tmp_path, "a,b\n1,2\n")).check_columns(["a", "x", "y"])


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ('a,"b\nc"', ["a", "b\nc"]),
        ('"a\r\nb",c\r', ["a\r\nb", "c"]),
        ("a\tb\t", ["a", "b", ""]),
        ("a,b,", ["a", "b", ""]),
    ],
)
def test_headers_with_line_breaks_and_without_names_are_read(tmp_path, header, columns):
    separator = "\t" if "\t" in header else ","
    file = DataFile(csv(tmp_path, f"{header}\n" + separator.join("123"[: len(columns)]) + "\n"))
    assert file.columns == columns
    features = {name: Numeric(0, 255) for name in columns}
    assert rows_of(decoded(file.path, features)) == [(1.0, 2.0, 3.0)[: len(columns)]]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"/pipe .*device"):
        DataFile(tmp_path / "pipe")


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_parquet_text_is_read_like_csv(tmp_path, dtype):
    columns = {"age": ["1", " 7 ", "NA", None], "sex": [" M", "x", "?", "F"]}
    path = tmp_path / "data"
    pl.DataFrame(columns, schema=dict.fromkeys(columns, dtype)).write_parquet(path)
    features = {name: FEATURES[name] for name in columns}
    assert codes_of(path, features) == [[1, 1], [7, OTHER], [MISSING, MISSING], [MISSING, 0]]
    pl.DataFrame({"age": ["1", "secret"]}).write_parquet(path)
    with pytest.raises(InputError, match=r"number .*'age', in row 2 "):
        codes_of(path, {"age": FEATURES["age"]})


def test_numbers_beyond_floats_are_clipped(tmp_path):
    path = csv(tmp_path, "a\n1e999\n-1e999\n0.1\n")
    column = decoded(path, {"a": Numeric(0, 1)})[0]["a"]
    assert column.to_pylist() == [math.inf, -math.inf, 0.1]


def test_target_is_named_or_the_only_other_column(tmp_path):
    files = Files([csv(tmp_path, "a,b,c\n1,2,3\n")])
    features = {"a": Numeric(0, 1), "b": Numeric(0, 1)}
    assert files.roles(Domain(features, YES_NO), Roles()).target == "c"
    assert files.roles(Domain(features, YES_NO, target_name="d"), Roles()).target == "d"
    assert files.roles(Domain(features, YES_NO, target_name="d"), Roles("c")).target == "c"
    with pytest.raises(InputError, match=r"target, .*has 2 columns .*features"):
        files.roles(Domain({"a": Numeric(0, 1)}, YES_NO), Roles())
