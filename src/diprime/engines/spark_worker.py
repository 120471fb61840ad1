"""What the Python workers of Spark's executors run: encoding, and pure functions of encoded rows and steps.

An executor's Python worker is a process that does one task after the other. What it keeps from one task to the next,
the states of partitions, is in this module, so that a task has to take the last steps only. Another process may get the
next task of a partition, or the process may be gone: then the states are made anew of the encoded rows, by all steps so
far. The answer is the same, bit for bit.

This module needs the extra ``diprime[spark]``.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyspark import TaskContext

from diprime.domain import Domain
from diprime.domain.batches import EncodedBatches
from diprime.engines.executor import Question, Step
from diprime.engines.partition import Partition
from diprime.engines.persons import Target, UsedRecords
from diprime.engines.remote import Bundle, Failure, Outcome, Sealed, Task, encode_rows, guarded, work_on_rows

PIECE_BYTES = 1 << 25
"""How many bytes of codes are one element of an RDD, about: far less than the 2 GiB that Java's arrays can hold."""

PIECE = "piece binary"
"""The schema of pieces."""

Digests = Sequence[bytes]

_OTHER_ROWS = Failure(
    "Spark has computed a partition of X again, because an executor was lost, and its rows are not those of the first "
    "time, so there is no model; fit to a table that is the same whenever it is computed, such as one that was written "
    "to files.",
    of_input=False,
)


@dataclass(frozen=True)
class Encoding:
    """How rows become codes.

    Attributes
    ----------
    domain : Domain
        What is public about them.
    columns : sequence of str
        The names of the columns.
    target : str
        The column of the target.
    key : bytes
        The key of digests, which is drawn for the fit.
    """

    domain: Domain
    columns: Sequence[str]
    target: str
    key: bytes


@dataclass(frozen=True)
class Piece:
    """Some encoded rows of a partition, one after the other.

    Attributes
    ----------
    codes : array of shape (n, n_features)
        The features.
    target : array of shape (n,)
        The targets.
    digest : bytes
        What tells whether rows that are computed anew are the same.
    """

    codes: npt.NDArray[np.uint8]
    target: Target
    digest: bytes


@dataclass(frozen=True)
class Order:
    """What all partitions are to do.

    Attributes
    ----------
    run : str
        The run of steps, which begins with the encoded rows.
    digests : sequence of sequences of bytes
        The digests of the pieces of each partition.
    steps : sequence of sequences of Step
        All steps so far: one after the other, each for every partition.
    question : Question
        What is asked then.
    """

    run: str
    digests: Sequence[Digests]
    steps: Sequence[Sequence[Step]]
    question: Question


def encode_pieces(batches: Iterable[pd.DataFrame], encoding: Encoding) -> Iterator[pd.DataFrame]:
    """Encode the rows of one partition, batch by batch; yield pieces, of which there is one at least."""
    settings = Sealed(encoding.domain), Sealed(_task().partitionId())
    pending: list[Outcome] = []
    n_bytes = 0
    for batch in batches:
        named = batch.set_axis(encoding.columns, axis="columns")
        encoded = encode_rows(Sealed(named.drop(columns=encoding.target)), Sealed(named[encoding.target]), *settings)
        pending.append(encoded)
        if isinstance(encoded, Failure):
            break
        n_bytes += len(batch) * encoding.domain.n_features
        if n_bytes >= PIECE_BYTES:
            yield _packed(encoding, pending)
            pending, n_bytes = [], 0
    yield _packed(encoding, pending)


def _packed(encoding: Encoding, encoded: Sequence[Outcome]) -> pd.DataFrame:
    """Return a row of a table of pieces."""
    return pd.DataFrame({"piece": [pickle.dumps(join_rows(Sealed(encoding), *encoded), protocol=5)]})


@guarded
def join_rows(encoding: Encoding, *parts: Partition) -> Piece:
    """Put encoded rows together, and compute their digest."""
    n_rows = [part.rows.n_rows for part in parts]
    codes = np.empty((sum(n_rows), encoding.domain.n_features), dtype=np.uint8)
    for part, begin, n in zip(parts, np.cumsum([0, *n_rows]), n_rows, strict=False):
        part.rows.read(0, n, codes[begin : begin + n])
    target = np.concatenate([np.empty(0, dtype=np.int32), *(part.records.target for part in parts)])
    digest = hashlib.blake2b(codes.data, key=encoding.key)
    digest.update(target.data)
    return Piece(codes, target, digest.digest())


def load_piece(row: Sequence[bytes]) -> Outcome:
    """Return the piece in a row of a table of pieces."""
    outcome: Outcome = pickle.loads(row[0])
    return outcome


def measure(pieces: Iterable[Outcome]) -> Outcome:
    """Return the number of rows of a partition, and the digests of its pieces."""
    n_rows, digests = 0, []
    for outcome in pieces:
        if not isinstance(outcome, Sealed):
            return outcome
        n_rows += len(outcome.content.target)
        digests.append(outcome.content.digest)
    return Sealed((n_rows, digests))


_kept: dict[str, dict[int, Outcome]] = {}  # bundles in this process, by the numbers of partitions; those of one run


def forget(pieces: Iterable[Outcome]) -> None:
    """Drop the states of all partitions that this process has.

    The pieces of a partition are read: Spark would end the worker, and the next fit wait for another one to begin.
    """
    _kept.clear()
    for _ in pieces:
        pass


def answer(number: int, pieces: Iterable[Outcome], order: Order) -> Outcome:
    """Let a partition do what is ordered, from the state that it is in or from its rows on.

    All pieces are read, also if there is a state: Spark ends a worker that leaves some unread. What is computed anew
    and is not what it was would let a record count at two places, so it is refused.
    """
    if order.run not in _kept:
        _kept.clear()
        _kept[order.run] = {}
    bundles = _kept[order.run]
    found, digests = [], []
    for outcome in pieces:
        if not isinstance(outcome, Sealed):
            return outcome
        digests.append(outcome.content.digest)
        if number not in bundles:
            found.append(outcome)
    if digests != order.digests[number]:
        return _OTHER_ROWS
    if number not in bundles:
        bundles[number] = bundle_pieces(*found)
    steps = [[step[number]] for step in order.steps]
    return work_on_rows(bundles[number], Sealed(Task(order.run, 0, steps, order.question)))


@guarded
def bundle_pieces(*pieces: Piece) -> Bundle:
    """Put the pieces of a partition together."""
    rows = EncodedBatches(pieces[0].codes.shape[1], [piece.codes for piece in pieces])
    target = np.concatenate([piece.target for piece in pieces])
    return Bundle([Partition(rows, UsedRecords(target))], n_threads=_task().cpus())


def _task() -> TaskContext:
    """Return what Spark says about the task that runs here."""
    context = TaskContext.get()
    assert context is not None
    return context
