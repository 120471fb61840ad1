"""The report of searches: which sets count, and whether the bar is met."""

import math

import pytest

from benchmarks.search.measuring import CONTENDERS, Results, Run
from benchmarks.search.report import mean_error, pair_row, relative_to_best, report

REPEATS = CONTENDERS["pair, all"].repeats


@pytest.fixture
def results(tmp_path):
    results = Results(tmp_path / "search.jsonl")
    for title, contender in CONTENDERS.items():
        for repeat in range(contender.repeats):
            error = 0.3 if title == "depth 1" else 0.2
            results.runs[title, "banknote", repeat] = Run(title, "banknote", repeat, 1, error)
    return results


def test_the_bar_is_met_if_the_better_setting_was_chosen_nearly_always(results):
    row, met = pair_row(results, "banknote")
    assert met is True
    assert row[5] == f"{REPEATS} of {REPEATS}"
    for repeat in range(REPEATS // 10 + 1):
        results.runs["pair, all", "banknote", repeat] = Run("pair, all", "banknote", repeat, 0, 0.3)
    assert pair_row(results, "banknote")[1] is False
    assert "**MISSED**" in report(results, ["banknote"])


def test_sets_on_which_both_settings_are_alike_do_not_count(results):
    for repeat in range(CONTENDERS["depth 1"].repeats):
        results.runs["depth 1", "banknote", repeat] = Run("depth 1", "banknote", repeat, None, 0.21)
    assert pair_row(results, "banknote")[1] is None
    assert "on 0 of 0 sets" in report(results, ["banknote"])


def test_runs_that_were_not_made_are_missing_and_then_kept(results):
    del results.runs["default", "banknote", 0]
    assert math.isnan(mean_error(results, "default", "banknote"))
    assert list(results.missing(["banknote"])) == [Run("default", "banknote", 0)]
    results.put(Run("default", "banknote", 0, None, 0.1))
    assert Results(results.path).runs == results.runs


def test_errors_are_compared_with_the_best_way_to_choose():
    assert relative_to_best([[2.0, 1.0, 0.5], [4.0, 4.0, math.nan]]) == [2, 1, 0.5]
