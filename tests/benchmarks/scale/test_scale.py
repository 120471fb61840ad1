"""The benchmark of large files: its files are the same whatever their number, and its report is of what it measured."""

import argparse
import itertools
import json

import numpy as np
import polars as pl
import pytest

from benchmarks.scale import __main__ as scale
from benchmarks.scale import data, files, measuring


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
    for scratch in (None, str(tmp_path)):
        found = measuring.Fit(**measuring.fit_here(json.dumps([*fit, paths, scratch])))
        assert found.seconds > 0
        assert found.cpu_seconds > 0


def test_the_report_of_files_compares_with_rows_in_memory(monkeypatch, small, tmp_path):
    monkeypatch.setattr(files, "IN_MEMORY", 200)
    monkeypatch.setattr(
        files, "measure", lambda *_, scratch: measuring.Fit(18 if scratch else 9, 3 if scratch else 1, 5 << 20)
    )
    lines = list(files.report([400], tmp_path, [("forest", "regression")]))
    assert lines[-2] == "| forest, regression | 200 | memory | 9.0 | 1.0 | 5000.00 | 1.00 | 1.00 | 5 |"
    assert lines[-1].endswith("| 18.0 | 3.0 | 7500.00 | 1.50 | 1.00 | 5 |")
    assert not list(tmp_path.iterdir())


def test_short_fits_are_repeated_for_a_median(monkeypatch, small, tmp_path):
    monkeypatch.setattr(files, "IN_MEMORY", 200)
    times = iter([5, 1, 3, 7])
    monkeypatch.setattr(files, "measure", lambda *_, scratch: measuring.Fit(t := next(times), t, 5 << 20))
    lines = list(files.report([400], tmp_path, [("forest", "regression")]))
    assert "| memory | 3.0 | 3.0 |" in lines[-2]
    assert "| 7.0 | 7.0 |" in lines[-1]


def test_the_parts_that_are_chosen_run_and_are_kept(monkeypatch, tmp_path, capsys):
    def part(name):
        return scale.Part(lambda options: iter([name, str(options.rows)]), f"{name}.md", lambda options: 2.0)

    monkeypatch.setattr(scale, "PARTS", {name: part(name) for name in "abc"})
    monkeypatch.setattr(scale, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["scale", "--parts", "a", "c", "--rows", "7", "--write"])
    scale.main()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.md": "a\n[7]\n", "c.md": "c\n[7]\n"}
    assert "about 4 minutes" in capsys.readouterr().err


def test_a_part_that_fails_keeps_what_it_measured(monkeypatch, tmp_path):
    def report(options):
        yield "one"
        raise RuntimeError

    monkeypatch.setattr(scale, "RESULTS", tmp_path)
    with pytest.raises(RuntimeError):
        scale.run(scale.Part(report, "a.md", float), argparse.Namespace(write=True))
    assert (tmp_path / "a.md").read_text() == "one\n"


def test_every_part_says_how_long_it_takes():
    options = argparse.Namespace(rows=[100_000_000], dask_rows=10_000_000, spark_rows=1_000_000)
    assert all(0 < part.minutes(options) < 25 for part in scale.PARTS.values())
