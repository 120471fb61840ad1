"""The command line of ``python -m benchmarks.paper``."""

import pytest

from benchmarks.data import DatasetMissing
from benchmarks.paper import __main__ as paper
from tests.benchmarks.paper.small_sets import named_set


@pytest.mark.usefixtures("in_this_process")
def test_a_missing_set_is_named_and_the_rest_runs(tmp_path, monkeypatch, capsys):
    def load(name, directory):
        if name != "credit":
            raise DatasetMissing(f"Data set {name} is not here.")
        return named_set(name)

    monkeypatch.setattr(paper, "load", load)
    monkeypatch.setattr(paper, "CACHE", tmp_path)
    monkeypatch.setattr("benchmarks.paper.fits.load", load)
    paper.main(["tables", "--quick", "--only", "metro,credit", "--methods", "joint,RF"])
    printed = capsys.readouterr()
    assert "Left out: Data set metro is not here." in printed.err
    assert "### credit" in printed.out
    assert (tmp_path / "quick" / "tables.md").read_text(encoding="utf-8") in printed.out
    assert len((tmp_path / "quick" / "tables.jsonl").read_text().splitlines()) == 3


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        paper.main(["tables", "--only", "iris"])
    assert "'iris' is not one of parkinsons" in capsys.readouterr().err
