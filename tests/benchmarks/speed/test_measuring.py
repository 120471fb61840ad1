"""How speed is measured and judged; nothing is timed here."""

from pathlib import Path

import pytest

from benchmarks.speed.__main__ import table, verdict
from benchmarks.speed.measuring import make_data, measure_memory, take_turns


def test_contenders_take_turns():
    runs = []
    times = take_turns({"a": lambda: runs.append("a"), "b": lambda: runs.append("b")}, 3)
    assert runs == ["a", "b"] * 3
    assert list(times) == ["a", "b"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_memory_is_measured_in_a_process_of_its_own():
    X, y = make_data(2000)
    memory = measure_memory(X, y)
    assert memory["input"] == X.nbytes
    assert memory["extra"] >= 0


def test_ratios_are_those_to_the_reference():
    assert "| b | 3.000 | 1.50 |" in table("Fit", {"a": 2.0, "b": 3.0}, "a")


@pytest.mark.parametrize(
    ("value", "at_least", "word"), [(10, True, "met"), (9, True, "MISSED"), (10, False, "met"), (11, False, "MISSED")]
)
def test_bars_are_met_at_their_limit(value, at_least, word):
    assert verdict("ratio", value, 10, at_least=at_least).startswith(f"* {word}: ratio")
