"""The benchmark of large files: its files are the same whatever their number, and its report is of what it measured."""

import itertools
import json

import numpy as np
import polars as pl
import pytest

from benchmarks.scale import __main__ as scale
from benchmarks.scale import data, measuring


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(data, "ROW_GROUP", 100)
    monkeypatch.setattr(data, "ROWS_OF_FILE", 300)


def test_files_hold_the_row_groups_in_order(small, tmp_path):
    paths = data.write_files(tmp_path, 750)
    assert [pl.read_parquet(path).height for path in paths] == [300, 300, 150]
    table = pl.concat([pl.read_parquet(path) for path in paths])
    expected = [data.row_group(number, size) for number, size in enumerate([100] * 7 + [50])]
    for name in table.columns:
        assert np.array_equal(table[name], np.concatenate([group[name] for group in expected]))
    longer = pl.concat([pl.read_parquet(path) for path in data.write_files(tmp_path, 900)])
    assert longer[:700].equals(table[:700])


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("fit", list(itertools.islice(measuring.MODELS, 2)))
def test_a_fit_is_measured_in_memory_and_from_files(small, fit, tmp_path):
    paths = [str(path) for path in data.write_files(tmp_path, 500)]
    found = [
        measuring.Fit(**measuring.fit_here(json.dumps([*fit, paths, scratch, rows])))
        for scratch, rows in ((None, None), (str(tmp_path), 99))
    ]
    assert found[0].digest == found[1].digest
    assert all(one.seconds > 0 and one.cpu_seconds > 0 for one in found)


def test_models_that_differ_are_an_error(monkeypatch, small, tmp_path):
    digests = iter("aaba")
    monkeypatch.setattr(scale, "IN_MEMORY", 200)
    monkeypatch.setattr(scale, "measure", lambda *_, **__: measuring.Fit(1, 1, 1, next(digests)))
    with pytest.raises(AssertionError, match="differs"):
        list(scale.identity([("forest", "regression")], tmp_path))


def test_the_report_compares_with_rows_in_memory(monkeypatch, small, tmp_path):
    monkeypatch.setattr(scale, "IN_MEMORY", 200)
    monkeypatch.setattr(
        scale, "measure", lambda *_, scratch, **__: measuring.Fit(9, 3 if scratch else 1, 5 << 20, "same")
    )
    lines = list(scale.report([400], [("forest", "regression")], tmp_path))
    assert lines[-2] == "| forest, regression | 200 | memory | 9.0 | 1.0 | 5000.00 | 1.00 | 5 |"
    assert lines[-1].endswith("| 9.0 | 3.0 | 7500.00 | 1.50 | 5 |")
    assert not list(tmp_path.iterdir())
