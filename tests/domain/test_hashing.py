"""Hash buckets: a public map of single values."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from diprime import Categorical, Domain, Numeric
from diprime.domain import MISSING, OTHER
from diprime.domain.hashing import bucket_of, plain_value
from tests.guarantees.leaks import things

DOMAIN = Domain({"a": Categorical(buckets=254)}, Numeric(0, 1))


def codes(values):
    return DOMAIN.encode(values)[:, 0].tolist()


def test_the_hash_never_changes():
    """Model files rely on it."""
    assert [bucket_of(value, 254) for value in ("F", "M", "", "é", 7, 2.5)] == [195, 124, 146, 11, 229, 173]


def test_equal_values_share_a_bucket_whatever_their_type():
    same = codes([[1], [1.0], [True], [np.int8(1)], ["1"]])
    assert len(set(same)) == 1
    assert plain_value(1.0) == 1
    assert plain_value(b"bytes") is None


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_tables_of_all_kinds_agree(frame):
    values = ["F", "M", "unheard of"]
    assert codes(frame({"a": values})) == codes([[v] for v in values]) == codes(np.array(values)[:, None])
    assert codes(frame({"a": [3, 4]})) == codes([["3"], ["4"]])


def test_missing_values_and_objects_have_codes_of_their_own():
    assert codes([[None], [float("nan")], [object()], [b"x"], ["\ud800"]]) == [MISSING, MISSING, OTHER, OTHER, OTHER]


def test_dates_are_hashed_as_their_text():
    dates = [date(2020, 1, 31), pd.Timestamp("2020-01-31"), np.datetime64("2020-01-31"), "2020-01-31"]
    assert len(set(codes([[v] for v in dates]))) == 1
    assert OTHER not in codes(pd.DataFrame({"a": pd.Series(dates[:2], dtype=object)}))
    assert codes([[datetime(2020, 1, 31, 9)]]) == codes([["2020-01-31 09:00:00"]]) != codes([["2020-01-31"]])
    assert codes([[pd.NaT], [np.datetime64("NaT")], [np.datetime64(10**9, "Y")]]) == [MISSING, MISSING, OTHER]


def test_a_value_that_raises_is_no_reason_to_fail():
    class Hostile:
        def __str__(self):
            raise RuntimeError("secret")

        def __hash__(self):
            raise RuntimeError("secret")

        def __eq__(self, other):
            raise RuntimeError("secret")

    class HostileNumber(float):
        def is_integer(self):
            raise RuntimeError("secret")

    assert codes([[Hostile()], [HostileNumber(2.5)], ["F"]]) == [OTHER, OTHER, 195]


def test_no_value_stays_on_the_domain():
    domain = Domain({"a": Categorical(buckets=254)}, Numeric(0, 1))
    domain.encode([["a private value"]])
    texts = [thing for _, thing in things(domain) if isinstance(thing, str)]
    assert "bucket 0" in texts
    assert "a private value" not in texts


def test_buckets_are_written_to_files_and_have_names():
    for back in (Domain.from_toml(DOMAIN.to_toml()), Domain.from_json(DOMAIN.to_json())):
        assert back == DOMAIN
    assert "buckets = 254" in DOMAIN.to_toml()
    assert Categorical(buckets=3).levels == ("bucket 0", "bucket 1", "bucket 2")
    assert repr(Categorical(buckets=3)) == "Categorical(buckets=3)"
    assert Categorical(buckets=3) != Categorical(["bucket 0", "bucket 1", "bucket 2"])


@pytest.mark.parametrize("buckets", [0, 255, -1, 2.5, True, "7"])
def test_impossible_numbers_of_buckets_are_refused(buckets):
    with pytest.raises(ValueError, match="is not a whole number from 1 to 254"):
        Categorical(buckets=buckets)


def test_a_target_has_no_buckets_and_levels_exclude_them():
    with pytest.raises(ValueError, match="target has buckets"):
        Domain({"a": Numeric(0, 1)}, Categorical(buckets=3))
    with pytest.raises(ValueError, match="levels and buckets are both given"):
        Categorical(["a"], buckets=3)
