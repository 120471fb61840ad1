"""Values outside a domain are counted in tables of any kind; `tests/cli/test_checking.py` tests files."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

from diprime import Categorical, Date, Domain, Integer, Numeric
from diprime.domain.checking import ColumnCheck

FEATURES = {
    "age": Numeric(0, 110),
    "sex": Categorical(["F", "M"]),
    "kids": Integer(0, 9),
    "code": Categorical(buckets=64),
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
def test_every_kind_of_value_is_counted(table, monkeypatch):
    monkeypatch.setattr("diprime.domain.tables.BLOCK_ROWS", 3)
    found = DOMAIN.check(table(COLUMNS), ["no", "maybe", None, "yes"], groups=["a", "a", None, "b"])
    assert found.n_rows == 4
    assert found.columns == EXPECTED
    assert found.target == ColumnCheck(unlisted=1, missing=1)
    persons = found.persons
    assert (persons.n_persons, persons.n_records, persons.n_unknown, persons.most) == (2, 3, 1, 2)
    assert "kids: 1 below, 1 above\n" in str(found)


def test_rows_without_target_and_persons_and_with_nothing_outside():
    found = Domain({"a": Numeric(0, 1)}, Numeric(0, 1)).check(np.array([[0.0], [1.0]]))
    assert (found.target, found.persons) == (None, None)
    assert str(found) == "2 rows, outside of the domain:\nnothing"


def test_numeric_targets_and_texts_among_numbers():
    domain = Domain({"a": Numeric(0, 1)}, Numeric(0, 1))
    found = domain.check([["x"], [0.5]], [2.0, float("nan")])
    assert found.columns == {"a": ColumnCheck(missing=1)}
    assert found.target == ColumnCheck(above=1, missing=1)


def test_what_a_fit_refuses_is_refused():
    with pytest.raises(ValueError, match="lacks columns"):
        DOMAIN.check(pl.DataFrame({"age": [1.0]}))
    with pytest.raises(TypeError, match=r"Feature 'age' has dtype String"):
        Domain({"age": Numeric(0, 1)}, Numeric(0, 1)).check(pl.DataFrame({"age": ["1"]}))
    with pytest.raises(ValueError, match="The domain is open"):
        Domain({"age": Numeric()}, Numeric(0, 1)).check(pl.DataFrame({"age": [1.0]}))
