"""Ids of people of any type and container, sampled records, and rows in batches."""

import io
import uuid
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain.records import (
    MAX_RECORDS,
    EncodedBatches,
    PersonDigests,
    drawn_records,
    new_key,
    numbers_of,
    person_weight,
)
from diprime.domain.values import MISSING_TEXTS
from tests.encoded_rows import digests_of

UNKNOWN = -1


class PersonIndex:
    """Numbers people in the order in which they appear, by the digests of their ids."""

    def __init__(self):
        self._digests = PersonDigests(new_key())
        self._seen = np.zeros((0, 2), dtype=np.uint64)

    def encode(self, groups):
        found = self._digests.encode(groups)
        self._seen = np.concatenate([self._seen, found])
        return numbers_of(self._seen)[0][len(self._seen) - len(found) :]


NAMES = ["ann", "bob", None, "ann", "cem"]
EXPECTED = [0, 1, UNKNOWN, 0, 2]
COLUMNS = {
    "list": NAMES,
    "objects": np.array(NAMES, dtype=object),
    "pandas": pd.Series(NAMES, dtype=object),
    "pandas strings": pd.Series(NAMES, dtype="string"),
    "pandas categories": pd.Series(pd.Categorical(NAMES, categories=["ann", "bob", "cem", "unused"])),
    "polars": pl.Series(NAMES),
    "polars categories": pl.Series(NAMES, dtype=pl.Categorical),
    "pyarrow": pa.array(NAMES),
    "pyarrow dictionary": pa.array(NAMES).dictionary_encode(),
    "frame": pl.DataFrame({"id": NAMES}),
}


def same_partition(found, expected):
    """Return whether records have the same person in the one exactly where they do in the other."""
    pairs = set(zip(np.asarray(found).tolist(), expected, strict=True))
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}) and (
        all((a == UNKNOWN) == (b == UNKNOWN) for a, b in pairs)
    )


@pytest.mark.parametrize("kind", COLUMNS)
def test_ids_of_every_kind_of_column(kind):
    assert same_partition(PersonIndex().encode(COLUMNS[kind]), EXPECTED)


@pytest.mark.parametrize(
    "numbers",
    [
        np.array([2**53, 2**53 + 1, 2**53, -1]),
        pl.Series([2**53, 2**53 + 1, 2**53, -1]),
        pd.Series([2**53, 2**53 + 1, 2**53, -1], dtype="Int64"),
        pa.array([2**53, 2**53 + 1, 2**53, -1]),
        [2**53, 2**53 + 1, 2**53, -1],
    ],
)
def test_large_numbers_are_not_rounded_to_each_other(numbers):
    assert PersonIndex().encode(numbers).tolist() == [0, 1, 0, 2]


def test_missing_and_invalid_ids_are_unknown():
    class Raises:
        def __hash__(self):
            raise RuntimeError("a private value")

    class Ratio:
        def as_integer_ratio(self):
            return 1, 1

    odd = [
        None,
        Ratio(),
        float("nan"),
        np.nan,
        pd.NA,
        pd.NaT,
        Decimal("nan"),
        [1, 2],
        {},
        object(),
        Raises(),
        (1, 2),
        Decimal("sNaN"),
    ]
    assert set(PersonIndex().encode(odd).tolist()) == {UNKNOWN}
    mixed = ["a", *odd, "a", 1, 1.0, True, "1", b"1", Fraction(1), Decimal(1), uuid.UUID(int=7), np.int8(1)]
    found = PersonIndex().encode(mixed).tolist()
    assert found[0] == found[len(odd) + 1] == 0
    assert found[len(odd) + 2 :] == [1, 1, 1, 1, 2, 1, 1, 3, 1]


def test_integers_and_their_text_are_one_id():
    pieces = [17, 2**53 + 1, 0, -3, 17.0, "17", str(2**53 + 1), "0", "-3", "ann"]
    assert PersonIndex().encode(np.array(pieces, dtype=object)).tolist() == [0, 1, 2, 3, 0, 0, 1, 2, 3, 4]
    index = PersonIndex()
    assert [index.encode(ids).tolist() for ids in (["17"], [17])] == [[0], [0]]
    others = ["017", "+17", "17.0", " 17", "1_7", "-0", "\u0661", "1" * 39, "1" * 5000, "1"]
    assert PersonIndex().encode(pl.Series(others)).tolist() == list(range(len(others)))
    index = PersonIndex()
    assert index.encode(["17", "0"]).tolist() == [0, 1], "in objects, what a reader may have taken for 17 or 0 is it"
    assert index.encode(others).tolist() == [0, 0, 0, 0, 2, 1, 3, 4, 5, 6]
    assert index.encode(pd.Series(["017", 17], dtype="category")).tolist() == [0, 0]


@pytest.mark.filterwarnings("ignore:Columns")
def test_text_among_ids_leaves_padded_ids_of_other_records_as_they_are():
    lines = [f"{i % 500:04d}" for i in range(600_000)]
    alone, beside = (
        pd.read_csv(io.StringIO("\n".join(["id", *lines, *more])))["id"].astype(dtype)
        for more, dtype in (([], int), (["abc"], object))
    )
    assert {int, str} == set(map(type, beside)), "pandas has read them in two pieces"
    assert len(set(PersonIndex().encode(alone))) == 500
    assert len(set(PersonIndex().encode(beside))) == 501


def test_ids_are_equal_in_batches_of_other_containers():
    index = PersonIndex()
    assert index.encode(np.array([5, 7])).tolist() == [0, 1]
    assert index.encode(pl.Series([7, 9, None])).tolist() == [1, 2, UNKNOWN]
    assert index.encode(pd.Series([9, 5], dtype="category")).tolist() in ([2, 0],)


FLOATS = [
    np.array([1.0, 2.0]),
    np.array([1, 2], dtype=np.float32),
    pd.Series([2**53 + 1, None]),
    pd.Series([1, None], dtype="Float64"),
    pd.Series([1.0, 2.0], dtype="category"),
    pd.Series([1.0], dtype=pd.ArrowDtype(pa.float64())),
    pl.Series([1.0, None]),
    pl.Series([], dtype=pl.Float32),
    pa.array([1.0]),
    pa.array([1.0]).dictionary_encode(),
    pl.DataFrame({"id": [1.0]}),
]


@pytest.mark.parametrize("floats", FLOATS, ids=lambda column: f"{type(column).__module__}-{len(column)}")
def test_float_columns_are_refused_as_ids(floats):
    """An integer of 2**53 or more that a missing id made a float may be another person's."""
    for before in ([], [np.array([1, 2])]):
        index = PersonIndex()
        for integers in before:
            index.encode(integers)
        with pytest.raises(TypeError, match=r"^groups .*floats, .*Int64"):
            index.encode(floats)


def test_single_floats_are_ids_if_they_are_exact():
    values = [2**53 - 1, float(2**53 - 1), 2**53, float(2**53), 2**53 + 1, -float(2**53), float("inf"), 1, 1.0]
    for ids in (values, np.array(values, dtype=object), pl.Series(values, dtype=pl.Object)):
        assert PersonIndex().encode(ids).tolist() == [0, 0, 1, UNKNOWN, 2, UNKNOWN, UNKNOWN, 3, 3]
    assert PersonIndex().encode([1.0, 2.0, 1e300, float("nan")]).tolist() == [0, 1, UNKNOWN, UNKNOWN]


KINDS = {
    "numbers": [
        np.array([1, 2]),
        pl.Series([1, None]),
        pa.array([1]).dictionary_encode(),
        pd.Series([1, 2], dtype="category"),
        pd.Series([1], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.int64()))),
        pd.Series([1, None], dtype="Int64"),
        pl.Series([Decimal(1)]),
    ],
    "text": [
        np.array(["1", "2"]),
        pl.Series(["1"]),
        pl.Series(["1"], dtype=pl.Categorical),
        pl.Series(["1"], dtype=pl.Enum(["1"])),
        pa.array(["1"]).dictionary_encode(),
        pd.Series(["1"], dtype="string"),
        pd.Series(["1"], dtype="string").astype("category"),
    ],
    "bytes": [np.array([b"1"]), pl.Series([b"1"]), pa.array([b"1"]).dictionary_encode()],
    "dates": [
        np.array(["2020-01-01"], dtype="M8[D]"),
        pl.Series(["2020-01-01"]).str.to_date(),
        pd.Series(["2020-01-01"], dtype="M8[ns]"),
    ],
    "dates with a time zone": [
        pd.Series(["2020-01-01"], dtype="datetime64[ns, UTC]"),
        pl.Series([0], dtype=pl.Datetime("ms", "Asia/Tokyo")),
        pa.array([0], type=pa.timestamp("us", "Europe/Berlin")),
    ],
    "Python objects": [["1"], [1], pl.Series([True]), np.array(["1"], dtype=object), pd.Series(["1"], dtype=object)],
}
NOTHING = [pl.Series([None, None]), pa.array([None]), pd.Series([None], dtype=pd.ArrowDtype(pa.null()))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_ids_of_two_kinds_raise_type_error(kind, other):
    for one in KINDS[kind]:
        for two in KINDS[other]:
            index = PersonIndex()
            for nothing in NOTHING:
                assert set(index.encode(nothing).tolist()) == {UNKNOWN}
            index.encode(one)
            index.encode(NOTHING[0])
            if kind == other:
                index.encode(two)
                continue
            kinds = f"{min(kind, other)} and {max(kind, other)}"
            with pytest.raises(TypeError, match=rf"^groups .*different types .*: {kinds}\."):
                index.encode(two)


@pytest.mark.parametrize("empty", [False, True])
def test_kinds_of_ids_depend_on_dtypes_alone(empty):
    def of(values, dtype):
        return pl.Series([None if empty else v for v in values], dtype=dtype)[: 0 if empty else None]

    index = PersonIndex()
    index.encode(of([1], pl.Int64))
    with pytest.raises(TypeError, match=r"^groups .*different types .*: numbers and text\."):
        index.encode(of(["1"], pl.String))
    with pytest.raises(TypeError, match=r"^groups .*different types .*: numbers and text\."):
        index.encode(of(["1"], pl.Categorical))
    with pytest.raises(TypeError, match=r"^groups .*different types .*: numbers and text\."):
        index.encode(pa.array([] if empty else ["1"], type=pa.dictionary(pa.int8(), pa.string())))


def spelled_integer(value):
    """Return the integer that a text of ASCII spells; other values as they are."""
    digits, _, rest = value.strip(" \t\n\r\f\v").partition(".") if isinstance(value, str) else ("", "", "")
    is_integer = not rest.strip("0") and digits.isascii() and digits[digits[:1] in ("+", "-") :].isdigit()
    return int(digits) if is_integer else value


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.text(max_size=2),
            st.text("01.+- ", max_size=4),
            st.integers(-3, 3),
            st.floats(-9, 9, width=16),
        )
    ),
    st.integers(0, 9),
)
def test_persons_are_numbered_as_a_dictionary_does(ids, cut):
    index, numbers = PersonIndex(), {}
    absent = {i for i in ids if isinstance(i, str) and i.strip() in MISSING_TEXTS}
    found = [*index.encode(ids[:cut]).tolist(), *index.encode(ids[cut:]).tolist()]
    ids = [spelled_integer(i) for i in ids]
    assert found == [UNKNOWN if pd.isna(i) or i in absent else numbers.setdefault(i, len(numbers)) for i in ids]


@pytest.mark.parametrize("bad", ["text", 3, {"a": 1}, np.zeros((3, 2)), pl.DataFrame({"a": [1], "b": [2]})])
def test_groups_must_be_one_column(bad):
    with pytest.raises(ValueError, match="groups should be a 1d array"):
        PersonIndex().encode(bad)


def test_person_weight_fits_in_a_byte():
    for k in range(1, MAX_RECORDS + 1):
        assert k <= person_weight(k) <= 255
        assert person_weight(k) in (k, 6 * -(-k // 3))
    assert person_weight(1) == 1
    for bad in (0, -1, MAX_RECORDS + 1):
        with pytest.raises(ValueError, match=rf"max_records_per_group .*got {bad}"):
            person_weight(bad)


def test_complex_numbers_are_no_ids():
    assert PersonIndex().encode([1 + 0j, 1, 1, 2]).tolist() == [UNKNOWN, 0, 0, 1]
    assert PersonIndex().encode([1, 1 + 0j, 1.0]).tolist() == [0, UNKNOWN, 0]


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_days_are_ids(unit):
    days = np.array(["2020-01-01", "NaT", "2020-01-02", "2020-01-01", "NaT"], dtype=f"M8[{unit}]")
    assert PersonIndex().encode(days).tolist() == [0, UNKNOWN, 1, 0, UNKNOWN]


SAME_INSTANT = [
    np.array([1000, 999, 1, -1000], dtype="M8[ns]"),
    pl.Series([1000, 999, 1, -1000], dtype=pl.Datetime("ns")),
    pa.array([1000, 999, 1, -1000], type=pa.timestamp("ns")),
    pd.Series(np.array([1000, 999, 1, -1000], dtype="M8[ns]")),
    pd.Series([1000, 999, 1, -1000], dtype=pd.ArrowDtype(pa.timestamp("ns"))),
]


@pytest.mark.parametrize("column", SAME_INSTANT, ids=lambda column: type(column).__module__)
def test_dates_are_compared_exactly_whatever_their_unit(column):
    index = PersonIndex()
    assert index.encode(np.array([1, -1], dtype="M8[us]")).tolist() == [0, 1]
    assert index.encode(column).tolist() == [0, 2, 3, 1]
    assert index.encode(np.array([10**6], dtype="M8[ps]")).tolist() == [0]


def test_far_dates_are_different_ids():
    index = PersonIndex()
    far = np.array([200_001, 300_000, 10**18, -(10**18), 9], dtype="M8[Y]")
    assert index.encode(far).tolist() == [0, 1, 2, 3, 4]
    assert index.encode(np.array([9 * 12, 200_001 * 12], dtype="M8[M]")).tolist() == [4, 0]
    seconds = [(200_001 - 30 + 1) * 31_556_952, 300_000 * 31_556_952]
    assert len(set(index.encode(np.array(seconds, dtype="M8[s]")).tolist())) == 2
    milliseconds = pl.Series([7 * 10**15, 7 * 10**15 + 1, 9 * 10**15], dtype=pl.Datetime("ms"))
    assert len(set(index.encode(milliseconds).tolist())) == 3


def test_instants_are_ids_in_every_time_zone():
    index = PersonIndex()
    twice = pd.Series(pd.to_datetime(["2021-10-31 00:30", "2021-10-31 01:30"], utc=True))
    assert index.encode(twice.dt.tz_convert("Europe/Berlin")).tolist() == [0, 1], "half past two, both times"
    for zone in ("UTC", "Asia/Tokyo"):
        for column in (twice.dt.tz_convert(zone), pl.Series(twice).dt.convert_time_zone(zone)):
            assert index.encode(column).tolist() == [0, 1]


def test_unhashable_ids_are_unknown():
    class Private(str):
        def __hash__(self):
            raise RuntimeError("a private value")

    for odd in (Decimal("sNaN"), Private("ann")):
        one, two = ("ann", "bob") if isinstance(odd, str) else (Decimal(1), Decimal(2))
        assert PersonIndex().encode([one, odd, two, one]).tolist() == [0, UNKNOWN, 1, 0]
        assert PersonIndex().encode([odd, odd]).tolist() == [UNKNOWN, UNKNOWN]


@pytest.mark.parametrize("k", [1, 2, 3])
@given(st.lists(st.tuples(st.integers(UNKNOWN, 4), st.integers(0, 3)), max_size=30))
def test_records_with_least_bits_are_sampled(k, records):
    people = np.array([person for person, _ in records], dtype=np.int64)
    bits = np.array([word for _, word in records], dtype=np.uint64)
    drawn = np.flatnonzero(drawn_records(digests_of(people), bits, k)).tolist()
    known = set(people.tolist()) - {UNKNOWN}
    expected = [sorted((word, i) for i, (person, word) in enumerate(records) if person == one)[:k] for one in known]
    assert drawn == sorted(i for least in expected for _, i in least)


def test_digests_depend_on_key_and_id_alone():
    key = new_key()
    one, other = PersonDigests(key).encode(["ann", "bob"]), PersonDigests(key).encode(["bob", "cem", "ann"])
    assert one.tolist() == other[[2, 0]].tolist()
    assert not set(one[:, 0].tolist()) & set(PersonDigests(new_key()).encode(["ann", "bob"])[:, 0].tolist())


@pytest.mark.parametrize(
    ("table", "told"),
    [(pl.Series(["ann"]), "numbers and text"), *((nothing, "nulls and numbers") for nothing in NOTHING)],
)
def test_workers_refuse_ids_of_another_kind(table, told):
    """Where the table has nulls, each of two workers would take ids of another kind for the first."""
    digests = PersonDigests.of_kind(table, MISSING_TEXTS)
    digests.encode(table)
    digests.encode(NOTHING[0])
    with pytest.raises(TypeError, match=told):
        digests.encode(pl.Series([1]))


def test_huge_decimals_are_no_ids():
    """Exact integers of them would fill the memory."""
    found = PersonIndex().encode([Decimal("1E+999999999"), Decimal("1E+900"), Decimal("Infinity"), 10**900])
    assert found.tolist() == [UNKNOWN, 0, UNKNOWN, 0]


@pytest.mark.parametrize(
    "ids", [[1, "1e0", b"1", uuid.UUID(int=1)], ["a", b"a"], [1, 2, Fraction(1, 2), Decimal("0.25")]]
)
def test_ids_of_several_types_are_distinct(ids):
    assert PersonIndex().encode(ids).tolist() == list(range(len(ids)))


@given(st.lists(st.integers(0, 7), max_size=6), st.data())
@settings(deadline=None)
def test_rows_are_read_across_batches(sizes, data):
    batches = [np.random.default_rng(i).integers(0, 256, (n, 3)).astype(np.uint8) for i, n in enumerate(sizes)]
    rows = EncodedBatches(3, batches)
    whole = np.concatenate([np.zeros((0, 3), dtype=np.uint8), *batches])
    assert (rows.n_rows, rows.n_features) == whole.shape
    start = data.draw(st.integers(0, rows.n_rows))
    stop = data.draw(st.integers(start, rows.n_rows))
    out = np.full((stop - start, 3), 77, dtype=np.uint8)
    rows.read(start, stop, out)
    assert np.array_equal(out, whole[start:stop])
