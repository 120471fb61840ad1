"""Keys of persons repeat otherwise than codes and quantities do."""

import numpy as np
import polars as pl
import pytest

from diprime.cli import repeats
from diprime.cli.repeats import Repeats, is_name_of_key


def counted(values, n_batches=1):
    found = Repeats()
    for batch in np.array_split(np.asarray(values), n_batches):
        found.update(pl.Series(batch))
    return found


def are_keys(values, name="column", whole_numbers=True):
    return counted(values, 3).are_keys(name, whole_numbers=whole_numbers)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("id", True), ("ID", True), ("patient_id", True), ("patientId", True), ("patient_nbr", True), ("row key", True),
     ("bid", False), ("paid", False), ("idle", False), ("number_of_visits", False), ("monkey", False), ("", False)],
)  # fmt: skip
def test_names_of_keys(name, expected):
    assert is_name_of_key(name) is expected


def test_batches_are_counted_together():
    values = np.arange(1000) % 300
    together, apart = counted(values), counted(values, 7)
    assert together.n_different == apart.n_different == 300
    assert not together.has_frequent
    assert counted([*values, *[5] * 10], 7).has_frequent


@pytest.mark.parametrize("whole_numbers", [True, False])
def test_various_values_of_which_none_is_frequent_are_keys(whole_numbers):
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 1500, 2000)
    assert 0.5 < len(set(keys)) / 2000 < 0.9
    assert are_keys(keys, whole_numbers=whole_numbers)
    assert not are_keys(keys % 250, whole_numbers=whole_numbers)


def test_numbers_with_a_frequent_value_are_quantities():
    bills = np.where(np.arange(2000) % 40, np.arange(2000), 0)
    assert not are_keys(bills)
    assert are_keys(bills, whole_numbers=False)  # names, most of which are different


def test_texts_repeat_less_often_than_codes_do():
    four_records_each = np.arange(2000) // 4
    assert are_keys(four_records_each, whole_numbers=False)
    assert not are_keys(four_records_each)
    codes = np.where(np.arange(2000) % 3, four_records_each, 0)
    assert not are_keys(codes, whole_numbers=False)


def test_a_name_decides_where_there_are_more_values_than_a_code_has():
    numbers = np.arange(9000) // 10
    assert are_keys(numbers, "subject_id")
    assert not are_keys(numbers, "distance")
    assert not are_keys(numbers % 200, "subject_id")


def test_what_is_kept_of_a_column_is_bounded(monkeypatch):
    monkeypatch.setattr(repeats, "MAX_COUNTED", 500)
    found = counted(np.arange(100_000), 200)
    assert found.n_different == 1000
    assert found.are_keys("column", whole_numbers=True)
