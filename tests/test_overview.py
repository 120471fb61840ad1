"""The first look: counts and a window of the target, their exact privacy loss, and what the ledger is told of them."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from goodness import fits
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import overview
from diprime.budget import Ledger
from diprime.histograms import TargetLayout, Window
from diprime.mechanisms import exp_upper, exponential_pmf, weight_table
from diprime.overview import (
    LEAST_WIDTH,
    ONE_IN,
    QUANTILE_RANGE,
    charge_counts,
    charge_window,
    release_counts,
    release_window,
    widened,
)
from diprime.randomness import RandomSource

NUMBER = TargetLayout.of_number(4096)
SMALL = TargetLayout.of_number(4)
EPSILONS = [Fraction(1, 7), Fraction(1), Fraction(4)]
TOO_LITTLE_NOISE = Fraction(143, 100)  # an epsilon that is this much larger has 30 % less noise


def as_target(values):
    return np.array(values, dtype=np.int32)


class Spy:
    """Stands in for a mechanism: keeps what it is called with, and lets it do its work."""

    def __init__(self, monkeypatch, name):
        self.calls = []
        self.original = getattr(overview, name)
        monkeypatch.setattr(overview, name, self)

    def __call__(self, *arguments):
        self.calls.append(arguments)
        return self.original(*arguments)


def costs_of(target, layout=SMALL):
    """Return the costs that a release of the window selects by."""
    with pytest.MonkeyPatch.context() as patch:
        spy = Spy(patch, "select")
        release_window(as_target(target), layout, Fraction(1), RandomSource(0))
    (rule, costs, _, streams), *none = spy.calls
    assert not none
    assert rule == "exponential"
    assert costs.shape == (2, layout.units)
    assert len(streams) == 2
    assert streams[0].tobytes() != streams[1].tobytes(), "the quantiles are drawn independently"
    return costs.tolist()


# -- the window: two quantiles -----------------------------------------------------------------------------------------


@given(st.lists(st.integers(-1, 4), max_size=40))
@settings(deadline=None, max_examples=60)
def test_the_costs_are_least_where_a_seventh_lies_below_and_above(target):
    valid = [v for v in target if v >= 0]
    low, high = costs_of(target)
    for threshold in range(4):
        below = sum(v <= threshold for v in valid)
        above = len(valid) - below
        assert low[threshold] == abs(6 * below - above)
        assert high[threshold] == abs(below - 6 * above)


@cache
def quantiles_pmfs(target, epsilon, cost_range):
    table = weight_table(epsilon, cost_range, SMALL.units)
    return [exponential_pmf(costs, table) for costs in costs_of(target)]


def all_are_close(epsilon, cost_range, sizes=range(5), copies=1):
    """Return whether each quantile of all small targets and their neighbours is epsilon-close, decided in integers."""
    bits = 100
    shrink = exp_upper(epsilon, bits)  # at least 2^bits·e^-epsilon: a bound that holds for it holds for e^-epsilon
    for size in sizes:
        for target in itertools.combinations_with_replacement(range(SMALL.units + 1), size):
            target = tuple(np.repeat(target, copies).tolist())
            for record in range(SMALL.units + 1):
                larger = tuple(sorted((*target, record)))
                pairs = zip(
                    quantiles_pmfs(target, epsilon, cost_range),
                    quantiles_pmfs(larger, epsilon, cost_range),
                    strict=True,
                )
                for first, second in pairs:
                    for p, q in zip(first, second, strict=True):
                        if p * shrink > q * 2**bits or q * shrink > p * 2**bits:
                            return False
    return True


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_each_quantile_of_a_neighbour_is_told_apart_by_its_epsilon_at_most(epsilon):
    """All targets of few records, and those with many times as many, one record added or removed."""
    assert all_are_close(epsilon, QUANTILE_RANGE)
    assert all_are_close(epsilon, QUANTILE_RANGE, sizes=range(1, 4), copies=7)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_range_that_is_shorter_by_a_third_is_found_out(epsilon):
    shorter = 7 * QUANTILE_RANGE // 10
    assert not (all_are_close(epsilon, shorter) and all_are_close(epsilon, shorter, sizes=range(1, 4), copies=7))


@given(st.lists(st.integers(0, 16), max_size=60), st.integers(0, 16))
@settings(deadline=None, max_examples=80)
def test_a_record_moves_the_costs_of_a_quantile_within_the_range(target, record):
    layout = TargetLayout.of_number(16)
    change = np.array(costs_of([*target, record], layout)) - np.array(costs_of(target, layout))
    assert (np.ptp(change, axis=1) <= QUANTILE_RANGE).all()


def test_a_record_can_move_the_costs_by_all_of_the_range():
    """The record is below thresholds on either side of the seventh."""
    target = [1] + [3] * 20
    change = np.array(costs_of([*target, 0])) - np.array(costs_of(target))
    assert change[0].tolist() == [-6, -6, -6, 6]
    assert np.ptp(change[0]) == QUANTILE_RANGE


def test_quantiles_are_drawn_from_their_distribution_and_less_noise_is_noticed():
    target, draws = as_target([0, 1, 1, 2, 3, 3, 3, 4, 4, -1]), 3000
    table = weight_table(Fraction(1), QUANTILE_RANGE, SMALL.units)
    low, high = (exponential_pmf(costs, table) for costs in costs_of(target.tolist()))
    expected = np.zeros((SMALL.units + 1, SMALL.units + 1))
    for (a, p), (b, q) in itertools.product(enumerate(low), enumerate(high)):
        expected[min(a, b), max(a, b) + 1] += p * q

    def counts(epsilon):
        source, found = RandomSource(5), np.zeros(expected.shape)
        for _ in range(draws):
            window = release_window(target, SMALL, epsilon, source)
            found[window.low, window.high] += 1
        return found.ravel()

    assert fits(counts(Fraction(1)), expected.ravel())
    assert not fits(counts(Fraction(3)), expected.ravel())


TARGETS = {
    "none": [],
    "none valid": [-1, -1, -1],
    "all at the low end": [0] * 500,
    "all at the high end": [4096] * 500,
    "all alike": [1000] * 500,
    "both ends": [0] * 250 + [4096] * 250,
    "one": [17],
    "uniform": list(range(0, 4097, 8)),
}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(50)])
def test_a_window_is_inside_the_range_and_never_too_narrow(name, epsilon):
    source, least = RandomSource(1), round(LEAST_WIDTH * NUMBER.units)
    assert least == 16
    for _ in range(20):
        window = release_window(as_target(TARGETS[name]), NUMBER, epsilon, source)
        assert isinstance(window.low, int)
        assert isinstance(window.high, int)
        assert 0 <= window.low < window.high <= NUMBER.units
        assert window.high - window.low >= least


@pytest.mark.parametrize("units", [4096, 256, 16, 2])
def test_a_window_is_inside_the_range_and_wide_enough_wherever_the_quantiles_fall(monkeypatch, units):
    layout, least = TargetLayout.of_number(units), max(1, round(LEAST_WIDTH * units))
    near = sorted({t for t in [*range(20), units // 2, units // 2 + 3, *range(units - 20, units)] if 0 <= t < units})
    for picks in itertools.product(near, repeat=2):
        monkeypatch.setattr(overview, "select", lambda *_, picks=picks: np.array(picks))
        window = release_window(as_target([0]), layout, Fraction(1), RandomSource(0))
        assert 0 <= window.low <= min(picks) <= max(picks) < window.high <= units
        assert window.high - window.low >= least
        if max(picks) + 1 - min(picks) >= least:
            assert (window.low, window.high) == (min(picks), max(picks) + 1)


def test_a_window_holds_the_middle_of_many_records():
    target = np.random.default_rng(0).normal(1500, 100, size=20_000).astype(np.int32)
    window = release_window(target, NUMBER, Fraction(1), RandomSource(2))
    below, above = np.mean(target < window.low), np.mean(target > window.high)
    assert abs(below - 1 / ONE_IN) < 0.02
    assert abs(above - 1 / ONE_IN) < 0.02
    # A few records far away, or not valid, change next to nothing.
    odd = np.concatenate([target, np.full(50, 4096), np.full(20_000, -1)]).astype(np.int32)
    again = release_window(odd, NUMBER, Fraction(1), RandomSource(2))
    assert abs(again.low - window.low) < 10
    assert abs(again.high - window.high) < 10


def test_widening_stops_at_the_ends_of_the_range():
    assert widened(Window(5, 9), 2, SMALL) == Window(3, 4)
    assert widened(Window(100, 200), 0, NUMBER) == Window(100, 200)
    assert widened(Window(100, 200), 50, NUMBER) == Window(50, 250)
    assert widened(Window(100, 4000), 150, NUMBER) == NUMBER.whole == Window(0, 4096)


# -- counts ------------------------------------------------------------------------------------------------------------

LAYOUTS = {"number": NUMBER, "one": TargetLayout.of_classes(1), "three": TargetLayout.of_classes(3)}


@pytest.mark.parametrize("name", LAYOUTS)
def test_without_noise_counts_are_those_of_the_valid_records(name):
    layout = LAYOUTS[name]
    values = {"number": [0, 4096, 7, 7], "one": [0, 0, 0, 0], "three": [2, 0, 2, 2]}[name]
    expected = {"number": [4], "one": [4], "three": [1, 0, 3]}[name]
    target = as_target([-1, *values, -1])
    assert release_counts(target, layout, math.inf, RandomSource(0)).tolist() == expected
    assert release_counts(as_target([-1]), layout, math.inf, RandomSource(0)).tolist() == [0] * len(expected)
    assert release_counts(as_target([]), layout, math.inf, RandomSource(0)).tolist() == [0] * len(expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_record_adds_one_to_one_count(monkeypatch, name):
    layout = LAYOUTS[name]
    spy = Spy(monkeypatch, "discrete_laplace")
    valid = range(layout.n_outputs) if layout.units == 1 else (0, 1, 2048, 4096)
    for record in (-1, *valid):
        for target in ([], [0], [-1, 0, 0]):
            for values in (target, [*target, record]):
                release_counts(as_target(values), layout, Fraction(1, 3), RandomSource(0))
            (before, *first), (after, *second) = spy.calls[-2:]
            assert first[:2] == second[:2] == [Fraction(1, 3), 1], "epsilon and sensitivity"
            assert before.shape == after.shape
            assert np.abs(after - before).sum() == (record >= 0)


def test_counts_have_the_noise_that_was_charged():
    target, q = as_target([0] * 10 + [2] * 5 + [-1]), math.exp(-1 / 2)
    p = np.array([(1 - q) / (1 + q) * q ** abs(x) for x in range(-4, 5)])

    def found(epsilon):
        source, counts = RandomSource(3), np.zeros((3, 10))
        for _ in range(3000):
            noise = release_counts(target, LAYOUTS["three"], epsilon, source) - [10, 0, 5]
            for i, x in enumerate(noise):
                counts[i, x + 4 if abs(x) <= 4 else 9] += 1
        return counts

    assert all(fits(counts, [*p, 1 - p.sum()]) for counts in found(Fraction(1, 2)))
    assert not any(fits(counts, [*p, 1 - p.sum()]) for counts in found(Fraction(1, 2) * TOO_LITTLE_NOISE))


# -- charges -----------------------------------------------------------------------------------------------------------


def test_the_window_is_charged_for_what_its_selection_is_made_for(monkeypatch):
    epsilon, ledger = Fraction(1, 50), Ledger(Fraction(1))
    charge_window(ledger, epsilon)
    (charge,) = ledger.charges
    table, select = Spy(monkeypatch, "weight_table"), Spy(monkeypatch, "select")
    release_window(as_target([1, 2, 3]), NUMBER, epsilon, RandomSource(0))
    assert table.calls == [(epsilon, QUANTILE_RANGE, NUMBER.units)]
    ((_, costs, used, _),) = select.calls
    assert used is weight_table(epsilon, QUANTILE_RANGE, NUMBER.units)
    assert charge.bound == f"cost range {QUANTILE_RANGE}"
    assert charge.times == len(costs) == 2
    assert charge.epsilon == epsilon
    assert ledger.total == 2 * epsilon


@pytest.mark.parametrize("name", LAYOUTS)
def test_counts_are_charged_for_the_noise_that_they_get(monkeypatch, name):
    epsilon, ledger = Fraction(1, 50), Ledger(Fraction(1))
    charge_counts(ledger, LAYOUTS[name], epsilon)
    (charge,) = ledger.charges
    laplace = Spy(monkeypatch, "discrete_laplace")
    release_counts(as_target([0, 0]), LAYOUTS[name], epsilon, RandomSource(0))
    ((_, used, sensitivity, _),) = laplace.calls
    assert (charge.epsilon, charge.times) == (used, 1) == (epsilon, 1)
    assert charge.bound == f"L1 sensitivity {sensitivity}"
    assert charge.what == ("row count" if name == "number" else "class counts")
    assert ledger.total == epsilon
