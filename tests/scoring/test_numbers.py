"""Scores of regressors: the tables, what a record adds to them, and exact scores without noise."""

import math

import numpy as np
import pytest

from diprime.domain.codes import TARGET_UNITS
from diprime.scoring.numbers import (
    WEIGHT,
    NumberFacts,
    make_knots,
    plan_of_numbers,
    score_numbers,
    unseen_magnitude,
    weigh,
    weigh_signed,
)
from diprime.scoring.records import Records
from tests.scoring.made_records import tables

FACTS = NumberFacts(0.0, 10.0, (2.0, 7.0), 4.0)


@pytest.mark.parametrize("largest", [0, 1, 2, 3, 100, 2867, TARGET_UNITS])
def test_knots_go_from_zero_to_the_largest_magnitude(largest):
    knots = make_knots(largest, 1.0)
    assert (knots[0], knots[1], knots[-1]) == (0, 1, max(largest, 1))
    assert np.all(np.diff(knots) > 0)
    assert np.all(knots[3:] <= 1.6 * knots[2:-1])
    assert len(make_knots(largest, math.inf)) == max(largest, 1) + 1


@pytest.mark.parametrize("largest", [1, 3, 100, TARGET_UNITS])
def test_a_record_divides_its_weight_so_that_its_square_is_kept(largest):
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
    before = weigh_signed(others - 1638, below, above)
    for target in range(TARGET_UNITS + 1):
        after = weigh_signed(np.append(others, target) - 1638, below, above)
        assert np.abs(after - before).sum() == WEIGHT


def test_magnitudes_are_at_least_what_weights_say_and_at_most_a_known_bit_more():
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
    return Records(units, np.zeros(n, dtype=np.int64), predicted[:, None])


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


def test_few_records_say_nothing():
    found = score_numbers(made(5), FACTS, tables(plan_of_numbers, 0.05, 1), 0.95)
    assert (found.mse.low, found.mse.high) == pytest.approx((0, 100))
    assert (found.r2.low, found.r2.high) == (-math.inf, 1)


def test_no_records_are_no_mistake():
    found = score_numbers(made(0), FACTS, tables(plan_of_numbers, 1.0, 2), 0.95)
    assert math.isfinite(found.mse.value)
    assert math.isfinite(found.r2.value)


def test_errors_beyond_what_the_model_allows_are_clamped():
    """Rounding may do that; sensitivity must not depend on it."""
    assert FACTS.largest_error == TARGET_UNITS - round(0.2 * TARGET_UNITS) + 1
    assert weigh(np.array([4000]), np.array([0, 1, 10]))[-1] == WEIGHT
