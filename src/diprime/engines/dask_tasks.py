"""The tasks of a fit on a Dask cluster: their names, and waiting for them. It needs the extra ``diprime[dask]``.

Names of tasks say what they do, and nothing else. Steps are arguments of tasks, so the scheduler has them in its memory
for as long as the task is there: what was released so far and, for
:class:`~diprime.engines.tree_partition.AssignTrees`, the random bits that say which tree a row is in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from itertools import count
from typing import Any
from uuid import uuid4

from distributed import Client, Future, KilledWorker

from diprime.engines import remote
from diprime.engines.remote import Outcome, opened

FAN_IN = 8
"""How many answers one task adds up at most."""
SOON = 1
"""The priority of tasks that make room: of reading rows that are loaded, and of adding answers up."""
LOOK_SECONDS = 0.5
"""How often a fit that waits looks whether the cluster is still there."""


class Tasks:
    """Tasks of one fit, with names that nothing else on the cluster has.

    Parameters
    ----------
    client : Client
        The client of the cluster.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._fit = uuid4().hex[:8]
        self._numbers = count()

    def name(self, words: str) -> str:
        """Return a name that no other task has."""
        return f"diprime-{words}-{self._fit}{next(self._numbers):06x}"

    def map(
        self, words: str, work: Callable[..., Outcome], *arguments: Sequence[Any], priority: int = 0
    ) -> list[Future]:
        """Let workers do some work for each argument."""
        name = self.name(words)
        keys = [(name, i) for i in range(len(arguments[0]))]
        with told():
            self.look()
            return list(self.client.map(work, *arguments, key=keys, pure=False, priority=priority))

    def submit(self, words: str, work: Callable[..., Outcome], arguments: Sequence[Future]) -> Future:
        """Let a worker do some work for all arguments together, as soon as they are there."""
        with told():
            return self.client.submit(work, *arguments, key=self.name(words), pure=False, priority=SOON)

    def tree(self, parts: Sequence[Future], *, whole: bool = True) -> Sequence[Future]:
        """Let workers add up parts, some at a time, until there is one, or if that is not the whole, a few."""
        while len(parts) > (1 if whole else FAN_IN):
            some = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
            parts = [self.submit("add", remote.add_answers, few) if len(few) > 1 else few[0] for few in some]
        return parts

    def results(self, results: Sequence[Future]) -> list[Any]:
        """Wait for several results, and fetch them."""
        with told():
            outcomes = self.wait_for(lambda: self.client.gather(list(results), asynchronous=True))
        return [opened(outcome) for outcome in outcomes]

    def wait_for(self, ask: Callable[[], Coroutine[Any, Any, Any]], needed: Sequence[Future] = ()) -> Any:
        """Return what the cluster answers; raise an error soon if it is lost meanwhile, or results that are needed."""
        answer = asyncio.run_coroutine_threadsafe(ask(), self.client.loop.asyncio_loop)
        try:
            while not futures.wait([answer], LOOK_SECONDS).done:
                self.look(needed)
            return answer.result()
        finally:
            answer.cancel()  # if nobody waits for it any more

    def look(self, needed: Sequence[Future] = ()) -> None:
        """Raise an error if the scheduler is lost, or results that are needed.

        A client that loses it tries to find it again, for half a minute or as long as it was told to, and lets whoever
        asks for something wait meanwhile. But all results are gone by then, and with them the rows of the fit.
        """
        if self.client.status != "running" or any(one.status != "finished" for one in needed):
            raise ConnectionError


@contextmanager
def told() -> Iterator[None]:
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
