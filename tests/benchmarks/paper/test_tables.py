"""The paper's tables: what is fitted, and when a number counts as reproduced."""

import math

import pytest

from benchmarks.data import NAMES
from benchmarks.paper import tables
from benchmarks.paper.published import FINAL_RUN
from tests.benchmarks.paper.small_sets import named_set


def test_depths_match_the_protocol():
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


def test_published_numbers_are_complete():
    for name in NAMES:
        data = named_set(name)
        for method in tables.METHODS:
            there = tables.published(data, method)
            expected = method != "joint" and (method != "DP-DF" or data.task == "classification")
            assert (there is not None) == expected
    accuracy = tables.published(named_set("credit"), "RF")
    assert accuracy.mean == pytest.approx(1 - FINAL_RUN["credit"]["Random forest"].error)
