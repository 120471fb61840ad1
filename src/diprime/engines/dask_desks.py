"""Short questions on a Dask cluster, which go straight to the workers. This module needs the extra ``diprime[dask]``.

A task takes the scheduler and a worker some ten milliseconds, whatever it does, and boosting has hundreds of rounds,
one after the other. Here a worker has an actor of Dask, a :class:`Desk`, with the bundles that tasks work on as well.
It gets a question, with the steps before it, in one message, and answers in another, which take two milliseconds.

A desk does what tasks can do too. So when one cannot be reached, for whatever reason, its caller lets tasks do it: they
find out what has happened, and mend it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from distributed import Actor, Client, Future, wait

from diprime.engines.dask_tasks import Tasks
from diprime.engines.remote import Outcome, Sealed, add_answers, work_on_rows

OPEN_SECONDS = 10
"""How long a worker may take to open a desk; one whose threads have other work goes on with tasks."""
N_TRIES = 3
"""How often a fit opens desks: at first, and after a worker was lost."""


class Desk:
    """The bundles of a worker, which an actor keeps at hand.

    Parameters
    ----------
    *bundles : Outcome
        The bundles, sealed.
    """

    def __init__(self, *bundles: Outcome) -> None:
        self._bundles = bundles
        self._others = ThreadPoolExecutor(max(1, len(bundles) - 1))  # Dask has one thread for all actors of a worker

    def work(self, *tasks: Sealed) -> Outcome:
        """Let each bundle do a task, in a thread of its own; return the sum of the answers."""
        others = self._others.map(work_on_rows, self._bundles[1:], tasks[1:])
        return add_answers(work_on_rows(self._bundles[0], tasks[0]), *others)


@dataclass(frozen=True)
class _Open:
    """A desk that is open.

    Attributes
    ----------
    numbers : sequence of int
        Its bundles.
    made : Future
        Stands for the actor: it is finished for as long as the worker is there.
    actor : Actor
        Its handle.
    """

    numbers: Sequence[int]
    made: Future
    actor: Actor


class Desks:
    """The desks of all workers, which are opened when they are needed.

    Parameters
    ----------
    tasks : Tasks
        The tasks of the fit.
    bundles : sequence of Future
        The bundles.
    """

    def __init__(self, tasks: Tasks, bundles: Sequence[Future]) -> None:
        self._tasks = tasks
        self._client: Client = tasks.client
        self._bundles = bundles
        self._desks: list[_Open] = []
        self._made: list[Future] = []  # those of all desks that were ever opened
        self._n_tries = N_TRIES

    def outcomes(self, work: Sequence[Sealed]) -> list[Outcome] | None:
        """Let every bundle do a task; return an outcome of each worker, or None if one cannot be reached."""
        if not self._desks and self._n_tries == 0:
            return None
        try:
            with self._client.as_current():  # the handle of an actor takes the client that is in use
                self._desks = self._desks or self._opened()
                calls = [desk.actor.work(*(work[i] for i in desk.numbers)) for desk in self._desks]
                made = [desk.made for desk in self._desks]
                return list(self._tasks.wait_for(lambda: _all(calls), made))
        except Exception:  # noqa: BLE001 -- whatever it is: tasks find out
            self._desks = []
            return None

    def close(self) -> None:
        """Let workers drop their desks, and the rows in them.

        The handles of actors are in cycles of references, which would keep them until Python looks for such.
        """
        if self._made and self._client.status == "running":
            with suppress(Exception):  # if the cluster is lost, so are they
                self._client.cancel(self._made, force=True)
        self._made = []

    def _opened(self) -> list[_Open]:
        """Open a desk on each worker that has bundles."""
        self._n_tries -= 1
        places = self._client.who_has(list(self._bundles))
        of_workers: dict[str, list[int]] = {}
        for i, bundle in enumerate(self._bundles):
            of_workers.setdefault(min(places[bundle.key]), []).append(i)
        desks = [
            _Open(numbers, made := self._submitted(numbers, address), Actor(Desk, address, made.key))
            for address, numbers in of_workers.items()
        ]
        self._made += [desk.made for desk in desks]
        wait([desk.made for desk in desks], timeout=OPEN_SECONDS)
        return desks

    def _submitted(self, numbers: Sequence[int], address: str) -> Future:
        """Let a worker open a desk; elsewhere it would be far from its bundles."""
        bundles, name = [self._bundles[i] for i in numbers], self._tasks.name("desk")
        return self._client.submit(Desk, *bundles, key=name, pure=False, actor=True, workers=[address])


async def _all(calls: Sequence[Awaitable[Outcome]]) -> list[Outcome]:
    """Wait for all."""
    return [await call for call in calls]
