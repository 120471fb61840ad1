"""The position of a value among the levels of a categorical feature: what a dict would find, but faster."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain.codes import CELLS, MISSING, N_CODES
from diprime.domain.moments import text_of
from diprime.domain.tables import Array, Column, as_floats, is_missing
from diprime.kernels import encoding

UNLISTED = -1
"""Stands for the position of a value that is not a level."""
ABSENT = -2
"""Stands for the position of a missing value."""

EXACT = 2**53
"""Every integer of smaller magnitude is a float64, and no other integer rounds to it."""

_Positions = npt.NDArray[np.int64]


class LevelIndex:
    """Find the positions of values among levels.

    Lookup tables are built from the levels on first use. They are plain data and hold nothing of a data set, so that a
    search for private values in a fitted model, whose domain keeps this object, can inspect them.

    Parameters
    ----------
    levels : sequence of hashable
        The levels, in order.
    """

    def __init__(self, levels: Sequence[Hashable]) -> None:
        self._levels = levels

    def finder(self, column: Column, where: str) -> Callable[[int, int], _Positions]:
        """Return a function that maps rows ``start`` to ``stop`` of a column to positions, `UNLISTED` or `ABSENT`."""
        self._check_dtype(column, where)
        if column.labels is not None:
            table = np.array([*self._find_values(column.labels), ABSENT], dtype=np.int64)
            return lambda start, stop: table[column.block(start, stop)]  # -1, for a missing value, is the last entry
        if column.kind == "number" and self._numbers is not None:
            return lambda start, stop: self._find_numbers(as_floats(column.block(start, stop)))
        return lambda start, stop: self._find_values(column.values(start, stop))

    def _check_dtype(self, column: Column, where: str) -> None:
        """Raise an error if the dtype can hold none of the levels: every value would silently be `UNLISTED`.

        Float columns pass, because a text column without any value is often read as floats, all of them NaN.
        """
        if column.kind == "date":
            raise TypeError(
                f"{where} has dtype {column.dtype}, but is categorical in the domain; declare it Date there."
            )
        of_text = all(isinstance(level, str) for level in self._levels)
        of_numbers = all(isinstance(level, numbers.Number) for level in self._levels)
        if (of_text and column.kind == "number" and not column.dtype.lower().startswith("float")) or (
            of_numbers and column.kind == "text"
        ):
            levels, held = ("text", "numbers") if of_text else ("numbers", "text")
            raise TypeError(
                f"{where} has dtype {column.dtype}, but its levels in the domain are {levels}; list its levels as "
                f"{held}, or convert the column."
            )

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        return {level: i for i, level in enumerate(self._levels)}

    def _find_values(self, values: Sequence[Any]) -> _Positions:
        find = self._positions.get
        try:
            result = np.fromiter(map(find, values, repeat(UNLISTED)), dtype=np.int64, count=len(values))
        except Exception:  # noqa: BLE001 -- __hash__ and __eq__ of a private value may raise anything
            result = np.fromiter((_try_find(find, v) for v in values), dtype=np.int64, count=len(values))
        for i in np.flatnonzero(result == UNLISTED).tolist():
            if type(values[i]) is not str:
                result[i] = ABSENT if is_missing(values[i]) else self._find_date(values[i])
        return result

    def _find_date(self, value: Any) -> int:
        """Return the position of a date's text: in a column of objects a date is the level that its text is."""
        try:
            return self._positions.get(text_of(value), UNLISTED)
        except Exception:  # noqa: BLE001 -- a private date may be too far away, or its methods may raise anything
            return UNLISTED

    @cached_property
    def _numbers(self) -> tuple[npt.NDArray[np.float64], _Positions] | None:
        """The numeric levels, sorted, and their positions; None if comparing as float64 could confuse levels."""
        pairs = []
        for i, level in enumerate(self._levels):
            if isinstance(level, (bool, int, float)):
                if not (abs(level) < EXACT or level in (math.inf, -math.inf)):
                    return None
                pairs.append((float(level), i))
            elif not isinstance(level, (str, bytes)):
                return None
        pairs.sort()
        return np.array([p[0] for p in pairs], dtype=np.float64), np.array([p[1] for p in pairs], dtype=np.int64)

    @cached_property
    def _cells(self) -> tuple[npt.NDArray[np.float64], _Positions] | None:
        """Thresholds that put each numeric level in a cell of its own, and the position of every cell.

        None if the levels are too many for the kernel, or if one of them is infinite.
        """
        assert self._numbers is not None
        numbers, positions = self._numbers
        if 2 * len(numbers) > CELLS or not np.isfinite(numbers).all():
            return None
        thresholds = np.full(CELLS, np.nan)
        thresholds[: 2 * len(numbers) : 2] = numbers
        thresholds[1 : 2 * len(numbers) : 2] = np.nextafter(numbers, np.inf)
        position_of_cell = np.full(N_CODES, UNLISTED, dtype=np.int64)
        position_of_cell[1 : 2 * len(numbers) : 2] = positions
        position_of_cell[MISSING] = ABSENT
        return thresholds, position_of_cell

    def _find_numbers(self, values: Array) -> _Positions:
        if self._cells is not None:
            thresholds, position_of_cell = self._cells
            cells = np.empty(len(values), dtype=np.uint8)
            encoding.encode_sorted(values, thresholds, cells)
            return position_of_cell[cells]
        assert self._numbers is not None
        numbers, positions = self._numbers  # not empty: without numeric levels there are cells
        at = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
        result = np.where(numbers[at] == values, positions[at], UNLISTED)
        result[np.isnan(values)] = ABSENT
        return result


def _try_find(find: Callable[[Any, int], int], value: Any) -> int:
    """Find one value; a value that cannot be hashed or compared is not a level."""
    try:
        return find(value, UNLISTED)
    except Exception:  # noqa: BLE001 -- __hash__ and __eq__ of a private value may raise anything
        return UNLISTED
