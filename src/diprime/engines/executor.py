"""Where the partitions of a fit are, and what runs on them: the one interface behind files, threads and clusters.

A fit is a coordinator, which decides and releases, and *partitions* of the rows, which answer with sums of integers.
An :class:`Executor` owns the partitions. It knows two things to do with them:

* ``advance(steps)`` replaces the state of every partition, ``state = step(state, threads)``. An executor may put this
  off until something is asked.
* ``ask(question)`` leaves the states as they are, ``answer = question(state, threads)``, and returns the sum of the
  answers.

So a level of a forest or a round of boosting is one trip to the partitions: the rows move to where the last splits send
them, and are counted. What is larger than memory is read once, and a cluster gets one task for each partition.

At first, the state of a partition is a :class:`~diprime.engines.partition.Partition`: its encoded rows. The first step
of an engine makes what it needs of them (:mod:`~diprime.engines.tree_partition`,
:mod:`~diprime.engines.score_partition`).

What an executor may rely on:

* Steps, questions and answers can be pickled, and so can states whose rows are
  :class:`~diprime.domain.batches.EncodedBatches`. A step is a pure function of a state and of what was released,
  and draws no random bits but those that it carries. Whoever loses a state makes it anew: the partition encoded again,
  and the same steps in the same order. The result is the same, bit for bit.
* A step *uses up* its state: it may overwrite the arrays. An executor that may need a state once more, say because the
  worker that advances it can be lost or the step can be tried twice, passes ``state.copy()``. A question changes
  nothing.
* Answers are new arrays of integers, of the same shape and type for all partitions. They are added with ``+`` in any
  order, so in a tree as well; unsigned integers may wrap around in between.
* There is at least one partition, and one may have no rows.

Whoever writes another executor also writes the :class:`~diprime.engines.partition.Partitions` that make it, and encodes
with ``Domain.encode`` and ``Domain.encode_target`` where the rows are. ``PrivateEstimator._fit_partitions`` does the
rest. ``tests/engines/replaying.py`` is an executor that loses every state.

What an executor has to keep: states and answers are private, and so are the texts of their errors. No task name, log
line or message of an executor tells anything about them, and nobody but the coordinator gets a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads

Answer = npt.NDArray[Any]
"""Integers that are added up over the partitions."""


class State(Protocol):
    """What a partition is at some time of a fit."""

    def copy(self) -> Any:
        """Return an equal state, which a step may use up while this one stays as it is."""


class Step(Protocol):
    """A function that changes the state of a partition."""

    def __call__(self, state: Any, threads: Threads, /) -> State:
        """Use up the state; return the next one."""


class Question(Protocol):
    """A function that answers from the state of a partition."""

    def __call__(self, state: Any, threads: Threads, out: Answer | None = None, /) -> Answer:
        """Return an answer, which may be in the memory of ``out``."""


class Executor(Protocol):
    """The owner of the partitions.

    Attributes
    ----------
    sizes : sequence of int
        The number of rows of each partition, with or without a valid target. Rows are numbered through all partitions
        in this order.
    """

    @property
    def sizes(self) -> Sequence[int]:
        """The number of rows of each partition."""

    def advance(self, steps: Sequence[Step]) -> None:
        """Change the state of every partition by a step of its own, at the latest when something is asked."""

    def ask(self, question: Question, out: Answer | None = None) -> Answer:
        """Return the sum of the answers of all partitions.

        It may be in the memory of ``out``, which spares a fit in this process to take new memory again and again. Other
        executors need not use it.
        """


class InProcess:
    """The executor whose partitions are in this process: one after the other, and each with all threads.

    Parameters
    ----------
    states : sequence of State
        The partitions.
    sizes : sequence of int
        The number of rows of each.
    threads : Threads
        The threads that do the work.
    """

    def __init__(self, states: Sequence[State], sizes: Sequence[int], threads: Threads) -> None:
        self.sizes = list(sizes)
        self._states = list(states)
        self._threads = threads
        self._put_off: list[Sequence[Step]] = []

    def advance(self, steps: Sequence[Step]) -> None:
        """Change the state of every partition by a step of its own, when something is asked."""
        self._put_off.append(steps)

    def ask(self, question: Question, out: Answer | None = None) -> Answer:
        """Return the sum of the answers of all partitions, which may be in the memory of ``out``."""
        steps, self._put_off = self._put_off, []
        total = question(self._advanced(0, steps), self._threads, out)
        for i in range(1, len(self._states)):
            np.add(total, question(self._advanced(i, steps), self._threads), out=total)
        return total

    def _advanced(self, i: int, steps: Sequence[Sequence[Step]]) -> State:
        """Let a partition take its steps; return its state."""
        for step in steps:
            self._states[i] = step[i](self._states[i], self._threads)
        return self._states[i]
