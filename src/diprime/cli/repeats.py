"""How often the values of a column repeat, which tells keys of persons from codes and quantities."""

from __future__ import annotations

import re

import polars as pl

MAX_COUNTED = 1 << 16
"""Beyond so many different values, a column is judged by the rows that were read until then."""
FEW = 254
"""A column of so few different values is no key, whatever else."""
MANY_NUMBERS = 1 / 2
"""The share of different values from which whole numbers may be keys; amounts of money are often as various."""
MANY_TEXTS = 1 / 20
"""The share of different values from which texts may be keys."""
FREQUENT = 1 / 100
"""The share of rows of a value that is no person's: codes and quantities have frequent values, such as zero."""

_KEY_NAME = re.compile(r"(^|[^a-z])(id|key|guid|nbr|ssn|uuid)$")
_END_OF_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Repeats:
    """How often each value of a column occurs, as far as that is counted, updated batch by batch."""

    def __init__(self) -> None:
        self._counts: pl.DataFrame | None = None
        self._n_rows = 0
        self._is_full = False

    def update(self, present: pl.Series) -> None:
        """Add the values of a batch that are not missing."""
        if self._is_full:
            return
        self._n_rows += len(present)
        counts = present.alias("value").value_counts(name="count")
        if self._counts is not None:
            counts = pl.concat([self._counts, counts]).group_by("value").agg(pl.col("count").sum())
        self._counts = counts
        self._is_full = counts.height > MAX_COUNTED

    @property
    def n_different(self) -> int:
        """The number of different values among the counted ones."""
        return 0 if self._counts is None else self._counts.height

    @property
    def has_frequent(self) -> bool:
        """Whether a value is more frequent than those of a key are."""
        return self._counts is not None and self._largest >= max(2, FREQUENT * self._n_rows)

    @property
    def _largest(self) -> int:
        assert self._counts is not None
        return int(self._counts["count"].to_numpy().max(initial=0))

    def are_keys(self, name: str, *, whole_numbers: bool) -> bool:
        """Return whether the values of a column of this name look like keys, of persons or of records."""
        if self.n_different <= FEW:
            return False
        if is_name_of_key(name):
            return True
        share = self.n_different / self._n_rows
        if whole_numbers:
            return share > MANY_NUMBERS and not self.has_frequent
        return share > MANY_NUMBERS or (share > MANY_TEXTS and not self.has_frequent)


def is_name_of_key(name: str) -> bool:
    """Return whether a name ends in a word for keys, such as ``patient_id``, ``patientId`` or ``ID``."""
    return _KEY_NAME.search(_END_OF_WORD.sub("_", name).lower()) is not None
