"""Partitions on the workers of a Dask cluster. This module needs the extra ``diprime[dask]``.

Rows are encoded by tasks, and stay on the workers that encoded them. One further task for each thread of a worker puts
them into a :class:`~diprime.engines.remote.Bundle`, which keeps the states of its partitions as well. To answer a
question, a bundle gets a task with it and the steps since the last one. When a worker is lost, others encode its rows
anew, because the scheduler knows how, and their bundle answers that it is behind; the coordinator then sends all steps
that it lacks. The states are the same, bit for bit, so a lost worker costs time and nothing else.

Answers are added up on the workers, first those of the same worker and then in a tree, and only the sum is fetched. If
those of a kind are small, the coordinator adds up the last few of them itself.

Questions of a kind that takes long are tasks, which the dashboard shows. Those of a kind that is as short as the way of
a task through the scheduler, and whose answers are small, go to :mod:`~diprime.engines.dask_desks` instead.
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
"""What takes longer is a task: what it takes the scheduler does not matter, and the dashboard shows it."""
SMALL_BYTES = 1 << 16
"""How large answers are that the coordinator may get of every worker, and not only their sum."""


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


@dataclass(frozen=True)
class Kind:
    """What a kind of question is like: it is asked again and again, of the same rows.

    Attributes
    ----------
    seconds : float
        What it took, with the steps before it.
    n_bytes : float
        The size of the answer.
    """

    seconds: float
    n_bytes: float

    @property
    def is_short(self) -> bool:
        """Whether the way of a task through the scheduler matters."""
        return self.seconds < SHORT_SECONDS

    @property
    def is_small(self) -> bool:
        """Whether the coordinator may get the answers of every worker."""
        return self.n_bytes <= SMALL_BYTES


UNKNOWN = Kind(math.inf, math.inf)


class DaskExecutor:
    """The executor whose partitions are on the workers of a Dask cluster.

    Parameters
    ----------
    client : Client
        The client of the cluster.
    placed : Placed
        The partitions.
    desks : Desks
        What answers short questions.
    """

    def __init__(self, client: Client, placed: Placed, desks: Desks) -> None:
        self.sizes = placed.sizes
        self._tasks = Tasks(client)
        self._desks = desks
        self._placed = placed
        self._run = uuid4().hex
        self._steps: list[Sequence[Step]] = []  # all steps so far, should a worker be lost
        self._n_taken = 0  # how many of them bundles have taken that were not lost
        self._kinds: dict[str, Kind] = {}  # what the last question of each kind was like

    def advance(self, steps: Sequence[Step]) -> None:
        """Change the state of every partition by a step of its own, when something is asked."""
        self._steps.append(steps)

    def ask(self, question: Question, out: Answer | None = None) -> Answer:
        """Return the sum of the answers of all partitions; it does not use ``out``."""
        words = words_of(question)
        kind = self._kinds.get(words, UNKNOWN)
        begin = time.perf_counter()
        total = self._sum_at_desks(question) if kind.is_short and kind.is_small else None
        if total is None or isinstance(total, Behind):
            total = self._sum_by_tasks(question, whole=not kind.is_small)
        self._kinds[words] = Kind(time.perf_counter() - begin, total.nbytes)
        self._n_taken = len(self._steps)
        return total

    def _sum_by_tasks(self, question: Question, *, whole: bool) -> Answer:
        """Return the sum of answers; where states were lost, let them be made anew."""
        total = self._sum(question, self._n_taken, whole=whole)
        while isinstance(total, Behind):
            total = self._sum(question, total.n_steps, whole=whole)
        return total

    def _sum(self, question: Question, n_before: int, *, whole: bool) -> Answer | Behind:
        """Let all bundles answer that have taken so many steps; add up on the workers, the whole or most of it."""
        work = self._work(question, n_before)
        answers = iter(self._tasks.map(words_of(question), remote.work_on_rows, self._placed.bundles, work))
        sums = [self._tasks.tree(list(islice(answers, n)))[0] for n in self._placed.n_of_workers]
        return _total(self._tasks.results(self._tasks.tree(sums, whole=whole)))

    def _sum_at_desks(self, question: Question) -> Answer | Behind | None:
        """Let all bundles answer without the scheduler; None if that is not possible."""
        outcomes = self._desks.outcomes(self._work(question, self._n_taken))
        return None if outcomes is None else _total([opened(outcome) for outcome in outcomes])

    def _work(self, question: Question, n_before: int) -> list[Sealed]:
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
        What answers short questions about them.
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
