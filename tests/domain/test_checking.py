"""Values outside a domain are counted in tables of any kind; `tests/cli/test_checking.py` tests files."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain import Categorical, Date, Domain, Integer, Numeric
from diprime.domain.checking import NO_CATEGORY, ColumnCheck


def test_infer_arrays():
    X = np.array([[1, np.nan, 5, np.inf], [3, np.nan, 5, 2], [2, np.nan, 5, -7]])
    domain = Domain.infer(X, np.array([3, 1, 3]), "classification")
    assert domain.encoded_feature_names == ("x0", "x1", "x2", "x3")
    assert domain.features["x0"] == Numeric(1, 3)
    assert domain.features["x1"] == Numeric(0, 1)
    assert domain.features["x2"].low < 5 < domain.features["x2"].high
    assert domain.features["x3"] == Numeric(-7, 2)
    assert domain.target == Categorical([1, 3])
    assert type(domain.target.categories[0]) is int
    assert Domain.infer(X, [0.5, 2, 1], "regression").target == Numeric(0.5, 2)
    constant = Domain.infer(X, [7.0, 7, 7], "regression").target
    assert constant.low < 7 < constant.high


@given(st.lists(st.floats(), min_size=1, max_size=5))
@settings(deadline=None)
def test_infer_always_finds_a_valid_range(values):
    X = np.array(values).reshape(-1, 1)
    domain = Domain.infer(X, np.zeros(len(X)), "regression")
    feature = domain.features["x0"]
    finite = X[np.isfinite(X)]
    if len(finite) and np.abs(finite).max() < 1e307:
        assert feature.low <= finite.min()
        assert feature.high >= finite.max()
    assert feature.n_cells == 255


def test_infer_takes_categories_from_dtypes_or_else_from_values():
    y = [0, 1, 0]
    pandas = pd.DataFrame(
        {
            "cat": pd.Categorical(["b", "b", None], categories=["c", "b", "a"]),
            "text": ["z", "y", None],
            "flag": [True, True, True],
            "object": np.array([3, "x", ()], dtype=object),
            "numbers": np.array([3, 1.5, None], dtype=object),
            "nullable": pd.array([1, None, 4], dtype="Int64"),
            "maybe": pd.array([True, None, True], dtype="boolean"),
            "nothing": [None, None, None],
            "empty": pd.Categorical([None, None, None]),
            "f": [1.0, 2.0, np.nan],
        }
    )
    features = dict(Domain.infer(pandas, y, "classification").features)
    assert features == {
        "cat": Categorical(["c", "b", "a"]),
        "text": Categorical(["y", "z"]),
        "flag": Categorical([False, True]),
        "object": Categorical([3, "x", ()]),
        "numbers": Numeric(1.5, 3),
        "nullable": Integer(1, 4),
        "maybe": Categorical([False, True]),
        "nothing": Numeric(0, 1),
        "empty": Categorical([NO_CATEGORY]),
        "f": Numeric(1, 2),
    }
    polars = pl.DataFrame(
        {
            "enum": pl.Series(["b", None, "b"], dtype=pl.Enum(["c", "b"])),
            "cat": pl.Series(["b", None, "a"], dtype=pl.Categorical),
            "flag": [True, None, True],
            "i": [5, None, 2],
            "null": [None, None, None],
        }
    )
    assert dict(Domain.infer(polars, pl.Series(["u", "v", "u"]), "classification").features) == {
        "enum": Categorical(["c", "b"]),
        "cat": Categorical(["a", "b"]),
        "flag": Categorical([False, True]),
        "i": Integer(2, 5),
        "null": Numeric(0, 1),
    }
    assert Domain.infer(np.array([["u"], ["t"]]), [0, 1], "regression").features["x0"] == Categorical(["t", "u"])
    assert Domain.infer([["u", 1], ["t", 2.5]], [0, 1], "regression").features["x1"] == Numeric(1, 2.5)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([1.0, np.nan], "Input y contains NaN"),
        ([1.0, None], "Input y contains NaN"),
        ([1.0, np.inf], "Input y contains infinity"),
        (pl.Series([1, None]), "Input y contains NaN"),
        (pd.Series([1, None], dtype="Int64"), "Input y contains NaN"),
        ([1.0], r"inconsistent numbers of samples: \[2, 1\]"),
    ],
)
def test_infer_refuses_bad_targets(task, y, words):
    with pytest.raises(ValueError, match=words):
        Domain.infer(np.zeros((2, 1)), y, task)


def test_infer_refuses_empty_data_and_wrong_tasks():
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        Domain.infer(np.zeros((0, 1)), [], "regression")
    with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(3, 0\)\)"):
        Domain.infer(np.zeros((3, 0)), [1, 2, 3], "regression")
    with pytest.raises(ValueError, match=r"^task .*got 'x'"):
        Domain.infer(np.zeros((1, 1)), [1], "x")
    with pytest.raises(TypeError, match="y has dtype"):
        Domain.infer(np.zeros((1, 1)), np.array(["a"]), "regression")


def test_infer_takes_integers_from_dtypes():
    X = pl.DataFrame(
        {
            "hour": pl.Series([0, 23, None], dtype=pl.Int8),
            "constant": [5, 5, 5],
            "huge": pl.Series([0, 2**60, 1], dtype=pl.UInt64),
            "float": [0.0, 1.0, 23.0],
            "none": pl.Series([None] * 3, dtype=pl.Int64),
        }
    )
    features = Domain.infer(X, [0, 1, 0], "classification").features
    assert features["hour"] == Integer(0, 23)
    assert isinstance(features["constant"], Integer)
    assert features["constant"].low <= 5 <= features["constant"].high
    assert features["huge"] == Numeric(0, 2**60)
    assert features["float"] == Numeric(0, 23)
    assert features["none"] == Integer(0, 1)
    assert Domain.infer(np.array([[1], [3]]), [0, 1], "classification").features["x0"] == Integer(1, 3)


def test_infer_takes_dates_and_the_parts_in_which_they_differ():
    days, odd = [date(2020, 2, 28), None, date(2020, 3, 1)], [datetime(2020, 1, 6, 9), None, datetime(2020, 1, 13, 10)]
    X = {"day": days, "time": odd, "object": odd, "text": ["2020-01-01", None, "2020-01-02"], "none": [None] * 3}
    schema = {"day": pl.Date, "time": pl.Datetime, "object": pl.Object, "text": pl.String, "none": pl.Date}
    features = dict(Domain.infer(pl.DataFrame(X, schema=schema), [0, 1, 0], "classification").features)
    assert features["day"] == Date("2020-02-28", "2020-03-01", parts=["weekday", "month"])
    assert features["time"] == features["object"] == Date("2020-01-06", "2020-01-13", parts=["hour"])
    assert features["text"] == Categorical(["2020-01-01", "2020-01-02"])
    assert features["none"] == Date("1970-01-01", "1970-01-01")
    array = np.array([["2020-01-01"], ["2021-01-01"]], dtype="M8[D]")
    assert Domain.infer(array, [0, 1], "classification").column_names == ("x0",)
    mixed = np.array([[date(2020, 1, 1)], ["other"]], dtype=object)
    assert isinstance(Domain.infer(mixed, [0, 1], "classification").features["x0"], Categorical)


FEATURES = {
    "age": Numeric(0, 110),
    "sex": Categorical(["F", "M"]),
    "kids": Integer(0, 9),
    "code": Categorical(n_buckets=64),
    "when": Date("2020-01-01", "2020-12-31"),
}
DOMAIN = Domain(FEATURES, Categorical(["no", "yes"]))
COLUMNS = {
    "age": [1.0, -1.0, 111.0, None],
    "sex": ["F", "X", None, "M"],
    "kids": [0, 9, 10, -3],
    "code": ["a", "b", "c", None],
    "when": [date(2019, 12, 31), date(2020, 1, 1), date(2021, 1, 1), None],
}
EXPECTED = {
    "age": ColumnCheck(below=1, above=1, missing=1),
    "sex": ColumnCheck(unlisted=1, missing=1),
    "kids": ColumnCheck(below=1, above=1),
    "code": ColumnCheck(missing=1),
    "when": ColumnCheck(below=1, above=1, missing=1),
}


@pytest.mark.parametrize("table", [pl.DataFrame, pd.DataFrame], ids=["polars", "pandas"])
def test_check_counts_every_kind_of_value(table, monkeypatch):
    monkeypatch.setattr("diprime.domain.columns.BLOCK_ROWS", 3)
    found = DOMAIN.check(table(COLUMNS), ["no", "maybe", None, "yes"], groups=["a", "a", None, "b"])
    assert found.n_rows == 4
    assert found.columns == EXPECTED
    assert found.target == ColumnCheck(unlisted=1, missing=1)
    persons = found.persons
    assert (persons.n_persons, persons.n_records, persons.n_unknown, persons.most) == (2, 3, 1, 2)
    assert "kids: 1 below, 1 above\n" in str(found)


@pytest.mark.parametrize("table", [pd.DataFrame, lambda columns: np.array(list(columns.values()), dtype=object).T])
def test_unreadable_objects_are_not_counted_as_missing(table):
    hostile = [["F"], {"F": 1}, b"F", {1}, np.array([1]), pd.NA, float("nan"), None]
    columns = {name: pd.Series(hostile, dtype=object) for name in FEATURES}
    found = DOMAIN.check(table(columns), pd.Series(hostile, dtype=object)).columns
    assert found == dict.fromkeys(FEATURES, ColumnCheck(missing=3, unreadable=5))
    texts = {name: pd.Series(["?", "X", 10**400], dtype=object) for name in FEATURES}
    unlisted = DOMAIN.check(pd.DataFrame(texts)).columns["sex"]
    assert unlisted == ColumnCheck(unlisted=3)


def test_category_labels_without_records_are_not_counted_as_people():
    people = pd.Categorical(["a", "c", "a"], categories=["a", "b", "c"])
    found = Domain({"a": Numeric(0, 1)}, Numeric(0, 1)).check(np.zeros((3, 1)), groups=people)
    assert (found.persons.n_persons, found.persons.most) == (2, 2)
    assert found.persons.kept()[0].persons == 1 / 2


def test_check_without_target_and_people():
    found = Domain({"a": Numeric(0, 1)}, Numeric(0, 1)).check(np.array([[0.0], [1.0]]))
    assert (found.target, found.persons) == (None, None)
    assert str(found) == "2 rows, outside the domain:\nnothing"


def test_check_refuses_tables_that_fits_refuse():
    with pytest.raises(ValueError, match="lacks columns 'sex', 'kids', 'code', 'when'"):
        DOMAIN.check(pl.DataFrame({"age": [1.0]}))
    with pytest.raises(TypeError, match=r"'age' has dtype String"):
        Domain({"age": Numeric(0, 1)}, Numeric(0, 1)).check(pl.DataFrame({"age": ["1"]}))
    with pytest.raises(ValueError, match=r"incomplete: feature 'age'"):
        Domain({"age": Numeric()}, Numeric(0, 1)).check(pl.DataFrame({"age": [1.0]}))
