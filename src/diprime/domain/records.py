"""Batches of records, and the person of each record."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence, Sized
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from numbers import Rational
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

import numpy as np
import numpy.typing as npt

from diprime.domain.columns import Column, python_value, read_column, row_blocks
from diprime.domain.values import MISSING_TEXTS, Markers, is_marker, is_missing

MAX_RECORDS = 100
"""Maximum number of records of one person that a fit can use."""

MIXED_GROUPS = "Some batches have groups and others do not. Pass groups for all batches, or for none."

Persons = npt.NDArray[np.uint64]
"""Digests of the ids of records, two integers each. Both are 0 if the id is missing."""

NO_PERSONS: Persons = np.zeros((0, 2), dtype=np.uint64)

# Values of other types may be equal to nothing but themselves, so that every record would be a person of its own.
_TYPES_OF_IDS = (str, bytes, int, float, Decimal, Fraction, UUID)

_INEXACT = 1 << 53
"""From here on, a float represents several integers, so an id that was converted to float may have been rounded."""

_KINDS_IN_WORDS = {
    "nothing": "nulls",
    "text": "text",
    "bytes": "bytes",
    "number": "numbers",
    "date": "dates",
    "instant": "dates with a time zone",
    "object": "Python objects",
}

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,37}")
"""Text forms of integers of up to 128 bits, one per integer."""
_READ_AS_INTEGER = re.compile(r"\s*([+-]?[0-9]{1,38})(?:\.0*)?\s*", re.ASCII)
"""Text that a reader may have converted to integers in parts of a column in which all values looked like integers."""

_DIGEST_BYTES = 16
_MAX_EXPONENT = 1000
"""Decimal ids beyond this power of ten are dropped, because they could fill the memory as integers."""
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def person_weight(max_records: int) -> int:
    """Return the total weight of a person's records, whatever their number.

    Weights are integers. The total is at least twice the maximum number of records, so that the weights of a person's
    records are similar, and a multiple of six, so that two, three or six records have equal weights. It is small,
    because sums of weights must fit in a bin of a histogram, and a weight in a byte.
    """
    if not 1 <= max_records <= MAX_RECORDS:
        raise ValueError(f"max_records_per_group must be from 1 to {MAX_RECORDS}, got {max_records}.")
    return max_records if max_records <= 2 else 6 * -(-max_records // 3)  # noqa: PLR2004 -- equal weights


def new_key() -> bytes:
    """Return a new random key for digests of ids."""
    return secrets.token_bytes(hashlib.blake2b.MAX_KEY_SIZE)


def are_known(persons: Persons) -> npt.NDArray[np.bool_]:
    """Return which records have an id."""
    return np.asarray(persons.any(axis=1))


def sorted_by_person(
    persons: Persons, bits: npt.NDArray[np.uint64] | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sort records by person, and within a person by their bits, or by their order if there are no bits.

    Return the sorted order, the rank of each record within its person, and the number of records of its person.
    """
    order = np.lexsort((*(() if bits is None else (bits,)), persons[:, 1], persons[:, 0]))
    ordered = persons[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    begins = np.flatnonzero(is_first)
    sizes = np.diff(begins, append=len(order))
    return order, np.arange(len(order)) - np.repeat(begins, sizes), np.repeat(sizes, sizes)


def drawn_records(persons: Persons, bits: npt.NDArray[np.uint64], max_records: int) -> npt.NDArray[np.bool_]:
    """Return which records are sampled: up to ``max_records`` per person, with the smallest bits, ties by order."""
    known = np.flatnonzero(are_known(persons))
    order, places, _ = sorted_by_person(persons[known], bits[known])
    drawn = np.zeros(len(persons), dtype=np.bool_)
    drawn[known[order[places < max_records]]] = True
    return drawn


def numbers_of(persons: Persons) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Assign numbers to persons in order of appearance.

    Return the number of each record's person, -1 if the id is missing, and the index of each person's first record.
    """
    known = np.flatnonzero(are_known(persons))
    order, ranks, _ = sorted_by_person(persons[known])
    firsts = order[ranks == 0]
    places = np.argsort(np.argsort(firsts))
    numbers = np.full(len(persons), -1, dtype=np.int64)
    numbers[known[order]] = places[np.cumsum(ranks == 0) - 1]
    return numbers, known[np.sort(firsts)]


class PersonDigests:
    """Keyed digests of ids, which are equal for equal ids and reveal no id without the key.

    Ids are equal if Python considers them equal: 1 and 1.0 are one person. In addition, "1" equals 1, but "01" does
    not, except in columns of objects. There, pandas may read one piece of a large file as integers and the next as
    text, so that 01 becomes 1 in one and "01" in the other. A record is dropped if its id is missing, or is neither
    text nor a number nor a UUID, or is a float of at least 2^53 or a decimal beyond 10^1000. Dates are compared
    exactly. According to their dtypes, the columns of all batches must hold the same kind of values; otherwise, sources
    that store ids differently could turn one person into two. Float dtypes are refused, because several ids may have
    been rounded to one.
    """

    def __init__(self, key: bytes, missing: Markers = MISSING_TEXTS, kind: str | None = None) -> None:
        self._key = key
        self._missing = missing
        self.kind = kind  # of all columns; by default that of the first

    @classmethod
    def of_kind(cls, groups: Any, missing: Markers) -> PersonDigests:
        """Return digests with a new key, for ids of the kind of a column, or all missing."""
        kind = read_column(groups, "groups").kind_of_values
        made = cls(new_key(), missing, kind)
        made.check_kind(kind)
        return made

    def encode(self, groups: Any) -> Persons:
        """Return the digests of the ids of all records."""
        column = read_column(groups, "groups")
        self.check_kind(column.kind_of_values)
        persons = np.empty((column.n_rows, 2), dtype=np.uint64)
        find = self._finder(column)
        for start, stop in row_blocks(0, column.n_rows):
            persons[start:stop] = find(start, stop)
        return persons

    def check_kind(self, kind: str | None) -> None:
        """Raise an error if ids differ in kind from earlier ones, as judged by dtypes and never by values."""
        if kind in (None, "nothing"):
            return
        if kind == "float":
            raise TypeError(
                "groups contains floats, which may have rounded large integers, so two people could become one. "
                "Read identifiers as integers (in pandas, as Int64 if some are missing) or as text."
            )
        self.kind = self.kind or kind
        if kind != self.kind:
            first, second = sorted(_KINDS_IN_WORDS[k] for k in (kind, self.kind))
            raise TypeError(
                f"groups has different types in different batches or files: {first} and {second}. Convert it to one "
                "type, so that no person is counted twice."
            )

    def _finder(self, column: Column) -> Any:
        integers = _READ_AS_INTEGER if column.kind_of_values == "object" else _INTEGER
        if column.instants is not None:
            return lambda start, stop: self._find(column.instants(start, stop).tolist(), integers)
        if column.labels is None:
            return lambda start, stop: self._find(column.values(start, stop), integers)
        table = self._digests([*column.labels, None], integers)
        return lambda start, stop: table[column.block(start, stop)]  # -1, for a missing id, selects the last entry

    def _find(self, values: Any, integers: re.Pattern[str]) -> Persons:
        try:
            kinds = set(map(type, values)) - {type(None)}
            if len(kinds) > 1 or not kinds <= set(_TYPES_OF_IDS):  # for example, 1 == 1+0j, which is not an id
                return self._digests(values, integers)
            places = {value: i for i, value in enumerate(dict.fromkeys(values))}
            found = np.fromiter(map(places.__getitem__, values), dtype=np.int64, count=len(values))
            return self._digests(places, integers)[found]
        except Exception:  # noqa: BLE001 -- __hash__ and __eq__ of a private value may raise anything
            return self._digests(values, integers)

    def _digests(self, values: Any, integers: re.Pattern[str]) -> Persons:
        """Return the digests of values. Text that matches ``integers`` counts as an integer."""
        keyed = hashlib.blake2b(digest_size=_DIGEST_BYTES, key=self._key)

        def digest(value: Any) -> bytes:
            content = self._content(python_value(value), integers)
            if content is None:
                return bytes(_DIGEST_BYTES)
            of_value = keyed.copy()
            of_value.update(content)
            return of_value.digest()

        return np.frombuffer(b"".join(map(digest, values)), dtype="<u8").astype(np.uint64).reshape(-1, 2)

    def _content(self, value: Any, integers: re.Pattern[str]) -> bytes | None:
        """Return bytes that are equal only for equal ids, or None if the value is not an id."""
        try:
            hash(value)  # ids must be hashable
            if not isinstance(value, _TYPES_OF_IDS) or is_missing(value) or is_marker(value, self._missing):
                return None
            if isinstance(value, str):
                integer = integers.fullmatch(value)
                if integer is not None:
                    return _content_of_number(int(integer[integers.groups]))
                return b"text " + str.encode(value, "utf-8", "surrogatepass")
            if isinstance(value, (bytes, UUID)):
                return b"bytes " + bytes(value) if isinstance(value, bytes) else b"uuid " + value.bytes
            return _content_of_number(value)
        except Exception:  # noqa: BLE001 -- subclasses of these types may raise anything
            return None


def _content_of_number(value: Any) -> bytes | None:
    """Return the exact value of a number as a fraction, or None if it is rounded, infinite or too long."""
    if isinstance(value, float) and abs(value) >= _INEXACT:
        return None
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        if not isinstance(exponent, int) or abs(exponent) > _MAX_EXPONENT:
            return None
    numerator, denominator = (
        (value.numerator, value.denominator) if isinstance(value, Rational) else value.as_integer_ratio()
    )
    return f"number {numerator:x}/{denominator:x}".encode()


class Records(NamedTuple):
    """Records of one batch or partition."""

    X: Any  # values of the features
    y: Any = None  # targets
    groups: Any = None  # person of each record


class DrawnPart(NamedTuple):
    """The records of a part that the first pass has sampled, one per person."""

    mark: bytes  # digest of the part's digests of ids
    used: npt.NDArray[np.uint8]  # one bit per record


class Tally(Protocol[T_co]):
    """A function of the records of one part. It can be pickled and has no side effects."""

    def __call__(self, batches: Iterable[Records], drawn: DrawnPart | None, /) -> T_co:
        """Return what the records of a part, or only its sampled records, contribute to a result."""


class Collect(Protocol):
    """A function that reads all records once per call. Without persons, their order and batches may differ."""

    def __call__(self, tally: Tally[T], drawn: Sequence[DrawnPart] | None = None, /) -> list[T]:
        """Return the tally of each part, in order. With persons, ``drawn`` selects the records of each part."""


class EncodedBatches:
    """Rows of several batches of codes, as :class:`~diprime.domain.encoding.Rows`."""

    numbers: npt.NDArray[Any] | None = None  # the original values are not stored

    def __init__(self, n_features: int, batches: list[npt.NDArray[np.uint8]]) -> None:
        self.n_features = n_features
        self._batches = batches
        self._bounds = np.concatenate([[0], np.cumsum([len(batch) for batch in batches], dtype=np.int64)])
        self.n_rows = int(self._bounds[-1])

    def thresholds(self) -> list[npt.NDArray[np.float64]]:
        """Return an empty list, because there are no ``numbers``."""
        return []

    def read(self, start: int, stop: int, out: npt.NDArray[np.uint8]) -> None:
        """Write the codes of rows ``start`` to ``stop``."""
        first, last = np.searchsorted(self._bounds, [start, stop], side="right") - 1
        inner = self._bounds[first + 1 : last + 1].tolist()
        for batch, (a, b) in enumerate(pairwise([start, *inner, stop]), start=int(first)):
            if a < b:
                offset = int(self._bounds[batch])
                out[a - start : b - start] = self._batches[batch][a - offset : b - offset]


def check_lengths(*parts: Sized | int | None) -> None:
    """Refuse records, targets and groups of different lengths, ignoring those that are None."""
    sizes = [part if isinstance(part, int) else len(part) for part in parts if part is not None]
    if len(set(sizes)) > 1:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {sizes}.")
