"""Whole numbers: each has its cell, or equally many share one, and codes follow the thresholds."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain import MISSING, Categorical, Domain, Integer, Numeric

YES_NO = Categorical(["no", "yes"])

ranges = (
    st.tuples(st.integers(-(2**53), 2**53), st.integers(1, 2**54) | st.integers(1, 600))
    .map(lambda pair: (pair[0], min(pair[0] + pair[1], 2**53)))
    .filter(lambda pair: pair[0] < pair[1])
)


def codes(feature, column):
    return Domain({"x": feature}, YES_NO).encode(column)[:, 0].tolist()


def objects(values):
    table = np.empty((len(values), 1), dtype=object)
    table[:, 0] = values
    return table


@given(ranges)
def test_cells_are_groups_of_equally_many_integers(ends):
    low, high = ends
    feature = Integer(low, high)
    firsts = [low, *feature.first_values, high + 1]
    sizes = np.diff(np.array(firsts, dtype=object))
    assert len(sizes) == feature.n_cells == min(high - low + 1, 255)
    assert max(sizes) - min(sizes) <= 1 <= min(sizes)
    assert feature.thresholds.tolist() == list(feature.first_values)


@given(ranges, st.data())
@settings(deadline=None)
def test_the_code_is_the_number_of_thresholds_at_or_below(ends, data):
    feature = Integer(*ends)
    near = st.sampled_from([*feature.first_values[:300], *ends]).flatmap(lambda t: st.integers(t - 2, t + 2))
    values = data.draw(st.lists((near | st.integers(-(2**53), 2**53)).filter(lambda v: abs(v) <= 2**53), min_size=1))
    expected = [sum(first <= value for first in feature.first_values) for value in values]
    assert codes(feature, np.array(values, dtype=np.int64)[:, None]) == expected
    assert codes(feature, np.array(values, dtype=np.float64)[:, None]) == expected
    assert codes(feature, objects(values)) == expected


def test_numbers_between_integers_count_as_the_lower_one():
    feature = Integer(-2, 3)
    values = [-9.0, -2.5, -2, -1.5, -0.1, 0, 0.5, 2.999, 3, 3.7, np.inf, np.nan]
    assert codes(feature, np.array(values)[:, None]) == [0, 0, 0, 0, 1, 2, 2, 4, 5, 5, 5, MISSING]


def test_all_containers_give_the_same_codes():
    feature, values = Integer(0, 23), [0, 6, 7, 23, 24, -1]
    expected = [0, 6, 7, 23, 23, 0]
    tables = [
        pd.DataFrame({"x": values}),
        pd.DataFrame({"x": pd.array(values, dtype="Int64")}),
        pl.DataFrame({"x": values}),
        pa.table({"x": values}),
        [[v] for v in values],
        [[str(v)] for v in values],
    ]
    for table in tables:
        assert codes(feature, table) == expected
    assert codes(feature, pl.DataFrame({"x": [None, 5]})) == [MISSING, 5]


def test_a_mixed_matrix_is_coded_as_its_columns_are():
    domain = Domain({"a": Numeric(0, 1), "h": Integer(0, 23), "b": Integer(0, 9999)}, YES_NO)
    X = np.random.default_rng(0).uniform(-2, 30, size=(500, 3)).round()
    X[:, 2] *= 400
    together = domain.encode(X)
    for j, (name, feature) in enumerate(domain.features.items()):
        assert np.array_equal(together[:, j], Domain({name: feature}, YES_NO).encode(X[:, [j]])[:, 0])
    assert np.array_equal(together, domain.encode(np.asfortranarray(X)))


def test_integers_beyond_2_to_the_53_are_rounded_as_their_thresholds_are():
    feature = Integer(2**60, 2**60 + 10_000)
    values = np.arange(2**60, 2**60 + 10_001, dtype=np.int64)
    found = codes(feature, values[:, None])
    exact = np.searchsorted(feature.first_values, values, side="right")
    assert np.abs(np.array(found) - exact).max() <= 256 / 39 + 1  # neighbouring float64 are 256 apart, cells 39
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((5, 5), "low = 5 is not below high = 5"),
        ((0, 2.5), "high = 2.5 is not a whole number"),
        (("0", 2), "low = '0' is not a whole number"),
        ((True, 2), "low = True is not a whole number"),
        ((0, float("nan")), "high = nan is not a whole number"),
        ((0, float("inf")), "high = inf is not a whole number"),
        ((0, 2**63), "does not fit in 64 bits"),
        pytest.param((0, 10**400), "does not fit in 64 bits", id="10^400"),
    ],
)
def test_wrong_bounds_are_refused(ends, words):
    with pytest.raises(ValueError, match=words):
        Integer(*ends)


def test_bounds_are_python_integers_and_pickles_leave_thresholds_out():
    feature = Integer(np.int32(0), 23.0)
    assert feature == Integer(0, 23)
    assert (type(feature.low), type(feature.high)) == (int, int)
    assert repr(feature) == "Integer(0, 23)"
    assert len(feature.thresholds) == 23
    assert b"thresholds" not in pickle.dumps(feature)
    assert pickle.loads(pickle.dumps(feature)) == feature


def test_a_target_is_not_an_integer():
    with pytest.raises(TypeError, match=r"target is Integer\(0, 9\); give Numeric"):
        Domain({"x": Integer(0, 9)}, Integer(0, 9))
