"""Parquet files are read in bounded batches, or refused in one sentence."""

from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diprime._util import InputError
from diprime.sources.data_files import parquet
from diprime.sources.data_files.parquet import ParquetFile

N_ROWS = 300


def table():
    return pa.table({
        "age": range(N_ROWS), "name": [str(i % 7) for i in range(N_ROWS)], "size": [i / 7 for i in range(N_ROWS)]
    })  # fmt: skip


def written(folder, rows, **options):
    pq.write_table(rows, folder / "data", **options)
    return folder / "data"


def batches(path, columns):
    return [batch for batch, _ in ParquetFile(path).batches(columns)]


def test_rows_are_read_in_order_with_their_types(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MAX_ROWS", 70)
    file = ParquetFile(written(tmp_path, table()))
    assert file.schema == table().schema
    for columns in (["size", "age"], ["name"], ["name"]):
        found = list(file.batches(columns))
        assert [len(batch) for batch, _ in found] == [70, 70, 70, 70, 20]
        assert sum(share for _, share in found) == pytest.approx(1)
        assert pa.concat_tables([batch for batch, _ in found]).equals(table().select(columns))


def test_columns_are_found_by_full_names(tmp_path):
    rows = pa.table({"a.b": [1], "a": pa.array([{"b": 2}]), "b": [3]})
    path = written(tmp_path, rows)
    for name in rows.column_names:
        (batch,) = batches(path, [name])
        assert batch.equals(rows.select([name]))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("used", [True, False])
def test_text_type_does_not_depend_on_storage(tmp_path, kind, used):
    rows = pa.table({"a": pa.array(["x", None, "", "x", "é"], pa.string()).cast(kind)})
    (batch,) = batches(written(tmp_path, rows, use_dictionary=used), ["a"])
    assert batch.schema == rows.schema
    assert batch["a"].to_pylist() == ["x", None, "", "x", "é"]


def test_far_times_of_96_bits_are_not_wrapped(tmp_path):
    times = [datetime(9999, 12, 31), datetime(1600, 1, 1), datetime(2020, 1, 2, 3, 4, 5, 678_901), None]
    rows = pa.table({"a": pa.array(times, pa.timestamp("us"))})
    (batch,) = batches(written(tmp_path, rows, use_deprecated_int96_timestamps=True), ["a"])
    assert batch["a"].to_pylist() == times


def test_wide_tables_have_fewer_rows_in_a_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MAX_CELLS", 120)
    assert max(map(len, batches(written(tmp_path, table()), ["age", "size"]))) == 60


@pytest.mark.parametrize(
    "column", [["x" * 999 + str(i) for i in range(1000)], [list(range(i, i + 130)) for i in range(1000)]]
)
def test_large_values_are_read_in_small_batches(tmp_path, monkeypatch, column):
    monkeypatch.setattr(parquet, "MAX_BYTES", 50_000)
    path = written(tmp_path, pa.table({"a": column, "b": range(1000)}), use_dictionary=False)
    found = batches(path, ["a", "b"])
    assert max(map(len, found)) <= 50
    assert pa.concat_tables(found)["b"].to_pylist() == list(range(1000))
    assert len(batches(path, ["b"])) == 1, "columns that are not read do not count"


def test_repeated_long_texts_are_read_in_small_batches(tmp_path, monkeypatch):
    path = written(tmp_path, pa.table({"a": ["x" * 100_000, None] * 500, "b": range(1000)}))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(parquet, "MAX_BYTES", 1_000_000)
    found = batches(path, ["a", "b"])
    assert max(map(len, found)) <= 20
    assert pa.concat_tables(found)["b"].to_pylist() == list(range(1000))
    monkeypatch.setattr(parquet, "MAX_BYTES", 99_999)
    assert sum(map(len, batches(path, ["a"]))) == 1000


def test_memory_does_not_grow_with_the_row_group(tmp_path):
    n_rows = 3_000_000
    columns = {f"n{i}": pa.array(range(i, n_rows + i), pa.int64()) for i in range(4)}  # 96 MB
    path = written(tmp_path, pa.table(columns), use_dictionary=False, compression="none", row_group_size=n_rows)
    names = list(columns)
    del columns
    held = []
    before = pa.total_allocated_bytes()
    for _ in ParquetFile(path).batches(names):
        held.append(pa.total_allocated_bytes() - before)
    assert len(held) == 30
    assert max(held) < 30_000_000


def test_implausible_number_of_rows_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path, pa.table({"a": [0] * 500_000}))
    assert path.stat().st_size < 10_000
    assert sum(map(len, batches(path, ["a"]))) == 500_000
    monkeypatch.setattr(parquet, "BASE_ROWS", 1000)
    monkeypatch.setattr(parquet, "ROWS_PER_BYTE", 10)
    with pytest.raises(InputError):
        ParquetFile(path)


def test_errors_of_damaged_files_are_not_quoted(tmp_path):
    path = written(tmp_path, table())
    good, refused = path.read_bytes(), []
    for position in range(4, len(good), 7):
        path.write_bytes(good[:position] + b"\xff" + good[position + 1 :])
        try:
            file = ParquetFile(path)
            list(file.batches(file.schema.names))
        except InputError as error:
            refused.append(error)
    assert len(refused) > 20
    [message] = {str(error) for error in refused}  # the same for all, so nothing is quoted
    assert message.startswith(f"{path} ")
    assert "Parquet: " in message
    assert all(error.__suppress_context__ for error in refused)


def test_file_with_lost_rows_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path, table())
    cut = lambda rows: [rows.slice(1)]  # noqa: E731 -- stands for a reader that loses a row
    monkeypatch.setattr(parquet, "_parts", cut)
    with pytest.raises(InputError):
        batches(path, ["age"])


def test_system_and_memory_errors_are_not_damage(tmp_path, monkeypatch):
    file = ParquetFile(written(tmp_path, table()))
    with monkeypatch.context() as patch:
        patch.setattr(parquet, "_batch_rows", lambda *_: (_ for _ in ()).throw(pa.ArrowMemoryError("malloc")))
        with pytest.raises(MemoryError):
            list(file.batches(["age"]))
    (tmp_path / "data").unlink()
    with pytest.raises(FileNotFoundError):
        list(file.batches(["age"]))
