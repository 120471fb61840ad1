"""Dask DataFrames, and files read by workers, as sources. Requires the extra ``diprime[dask]``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import dask.dataframe as dd
import pandas as pd
from dask import is_dask_collection
from distributed import Future

from diprime._util import InputError
from diprime.domain import Domain
from diprime.domain.records import DrawnPart, PersonDigests, Records, Tally
from diprime.execution.partition import Partition, encode_batches
from diprime.execution.remote import (
    Opaque,
    TaskResult,
    encode_rows,
    input_errors,
    redact_errors,
    tally_rows,
)
from diprime.sources.dask.executor import DaskPartitions, current_client, encoded_on_workers, tallied_on_workers
from diprime.sources.dask.workers import Tasks
from diprime.sources.data_files import Files, NoRowsError
from diprime.sources.protocol import Roles, RunOptions, Source, check_names

T = TypeVar("T")


class DaskTable(Source):
    """Dask DataFrame of records, with Dask Series of targets and groups in the same partitions."""

    def __init__(self, X: Any, y: Any, groups: Any) -> None:
        for name, column in (("y", y), ("groups", groups)):
            if column is not None:
                _check_kinds(X, column, name)
                _check_partitions(X, column, name)
        self._records = Records(X, y, groups)

    def columns(self, roles: Roles) -> Any:
        """Return an empty pandas table with the names and types of the columns."""
        return self._records.X._meta

    def collect(
        self, tally: Tally[T], drawn: Sequence[DrawnPart] | None = None, *, domain: Domain, roles: Roles
    ) -> list[T]:
        """Tally each partition on the workers of the current client."""
        tasks, tables = self._computed()
        return tallied_on_workers(tasks, _tally, tables, tally, drawn)

    @contextmanager
    def encode(self, domain: Domain, roles: Roles, options: RunOptions) -> Iterator[DaskPartitions]:
        """Encode the rows on the workers of the current client, which keep them until the end of the block."""
        X, y, ids = (None if columns is None else columns._meta for columns in self._records)
        domain.reader(X)  # raise errors about names and types before anything is computed
        domain.encode_target(y)
        digests = None if ids is None else PersonDigests.of_kind(ids, domain.missing_texts)
        tasks, tables = self._computed()
        how = Opaque(domain), Opaque(digests), Opaque(options.mark_outside)
        arguments = tables, *([one] * len(tables) for one in how), list(map(Opaque, range(len(tables))))
        with encoded_on_workers(
            tasks, _encode, *arguments, shown=options.is_shown, of_persons=digests is not None
        ) as partitions:
            yield partitions

    def _computed(self) -> tuple[Tasks, list[Future]]:
        """Compute all partitions as :class:`Records` on the workers."""
        X, y, groups = self._records
        roles = [column.name for column in (y, groups) if column is not None]
        tasks = Tasks(current_client(), [name for name in (*X.columns, *roles) if isinstance(name, str)])
        tables = dd.map_partitions(
            _records, X, y, groups, meta=(None, "object"), enforce_metadata=False, align_dataframes=False
        )
        return tasks, tasks.own(tasks.client.compute(tables.to_delayed()))


def open_source(X: Any, y: Any, groups: Any) -> tuple[DaskTable, Roles]:
    """Return a Dask DataFrame as a source. Targets and groups are columns of it, given directly or by name."""
    named = Roles(*(name if isinstance(name, str) else None for name in (y, groups)))
    if isinstance(X, dd.DataFrame) and named != Roles():
        check_names(list(X.columns), named)
        y, groups = (column if name is None else X[name] for name, column in zip(named, (y, groups), strict=True))
        X = X.drop(columns=[name for name in named if name is not None])
    return DaskTable(X, y, groups), Roles("y", None if groups is None else "groups")


def _check_kinds(X: Any, y: Any, name: str) -> None:
    if not isinstance(X, dd.DataFrame):
        kind = type(X).__name__
        found = f"X is a Dask {kind}" if is_dask_collection(X) else f"{name} is a Dask collection, and X is a {kind}"
        raise TypeError(f"{found}. Pass a Dask DataFrame as X, or both in memory.")
    if not isinstance(y, dd.Series):
        raise TypeError(
            f"X is a Dask DataFrame, but {name} is a {type(y).__name__}. Pass a Dask Series as {name}, such as "
            "a column of the same table."
        )


def _check_partitions(X: Any, y: Any, name: str) -> None:
    """Refuse columns in other partitions than their records. Workers compare the lengths of the partitions."""
    if X.npartitions != y.npartitions:
        raise ValueError(
            f"X has {X.npartitions} partitions, but {name} has {y.npartitions}. Pass columns of one Dask "
            f"DataFrame, or repartition {name} as X."
        )
    if X.known_divisions and y.known_divisions and X.divisions != y.divisions:
        raise ValueError(
            f"X and {name} are divided at different places of their index. Pass columns of one Dask DataFrame, "
            f"or repartition {name} as X."
        )


def _records(X: Any, y: Any, groups: Any) -> Records:
    """Return a partition of the records."""
    return Records(X, y, groups)


def _encode(records: Records, *others: Opaque) -> TaskResult:
    """Encode a partition on a worker."""
    return encode_rows(Opaque(records), *others)


def _tally(records: Records, *others: Opaque) -> TaskResult:
    """Tally a partition on a worker."""
    return tally_rows(Opaque([records]), *others)


class DaskFiles(Source):
    """Files as partitions on a Dask cluster. All workers must find them at the same path."""

    def __init__(self, client: Any, files: Files) -> None:
        self._client = client
        self._files = files

    def columns(self, roles: Roles) -> Any:
        """Return the table of the first file without its rows."""
        return self._files.columns(roles)

    def collect(
        self, tally: Tally[T], drawn: Sequence[DrawnPart] | None = None, *, domain: Domain, roles: Roles
    ) -> list[T]:
        """Read and tally each file on the workers."""
        work = partial(_tally_file, domain=Opaque(domain), roles=Opaque(self._files.roles(domain, roles)))
        return tallied_on_workers(Tasks(self._client), work, self._paths(), tally, drawn)

    @contextmanager
    def encode(self, domain: Domain, roles: Roles, options: RunOptions) -> Iterator[DaskPartitions]:
        """Read and encode the files on the workers."""
        named, paths = self._files.roles(domain, roles), self._paths()
        ids = None if named.groups is None else self._files.first.schema.empty_table()[named.groups]
        digests = None if ids is None else PersonDigests.of_kind(ids, domain.missing_texts)
        how = Opaque(domain), Opaque(named), Opaque(digests), Opaque(options.mark_outside)
        arguments = paths, *([one] * len(paths) for one in how)
        with encoded_on_workers(
            Tasks(self._client), read_file, *arguments, shown=options.is_shown, of_persons=digests is not None
        ) as encoded:
            if not any(encoded.placement.sizes):
                raise NoRowsError(f"{self._files.paths[0]} has no rows.")
            yield encoded

    def _paths(self) -> list[Opaque]:
        return [Opaque(path.absolute()) for path in self._files.paths]


@redact_errors
def read_file(path: Path, domain: Domain, roles: Roles, digests: PersonDigests | None, mark_outside: bool) -> Partition:
    """Read and encode a file on a worker. A file without rows becomes an empty partition."""
    records = _records_of_file(path, domain, roles)
    with input_errors(str(path)):
        return encode_batches(records, domain, 1, digests=digests, mark_outside=mark_outside).parts[0]


def _tally_file(path: Opaque, *others: Opaque, domain: Opaque, roles: Opaque) -> TaskResult:
    """Read and tally a file on a worker."""
    return tally_rows(Opaque(_records_of_file(path.content, domain.content, roles.content)), *others)


def _records_of_file(path: Path, domain: Domain, roles: Roles) -> Iterator[Records]:
    """Yield the records of a file, which may have no rows."""
    try:
        yield from Files([path]).records(domain, roles)
    except NoRowsError:
        return
    except OSError:
        raise InputError(
            f"A worker of the Dask cluster cannot read {path}. All workers need the files at the same path."
        ) from None


def predict_partitions(X: Any, model: Any, method: str) -> Any:
    """Return the predictions of a method on every partition, as a lazy Dask Series or DataFrame."""
    if not isinstance(X, dd.DataFrame):
        raise TypeError(f"X is a Dask {type(X).__name__}. Pass a Dask DataFrame with the columns of the domain.")
    predictor = _Predictor(model, method)
    return X.map_partitions(predictor, meta=predictor(X._meta), token=method)


@dataclass(frozen=True, repr=False, eq=False)
class _Predictor:
    """Function that returns the predictions of a method on the rows of a partition."""

    model: Any
    method: str

    def __call__(self, rows: pd.DataFrame) -> pd.Series | pd.DataFrame:
        """Return predictions with the index of the rows."""
        predicted = getattr(self.model, self.method)(rows)
        if predicted.ndim == 1:
            return pd.Series(predicted, index=rows.index)
        columns = range(predicted.shape[1]) if self.method == "apply" else self.model.classes_  # by tree or class
        return pd.DataFrame(predicted, index=rows.index, columns=columns)

    def __dask_tokenize__(self) -> str:
        """Return a unique token, because comparing models takes longer than predicting again."""
        return uuid4().hex
