"""The encoded rows of a fit, in partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from diprime._util.threads import Threads
from diprime.domain.encoding import Rows
from diprime.engines.executor import Answer, Executor, InProcess
from diprime.engines.memory import MAIN_MEMORY, Memory
from diprime.engines.persons import UsedRecords, choose_records
from diprime.engines.weights import total_of
from diprime.privacy.randomness import RandomSource


@dataclass(frozen=True)
class Partition:
    """Some rows, as they are encoded; the first state of a partition.

    Attributes
    ----------
    rows : Rows
        The features.
    records : UsedRecords
        The targets, which are negative where a row is left out, and the weights.
    memory : Memory
        Where a fit keeps what it makes of them.
    """

    rows: Rows
    records: UsedRecords
    memory: Memory = MAIN_MEMORY

    def copy(self) -> Partition:
        """Return the same partition: no step changes it."""
        return self

    @property
    def total_weight(self) -> int:
        """The number of rows, or the sum of their weights."""
        return total_of(self.records.weights, self.rows.n_rows)


class Partitions(Protocol):
    """All rows of a fit, wherever they are.

    Attributes
    ----------
    of_persons : bool
        Whether the rows say whose they are.
    """

    @property
    def of_persons(self) -> bool:
        """Whether the rows say whose they are."""

    def choose(self, max_records: int, source: RandomSource) -> Partitions:
        """Return the rows with at most so many records of each person, weighed; only where there are persons."""

    def whole(self) -> Partition:
        """Return all rows, for what needs them in memory."""

    def executor(self, threads: Threads) -> Executor:
        """Return what runs the steps of a fit on them."""


@dataclass(frozen=True)
class LocalPartitions:
    """Rows in this process, in one partition or several.

    Attributes
    ----------
    parts : sequence of Partition
        The partitions, in the order of their rows.
    """

    parts: Sequence[Partition]

    @property
    def of_persons(self) -> bool:
        """Whether the rows say whose they are."""
        return self.parts[0].records.persons is not None

    def choose(self, max_records: int, source: RandomSource) -> LocalPartitions:
        """Return the rows with at most so many records of each person, weighed."""
        part = self.whole()
        persons = part.records.persons
        assert persons is not None
        return LocalPartitions(
            [Partition(part.rows, choose_records(part.records.target, persons, max_records, source))]
        )

    def whole(self) -> Partition:
        """Return the only partition; raise `ValueError` if there are several."""
        if len(self.parts) > 1 or self.parts[0].memory is not MAIN_MEMORY:
            raise ValueError("This fit needs all of its rows in memory; leave out scratch.")
        return self.parts[0]

    def executor(self, threads: Threads) -> InProcess:
        """Return what runs the steps of a fit on them."""
        return InProcess(self.parts, [part.rows.n_rows for part in self.parts], threads)


class Weighed(Protocol):
    """A state that knows how much its records weigh."""

    @property
    def total_weight(self) -> int:
        """The number of records, or the sum of their weights."""


def total_weight(state: Weighed, threads: Threads, out: Answer | None = None) -> Answer:
    """Return the number of records, or the sum of their weights."""
    return np.array(state.total_weight, dtype=np.int64)
