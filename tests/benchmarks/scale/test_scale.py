"""The benchmark of large files: its files are the same whatever their number, and its report is of what it measured."""

import itertools
import json

import numpy as np
import polars as pl
import pytest

from benchmarks.scale import data, measuring


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(data, "ROW_GROUP", 100)
    monkeypatch.setattr(data, "ROWS_OF_FILE", 300)


def test_files_contain_row_groups_in_order(small, tmp_path):
    paths = data.write_files(tmp_path, 750)
    assert [pl.read_parquet(path).height for path in paths] == [300, 300, 150]
    table = pl.concat([pl.read_parquet(path) for path in paths])
    expected = [data.row_group(number, size) for number, size in enumerate([100] * 7 + [50])]
    for name in table.columns:
        assert np.array_equal(table[name], np.concatenate([group[name] for group in expected]))
    longer = pl.concat([pl.read_parquet(path) for path in data.write_files(tmp_path, 900)])
    assert longer[:700].equals(table[:700])


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("fit", list(itertools.islice(measuring.MODELS, 2)))
def test_a_fit_is_measured_in_memory_and_from_files(small, fit, tmp_path):
    paths = [str(path) for path in data.write_files(tmp_path, 500)]
    for scratch in (None, str(tmp_path)):
        found = measuring.Fit(**measuring.fit_here(json.dumps([*fit, paths, scratch])))
        assert found.seconds > 0
        assert found.cpu_seconds > 0
