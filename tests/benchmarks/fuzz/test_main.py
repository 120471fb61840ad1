"""Figures add up, and the command runs."""

import json
import re

import pytest

from benchmarks.fuzz.__main__ import fuzz


@pytest.mark.audit
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
