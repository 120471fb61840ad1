"""How speed is measured and judged; nothing is timed here."""

from pathlib import Path

import pytest

from benchmarks.speed.measuring import make_data, measure_memory, take_turns


def test_contenders_take_turns():
    runs = []
    times = take_turns({"a": lambda: runs.append("a"), "b": lambda: runs.append("b")}, 3)
    assert runs == ["a", "b"] * 3
    assert list(times) == ["a", "b"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("estimator", ["forest", "boosting"])
def test_memory_is_measured_in_a_process_of_its_own(estimator):
    X, y = make_data(2000)
    memory = measure_memory(X, y, estimator)
    assert memory["input"] == X.nbytes
    assert memory["extra"] >= 0
