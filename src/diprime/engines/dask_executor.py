"""Partitions on the workers of a Dask cluster. This module needs the extra ``diprime[dask]``.

The state of a partition is the result of a task, which stays on a worker. A step is a task that makes the next state of
it, and the old one is released. The scheduler remembers the tasks that a state was made by until the fit ends: where a
worker is lost, others make its states anew, from the data on, and they are the same, bit for bit.

Answers are added up on the workers, first those of the same worker and then in a tree, and only the sum is fetched.
Names of tasks say what they do, in which step of the fit and for which partition, and nothing else. The steps
themselves are arguments of tasks, so the scheduler has them in its memory during the fit: what was released so far and,
for :class:`~diprime.engines.tree_partition.AssignTrees`, the random bits that say which tree a row is in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from typing import Any
from uuid import uuid4

from distributed import Client, Future, KilledWorker, as_completed

from diprime._util.progress import Progress
from diprime._util.threads import Threads
from diprime.engines import remote
from diprime.engines.executor import Answer, Question, Step
from diprime.engines.partition import Partition
from diprime.engines.remote import Outcome, Sealed, opened
from diprime.privacy.randomness import RandomSource

FAN_IN = 8
"""How many answers one task adds up at most."""

_SOON = 1  # the priority of tasks that make room: of reading rows that are loaded, and of adding answers up


def current_client() -> Client:
    """Return the client that is in use, which says where the cluster is."""
    try:
        return Client.current()
    except ValueError:
        raise ValueError(
            "There is no Dask client, which says where to fit; make one first, for example with from distributed "
            "import Client and client = Client()."
        ) from None


class DaskExecutor:
    """The executor whose partitions are on the workers of a Dask cluster.

    The partitions of a worker are put into a bundle for each of its threads, and a task is about a bundle: a round of
    boosting should not take as many tasks as there are partitions.

    Parameters
    ----------
    client : Client
        The client of the cluster.
    partitions : sequence of Future
        The encoded partitions, sealed.
    sizes : sequence of int
        The number of rows of each.
    """

    def __init__(self, client: Client, partitions: Sequence[Future], sizes: Sequence[int]) -> None:
        self.sizes = list(sizes)
        self._tasks = _Tasks(client)
        placed = self._tasks.placed(partitions, sizes)
        self._bundles = [bundle for bundles in placed for bundle in bundles]
        self._states = [
            self._tasks.submit("bundle", remote.bundle_partitions, [partitions[i] for i in bundle])
            for bundle in self._bundles
        ]
        self._n_of_workers = [len(bundles) for bundles in placed]

    def advance(self, steps: Sequence[Step]) -> Answer:
        """Change the state of every partition by a step of its own; return the sum of the answers."""
        sealed = [Sealed([steps[i] for i in bundle]) for bundle in self._bundles]
        states = self._tasks.map(_words(steps[0]), remote.take_steps, self._states, sealed)
        # Answers by themselves: whoever adds them up on another worker does not fetch the states.
        total = self._added(self._tasks.map("answer", remote.take_answer, states))
        self._states = states
        return total

    def ask(self, question: Question, out: Answer | None = None) -> Answer:
        """Return the sum of the answers of all partitions; it does not use ``out``."""
        sealed = [Sealed(question)] * len(self._bundles)
        return self._added(self._tasks.map(_words(question), remote.answer_question, self._states, sealed))

    def _added(self, answers: Sequence[Future]) -> Answer:
        """Add answers up on the workers, those of the same worker first, and fetch the sum."""
        left = iter(answers)
        sums = [self._tasks.tree(list(islice(left, n))) for n in self._n_of_workers]
        total: Answer = self._tasks.result(self._tasks.tree(sums))
        return total


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

    def tree(self, parts: Sequence[Future]) -> Future:
        """Let workers add up parts, some at a time."""
        while len(parts) > 1:
            some = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
            parts = [self.submit("add", remote.add_answers, few) if len(few) > 1 else few[0] for few in some]
        return parts[0]

    def placed(self, partitions: Sequence[Future], sizes: Sequence[int]) -> list[list[list[int]]]:
        """Return, for each worker, the numbers of the partitions that each of its threads gets.

        Where they are later, when a worker has been lost, makes no difference to sums, but to how far answers go.
        """
        with _told():
            places, n_threads = self._client.who_has(list(partitions)), self._client.nthreads()
        on_workers: dict[str, list[int]] = {}
        for i, partition in enumerate(partitions):
            on_workers.setdefault(min(places.get(partition.key, ()), default=""), []).append(i)
        return [_divided(numbers, sizes, n_threads.get(worker, 1)) for worker, numbers in on_workers.items()]

    def result(self, future: Future) -> Any:
        """Wait for a result, and fetch it."""
        with _told():
            outcome = future.result()
        return opened(outcome)

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
            "the scheduler runs and that the data can be computed, say by X.persist(), and fit again."
        ) from None


def _words(work: Step | Question) -> str:
    """Return the name of a step or question, for the names of its tasks.

    Examples
    --------
    >>> from diprime.engines.tree_partition import NodeSums, begin_trees
    >>> _words(begin_trees), _words(NodeSums(None))
    ('begin-trees', 'node-sums')
    """
    name = getattr(work, "__name__", type(work).__name__)
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", "-", name).lower()


@dataclass(frozen=True)
class DaskPartitions:
    """Encoded rows on the workers of a Dask cluster.

    Attributes
    ----------
    client : Client
        The client of the cluster.
    parts : sequence of Future
        The partitions, sealed.
    sizes : sequence of int
        The number of rows of each; they are private, and stay with the coordinator.
    """

    client: Client
    parts: Sequence[Future]
    sizes: Sequence[int]

    @property
    def of_persons(self) -> bool:
        """Whether the rows say whose they are: they do not."""
        return False

    def choose(self, max_records: int, source: RandomSource) -> DaskPartitions:
        """Raise an error: there are no persons."""
        raise AssertionError("Rows on a cluster have no persons.")

    def whole(self) -> Partition:
        """Raise `ValueError`: the rows are not brought here."""
        raise ValueError(
            "This estimator needs all of its rows in this process, not on a cluster; give tables in memory, such as "
            "X.compute() and y.compute() of Dask."
        )

    def executor(self, threads: Threads) -> DaskExecutor:
        """Return what runs the steps of a fit on them; workers take their own threads."""
        return DaskExecutor(self.client, self.parts, self.sizes)


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
        for _ in as_completed(sizes):
            progress.advance()
    return DaskPartitions(client, parts, tasks.results(sizes))
