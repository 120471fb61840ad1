"""`Integer`: the public facts about a column of whole numbers, whose cells are its values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain.codes import CELLS, first_of_groups
from diprime.domain.features import short

MAX_BITS = 63
"""Bounds of integers fit in this many bits besides their sign: larger ones cannot be written to TOML."""


@dataclass(frozen=True, repr=False)
class Integer:
    """A feature of whole numbers, with its public range: every value has a cell of its own, if there are few enough.

    Parameters
    ----------
    low, high : int
        The smallest and the largest value, ``low < high``. Numbers outside are clamped to them. Choose them from prior
        knowledge, never from the data. A number between two integers counts as the lower one: 6.9 is in the cell of 6.

    Attributes
    ----------
    first_values : tuple of int
        The smallest integer of every cell but the first. With at most 255 values, each has its cell. With more, there
        are 255 cells of equally many consecutive values, up to one.
    thresholds : ndarray of float64
        The same numbers for the encoding: the code of x is the number of thresholds at or below x. That is exact up to
        2^53; beyond, thresholds and values are rounded to float64 alike.
    n_cells : int
        The number of cells, ``len(thresholds) + 1``.

    Examples
    --------
    >>> hour = Integer(0, 23)
    >>> hour.n_cells, hour.thresholds[:3].tolist()
    (24, [1.0, 2.0, 3.0])
    >>> Integer(0, 1019).first_values[:3]
    (4, 8, 12)
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, _whole(getattr(self, name), name))
        if not self.low < self.high:
            raise ValueError(f"low = {self.low} is not below high = {self.high}; give low < high.")

    def __repr__(self) -> str:
        return f"Integer({self.low}, {self.high})"

    def __getstate__(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high}  # not the cached thresholds

    @property
    def is_open(self) -> bool:
        """Whether the range is still to be learnt: never."""
        return False

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return min(self.high - self.low + 1, CELLS)

    @property
    def first_values(self) -> tuple[int, ...]:
        """The smallest integer of every cell but the first."""
        return tuple(self.low + first for first in first_of_groups(self.high - self.low + 1, CELLS))

    @cached_property
    def thresholds(self) -> npt.NDArray[np.float64]:
        """The smallest float64 of every cell but the first."""
        result = np.array([float(first) for first in self.first_values])
        result.flags.writeable = False
        return result


def _whole(value: Any, name: str) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{name} = {short(value)} is not a whole number; give an integer.")
    if not isinstance(value, (int, np.integer)) and not float(value).is_integer():
        raise ValueError(f"{name} = {short(value)} is not a whole number; give an integer, or use Numeric.")
    if int(value).bit_length() > MAX_BITS:
        raise ValueError(f"{name} = {short(value)} does not fit in 64 bits; use Numeric for numbers of this size.")
    return int(value)
