"""The report and the figure show what was measured."""

import pytest

from benchmarks.attacks.figure import COIN, OTHERS, draw
from benchmarks.attacks.reconstruction.measuring import DEFAULTS, INFORMED, NOT_PRIVATE
from benchmarks.attacks.report import averages, epsilon_text, report


def line(forest, epsilon, attack, error, repeat=0):
    facts = {"table": "made up", "n_rows": 25, "repeat": repeat, "forest": forest, "epsilon": epsilon}
    return {**facts, "attack": attack, "error": error, "exact": 0.5, "proven": forest != "none"}


RECONSTRUCTION = [
    line("none", "0", COIN, 0.3),
    line("none", "0", OTHERS, 0.2),
    line(DEFAULTS, "1.0", INFORMED, 0.1),
    line(DEFAULTS, "1.0", INFORMED, 0.3, repeat=1),
    line(NOT_PRIVATE, "inf", INFORMED, 0.0),
]


def test_errors_are_averaged_over_repeats():
    cell = averages(RECONSTRUCTION)["made up", "25", DEFAULTS, "1.0", INFORMED]
    assert cell == {"error": pytest.approx(0.2), "spread": pytest.approx(0.1), "exact": 0.5}


def test_every_section_has_its_table():
    evidence = {"epsilon": 1.0, "advantage": 0.5, "low": 0.4, "high": 0.6}
    member = {"learner": "tree", "fits": 50, "bound": 0.9, "power": 0.05, "power_bound": 0.2}
    text = report(
        {
            "reconstruction": RECONSTRUCTION,
            "membership": [{**member, "record": record, **evidence} for record in ("typical", "worst case")],
            "libraries": [{"attack": "seeds", "forest": "f", "trials": 9, "epsilon_at_least": 2.345, **evidence}],
        }
    )
    assert f"| {DEFAULTS} | 1 | {INFORMED} | 0.200, 50% |" in text
    assert "| tree | 1 | typical | 50 | 0.500 (0.400 to 0.600) | 0.900 | 0.050 | 0.200 |" in text
    assert "| tree | 1 | worst case | 50 | 0.500 (0.400 to 0.600) | 0.900 | 0.050 ± 0.087 | 0.200 |" in text
    assert "| seeds | f | 9 | 0.500 (0.400 to 0.600) | 2.35 |" in text


def test_infinity_is_written_as_such():
    assert [epsilon_text(e) for e in ("inf", "1.0", "0.1")] == ["∞", "1", "0.1"]


def test_the_same_results_give_the_same_figure_and_others_another(tmp_path):
    other = [{**measured, "error": measured["error"] / 2} for measured in RECONSTRUCTION]
    drawn = []
    for lines in (RECONSTRUCTION, RECONSTRUCTION, other):
        draw(lines, tmp_path / "drawn.svg")
        drawn.append((tmp_path / "drawn.svg").read_bytes())
    assert drawn[0] == drawn[1] != drawn[2]
