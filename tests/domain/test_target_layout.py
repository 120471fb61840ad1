"""How targets become integers that add up: every record is one vector of known norm, through whatever window."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain.target_layout import TargetLayout, Windows
from tests.engines.direct_counts import LAYOUTS, seen_through, vectors_of, windows_of


def added_up(layout, target, window=None):
    """Add up the bins of records as the kernels do."""
    adds = layout.contributions(window or layout.whole_range)
    bins = np.zeros(layout.n_columns, dtype=np.uint64)
    for value in target:
        bins[adds.columns[value]] += adds.amounts[0, value]
    return bins


# -- vectors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_record_is_a_vector_of_non_negative_entries_that_sum_to_the_units(name):
    layout = LAYOUTS[name]
    for value in {0, 1 % layout.n_targets, layout.n_targets // 2, layout.n_targets - 1}:
        vector = layout.vectors(added_up(layout, [value]))
        assert len(vector) == layout.n_outputs
        assert (vector >= 0).all()
        assert vector.sum() == layout.units
        assert (vector == vectors_of(np.array([value]), layout)[0]).all()


@pytest.mark.parametrize("n_classes", [1, 2, 3, 7])
def test_the_vector_of_classes_counts_each(n_classes):
    layout = TargetLayout.of_classes(n_classes)
    target = np.random.default_rng(n_classes).integers(0, n_classes, 50)
    vector = layout.vectors(added_up(layout, target))
    assert vector.tolist() == np.bincount(target, minlength=n_classes).tolist()
    assert vector.sum() == 50 * layout.units


def test_the_vector_of_numbers_is_the_rest_of_the_units_and_their_sum():
    layout = TargetLayout.of_number(4096)
    vector = layout.vectors(added_up(layout, [0, 4096, 1000, 7]))
    assert vector.tolist() == [4 * 4096 - 5103, 5103]
    through_a_window = layout.vectors(added_up(layout, [0, 4096, 1000, 7], windows_of((500, 1500))))
    assert through_a_window.tolist() == [2 * 4096 + 2048, 4096 + 2048]


@pytest.mark.parametrize("name", LAYOUTS)
def test_contributions_of_counts_add_one_to_the_column_of_the_value(name):
    layout = LAYOUTS[name]
    adds = layout.count_contributions()
    assert adds.columns.tolist() == list(range(layout.n_targets))
    assert adds.amounts.tolist() == [[1] * layout.n_targets]


# -- windows -----------------------------------------------------------------------------------------------------------

windows = st.tuples(st.integers(0, 4096), st.integers(0, 4096)).filter(lambda w: w[0] < w[1]).map(windows_of)


@given(windows)
@settings(deadline=None, max_examples=50)
def test_through_any_window_a_number_is_a_number_of_the_whole_range_by_its_own_value_alone(window):
    """One record is still one vector of norm ``units``: what bounds its influence does not depend on the window."""
    layout = LAYOUTS["number"]
    adds = layout.contributions(window)
    assert adds.columns.shape == (layout.units + 1,)
    assert adds.amounts.shape == (1, layout.units + 1)
    assert adds.amounts.dtype == np.uint64
    assert not adds.columns.any()
    assert (adds.amounts >> np.uint64(layout.shift) == 1).all(), "one row each"
    values = (adds.amounts[0] & np.uint64((1 << layout.shift) - 1)).astype(np.int64)
    assert (values >= 0).all()
    assert (values <= layout.units).all()
    assert (np.diff(values) >= 0).all()
    assert not values[: window.low[0] + 1].any()
    assert (values[window.high[0] :] == layout.units).all()
    everyone = np.zeros(layout.units + 1, dtype=np.int64)
    assert (values == seen_through(window, range(layout.units + 1), everyone, layout)).all()
    vectors = layout.vectors(adds.amounts[0, :, None])
    assert (vectors >= 0).all()
    assert (vectors.sum(axis=1) == layout.units).all()


def test_values_through_a_window_are_rounded_to_the_nearest_unit():
    """By fractions, so that the other tests need not trust their own rounding."""
    layout = TargetLayout.of_number(4)
    seen = layout.vectors(layout.contributions(windows_of((1, 4))).amounts[0, :, None])[:, 1].tolist()
    assert seen == [math.floor(4 * Fraction(max(v - 1, 0), 3) + Fraction(1, 2)) for v in range(5)] == [0, 0, 1, 3, 4]


@given(st.lists(windows, min_size=1, max_size=5))
@settings(deadline=None, max_examples=50)
def test_several_windows_are_a_table_each(several):
    layout = LAYOUTS["number"]
    together = Windows(*(np.concatenate([getattr(w, end) for w in several]) for end in ("low", "high")))
    assert len(together) == len(several)
    adds = layout.contributions(together)
    assert adds.columns.shape == (layout.units + 1,)
    np.testing.assert_array_equal(
        adds.amounts, np.concatenate([layout.contributions(window).amounts for window in several]), strict=True
    )


def test_windows_are_widened_each_by_its_own_amount_and_never_beyond_the_range():
    found = windows_of((0, 10), (500, 600), (4000, 4096), (30, 4090)).widened(np.array([3, 0, 7, 50]), 4096)
    assert found.low.tolist() == [0, 500, 3993, 0]
    assert found.high.tolist() == [13, 600, 4096, 4096]


def test_the_whole_range_leaves_numbers_as_they_are():
    layout = LAYOUTS["number"]
    whole = layout.whole_range
    assert (whole.low.tolist(), whole.high.tolist()) == ([0], [4096])
    assert layout.vectors(layout.contributions(whole).amounts[0, :, None])[:, 1].tolist() == list(range(4097))


@pytest.mark.parametrize("name", ["one class", "binary", "classes"])
def test_classes_are_the_same_through_any_window(name):
    layout = LAYOUTS[name]
    for windows in (layout.whole_range, windows_of((0, 1)), windows_of((2, 3)), windows_of((0, 1), (2, 3), (7, 9))):
        adds = layout.contributions(windows)
        assert adds.amounts.shape == (len(windows), layout.n_outputs)
        for amounts in adds.amounts:
            bins = np.zeros((layout.n_outputs, layout.n_columns), dtype=np.uint64)
            bins[np.arange(layout.n_outputs), adds.columns] = amounts
            assert (layout.vectors(bins) == np.eye(layout.n_outputs, dtype=np.int64)).all()


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_sums_at_the_largest_number_of_rows_do_not_run_into_each_other(name):
    layout = LAYOUTS[name]
    most = np.uint64(layout.max_rows)
    value = most * np.uint64(layout.units)
    assert int(value) < 1 << layout.shift
    assert int(most) < 1 << (64 - layout.shift)
    bins = np.array([[(most << np.uint64(layout.shift)) + value]], dtype=np.uint64)
    if layout.n_columns == 1:
        expected = [0, int(value)][: layout.n_outputs]
        assert layout.vectors(bins).tolist() == [expected if layout.n_outputs == 2 else [0]]


@pytest.mark.parametrize("name", ["binary", "number"])
def test_a_bin_holds_as_many_rows_as_are_allowed(name):
    layout = LAYOUTS[name]
    rows = layout.max_rows
    for value in (0, layout.units):
        total = rows * ((1 << layout.shift) + value)
        assert total < 1 << 64
        assert value * rows < 1 << layout.shift
        found = layout.vectors(np.array([total], dtype=np.uint64))
        assert found.tolist() == [rows * (layout.units - value), rows * value]


@pytest.mark.parametrize("max_records", [1, 2, 5])
def test_the_vectors_of_a_person_add_up_to_her_weight_times_the_units(max_records):
    for layout, units in ((TargetLayout.of_classes(3), 1), (TargetLayout.of_number(4096), 4096)):
        of_persons = layout.of_persons(max_records)
        assert of_persons.person_units == units * of_persons.person_weight
        assert of_persons.person_weight >= max_records


def test_too_many_classes_are_refused():
    assert TargetLayout.of_classes(1000).n_outputs == 1000
    with pytest.raises(ValueError, match="The target has 1001 classes; at most 1000 are supported"):
        TargetLayout.of_classes(1001)


@pytest.mark.parametrize(
    ("layout", "bits"),
    [(TargetLayout.of_classes(2), 31), (TargetLayout.of_classes(1000), 31), (TargetLayout.of_number(4096), 26)],
)
def test_no_bin_of_the_largest_number_of_rows_wraps_around(layout, bits):
    assert layout.max_rows < 1 << bits, "for more rows, kernels/scoring.py has no bound of its rounding"
    largest = int(layout.contributions(layout.whole_range).amounts.max())
    assert largest * layout.max_rows < 1 << 64
    assert layout.max_rows < 1 << (64 - layout.shift)
    assert layout.max_rows * layout.units < 1 << layout.shift
