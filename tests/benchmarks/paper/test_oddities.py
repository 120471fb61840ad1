"""The reconstruction of the authors' code: each oddity does what it is said to do, and only that."""

import numpy as np
import pytest

from benchmarks.paper.fits import Results
from benchmarks.paper.odd_tables import ALL, OddFit, fits, ladder, odd_fit, ranges_of, report
from benchmarks.paper.oddities import NUMBERS, Forest, Oddities, _Grower, _subsets
from benchmarks.paper.tables import cells, published
from tests.benchmarks.paper.small_sets import named_set


def grower(rule="exponential", epsilon=10.0, oddities=(), categorical=(), classes=False):
    forest = Forest(
        rule,
        1,
        2,
        epsilon,
        partition=False,
        classes=classes,
        categorical=categorical,
        oddities=Oddities.only(*oddities),
    )
    empty = np.empty((0, 2))
    return _Grower(forest, empty, np.empty(0), empty, np.random.default_rng(0), np.empty(0))


def test_subsets_leave_out_the_first_level_and_the_empty_set():
    assert _subsets(3).tolist() == [[0, 0, 1], [0, 1, 0], [0, 1, 1]]
    assert len(_subsets(6)) == 2**5 - 1


def test_numbers_of_oddities():
    assert set(NUMBERS) == set(ALL)
    assert Oddities.only("floors") == Oddities(False, False, True, False)
    assert list(ladder("Median")) == ["none", "only 8", "only 17", "all"]
    assert list(ladder("DiPriMeExp")) == ["none", "only 7", "only 8", "only 9", "all"]


def test_17_the_true_median_puts_all_rows_on_one_side_where_a_value_is_frequent():
    values, possible = np.array([0.0, 0, 0, 1, 2]), np.array([0.0, 2])
    odd = grower("exact", oddities=["true_median"]).median(values, possible, 0)
    assert odd == 0
    assert (values >= odd).all()
    fair = grower("exact").median(values, possible, 0)
    assert 0 < fair < 1  # three rows below, two above


def test_8_a_categorical_split_is_judged_by_its_left_child_alone():
    y, up = np.array([0.0, 0, 0, 1]), np.array([True, True, False, False])
    assert grower(oddities=["left_twice"], categorical=[0]).quality(up, y, 0) == 0
    assert grower(categorical=[0]).quality(up, y, 0) == pytest.approx(2 * 0.25 / 4)
    assert grower(oddities=["left_twice"]).quality(up, y, 0) == pytest.approx(2 * 0.25 / 4)  # numeric: both


def test_9_floors_let_impossible_candidates_win():
    imbalances, lengths = np.array([4000.0, 4000, 3999]), np.array([1.0, 1, 0])
    floored = grower(oddities=["floors"])
    assert {floored.draw_median(imbalances, lengths) for _ in range(100)} == {0, 1, 2}
    fair = grower()
    assert {fair.draw_median(imbalances, lengths) for _ in range(100)} == {0, 1}


def test_7_empty_leaves():
    assert grower().leaf(np.empty(0)) == 0.5
    drawn = {grower_.leaf(np.empty(0)) for grower_ in [grower(oddities=["random_leaves"])] for _ in range(5)}
    assert len(drawn) == 5


def test_medians_are_drawn_as_the_exponential_mechanism_says():
    """Two intervals of lengths 1 and 3, imbalances 0 and 2: odds 1 to 3·e^(-ε/2·2) of the share of a median."""
    one = grower(epsilon=4.0)
    assert one.level_epsilon == 1.0
    draws = [one.draw_median(np.array([0.0, 2.0]), np.array([1.0, 3.0])) for _ in range(4000)]
    expected = 3 * np.exp(-1) / (1 + 3 * np.exp(-1))
    assert abs(np.mean(draws) - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000)


def test_leaves_are_noisy_means_and_clipped():
    y = np.array([0.0, 1, 1, 1])
    assert grower("exact").leaf(y) == 0.75
    for classes in (False, True):
        one = grower(epsilon=8.0, classes=classes)
        drawn = np.array([one.leaf(y) for _ in range(2000)])
        assert drawn.min() >= 0
        assert drawn.max() <= 1
        assert abs(np.median(drawn) - 0.75) < 0.02
        assert drawn.std() > 0.02


@pytest.mark.parametrize("method", ["Median", "DiPriMe", "DiPriMeExp", "DiPriMeFlip"])
@pytest.mark.parametrize("name", ["metro", "credit"])
@pytest.mark.parametrize("oddities", [(), ALL])
def test_forests_learn(method, name, oddities):
    data = named_set(name)
    fit = OddFit(name, method, 2, 4, 2, 1000.0, oddities)
    scores = fit.scores(data)
    assert scores == fit.scores(data)
    if data.task == "regression":
        assert max(scores) < data.y.var()
    else:
        assert min(scores) > max(data.y.mean(), 1 - data.y.mean())


def test_ranges_are_ends_of_numbers_and_levels_of_categories():
    data = named_set("credit")
    X, ranges, categorical = ranges_of(data)
    assert categorical == {3}
    assert ranges[0].tolist() == [X[:, 0].min(), X[:, 0].max()]
    assert ranges[3].tolist() == [0, 1, 2]


def test_the_report_says_which_oddity_makes_the_number(tmp_path):
    data = named_set("credit")
    there = published(data, "Median")
    measured, results = Results(tmp_path / "a.jsonl"), Results(tmp_path / "b.jsonl")
    measured.add(cells(data, 10)["Median", "as published"], [there.mean + 0.1] * 10)
    measured.add(cells(data, 10)["ERT", "as published"], [there.mean + 0.1] * 10)
    measured.add(cells(data, 10)["DP-DF", "as published"], [there.mean + 0.1] * 10)
    outside = [(data, "Median"), (data, "ERT")]
    for fit in results.missing(fits([data], outside, 10)):
        right = fit.method in ("ERT", "DP-DF") or "true_median" in fit.oddities
        results.add(fit, [published(data, fit.method).mean + (0 if right else 0.1)] * 10)
    text = report([data], outside, measured, results, 10)
    assert "4 of 4 cells meet" in text
    lines = [line for line in text.splitlines() if line.startswith("| oddities")]
    assert [line.split("|")[1].split(": ")[1].strip() for line in lines if "yes" in line] == ["only 17", "all"]
    assert "| 0.7808 | yes |" in text  # DP-DF at the root
    assert "| 40 repeats | 0.8136 | yes |" in text
    assert odd_fit(data, "Median", 10, ALL).depth == cells(data, 10)["Median", "as published"].depth
