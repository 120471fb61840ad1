"""Partitions on the workers of a Dask cluster. Requires the extra ``diprime[dask]``.

Tasks encode the rows, which stay on the workers that encoded them. For each thread of a worker, another task puts them
into a :class:`~diprime.execution.remote.PartitionBundle`, which keeps the states of its partitions. A query is one task
per bundle, with the updates since the last query. If a worker is lost, the scheduler makes other workers encode its
rows again, and their bundles answer that they are stale; the coordinator then sends all missing updates. The states are
bit-identical, so a lost worker costs only time. If the rows have changed, their digests differ, so no bundle is made
from them, and the fit fails.

Partial sums are added on the workers, first within each worker and then in a tree, and one sum is fetched. Small sums
are fetched from several workers.

A slow query runs as tasks, which the dashboard shows. If a query takes no longer than the scheduler needs for a task,
and its sums are small, it is sent to the actors of :mod:`~diprime.sources.dask.workers`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import chain, islice
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from distributed import Client, Future, as_completed

from diprime._util.resources import Progress, Threads
from diprime.domain.records import DrawnPart, Tally
from diprime.execution import remote
from diprime.execution.executor import PartialSum, Query, StateUpdate
from diprime.execution.remote import (
    Opaque,
    RemoteExecutor,
    RemotePartitions,
    StaleState,
    TaskResult,
    WorkItem,
    query_name,
    unwrap,
)
from diprime.sources.dask.workers import HIGH_PRIORITY, ActorPool, Tasks, redact_cluster_errors

T = TypeVar("T")

SHORT_SECONDS = 0.25
"""Slower queries run as tasks, because the overhead of the scheduler does not matter for them."""
SMALL_BYTES = 1 << 16
"""Maximum size of sums that the coordinator fetches from every worker."""


def current_client() -> Client:
    """Return the active client."""
    try:
        client = Client.current()
    except ValueError:
        raise ValueError(
            "No Dask client is active. Create one before you call fit: from distributed import Client; client "
            "= Client()."
        ) from None
    if client.asynchronous:
        raise ValueError("Asynchronous Dask clients are not supported. Create the client with asynchronous=False.")
    return client


@dataclass(frozen=True)
class QueryProfile:
    """Duration and size of the last query of a name, which is repeated many times on the same rows."""

    seconds: float = math.inf
    n_bytes: float = math.inf

    @property
    def is_small(self) -> bool:
        """Whether the coordinator may fetch the sums of every worker."""
        return self.n_bytes <= SMALL_BYTES


class DaskExecutor(RemoteExecutor):
    """Executor with partitions on the workers of a Dask cluster."""

    def __init__(
        self,
        tasks: Tasks,
        placement: DaskPlacement,
        actors: ActorPool,
        sizes: Sequence[int] | None = None,
        updates: Sequence[Sequence[StateUpdate]] = (),
    ) -> None:
        super().__init__(sizes or placement.sizes, updates)
        self._tasks = tasks
        self._actors = actors
        self._placement = placement
        self._profiles: dict[str, QueryProfile] = {}

    def sum(self, query: Query, out: PartialSum | None = None) -> PartialSum:
        """Return the sum over all partitions, without using ``out``."""
        name = query_name(query)
        profile = self._profiles.get(name, QueryProfile())
        begin = time.perf_counter()
        total = self._sum_by_actors(query) if profile.seconds < SHORT_SECONDS and profile.is_small else None
        n_before = self._n_applied
        while total is None or isinstance(total, StaleState):
            total = self._sum_by_tasks(query, n_before, whole=not profile.is_small)
            n_before = total.n_updates if isinstance(total, StaleState) else n_before
        self._profiles[name] = QueryProfile(time.perf_counter() - begin, total.nbytes)
        self._n_applied = len(self._updates)
        return total

    def collect(self, query: Query) -> list[Any]:
        """Return the value of each partition, computed by tasks."""
        found: list[Any] | StaleState = StaleState(self._n_applied)
        while isinstance(found, StaleState):
            found = self._collect(query, found.n_updates)
        self._n_applied = len(self._updates)
        return found

    def _collect(self, query: Query, n_before: int) -> list[Any] | StaleState:
        bundles = self._tasks.results(self._query_bundles(query, n_before, is_each=True))
        stale = [bundle for bundle in bundles if isinstance(bundle, StaleState)]
        if stale:
            return min(stale)
        values = dict(zip(chain(*self._placement.numbers), chain(*bundles), strict=True))
        return [values[i] for i in range(len(values))]

    def _sum_by_tasks(self, query: Query, n_before: int, *, whole: bool) -> PartialSum | StaleState:
        """Add on the workers, completely if ``whole``. Return the sum, or the oldest stale state if there is one."""
        sums = iter(self._query_bundles(query, n_before))
        of_workers = [self._tasks.tree(list(islice(sums, n)))[0] for n in self._placement.n_of_workers]
        return _total(self._tasks.results(self._tasks.tree(of_workers, whole=whole)))

    def _query_bundles(self, query: Query, n_before: int, *, is_each: bool = False) -> list[Future]:
        items = self._work_items(query, n_before, is_each=is_each)
        return self._tasks.map(query_name(query), remote.work_on_rows, self._placement.bundles, items)

    def _sum_by_actors(self, query: Query) -> PartialSum | StaleState | None:
        """Add without the scheduler, or return None if that is impossible."""
        results = self._actors.results(self._work_items(query, self._n_applied))
        return None if results is None else _total([unwrap(result) for result in results])

    def _work_items(self, query: Query, n_before: int, *, is_each: bool = False) -> list[Opaque]:
        """Return work items for bundles that have applied ``n_before`` updates."""
        updates = self._updates[n_before:]
        return [
            Opaque(WorkItem(self._run, n_before, [[update[i] for i in bundle] for update in updates], query, is_each))
            for bundle in self._placement.numbers
        ]


def _total(parts: Sequence[Any]) -> PartialSum | StaleState:
    """Return the sum of partial sums, or the oldest stale state if there is one."""
    stale = [part for part in parts if isinstance(part, StaleState)]
    return min(stale) if stale else reduce(np.add, parts)


@dataclass(frozen=True)
class DaskPlacement:
    """Encoded partitions in bundles on workers. If a bundle moves later, messages only travel farther."""

    bundles: Sequence[Future]  # bundles of the same worker are consecutive
    numbers: Sequence[Sequence[int]]  # indices of the partitions of each bundle
    n_of_workers: Sequence[int]  # number of bundles of each worker
    sizes: Sequence[int]  # private number of rows of each partition, which stays with the coordinator


def _place(tasks: Tasks, partitions: Sequence[Future], sizes: Sequence[int], digests: Sequence[bytes]) -> DaskPlacement:
    """Put the partitions of each worker into one bundle per thread. A partition may be on several workers."""
    with redact_cluster_errors():
        tasks.raise_if_disconnected()
        places, n_threads = tasks.client.who_has(list(partitions)), tasks.client.nthreads()
    by_worker: dict[str, list[int]] = {}
    for i, partition in enumerate(partitions):
        by_worker.setdefault(min(places.get(partition.key, ()), default=""), []).append(i)
    divided = [_divided(numbers, sizes, n_threads.get(worker, 1)) for worker, numbers in by_worker.items()]
    numbers = [bundle for bundles in divided for bundle in bundles]
    bundles = [
        tasks.submit(
            "bundle", remote.bundle_partitions, [Opaque([digests[i] for i in bundle]), *(partitions[i] for i in bundle)]
        )
        for bundle in numbers
    ]
    return DaskPlacement(bundles, numbers, [len(bundles) for bundles in divided], sizes)


def _divided(numbers: Sequence[int], sizes: Sequence[int], n: int) -> list[list[int]]:
    """Divide partitions into at most n bundles with similar numbers of rows.

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
    """Encoded rows on the workers of a Dask cluster."""

    tasks: Tasks
    placement: DaskPlacement
    actors: ActorPool
    of_persons: bool  # whether there are groups

    def executor(
        self, threads: Threads, first: Sequence[Sequence[StateUpdate]] = (), sizes: Sequence[int] | None = None
    ) -> DaskExecutor:
        """Return an executor. Workers use their own threads."""
        return DaskExecutor(self.tasks, self.placement, self.actors, sizes, first)


@contextmanager
def encoded_on_workers(
    tasks: Tasks, work: Callable[..., TaskResult], *arguments: Sequence[Any], shown: bool, of_persons: bool = False
) -> Iterator[DaskPartitions]:
    """Encode one partition per argument on the workers, which keep the partitions until the end of the block."""
    with closing(tasks):
        placement = _encoded(tasks, work, *arguments, shown=shown)
        with closing(ActorPool(tasks, placement.bundles)) as actors:
            yield DaskPartitions(tasks, placement, actors, of_persons)


def tallied_on_workers(
    tasks: Tasks,
    work: Callable[..., TaskResult],
    parts: Sequence[Future | Opaque],
    tally: Tally[T],
    drawn: Sequence[DrawnPart] | None,
) -> list[T]:
    """Tally partitions on the workers, and return the results."""
    n = len(parts)
    with closing(tasks):
        of_parts = [Opaque(None if drawn is None else drawn[i]) for i in range(n)]
        arguments = [Opaque(tally)] * n, of_parts, list(map(Opaque, range(n)))
        tallied = tasks.map("tally", work, parts, *arguments, priority=HIGH_PRIORITY)
        tasks.release(part for part in parts if isinstance(part, Future))
        return tasks.results(tallied)


def _encoded(tasks: Tasks, work: Callable[..., TaskResult], *arguments: Sequence[Any], shown: bool) -> DaskPlacement:
    """Encode partitions on the workers, and put them into bundles."""
    n, key = len(arguments[0]), Opaque(uuid4().bytes)
    parts = tasks.map("encode", remote.encode_with_digest, [work] * n, [key] * n, *arguments, priority=HIGH_PRIORITY)
    tasks.release(argument for values in arguments for argument in values if isinstance(argument, Future))
    rows = tasks.map("rows", remote.identify_rows, parts)
    progress = Progress(n, "partitions", shown=shown, work="Encoding")

    async def show() -> None:
        async for _ in as_completed(rows, loop=tasks.client.loop):  # without loop, this requires a default client
            progress.advance()

    with redact_cluster_errors():
        tasks.wait_for(show)
    sizes, digests = zip(*tasks.results(rows), strict=True)
    return _place(tasks, parts, sizes, digests)
