"""Ids become persons by their values, whatever kind of column they are in; what is no id is nobody's."""

import uuid
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diprime.domain.persons import MAX_RECORDS, UNKNOWN, PersonIndex, one_record_each, person_weight
from diprime.domain.target_layout import TargetLayout

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


def test_missing_ids_and_values_that_are_no_ids_are_nobodys():
    class Raises:
        def __hash__(self):
            raise RuntimeError("a private value")

    odd = [
        None,
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
    assert found[len(odd) + 2 :] == [1, 1, 1, 2, 3, 1, 1, 4, 1]


def test_the_same_person_in_two_batches_of_different_kinds():
    index = PersonIndex()
    assert index.encode(np.array([5, 7])).tolist() == [0, 1]
    assert index.encode(pl.Series([7.0, 9.0, None])).tolist() == [1, 2, UNKNOWN]
    assert index.encode(pd.Series([9, 5], dtype="category")).tolist() in ([2, 0],)


KINDS = {
    "numbers": [
        np.array([1, 2]),
        pl.Series([1.0, None]),
        pa.array([1]).dictionary_encode(),
        pd.Series([1, 2], dtype="category"),
        pd.Series([1], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.int64()))),
        pl.Series([True]),
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
    "dates": [np.array(["2020-01-01"], dtype="M8[D]"), pl.Series(["2020-01-01"]).str.to_date()],
    "Python objects": [["1"], [1], np.array(["1"], dtype=object), pd.Series(["1"], dtype=object)],
}
NOTHING = [pl.Series([None, None]), pa.array([None]), pd.Series([None], dtype=pd.ArrowDtype(pa.null()))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_ids_of_two_kinds_would_make_two_persons_of_one(kind, other):
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
            with pytest.raises(TypeError, match=r"^The ids of persons are [^.]*\.$") as error:
                index.encode(two)
            assert f"{min(kind, other)} in one batch or file and {max(kind, other)} in another" in str(error.value)


@pytest.mark.parametrize("empty", [False, True])
def test_kinds_of_ids_are_told_by_types_and_never_by_values(empty):
    def of(values, dtype):
        return pl.Series([None if empty else v for v in values], dtype=dtype)[: 0 if empty else None]

    index = PersonIndex()
    index.encode(of([1], pl.Int64))
    with pytest.raises(TypeError, match="numbers in one batch or file and text"):
        index.encode(of(["1"], pl.String))
    with pytest.raises(TypeError, match="numbers in one batch or file and text"):
        index.encode(of(["1"], pl.Categorical))
    with pytest.raises(TypeError, match="numbers in one batch or file and text"):
        index.encode(pa.array([] if empty else ["1"], type=pa.dictionary(pa.int8(), pa.string())))


@given(st.lists(st.one_of(st.none(), st.text(max_size=2), st.integers(-3, 3), st.floats(width=16))), st.integers(0, 9))
def test_persons_are_numbered_as_a_dictionary_does(ids, cut):
    index, numbers = PersonIndex(), {}
    found = [*index.encode(ids[:cut]).tolist(), *index.encode(ids[cut:]).tolist()]
    assert found == [UNKNOWN if pd.isna(i) else numbers.setdefault(i, len(numbers)) for i in ids]


@pytest.mark.parametrize("bad", ["text", 3, {"a": 1}, np.zeros((3, 2)), pl.DataFrame({"a": [1], "b": [2]})])
def test_what_is_no_column_is_refused_by_its_shape(bad):
    with pytest.raises(ValueError, match="groups should be a 1d array"):
        PersonIndex().encode(bad)


def test_a_weight_can_be_shared_by_any_number_of_records_and_fits_in_a_byte():
    for k in range(1, MAX_RECORDS + 1):
        assert k <= person_weight(k) <= 255
        assert person_weight(k) in (k, 6 * -(-k // 3))
    assert person_weight(1) == 1
    for bad in (0, -1, MAX_RECORDS + 1):
        with pytest.raises(ValueError, match="records"):
            person_weight(bad)


def test_the_layout_of_persons():
    layout = TargetLayout.of_number(4096)
    assert layout.of_persons(1) == layout
    assert layout.person_units == 4096
    assert layout.of_persons(10).person_units == 24 * 4096
    # Noise on leaf sums is drawn from fractions of 64 bits: the sensitivity must leave room for 40 bits of epsilon.
    assert layout.of_persons(MAX_RECORDS).person_units <= 1 << 21


def test_what_equals_an_id_and_is_none_changes_nobody():
    assert PersonIndex().encode([1 + 0j, 1, 1, 2]).tolist() == [UNKNOWN, 0, 0, 1]
    assert PersonIndex().encode([1, 1 + 0j, 1.0]).tolist() == [0, UNKNOWN, 0]


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_days_can_be_persons_and_no_day_is_nobody(unit):
    days = np.array(["2020-01-01", "NaT", "2020-01-02", "2020-01-01", "NaT"], dtype=f"M8[{unit}]")
    assert PersonIndex().encode(days).tolist() == [0, UNKNOWN, 1, 0, UNKNOWN]


@given(st.lists(st.tuples(st.integers(UNKNOWN, 4), st.integers(0, 3)), max_size=30))
def test_one_record_of_each_person_is_drawn_by_its_bits(records):
    persons = np.array([person for person, _ in records], dtype=np.int64)
    bits = np.array([word for _, word in records], dtype=np.uint64)
    drawn = np.flatnonzero(one_record_each(persons, bits)).tolist()
    known = set(persons.tolist()) - {UNKNOWN}
    least = [min((word, i) for i, (person, word) in enumerate(records) if person == one)[1] for one in known]
    assert drawn == sorted(least)
