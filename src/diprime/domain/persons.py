"""Persons who have several records: who a record belongs to, and how much a person's records weigh."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from diprime.domain import moments
from diprime.domain.tables import Column, is_missing, python_value, read_column, row_blocks

MAX_RECORDS = 100
"""The largest number of records of a person that a fit can use."""
UNKNOWN = -1
"""The number of nobody: records without an id are left out."""

MIXED_GROUPS = "Some batches have groups and some do not; give the persons of all records, or of none."

Persons = npt.NDArray[np.int64]
"""The number of the person of each record."""

# Values of other types may be equal to nothing but themselves, and then each record would be a person of its own.
_TYPES_OF_IDS = (str, bytes, int, float, Decimal, Fraction, UUID)

_KINDS_IN_WORDS = {
    "text": "text",
    "bytes": "bytes",
    "number": "numbers",
    "date": "dates",
    "object": "Python objects",
}


def has_groups(batch: tuple[Any, ...]) -> bool:
    """Return whether a batch says whose its records are; (X, y, None) is as good as (X, y)."""
    _, _, *groups = batch
    return bool(groups) and groups[0] is not None


def person_weight(max_records: int) -> int:
    """Return W: what the weights of a person's records add up to, whatever their number.

    The weight of a record is a whole number. W is at least twice the largest number of records, so that no two records
    of a person weigh very differently, and a multiple of six, so that two, three or six records weigh the same. It is
    small, for sums of weights must fit in a bin of a histogram, and one weight in a byte.

    Examples
    --------
    >>> [person_weight(k) for k in (1, 2, 3, 4, 10, 100)]
    [1, 2, 6, 12, 24, 204]
    """
    if not 1 <= max_records <= MAX_RECORDS:
        raise ValueError(f"A person can have from 1 to {MAX_RECORDS} records, got {max_records}.")
    return max_records if max_records <= 2 else 6 * -(-max_records // 3)  # noqa: PLR2004 -- of two, all weigh the same


def one_record_each(persons: Persons, bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return which records are drawn, one of each person: that with the least bits, in a tie the first.

    Examples
    --------
    >>> one_record_each(np.array([0, 1, -1, 0]), np.array([7, 3, 1, 5], dtype=np.uint64))
    array([False,  True, False,  True])
    """
    known = np.flatnonzero(persons >= 0)
    order = known[np.lexsort((bits[known], persons[known]))]
    drawn = np.zeros(len(persons), dtype=np.bool_)
    drawn[order[np.unique(persons[order], return_index=True)[1]]] = True
    return drawn


def _day_and_time(moment: int) -> str | None:
    """Return a moment as an id of its own kind; None for a missing one."""
    return None if moment == moments.NEVER else f"{moment} microseconds"


class PersonIndex:
    """Numbers persons by their ids, in the order in which they appear.

    Ids are equal if Python says so: 1 and 1.0 are one person, 1 and "1" are two. An id that is missing, or is neither
    text nor a number nor a UUID, is nobody's. So that nobody is two persons because two sources differ in how they
    store ids, the columns of all batches must hold the same kind of values, according to their dtypes.

    Examples
    --------
    >>> index = PersonIndex()
    >>> index.encode(["ann", "bob", None, "ann"])
    array([ 0,  1, -1,  0])
    >>> index.encode(["cem", "bob"])
    array([2, 1])
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._kind: str | None = None

    def encode(self, groups: Any) -> Persons:
        """Return the number of the person of each record, `UNKNOWN` for nobody."""
        column = read_column(groups, "groups")
        self._check_kind(column.kind_of_values)
        numbers = np.empty(column.n_rows, dtype=np.int64)
        find = self._finder(column)
        for start, stop in row_blocks(0, column.n_rows):
            numbers[start:stop] = find(start, stop)
        return numbers

    def _check_kind(self, kind: str) -> None:
        """Raise an error if ids are not of the kind of earlier ones, going by dtypes and never by values."""
        if kind == "nothing":
            return
        self._kind = self._kind or kind
        if kind != self._kind:
            first, second = sorted(_KINDS_IN_WORDS[k] for k in (kind, self._kind))
            raise TypeError(
                f"The ids of persons are {first} in one batch or file and {second} in another, so that one person "
                "would be taken for two; convert them to the same type in all of them."
            )

    def _finder(self, column: Column) -> Any:
        if column.kind == "date":
            read = column.moment_reader()
            return lambda start, stop: self._find([_day_and_time(moment) for moment in read(start, stop).tolist()])
        if column.labels is None:
            return lambda start, stop: self._find(column.values(start, stop))
        table = np.array([*map(self._number, column.labels), UNKNOWN], dtype=np.int64)
        return lambda start, stop: table[column.block(start, stop)]  # -1, for a missing id, is the last entry

    def _find(self, values: Any) -> Persons:
        try:
            kinds = set(map(type, values)) - {type(None)}
            if len(kinds) > 1 or not kinds <= set(_TYPES_OF_IDS):  # 1 == 1+0j, which is no id
                return np.fromiter(map(self._number, values), dtype=np.int64, count=len(values))
            known = {value: self._number(value) for value in dict.fromkeys(values)}
            return np.fromiter(map(known.__getitem__, values), dtype=np.int64, count=len(values))
        except Exception:  # noqa: BLE001 -- __hash__ and __eq__ of a private value may raise anything
            return np.fromiter(map(self._number, values), dtype=np.int64, count=len(values))

    def _number(self, value: Any) -> int:
        value = python_value(value)
        try:
            if not isinstance(value, _TYPES_OF_IDS) or is_missing(value):
                return UNKNOWN
            return self._numbers.setdefault(value, len(self._numbers))
        except Exception:  # noqa: BLE001 -- subclasses of these types may raise anything
            return UNKNOWN
