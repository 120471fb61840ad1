"""What the workers of a cluster run: functions that raise no errors, on values whose text tells nothing.

When a task fails, a cluster writes its arguments and the text of its error into logs, shows them on a web page, and
sends them to whoever asks. Here, arguments and results are :class:`Sealed`, whose text is always the same, and what
goes wrong is a result as well, a :class:`Failure`, of which a sentence is told.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce, wraps
from typing import Any

import numpy as np

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.domain.batches import EncodedBatches, check_lengths
from diprime.engines.executor import NOTHING, Answer, Question, State, Step
from diprime.engines.partition import Partition
from diprime.engines.persons import UsedRecords


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


Outcome = Sealed | Failure


def opened(outcome: Outcome) -> Any:
    """Return the content of an outcome, or raise the error that it stands for."""
    if isinstance(outcome, Failure):
        raise (ValueError if outcome.of_input else RuntimeError)(outcome.sentence)
    return outcome.content


def guarded(work: Callable[..., Any]) -> Callable[..., Outcome]:
    """Let a function take sealed arguments and return a sealed result, or a failure, also if it was given one."""

    @wraps(work)
    def run(*arguments: Outcome) -> Outcome:
        contents = []
        for argument in arguments:
            if isinstance(argument, Failure):
                return argument
            contents.append(argument.content)
        try:
            return Sealed(work(*contents))
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


@dataclass(frozen=True)
class Bundle:
    """Partitions that one task works on, after a step, and the sum of what the step answered.

    Attributes
    ----------
    states : sequence of State
        The states of the partitions.
    answer : Answer
        The sum of the answers.
    """

    states: Sequence[State]
    answer: Answer = field(default_factory=lambda: NOTHING)


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
def take_steps(bundle: Bundle, steps: Sequence[Step]) -> Bundle:
    """Take the step of each partition, on a copy of its state: if the result is lost, it can be taken once more."""
    taken = [step(state.copy(), Threads(1)) for state, step in zip(bundle.states, steps, strict=True)]
    return Bundle([state for state, _ in taken], _sum_of(answer for _, answer in taken))


@guarded
def take_answer(bundle: Bundle) -> Answer:
    """Return what the last steps answered, without the states."""
    return bundle.answer


@guarded
def answer_question(bundle: Bundle, question: Question) -> Answer:
    """Return the sum of the answers of all partitions to a question."""
    return _sum_of(question(state, Threads(1)) for state in bundle.states)


@guarded
def add_answers(*answers: Answer) -> Answer:
    """Add answers up."""
    return _sum_of(answers)


def _sum_of(answers: Iterable[Answer]) -> Answer:
    """Add answers up, each of which stays as it is."""
    return reduce(np.add, answers)
