"""Text is converted to values by the domain alone; `test_data_file` tests files."""

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

from diprime.domain import MISSING, OTHER, Categorical, Domain
from diprime.domain.values import MISSING_TEXTS
from diprime.sources.data_files.text import read_dates, read_listed_categories, read_numbers

YES_NO = Categorical(["no", "yes"])


def test_numbers_are_read_missing_or_unreadable():
    texts = ["1", " 2.5 ", "-1e3", "+5", "1e400", "", "NA", "n/a", "?", None, "1,5", "x", "1 2", "0x1", "nan(1)", "１"]
    numbers, unreadable = read_numbers(pa.array(texts), {"?", *MISSING_TEXTS})
    assert numbers.to_pylist() == [1, 2.5, -1000, 5, float("inf"), *[None] * 11]
    assert unreadable.tolist() == [False] * 10 + [True] * 6


def test_dates_are_read_missing_or_unreadable():
    texts = ["2020-02-29", " 2020-01-01T09:30:00.5+02:00", "", "NA", " ? ", None, "2020-02-30", "1.1.2020", "5"]
    dates, unreadable = read_dates(pa.array(texts), {"?", *MISSING_TEXTS})
    assert dates.to_pylist() == [datetime(2020, 2, 29), datetime(2020, 1, 1, 9, 30, 0, 500_000), *[None] * 7]
    assert unreadable.tolist() == [False] * 6 + [True] * 3
    assert dates.type == pa.timestamp("us")
    assert len(read_dates(pa.array([], pa.string()), MISSING_TEXTS)[0]) == 0


@pytest.mark.parametrize(
    ("categories", "texts"),
    [
        (("a", "other", "other_"), ["other_", "x", "NA", "a"]),
        (("2.5", "a", True * 2), ["2", "x", None, " 2.50 "]),
        ((0, 3, 1.5), ["1.5", "2", "", "0.0"]),
        ((False, True), ["TRUE", "2", "nan", "0"]),
    ],
)
@pytest.mark.parametrize("commas", [False, True])
def test_category_columns_have_missing_and_unlisted_values(categories, texts, commas):
    texts = [text.replace(".", ",") if commas and text else text for text in texts]
    column = read_listed_categories(pa.array(texts), categories, MISSING_TEXTS, decimal_commas=commas)
    codes = Domain({"c": Categorical(categories)}, YES_NO).encode(pa.table({"c": column}))[:, 0]
    assert codes.tolist() == [len(categories) - 1, OTHER, MISSING, 0]


def test_number_for_unlisted_values_is_no_category():
    categories = tuple(np.arange(200.0))
    column = read_listed_categories(pa.array(["7", "x"]), categories, MISSING_TEXTS)
    assert column.to_pylist() == [7, 200]
