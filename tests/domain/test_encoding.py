"""Codes of values, hash buckets and targets, and the integer vectors of targets."""

import math
import tracemalloc
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain import MISSING, OTHER, TARGET_UNITS, Categorical, Date, Domain, Numeric
from diprime.domain.columns import read_target
from diprime.domain.encoding import (
    ABSENT,
    UNLISTED,
    CategoryIndex,
    ClippingRanges,
    TargetLayout,
    bucket_of,
    plain_value,
)
from diprime.domain.records import MAX_RECORDS, PersonDigests, person_weight
from tests.execution.direct_counts import LAYOUTS, seen_through, vectors_of, windows_of
from tests.guarantees.leaks import things

YES_NO = Categorical(["no", "yes"])


def codes(feature, values, dtype=np.float64):
    """Encode one column with the public method."""
    column = np.asarray(values, dtype=dtype).reshape(-1, 1)
    return Domain({"x": feature}, YES_NO).encode(column)[:, 0].tolist()


def objects(*values):
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def by_thresholds(feature, values):
    return [MISSING if math.isnan(v) else sum(t <= v for t in feature.thresholds) for v in map(float, values)]


RANGES = [(0, 1), (17, 90), (-1, 1), (-1e-3, 1e6), (0.1, 0.3), (-1e307, 1e307), (0, 1e-300), (-90, -17), (0, 255)]
NUMERICS = [*(Numeric(*r) for r in RANGES), Numeric(0, 1e6, scale="log"), Numeric(1, 9, scale="log")]


@pytest.mark.parametrize("feature", NUMERICS, ids=repr)
def test_thresholds_are_first_floats_of_cells(feature):
    assert codes(feature, feature.thresholds) == list(range(1, 255))
    assert codes(feature, np.nextafter(feature.thresholds, -np.inf)) == list(range(254))


@given(
    st.sampled_from([*NUMERICS, Numeric(edges=[-1, 0, 5]), Numeric(2**53, 2**53 + 16)]),
    st.lists(st.floats(width=32), min_size=1, max_size=20),
)
@settings(deadline=None)
def test_codes_follow_thresholds_for_every_dtype(feature, values):
    assert codes(feature, values, np.float32) == codes(feature, values, np.float64) == by_thresholds(feature, values)
    assert codes(feature, values, object) == by_thresholds(feature, values)


def test_equal_numbers_of_any_dtype_have_equal_codes():
    feature = Numeric(-3, 100)
    values = [0, 1, 5, 99]
    expected = codes(feature, values)
    for dtype in (np.int8, np.int64, np.uint16, np.float16, np.longdouble, ">f4", ">i2"):
        assert codes(feature, values, dtype) == expected
    assert codes(feature, [False, True], bool) == expected[:2]


def test_out_of_range_is_clamped_and_minus_zero_is_zero():
    for feature in (Numeric(-5, 5), Numeric(0, 10), Numeric(1, 10, scale="log"), Numeric(0, 10, scale="log")):
        assert codes(feature, [-np.inf, -1e308, 1e308, np.inf, np.nan]) == [0, 0, 254, 254, MISSING]
        assert codes(feature, [-0.0]) == codes(feature, [0.0])
    assert codes(Numeric(edges=[-0.0]), [-0.0, 0.0, -1e-300]) == [1, 1, 0]


def test_codes_of_edges_count_edges_at_or_below():
    assert codes(Numeric(edges=[0, 18, 65]), [-1, 0, 17.9, 18, 65, 1e9, np.nan]) == [0, 1, 1, 2, 3, 3, MISSING]
    assert codes(Numeric(edges=range(254)), [-1, 0, 252, 253, np.inf]) == [0, 1, 253, 254, 254]


def test_more_than_254_categories_share_codes():
    feature = Categorical([f"l{i}" for i in range(600)])
    assert feature.n_codes == 254
    values = ["l0", "l253", "l254", "l255", "l599", "?"]
    assert codes(feature, values, object) == [0, 253, 0, 1, 599 % 254, OTHER]
    numbers = Categorical(range(600))
    assert codes(numbers, [0, 253, 254, 599, 600, np.nan]) == [0, 253, 0, 599 % 254, OTHER, MISSING]
    assert Domain({"x": Numeric(0, 1)}, feature).encode_target(values).tolist() == [0, 253, 254, 255, 599, -1]


@given(
    st.integers(0, 40),
    st.sampled_from([np.float32, np.float64, np.int16]),
    st.sampled_from(["C", "F", "slice", "reversed", "transposed", "readonly"]),
    st.integers(1, 3),
)
@settings(deadline=None)
def test_codes_do_not_depend_on_memory_layout_blocks_or_threads(n, dtype, layout, n_threads):
    domain = Domain(
        {"a": Numeric(-1, 3), "b": Numeric(0.1, 5, scale="log"), "c": Categorical([0, 1]), "d": Numeric(-2, 2)}, YES_NO
    )
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 4)).astype(dtype)
    if layout == "F":
        Z = np.asfortranarray(X)
    elif layout == "slice":
        Z = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    elif layout == "reversed":
        Z = X[::-1, ::-1].copy()[::-1, ::-1]
    elif layout == "transposed":
        Z = X.T.copy().T
    else:
        Z = X.copy()
        Z.flags.writeable = layout != "readonly"
    expected = [
        [int(domain.encode(X[i : i + 1, :].astype(np.float64).tolist())[0, j]) for j in range(4)] for i in range(n)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diprime.domain.encoding.BLOCK_ROWS", 7)
        patch.setattr("diprime.domain.domain.BLOCK_CODES", 1)
        result = domain.encode(Z, n_threads=n_threads)
        frame = domain.encode(pl.DataFrame(dict(zip("abcd", X.T, strict=True))), n_threads=n_threads)
    assert result.tolist() == frame.tolist() == expected


def test_encoding_copies_at_most_one_block():
    n = 200_000
    domain = Domain({"a": Numeric(-1, 3), "b": Numeric(1, 5, scale="log"), "c": Categorical([0, 1])}, YES_NO)
    base = np.random.default_rng(0).normal(size=(n, 3))
    tables = [base.astype(np.float32), np.asfortranarray(base), (base * 9).astype(np.int64), base[:, ::-1]]
    tables += [pl.DataFrame(base, schema=["a", "b", "c"]), pd.DataFrame(base, columns=["a", "b", "c"])]
    for X in tables:
        domain.encode(X[:10])
        tracemalloc.start()
        out = domain.encode(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak - out.nbytes < 8 * n, type(X)  # one float column


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.zeros((3, 3)), "X has 3 features, .* 2 features"),
        ([[1, 2, 3]], "X has 3 features"),
        (pd.DataFrame({"a": [1.0]}), r"X lacks column 'b'\."),
        (pd.DataFrame({"a": [1], "b": [1], "c": [1], "d": [1]}), "X .*columns 'c', 'd' outside"),
        (pl.DataFrame({"a": [1], "c": [1]}), "X lacks column 'b' .*1 other column outside"),
        (pd.DataFrame(np.zeros((1, 14))), "X lacks columns 'a', 'b' .*14 other columns outside"),
    ],
)
def test_wrong_columns_raise_value_error(X, words):
    with pytest.raises(ValueError, match=words):
        Domain({"a": Numeric(0, 1), "b": Numeric(0, 1)}, YES_NO).encode(X)


@given(st.floats(-1e300, 1e300), st.floats(1e-3, 1e300), st.lists(st.floats(), max_size=20))
@settings(deadline=None)
def test_numeric_targets_are_rounded_fractions_of_the_range(low, width, y):
    high = low + width
    if not low < high:
        return
    y = [*y, low, high, low / 2 + high / 2]
    result = Domain({"x": Numeric(0, 1)}, Numeric(low, high)).encode_target(y)
    assert result.dtype == np.int32
    for value, code in zip(y, result.tolist(), strict=True):
        if math.isnan(value):
            assert code == -1
        else:
            position = TARGET_UNITS * (min(max(value, low), high) - low) / (high - low) if width < 1e290 else None
            assert 0 <= code <= TARGET_UNITS
            assert position is None or abs(code - position) <= 0.5 + 1e-9
    assert result[-3:-1].tolist() == [0, TARGET_UNITS]


def test_numeric_targets_are_clamped_and_halves_go_to_even():
    domain = Domain({"x": Numeric(0, 1)}, Numeric(0, TARGET_UNITS))
    assert domain.encode_target([0.5, 1.5, np.inf, -np.inf]).tolist() == [0, 2, 4096, 0]


def positions(categories, values, dtype=np.float64):
    """Return the positions of the values of an array."""
    column = read_target(values if isinstance(values, pa.Array) else np.asarray(values, dtype=dtype))
    return CategoryIndex(categories).finder(column, "y")(0, column.n_rows).tolist()


def test_categories_of_any_type_are_found():
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


def test_dates_among_objects_match_categories_of_their_text():
    class Hostile(date):
        def toordinal(self):
            raise RuntimeError("secret")

    values = objects(date(2020, 1, 31), pd.Timestamp("2020-01-31"), np.datetime64("2020-01-31", "ns"), "2020-01-31")
    assert positions(["x", "2020-01-31"], values, object) == [1, 1, 1, 1]
    values = objects(datetime(2020, 1, 31, 9, 30), date(2020, 2, 1), Hostile(2020, 1, 31), np.datetime64("NaT"))
    categories = ["2020-01-31", "2020-01-31 09:30:00"]
    assert positions(categories, values, object) == [1, UNLISTED, UNLISTED, ABSENT]
    assert positions(categories, objects(np.datetime64(10**9, "Y")), object) == [UNLISTED]
    assert positions([date(2020, 1, 31)], objects(date(2020, 1, 31)), object) == [0]


def test_numbers_match_categories_by_value():
    categories = [2, 0.5, 1]
    for dtype in (np.float64, np.float32, object):
        assert positions(categories, [1, 2, 0.5, 3, np.nan], dtype) == [2, 0, 1, UNLISTED, ABSENT]
    assert positions(categories, [1, 2, 3], np.int8) == [2, 0, UNLISTED]
    assert positions(categories, [True, False], bool) == [2, UNLISTED]
    assert positions([False, True], [0, 1, 2]) == [0, 1, UNLISTED]
    values = objects(np.int64(1), np.float32(0.5), np.bool_(True), np.longdouble(2), Decimal("0.5"), Fraction(1, 2))
    assert positions(categories, values, object) == [2, 1, 2, 0, 1, 1]
    assert positions(["x", 1], [0.0, 1.0, np.nan]) == [UNLISTED, 1, ABSENT]


def test_text_matches_number_it_spells_unless_both_are_listed():
    assert positions([2, 1], objects("1", " 2.0", "1e0", "true", "one"), object) == [1, 0, 1, 1, UNLISTED]
    assert positions(["2", "1"], objects(1, 2.0, True, 3), object) == [1, 0, 1, UNLISTED]
    assert positions(["1", 1], objects("1", 1, "1.0"), object) == [0, 1, 1]
    assert positions(["01", "1"], objects("01", "1", "001", 1), object) == [0, 1, 0, 0]
    assert positions([" a", "a"], objects(" a", "a", "a "), object) == [0, 1, 1]


@given(
    st.lists(
        st.integers(-200, 200) | st.floats(-1e5, 1e5) | st.sampled_from(["a", 0.1, np.nextafter(0.1, 1).item()]),
        max_size=300,
        unique_by=lambda v: v,
    ).map(lambda categories: [*categories, 10**6]),
    st.lists(st.integers(-200, 200).map(float) | st.floats() | st.sampled_from([0.1, 0.1000001]), max_size=20),
    st.sampled_from([np.float64, np.float32]),
)
@settings(deadline=None)
def test_numbers_are_found_as_in_a_dict(categories, values, dtype):
    with np.errstate(over="ignore"):
        values = np.array([*values, *(v for v in categories if v != "a")], dtype=dtype)
    expected = []
    for v in values.tolist():
        expected.append(ABSENT if math.isnan(v) else categories.index(v) if v in categories else UNLISTED)
    assert positions(categories, values, dtype) == expected


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64, np.longdouble, object])
def test_integer_matches_category_of_nearest_float(dtype):
    assert positions([2**53 + 1, 2**53 + 2], [2**53, 2**53 + 1, 2**53 + 2, 2**53 + 4], dtype) == [0, 0, 1, UNLISTED]
    assert positions([2**53 - 1], [2**53 - 1, 2**53, 2**53 + 1], dtype) == [0, UNLISTED, UNLISTED]


@pytest.mark.parametrize("n", [126, 127, 128, 200])
def test_missing_numbers_are_missing_among_many_categories(n):
    assert positions(list(range(n)), [n - 1.0, np.nan, -1.0]) == [n - 1, ABSENT, UNLISTED]


@pytest.mark.parametrize("values", [[0, 1], [0.0, math.nan], [math.nan]])
@pytest.mark.parametrize("library", [np.array, pd.Series, pl.Series, pa.array])
def test_numbers_are_refused_where_all_categories_are_text(values, library):
    with pytest.raises(TypeError, match=r"y has dtype .*categories .*text\. .*as numbers"):
        CategoryIndex(["0", "1"]).finder(read_target(library(values)), "y")


@pytest.mark.parametrize("values", [["0", "1"], [b"0"]])
@pytest.mark.parametrize("library", [np.array, pl.Series, pa.array])
def test_text_and_bytes_are_refused_where_all_categories_are_numbers(values, library):
    with pytest.raises(TypeError, match=r"y has dtype .*categories .*numbers\. "):
        CategoryIndex([0, 1]).finder(read_target(library(values)), "y")


@pytest.mark.parametrize("values", [[True, False], [True, False, None]], ids=str)
@pytest.mark.parametrize("library", [np.array, pd.Series, pl.Series, pa.array])
def test_missing_boolean_does_not_change_errors(values, library):
    domain = Domain({"x": Date("2020-01-01", "2020-01-31")}, Categorical(["no", "yes"]))
    column = read_target(library(values))
    assert CategoryIndex(["false", "true"]).finder(column, "y")(0, 2).tolist() == [1, 0]
    assert domain.encode_target(library(values))[:2].tolist() == [-1, -1]
    assert domain.encode(pd.DataFrame({"x": values}))[:2].tolist() == [[255]] * 2
    one, other, *_ = PersonDigests(b"key").encode(library(values)).tolist()
    assert one != other != [0, 0] != one


BUCKETS = Domain({"a": Categorical(n_buckets=254)}, Numeric(0, 1))


def hashed(values):
    return BUCKETS.encode(values)[:, 0].tolist()


def test_hash_is_stable():
    """Model files rely on it."""
    assert [bucket_of(value, 254) for value in ("F", "M", "", "é", 7, 2.5)] == [195, 124, 146, 11, 229, 173]


def test_equal_values_share_a_bucket_whatever_their_type():
    same = hashed([[1], [1.0], [True], [np.int8(1)], [Decimal(1)], ["1"], ["1.0"], [" 01 "], ["1e0"], ["true"]])
    assert len(set(same)) == 1
    assert OTHER not in same
    assert len(set(hashed([[2**53], [2**53 + 1], [2.0**53], [str(2**53 + 1)], [f"{2**53}.0"]]))) == 1
    assert hashed([["1_000"]]) != hashed([[1000]])
    assert plain_value(1.0) == 1
    assert plain_value(b"bytes") is None


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_buckets_are_equal_in_all_tables(frame):
    values = ["F", "M", "unheard of"]
    assert hashed(frame({"a": values})) == hashed([[v] for v in values]) == hashed(np.array(values)[:, None])
    assert hashed(frame({"a": [3, 4]})) == hashed([["3"], ["4"]])


@pytest.mark.parametrize("column", [np.array([[b"x"]]), pl.DataFrame({"a": [b"x"]})])
def test_columns_of_bytes_are_refused(column):
    with pytest.raises(TypeError, match=r"has dtype .*bytes"):
        BUCKETS.encode(column)


def test_missing_values_and_objects_are_not_hashed():
    assert hashed([[None], [float("nan")], [object()], [b"x"], ["\ud800"]]) == [
        MISSING,
        MISSING,
        OTHER,
        OTHER,
        OTHER,
    ]


def test_dates_are_hashed_as_their_text():
    dates = [date(2020, 1, 31), pd.Timestamp("2020-01-31"), np.datetime64("2020-01-31"), "2020-01-31"]
    assert len(set(hashed([[v] for v in dates]))) == 1
    assert OTHER not in hashed(pd.DataFrame({"a": pd.Series(dates[:2], dtype=object)}))
    assert hashed([[datetime(2020, 1, 31, 9)]]) == hashed([["2020-01-31 09:00:00"]]) != hashed([["2020-01-31"]])
    for unit in ("s", "ms", "us", "ns"):
        whole = np.array([["2020-01-31"], ["2020-01-31T09:00"]], dtype=f"M8[{unit}]")
        assert (
            hashed(whole)
            == hashed(pd.DataFrame(whole, columns=["a"]))
            == hashed([["2020-01-31"], ["2020-01-31 09:00:00"]])
        )
    assert hashed([["2020-01-31T09:00:00.000Z"]]) == hashed([[datetime(2020, 1, 31, 9)]])
    assert hashed([[pd.NaT], [np.datetime64("NaT")], [np.datetime64(10**9, "Y")]]) == [MISSING, MISSING, OTHER]


def test_values_that_raise_are_encoded():
    class Hostile:
        def __str__(self):
            raise RuntimeError("secret")

        def __hash__(self):
            raise RuntimeError("secret")

        def __eq__(self, other):
            raise RuntimeError("secret")

    class HostileNumber(float):
        def __float__(self):
            raise RuntimeError("secret")

    assert hashed([[Hostile()], [HostileNumber(2.5)], ["F"]]) == [OTHER, OTHER, 195]


def test_domain_stores_no_encoded_value():
    domain = Domain({"a": Categorical(n_buckets=254)}, Numeric(0, 1))
    domain.encode([["a private value"]])
    texts = [thing for _, thing in things(domain) if isinstance(thing, str)]
    assert "bucket 0" in texts
    assert "a private value" not in texts


def test_buckets_have_names_and_survive_files():
    for back in (Domain.from_toml(BUCKETS.to_toml()), Domain.from_json(BUCKETS.to_json())):
        assert back == BUCKETS
    assert "n_buckets = 254" in BUCKETS.to_toml()
    assert Categorical(n_buckets=3).categories == ("bucket 0", "bucket 1", "bucket 2")
    assert repr(Categorical(n_buckets=3)) == "Categorical(n_buckets=3)"
    assert Categorical(n_buckets=3) != Categorical(["bucket 0", "bucket 1", "bucket 2"])


@pytest.mark.parametrize("buckets", [0, 255, -1, 2.5, True, "7"])
def test_invalid_numbers_of_buckets_raise_value_error(buckets):
    with pytest.raises(ValueError, match=rf"n_buckets .*1 to 254, got {buckets!r}"):
        Categorical(n_buckets=buckets)


def test_buckets_exclude_targets_and_categories():
    with pytest.raises(ValueError, match=r"target .*hash buckets"):
        Domain({"a": Numeric(0, 1)}, Categorical(n_buckets=3))
    with pytest.raises(ValueError, match=r"categories .*with n_buckets"):
        Categorical(["a"], n_buckets=3)


def added_up(layout, target, window=None):
    """Add up the bins of records as the kernels do."""
    adds = layout.contributions(window or layout.whole_range)
    bins = np.zeros(layout.n_columns, dtype=np.uint64)
    for value in target:
        bins[adds.columns[value]] += adds.amounts[0, value]
    return bins


@pytest.mark.parametrize("name", LAYOUTS)
def test_vectors_are_non_negative_and_sum_to_units(name):
    layout = LAYOUTS[name]
    for value in {0, 1 % layout.n_targets, layout.n_targets // 2, layout.n_targets - 1}:
        vector = layout.vectors(added_up(layout, [value]))
        assert len(vector) == layout.n_outputs
        assert (vector >= 0).all()
        assert vector.sum() == layout.units
        assert (vector == vectors_of(np.array([value]), layout)[0]).all()


def test_vector_of_numbers_is_remainder_and_sum():
    layout = TargetLayout.of_number(4096)
    vector = layout.vectors(added_up(layout, [0, 4096, 1000, 7]))
    assert vector.tolist() == [4 * 4096 - 5103, 5103]
    through_a_window = layout.vectors(added_up(layout, [0, 4096, 1000, 7], windows_of((500, 1500))))
    assert through_a_window.tolist() == [2 * 4096 + 2048, 4096 + 2048]


any_window = st.tuples(st.integers(0, 4096), st.integers(0, 4096)).filter(lambda w: w[0] < w[1]).map(windows_of)


@given(any_window)
@settings(deadline=None, max_examples=50)
def test_clipped_number_is_number_of_whole_range(window):
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


def test_clipped_numbers_are_rounded_to_nearest_unit():
    """By fractions, so that the other tests need not trust their own rounding."""
    layout = TargetLayout.of_number(4)
    seen = layout.vectors(layout.contributions(windows_of((1, 4))).amounts[0, :, None])[:, 1].tolist()
    assert seen == [math.floor(4 * Fraction(max(v - 1, 0), 3) + Fraction(1, 2)) for v in range(5)] == [0, 0, 1, 3, 4]


@given(st.lists(any_window, min_size=1, max_size=5))
@settings(deadline=None, max_examples=50)
def test_each_window_has_its_own_table(several):
    layout = LAYOUTS["number"]
    together = ClippingRanges(*(np.concatenate([getattr(w, end) for w in several]) for end in ("low", "high")))
    assert len(together) == len(several)
    adds = layout.contributions(together)
    assert adds.columns.shape == (layout.units + 1,)
    np.testing.assert_array_equal(
        adds.amounts, np.concatenate([layout.contributions(window).amounts for window in several]), strict=True
    )


def test_widened_windows_stay_in_range():
    found = windows_of((0, 10), (500, 600), (4000, 4096), (30, 4090)).widened(np.array([3, 0, 7, 50]), 4096)
    assert found.low.tolist() == [0, 500, 3993, 0]
    assert found.high.tolist() == [13, 600, 4096, 4096]


@pytest.mark.parametrize("name", ["one class", "binary", "classes"])
def test_windows_do_not_change_classes(name):
    layout = LAYOUTS[name]
    for windows in (layout.whole_range, windows_of((0, 1)), windows_of((2, 3)), windows_of((0, 1), (2, 3), (7, 9))):
        adds = layout.contributions(windows)
        assert adds.amounts.shape == (len(windows), layout.n_outputs)
        for amounts in adds.amounts:
            bins = np.zeros((layout.n_outputs, layout.n_columns), dtype=np.uint64)
            bins[np.arange(layout.n_outputs), adds.columns] = amounts
            assert (layout.vectors(bins) == np.eye(layout.n_outputs, dtype=np.int64)).all()


@pytest.mark.parametrize("name", LAYOUTS)
def test_bins_hold_the_largest_number_of_rows(name):
    layout = LAYOUTS[name]
    rows = layout.max_rows
    assert rows < 1 << (31 if layout.units == 1 else 26), "for more rows, kernels/split_costs.py has no rounding bound"
    assert rows < 1 << (64 - layout.shift)
    assert rows * layout.units < 1 << layout.shift
    assert rows * int(layout.contributions(layout.whole_range).amounts.max()) < 1 << 64
    for value in (0, layout.units) if layout.n_columns == 1 else ():
        found = layout.vectors(np.array([rows * ((1 << layout.shift) + value)], dtype=np.uint64))
        assert found.tolist() == [rows * (layout.units - value), rows * value][: layout.n_outputs]


@pytest.mark.parametrize("max_records", [1, 2, 5, 10, MAX_RECORDS])
def test_vectors_of_a_person_sum_to_weight_times_units(max_records):
    for layout, units in ((TargetLayout.of_classes(3), 1), (TargetLayout.of_number(4096), 4096)):
        of_persons = layout.of_persons(max_records)
        assert of_persons.person_units == units * of_persons.person_weight
        assert of_persons.person_weight == person_weight(max_records) >= max_records
        # Noise on leaf sums is drawn from fractions of 64 bits: the sensitivity must leave room for 40 bits of epsilon.
        assert of_persons.person_units <= 1 << 21


def test_the_error_for_numbers_as_classes_of_text_does_not_depend_on_missing_targets():
    domain = Domain({"x": Numeric(0, 1)}, Categorical(["no", "yes"]))
    columns = [
        np.array([0, 1]),
        *(pd.Series(values) for values in ([0, 1], [0, None])),
        *(pd.Series([0, None], dtype=dtype) for dtype in ("Int64", "Float64")),
        pl.Series([0, None]),
        pl.Series([0.0, None]),
    ]
    messages = set()
    for column in columns:
        with pytest.raises(TypeError) as error:
            domain.encode_target(column)
        messages.add(str(error.value).replace(f"dtype {column.dtype}", "dtype"))
    assert len(messages) == 1
