"""Features in words: short, exact, and different where the features differ."""

from datetime import datetime

import pytest

from diprime.domain import MISSING, OTHER, Categorical, Date, Integer, Numeric
from diprime.domain.dates import DatePart
from diprime.domain.moments import of_text
from diprime.model.feature_words import (
    code_name,
    feature_text,
    first_texts,
    interval_names,
    last_texts,
    split_texts,
)

WHEN = Date("2012-10-02", "2018-09-30", parts=["weekday", "hour"])


def test_different_thresholds_have_different_texts():
    for feature in (Numeric(0, 1), Numeric(1e9, 1e9 + 1), Numeric(1, 1e6, scale="log"), Numeric(edges=[1, 1 + 1e-15])):
        texts = first_texts(feature)[1:]
        assert len(set(texts)) == len(texts) == feature.n_cells - 1
    assert first_texts(Numeric(0, 255))[37] == "37"


def test_texts_of_features():
    assert feature_text(Numeric(0, 1e6, scale="log")) == "numbers from 0 to 1e+06, on a log scale"
    assert feature_text(Numeric(edges=[1, 2])) == "numbers in 3 cells between given edges"
    assert feature_text(Categorical(["F", "M"])) == "2 levels: F, M"
    assert feature_text(Categorical(range(45))).endswith("38, 39 and 5 more")
    assert len(feature_text(Categorical(["x" * 1000]))) < 100
    assert feature_text(Integer(-1, 23)) == "whole numbers from -1 to 23"
    assert feature_text(WHEN) == "dates from 2012-10-02 to 2018-09-30, their weekday and hour"
    assert feature_text(Date("2012-10-02", "2018-09-30")) == "dates from 2012-10-02 to 2018-09-30"
    assert feature_text(Date(parts=["weekday", "month", "hour"])) == "dates, their weekday, month and hour"


@pytest.mark.parametrize(
    ("feature", "cell", "texts"),
    [
        (Integer(0, 23), 0, ("≤ 0", "≥ 1")),
        (Integer(0, 23), 22, ("≤ 22", "≥ 23")),
        (Integer(0, 1019), 1, ("≤ 7", "≥ 8")),
        (Integer(2**60, 2**61), 0, (f"≤ {2**60 + -(-(2**60 + 1) // 255) - 1}", f"≥ {2**60 + -(-(2**60 + 1) // 255)}")),
        (DatePart("weekday"), 4, ("≤ Friday", "≥ Saturday")),
        (DatePart("month"), 0, ("≤ January", "≥ February")),
        (DatePart("hour"), 6, ("≤ 6", "≥ 7")),
        (Numeric(edges=[0.5, 2]), 1, ("< 2", "≥ 2")),
        (WHEN, 0, ("< 2012-10-11", "≥ 2012-10-11")),
        (Date("2020-01-01 12:30", "2020-01-01 13:30"), 0, ("< 2020-01-01 12:30:15", "≥ 2020-01-01 12:30:15")),
    ],
    ids=str,
)
def test_splits_say_the_last_value_below_if_there_is_one(feature, cell, texts):
    assert split_texts(feature, cell) == texts


@pytest.mark.parametrize(
    "feature", [WHEN, Date("2020-01-01", "2020-02-01"), Date("2020-01-01 00:00", "2020-01-01 00:00:00.01")], ids=str
)
def test_texts_of_dates_are_exact(feature):
    assert [of_text(text) for text in first_texts(feature)] == [feature.first_moment, *feature.thresholds.tolist()]
    assert datetime.fromisoformat(first_texts(feature)[0])
    assert last_texts(feature) is None


def test_intervals_have_the_values_in_them():
    assert interval_names(Integer(0, 23), [0, 1, 7, 23]) == ["0", "1 to 6", "7 to 22", "23"]
    assert interval_names(DatePart("weekday"), [0, 5, 6]) == ["Monday to Friday", "Saturday", "Sunday"]
    assert interval_names(WHEN, [0, 1, 254])[0] == "below 2012-10-11"
    assert interval_names(Numeric(edges=[1, 2]), [0, 1, 2]) == ["below 1", "1 to 2", "from 2"]
    assert interval_names(Integer(0, 23), [0]) == ["all"]


def test_names_of_codes():
    levels = [str(i) for i in range(600)]
    assert code_name(["F", "M"], 1) == "M"
    assert code_name(levels, 3) == "3/257/511"
    assert (code_name(levels, OTHER), code_name(levels, MISSING)) == ("unlisted", "missing")
