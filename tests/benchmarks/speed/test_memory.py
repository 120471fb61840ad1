"""The files on which memory is measured are what the domain says."""

import polars as pl

from benchmarks.speed import memory


def test_rows_are_written_in_parts_under_one_header(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "ROWS_AT_A_TIME", 40)
    memory.write_data(tmp_path / "data.csv", 100)
    table = pl.read_csv(tmp_path / "data.csv")
    domain = memory.domain()
    assert table.shape == (100, 29)
    assert table.columns == [*domain.names, domain.target_name]
    assert set(table["y"]) == set(domain.target.levels)
    assert set(table["c0"]) == set(memory.COLOURS)
