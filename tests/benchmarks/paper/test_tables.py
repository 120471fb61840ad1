"""The paper's tables: what is fitted, and when a number counts as reproduced."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.data import COMPLETE, NAMES
from benchmarks.paper import tables
from benchmarks.paper.fits import Results
from benchmarks.paper.published import FINAL_RUN
from benchmarks.paper.tables import Interval
from tests.benchmarks.paper.small_sets import named_set


def test_depths_are_those_of_the_protocol():
    assert [tables.depth(n, 25) for n in (5_287, 17_761, 43_383, 33_059, 720_000, 27_000, 4_910)] == [
        *(7, 9, 10, 10, 14, 10, 7)
    ]
    assert [tables.depth(n, 25, children=5) for n in (5_287, 17_761, 720_000, 90_000)] == [3, 4, 6, 5]
    assert [tables.depth(n, 25, parts=10) for n in (5_287, 17_761, 720_000, 88_200)] == [4, 6, 11, 8]
    assert tables.depth(1_234, 10) == 6


@pytest.mark.parametrize("name", ["metro", "credit"])
def test_cells_follow_the_protocol(name):
    plan = tables.cells(named_set(name), 10)
    classification = name == "credit"
    assert {method for method, _ in plan} == {*tables.METHODS} - (set() if classification else {"DP-DF"})
    for (method, column), fit in plan.items():
        assert fit.accounting == ("strict" if column != "as published" or method in ("RF", "ERT") else "paper")
        assert fit.partition == (method.startswith("DiPriMe") or method == "joint")
        assert fit.soft == (classification and (method, column) == ("DP-ERT", "as published"))
        assert fit.features == (2 if method in ("RF", "ERT", "Median", "DiPriMeExp", "DiPriMeFlip") else 1)
        if column == "strict, ε/10":
            assert fit.epsilon == 0.2
    assert math.isinf(plan["Median", "as published"].epsilon)
    assert plan["joint", "strict"].epsilon == 2
    assert ("joint", "as published") not in plan
    if classification:
        assert plan["DP-DF", "as published"].epsilon == 1


def test_intervals_meet_when_no_further_apart_than_both_half_widths():
    assert Interval(1.0, 0.25).meets(Interval(1.5, 0.25))
    assert not Interval(1.0, 0.25).meets(Interval(1.6, 0.25))
    scores = np.arange(10.0)
    assert Interval.of(scores).half_width == pytest.approx(2.262 * scores.std() / math.sqrt(10), rel=1e-3)
    assert str(Interval(0.0123456, 0.00034).times(100)) == "1.235 ± 0.034"
    assert str(Interval(1.0, 0.0)) == "1"


def test_published_numbers_are_complete():
    for name in NAMES:
        data = named_set(name)
        for method in tables.METHODS:
            there = tables.published(data, method)
            expected = method != "joint" and (method != "DP-DF" or data.task == "classification")
            assert (there is not None) == expected
    accuracy = tables.published(named_set("credit"), "RF")
    assert accuracy.mean == pytest.approx(1 - FINAL_RUN["credit"]["Random forest"].error)


def test_a_cell_is_outside_when_it_differs_and_only_on_the_papers_rows(tmp_path):
    results = Results(tmp_path / "kept.jsonl")
    sets = [named_set("credit"), named_set("higgs")]
    for data in sets:
        for (method, column), fit in tables.cells(data, 10).items():
            if column == "as published":
                there = tables.published(data, method)
                results.add(fit, [there.mean + (0.3 if method in ("DiPriMe", "DP-RF") else 0.0)] * 10)
    found = tables.compared(sets, results, 10)
    assert {data.name for data, *_ in found} == {"credit"}
    assert [method for _, method, meets in found if not meets] == ["DiPriMe"]
    report = tables.report(sets, results, 10, "this")
    assert "5 of 6 cells meet. Outside: DiPriMe on credit" in report
    assert report.count("✗") == 2


def test_claims_count_sets_where_a_mean_is_better(tmp_path):
    results = Results(tmp_path / "kept.jsonl")
    sets = [named_set("credit"), named_set("metro"), named_set("higgs")]
    for data in sets[:2]:
        for (method, column), fit in tables.cells(data, 10).items():
            good = {"joint": 0.0, "DP-RF": 0.001, "DiPriMeExp": 0.002}.get(method, 0.003)
            good += 1 if column == "strict, ε/10" else 0
            results.add(fit, [good if data.task == "regression" else 1 - good] * 10)
    text = tables.claims(sets, results, 10)
    now, tenth = text.split("At a tenth of it:")
    assert "is better than DP-ERT on 2 of 2 sets (credit, metro)" in now
    assert "DP-RF is better than the best of them on 2 of 2 sets" in now
    assert "at all of its ε, on 2 of 2 sets (credit, metro)" in now
    assert "at all of its ε, on 0 of 2 sets." in tenth


def test_quick_results_are_other_fits():
    data = named_set("credit")
    fit = tables.cells(data, 10)["RF", "as published"]
    assert replace(fit, repeats=1) == tables.cells(data, 1)["RF", "as published"]
    assert fit.key != replace(fit, repeats=1).key


def test_complete_sets():
    assert len(COMPLETE) == 8
