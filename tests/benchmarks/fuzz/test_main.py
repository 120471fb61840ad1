"""Figures add up, and the command runs."""

import json
import re

import pytest

from benchmarks.fuzz.__main__ import add, fuzz, note_end, report
from benchmarks.fuzz.watch import Figures


def test_figures_add_up():
    total = Figures()
    finding = {"times": 1, "text": "t", "file": "f"}
    for seconds in (0.5, 0.2):
        add(total, {"inputs": 2, "read": 1, "refused": 1, "seconds": seconds, "findings": {"x": finding}})
    assert (total.inputs, total.read, total.refused, total.seconds) == (4, 2, 2, 0.5)
    assert total.findings["x"]["times"] == 2


def test_the_end_of_the_process_is_a_finding(tmp_path):
    (tmp_path / "log").write_text("deadly signal")
    total = Figures()
    note_end(total, tmp_path, -6)
    assert (total.inputs, list(total.findings)) == (1, ["the process ended with code -6"])


def test_the_report_has_a_row_for_each_kind():
    text = report({"csv": vars(Figures(inputs=1234567)), "parquet": vars(Figures(ended=3))})
    assert "| csv | 1,234,567 | 0 | 0 | – |" in text
    assert "| parquet | 0 | 0 | 0 | 3 |" in text


def test_a_worker_runs(tmp_path):
    pytest.importorskip("atheris")
    figures = fuzz("domain", tmp_path, 300, 200)
    assert figures.inputs >= 300
    assert figures.inputs == figures.read + figures.refused
    assert figures.findings == {}
    more = fuzz("domain", tmp_path, 300, 200)
    kept = json.loads((tmp_path / "total.json").read_text())
    assert kept["inputs"] == figures.inputs + more.inputs, "figures add up over runs"
    assert re.match(r"20\d\d-\d\d-\d\d, ", kept["last_run"])
