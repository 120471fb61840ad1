import math
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain.levels import ABSENT, UNLISTED, LevelIndex
from diprime.domain.tables import read_target


def positions(levels, values, dtype=np.float64):
    """Return the positions of the values of an array."""
    column = read_target(np.asarray(values, dtype=dtype))
    return LevelIndex(levels).finder(column, "y")(0, column.n_rows).tolist()


def objects(*values):
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def test_levels_of_any_type_are_found():
    values = objects("a", "b", 3, (1, 2), "c", None, math.nan, pd.NA, pd.NaT)
    expected = [1, 0, 2, 3, UNLISTED, ABSENT, ABSENT, ABSENT, ABSENT]
    assert positions(["b", "a", 3, (1, 2)], values, object) == expected


def test_values_that_cannot_be_hashed_or_compared_are_unlisted():
    class RaisesOnComparison:
        def __hash__(self):
            return hash("a")

        def __eq__(self, other):
            raise RuntimeError("no")

    values = objects({}, [], np.ones(3), RaisesOnComparison(), "a", Decimal("sNaN"), None)
    assert positions(["a"], values, object) == [UNLISTED, UNLISTED, UNLISTED, UNLISTED, 0, ABSENT, ABSENT]


def test_dates_among_objects_are_the_levels_that_their_text_is():
    class Hostile(date):
        def toordinal(self):
            raise RuntimeError("secret")

    values = objects(date(2020, 1, 31), pd.Timestamp("2020-01-31"), np.datetime64("2020-01-31", "ns"), "2020-01-31")
    assert positions(["x", "2020-01-31"], values, object) == [1, 1, 1, 1]
    values = objects(datetime(2020, 1, 31, 9, 30), date(2020, 2, 1), Hostile(2020, 1, 31), np.datetime64("NaT"))
    levels = ["2020-01-31", "2020-01-31 09:30:00"]
    assert positions(levels, values, object) == [1, UNLISTED, UNLISTED, ABSENT]
    assert positions(levels, objects(np.datetime64(10**9, "Y")), object) == [UNLISTED]
    assert positions([date(2020, 1, 31)], objects(date(2020, 1, 31)), object) == [0]


def test_numbers_match_levels_by_value():
    levels = [2, 0.5, 1]
    for dtype in (np.float64, np.float32, object):
        assert positions(levels, [1, 2, 0.5, 3, np.nan], dtype) == [2, 0, 1, UNLISTED, ABSENT]
    assert positions(levels, [1, 2, 3], np.int8) == [2, 0, UNLISTED]
    assert positions(levels, [True, False], bool) == [2, UNLISTED]
    assert positions([False, True], [0, 1, 2]) == [0, 1, UNLISTED]
    values = objects(np.int64(1), np.float32(0.5), np.bool_(True), np.str_("1"))
    assert positions(levels, values, object) == [2, 1, 2, UNLISTED]
    assert positions(["x", "y"], [0.0, 1.0, np.nan]) == [UNLISTED, UNLISTED, ABSENT]


@given(
    st.lists(
        st.integers(-200, 200) | st.floats(allow_nan=False) | st.sampled_from(["a", 0.1, np.nextafter(0.1, 1).item()]),
        min_size=1,
        max_size=300,
        unique_by=lambda v: v,
    ),
    st.lists(st.integers(-200, 200).map(float) | st.floats() | st.sampled_from([0.1, 0.1000001]), max_size=20),
    st.sampled_from([np.float64, np.float32]),
)
@settings(deadline=None)
def test_numbers_are_found_as_in_a_dict(levels, values, dtype):
    with np.errstate(over="ignore"):
        values = np.array([*values, *(v for v in levels if v != "a")], dtype=dtype)
    expected = []
    for v in values.tolist():
        expected.append(ABSENT if math.isnan(v) else levels.index(v) if v in levels else UNLISTED)
    assert positions(levels, values, dtype) == expected


def test_integers_that_float64_confuses_are_distinguished():
    levels = [2**53, 2**53 + 1, 10**400]
    assert positions(levels, [2**53 + 1, 2**53, 2**53 + 2], np.int64) == [1, 0, UNLISTED]
    assert positions([2**53 - 1], [2**53 - 1, 2**53, 2**53 + 1], np.int64) == [0, UNLISTED, UNLISTED]


@pytest.mark.parametrize(("levels", "values"), [(["0", "1"], [0, 1]), (["F"], [True]), ([0, 1], ["0", "1"])])
def test_a_dtype_that_cannot_hold_any_level_raises_an_error(levels, values):
    with pytest.raises(TypeError, match=r"y has dtype .*, but its levels in the domain are (text|numbers); list"):
        positions(levels, values, None)


def test_labels_are_looked_up_once():
    column = read_target(pd.Series(pd.Categorical(["z", "F", None], categories=["z", "F", "unused"])))
    assert LevelIndex(["F", "M"]).finder(column, "y")(0, 3).tolist() == [UNLISTED, 0, ABSENT]
