"""Parquet files are read by a child process first: whatever is in them, they are read or refused in one sentence."""

import io
import os
import subprocess
import sys

import polars as pl
import pytest

from diprime.cli import parquet_file
from diprime.cli.demo_data import synthetic_people
from diprime.cli.parquet_file import DamagedFileError, ParquetFile
from tests.cli.running import ENVIRONMENT, refused

resource = pytest.importorskip("resource")  # Windows has no limits

N_ROWS = 300


def table():
    return pl.DataFrame({
        "age": list(range(N_ROWS)), "name": [str(i % 7) for i in range(N_ROWS)], "size": [i / 7 for i in range(N_ROWS)]
    })  # fmt: skip


def parquet(frame):
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def read(path, columns=None):
    file = ParquetFile(path)
    return pl.concat([batch for batch, _ in file.batches(columns or file.no_rows.columns)])


SEARCH = """
import sys

import polars as pl

good = open(sys.argv[1], "rb").read()
for position in range(4, len(good)):
    data = good[:position] + bytes([255]) + good[position + 1:]
    try:
        table = pl.scan_parquet(data)
        table.slice(0, table.select(pl.len()).collect().item()).drop("income").collect()
    except pl.exceptions.PolarsError:
        pass
    except pl.exceptions.PanicException:
        print(position)
        break
"""
"""Sets single bytes of a file to 255 until polars panics, and prints the position."""


def test_a_panic_is_one_sentence_and_leaves_nothing(folder, tmp_path):
    path = tmp_path / "data.parquet"
    good = parquet(synthetic_people(50, 1))
    path.write_bytes(good)
    command = [sys.executable, "-c", SEARCH, path]
    found = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=True).stdout
    if not found:
        pytest.skip("no wrong byte makes this version of polars panic")
    path.write_bytes(good[: int(found)] + b"\xff" + good[int(found) + 1 :])
    for command in (
        ("predict", folder / "model.diprime", path, "-o", tmp_path / "out.csv"),
        ("domain", "draft", path, "-t", "income"),
    ):
        assert "is incomplete or damaged" in refused(*command)
    assert os.listdir(tmp_path) == ["data.parquet"]


def test_rows_come_back_in_order_with_their_types(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_file, "MAX_ROWS", 70)
    (tmp_path / "data").write_bytes(parquet(table()))
    file = ParquetFile(tmp_path / "data")
    assert file.no_rows.schema == table().schema
    for columns in (["age", "size"], ["name"], ["name"]):  # the second and the third need a child of their own
        batches = list(file.batches(columns))
        assert [batch.height for batch, _ in batches] == [70, 70, 70, 70, 20]
        assert sum(share for _, share in batches) == pytest.approx(1)
        assert pl.concat([batch for batch, _ in batches]).equals(table().select(columns))


def test_wide_tables_have_fewer_rows_in_a_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_file, "MAX_CELLS", 120)
    (tmp_path / "data").write_bytes(parquet(table()))
    file = ParquetFile(tmp_path / "data")
    assert max(batch.height for batch, _ in file.batches(["age", "size"])) == 60


def test_a_file_may_not_stand_for_far_more_rows_than_its_size_tells(tmp_path, monkeypatch):
    content = parquet(pl.DataFrame({"a": pl.repeat(0, 500_000, eager=True)}))
    (tmp_path / "data").write_bytes(content)
    assert len(content) < 10_000
    assert read(tmp_path / "data").height == 500_000
    monkeypatch.setattr(parquet_file, "BASE_ROWS", 1000)
    monkeypatch.setattr(parquet_file, "ROWS_PER_BYTE", 10)
    with pytest.raises(DamagedFileError):
        ParquetFile(tmp_path / "data")


def test_memory_is_limited(tmp_path, monkeypatch):
    values = pl.repeat(0, 40_000_000, dtype=pl.Int64, eager=True)  # 320 MB
    content = parquet(pl.DataFrame({"a": values.reshape((4, 10_000_000)).arr.to_list()}))
    (tmp_path / "data").write_bytes(content)
    assert len(content) < 1_000_000
    monkeypatch.setattr(parquet_file, "BASE_BYTES", 250 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedFileError):
        read(tmp_path / "data")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (100 << 10)


def test_long_texts_that_are_stored_once_come_in_small_batches(tmp_path, monkeypatch):
    (tmp_path / "data").write_bytes(parquet(pl.DataFrame({"a": ["x" * 100_000] * 1000, "b": range(1000)})))
    monkeypatch.setattr(parquet_file, "MAX_TEXT_BYTES", 1_000_000)
    file = ParquetFile(tmp_path / "data")
    batches = [batch for batch, _ in file.batches(["a", "b"])]
    assert max(batch.height for batch in batches) <= 10
    assert pl.concat(batches)["b"].to_list() == list(range(1000))
    monkeypatch.setattr(parquet_file, "MAX_TEXT_BYTES", 99_999)
    with pytest.raises(DamagedFileError):
        read(tmp_path / "data")


@pytest.mark.parametrize("script", ["import os; os.abort()", "import time; time.sleep(1000)"])
@pytest.mark.parametrize("before", ["", "print(1, flush=True)\n"])
def test_a_child_that_ends_or_says_nothing_has_read_nothing(tmp_path, monkeypatch, before, script):
    (tmp_path / "data").write_bytes(parquet(table()))
    (tmp_path / "child.py").write_text(before + script)
    monkeypatch.setattr(parquet_file.parquet_child, "__file__", str(tmp_path / "child.py"))
    monkeypatch.setattr(parquet_file, "MAX_SECONDS", 2.0)
    with pytest.raises(DamagedFileError):
        read(tmp_path / "data")


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of other processes are read on Linux")
def test_an_abort_of_the_child_leaves_no_core_file_with_rows(tmp_path):
    (tmp_path / "data").write_bytes(parquet(table()))
    file = ParquetFile(tmp_path / "data")
    process = file._child._process
    assert resource.prlimit(process.pid, resource.RLIMIT_CORE) == (0, 0)


def test_no_child_outlives_its_file(tmp_path):
    (tmp_path / "data").write_bytes(parquet(table()))
    file = ParquetFile(tmp_path / "data")
    process = file._child._process
    assert process.poll() is None
    del file
    assert process.poll() is not None
