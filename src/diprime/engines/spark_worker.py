"""What the Python workers of Spark's executors run: encoding, and pure functions of encoded rows and steps.

The workers keep the states of partitions from one task to the next (:mod:`~diprime.engines.spark_states`), so that a
task needs neither the rows nor any steps but the last. Where a state has been lost, it is made anew of the encoded
rows, by all steps so far. The answer is the same, bit for bit.

This module needs the extra ``diprime[spark]``.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyspark import TaskContext

from diprime.domain import Domain
from diprime.domain.batches import EncodedBatches
from diprime.engines import spark_states
from diprime.engines.partition import Partition
from diprime.engines.persons import Target, UsedRecords
from diprime.engines.remote import Behind, Bundle, Failure, Outcome, Sealed, Task, encode_rows, guarded, work_on_rows
from diprime.engines.spark_states import states_of

PIECE_BYTES = 1 << 25
"""How many bytes of codes are one element of an RDD, about: far less than the 2 GiB that Java's arrays can hold."""

PIECE = "piece binary"
"""The schema of pieces."""

Row = Sequence[bytes]  # of a table of pieces, each of which is packed

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
    fit : str
        The name of the fit.
    task : Task
        What to do, with steps for every partition.
    digests : sequence of bytes
        The digest of the rows of each partition.
    """

    fit: str
    task: Task
    digests: Sequence[bytes]

    def of_partition(self, number: int) -> Sealed:
        """Return the task of one partition."""
        return Sealed(replace(self.task, steps=[[step[number]] for step in self.task.steps]))


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


def place(number: int, pieces: Iterable[Row], fit: str) -> Outcome:
    """Begin with the rows of a partition; return their number and digest.

    If Spark does this twice, and the rows are not the same, the one whose answer is not taken has a state that nobody
    asks for.
    """
    read = _unpacked(pieces)
    if not isinstance(read, Sealed):
        return read
    bundle, n_rows, digest = read.content
    states_of(fit).keep(number, digest, Sealed(bundle))
    return Sealed((n_rows, digest))


def answer(number: int, nothing: Iterable[object], order: Order) -> Outcome:
    """Let a partition do what is ordered, from the state that it is in; without a state, it is behind.

    That there is nothing has to be read as well: else Spark ends the worker.
    """
    list(nothing)
    done = states_of(order.fit).work(number, order.digests[number], order.of_partition(number))
    return Behind(0) if done is None else done


def answer_from_rows(number: int, pieces: Iterable[Row], order: Order) -> Outcome:
    """Let a partition do what is ordered, from its rows on if there is no state.

    All pieces are read, also if there is a state: Spark ends a worker that leaves some unread. What is computed anew
    and is not what it was would let a record count at two places, so it is refused.
    """
    read = _unpacked(pieces)
    if not isinstance(read, Sealed):
        return read
    bundle, _, digest = read.content
    if digest != order.digests[number]:
        return _OTHER_ROWS
    states, task = states_of(order.fit), order.of_partition(number)
    done = states.work(number, digest, task)
    if done is None:
        states.keep(number, digest, Sealed(bundle))
        done = work_on_rows(Sealed(bundle), task)
    return done


def forget(nothing: Iterable[object], fit: str) -> None:
    """Let the Python workers of an executor drop the states of a fit."""
    list(nothing)
    spark_states.forget(fit)


def _unpacked(pieces: Iterable[Row]) -> Outcome:
    """Return what :func:`read_pieces` does, or what has failed."""
    return read_pieces(*(pickle.loads(packed) for (packed,) in pieces))


@guarded
def read_pieces(*pieces: Piece) -> tuple[Bundle, int, bytes]:
    """Put the pieces of a partition together; return them with the number of their rows, and with their digest."""
    rows = EncodedBatches(pieces[0].codes.shape[1], [piece.codes for piece in pieces])
    target = np.concatenate([piece.target for piece in pieces])
    bundle = Bundle([Partition(rows, UsedRecords(target))], n_threads=_task().cpus())
    return bundle, len(target), hashlib.blake2b(b"".join(piece.digest for piece in pieces), digest_size=32).digest()


def _task() -> TaskContext:
    """Return what Spark says about the task that runs here."""
    context = TaskContext.get()
    assert context is not None
    return context
