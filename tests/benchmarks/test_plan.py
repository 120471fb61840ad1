"""Planned costs of noise beside real ones."""

import re

import pytest

from benchmarks import plan
from benchmarks.data import NAMES
from benchmarks.paths import RESULTS
from benchmarks.plan import Case
from diprime.planning import PROMISE


@pytest.mark.parametrize(
    ("least", "most", "real", "verdict"),
    [
        (0.01, 0.1, 0.05, "within"),
        (0.01, 0.1, 0.104, "within"),
        (0.01, 0.1, 0.006, "within"),
        (0.01, 0.1, 0.25, "2.5 times above"),
        (0.1, 0.2, 0.02, "5.0 times below"),
        (0.0, 0.0, 0.01, "2.0 times above"),
        (0.1, 0.2, 0.0, "20.0 times below"),
    ],
)
def test_actual_cost_is_located_between_plans(least, most, real, verdict):
    assert Case("noise", "x", "forest", 1.0, "accuracy", least, most, real).verdict == verdict


def test_stated_accuracy_of_plans_matches_measurements():
    text = (RESULTS / "plan.md").read_text(encoding="utf-8")
    assert "from zero to three times the larger of these two costs (or to 0.015, if that is more)" in PROMISE
    rows = {
        cost: re.findall(rf"^\| {cost} \|.*\| [\d.]+ to ([\d.]+) \| ([\d.]+) \| (.*) \|$", text, re.MULTILINE)
        for cost in plan.COSTS
    }
    for cost, found in rows.items():
        assert len(found) == len(plan.KINDS) * len(plan.EPSILONS) * len(NAMES)
        within, above = (sum(verdict.endswith(end) for *_, verdict in found) for end in ("within", " times above"))
        assert f"Of {len(found)} real costs of {cost}, {within} are within the planned range, {above} above" in text
    for most, real, _ in rows["noise"]:
        assert float(real) <= 3 * max(float(most), 0.005)
    assert min(float(real) for _, real, _ in rows["noise"]) == 0
