"""Planned costs of noise beside real ones."""

import re

import pytest

from benchmarks import plan
from benchmarks.data import NAMES
from benchmarks.paths import RESULTS
from benchmarks.plan import Case, report
from diprime.planning.plan import PROMISE
from tests.benchmarks.paper.small_sets import numeric_set


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
def test_where_a_real_cost_is(least, most, real, verdict):
    assert Case("x", "forest", 1.0, "accuracy", least, most, real).verdict == verdict


def test_the_page_counts_its_rows():
    cases = [Case("x", "forest", 1.0, "R²", 0.1, 0.2, real) for real in (0.15, 0.15, 0.6, 0.01, 0.02)]
    text = report(cases, 5)
    assert "2 are within the planned range, 1 above (by up to 3.0 times) and 2 below (by up to 10.0 times)" in text
    assert text.count("\n| x |") == 5


class FakePlan:
    measure = "R²"
    lost_to_noise = (0.0, 0.1)


@pytest.mark.parametrize("kind", plan.KINDS)
def test_costs_are_planned_for_the_rows_that_are_fitted(monkeypatch, kind):
    asked = []

    def fake_plan(domain, n_records, epsilon, *, boost):
        asked.append((n_records, epsilon, boost))
        return FakePlan()

    monkeypatch.setattr(plan.diprime, "plan", fake_plan)
    data = numeric_set("regression")
    case = plan.compare(data, kind, 100.0, 1)
    assert asked == [(len(data.X) - int(0.1 * len(data.X)), 100.0, kind == "boosting")]
    assert 0 <= case.real < 0.9
    assert (case.least, case.most) == (0.0, 0.1)


def test_what_plans_say_of_themselves_is_what_was_measured():
    text = (RESULTS / "plan.md").read_text(encoding="utf-8")
    assert "up to three times the most, which counts as 0.005 at least," in PROMISE
    for most, real in re.findall(r"\| [\d.]+ to ([\d.]+) \| ([\d.]+) \|", text):
        assert float(real) <= 3 * max(float(most), 0.005)
    costs = re.findall(r"\| [\d.]+ to [\d.]+ \| ([\d.]+) \|", text)
    assert len(costs) == len(plan.KINDS) * len(plan.EPSILONS) * len(NAMES)
    assert min(float(cost) for cost in costs) == 0
    within, above = text.count("| within |"), text.count(" times above |")
    assert f"Of {len(costs)} real costs, {within} are within the planned range, {above} above" in text
