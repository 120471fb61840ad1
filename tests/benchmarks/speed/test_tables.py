"""Ratios and bars of the reports of speed."""

import pytest

from benchmarks.speed.tables import memory_line, table, verdict


def test_ratios_are_those_to_the_reference():
    assert "| b | 3.000 | 1.50 |" in table("Fit", {"a": 2.0, "b": 3.0}, "a")


def test_memory_is_shown_in_mebibytes():
    line = memory_line("the fit", {"extra": 3 * 2**20, "input": 5 * 2**20})
    assert line == "Peak extra memory of the fit: 3 MiB beside an input of 5 MiB."


@pytest.mark.parametrize(
    ("value", "at_least", "word"), [(10, True, "met"), (9, True, "MISSED"), (10, False, "met"), (11, False, "MISSED")]
)
def test_bars_are_met_at_their_limit(value, at_least, word):
    assert verdict("ratio", value, 10, at_least=at_least).startswith(f"* {word}: ratio")
