"""Errors in integers: what they are, and by how much one record changes them."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from diprime import Categorical, Domain, Numeric
from diprime._util.threads import Threads
from diprime.domain.batches import EncodedBatches
from diprime.engines.partition import Partition
from diprime.engines.persons import UsedRecords
from diprime.search.errors import clip_of, error, error_range
from tests.small_data import DOMAINS, TASKS, boost, fit, make

ONE = Threads(1)
CLASSES = Domain({"x": Numeric(0, 1)}, Categorical(["c", "a", "b"]))  # not sorted
NUMBERS = Domain({"x": Numeric(0, 1)}, Numeric(-10, 30))


def part_of(target):
    return Partition(
        EncodedBatches(1, [np.zeros((len(target), 1), dtype=np.uint8)]), UsedRecords(np.array(target, dtype=np.int32))
    )


def model_that_says(decisions=None, numbers=None):
    forest = SimpleNamespace(
        decide=lambda rows, threads: np.array(decisions, dtype=int),
        predict=lambda rows, threads: np.array(numbers, dtype=float)[:, None],
    )
    return SimpleNamespace(forest_=forest)


def test_wrong_classes_are_counted_whatever_their_order_in_the_domain():
    # Decisions count the sorted classes, and targets those of the domain.
    model = model_that_says(decisions=[0, 1, 2, 2, 0])  # a, b, c, c, a
    target = [1, 2, 0, 1, -1]  # a, b, c, a, none
    assert error(model, part_of(target), CLASSES, ONE) == 1


def test_squared_residuals_are_clipped_and_added_up():
    units, clip = NUMBERS.layout.units, clip_of(NUMBERS.layout)
    values = np.array([-10.0, 0, 30, 30, 5])
    target = NUMBERS.encode_target(values)
    predicted = values + np.array([0, 4, -40, -1, 7])
    target[4] = -1
    exact = (0.1 * units) ** 2 + clip**2 + (units / 40) ** 2
    found = error(model_that_says(numbers=predicted), part_of(target), NUMBERS, ONE)
    assert found == pytest.approx(exact / (clip**2 / units), abs=1 + 2 * units / 8)


def test_small_residuals_are_not_rounded_away_one_by_one():
    n, units = 4000, NUMBERS.layout.units
    residual = 5  # in units: far below one after division
    target = np.full(n, 1000)
    predicted = np.full(n, -10 + 40 * (1000 + residual) / units)
    assert error(model_that_says(numbers=predicted), part_of(target), NUMBERS, ONE) == n * residual**2 // 256


def test_predictions_outside_the_range_count_as_its_ends():
    model = model_that_says(numbers=[-500.0, 500.0])
    assert error(model, part_of([0, NUMBERS.layout.units]), NUMBERS, ONE) == 0


@pytest.mark.parametrize("domain", [CLASSES, NUMBERS])
def test_one_record_changes_the_error_by_an_amount_in_the_range(domain):
    """Over all records with coarse targets and predictions, added to several parts."""
    units = domain.layout.units
    classes = domain.task == "classification"
    values = range(-1, 3) if classes else [-1, 0, 1, 700, 1024, 1025, units - 1, units]
    said = range(3) if classes else [-10, -9.9, 0.0, 11.1, 30]
    changes = set()
    for records in [(), ((values[2], said[0]),), tuple(zip(values[-3:], said[-3:], strict=True))]:
        for record in itertools.product(values, said):
            errors = []
            for some in (records, (*records, record)):
                target, predictions = [r[0] for r in some], [r[1] for r in some]
                model = model_that_says(**{"decisions" if classes else "numbers": predictions})
                errors.append(error(model, part_of(target), domain, ONE))
            changes.add(errors[1] - errors[0])
    assert min(changes) == 0
    assert max(changes) == error_range(domain.layout), "and the range is not wasted"


@pytest.mark.parametrize("learn", [fit, boost])
@pytest.mark.parametrize("task", TASKS)
def test_the_error_is_that_of_predictions(task, learn):
    X, y = make(task, 500)
    model, domain = learn(task, X, y, epsilon=20), DOMAINS[task]
    part = Partition(EncodedBatches(domain.n_features, [domain.encode(X)]), UsedRecords(domain.encode_target(y)))
    found = error(model, part, domain, ONE)
    if task == "classification":
        assert found == (model.predict(X) != y).sum()
    else:
        residuals = np.minimum(np.abs(model.predict(X) - y) / 10, 0.25)
        assert found == pytest.approx((residuals**2).sum() * 16 * 4096, rel=0.01)


@pytest.mark.parametrize("domain", [CLASSES, NUMBERS])
def test_the_records_of_a_person_change_the_error_by_at_most_the_range_of_persons(domain):
    """Up to three records, whose weights add up to W, with every target and decision that matters."""
    layout = domain.layout.of_persons(3)
    targets = range(3) if domain is CLASSES else (0, 1, layout.units // 8, layout.units // 4, layout.units)
    largest = 0
    for own in itertools.product(targets, repeat=2):
        for weights in ([6], [3, 3], [2, 4]):
            errors = []
            for shown in (0, len(weights)):
                target = [1, *own[:shown]][: 1 + shown]
                part = part_of(target)
                used = UsedRecords(part.records.target, np.array([5, *weights][: len(target)], dtype=np.uint8))
                model = model_that_says([0] * len(target), [-10.0] * len(target))
                errors.append(error(model, Partition(part.rows, used), domain, ONE))
            assert 0 <= errors[1] - errors[0] <= error_range(layout)
            largest = max(largest, errors[1] - errors[0])
    assert largest == error_range(layout)
