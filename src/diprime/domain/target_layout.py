"""How an encoded target becomes integers that add up: vectors, the bins that hold their sums, windows of a range."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from diprime.domain.persons import person_weight

Task = Literal["classification", "regression"]
"""What is learnt: to predict one of a list of classes, or a number."""
Bins = npt.NDArray[np.uint64]

MAX_CLASSES = 1000  # for which the error bound of kernels/scoring.py holds
MAX_ROWS_BITS = 31
NUMBER_ROWS_BITS = 26  # with a numeric target: the rest of a bin holds the sum of values


@dataclass(frozen=True)
class Windows:
    """For each node a part of a numeric target's range, in its integer units; values outside are clamped.

    Attributes
    ----------
    low, high : arrays of shape (n_nodes,)
        The ends of the windows, ``low < high``.
    """

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.low)

    def widened(self, by: npt.NDArray[np.int64], units: int) -> Windows:
        """Return windows that are wider on both sides, within the target's range."""
        return Windows(np.maximum(self.low - by, 0), np.minimum(self.high + by, units))


@dataclass(frozen=True)
class Contributions:
    """What every encoded target adds to a bin: public tables with one entry for each value of the target.

    Attributes
    ----------
    columns : array of shape (n_targets,)
        The column that a target adds to.
    amounts : array of shape (n_windows, n_targets)
        The packed count and value that a target adds, for each window through which it may be seen.
    """

    columns: npt.NDArray[np.uint16]
    amounts: npt.NDArray[np.uint64]


@dataclass(frozen=True)
class TargetLayout:
    """How a target becomes integers: every record contributes a vector of ``n_outputs`` entries that sum to ``units``.

    Attributes
    ----------
    n_outputs : int
        Entries of a record's vector: the classes, or two for a number v (units - v and v).
    units : int
        What the entries of one record add up to: 1 for classes, a power of two for numbers.
    shift : int
        Bits of a bin that hold the sum of values; the count of rows is above them.
    person_weight : int, default=1
        What the weights of one person's records add up to. A record of weight w counts as w equal records: a person is
        so many, of which the vectors add up to ``person_units``.
    """

    n_outputs: int
    units: int
    shift: int
    person_weight: int = 1

    @classmethod
    def of_classes(cls, n_classes: int) -> TargetLayout:
        """Return the layout of a class: one-hot."""
        if n_classes > MAX_CLASSES:
            raise ValueError(f"The target has {n_classes} classes; at most {MAX_CLASSES} are supported.")
        return cls(n_classes, 1, 32)

    @classmethod
    def of_number(cls, units: int) -> TargetLayout:
        """Return the layout of a number v in [0, units], a power of two: the two-class point (units - v, v)."""
        if units <= 1:
            raise ValueError(f"A number needs at least two units, got {units}; one unit is a class.")
        return cls(2, units, NUMBER_ROWS_BITS + units.bit_length() - 1)

    def of_persons(self, max_records: int) -> TargetLayout:
        """Return the layout for persons with up to so many records, which weigh as one."""
        return replace(self, person_weight=person_weight(max_records))

    @property
    def person_units(self) -> int:
        """What the entries of all of a person's vectors add up to, by weight."""
        return self.units * self.person_weight

    @property
    def task(self) -> Task:
        """What is learnt: the vectors of classes are one-hot, and only theirs sum to one."""
        return "classification" if self.units == 1 else "regression"

    @property
    def n_columns(self) -> int:
        """Bins of a cell: one is enough where a vector of two entries follows from the count and one of them."""
        return 1 if self.n_outputs <= 2 else self.n_outputs  # noqa: PLR2004 -- two entries, as the docstring says

    @property
    def column_weight(self) -> float:
        """Weight of a column's S² in the sum of squared errors ½·Σ‖t - t̄‖²: both entries of two vary alike."""
        return 1.0 if self.n_columns == 1 else 0.5

    @property
    def max_rows(self) -> int:
        """Rows, or their sum of weights, that a bin can count; for more, counts and values are added up apart."""
        return (1 << min(MAX_ROWS_BITS, 64 - self.shift)) - 1

    @property
    def n_targets(self) -> int:
        """How many values an encoded target may have."""
        return self.n_outputs if self.units == 1 else self.units + 1

    @property
    def whole_range(self) -> Windows:
        """The window that leaves a numeric target as it is."""
        return Windows(np.array([0]), np.array([self.units]))

    def contributions(self, windows: Windows) -> Contributions:
        """Return what targets add. Numbers are rescaled from a window to the whole range; classes have no window."""
        targets = np.arange(self.n_targets)
        columns = np.zeros_like(targets)
        if self.units > 1:
            width = (windows.high - windows.low)[:, None]
            places = np.clip(targets - windows.low[:, None], 0, width)
            values = (2 * places * self.units + width) // (2 * width)  # rounded
        elif self.n_columns > 1:
            columns, values = targets, np.ones((len(windows), self.n_targets), dtype=np.int64)
        else:
            values = np.tile(targets, (len(windows), 1))
        amounts = (np.uint64(1) << np.uint64(self.shift)) + values.astype(np.uint64)
        return Contributions(columns.astype(np.uint16), amounts)

    def count_contributions(self) -> Contributions:
        """Return contributions that count the records with each value of the target, a column for each value."""
        columns = np.arange(self.n_targets, dtype=np.uint16)
        return Contributions(columns, np.ones((1, self.n_targets), dtype=np.uint64))

    def unpacked(self, bins: Bins) -> tuple[Bins, Bins]:
        """Return the counts of bins, and their sums of values."""
        return bins >> np.uint64(self.shift), bins & np.uint64((1 << self.shift) - 1)

    def vectors(self, bins: Bins) -> npt.NDArray[np.int64]:
        """Return the sums of the records' vectors from bins whose last axis is the columns."""
        counts, sums = (plane.astype(np.int64) for plane in self.unpacked(bins))
        if self.n_columns > 1:
            return np.asarray(sums)
        rest = counts * self.units - sums
        return np.asarray(np.concatenate([rest, sums], axis=-1)[..., : self.n_outputs])
