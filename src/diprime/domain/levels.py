"""Values to their places among the levels of a categorical feature, as a dict would find them, only faster."""

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
from diprime.domain.tables import Array, Column, as_floats, is_missing
from diprime.kernels import encoding

UNLISTED = -1
"""The place of a value that is none of the levels."""
ABSENT = -2
"""The place of a missing value."""

EXACT = 2**53
"""Below it every integer is a float64."""

_Places = npt.NDArray[np.int64]


class LevelIndex:
    """Finds the places of values among levels.

    What it derives from the levels is made once, when it is needed, and is plain data: a domain keeps it, and whoever
    looks for secrets on a fitted model should see that there is nothing else.
    """

    def __init__(self, levels: Sequence[Hashable]) -> None:
        self._levels = levels

    def finder(self, column: Column, where: str) -> Callable[[int, int], _Places]:
        """Return a function from a block of the column's rows to places: `UNLISTED` for none, `ABSENT` for missing."""
        self._check_dtype(column, where)
        if column.labels is not None:
            table = np.array([*self._find_values(column.labels), ABSENT], dtype=np.int64)
            return lambda start, stop: table[column.block(start, stop)]  # a missing value is -1: the last entry
        if column.kind == "number" and self._numbers is not None:
            return lambda start, stop: self._find_numbers(as_floats(column.block(start, stop)))
        return lambda start, stop: self._find_values(column.values(start, stop))

    def _check_dtype(self, column: Column, where: str) -> None:
        """Refuse a column whose dtype can hold none of the levels: a mistake that no value would show.

        Floats are let through: text of which every value is missing is often read as NaN.
        """
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
    def _places(self) -> dict[Hashable, int]:
        return {level: i for i, level in enumerate(self._levels)}

    def _find_values(self, values: Sequence[Any]) -> _Places:
        find = self._places.get
        try:
            result = np.fromiter(map(find, values, repeat(UNLISTED)), dtype=np.int64, count=len(values))
        except Exception:  # unhashable, or with an odd __eq__: whatever the data hold, they are not a level
            result = np.fromiter((_try_find(find, v) for v in values), dtype=np.int64, count=len(values))
        for i in np.flatnonzero(result == UNLISTED).tolist():
            if type(values[i]) is not str and is_missing(values[i]):
                result[i] = ABSENT
        return result

    @cached_property
    def _numbers(self) -> tuple[npt.NDArray[np.float64], _Places] | None:
        """Levels that a number can equal, sorted, with their places; None where float64 could confuse them."""
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
    def _cells(self) -> tuple[npt.NDArray[np.float64], _Places] | None:
        """Thresholds that give each numeric level a cell of its own, where the kernel has enough, and cells' places."""
        assert self._numbers is not None
        numbers, places = self._numbers
        if 2 * len(numbers) > CELLS or not np.isfinite(numbers).all():
            return None
        thresholds = np.full(CELLS, np.nan)
        thresholds[: 2 * len(numbers) : 2] = numbers
        thresholds[1 : 2 * len(numbers) : 2] = np.nextafter(numbers, np.inf)
        place_of_cell = np.full(N_CODES, UNLISTED, dtype=np.int64)
        place_of_cell[1 : 2 * len(numbers) : 2] = places
        place_of_cell[MISSING] = ABSENT
        return thresholds, place_of_cell

    def _find_numbers(self, values: Array) -> _Places:
        if self._cells is not None:
            thresholds, place_of_cell = self._cells
            cells = np.empty(len(values), dtype=np.uint8)
            encoding.encode_sorted(values, thresholds, cells)
            return place_of_cell[cells]
        assert self._numbers is not None
        numbers, places = self._numbers  # not empty, or they would have cells
        at = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
        result = np.where(numbers[at] == values, places[at], UNLISTED)
        result[np.isnan(values)] = ABSENT
        return result


def _try_find(find: Callable[[Any, int], int], value: Any) -> int:
    try:
        return find(value, UNLISTED)
    except Exception:
        return UNLISTED
