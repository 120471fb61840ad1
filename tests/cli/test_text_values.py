"""Text is converted to values by the domain alone; `test_data_files` tests files."""

from datetime import datetime

import numpy as np
import polars as pl
import pytest

from diprime.cli.text_values import level_column, read_dates, read_levels, read_numbers
from diprime.domain import MISSING, OTHER, Categorical, Domain

YES_NO = Categorical(["no", "yes"])


def test_numbers_are_read_missing_or_unreadable():
    numbers, unreadable = read_numbers(
        pl.Series("a", ["1", " 2.5 ", "-1e3", "", "NA", "n/a", "?", None, "1,5", "x", "1 2"])
    )
    assert numbers.to_list() == [1, 2.5, -1000, *[None] * 8]
    assert unreadable.to_list() == [False] * 8 + [True] * 3


def test_dates_are_read_missing_or_unreadable():
    texts = ["2020-02-29", " 2020-01-01T09:30:00.5+02:00", "", "NA", " ? ", None, "2020-02-30", "1.1.2020", "5"]
    dates, unreadable = read_dates(pl.Series("a", texts))
    assert dates.to_list() == [datetime(2020, 2, 29), datetime(2020, 1, 1, 9, 30, 0, 500_000), *[None] * 7]
    assert unreadable.to_list() == [False] * 6 + [True] * 3
    assert (dates.name, dates.dtype) == ("a", pl.Datetime("us"))
    assert read_dates(pl.Series("a", [], dtype=pl.String))[0].len() == 0


@pytest.mark.parametrize("levels", [("a", "other", "other_"), (1, "a", True * 2), (0.5, 3)])
def test_level_columns_hold_missing_and_unlisted_values(levels):
    column = level_column("c", np.array([2 if len(levels) > 2 else 1, -1, -2, 0]), levels)
    codes = Domain({"c": Categorical(levels)}, YES_NO).encode(column.to_frame())[:, 0]
    assert codes.tolist() == [len(levels) - 1, OTHER, MISSING, 0]


def test_level_columns_have_all_levels_in_their_dtype():
    column = read_levels(pl.Series("c", ["b", None, "z"]), ("a", "b"))
    assert column.dtype == pl.Enum(["a", "b", "other"])
    assert column.to_list() == ["b", None, "other"]
