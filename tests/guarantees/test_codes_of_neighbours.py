"""The code of a record depends on the record alone, whatever container it is in and whatever else is there."""

import datetime
import itertools
import math
from collections import deque
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from diprime.domain import Categorical, Date, Domain, Integer, Numeric

BIG = 2**53
ODD_VALUES = [
    0, 1, 1.0, 0.1, 1.5, True, None, "1", " 2 ", "nan", "abc", "a", "", b"1.5", b"a", Decimal("0.1"), Decimal("sNaN"),
    Fraction(1, 10), 10**400, -(10**400), BIG, 2**63, -(2**63), np.float16(0.1), np.float32(0.1), np.uint8(3),
    np.bool_(True), np.str_("a"), datetime.date(2020, 1, 1), datetime.timedelta(1), math.nan, math.inf, -0.0,
    frozenset([1]), datetime.datetime(2020, 1, 1, 9), np.datetime64("2020-01-01"), np.datetime64(5, "ns"), "2020-01-01",
    "2020-01-01 09:00", b"2020-01-01", pd.Timestamp("2020-01-01", tz="UTC"), pd.NaT, "2020-02-30",
]  # fmt: skip
KINDS = {
    "linear": Numeric(0, 10),
    "edges": Numeric(edges=[0.05, 0.1, 0.10000000149, 1, 2, 1e15]),
    "whole": Integer(0, 5),
    "wide": Integer(-(2**60), 2**60),
    "dates": Date("2019-01-01", "2021-01-01", parts=["weekday", "month", "hour"]),
    "integers": Categorical([0, 1, 3]),
    "large": Categorical([BIG, BIG + 2, 2**63]),
    "text": Categorical(["a", "1", "nan", "None", ""]),
    "mixed": Categorical(["a", 1, b"a", 0.1, datetime.date(2020, 1, 1)]),
    "buckets": Categorical(n_buckets=254),
}


def as_list(values):
    return [[v] for v in values]


def as_objects(values):
    table = np.empty((len(values), 1), dtype=object)
    for i, value in enumerate(values):
        table[i, 0] = value
    return table


def codes_with(container, kind, value, other):
    """Return the code of a value alone, and beside another record."""
    domain = Domain({"x": KINDS[kind]}, target=KINDS["integers"])
    return domain.encode(container([value]))[0].tolist(), domain.encode(container([value, value, other]))[0].tolist()


@pytest.mark.parametrize("container", [as_list, as_objects])
@pytest.mark.parametrize("kind", KINDS)
def test_code_of_a_record_is_independent_of_other_records(kind, container):
    for value, other in itertools.product(ODD_VALUES, repeat=2):
        alone, beside = codes_with(container, kind, value, other)
        assert alone == beside, (value, other)


@pytest.mark.parametrize("value", [np.datetime64("2020-01-01"), np.timedelta64(5, "s")])
def test_code_of_a_datetime_object_is_independent_of_other_records(value):
    alone, beside = codes_with(as_objects, "linear", value, "abc")
    assert alone == beside


@pytest.mark.parametrize(("value", "other"), [(BIG + 1, 0.5), (np.uint64(BIG + 1), np.int64(-1))])
def test_code_of_a_large_integer_in_a_list_is_independent_of_other_records(value, other):
    alone, beside = codes_with(as_list, "large", value, other)
    assert alone == beside


BOTH_LARGE = [BIG, BIG + 2]


def reads(make, values, added):
    """Return the codes of the values alone, and beside one more record."""
    domain = Domain({"a": Categorical(BOTH_LARGE)}, Categorical(BOTH_LARGE))
    alone, beside = (make(domain, [*values, *more]) for more in ([], [added]))
    return list(alone), list(beside)[: len(values)]


CONTAINERS = {
    "list of lists as y": lambda d, v: d.encode_target([[x] for x in v]),
    "list as y": lambda d, v: d.encode_target(v),
    "deque as y": lambda d, v: d.encode_target(deque(v)),
    "deque of rows": lambda d, v: d.encode(deque([x] for x in v))[:, 0],
    "pyarrow array": lambda d, v: d.encode_target(pa.array(v, type=pa.int64())),
    "pyarrow batch": lambda d, v: d.encode(pa.record_batch({"a": pa.array(v, type=pa.int64())}))[:, 0],
    "pandas array": lambda d, v: d.encode_target(pd.array(v, dtype="Int64")),
    "pandas index": lambda d, v: d.encode_target(pd.Index(pd.array(v, dtype="Int64"))),
    "pandas arrow": lambda d, v: d.encode_target(pd.array(v, dtype="int64[pyarrow]")),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_missing_value_changes_no_other_record(container):
    alone, beside = reads(CONTAINERS[container], BOTH_LARGE, None)
    assert alone == beside == [0, 1]


@pytest.mark.parametrize("added", [0.5, "q", [], [BIG], (1, 2), np.array(1.0), np.ma.masked])
@pytest.mark.parametrize("container", ["list of lists as y", "list as y", "deque as y", "deque of rows"])
def test_value_of_another_type_changes_no_other_record(container, added):
    alone, beside = reads(CONTAINERS[container], BOTH_LARGE, added)
    assert alone == beside == [0, 1]


def test_large_arrow_integers_are_clipped_without_error():
    domain = Domain({"a": Numeric(0, 255)}, Numeric(0, 4096))
    large = pa.table({"a": [1, 2**60 + 1, None]})
    assert domain.encode(large)[:, 0].tolist() == [1, 254, 255]
    assert domain.encode(large.to_pandas(types_mapper=pd.ArrowDtype))[:, 0].tolist() == [1, 254, 255]
    assert domain.encode_target(large["a"]).tolist() == [1, 4096, -1]


def test_128_bit_integers_are_clipped_without_error():
    domain = Domain({"a": Numeric(0, 255)}, Numeric(0, 4096))
    large = pl.DataFrame({"a": pl.Series([1, 2**100, -(2**100), None], dtype=pl.Int128)})
    assert domain.encode(large)[:, 0].tolist() == [1, 254, 0, 255]
    assert domain.encode_target(large["a"]).tolist() == [1, 4096, 0, -1]


def test_tuples_and_unusual_dictionaries_are_read_value_by_value():
    tuples = Domain({"a": Categorical([(1, 2), (3, 4)])}, Categorical([0, 1]))
    assert tuples.encode([[(1, 2)], [(3, 4)]])[:, 0].tolist() == [0, 1]
    assert tuples.encode([[(1, 2)], [(3, 4)], [None]])[:, 0].tolist() == [0, 1, 255]
    text = Domain({"a": Categorical(["x", "y"])}, Categorical([0, 1]))
    chunks = [pa.DictionaryArray.from_arrays([0, 1], ["x", None]), pa.DictionaryArray.from_arrays([0], ["y"])]
    assert text.encode(pa.table({"a": pa.chunked_array(chunks)}))[:, 0].tolist() == [0, 255, 1]
    no_text = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"x\xff")]
    )
    assert text.encode(pa.table({"a": no_text}))[:, 0].tolist() == [0, 254]
