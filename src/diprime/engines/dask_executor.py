"""Partitions on the workers of a Dask cluster. This module needs the extra ``diprime[dask]``.

Rows are encoded by tasks, and stay on the workers that encoded them. One further task for each thread of a worker puts
them into a :class:`~diprime.engines.remote.Bundle`, which keeps the states of its partitions as well. To take a step, a
bundle gets a task with that step alone. When a worker is lost, others encode its rows anew, because the scheduler knows
how, and their bundle answers that it is behind; the coordinator then sends all steps that it lacks. The states are the
same, bit for bit, so a lost worker costs time and nothing else.

Answers to questions, such as histograms, are added up on the workers, first those of the same worker and then in a
tree, and only the sum is fetched. Answers of steps are small: the coordinator adds up the last few of them.

Steps of a kind that takes long are tasks, which the dashboard shows. Those of a kind that is as short as the way of a
task through the scheduler go to :mod:`~diprime.engines.dask_desks` instead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from typing import Any
from uuid import uuid4

import numpy as np
from distributed import Client, Future, as_completed

from diprime._util.progress import Progress
from diprime._util.threads import Threads
from diprime.engines import remote
from diprime.engines.dask_desks import Desks
from diprime.engines.dask_tasks import SOON, Tasks, told
from diprime.engines.executor import Answer, Question, Step
from diprime.engines.remote import Behind, Outcome, RemotePartitions, Sealed, Task, opened, words_of

SHORT_SECONDS = 0.25
"""A step that takes longer is a task: what it takes the scheduler does not matter, and the dashboard shows it."""


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
    desks : Desks
        What takes short steps.
    """

    def __init__(self, client: Client, placed: Placed, desks: Desks) -> None:
        self.sizes = placed.sizes
        self._tasks = Tasks(client)
        self._desks = desks
        self._placed = placed
        self._run = uuid4().hex
        self._steps: list[Sequence[Step]] = []  # all steps so far, should a worker be lost
        self._seconds: dict[str, float] = {}  # what the last step of each kind took

    def advance(self, steps: Sequence[Step]) -> Answer:
        """Change the state of every partition by a step of its own; return the sum of the answers."""
        words, n_before = words_of(steps[0]), len(self._steps)
        self._steps.append(steps)
        begin = time.perf_counter()
        total: Answer | Behind | None = None
        if self._seconds.get(words, math.inf) < SHORT_SECONDS:
            total = self._sum_at_desks(n_before)
        if total is None or isinstance(total, Behind):
            total = self._answer(words, None, n_before)
        self._seconds[words] = time.perf_counter() - begin
        return total

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
        work = self._work(question, n_before)
        answers = iter(self._tasks.map(words, remote.work_on_rows, self._placed.bundles, work))
        sums = [self._tasks.tree(list(islice(answers, n)))[0] for n in self._placed.n_of_workers]
        return _total(self._tasks.results(self._tasks.tree(sums, whole=question is not None)))

    def _sum_at_desks(self, n_before: int) -> Answer | Behind | None:
        """Let all bundles answer that have taken so many steps, without the scheduler; None if that is not possible."""
        outcomes = self._desks.outcomes(self._work(None, n_before))
        return None if outcomes is None else _total([opened(outcome) for outcome in outcomes])

    def _work(self, question: Question | None, n_before: int) -> list[Sealed]:
        """Return what bundles are to do that have taken so many steps."""
        steps = self._steps[n_before:]
        return [
            Sealed(Task(self._run, n_before, [[step[i] for i in bundle] for step in steps], question))
            for bundle in self._placed.numbers
        ]


def _total(parts: Sequence[Any]) -> Answer | Behind:
    """Add answers up; if some are behind, return the one that is the furthest."""
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


def _place(tasks: Tasks, partitions: Sequence[Future], sizes: Sequence[int]) -> Placed:
    """Put the partitions of each worker into a bundle for each of its threads."""
    with told():
        tasks.look()
        places, n_threads = tasks.client.who_has(list(partitions)), tasks.client.nthreads()
    of_workers: dict[str, list[int]] = {}
    for i, partition in enumerate(partitions):
        of_workers.setdefault(min(places.get(partition.key, ()), default=""), []).append(i)
    divided = [_divided(numbers, sizes, n_threads.get(worker, 1)) for worker, numbers in of_workers.items()]
    numbers = [bundle for bundles in divided for bundle in bundles]
    bundles = [tasks.submit("bundle", remote.bundle_partitions, [partitions[i] for i in bundle]) for bundle in numbers]
    return Placed(bundles, numbers, [len(bundles) for bundles in divided], sizes)


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


@dataclass(frozen=True)
class DaskPartitions(RemotePartitions):
    """Encoded rows on the workers of a Dask cluster.

    Attributes
    ----------
    client : Client
        The client of the cluster.
    placed : Placed
        The rows.
    desks : Desks
        What takes short steps of fits to them.
    """

    client: Client
    placed: Placed
    desks: Desks

    def executor(self, threads: Threads) -> DaskExecutor:
        """Return what runs the steps of a fit on them; workers take their own threads."""
        return DaskExecutor(self.client, self.placed, self.desks)

    def close(self) -> None:
        """Let workers drop what is not dropped with this object."""
        self.desks.close()


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
    tasks = Tasks(client)
    parts = tasks.map("encode", work, *arguments, priority=SOON)
    sizes = tasks.map("rows", remote.count_rows, parts)
    progress = Progress(len(parts), "partitions", shown=shown, work="Encoding")

    async def show() -> None:
        async for _ in as_completed(sizes, loop=client.loop):  # without it, only with a default client
            progress.advance()

    with told():
        tasks.wait_for(show)
    placed = _place(tasks, parts, tasks.results(sizes))
    return DaskPartitions(client, placed, Desks(tasks, placed.bundles))
