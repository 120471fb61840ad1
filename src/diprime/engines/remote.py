"""What the workers of a cluster run: functions that raise no errors, on values whose text tells nothing.

When a task fails, a cluster writes its arguments and the text of its error into logs, shows them on a web page, and
sends them to whoever asks. Here, arguments and results are :class:`Sealed`, whose text is always the same, and what
goes wrong is a result as well, a :class:`Failure`, of which a sentence is told.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from threading import Lock
from typing import Any

import numpy as np

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.domain.batches import EncodedBatches, check_lengths
from diprime.engines.executor import Answer, Question, State, Step
from diprime.engines.partition import Partition
from diprime.engines.persons import UsedRecords
from diprime.privacy.randomness import RandomSource


class MistakeError(ValueError):
    """A mistake in what was given to a fit: its text speaks of names, types and shapes, and may be told."""


@dataclass(frozen=True, repr=False, eq=False)
class Sealed:
    """A value on a cluster, whose text does not tell it.

    Attributes
    ----------
    content : object
        The value.

    Examples
    --------
    >>> Sealed([1, 2, 3])
    <sealed>
    """

    content: Any

    def __repr__(self) -> str:
        return "<sealed>"

    def __sizeof__(self) -> int:
        """Return the size with all arrays, by which clusters decide what to move and when memory is full."""
        arrays: list[pickle.PickleBuffer] = []
        rest = pickle.dumps(self.content, protocol=5, buffer_callback=arrays.append)
        return len(rest) + sum(array.raw().nbytes for array in arrays)


@dataclass(frozen=True)
class Failure:
    """What a task returns that could not do its work.

    Attributes
    ----------
    sentence : str
        What is told about it.
    of_input : bool
        Whether it is a mistake in what was given to the fit.
    """

    sentence: str
    of_input: bool


@dataclass(frozen=True, order=True)
class Behind:
    """What a task returns whose partitions have not taken all steps, because the worker that had them was lost.

    Attributes
    ----------
    n_steps : int
        How many steps they have taken.
    """

    n_steps: int


Outcome = Sealed | Failure | Behind


def opened(outcome: Outcome) -> Any:
    """Return the content of an outcome, or raise the error that it stands for; return `Behind` as it is."""
    if isinstance(outcome, Failure):
        raise (ValueError if outcome.of_input else RuntimeError)(outcome.sentence)
    return outcome if isinstance(outcome, Behind) else outcome.content


def guarded(work: Callable[..., Any]) -> Callable[..., Outcome]:
    """Let a function take sealed arguments and return a sealed result; what is none of them is handed on."""

    @wraps(work)
    def run(*arguments: Outcome) -> Outcome:
        failures = [argument for argument in arguments if isinstance(argument, Failure)]
        behind = [argument for argument in arguments if isinstance(argument, Behind)]
        if failures or behind:
            return failures[0] if failures else min(behind)
        try:
            result = work(*map(opened, arguments))
            return result if isinstance(result, Behind) else Sealed(result)
        except MistakeError as error:
            return Failure(str(error), of_input=True)
        except Exception as error:  # noqa: BLE001 -- the text of any error may tell about rows
            kind = type(error).__name__
            return Failure(
                f"A worker of the cluster could not {work.__name__.replace('_', ' ')} ({kind}); see that workers have "
                "enough memory, and the same version of diprime as this process.",
                of_input=False,
            )

    return run


class Bundle:
    """Partitions that a task works on, and the states that they are in.

    What a task answers is a function of its arguments: of the encoded partitions, the steps so far and a question. The
    states are kept from one task to the next so that only the last steps have to be taken. Where they are not those
    of the task before, because a worker was lost and this bundle has been made anew, or a task is done again, the task
    takes the steps that are lacking, if it has them, or else answers :class:`Behind`.

    Parameters
    ----------
    partitions : sequence of Partition
        The partitions, which no step changes.
    n_threads : int, default=1
        How many threads a task has.
    """

    def __init__(self, partitions: Sequence[Partition], n_threads: int = 1) -> None:
        self._partitions = partitions
        self._n_threads = n_threads
        self._run = ""
        self._lock = Lock()
        self._begin()

    def _begin(self) -> None:
        """Go back to the encoded rows."""
        self._states: Sequence[State] = self._partitions
        self._n_steps = 0

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def work(self, task: Task) -> Answer | Behind:
        """Take the steps of a task that have not been taken, and answer."""
        with self._lock, Threads(self._n_threads) as threads:
            if task.run != self._run or self._n_steps > task.n_before + len(task.steps):
                self._run = task.run
                self._begin()
            if self._n_steps < task.n_before:
                return Behind(self._n_steps)
            for steps in task.steps[self._n_steps - task.n_before :]:
                self._take(steps, threads)
            return _sum_of(task.question(state, threads) for state in self._states)

    def _take(self, steps: Sequence[Step], threads: Threads) -> None:
        """Let each partition take its step, which uses up its state."""
        states, n_steps = self._states, self._n_steps
        self._begin()  # if a step fails, there is no state to go on from
        self._states = [step(state, threads) for state, step in zip(states, steps, strict=True)]
        self._n_steps = n_steps + 1


@dataclass(frozen=True)
class Task:
    """What a bundle is to do.

    Attributes
    ----------
    run : str
        The run of steps, which a bundle begins with its encoded rows.
    n_before : int
        How many steps have been taken before.
    steps : sequence of sequences of Step
        What follows: steps for each partition, one after the other.
    question : Question
        What is asked then.
    """

    run: str
    n_before: int
    steps: Sequence[Sequence[Step]]
    question: Question


def words_of(question: Question) -> str:
    """Return the name of a question, for the names of its tasks.

    Examples
    --------
    >>> from diprime.engines.partition import total_weight
    >>> from diprime.engines.tree_partition import NodeSums
    >>> words_of(total_weight), words_of(NodeSums(None))
    ('total-weight', 'node-sums')
    """
    name = getattr(question, "__name__", type(question).__name__)
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", "-", name).lower()


class RemotePartitions:
    """Encoded rows on a cluster, each of which is a person of its own."""

    @property
    def of_persons(self) -> bool:
        """Whether the rows say whose they are: they do not."""
        return False

    def choose(self, max_records: int, source: RandomSource) -> Any:
        """Raise an error: there are no persons."""
        raise AssertionError("Rows on a cluster have no persons.")

    def whole(self) -> Partition:
        """Raise `ValueError`: the rows are not brought here."""
        raise ValueError("This estimator needs all rows in this process, not on a cluster; give tables in memory.")


@guarded
def encode_rows(X: Any, y: Any, domain: Domain, number: int) -> Partition:
    """Encode one partition of a distributed table."""
    try:
        reader = domain.reader(X)
        target = domain.encode_target(y)
        check_lengths(reader.n_rows, target, None)
    except (ValueError, TypeError) as error:
        raise MistakeError(f"In partition {number} of the data: {error}") from None
    codes = np.empty((reader.n_rows, domain.n_features), dtype=np.uint8)
    reader.read(0, reader.n_rows, codes)
    return Partition(EncodedBatches(domain.n_features, [codes]), UsedRecords(target))


@guarded
def count_rows(partition: Partition) -> int:
    """Return the number of rows of a partition."""
    return partition.rows.n_rows


@guarded
def bundle_partitions(*partitions: Partition) -> Bundle:
    """Put partitions together, which are on the same worker."""
    return Bundle(partitions)


@guarded
def work_on_rows(bundle: Bundle, task: Task) -> Answer | Behind:
    """Let a bundle do a task."""
    return bundle.work(task)


@guarded
def add_answers(*answers: Answer) -> Answer:
    """Add answers up."""
    return _sum_of(answers)


def _sum_of(answers: Iterable[Answer]) -> Answer:
    """Add answers up, each of which stays as it is."""
    total: Answer = reduce(np.add, answers)
    return total
