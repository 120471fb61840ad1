"""The bars of the speed of the forest, from made-up times: nothing is timed here."""

import pytest

from benchmarks.speed import forest

GOOD = {"lightgbm": 10, "trees": 20, "default": 20, "predict": 3, "memory": 1, "scaling": 11, "start": 0.5}


@pytest.mark.parametrize(
    ("worse", "bar"),
    [
        ({}, None),
        ({"lightgbm": 9}, 0),
        ({"trees": 19}, 1),
        ({"default": 19}, 2),
        ({"predict": 2.9}, 3),
        ({"memory": 1.1}, 4),
        ({"scaling": 12}, 5),
        ({"start": 0.6}, 6),
    ],
)
def test_each_bar_is_about_its_own_ratio(monkeypatch, worse, bar):
    seen = {**GOOD, **worse}
    fit = {
        "pass": 0.1,
        "diprime, defaults": 1.0,
        "lightgbm": seen["lightgbm"],
        "trees": seen["trees"],
        "default": seen["default"],
    }
    answers = {
        "measure_fit": fit,
        "measure_predict": {"diprime, same size": 1.0, "peer": seen["predict"]},
        "measure_memory": {"extra": seen["memory"], "input": 1.0},
        "measure_start": {"ours": 1.0 + seen["start"], "import sklearn.ensemble": 1.0},
        "measure_scaling": {"rows": 1.0, "more rows": seen["scaling"]},
    }
    for name, answer in answers.items():
        monkeypatch.setattr(forest, name, lambda *_, answer=answer: answer)
    bars = [line for line in forest.report_forest([], [], 1, 1) if line.startswith("* ")]
    assert len(bars) == len(GOOD)
    assert [i for i, line in enumerate(bars) if line.startswith("* MISSED")] == ([] if bar is None else [bar])
