"""The protocol of executors: partitions of encoded rows, state updates and queries.

The coordinator of a fit makes decisions and releases. An :class:`Executor` owns the *partitions* of the rows:

* ``apply(updates)`` replaces the state of every partition, ``state = update(state, threads)``, before the next query at
  the latest.
* ``sum(query)`` returns the sum of ``query(state, threads)`` over all partitions, and ``collect(query)`` returns the
  separate values. Neither changes a state.

A level of a forest, or a round of boosting, thus takes a single query. The first state of a partition is a
:class:`~diprime.execution.partition.Partition`, which contains its encoded rows.

An executor may rely on these properties:

* Updates, queries and partial sums can be pickled, and so can states whose rows are
  :class:`~diprime.domain.records.EncodedBatches`. An update is a pure function of a state and of released values, and
  uses no randomness except the streams that it carries. A lost state can therefore be rebuilt by encoding the partition
  again and replaying all updates in order; the result is bit-identical.
* An update *consumes* its state: it may overwrite the arrays. If a state may be needed again, because a worker can be
  lost or a task can be retried, the executor must pass ``state.copy()``. A query changes nothing.
* Partial sums are new integer arrays, of the same shape and type for all partitions. They can be added in any order;
  unsigned integers may wrap around in between.
* There is at least one partition. A partition may have no rows.

States, partial sums and the texts of their errors are private. No task name, log line or message of an executor may
reveal anything about them, and only the coordinator receives a sum. ``tests/execution/replaying.py`` contains an
executor that loses every state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads

PartialSum = npt.NDArray[Any]
"""Array of integers that is added up over the partitions."""


class PartitionState(Protocol):
    """State of a partition during a fit."""

    def copy(self) -> Any:
        """Return a copy that an update may overwrite."""


class StateUpdate(Protocol):
    """Function that changes the state of a partition."""

    def __call__(self, state: Any, threads: Threads, /) -> PartitionState:
        """Consume a state and return the next one."""


class Query(Protocol):
    """Function of the state of a partition."""

    def __call__(self, state: Any, threads: Threads, out: PartialSum | None = None, /) -> Any:
        """Return the value for a state, which may use the memory of ``out``."""


class Executor(Protocol):
    """Owner of the partitions. Rows are numbered consecutively over all partitions."""

    @property
    def sizes(self) -> Sequence[int]:
        """Number of rows of each partition, with or without a valid target."""

    def apply(self, updates: Sequence[StateUpdate]) -> None:
        """Apply one update to each partition, before the next query at the latest."""

    def collect(self, query: Query) -> list[Any]:
        """Return the values of all partitions in order. They need not be arrays."""

    def sum(self, query: Query, out: PartialSum | None = None) -> PartialSum:
        """Return the sum over all partitions, which may use the memory of ``out``."""


class InProcess:
    """Executor that processes partitions one after the other in this process, each with all threads."""

    def __init__(
        self,
        states: Sequence[PartitionState],
        sizes: Sequence[int],
        threads: Threads,
        updates: Sequence[Sequence[StateUpdate]] = (),
    ) -> None:
        self.sizes = list(sizes)
        self._states = list(states)
        self._threads = threads
        self._pending = list(updates)

    def apply(self, updates: Sequence[StateUpdate]) -> None:
        """Apply one update to each partition at the next query."""
        self._pending.append(updates)

    def sum(self, query: Query, out: PartialSum | None = None) -> PartialSum:
        """Return the sum over all partitions, which may use the memory of ``out``."""
        updates, self._pending = self._pending, []
        total: PartialSum = query(self._updated(0, updates), self._threads, out)
        for i in range(1, len(self._states)):
            np.add(total, query(self._updated(i, updates), self._threads), out=total)
        return total

    def collect(self, query: Query) -> list[Any]:
        """Return the values of all partitions."""
        updates, self._pending = self._pending, []
        return [query(self._updated(i, updates), self._threads) for i in range(len(self._states))]

    def _updated(self, i: int, updates: Sequence[Sequence[StateUpdate]]) -> PartitionState:
        for update in updates:
            self._states[i] = update[i](self._states[i], self._threads)
        return self._states[i]
