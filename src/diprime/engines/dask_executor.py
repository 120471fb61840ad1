"""Partitions on the workers of a Dask cluster. This module needs the extra ``diprime[dask]``.

Rows are encoded by tasks, and stay on the workers that encoded them. One further task for each thread of a worker puts
them into a :class:`~diprime.engines.remote.Bundle`, which keeps the states of its partitions as well. To take a step, a
bundle gets a task with that step alone. When a worker is lost, others encode its rows anew, because the scheduler knows
how, and their bundle answers that it is behind; the coordinator then sends all steps that it lacks. The states are the
same, bit for bit, so a lost worker costs time and nothing else.

Answers to questions, such as histograms, are added up on the workers, first those of the same worker and then in a
tree, and only the sum is fetched. Answers of steps are small: the coordinator adds up the last few of them.

Names of tasks say what they do, and nothing else. Steps are arguments of tasks, so the scheduler has them in its memory
for as long as the task is there: what was released so far and, for
:class:`~diprime.engines.tree_partition.AssignTrees`, the random bits that say which tree a row is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import count, islice
from typing import Any
from uuid import uuid4

import numpy as np
from distributed import Client, Future, KilledWorker, as_completed

from diprime._util.progress import Progress
from diprime._util.threads import Threads
from diprime.engines import remote
from diprime.engines.executor import Answer, Question, Step
from diprime.engines.remote import Behind, Outcome, RemotePartitions, Sealed, Task, opened, words_of

FAN_IN = 8
"""How many answers one task adds up at most."""

_SOON = 1  # the priority of tasks that make room: of reading rows that are loaded, and of adding answers up


def current_client() -> Client:
    """Return the client that is in use, which says where the cluster is."""
    try:
        client = Client.current()
    except ValueError:
        raise ValueError(
            "There is no Dask client, which says where to fit; make one first, for example with from distributed "
            "import Client and client = Client()."
        ) from None
    if client.asynchronous:
        raise ValueError("The Dask client is asynchronous, and a fit waits for its results; make one that is not.")
    return client


class DaskExecutor:
    """The executor whose partitions are on the workers of a Dask cluster.

    Parameters
    ----------
    client : Client
        The client of the cluster.
    placed : Placed
        The partitions.
    """

    def __init__(self, client: Client, placed: Placed) -> None:
        self.sizes = placed.sizes
        self._tasks = _Tasks(client)
        self._placed = placed
        self._run = uuid4().hex
        self._steps: list[Sequence[Step]] = []  # all steps so far, should a worker be lost

    def advance(self, steps: Sequence[Step]) -> Answer:
        """Change the state of every partition by a step of its own; return the sum of the answers."""
        self._steps.append(steps)
        return self._answer(words_of(steps[0]), None, len(self._steps) - 1)

    def ask(self, question: Question, out: Answer | None = None) -> Answer:
        """Return the sum of the answers of all partitions; it does not use ``out``."""
        return self._answer(words_of(question), question, len(self._steps))

    def _answer(self, words: str, question: Question | None, n_before: int) -> Answer:
        """Return the sum of answers; where states were lost, let them be made anew."""
        total = self._sum(words, question, n_before)
        while isinstance(total, Behind):
            total = self._sum(words, question, total.n_steps)
        return total

    def _sum(self, words: str, question: Question | None, n_before: int) -> Answer | Behind:
        """Let all bundles answer that have taken so many steps; add up on the workers."""
        steps = self._steps[n_before:]
        tasks = [
            Sealed(Task(self._run, n_before, [[step[i] for i in bundle] for step in steps], question))
            for bundle in self._placed.numbers
        ]
        answers = iter(self._tasks.map(words, remote.work_on_rows, self._placed.bundles, tasks))
        sums = [self._tasks.tree(list(islice(answers, n)), 1)[0] for n in self._placed.n_of_workers]
        parts = self._tasks.results(self._tasks.tree(sums, FAN_IN if question is None else 1))
        behind = [part for part in parts if isinstance(part, Behind)]
        return min(behind) if behind else reduce(np.add, parts)


@dataclass(frozen=True)
class Placed:
    """Encoded partitions in bundles, which are on workers.

    Attributes
    ----------
    bundles : sequence of Future
        The bundles, sealed, those of the same worker one after the other.
    numbers : sequence of sequences of int
        The partitions of each bundle.
    n_of_workers : sequence of int
        The number of bundles of each worker. Where they are later, when a worker has been lost, makes no difference to
        sums, but to how far answers go.
    sizes : sequence of int
        The number of rows of each partition; they are private, and stay with the coordinator.
    """

    bundles: Sequence[Future]
    numbers: Sequence[Sequence[int]]
    n_of_workers: Sequence[int]
    sizes: Sequence[int]


class _Tasks:
    """Tasks of one fit, with names that nothing else on the cluster has."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._fit = uuid4().hex[:8]
        self._numbers = count()

    def _name(self, words: str) -> str:
        return f"diprime-{words}-{self._fit}{next(self._numbers):06x}"

    def map(
        self, words: str, work: Callable[..., Outcome], *arguments: Sequence[Any], priority: int = 0
    ) -> list[Future]:
        """Let workers do some work for each argument."""
        name = self._name(words)
        keys = [(name, i) for i in range(len(arguments[0]))]
        with _told():
            return list(self._client.map(work, *arguments, key=keys, pure=False, priority=priority))

    def submit(self, words: str, work: Callable[..., Outcome], arguments: Sequence[Future]) -> Future:
        """Let a worker do some work for all arguments together, as soon as they are there."""
        with _told():
            return self._client.submit(work, *arguments, key=self._name(words), pure=False, priority=_SOON)

    def tree(self, parts: Sequence[Future], n: int) -> Sequence[Future]:
        """Let workers add up parts, some at a time, until there are at most n."""
        while len(parts) > n:
            some = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
            parts = [self.submit("add", remote.add_answers, few) if len(few) > 1 else few[0] for few in some]
        return parts

    def place(self, partitions: Sequence[Future], sizes: Sequence[int]) -> Placed:
        """Put the partitions of each worker into a bundle for each of its threads."""
        with _told():
            places, n_threads = self._client.who_has(list(partitions)), self._client.nthreads()
        of_workers: dict[str, list[int]] = {}
        for i, partition in enumerate(partitions):
            of_workers.setdefault(min(places.get(partition.key, ()), default=""), []).append(i)
        divided = [_divided(numbers, sizes, n_threads.get(worker, 1)) for worker, numbers in of_workers.items()]
        numbers = [bundle for bundles in divided for bundle in bundles]
        bundles = [
            self.submit("bundle", remote.bundle_partitions, [partitions[i] for i in bundle]) for bundle in numbers
        ]
        return Placed(bundles, numbers, [len(bundles) for bundles in divided], sizes)

    def results(self, futures: Sequence[Future]) -> list[Any]:
        """Wait for several results, and fetch them."""
        with _told():
            outcomes = self._client.gather(list(futures))
        return [opened(outcome) for outcome in outcomes]


def _divided(numbers: Sequence[int], sizes: Sequence[int], n: int) -> list[list[int]]:
    """Divide partitions into at most n bundles of about as many rows.

    Examples
    --------
    >>> _divided([0, 2, 3, 5], [10, 0, 20, 15, 0, 40], 2)
    [[5], [0, 2, 3]]
    """
    bundles: list[list[int]] = [[] for _ in range(min(n, len(numbers)))]
    n_rows = [0] * len(bundles)
    for i in sorted(numbers, key=lambda i: sizes[i], reverse=True):
        least = n_rows.index(min(n_rows))
        bundles[least].append(i)
        n_rows[least] += sizes[i]
    return [sorted(bundle) for bundle in bundles if bundle]


@contextmanager
def _told() -> Iterator[None]:
    """Tell in one sentence what happened to the cluster, without the text of an error: it may quote rows."""
    try:
        yield
    except KilledWorker:
        raise RuntimeError(
            "Worker after worker of the Dask cluster ended during the same task of the fit, perhaps because its rows "
            "do not fit into the memory of a worker; give workers more memory, or have more of them."
        ) from None
    except Exception as error:  # noqa: BLE001 -- whatever it is
        raise RuntimeError(
            f"The fit has lost the Dask cluster or its data ({type(error).__name__}), and there is no model; see that "
            "the scheduler runs and that its workers can read the data (for a Dask DataFrame, X.persist() tells), "
            "and fit again."
        ) from None


@dataclass(frozen=True)
class DaskPartitions(RemotePartitions):
    """Encoded rows on the workers of a Dask cluster.

    Attributes
    ----------
    client : Client
        The client of the cluster.
    placed : Placed
        The rows.
    """

    client: Client
    placed: Placed

    def executor(self, threads: Threads) -> DaskExecutor:
        """Return what runs the steps of a fit on them; workers take their own threads."""
        return DaskExecutor(self.client, self.placed)


def encode_on_workers(
    client: Client, work: Callable[..., Outcome], *arguments: Sequence[Any], shown: bool
) -> DaskPartitions:
    """Let workers make an encoded partition of each argument, and wait for all.

    Parameters
    ----------
    client : Client
        The client of the cluster.
    work : callable
        Returns a sealed partition.
    *arguments : sequences
        Its arguments for each partition, perhaps futures.
    shown : bool
        Whether to draw a progress bar.
    """
    tasks = _Tasks(client)
    parts = tasks.map("encode", work, *arguments, priority=_SOON)
    sizes = tasks.map("rows", remote.count_rows, parts)
    progress = Progress(len(parts), "partitions", shown=shown, work="Encoding")
    with _told():
        for _ in as_completed(sizes, loop=client.loop):  # without it, only with a default client
            progress.advance()
    return DaskPartitions(client, tasks.place(parts, tasks.results(sizes)))
