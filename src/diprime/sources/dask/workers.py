"""Tasks of a fit on a Dask cluster, and actors for short queries. Requires the extra ``diprime[dask]``.

Task names state only the purpose of a task. Updates are arguments of tasks, so they are in the scheduler's memory while
the task exists: released values and, for :class:`~diprime.forest.rows.AssignTrees`, the random bits that assign rows to
trees.

A task costs the scheduler and a worker about ten milliseconds, and boosting runs hundreds of rounds in sequence.
Therefore, each worker also has a Dask actor, a :class:`WorkerActor`, with the same bundles. It receives a query in one
message and answers in another, which takes two milliseconds. If an actor cannot be reached, for whatever reason, the
query runs as tasks, which detect and repair the failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4
from weakref import WeakSet

from distributed import Actor, Client, Future, KilledWorker, wait

from diprime.execution import remote
from diprime.execution.remote import Opaque, TaskResult, add_sums, unwrap, work_on_rows

HIGH_PRIORITY = 1
"""Priority of tasks that free memory: encoding of loaded rows, and addition of sums."""
POLL_SECONDS = 0.5
"""Time between two checks of the connection to the cluster, while a fit waits."""


class Tasks:
    """Tasks of one fit, with names that are unique on the cluster."""

    def __init__(self, client: Client, columns: Sequence[str] = ()) -> None:
        self.client = client
        self._columns = columns
        self._fit = uuid4().hex[:8]
        self._numbers = count()
        self._futures: WeakSet[Future] = WeakSet()

    def own(self, futures: Iterable[Future]) -> list[Future]:
        """Return the futures, and release them at the end of the fit."""
        owned = list(futures)
        self._futures.update(owned)
        return owned

    @staticmethod
    def release(futures: Iterable[Future]) -> None:
        """Allow workers to drop results as soon as no other task needs them."""
        for future in futures:
            future.release()

    def close(self) -> None:
        """Allow workers to drop all results of the fit, even those referenced by the traceback of an error."""
        self.release(list(self._futures))

    def name(self, words: str) -> str:
        """Return a unique task name."""
        return f"diprime-{words}-{self._fit}{next(self._numbers):06x}"

    def map(
        self, words: str, work: Callable[..., TaskResult], *arguments: Sequence[Any], priority: int = 0
    ) -> list[Future]:
        """Run a function on the workers for each argument."""
        name = self.name(words)
        keys = [(name, i) for i in range(len(arguments[0]))]
        with redact_cluster_errors():
            self.raise_if_disconnected()
            return self.own(self.client.map(work, *arguments, key=keys, pure=False, priority=priority))

    def submit(self, words: str, work: Callable[..., TaskResult], arguments: Sequence[Future | Opaque]) -> Future:
        """Run a function on a worker for all arguments together, as soon as they are available."""
        how = {"key": self.name(words), "pure": False, "priority": HIGH_PRIORITY}
        with redact_cluster_errors():
            return self.own([self.client.submit(work, *arguments, **how)])[0]

    def tree(self, parts: Sequence[Future], *, whole: bool = True) -> Sequence[Future]:
        """Add parts on the workers in a tree, until there is one part, or otherwise a few if not ``whole``."""
        while len(parts) > (1 if whole else remote.FAN_IN):
            some = [parts[i : i + remote.FAN_IN] for i in range(0, len(parts), remote.FAN_IN)]
            parts = [self.submit("add", remote.add_sums, few) if len(few) > 1 else few[0] for few in some]
        return parts

    def results(self, results: Sequence[Future]) -> list[Any]:
        """Wait for results and fetch them."""
        with redact_cluster_errors(self._columns):
            fetched = self.wait_for(lambda: self.client.gather(list(results), asynchronous=True))
        return [unwrap(result) for result in fetched]

    def wait_for(self, ask: Callable[[], Coroutine[Any, Any, Any]], needed: Sequence[Future] = ()) -> Any:
        """Return the cluster's answer, and raise an error soon if the cluster or a needed result is lost."""
        answer = asyncio.run_coroutine_threadsafe(ask(), self.client.loop.asyncio_loop)
        try:
            while not futures.wait([answer], POLL_SECONDS).done:
                self.raise_if_disconnected(needed)
            return answer.result()
        finally:
            answer.cancel()  # after an error

    def raise_if_disconnected(self, needed: Sequence[Future] = ()) -> None:
        """Raise an error if the scheduler or a needed result is lost.

        A client that loses its scheduler tries to reconnect for half a minute or longer, while its caller waits. By
        then, however, all results are gone, including the rows of the fit.
        """
        if self.client.status != "running" or any(one.status != "finished" for one in needed):
            raise ConnectionError


@contextmanager
def redact_cluster_errors(columns: Sequence[str] = ()) -> Iterator[None]:
    """Replace an error of the cluster by one sentence without its text, which may quote rows.

    An error about columns is caused by the data, and the sentence names one of ``columns``.
    """
    try:
        yield
    except KilledWorker:
        raise RuntimeError(
            "Several Dask workers died while running the same task, possibly because they ran out of memory. "
            "Use larger workers, or more of them."
        ) from None
    except Exception as error:  # noqa: BLE001 -- of any kind
        names = [name for name in columns if repr(name) in str(error)] if _is_about_columns(error) else []
        if names:
            raise ValueError(
                f"A partition of the data lacks column {names[0]!r}, or has another dtype for it. All partitions "
                "must have the columns and dtypes of the Dask DataFrame."
            ) from None
        raise RuntimeError(
            f"The fit failed because the Dask cluster or its data became unavailable ({type(error).__name__}). "
            "Check that the scheduler is running and that X.persist() succeeds, then fit again."
        ) from None


def _is_about_columns(error: Exception) -> bool:
    """Return whether pandas or Dask could not find a column."""
    return isinstance(error, KeyError) or str(error).startswith("Metadata mismatch found")


START_SECONDS = 10
"""Maximum time in which a worker may start an actor. Its threads may be busy."""
N_TRIES = 3
"""Number of times that a fit may start actors: once at first, and again after a worker was lost."""


class WorkerActor:
    """Bundles of a worker in an actor."""

    def __init__(self, *bundles: TaskResult) -> None:
        self._bundles = bundles
        self._others = ThreadPoolExecutor(max(1, len(bundles) - 1))  # Dask has one thread for all actors of a worker

    def work(self, *items: Opaque) -> TaskResult:
        """Run one work item per bundle, each in its own thread, and return the sum."""
        others = self._others.map(work_on_rows, self._bundles[1:], items[1:])
        return add_sums(work_on_rows(self._bundles[0], items[0]), *others)


@dataclass(frozen=True)
class _ActorHandle:
    """Running actor."""

    numbers: Sequence[int]  # indices of its bundles
    future: Future  # finished for as long as the worker is alive
    actor: Actor


class ActorPool:
    """Actors of all workers, which are started on first use."""

    def __init__(self, tasks: Tasks, bundles: Sequence[Future]) -> None:
        self._tasks = tasks
        self._client: Client = tasks.client
        self._bundles = bundles
        self._actors: list[_ActorHandle] = []
        self._futures: list[Future] = []  # of all actors that were ever started
        self._n_tries = N_TRIES

    def results(self, items: Sequence[Opaque]) -> list[TaskResult] | None:
        """Run one work item per bundle. Return one result per worker, or None if one cannot be reached."""
        if not self._actors and self._n_tries == 0:
            return None
        try:
            with self._client.as_current():  # actor handles use the active client
                self._actors = self._actors or self._start()
                calls = [handle.actor.work(*(items[i] for i in handle.numbers)) for handle in self._actors]
                futures = [handle.future for handle in self._actors]
                return list(self._tasks.wait_for(lambda: _all(calls), futures))
        except Exception:  # noqa: BLE001 -- of any kind: tasks detect the reason
            self._actors = []
            return None

    def close(self) -> None:
        """Make workers drop their actors, including their rows."""
        # Actor handles are part of reference cycles, which would keep them until the next garbage collection.
        if self._futures and self._client.status == "running":
            with suppress(Exception):  # if the cluster is lost, so are the actors
                self._client.cancel(self._futures, force=True)
        self._futures = []

    def _start(self) -> list[_ActorHandle]:
        """Start an actor on each worker that has bundles."""
        self._n_tries -= 1
        places = self._client.who_has(list(self._bundles))
        by_worker: dict[str, list[int]] = {}
        for i, bundle in enumerate(self._bundles):
            by_worker.setdefault(min(places[bundle.key]), []).append(i)
        started = self._tasks.own(self._submit(numbers, address) for address, numbers in by_worker.items())
        wait(started, timeout=START_SECONDS)
        self._futures += started
        return [
            _ActorHandle(numbers, future, Actor(WorkerActor, address, future.key))
            for (address, numbers), future in zip(by_worker.items(), started, strict=True)
        ]

    def _submit(self, numbers: Sequence[int], address: str) -> Future:
        """Start an actor on a worker. Elsewhere, it would be far from its bundles."""
        bundles, name = [self._bundles[i] for i in numbers], self._tasks.name("actor")
        return self._client.submit(WorkerActor, *bundles, key=name, pure=False, actor=True, workers=[address])


async def _all(calls: Sequence[Awaitable[TaskResult]]) -> list[TaskResult]:
    return [await call for call in calls]
