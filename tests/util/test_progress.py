"""The progress bar of long fits."""

import itertools

import pytest

import diprime._util.resources
from diprime._util.resources import Progress
from tests.small_data import fit, make


@pytest.fixture
def clock(monkeypatch):
    """Let the clock advance by one second each time it is read."""
    seconds = itertools.count()
    monkeypatch.setattr(diprime._util.resources.time, "monotonic", lambda: float(next(seconds)))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("disjoint_rows", "levels"), [(True, 3), (False, 6)])
def test_progress_shows_levels_without_number_of_rows(capsys, disjoint_rows, levels):
    fit(
        "classification",
        *make("classification", 977),
        n_estimators=2,
        max_depth=3,
        verbose=1,
        disjoint_rows=disjoint_rows,
    )
    out, err = capsys.readouterr()
    assert out == ""
    drawn = err.rstrip("\n").split("\r")[1:]
    assert len(drawn) == levels
    assert drawn[0].startswith("Growing trees [")
    assert drawn[0].endswith(f"] 1/{levels} levels")
    assert drawn[-1] == f"Growing trees [{'#' * 30}] {levels}/{levels} levels"
    assert err.endswith("\n")
    assert "977" not in err


def test_progress_bar_appears_after_delay(capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr(diprime._util.resources.time, "monotonic", lambda: now)
    progress = Progress(4, "levels", shown=True)
    progress.advance()
    assert capsys.readouterr().err == ""
    now = 10.0
    progress.advance()
    assert capsys.readouterr().err == f"\rGrowing trees [{'#' * 15}{'.' * 15}] 2/4 levels"
    progress.advance()
    progress.advance()
    assert capsys.readouterr().err.endswith(f"[{'#' * 30}] 4/4 levels\n")
