"""The search finds an event where there is one, by single numbers and by learnt statistics."""

import numpy as np
import pytest

from benchmarks.audit.bounds import Seen
from benchmarks.audit.events import Event, Reader, Statistic, best_event


def bound(seen):
    return seen.epsilon(0.01)


def test_event_is_counted_on_both_sides():
    statistic = Statistic("x", np.array([0.0, 1, 2, 3]), np.array([2.0, 3, 3]))
    assert Event("x", 2, True, True).seen(statistic) == Seen(3, 3, 2, 4)
    assert Event("x", 2, False, False).seen(statistic) == Seen(2, 4, 0, 3)
    assert str(Event("x", 2.5, False, True)) == "x < 2.5"


def test_best_statistic_is_chosen_with_threshold_and_direction():
    rng = np.random.default_rng(0)
    noise = Statistic("noise", rng.normal(size=1000), rng.normal(size=1000))
    telling = Statistic("telling", rng.normal(size=1000), rng.normal(-3, 1, size=1000))
    event = best_event([noise, telling], bound)
    assert event.statistic == "telling"
    assert -4 < event.threshold < 1
    seen = event.seen(telling)
    assert bound(seen) > 2
    assert event.at_least is (not event.with_canary)


@pytest.mark.audit
@pytest.mark.parametrize("title", ["logistic regression", "boosted trees"])
def test_learnt_statistic_combines_numbers(title):
    rng = np.random.default_rng(1)
    shift = 0.8 if title == "logistic regression" else 0.0

    def side(sign):
        numbers = rng.normal(size=(3000, 4)) + sign * shift / 2
        if title == "boosted trees":  # the signs of two numbers agree on the one side, and differ on the other
            numbers[:, 1] = np.abs(numbers[:, 1]) * np.sign(numbers[:, 0]) * sign
        return numbers

    reader = Reader.learn("numbers", side(-1), side(1))
    statistics = reader.statistics(side(-1), side(1))
    assert best_event(statistics, bound).statistic == f"numbers, {title}"


@pytest.mark.audit
def test_constant_numbers_are_ignored_and_missing_ones_rank_lowest():
    without, with_it = np.ones((50, 3)), np.ones((50, 3))
    with_it[:25, 2] = np.nan
    reader = Reader.learn("numbers", without, with_it)
    assert reader.columns.tolist() == [2]
    first = reader.statistics(without, with_it)[0]
    assert first.name == "numbers, number 2"
    assert (first.with_it < 0).sum() == 25
    assert Reader.learn("numbers", without, without).statistics(without, without) == []
