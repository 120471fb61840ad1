"""How large a domain may be, so that every model that is fitted with it can be written to a file and read again.

What is declared is public, and so is how many columns are open. So whether there is room is decided before anything is
paid for, and each open column has room for levels of its own, which those that are learnt never exceed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from diprime.domain import files
from diprime.domain.files import Facts, n_values, toml_value, write_dict, write_json, write_toml

_TOO_LARGE = (
    "The domain is too large for a model file, in which it has at most {values:,} values and {bytes:,} bytes of text: "
    "give fewer columns, or Categorical(buckets=254) for those with many levels."
)

_LEDGER_BYTES, _LEDGER_VALUES = 1 << 17, 1 << 12  # of what learning a domain cost
_RANGE_BYTES, _RANGE_VALUES = 256, 8  # of a range that was learnt: two numbers, or two dates and their parts
_MIN_BYTES, _MIN_VALUES = 1024, 16  # of the levels of a column: with less, they are not worth learning
_INDENT = 12  # bytes around a level that has a line of its own


@dataclass(frozen=True)
class Room:
    """Room in a file.

    Attributes
    ----------
    n_bytes : int
        The bytes of text.
    n_values : int
        The number of values, as `files.is_oversized` counts them.
    """

    n_bytes: int
    n_values: int

    @classmethod
    def of(cls, text: str) -> Room:
        """Return the room that a text takes."""
        data = text.encode()
        return cls(len(data), n_values(data))


WHOLE_FILE = Room(files.MAX_BYTES, files.MAX_VALUES)


def check_size(facts: Facts) -> None:
    """Raise `ValueError` if no model file could hold a domain.

    A domain that cannot be written for other reasons, such as levels that are tuples, is for use in memory.
    """
    try:
        text = json.dumps(write_dict(facts), ensure_ascii=False)
    except (TypeError, ValueError):  # integers of thousands of digits have no text
        return
    if files.is_oversized(text.encode()):
        raise _too_large()


def room_of_levels(facts: Facts, n_columns: int) -> Room:
    """Return the room that is left for the levels of each of so many columns; raise `ValueError` if it is too little.

    The domain has to be written with them as TOML and as JSON, whichever is larger.
    """
    try:
        sizes = [Room.of(text) for text in (write_toml(facts), write_json(facts))]
    except (TypeError, ValueError):
        return WHOLE_FILE
    features, target, *_ = facts
    n_open = sum(feature.is_open for feature in (*features.values(), target))
    n_bytes = files.MAX_BYTES - max(size.n_bytes for size in sizes) - _LEDGER_BYTES - n_open * _RANGE_BYTES
    values = files.MAX_VALUES - max(size.n_values for size in sizes) - _LEDGER_VALUES - n_open * _RANGE_VALUES
    if n_bytes < n_columns * _MIN_BYTES or values < n_columns * _MIN_VALUES:
        raise _too_large()
    return Room(n_bytes // max(n_columns, 1), values // max(n_columns, 1))


def fitting(levels: Sequence[Any], room: Room) -> list[Any]:
    """Return the levels that there is room for, in their order; if there is too little for all, the shortest ones.

    Levels that were released may be left out at no cost. The choice depends on nothing but which they are.
    """
    sizes = [_size_of_level(level) for level in levels]
    kept, n_bytes, values = set(), room.n_bytes, room.n_values
    for i in sorted(range(len(levels)), key=lambda i: sizes[i].n_bytes):
        n_bytes, values = n_bytes - sizes[i].n_bytes, values - sizes[i].n_values
        if min(n_bytes, values) < 0:
            break
        kept.add(i)
    return [level for i, level in enumerate(levels) if i in kept]


def _size_of_level(level: Any) -> Room:
    """Return the room that a level takes in a list, at most."""
    try:
        size = Room.of(toml_value(level))
    except ValueError:  # an integer of thousands of digits has no text
        return Room(2 * files.MAX_BYTES, 1)
    return Room(size.n_bytes + _INDENT, size.n_values + 1)


def _too_large() -> ValueError:
    """Return the error of a domain that no model file could hold."""
    return ValueError(_TOO_LARGE.format(values=files.MAX_VALUES, bytes=files.MAX_BYTES))
