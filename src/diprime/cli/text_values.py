"""Text as values of a domain.

The value of a text depends on that text and on the public domain alone. If types were guessed from the data, one record
could change how another one is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from diprime.domain import Categorical, moments

MISSING_WORDS = ("", "?", "na", "n/a", "nan", "null")
"""Texts that stand for a missing value, in lower case, unless the domain lists them as levels."""

_BOOLEAN_WORDS = {"true": True, "false": False}
_UNLISTED = -1
_ABSENT = -2


def as_text(column: pl.Series) -> pl.Series | None:
    """Return a column of text or of labels as text, and None for a column of another type."""
    return column.cast(pl.String) if column.dtype in (pl.String, pl.Categorical, pl.Enum) else None


def read_numbers(column: pl.Series, *, decimal_commas: bool = False) -> tuple[pl.Series, pl.Series]:
    """Return text as numbers, null if missing, and a mask of the values that are neither."""
    text = column.str.strip_chars()
    if decimal_commas:  # the first only: 1,234,567 is no number
        text = text.str.replace(",", ".", literal=True)
    numbers = text.cast(pl.Float64, strict=False)
    unreadable = numbers.is_null() & text.is_not_null()
    if unreadable.any():
        unreadable &= ~text.str.to_lowercase().is_in(MISSING_WORDS).fill_null(True)
    return numbers, unreadable


def read_dates(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return text as datetimes, null if missing, and a mask of the values that are neither."""
    texts = column.drop_nulls().unique()
    found = pl.Series(moments.of_values(texts.to_list())).replace(moments.NEVER, None)
    dates = column.replace_strict(texts, found, default=None, return_dtype=pl.Int64).cast(pl.Datetime("us"))
    words = column.str.strip_chars().str.to_lowercase()
    return dates, dates.is_null() & ~words.is_in(MISSING_WORDS).fill_null(True)


def read_categories(column: pl.Series, feature: Categorical, *, decimal_commas: bool = False) -> pl.Series:
    """Return text as values of a categorical feature: as its levels if it has any, else as it is."""
    if feature.is_open or feature.buckets is not None:
        text = column.str.strip_chars()
        return text.set(text.str.to_lowercase().is_in(MISSING_WORDS), None)
    return read_levels(column, feature.levels, decimal_commas=decimal_commas)


def read_levels(column: pl.Series, levels: Sequence[Any], *, decimal_commas: bool = False) -> pl.Series:
    """Return text as levels: null if missing, and a value that is no level for any other text."""
    positions = {level: position for position, level in enumerate(levels)}
    texts = column.drop_nulls().unique()
    found = pl.Series([_position(text, positions, decimal_commas) for text in texts], dtype=pl.Int64)
    at = column.replace_strict(texts, found, default=None, return_dtype=pl.Int64).fill_null(_ABSENT)
    return level_column(column.name, at.to_numpy(), levels)


def find_level(text: str, levels: Sequence[Any]) -> Any:
    """Return the level that equals a text, as `read_levels` reads it; None if there is none."""
    position = _position(text, {level: position for position, level in enumerate(levels)}, decimal_commas=False)
    return levels[position] if position >= 0 else None


def level_column(name: str, positions: npt.NDArray[np.int64], levels: Sequence[Any]) -> pl.Series:
    """Return a column of levels from their positions; -1 stands for a value that is no level, -2 for a missing one."""
    if not all(isinstance(level, str) for level in levels):
        values = [*levels, None, object()]  # the last two are at -2 and -1
        return pl.Series(name, [values[position] for position in positions], dtype=pl.Object)
    other = "other"
    while other in levels:
        other += "_"
    labels = pl.Series(name, [*levels, None, other], dtype=pl.Enum([*levels, other]))
    return labels.gather(np.where(positions < 0, positions + len(labels), positions))


def _position(text: str, positions: Mapping[Any, int], decimal_commas: bool) -> int:
    """Return the position of the level that equals a text: as it is, stripped, as a number or as a Boolean."""
    stripped = text.strip()
    number = to_number(stripped, decimal_commas=decimal_commas)
    for value in (text, stripped, number, _BOOLEAN_WORDS.get(stripped.lower())):
        if value is not None and value in positions:
            return positions[value]
    return _ABSENT if stripped.lower() in MISSING_WORDS else _UNLISTED


def to_number(text: str, *, decimal_commas: bool = False) -> int | float | None:
    """Return the number that a text is, as an integer if it is written as one; None if it is no number."""
    if decimal_commas:
        text = text.replace(",", ".", 1)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None
