"""Features in words: short, exact, and different where the features differ."""

from datetime import datetime

import numpy as np
import pytest

from diprime.domain import Categorical, Date, Integer, Numeric
from diprime.domain.features import DatePart
from diprime.domain.values import DAY, MINUTE, moment_of_text
from diprime.inspection.views import contribution_text
from diprime.inspection.words import (
    count_text,
    counted,
    feature_text,
    first_texts,
    interval_names,
    last_texts,
    moment_text,
    number_text,
    share_text,
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
    assert feature_text(Numeric(edges=[1, 2])) == "numbers in 3 bins between given edges"
    assert feature_text(Categorical(["F", "M"])) == "2 categories: F, M"
    assert feature_text(Categorical(range(45))).endswith("38, 39 and 5 more")
    assert len(feature_text(Categorical(["x" * 1000]))) < 100
    assert feature_text(Integer(-1, 23)) == "integers from -1 to 23"
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
def test_split_texts_use_the_last_value_below_if_there_is_one(feature, cell, texts):
    assert split_texts(feature, cell) == texts


@pytest.mark.parametrize(
    "feature", [WHEN, Date("2020-01-01", "2020-02-01"), Date("2020-01-01 00:00", "2020-01-01 00:00:00.01")], ids=str
)
def test_texts_of_dates_are_exact(feature):
    assert [moment_of_text(text) for text in first_texts(feature)] == [
        feature.first_moment,
        *feature.thresholds.tolist(),
    ]
    assert datetime.fromisoformat(first_texts(feature)[0])
    assert last_texts(feature) is None


def test_intervals_have_the_values_in_them():
    assert interval_names(Integer(0, 23), [0, 1, 7, 23]) == ["0", "1 to 6", "7 to 22", "23"]
    assert interval_names(DatePart("weekday"), [0, 5, 6]) == ["Monday to Friday", "Saturday", "Sunday"]
    assert interval_names(WHEN, [0, 1, 254])[0] == "below 2012-10-11"
    assert interval_names(Numeric(edges=[1, 2]), [0, 1, 2]) == ["below 1", "1 to 2", "from 2"]
    assert interval_names(Integer(0, 23), [0]) == ["all"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (share_text(0.12345), "12.3 %"),
        (number_text(1234567.0), "1,235,000"),
        (number_text(0.00123456), "0.001235"),
        (number_text(-2.0), "-2"),
        (count_text(1234.4, 2.828, "record"), "1,234 ± 2.8 records"),
        (counted(1, "more bin"), "1 more bin"),
        (counted(2, "more bin"), "2 more bins"),
        (counted(2, "category"), "2 categories"),
        (moment_text(0, DAY), "1970-01-01"),
        (moment_text(0, MINUTE), "1970-01-01 00:00"),
        (contribution_text(np.array([0.25]), ["no", "yes"]), "adds +0.25"),
        (contribution_text(np.array([0.25, -0.5, 1]), ["a", "b", "c"]), "adds +1 to c"),
    ],
)
def test_numbers_and_moments_are_short(text, expected):
    assert text == expected
