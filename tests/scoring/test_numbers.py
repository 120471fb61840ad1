"""Scores of regressors: the tables, what a record adds to them, and exact scores without noise."""

import math

import numpy as np
import pytest

from diprime.domain.features import TARGET_UNITS
from diprime.scoring.numbers import (
    WEIGHT,
    NumberFacts,
    make_knots,
    plan_of_numbers,
    score_numbers,
    unseen_magnitude,
    weigh,
    weigh_targets,
)
from diprime.scoring.rows import N_NUMBERS, ScoredRows
from tests.scoring.made_rows import tables


def rows_of(targets):
    """Return rows with these targets, for which 2 is predicted."""
    return ScoredRows(targets, np.zeros_like(targets), np.full((len(targets), 1), 2.0))


FACTS = NumberFacts(0.0, 10.0, (2.0, 7.0), 4.0)


@pytest.mark.parametrize("largest", [0, 1, 2, 3, 100, 2867, TARGET_UNITS])
def test_knots_go_from_zero_to_the_largest_magnitude(largest):
    knots = make_knots(largest, 1.0)
    assert (knots[0], knots[1], knots[-1]) == (0, 1, max(largest, 1))
    assert np.all(np.diff(knots) > 0)
    assert np.all(knots[3:] <= 1.6 * knots[2:-1])
    assert len(make_knots(largest, math.inf)) == max(largest, 1) + 1


@pytest.mark.parametrize("largest", [1, 3, 100, TARGET_UNITS])
def test_record_weights_sum_to_one_unit_and_reproduce_its_square(largest):
    knots = make_knots(largest, 1.0)
    for magnitude in {0, 1, largest // 3, largest // 2, largest - 1, largest}:
        table = weigh(np.array([magnitude]), knots)
        assert table.sum() == WEIGHT
        assert table.min() >= 0
        assert (table > 0).sum() <= 2
        rounding = np.diff(knots**2).max() / (2 * WEIGHT)
        assert table @ knots**2 / WEIGHT == pytest.approx(magnitude**2, abs=rounding)


def test_every_record_changes_a_table_by_its_weight():
    """All magnitudes there are: L1 sensitivity is what is charged, never more."""
    knots = make_knots(TARGET_UNITS, 1.0)
    others = np.random.default_rng(0).integers(0, TARGET_UNITS, 50)
    before = weigh(others, knots)
    for magnitude in range(TARGET_UNITS + 1):
        after = weigh(np.append(others, magnitude), knots)
        assert np.abs(after - before).sum() == WEIGHT
    below, above = make_knots(1638, 1.0), make_knots(TARGET_UNITS - 1638, 1.0)
    before = weigh_targets(rows_of(others), 1638, below, above)
    for target in [*range(TARGET_UNITS + 1), N_NUMBERS, N_NUMBERS + TARGET_UNITS]:
        after = weigh_targets(rows_of(np.append(others, target)), 1638, below, above)
        assert np.abs(after - before).sum() == WEIGHT


def test_weights_bound_magnitudes_from_both_sides():
    knots = make_knots(TARGET_UNITS, 1.0)
    unseen = unseen_magnitude(knots)
    for magnitude in range(0, TARGET_UNITS + 1, 7):
        weights = weigh(np.array([magnitude]), knots) / WEIGHT
        rounding = TARGET_UNITS / WEIGHT
        assert weights @ knots <= magnitude + rounding
        assert magnitude <= weights @ (knots + unseen) + rounding


def made(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    predicted = rng.uniform(2, 7, n)
    targets = np.clip(predicted + rng.normal(0, 1.2, n), 0, 10)
    units = np.rint(targets / 10 * TARGET_UNITS).astype(np.int64)
    return ScoredRows(units, np.zeros(n, dtype=np.int64), predicted[:, None])


def test_without_noise_scores_are_exact():
    records = made()
    found = score_numbers(records, FACTS, tables(plan_of_numbers, math.inf), 0.95)
    targets, predicted = records.targets * 10 / TARGET_UNITS, records.scores[:, 0]
    errors = targets - predicted
    assert found.records.value == 3000
    assert found.mse.value == pytest.approx(np.mean(errors**2), rel=1e-3)
    assert found.mae.value == pytest.approx(np.mean(np.abs(errors)), rel=1e-3)
    assert found.r2.value == pytest.approx(1 - np.mean(errors**2) / np.var(targets), abs=1e-3)
    standard_error = np.std(errors**2) / math.sqrt(3000)
    assert found.mse.high - found.mse.low == pytest.approx(2 * 1.96 * standard_error, rel=0.05)


def test_tables_of_very_many_records_are_exact(monkeypatch):
    """Each record stands for 2^28 equal ones, which exceed what a bin of a histogram holds."""
    few = score_numbers(made(4096), FACTS, tables(plan_of_numbers, math.inf), 0.95)
    monkeypatch.setattr("diprime.scoring.numbers.weigh", lambda *arguments: weigh(*arguments) << 28)
    many = score_numbers(made(4096), FACTS, tables(plan_of_numbers, math.inf), 0.95)
    assert many.records.value == 2**40
    assert (many.mse.value, many.mae.value) == (few.mse.value, few.mae.value)
    assert many.r2.value == pytest.approx(few.r2.value, abs=1e-12)


def test_scores_of_few_records_are_unknown():
    found = score_numbers(made(5), FACTS, tables(plan_of_numbers, 0.05, 1), 0.95)
    assert (found.mse.low, found.mse.high) == pytest.approx((0, 100))
    assert (found.r2.value, found.r2.low, found.r2.high) == (None, -math.inf, 1)


def test_scores_of_no_records_are_unknown():
    found = score_numbers(made(0), FACTS, tables(plan_of_numbers, 1.0, 2), 0.95)
    assert (found.mse.value, found.mae.value, found.r2.value) == (None, None, None)
    assert (found.mse.low, found.mse.high) == pytest.approx((0, 100))


def test_targets_outside_the_range_are_clipped_and_counted():
    inside = made()
    targets = np.clip(inside.targets, 0, TARGET_UNITS)
    targets[:300], targets[300:600] = 0, TARGET_UNITS
    clipped = ScoredRows(targets, inside.decisions, inside.scores)
    targets = targets.copy()
    targets[:600] += N_NUMBERS
    outside = ScoredRows(targets, inside.decisions, inside.scores)
    plain, marked = (
        score_numbers(records, FACTS, tables(plan_of_numbers, math.inf), 0.95) for records in (clipped, outside)
    )
    assert (plain.outside_domain.value, marked.outside_domain.value) == (0, 0.2)
    assert (marked.mse, marked.mae) == (plain.mse, plain.mae)
    assert marked.r2.value == pytest.approx(plain.r2.value, abs=1e-12)


def test_errors_beyond_the_largest_possible_one_are_clipped():
    """Rounding may do that; sensitivity must not depend on it."""
    assert FACTS.largest_error == TARGET_UNITS - round(0.2 * TARGET_UNITS) + 1
    assert weigh(np.array([4000]), np.array([0, 1, 10]))[-1] == WEIGHT
